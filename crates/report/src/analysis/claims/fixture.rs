//! Constructed trials for tests: cells whose replicates have figures given one by one.

use iopj_core::evidence::Finding;
use iopj_core::{Evidence, Length, Observed, Rw, Verdict, VerdictKind, Workload};
use iopj_store::{Generator, Latency, Measurement, Outcome, Trial};
use std::collections::BTreeMap;
use std::time::Duration;

/// The window of every constructed trial.
const WINDOW: Duration = Duration::from_secs(2);

/// What the replicates of a cell measured; absent figures are 0, but for some I/Os that every trial did.
#[derive(Clone, Copy, Default)]
pub(crate) struct Measured {
    pub(crate) mean_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) iops: f64,
    pub(crate) cpu_percent: f64,
    pub(crate) switches: f64,
}

/// 4 KiB I/Os, one in flight for each job.
pub(crate) fn workload(rw: Rw, numjobs: u32) -> Workload {
    Workload { rw, numjobs, length: Length::Runtime(WINDOW), ..Workload::default() }
}

/// The trials of a cell, all verified; a share of each factor is added to the replicate's figures.
pub(crate) fn cell(path: &str, workload: &Workload, measured: Measured, spread: &[f64]) -> Vec<Trial> {
    let trial = |(replicate, share): (usize, &f64)| Trial {
        path: path.parse().unwrap(),
        workload: workload.clone(),
        settings: BTreeMap::new(),
        generator: Generator::Native,
        replicate: replicate as u32,
        position: replicate as u64,
        started_unix_ns: 0,
        gap_ns: None,
        outcome: Outcome::Measured(Box::new(measurement(measured, 1.0 + share))),
    };
    spread.iter().enumerate().map(trial).collect()
}

fn measurement(measured: Measured, factor: f64) -> Measurement {
    let ios = ((measured.iops * factor * WINDOW.as_secs_f64()).round() as u64).max(1);
    let ns = |us: f64| (us * factor * 1e3).round();
    Measurement {
        window_ns: WINDOW.as_nanos() as u64,
        ios,
        bytes: ios * 4096,
        reads: ios,
        writes: 0,
        short_ios: 0,
        latency: Latency {
            count: ios,
            mean: ns(measured.mean_us),
            p50: ns(measured.p50_us) as u64,
            p99: ns(measured.p99_us) as u64,
            ..Latency::default()
        },
        read_latency: None,
        write_latency: None,
        series: Vec::new(),
        cpu_percent: measured.cpu_percent * factor,
        context_switches_per_io: measured.switches * factor,
        interrupts_per_io: None,
        system_calls_per_io: None,
        achieved_depth: 1.0,
        preconditioning: None,
        evidence: Evidence::default(),
        observed: Observed {
            completion: Finding::Unclear(String::new()),
            submission: Finding::Unclear(String::new()),
            doubt: None,
        },
        verdict: Verdict { kind: VerdictKind::Verified, reasons: Vec::new() },
        conditions: Default::default(),
        power_state: [serde_json::Value::Null, serde_json::Value::Null],
        fio: None,
        costs: None,
        window_raw_ns: None,
        energy: Vec::new(),
    }
}

/// Gives trials another verdict.
pub(crate) fn judge(trials: &mut [Trial], kind: VerdictKind) {
    for trial in trials {
        if let Outcome::Measured(measurement) = &mut trial.outcome {
            measurement.verdict.kind = kind;
        }
    }
}
