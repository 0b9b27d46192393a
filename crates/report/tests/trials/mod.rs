//! Trials with chosen figures.

use iopj_core::evidence::Finding;
use iopj_core::{Evidence, Observed, Verdict, VerdictKind, Workload};
use iopj_store::{Generator, Latency, Measurement, Outcome, Slice, StudyRecord, Trial};
use std::collections::BTreeMap;

/// A measured, verified trial of one second with this rate and, at a depth of 1, the latency that follows
/// from it.
pub(crate) fn trial(path: &str, workload: &Workload, replicate: u32, iops: u64) -> Trial {
    let mean_ns = 1e9 / iops.max(1) as f64;
    let unclear = || "not looked at".to_owned();
    let measurement = Measurement {
        window_ns: 1_000_000_000,
        ios: iops,
        bytes: iops * u64::from(workload.bs),
        reads: iops,
        writes: 0,
        short_ios: 0,
        latency: Latency { count: iops, mean: mean_ns, p50: mean_ns as u64, ..Latency::default() },
        read_latency: None,
        write_latency: None,
        series: (1..=10).map(|slice| Slice { end_ns: slice * 100_000_000, ios: iops / 10 }).collect(),
        cpu_percent: 50.0,
        context_switches_per_io: 1.0,
        interrupts_per_io: None,
        system_calls_per_io: Some(1.0),
        achieved_depth: 1.0,
        preconditioning: None,
        evidence: Evidence::default(),
        observed: Observed {
            completion: Finding::Unclear(unclear()),
            submission: Finding::Unclear(unclear()),
            doubt: None,
        },
        verdict: Verdict { kind: VerdictKind::Verified, reasons: Vec::new() },
        conditions: Default::default(),
        power_state: Default::default(),
        fio: None,
        costs: None,
        window_raw_ns: None,
        energy: Vec::new(),
    };
    Trial {
        path: path.parse().unwrap(),
        workload: workload.clone(),
        settings: BTreeMap::new(),
        generator: Generator::Native,
        replicate,
        position: 0,
        started_unix_ns: 0,
        gap_ns: None,
        outcome: Outcome::Measured(Box::new(measurement)),
    }
}

/// The measurement of a trial, to be changed.
pub(crate) fn measurement(trial: &mut Trial) -> &mut Measurement {
    match &mut trial.outcome {
        Outcome::Measured(measurement) => measurement,
        Outcome::Failed(error) => panic!("{error}"),
    }
}

/// The record of a study of so many trials.
pub(crate) fn study(planned_trials: u64) -> StudyRecord {
    StudyRecord {
        name: "known".into(),
        text: String::new(),
        seed: 0,
        planned_trials,
        target: String::new(),
        file_id: None,
        provenance: BTreeMap::new(),
        made_target: false,
        warnings: Vec::new(),
        unavailable: Vec::new(),
        emulated: None,
        sequential: None,
    }
}
