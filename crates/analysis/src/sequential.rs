//! Decisions of a study that adds blocks until they are made: which path is best in each workload, by I/Os
//! per second, by mean latency under an open load, by the figure of a program; or which are equivalent,
//! examined after each block.
//!
//! The tests are those of winner maps by blocks; the looks share the level. `docs/statistics.md` says why
//! that limits the rate of false winners, and how large the rate is.

use super::admission::Admission;
use super::contrast::Sample;
use super::grouping::{ascending, grouped, setup};
use super::metric::Metric;
use super::stats::Method;
use super::winner::{Axis, Decision, MapCell, WinnerQuestion, correct, rank};
use iopj_core::{IoPath, Workload};
use iopj_record::{Sequential, StudyRecord, Trial};
use std::collections::BTreeMap;

/// What is examined of a workload: the metric that decides it, and the values of each path.
pub type Examined = (Metric, BTreeMap<IoPath, Sample>);

/// What the decisions about these trials are by.
pub fn metrics(trials: &[Trial]) -> Vec<Metric> {
    ascending(trials.iter().map(|trial| Metric::deciding(&trial.workload)))
}

/// The decisions of a study's workloads, under the same settings and generator, after the measured blocks, in
/// the order in which the workloads first appear in `trials`. Trials that do not compete in winner maps do
/// not decide here either. Under emulation nothing is decided, because the metrics are times.
fn decide(study: &StudyRecord, trials: &[Trial], sequential: &Sequential) -> Vec<Decision> {
    let examined = |((workload, ..), trials): ((&Workload, _, _), Vec<&Trial>)| {
        let metric = Metric::deciding(workload);
        let mut samples: BTreeMap<IoPath, Sample> = BTreeMap::new();
        let competing = |trial: &&&Trial| study.emulated.is_none() && !trial.path.is_baseline();
        for trial in trials.iter().filter(competing) {
            let measurement = Admission::default().admit(trial).ok();
            if let Some(value) = measurement.and_then(|measurement| metric.value(measurement, None)) {
                samples.entry(trial.path).or_default().push((trial.replicate, value));
            }
        }
        (metric, samples)
    };
    let groups = grouped(trials.iter().map(|trial| (setup(trial), trial)));
    let examined: Vec<Examined> = groups.into_iter().map(examined).collect();
    decisions(&examined, study.looks(), sequential.until).into_iter().map(|(decision, _)| decision).collect()
}

/// Each workload's decision at one of so many looks, and the best path with those that do not differ
/// significantly from it.
pub fn decisions(examined: &[Examined], looks: u32, tolerance: f64) -> Vec<(Decision, Vec<IoPath>)> {
    // Any two axes will do: cells are ranked one by one.
    let (x, y) = (Axis::Bs, Axis::Iodepth);
    let (method, admission) = (Method::Paired, Admission::default());
    let family = examined.iter().filter(|(_, samples)| samples.len() > 1).count();
    let of_workload = |(metric, samples): &Examined| {
        let question = WinnerQuestion { metric: *metric, x, y, method, admission, looks, tolerance };
        rank(samples.clone(), &question, family)
    };
    let mut cells: Vec<MapCell> = examined.iter().map(of_workload).collect();
    correct(cells.iter_mut());
    let of = |cell: &MapCell| (cell.decision(), cell.best().iter().map(|place| place.path).collect());
    cells.iter().map(of).collect()
}

/// The number of open decisions, and a sentence about them.
pub fn look(study: &StudyRecord, trials: &[Trial]) -> (usize, String) {
    let Some(sequential) = &study.sequential else {
        return (0, "the number of blocks was set in advance".to_owned());
    };
    if let Some(emulator) = &study.emulated {
        return (0, format!("times decide nothing under {emulator}, where they mean nothing"));
    }
    let decided = decide(study, trials, sequential);
    let count = |decision| decided.iter().filter(|one| **one == decision).count();
    let (all, open) = (decided.len(), count(Decision::Undecided));
    if open > 0 {
        return (open, format!("undecided in {open} of {all} workloads"));
    }
    let counts = [
        (count(Decision::Wins), "where one path wins".to_owned()),
        (count(Decision::Equal), format!("where the best are equal within {} %", percent(sequential.until))),
        (count(Decision::Alone) + count(Decision::Empty), "where fewer than two paths compete".to_owned()),
    ];
    let parts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    (0, format!("no decision is open in {all} workloads: {}", parts.collect::<Vec<_>>().join(", ")))
}

/// A share in per cent, without binary rounding noise.
pub fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

#[cfg(test)]
mod tests;
