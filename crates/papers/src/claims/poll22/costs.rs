//! Loads and stores of *When Poll is More Energy Efficient than Interrupt*: its orders by kernel source
//! directory, per second at saturation; separately, those of the cost of an I/O that neither spins nor
//! sleeps.

use super::{HYBRID, INTERRUPT, POLL, shape, thread_counts, too_fast};
use crate::claims::comparison::{Against, Comparison, Relation};
use crate::claims::data::TrialSet;
use crate::claims::fixed::Fits;
use crate::claims::metrics::{ClaimMetric, millions_per_s};
use crate::claims::question::Question;
use crate::published;
use iopj_analysis::cost::{is_under, per_io_of};
use iopj_core::{CostKind, FunctionCost, IoPath};
use iopj_record::Measurement;

/// What to know about the answer.
pub(super) const NOTE: &str = "Decided as the paper counted: per second, of all orders, with 32 threads or \
                               more, which saturated its drive. How long a poller spins per I/O depends on \
                               the drive. Per I/O only the fixed parts are compared: what an I/O costs \
                               without spins and sleeps. They are reported separately and decide nothing. A \
                               fixed part is fitted over the trials of its path, or, where its spins or \
                               sleeps vary too little, over those of all three, assuming that a spin costs \
                               the same on each. A hybrid sleep, which sets a timer, has a part of its own.";

/// Threads at which the paper's drive is saturated.
const SATURATED: u32 = 32;

/// Near nothing, as a share of interrupt's.
const NEAR_NOTHING: f64 = 0.1;

/// A source of loads and stores: its name in the paper's table, and its figure per second.
struct CodeArea {
    printed: &'static str,
    per_s: ClaimMetric,
}

const TOTAL: CodeArea =
    CodeArea { printed: "total", per_s: millions_per_s("loads and stores, total", |m| rate(m, |_| true)) };

/// The source of a directory, which the closure cannot take as an argument.
macro_rules! directory {
    ($name:literal) => {
        CodeArea {
            printed: $name,
            per_s: millions_per_s(concat!("loads and stores, ", $name), |m| {
                rate(m, |one| is_under(one, $name))
            }),
        }
    };
}

const SCHED: CodeArea = directory!("kernel/sched/");
const BLOCK: CodeArea = directory!("block/");
const NVME: CodeArea = directory!("drivers/nvme/host/");
const TIME: CodeArea = directory!("kernel/time/");

impl CodeArea {
    fn holds(&self, function: &FunctionCost) -> bool {
        self.printed == TOTAL.printed || is_under(function, self.printed)
    }
}

/// The completion modes; orders name them by index.
const MODES: [IoPath; 3] = [INTERRUPT, POLL, HYBRID];
/// The orders of a source: which mode is less or more than which, by index in [`MODES`].
type Orders = (CodeArea, [(Relation, [usize; 2]); 2]);

const ORDERS: [Orders; 5] = [
    (TOTAL, [(Relation::Less, [0, 1]), (Relation::Less, [1, 2])]),
    (SCHED, [(Relation::More, [2, 0]), (Relation::More, [2, 1])]),
    (BLOCK, [(Relation::Less, [0, 2]), (Relation::Less, [2, 1])]),
    (NVME, [(Relation::Less, [0, 2]), (Relation::Less, [2, 1])]),
    (TIME, [(Relation::More, [2, 0]), (Relation::More, [2, 1])]),
];

/// Millions per second of the functions that belong.
fn rate(measurement: &Measurement, belongs: fn(&FunctionCost) -> bool) -> Option<f64> {
    let of = |kind| per_io_of(measurement, kind, belongs);
    let per_io = of(CostKind::Loads)? + of(CostKind::Stores)?;
    let (window_s, ios) = (measurement.window_ns as f64 / 1e9, measurement.evidence.ios() as f64);
    (window_s > 0.0).then_some(per_io * ios / window_s / 1e6)
}

