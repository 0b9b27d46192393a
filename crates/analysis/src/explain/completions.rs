//! The three completions of `posix-sio`: the number of spins at which one costs as much as another, and
//! whether the orders of `poll22-5` hold per I/O, beside the paper's figures.

use super::fit::{Fitted, Term};
use super::measure::{MeanSpread, Measure};
use super::parts::is_in_group;
use super::trials::WorkloadTrials;
use crate::published_costs::{PublishedCosts, PublishedLoadsStores};
use crate::stats::{LEVEL, Method, holm, mean, over, t_test};
use iopj_core::{CompletionMode, IoPath, Rw, SioCompletion, Sleep, Workload};
use serde::Serialize;

/// Poll's `kernel/sched/` is near nothing below this share of interrupt's.
const NEAR_NOTHING: f64 = 0.1;

/// Interrupt, poll and hybrid side by side. Figures in threes are in that order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Completions {
    /// Their columns.
    pub columns: [usize; 3],
    /// The points where poll costs as much as another.
    pub crossings: Vec<Crossing>,
    /// The orders of `poll22-5`; empty where loads and stores were not counted.
    pub orders: Vec<OrderCheck>,
    /// The rows of `poll22` Table 2; empty for other workloads than 4 KiB random reads.
    pub table: Vec<PaperRow>,
}

/// The number of spins per I/O at which poll's kernel part reaches another completion's:
/// (`level` - `fixed`) / `per_spin`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Crossing {
    /// What was counted.
    pub measure: Measure,
    /// The other: interrupt that always sleeps, or hybrid as measured.
    pub against: CompletionMode,
    /// The crossing, or why it is unknown.
    pub outcome: CrossingOutcome,
}

/// The outcome of looking for a crossing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CrossingOutcome {
    /// Poll's cost reaches the other's.
    At {
        /// The other's cost: interrupt's fixed part and one sleep, or hybrid's mean.
        level: f64,
        /// Poll's fixed part.
        fixed: f64,
        /// Poll's part per spin.
        per_spin: f64,
        /// Spins per I/O; below zero if poll always costs more.
        spins: f64,
        /// Their standard error.
        error: Option<f64>,
        /// True if some part comes from the fit over all paths of the interface.
        pooled: bool,
        /// Poll's mean spins as measured.
        measured_spins: f64,
    },
    /// No fit gives poll's part per spin: none contains it, or it is not two standard errors above zero.
    UnknownPerSpin,
    /// Interrupt's runs do not determine its part per sleep.
    UnknownPerSleep,
}

/// One order of `poll22-5`, in loads plus stores per I/O.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OrderCheck {
    /// The source directory, or `total`.
    pub of: &'static str,
    /// The order in words.
    pub order: &'static str,
    /// Means per I/O.
    pub measured: [f64; 3],
    /// p-values of its parts, after Holm's correction over all orders; absent for one replicate.
    pub p_holm: Vec<Option<f64>>,
    /// Whether it holds.
    pub answer: OrderAnswer,
}

/// Whether an order holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderAnswer {
    /// Every part holds, beyond noise.
    Holds,
    /// A part is reversed, beyond noise.
    DoesNotHold,
    /// Neither.
    Undecided,
    /// Not asked, because the processor was emulated: how long poll and hybrid spin then means nothing.
    Emulated,
}

/// A row of `poll22` Table 2 beside what was measured; loads plus stores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PaperRow {
    /// The directory, or the functions in it.
    pub source: &'static str,
    /// Measured, per I/O.
    pub measured_per_io: [Option<MeanSpread>; 3],
    /// Published, millions a second.
    pub published_m_per_s: [f64; 3],
    /// Published, over the IOPS of the paper's Table 1 at 8 threads; approximate, because Table 2 is of 32.
    pub published_per_io_approx: [f64; 3],
}

