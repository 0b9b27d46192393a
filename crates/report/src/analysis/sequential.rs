//! Decisions of a study that adds blocks until they are made: which path does the most I/Os per second in
//! each workload, or which are equivalent, examined after each block.
//!
//! The tests are those of winner maps by blocks; the looks share the level. `docs/statistics.md` says why
//! that limits the rate of false winners, and how large the rate is.

use super::admission::Admission;
use super::contrast::Sample;
use super::figure::FigureName;
use super::grouping::{grouped, setup};
use super::metric::Metric;
use super::stats::Method;
use super::winner::{Axis, Decision, MapCell, WinnerQuestion, correct, rank};
use iopj_core::IoPath;
use iopj_store::{Sequential, StudyRecord, Trial};
use std::collections::BTreeMap;

/// What every decision is about: I/Os per second, or the figure of a program.
pub fn metric(trials: &[Trial]) -> Metric {
    if FigureName::of(trials).is_some() { Metric::Figure } else { Metric::Iops }
}

/// The decisions of a study's workloads, under the same settings and generator, after the measured blocks, in
/// the order in which the workloads first appear in `trials`. Trials that do not compete in winner maps do
/// not decide here either. Under emulation nothing is decided, because the metric is a time.
fn decide(study: &StudyRecord, trials: &[Trial], sequential: &Sequential) -> Vec<Decision> {
    let metric = metric(trials);
    let samples_of = |(_, trials): (_, Vec<&Trial>)| {
        let mut samples: BTreeMap<IoPath, Sample> = BTreeMap::new();
        for trial in trials.iter().filter(|_| study.emulated.is_none()) {
            let measurement = Admission::default().admit(trial).ok();
            if let Some(value) = measurement.and_then(|measurement| metric.value(measurement, None)) {
                samples.entry(trial.path).or_default().push((trial.replicate, value));
            }
        }
        samples
    };
    let groups = grouped(trials.iter().map(|trial| (setup(trial), trial)));
    let samples: Vec<_> = groups.into_iter().map(samples_of).collect();
    decisions(&samples, study.looks(), sequential.until).into_iter().map(|(decision, _)| decision).collect()
}

/// Each workload's decision at one of so many looks, and the best path with those that do not differ
/// significantly from it.
pub fn decisions(
    samples: &[BTreeMap<IoPath, Sample>],
    looks: u32,
    tolerance: f64,
) -> Vec<(Decision, Vec<IoPath>)> {
    // Any two axes will do: cells are ranked one by one.
    let (x, y) = (Axis::Bs, Axis::Iodepth);
    let (method, admission) = (Method::Paired, Admission::default());
    let question = WinnerQuestion { metric: Metric::Iops, x, y, method, admission, looks, tolerance };
    let family = samples.iter().filter(|samples| samples.len() > 1).count();
    let mut cells: Vec<MapCell> =
        samples.iter().map(|samples| rank(samples.clone(), &question, family)).collect();
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
pub(crate) fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

#[cfg(test)]
#[path = "sequential_tests.rs"]
mod tests;
