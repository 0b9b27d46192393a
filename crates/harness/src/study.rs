//! A small study with a measured and a failed trial, into which the targets put what they are given.

use iopj_core::{Conditions, Workload};
use iopj_core::{Cost, CostKind, CostProfile, CostSource, FunctionCost, Slice, Space, Verdict, VerdictKind};
use iopj_record::{Measurement, Outcome, StudyRecord, Trial, histogram};
use std::collections::BTreeMap;

/// The study's record.
pub(crate) fn study() -> StudyRecord {
    StudyRecord {
        name: "small".to_owned(),
        text: "name = \"small\"".to_owned(),
        seed: 7,
        planned_trials: 6,
        target: "data".to_owned(),
        provenance: BTreeMap::from([("kernel".to_owned(), "6.1".to_owned())]),
        ..StudyRecord::default()
    }
}

/// Two paths at two depths, once each, and a trial that failed.
pub(crate) fn trials() -> Vec<Trial> {
    let paths = ["io_uring/syscall/interrupt", "libaio/syscall/interrupt"];
    let cells = paths.iter().flat_map(|path| [1, 8].map(|depth| (*path, depth)));
    let mut trials: Vec<Trial> = cells.map(|(path, depth)| trial(path, depth)).collect();
    trials.push(Trial {
        replicate: 1,
        ..Trial::new(path(paths[0]), Workload::default(), Outcome::Failed("it broke".to_owned()))
    });
    for (position, trial) in (0..).zip(&mut trials) {
        trial.position = position;
    }
    trials
}

/// What some functions cost.
pub(crate) fn costs() -> CostProfile {
    let of = |name: &str, instructions| FunctionCost {
        space: Space::Kernel,
        function: name.to_owned(),
        module: Some("nvme".to_owned()),
        directory: Some("drivers/nvme/host/".to_owned()),
        cost: Cost { calls: 3, instructions, loads: 7, stores: 1, cpu_ns: 0 },
    };
    let kinds = vec![CostKind::Calls, CostKind::Instructions, CostKind::Loads, CostKind::Stores];
    CostProfile::new(CostSource::Exact, kinds, vec![of("nvme_irq", 5), of("nvme_queue_rq", 50)])
}

fn path(text: &str) -> iopj_core::IoPath {
    text.parse().expect("a path")
}

fn trial(name: &str, depth: u32) -> Trial {
    let mut latencies = histogram::new();
    for value in [1000, 2000, 3000] {
        latencies.record(value * u64::from(depth)).expect("a latency of some µs");
    }
    let measurement = Measurement {
        window_ns: 2_000_000_000,
        ios: 3000,
        bytes: 3000 * 4096,
        reads: 3000,
        latency: histogram::summary(&latencies),
        series: vec![Slice { end_ns: 1, ios: 2 }, Slice { end_ns: 2, ios: 1 }],
        cpu_percent: 12.5,
        context_switches_per_io: 1.0,
        system_calls_per_io: Some(1.0),
        achieved_depth: 0.9,
        verdict: Verdict { kind: VerdictKind::Verified, reasons: vec!["it was seen".to_owned()] },
        conditions: Conditions::default(),
        ..Measurement::default()
    };
    let workload = Workload { iodepth: depth, ..Workload::default() };
    Trial {
        settings: BTreeMap::from([("nomerges".to_owned(), "2".to_owned())]),
        ..Trial::new(path(name), workload, measurement.into())
    }
}
