//! The cost model of a kind of machine, by which its policy is derived: hosts are the replicates.

use super::KindReport;
use super::read::{Figure, KindTrials};
use iopj_core::{IoPath, Workload};
use iopj_model::{CalibrateError, Case, Model, Observation, Quantity};

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
    for workload in trials.workloads.numbers() {
        let text = trials.workload_json.get(workload as usize).map_or("", String::as_str);
        let Ok(parsed) = serde_json::from_str::<Workload>(text) else { continue };
        for path in trials.paths.numbers() {
            let Ok(asked) = trials.paths.name(path).parse::<IoPath>() else { continue };
            let Ok(case) = Case::of(asked, &parsed, trials.cores.max(1)) else { continue };
            let of = |(figure, quantity)| observation(trials, (workload, path), (case, figure, quantity));
            observations.extend(QUANTITIES.into_iter().filter_map(of));
        }
    }
    observations
}

fn observation(
    trials: &KindTrials,
    (workload, path): (u32, u32),
    (case, figure, quantity): (Case, Figure, Quantity),
) -> Option<Observation> {
    let hosts = trials.of_hosts(workload, path, figure);
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
