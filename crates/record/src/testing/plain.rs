//! Trials with chosen figures.

use crate::{Latency, Measurement, Slice, StudyRecord, Trial};
use iopj_core::{Verdict, VerdictKind, Workload};

/// A measured, verified trial of one second with this rate and, at a depth of 1, the latency that follows
/// from it.
pub fn trial(path: &str, workload: &Workload, replicate: u32, iops: u64) -> Trial {
    let mean_ns = 1e9 / iops.max(1) as f64;
    let measurement = Measurement {
        window_ns: 1_000_000_000,
        ios: iops,
        bytes: iops * u64::from(workload.bs),
        reads: iops,
        latency: Latency { count: iops, mean: mean_ns, p50: mean_ns as u64, ..Latency::default() },
        series: (1..=10).map(|slice| Slice { end_ns: slice * 100_000_000, ios: iops / 10 }).collect(),
        cpu_percent: 50.0,
        context_switches_per_io: 1.0,
        system_calls_per_io: Some(1.0),
        achieved_depth: 1.0,
        verdict: Verdict { kind: VerdictKind::Verified, reasons: Vec::new() },
        ..Measurement::default()
    };
    Trial { replicate, ..Trial::new(path.parse().unwrap(), workload.clone(), measurement.into()) }
}

/// The measurement of a trial, mutable.
pub fn measurement(trial: &mut Trial) -> &mut Measurement {
    trial.outcome.measurement_mut().expect("a trial that was measured")
}

/// The record of a study of this many trials.
pub fn study(planned_trials: u64) -> StudyRecord {
    StudyRecord { name: "known".into(), planned_trials, ..StudyRecord::default() }
}
