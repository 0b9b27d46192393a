//! Decisions of a study that adds blocks until they are made: which path does the most I/Os per second in
//! each workload, or which are equivalent, examined after each block.
//!
//! The tests are those of winner maps by blocks; the looks share the level. `docs/statistics.md` says why
//! that limits the rate of false winners, and how large the rate is.

use super::admission::Admission;
use super::contrast::{Sample, pairs};
use super::grouping::{grouped, setup};
use super::metric::Metric;
use super::stats::{LEVEL, Method, equivalent, holm_over_tested, over};
use super::winner::{Axis, Decision, MapCell, RankedPath, WinnerQuestion, correct, rank};
use iopj_core::IoPath;
use iopj_store::{Sequential, StudyRecord, Trial};
use std::collections::BTreeMap;

/// What every decision is about.
pub const METRIC: Metric = Metric::Iops;

/// The state of a workload's decision, under the same settings and generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionState {
    /// One path is best.
    Winner,
    /// All paths that do not differ significantly from the best are equivalent to it.
    Equivalent,
    /// Neither yet.
    Open,
    /// Fewer than two paths compete.
    Nothing,
}

/// The states of the decisions of a study's workloads after the measured blocks, in the order in which the
/// workloads first appear in `trials`. Trials that do not compete in winner maps do not decide here either.
/// Under emulation nothing is decided, because the metric is a time.
fn decide(study: &StudyRecord, trials: &[Trial], sequential: &Sequential) -> Vec<DecisionState> {
    let samples_of = |(_, trials): (_, Vec<&Trial>)| {
        let mut samples: BTreeMap<IoPath, Sample> = BTreeMap::new();
        for trial in trials.iter().filter(|_| study.emulated.is_none()) {
            let measurement = Admission::default().admit(trial).ok();
            if let Some(value) = measurement.and_then(|measurement| METRIC.value(measurement, None)) {
                samples.entry(trial.path).or_default().push((trial.replicate, value));
            }
        }
        samples
    };
    let groups = grouped(trials.iter().map(|trial| (setup(trial), trial)));
    let samples: Vec<_> = groups.into_iter().map(samples_of).collect();
    decision_states(&samples, sequential).into_iter().map(|(state, _)| state).collect()
}

/// The state of each workload's decision, and the best path with those that do not differ significantly from
/// it.
pub fn decision_states(
    samples: &[BTreeMap<IoPath, Sample>],
    sequential: &Sequential,
) -> Vec<(DecisionState, Vec<IoPath>)> {
    let looks = sequential.looks();
    // Any two axes will do: cells are ranked one by one.
    let (x, y) = (Axis::Bs, Axis::Iodepth);
    let admission = Admission::default();
    let question = WinnerQuestion { metric: METRIC, x, y, method: Method::Paired, admission, looks };
    let family = samples.iter().filter(|samples| samples.len() > 1).count();
    let mut cells: Vec<MapCell> =
        samples.iter().map(|samples| rank(samples.clone(), &question, family)).collect();
    let apart: Vec<Option<f64>> =
        cells.iter().zip(samples).map(|(cell, samples)| equivalence(cell, samples, sequential)).collect();
    correct(cells.iter_mut());
    let corrected = holm_over_tested(&apart);
    let state_of = |(cell, equivalent): (&MapCell, Option<f64>)| {
        let is_equivalent = equivalent.is_some_and(|p| p <= LEVEL);
        let state = match cell.decision() {
            Decision::Winner => DecisionState::Winner,
            Decision::Alone | Decision::Empty => DecisionState::Nothing,
            Decision::Tie | Decision::Undecided if is_equivalent => DecisionState::Equivalent,
            Decision::Tie | Decision::Undecided => DecisionState::Open,
        };
        let leads = |(at, place): &(usize, &RankedPath)| match state {
            DecisionState::Winner | DecisionState::Nothing => *at == 0,
            _ => *at == 0 || !is_significant(place),
        };
        (state, cell.ranking.iter().enumerate().filter(leads).map(|(_, place)| place.path).collect())
    };
    cells.iter().zip(corrected).map(state_of).collect()
}

/// The p-value, for all looks, of every other path being equivalent to the best or differing from it: the
/// greatest over the paths. `None` if one of them has no test.
fn equivalence(cell: &MapCell, samples: &BTreeMap<IoPath, Sample>, sequential: &Sequential) -> Option<f64> {
    let (best, others) = cell.ranking.split_first()?;
    let of_others = others.iter().map(|place| {
        let (best, other): (Vec<f64>, Vec<f64>) =
            pairs(&samples[&best.path], &samples[&place.path]).into_iter().unzip();
        let p = equivalent(Method::Paired, &best, &other, sequential.until);
        let p = p.map(|p| over(sequential.looks(), p))?;
        Some(place.p.map_or(p, |significance| significance.min(p)))
    });
    of_others.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
}

/// True if a path differs significantly from the best of its cell.
fn is_significant(place: &RankedPath) -> bool {
    place.p.is_some_and(|p| p <= LEVEL)
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
    let count = |state| decided.iter().filter(|one| **one == state).count();
    let (all, open) = (decided.len(), count(DecisionState::Open));
    if open > 0 {
        return (open, format!("undecided in {open} of {all} workloads"));
    }
    let counts = [
        (count(DecisionState::Winner), "with a winner".to_owned()),
        (count(DecisionState::Equivalent), format!("equivalent within {} %", percent(sequential.until))),
        (count(DecisionState::Nothing), "where fewer than two paths compete".to_owned()),
    ];
    let parts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    (0, format!("no decision is open in {all} workloads: {}", parts.collect::<Vec<_>>().join(", ")))
}

/// A share in per cent, without binary rounding noise.
fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

#[cfg(test)]
#[path = "sequential_tests.rs"]
mod tests;
