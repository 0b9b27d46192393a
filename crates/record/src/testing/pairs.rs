//! Two paths at chosen rates, for what compares them.

use crate::testing::cells::{Measured, cell, measurement_of};
use crate::{Sequential, StudyRecord, Trial};
use iopj_core::Workload;
use std::collections::BTreeMap;

/// The record of a study on this kernel.
pub fn study(kernel: &str) -> StudyRecord {
    StudyRecord {
        name: "test".into(),
        seed: 1,
        target: "/dev/nvme0n1".into(),
        provenance: BTreeMap::from([("kernel".into(), kernel.into()), ("cpu_model".into(), "one".into())]),
        ..StudyRecord::default()
    }
}

/// A study whose number of replicates was decided while it ran, at one of 26 looks.
pub fn sequential() -> StudyRecord {
    StudyRecord { sequential: Some(Sequential { min: 5, max: 30, until: 0.02 }), ..study("6.1") }
}

/// A trial of one second with these IOPS; its latency is the inverse.
pub fn trial(path: &str, iops: u64) -> Trial {
    let measured = Measured { iops: iops as f64, cpu_percent: 50.0, ..Measured::default() };
    let mut trial = cell(path, &Workload::default(), measured, &[0.0]).remove(0);
    let one = measurement_of(&mut trial);
    one.latency.mean = 1e9 / iops.max(1) as f64;
    one.latency.p99 = 2 * one.latency.mean as u64;
    (one.window_ns, one.ios, one.bytes, one.reads) = (1_000_000_000, iops, iops * 4096, iops);
    one.latency.count = iops;
    trial
}

/// A path of libaio.
pub const LIBAIO: &str = "libaio/syscall/interrupt";

/// A path of io_uring.
pub const URING: &str = "io_uring/syscall/interrupt";

/// Trials of a path, one for each rate.
pub fn trials(path: &str, iops: &[u64]) -> Vec<Trial> {
    iops.iter().map(|iops| trial(path, *iops)).collect()
}
