//! Cost per I/O from the difference of two lengths of one workload, which cancels the cost of start and end.

use super::measure::Measure;
use super::trials::{CountedTrial, PathTrials, WorkloadTrials, groups};
use crate::grouping::grouped;
use crate::stats::summarize;
use iopj_core::workload::Length;
use iopj_core::{CostSource, IoPath, Space, Workload};
use iopj_record::{Generator, Trial};
use serde::Serialize;
use std::collections::BTreeMap;

/// One path at the shortest and the longest length of a workload. Pairs are in that order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ByLength {
    /// The path.
    pub path: IoPath,
    /// Settings of the study.
    pub settings: BTreeMap<String, String>,
    /// What issued the I/O.
    pub generator: Generator,
    /// The workload, with its longest length.
    pub workload: Workload,
    /// Mean I/Os in the window.
    pub ios: [f64; 2],
    /// Trials.
    pub trials: [usize; 2],
    /// Costs in user space, then in the kernel.
    pub costs: Vec<Marginal>,
}

/// The cost of each further I/O.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Marginal {
    /// Who executed it.
    pub space: Space,
    /// What was counted.
    pub measure: Measure,
    /// The whole window's counts at the longest length less those at the shortest, over the difference in
    /// I/Os.
    pub per_io: f64,
    /// Its standard error; absent if a length has one trial.
    pub error: Option<f64>,
    /// The whole window's counts at the longest length over its I/Os, including the cost of start and end.
    pub plain_per_io: f64,
}

/// Every path that was not refuted, with exact counts at two numbers of I/Os or more.
pub(super) fn by_length(runs: &[(&Trial, CountedTrial<'_>)], paths: &[IoPath]) -> Vec<ByLength> {
    let groups = groups(runs, paths, 1);
    let exact = groups.iter().filter(|group| *group.source == CostSource::Exact);
    let counted = exact.filter(|group| matches!(group.workload.length, Length::Ios(_)));
    let keyed = counted.flat_map(|group| {
        let alike = Workload { length: Workload::default().length, ..group.workload.clone() };
        let cells = group.cells.iter().filter(|cell| !cell.refuted);
        cells.map(move |cell| ((alike.clone(), group.generator, cell.path, cell.settings), (group, cell)))
    });
    grouped(keyed).into_iter().filter_map(|(_, lengths)| difference(&lengths)).collect()
}

/// The first of `lengths` is the shortest, because groups are sorted by length.
fn difference(lengths: &[(&WorkloadTrials<'_>, &PathTrials<'_>)]) -> Option<ByLength> {
    let (short, (group, long)) = (lengths.first()?.1, *lengths.last()?);
    let ios = [short, long].map(|cell| cell.mean(&CountedTrial::ios));
    if ios[1] <= ios[0] {
        return None;
    }
    let all = |measure: &Measure| {
        [short, long]
            .iter()
            .flat_map(|cell| &cell.runs)
            .all(|run| Measure::available(&run.costs.kinds).contains(measure))
    };
    let measures = Measure::available(&long.runs.first()?.costs.kinds).into_iter().filter(all);
    let costs = measures.flat_map(|measure| [Space::User, Space::Kernel].map(|space| (space, measure)));
    let mut costs: Vec<Marginal> =
        costs.filter_map(|(space, measure)| marginal(short, long, ios, space, measure)).collect();
    costs.sort_by_key(|cost| cost.space == Space::Kernel);
    Some(ByLength {
        path: long.path,
        settings: long.settings.clone(),
        generator: group.generator,
        workload: group.workload.clone(),
        ios,
        trials: [short, long].map(|cell| cell.runs.len()),
        costs,
    })
}

fn marginal(
    short: &PathTrials<'_>,
    long: &PathTrials<'_>,
    ios: [f64; 2],
    space: Space,
    measure: Measure,
) -> Option<Marginal> {
    let count = |run: &CountedTrial<'_>| Some(measure.of(&run.costs.total(space)) as f64);
    let [a, b] = [summarize(&short.values(&count))?, summarize(&long.values(&count))?];
    let between = ios[1] - ios[0];
    let of_mean = |summary: crate::stats::Summary| summary.stddev / (summary.n as f64).sqrt();
    Some(Marginal {
        space,
        measure,
        per_io: (b.mean - a.mean) / between,
        error: (a.n > 1 && b.n > 1).then(|| of_mean(a).hypot(of_mean(b)) / between),
        plain_per_io: b.mean / ios[1],
    })
}
