//! What one kind of jobs did.

use crate::{KindWindow, Latency};
use iopj_core::{Evidence, Observed, Verdict, VerdictKind, Workload};

/// A kind of jobs that did so many I/Os of 4 KiB, each in so many ns.
pub fn kind(path: &str, ios: u64, mean: f64, verdict: VerdictKind) -> KindWindow {
    KindWindow {
        path: path.parse().unwrap(),
        workload: Workload::default(),
        ios,
        bytes: ios * 4096,
        short_ios: 0,
        latency: Latency { count: ios, mean, p99: 3 * mean as u64, ..Latency::default() },
        open: None,
        evidence: Evidence::default(),
        observed: Observed::default(),
        verdict: Verdict { kind: verdict, reasons: vec!["seen".to_owned()] },
    }
}
