//! Constructed trials for tests of the page: any matrix, with rates that differ by path and replicate.

use crate::{Measurement, Slice, StudyRecord, Trial, Unavailable, histogram};
use iopj_core::{Length, Verdict, VerdictKind, Workload};
use std::time::Duration;

/// A study in which every foreign text is `name`.
pub fn study(name: &str) -> StudyRecord {
    StudyRecord {
        name: name.to_owned(),
        text: format!("name = \"{name}\"\n"),
        seed: 7,
        planned_trials: 12,
        target: name.to_owned(),
        provenance: [("kernel", name), ("devices", name), (name, name)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        warnings: vec![name.to_owned()],
        unavailable: vec![Unavailable {
            path: "io_uring/syscall/poll".parse().expect("a path"),
            reason: name.to_owned(),
            remedy: name.to_owned(),
        }],
        ..StudyRecord::default()
    }
}

/// The workloads of a matrix.
pub fn workloads(iodepths: &[u32], numjobs: &[u32], sizes: &[u32]) -> Vec<Workload> {
    let mut workloads = Vec::new();
    for bs in sizes {
        for numjobs in numjobs {
            for iodepth in iodepths {
                let (bs, numjobs, iodepth) = (*bs, *numjobs, *iodepth);
                let length = Length::Runtime(Duration::from_secs(1));
                workloads.push(Workload { bs, numjobs, iodepth, length, ..Workload::default() });
            }
        }
    }
    workloads
}

/// Every path under every workload, verified.
pub fn trials(paths: &[&str], workloads: &[Workload], replicates: u32) -> Vec<Trial> {
    let mut trials = Vec::new();
    for replicate in 0..replicates {
        for workload in workloads {
            for (rank, path) in paths.iter().enumerate() {
                let position = trials.len() as u64;
                let ios = 1000 * u64::from(workload.iodepth) * (rank as u64 + 2) + 37 * u64::from(replicate);
                let outcome = measurement(ios, VerdictKind::Verified).into();
                trials.push(Trial {
                    replicate,
                    position,
                    started_unix_ns: 1_700_000_000_000_000_000 + position * 1_500_000_000,
                    ..Trial::new(path.parse().expect("a path"), workload.clone(), outcome)
                });
            }
        }
    }
    trials
}

/// A window of one second with this many I/Os.
pub fn measurement(ios: u64, kind: VerdictKind) -> Measurement {
    let mut latencies = histogram::new();
    for step in 0..ios.min(5000) {
        latencies.record(20_000 + 13 * step).expect("a latency within bounds");
    }
    Measurement {
        window_ns: 1_000_000_000,
        ios,
        bytes: 4096 * ios,
        reads: ios,
        latency: histogram::summary(&latencies),
        series: (1..=10).map(|tenth| Slice { end_ns: tenth * 100_000_000, ios: ios / 10 }).collect(),
        cpu_percent: 40.0 + (ios % 7) as f64,
        context_switches_per_io: 1.0 / (1 + ios % 3) as f64,
        achieved_depth: 1.0,
        verdict: Verdict { kind, reasons: vec!["asked for poll, seen interrupt".to_owned()] },
        ..Measurement::default()
    }
}

/// Gives all trials of a path another verdict.
pub fn judge(trials: &mut [Trial], path: &str, kind: VerdictKind) {
    for trial in trials.iter_mut().filter(|trial| trial.path.to_string() == path) {
        trial.outcome.measurement_mut().expect("a trial that was measured").verdict.kind = kind;
    }
}
