//! Trials made up for tests of the page: any matrix, with rates that differ by path and replicate.

use iopj_core::{Length, Observed, Verdict, VerdictKind, Workload, evidence::Finding};
use iopj_store::{Generator, Measurement, Outcome, Slice, StudyRecord, Trial, Unavailable, histogram};
use std::time::Duration;

/// A study of which every foreign text is `name`.
pub(crate) fn study(name: &str) -> StudyRecord {
    StudyRecord {
        name: name.to_owned(),
        text: format!("name = \"{name}\"\n"),
        seed: 7,
        planned_trials: 12,
        target: name.to_owned(),
        file_id: None,
        provenance: [("kernel", name), ("devices", name), (name, name)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        made_target: false,
        warnings: vec![name.to_owned()],
        unavailable: vec![Unavailable {
            path: "io_uring/syscall/poll".parse().expect("a path"),
            reason: name.to_owned(),
            remedy: name.to_owned(),
        }],
        emulated: None,
        sequential: None,
    }
}

/// The workloads of a matrix.
pub(crate) fn workloads(iodepths: &[u32], numjobs: &[u32], sizes: &[u32]) -> Vec<Workload> {
    let mut workloads = Vec::new();
    for bs in sizes {
        for numjobs in numjobs {
            for iodepth in iodepths {
                let length = Length::Runtime(Duration::from_secs(1));
                workloads.push(Workload {
                    bs: *bs,
                    numjobs: *numjobs,
                    iodepth: *iodepth,
                    length,
                    ..Workload::default()
                });
            }
        }
    }
    workloads
}

/// Every path under every workload, verified.
pub(crate) fn trials(paths: &[&str], workloads: &[Workload], replicates: u32) -> Vec<Trial> {
    let mut trials = Vec::new();
    for replicate in 0..replicates {
        for workload in workloads {
            for (rank, path) in paths.iter().enumerate() {
                let position = trials.len() as u64;
                let ios = 1000 * u64::from(workload.iodepth) * (rank as u64 + 2) + 37 * u64::from(replicate);
                trials.push(Trial {
                    path: path.parse().expect("a path"),
                    workload: workload.clone(),
                    settings: Default::default(),
                    generator: Generator::Native,
                    replicate,
                    position,
                    started_unix_ns: 1_700_000_000_000_000_000 + position * 1_500_000_000,
                    gap_ns: None,
                    outcome: Outcome::Measured(Box::new(measurement(ios, VerdictKind::Verified))),
                });
            }
        }
    }
    trials
}

/// A window of one second with so many I/Os.
pub(crate) fn measurement(ios: u64, kind: VerdictKind) -> Measurement {
    let mut latencies = histogram::new();
    for step in 0..ios.min(5000) {
        latencies.record(20_000 + 13 * step).expect("a latency within bounds");
    }
    Measurement {
        window_ns: 1_000_000_000,
        ios,
        bytes: 4096 * ios,
        reads: ios,
        writes: 0,
        short_ios: 0,
        latency: histogram::summary(&latencies),
        read_latency: None,
        write_latency: None,
        series: (1..=10).map(|tenth| Slice { end_ns: tenth * 100_000_000, ios: ios / 10 }).collect(),
        cpu_percent: 40.0 + (ios % 7) as f64,
        context_switches_per_io: 1.0 / (1 + ios % 3) as f64,
        interrupts_per_io: None,
        system_calls_per_io: None,
        achieved_depth: 1.0,
        preconditioning: None,
        evidence: Default::default(),
        observed: Observed {
            completion: Finding::Unclear(String::new()),
            submission: Finding::Unclear(String::new()),
            doubt: None,
        },
        verdict: Verdict { kind, reasons: vec!["asked for poll, seen interrupt".to_owned()] },
        conditions: Default::default(),
        power_state: Default::default(),
        fio: None,
        costs: None,
        window_raw_ns: None,
        energy: Vec::new(),
    }
}

/// Gives all trials of a path another verdict.
pub(crate) fn judge(trials: &mut [Trial], path: &str, kind: VerdictKind) {
    for trial in trials.iter_mut().filter(|trial| trial.path.to_string() == path) {
        if let Outcome::Measured(measurement) = &mut trial.outcome {
            measurement.verdict.kind = kind;
        }
    }
}
