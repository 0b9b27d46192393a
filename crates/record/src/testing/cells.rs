//! Cells whose replicates have figures given one by one.

use crate::{Latency, Measurement, Trial};
use iopj_core::{Length, Rw, Verdict, VerdictKind, Workload};
use std::time::Duration;

/// The window of every constructed trial.
const WINDOW: Duration = Duration::from_secs(2);

/// The figures of a cell's replicates; absent figures are 0, except for the I/Os that every trial did.
#[derive(Clone, Copy, Default)]
pub struct Measured {
    /// Mean latency.
    pub mean_us: f64,
    /// Median latency.
    pub p50_us: f64,
    /// 99th percentile of latency.
    pub p99_us: f64,
    /// I/Os a second.
    pub iops: f64,
    /// CPU use in per cent of a core.
    pub cpu_percent: f64,
    /// Context switches per I/O.
    pub switches: f64,
}

/// 4 KiB I/Os, one in flight for each job.
pub fn workload(rw: Rw, numjobs: u32) -> Workload {
    Workload { rw, numjobs, length: Length::Runtime(WINDOW), ..Workload::default() }
}

/// The trials of a cell, all verified; a share of each factor is added to the replicate's figures.
pub fn cell(path: &str, workload: &Workload, measured: Measured, spread: &[f64]) -> Vec<Trial> {
    let trial = |(replicate, share): (usize, &f64)| Trial {
        replicate: replicate as u32,
        position: replicate as u64,
        ..Trial::new(path.parse().unwrap(), workload.clone(), measurement(measured, 1.0 + share).into())
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
        latency: Latency {
            count: ios,
            mean: ns(measured.mean_us),
            p50: ns(measured.p50_us) as u64,
            p99: ns(measured.p99_us) as u64,
            ..Latency::default()
        },
        cpu_percent: measured.cpu_percent * factor,
        context_switches_per_io: measured.switches * factor,
        achieved_depth: 1.0,
        verdict: Verdict { kind: VerdictKind::Verified, reasons: Vec::new() },
        ..Measurement::default()
    }
}

/// The measurement of a trial, mutable.
pub fn measurement_of(trial: &mut Trial) -> &mut Measurement {
    trial.outcome.measurement_mut().expect("a trial that was measured")
}

/// Gives trials another verdict.
pub fn judge(trials: &mut [Trial], kind: VerdictKind) {
    trials.iter_mut().for_each(|trial| measurement_of(trial).verdict.kind = kind);
}