/// All orders of the claim per second at saturation, and those of the fixed parts for every measured thread
/// count.
pub(super) fn orders<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    let saturated = thread_counts(data, |numjobs| numjobs >= SATURATED, SATURATED);
    let decide = saturated.into_iter().flat_map(|numjobs| at_saturation(data, numjobs));
    let measured = data.shapes(&MODES, |one| *one == shape(one.numjobs));
    let apart = measured.into_iter().flat_map(|shape| of_fixed_parts(data, shape.numjobs));
    decide.chain(apart.map(|question| Question::Apart(Box::new(question)))).collect()
}

fn at_saturation<'a>(data: &TrialSet<'a>, numjobs: u32) -> Vec<Question<'a>> {
    let of = |(source, orders): &Orders| -> Vec<Question<'a>> {
        let order = |(relation, [path, other]): (Relation, [usize; 2])| {
            let against = Against::Cell(data.cell(MODES[other], shape(numjobs)));
            question(data, source, numjobs, [MODES[path], MODES[other]], (relation, against))
        };
        orders.map(order).into()
    };
    ORDERS.iter().flat_map(of).chain([near_nothing(data, numjobs)]).collect()
}

/// Poll hardly enters the scheduler: a question only if interrupt sleeps.
fn near_nothing<'a>(data: &TrialSet<'a>, numjobs: u32) -> Question<'a> {
    let interrupt = data.cell(INTERRUPT, shape(numjobs));
    if let Some(need) = too_fast(&interrupt) {
        let text = format!("{}: {POLL} less than {NEAR_NOTHING} of {INTERRUPT}", SCHED.per_s.name);
        return Question::missing_for(text, interrupt.shape, need);
    }
    let less = (Relation::Less, Against::Share(NEAR_NOTHING, interrupt));
    question(data, &SCHED, numjobs, [POLL, INTERRUPT], less)
}

/// A completion mode's loads and stores per second, compared with another's.
fn question<'a>(
    data: &TrialSet<'a>,
    source: &CodeArea,
    numjobs: u32,
    [path, other]: [IoPath; 2],
    (relation, against): (Relation, Against<'a>),
) -> Question<'a> {
    // The paper prints counts per second at 32 threads.
    let printed = |path: IoPath| Some(published::loads_stores(source.printed)?.of(path.completion()));
    let published = if numjobs == SATURATED { [path, other].map(printed) } else { [None; 2] };
    let comparison = Comparison::of(data, source.per_s, (path, shape(numjobs)), relation, against);
    Question::Compare(comparison.printed(published))
}

/// The orders of the cost of an I/O that neither spins nor sleeps. That poll hardly enters the scheduler is
/// not among them, because poll saves the sleep there.
fn of_fixed_parts<'a>(data: &TrialSet<'a>, numjobs: u32) -> Vec<Question<'a>> {
    let of = |source: &CodeArea| format!("fixed part of loads and stores per I/O, {}", source.printed);
    let fits = match Fits::of(MODES.map(|path| data.cell(path, shape(numjobs))).into()) {
        Ok(fits) => fits,
        Err(path) => {
            let at = shape(numjobs).to_string();
            let need =
                format!("exact counts of calls, loads and stores of {path}, {at} (`iopj lab run --exact`)");
            return vec![Question::missing_for("fixed parts of loads and stores per I/O", at, need)];
        }
    };
    // The total is a question about a saturated drive.
    let asked = ORDERS.iter().filter(|(source, _)| numjobs >= SATURATED || source.printed != TOTAL.printed);
    let parts = |(source, orders): &Orders| -> Vec<Question<'a>> {
        let (what, fit) = (of(source), fits.fit(|function| source.holds(function)));
        orders.map(|(relation, places)| Question::Fixed(fits.part((&what, &fit), relation, places))).into()
    };
    asked.flat_map(parts).collect()
}