/// `None` if one of the three is missing or refuted.
pub(super) fn completions(
    group: &WorkloadTrials<'_>,
    measures: &[Measure],
    fits: &[Fitted],
    (published, emulated): (&PublishedCosts, bool),
) -> Option<Completions> {
    let column = |mode: &dyn Fn(SioCompletion) -> bool| {
        let is = |path: IoPath| matches!(path, IoPath::PosixSio(own) if mode(own));
        group.cells.iter().position(|cell| !cell.refuted && is(cell.path))
    };
    let hybrid = column(&|mode| mode == SioCompletion::Hybrid(Sleep::Auto))
        .or_else(|| column(&|mode| matches!(mode, SioCompletion::Hybrid(_))))?;
    let columns = [
        column(&|mode| mode == SioCompletion::Interrupt)?,
        column(&|mode| mode == SioCompletion::Poll)?,
        hybrid,
    ];
    let counted = measures.contains(&Measure::LoadsPlusStores);
    let fitted: Vec<Measure> =
        measures.iter().copied().filter(|of| fits.iter().any(|fit| fit.measure == *of)).collect();
    let crossings = fitted.into_iter().flat_map(|measure| {
        [CompletionMode::Interrupt, CompletionMode::Hybrid].map(|against| Crossing {
            measure,
            against,
            outcome: reached(group, columns, measure, against, fits),
        })
    });
    Some(Completions {
        columns,
        crossings: crossings.collect(),
        orders: if counted { orders(group, columns, published, emulated) } else { Vec::new() },
        table: if counted && is_the_papers(group.workload) {
            table(group, columns, published)
        } else {
            Vec::new()
        },
    })
}

fn is_the_papers(workload: &Workload) -> bool {
    workload.rw == Rw::Randread && workload.bs == 4096
}

fn reached(
    group: &WorkloadTrials<'_>,
    [interrupt, poll, hybrid]: [usize; 3],
    measure: Measure,
    against: CompletionMode,
    fits: &[Fitted],
) -> CrossingOutcome {
    // A path's own fit first, then the one over its interface.
    let of = |column: usize| {
        fits.iter().filter(move |fit| fit.measure == measure && fit.columns.contains(&column))
    };
    let Some((line, per_spin)) = of(poll).find_map(|fit| Some((fit, fit.per_spin()?))) else {
        return CrossingOutcome::UnknownPerSpin;
    };
    let (level, pooled) = if against == CompletionMode::Hybrid {
        let costs = group.cells[hybrid].figure(&|run| Some(run.kernel_unlocked(measure)));
        let error = |figure: MeanSpread| figure.stddev.map(|stddev| stddev / (figure.n as f64).sqrt());
        (costs.map(|figure| Term { estimate: figure.mean, error: error(figure) }), false)
    } else {
        let fit = of(interrupt).find(|fit| fit.determines_a_sleep());
        (fit.and_then(|fit| fit.at(interrupt, 0.0, 1.0)), fit.is_some_and(|fit| fit.columns.len() > 1))
    };
    let (Some(level), Some(fixed)) = (level, line.at(poll, 0.0, 0.0)) else {
        return CrossingOutcome::UnknownPerSleep;
    };
    let spins = (level.estimate - fixed.estimate) / per_spin;
    let own = line.at(poll, spins, 0.0).and_then(|term| term.error);
    CrossingOutcome::At {
        level: level.estimate,
        fixed: fixed.estimate,
        per_spin,
        spins,
        error: own.zip(level.error).map(|(own, level)| own.hypot(level) / per_spin),
        pooled: pooled || line.columns.len() > 1,
        measured_spins: group.cells[poll].mean(&|run| run.spins().unwrap_or(0.0)),
    }
}

/// A part of an order: the lesser, the greater, and by what the greater is scaled.
type Pair = (usize, usize, f64);

/// The lesser's mean less the scaled greater's, and the p-value of their being equal.
type Test = (f64, Option<f64>);

const INTERRUPT: usize = 0;
const POLL: usize = 1;
const HYBRID: usize = 2;

