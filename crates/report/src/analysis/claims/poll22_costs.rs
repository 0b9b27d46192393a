//! Loads and stores of *When Poll is More Energy Efficient than Interrupt*: its orders by kernel source directory, each per I/O
//! and per second.

use super::poll22::{HYBRID, INTERRUPT, POLL, shape, thread_counts, too_fast};
use super::rule::{Against, Comparison, Data, Metric, Question, Relation, count, millions_per_s};
use crate::analysis::cost::{is_under, per_io_of};
use crate::analysis::published;
use iopj_core::{CostKind, IoPath};
use iopj_store::Measurement;

/// What to know about the answer.
pub(super) const NOTE: &str = "Counts per I/O differ from the paper's: it counted by a PMU and per second, with 32 threads that \
                               saturate the drive, and how long a poller spins on an I/O depends on the drive. The total, user \
                               space included, is held against the paper's at 32 threads or more alone.";

/// Threads at which the paper's drive is saturated.
const SATURATED: u32 = 32;

/// Near nothing: poll's share of interrupt's.
const NEAR_NOTHING: f64 = 0.1;

/// A source of loads and stores: its figures per I/O and per second, and its name in the paper's table.
struct Source {
    printed: &'static str,
    per_io: Metric,
    per_s: Metric,
}

const TOTAL: Source = Source {
    printed: "total",
    per_io: count("loads and stores per I/O, total", total),
    per_s: millions_per_s("loads and stores, total", |m| rate(m, total(m))),
};

/// The source of a directory, which the closures cannot take as an argument.
macro_rules! directory {
    ($name:literal) => {
        Source {
            printed: $name,
            per_io: count(concat!("loads and stores per I/O, ", $name), |m| under(m, $name)),
            per_s: millions_per_s(concat!("loads and stores, ", $name), |m| rate(m, under(m, $name))),
        }
    };
}

const SCHED: Source = directory!("kernel/sched/");
const BLOCK: Source = directory!("block/");
const NVME: Source = directory!("drivers/nvme/host/");
const TIME: Source = directory!("kernel/time/");

fn total(measurement: &Measurement) -> Option<f64> {
    let of = |kind| per_io_of(measurement, kind, |_| true);
    Some(of(CostKind::Loads)? + of(CostKind::Stores)?)
}

fn under(measurement: &Measurement, directory: &str) -> Option<f64> {
    let of = |kind| per_io_of(measurement, kind, |function| is_under(function, directory));
    Some(of(CostKind::Loads)? + of(CostKind::Stores)?)
}

/// Millions a second of a count per I/O.
fn rate(measurement: &Measurement, per_io: Option<f64>) -> Option<f64> {
    let window_s = measurement.window_ns as f64 / 1e9;
    let ios = measurement.evidence.ios() as f64;
    (window_s > 0.0).then_some(per_io? * ios / window_s / 1e6)
}

/// All orders of the claim, per I/O and then per second, for every thread count that was measured.
pub(super) fn orders<'a>(data: &Data<'a>) -> Vec<Question<'a>> {
    let counts = thread_counts(data, |_| true, SATURATED);
    counts
        .into_iter()
        .flat_map(|numjobs| [false, true].map(|per_s| (numjobs, per_s)))
        .flat_map(|at| of(data, at))
        .collect()
}

fn of<'a>(data: &Data<'a>, (numjobs, per_s): (u32, bool)) -> Vec<Question<'a>> {
    let less = |source: &Source, path, other| compare(data, source, (numjobs, per_s), path, Relation::Less, other);
    let more = |source: &Source, path, other| compare(data, source, (numjobs, per_s), path, Relation::More, other);
    let mut questions = Vec::new();
    if numjobs >= SATURATED {
        questions.extend([less(&TOTAL, INTERRUPT, POLL), less(&TOTAL, POLL, HYBRID)]);
    }
    questions.extend([more(&SCHED, HYBRID, INTERRUPT), more(&SCHED, HYBRID, POLL)]);
    questions.push(near_nothing(data, (numjobs, per_s)));
    for source in [BLOCK, NVME] {
        questions.extend([less(&source, INTERRUPT, HYBRID), less(&source, HYBRID, POLL)]);
    }
    questions.extend([more(&TIME, HYBRID, INTERRUPT), more(&TIME, HYBRID, POLL)]);
    questions
}

/// A completion mode against another in the loads and stores of a source.
fn compare<'a>(
    data: &Data<'a>,
    source: &Source,
    (numjobs, per_s): (u32, bool),
    path: IoPath,
    relation: Relation,
    other: IoPath,
) -> Question<'a> {
    let against = Against::Cell(data.cell(other, shape(numjobs)));
    question(data, source, (numjobs, per_s), path, relation, against, other)
}

/// Poll hardly enters the scheduler: a question only where interrupt sleeps.
fn near_nothing<'a>(data: &Data<'a>, (numjobs, per_s): (u32, bool)) -> Question<'a> {
    let interrupt = data.cell(INTERRUPT, shape(numjobs));
    if let Some(need) = too_fast(&interrupt) {
        let unit = if per_s { "" } else { " per I/O" };
        let text = format!("loads and stores{unit}, kernel/sched/: {POLL} less than {NEAR_NOTHING} of {INTERRUPT}");
        return Question::Missing { text, at: interrupt.shape.to_string(), need };
    }
    let against = Against::Share(NEAR_NOTHING, interrupt);
    question(data, &SCHED, (numjobs, per_s), POLL, Relation::Less, against, INTERRUPT)
}

fn question<'a>(
    data: &Data<'a>,
    source: &Source,
    (numjobs, per_s): (u32, bool),
    path: IoPath,
    relation: Relation,
    against: Against<'a>,
    other: IoPath,
) -> Question<'a> {
    // The paper prints counts a second at 32 threads, and no counts per I/O.
    let printed = |path: IoPath| Some(published::loads_stores(source.printed)?.of(path.completion()));
    let published = if per_s && numjobs == SATURATED { [printed(path), printed(other)] } else { [None; 2] };
    let metric = if per_s { source.per_s } else { source.per_io };
    Question::Compare(Comparison { metric, cell: data.cell(path, shape(numjobs)), relation, against, published })
}
