//! The differences between two paths, and the io_uring path that costs the kernel least.

use super::measure::Measure;
use super::parts::{USER_SPACE, directory_names, is_in};
use super::trials::{CountedTrial, PathTrials, WorkloadTrials};
use crate::stats::{LEVEL, Method, holm_over_tested, mean, over, t_test};
use iopj_core::CompletionMode;
use serde::Serialize;

/// One path compared with another of its block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathDifference {
    /// The column that is explained.
    pub path: usize,
    /// The column that it is compared with.
    pub from: usize,
    /// The measure of `kernel` and `parts`.
    pub measure: Measure,
    /// Sleeps, interrupts and spins per I/O, as far as both have them.
    pub events: Vec<CostChange>,
    /// The kernel's whole part.
    pub kernel: CostChange,
    /// The kernel's source directories and user space: changes beyond noise first, then by size.
    pub parts: Vec<CostChange>,
}

/// A figure per I/O that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostChange {
    /// What it is of.
    pub name: String,
    /// The mean that it is compared with.
    pub from: f64,
    /// The mean less that.
    pub change: f64,
    /// Two-sided p-value of Welch's test, after Holm's correction over the changes listed with it; absent for
    /// one replicate.
    pub p_holm: Option<f64>,
}

impl CostChange {
    /// True if the change is beyond noise; absent for one replicate, which shows no noise.
    pub fn is_beyond_noise(&self) -> Option<bool> {
        self.p_holm.map(|p| p < LEVEL)
    }
}

/// Every path that was not refuted, compared with the first if `by_order`, else with the first interrupt path
/// of its interface, and that one with the first of the block. A path that chooses belongs to no interface:
/// bound to one way it is compared with the path of that way, which shows what choosing costs, else with the
/// first of the block.
pub(super) fn differences(
    group: &WorkloadTrials<'_>,
    measure: Measure,
    by_order: bool,
) -> Vec<PathDifference> {
    let compared: Vec<usize> = (0..group.cells.len()).filter(|at| !group.cells[*at].refuted).collect();
    let Some(&first) = compared.first() else { return Vec::new() };
    let reference = |at: usize| {
        let path = &group.cells[at].path;
        let way = path.auto().and_then(|auto| auto.pinned()).map(|way| way.to_string());
        let same = |other: &&usize| {
            let other = &group.cells[**other].path;
            match (path.auto(), &way) {
                (Some(_), Some(way)) => other.to_string() == *way,
                (Some(_), None) => false,
                (None, _) => {
                    other.interface() == path.interface() && other.completion() == CompletionMode::Interrupt
                }
            }
        };
        let own = compared.iter().find(same).filter(|own| **own != at && !by_order);
        own.copied().unwrap_or(first)
    };
    let pairs = compared.iter().map(|at| (*at, reference(*at))).filter(|(at, from)| at != from);
    pairs.map(|(path, from)| difference(group, measure, path, from)).collect()
}

fn difference(group: &WorkloadTrials<'_>, measure: Measure, path: usize, from: usize) -> PathDifference {
    let (a, b) = (&group.cells[path], &group.cells[from]);
    let events: Vec<(String, [Vec<f64>; 2])> = vec![
        ("sleeps".to_owned(), both(a, b, &|run| Some(run.sleeps()))),
        ("interrupts".to_owned(), both(a, b, &|run| run.measurement.interrupts_per_io)),
        ("spins".to_owned(), both(a, b, &CountedTrial::spins)),
    ];
    let known = events.into_iter().filter(|(_, [a, b])| !a.is_empty() && !b.is_empty()).collect();
    let kernel = both(a, b, &|run| Some(run.kernel(measure)));
    let names = directory_names(&[a, b]).into_iter().chain([USER_SPACE]);
    let parts = names.map(|name| {
        (name.to_owned(), both(a, b, &|run| Some(run.sum(measure, |function| is_in(function, name)))))
    });
    let mut parts = changes(parts.collect(), group.looks);
    parts.retain(|part| part.change != 0.0);
    parts.sort_by(|a, b| {
        let noise = |part: &CostChange| part.is_beyond_noise() == Some(false);
        noise(a).cmp(&noise(b)).then_with(|| b.change.abs().total_cmp(&a.change.abs()))
    });
    let kernel = changes(vec![("kernel".to_owned(), kernel)], group.looks).remove(0);
    PathDifference { path, from, measure, events: changes(known, group.looks), kernel, parts }
}

fn both<'a>(
    a: &PathTrials<'a>,
    b: &PathTrials<'a>,
    of: &dyn Fn(&CountedTrial<'a>) -> Option<f64>,
) -> [Vec<f64>; 2] {
    [a.values(of), b.values(of)]
}

/// Tests the pairs of samples as one family. No sample is empty.
fn changes(samples: Vec<(String, [Vec<f64>; 2])>, looks: u32) -> Vec<CostChange> {
    let p = |[a, b]: &[Vec<f64>; 2]| Some(over(looks, t_test(Method::Welch, a, b)?.p));
    let p: Vec<Option<f64>> = samples.iter().map(|(_, both)| p(both)).collect();
    let one = |((name, [a, b]), p_holm): ((String, [Vec<f64>; 2]), Option<f64>)| CostChange {
        name,
        from: mean(&b),
        change: mean(&a) - mean(&b),
        p_holm,
    };
    samples.into_iter().zip(holm_over_tested(&p)).map(one).collect()
}

/// The io_uring path with the fewest kernel instructions per I/O (or the least of the block's first measure,
/// if they were not counted).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheapestRing {
    /// What was counted.
    pub measure: Measure,
    /// The column with the least mean.
    pub best: usize,
    /// Its mean per I/O in the kernel.
    pub per_io: f64,
    /// Columns that do not differ from it beyond noise, by Welch's test after Holm's correction over the
    /// other columns.
    pub undecided: Vec<usize>,
    /// Columns that cannot be tested: one of the two has one replicate.
    pub untested: Vec<usize>,
}

/// `None` without two io_uring paths that were not refuted.
pub(super) fn fewest(group: &WorkloadTrials<'_>, measure: Measure) -> Option<CheapestRing> {
    let is_ring = |at: &usize| group.cells[*at].path.interface() == "io_uring" && !group.cells[*at].refuted;
    let rings: Vec<usize> = (0..group.cells.len()).filter(is_ring).collect();
    let mean = |at: usize| group.cells[at].mean(&|run| run.kernel(measure));
    let best =
        rings.iter().copied().min_by(|a, b| mean(*a).total_cmp(&mean(*b))).filter(|_| rings.len() > 1)?;
    let others: Vec<usize> = rings.into_iter().filter(|at| *at != best).collect();
    let samples = others.iter().map(|at| {
        let (other, best) = (&group.cells[*at], &group.cells[best]);
        (String::new(), both(other, best, &|run| Some(run.kernel(measure))))
    });
    let tested: Vec<Option<bool>> =
        changes(samples.collect(), group.looks).iter().map(CostChange::is_beyond_noise).collect();
    let those = |outcome: Option<bool>| {
        others.iter().zip(&tested).filter(|(_, tested)| **tested == outcome).map(|(at, _)| *at).collect()
    };
    Some(CheapestRing {
        measure,
        best,
        per_io: mean(best),
        undecided: those(Some(false)),
        untested: those(None),
    })
}