/// An order: its group, its words, its parts.
type Asked = (&'static str, &'static str, &'static [Pair]);

/// The orders of `poll22-5`.
const ORDERS: [Asked; 6] = [
    ("kernel/sched/", "largest for hybrid", &[(INTERRUPT, HYBRID, 1.0), (POLL, HYBRID, 1.0)]),
    ("kernel/sched/", "poll below a tenth of interrupt", &[(POLL, INTERRUPT, NEAR_NOTHING)]),
    ("kernel/time/", "largest for hybrid", &[(INTERRUPT, HYBRID, 1.0), (POLL, HYBRID, 1.0)]),
    ("block/", "interrupt < hybrid < poll", &[(INTERRUPT, HYBRID, 1.0), (HYBRID, POLL, 1.0)]),
    ("drivers/nvme/host/", "interrupt < hybrid < poll", &[(INTERRUPT, HYBRID, 1.0), (HYBRID, POLL, 1.0)]),
    ("total", "interrupt < poll < hybrid", &[(INTERRUPT, POLL, 1.0), (POLL, HYBRID, 1.0)]),
];

/// Each involves poll or hybrid, so under emulation, where spins mean nothing, there are means and no
/// answers.
fn orders(
    group: &WorkloadTrials<'_>,
    columns: [usize; 3],
    published: &PublishedCosts,
    emulated: bool,
) -> Vec<OrderCheck> {
    let values = |of: &str| {
        columns.map(|column| {
            group.cells[column].values(&|run| {
                Some(run.sum(Measure::LoadsPlusStores, |function| is_in_group(published, function, of)))
            })
        })
    };
    let tested = |a: &[f64], b: &[f64]| {
        let test = t_test(Method::Welch, a, b).filter(|_| !emulated);
        test.map(|test| over(group.looks, test.p))
    };
    let tests = |(of, _, pairs): &Asked| -> Vec<Test> {
        let values = values(of);
        let test = |(less, more, factor): &Pair| {
            let scaled: Vec<f64> = values[*more].iter().map(|value| value * factor).collect();
            let less = &values[*less];
            (mean(less) - mean(&scaled), tested(less, &scaled))
        };
        pairs.iter().map(test).collect()
    };
    let tests: Vec<Vec<Test>> = ORDERS.iter().map(tests).collect();
    let p: Vec<f64> = tests.iter().flatten().filter_map(|(_, p)| *p).collect();
    let mut corrected = holm(&p).into_iter();
    let one = |((of, order, _), tests): (&Asked, Vec<Test>)| {
        let p_holm: Vec<Option<f64>> = tests.iter().map(|(_, p)| p.and_then(|_| corrected.next())).collect();
        let differences: Vec<f64> = tests.iter().map(|(difference, _)| *difference).collect();
        OrderCheck {
            of,
            order,
            measured: values(of).map(|values| mean(&values)),
            answer: if emulated { OrderAnswer::Emulated } else { answer(&differences, &p_holm) },
            p_holm,
        }
    };
    ORDERS.iter().zip(tests).map(one).collect()
}

fn answer(differences: &[f64], p: &[Option<f64>]) -> OrderAnswer {
    let beyond = |p: &Option<f64>| p.is_some_and(|p| p < LEVEL);
    let mut parts = differences.iter().zip(p);
    if parts.clone().any(|(difference, p)| *difference >= 0.0 && beyond(p)) {
        OrderAnswer::DoesNotHold
    } else if parts.all(|(difference, p)| *difference < 0.0 && beyond(p)) {
        OrderAnswer::Holds
    } else {
        OrderAnswer::Undecided
    }
}

fn table(group: &WorkloadTrials<'_>, columns: [usize; 3], published: &PublishedCosts) -> Vec<PaperRow> {
    let row = |row: &PublishedLoadsStores| {
        let of =
            |column: usize| {
                group.cells[column].figure(&|run| {
                    Some(run.sum(Measure::LoadsPlusStores, |function| {
                        is_in_group(published, function, row.source)
                    }))
                })
            };
        let modes = [CompletionMode::Interrupt, CompletionMode::Poll, CompletionMode::Hybrid];
        PaperRow {
            source: row.source,
            measured_per_io: columns.map(of),
            published_m_per_s: modes.map(|mode| row.of(mode)),
            published_per_io_approx: modes.map(|mode| published.approximate_per_io(row, mode)),
        }
    };
    published.groups().map(row).collect()
}
