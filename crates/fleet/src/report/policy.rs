//! The cost model of a kind of machine, by which its policy is derived: hosts are the replicates.

use super::KindReport;
use super::read::{Figure, KindTrials};
use iopj_core::{IoPath, Workload};
use iopj_model::formula::spinners;
use iopj_model::{CalibrateError, Case, Model, Observation, Quantity};
use std::collections::BTreeMap;

/// What is observed, as the model names it.
const QUANTITIES: [(Figure, Quantity); 5] = [
    (Figure::Iops, Quantity::Iops),
    (Figure::LatencyMean, Quantity::LatencyMean),
    (Figure::LatencyP99, Quantity::LatencyP99),
    (Figure::CpuNsPerIo, Quantity::CpuPerIo),
    (Figure::Watts, Quantity::Watts),
];

/// The quantities of all cases that a model describes.
pub(super) fn observations(trials: &KindTrials) -> Vec<Observation> {
    let mut observations = Vec::new();
    let usual = usual(trials);
    // A model speaks of a path at every depth and size: one is left out that any set-up cannot rely on.
    let measured = |path: u32| usual.iter().filter(move |setup| trials.of(**setup, path).next().is_some());
    let is_sound = |path: &u32| measured(*path).all(|setup| trials.is_sound(*setup, *path));
    let sound: Vec<u32> = trials.paths.numbers().filter(is_sound).collect();
    for setup in usual.iter().copied() {
        let text = &trials.parts[setup as usize].workload_json;
        let Ok(parsed) = serde_json::from_str::<Workload>(text) else { continue };
        for path in sound.iter().copied() {
            let Ok(asked) = trials.paths.name(path).parse::<IoPath>() else { continue };
            let Ok(case) = Case::of(asked, &parsed, trials.cores.max(1)) else { continue };
            // Their figures are the scheduler's, as in a model of one store.
            if spinners(&case) > case.cores {
                continue;
            }
            let of = |(figure, quantity)| observation(trials, (setup, path), (case, figure, quantity));
            observations.extend(QUANTITIES.into_iter().filter_map(of));
        }
    }
    observations
}

/// The set-ups with the settings and the generator of most trials: a model is of one of each.
fn usual(trials: &KindTrials) -> Vec<u32> {
    let with = |setup: u32| trials.parts.get(setup as usize).map(|one| (&one.settings, &one.generator));
    let mut counts: BTreeMap<_, u64> = BTreeMap::new();
    for ((setup, ..), cell) in &trials.cells {
        *counts.entry(with(*setup)).or_default() += u64::from(cell.competing);
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count).and_then(|(with, _)| with);
    trials.setups.numbers().filter(|setup| most.is_some() && with(*setup) == most).collect()
}

fn observation(
    trials: &KindTrials,
    (setup, path): (u32, u32),
    (case, figure, quantity): (Case, Figure, Quantity),
) -> Option<Observation> {
    let hosts = trials.of_hosts(setup, path, figure);
    let logs: Vec<f64> = hosts.into_iter().map(|(_, value)| value.ln()).collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    let variance = if logs.len() > 1 { squares / (n - 1.0) / n } else { 0.0 };
    let replicates = u32::try_from(logs.len()).unwrap_or(u32::MAX);
    (!logs.is_empty()).then(|| Observation { case, quantity, value: mean.exp(), variance, replicates })
}

/// The cost model of a kind.
///
/// # Errors
/// There are too few cases, or no parameters fit.
pub fn model(kind: &KindReport) -> Result<Model, CalibrateError> {
    Model::calibrate(&kind.observations, kind.provenance.clone())
}
