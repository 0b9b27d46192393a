//! A run as it goes on.

use crate::run_so_far::{BegunTrial, CellNames};
use iopj_core::energy::{EnergyOutcome, Joules, Scope};
use iopj_core::{TrialEnergy, Verdict, VerdictKind, Workload};
use iopj_record::{Generator, Latency, Measurement, Outcome};
use std::collections::BTreeMap;

/// A path of io_uring.
pub const PATH: &str = "io_uring/syscall/interrupt";

/// The names of a cell at this depth.
pub fn cell(iodepth: u32) -> CellNames {
    let workload = Workload { iodepth, ..Workload::default() };
    CellNames::new(PATH.parse().unwrap(), &workload, Generator::Native, &BTreeMap::new())
}

/// A measured outcome.
pub fn measured(ios: u64, kind: VerdictKind) -> Outcome {
    let verdict = Verdict { kind, reasons: Vec::new() };
    let latency = Latency { count: ios, p50: 80_000, p99: 250_000, ..Latency::default() };
    let (window_ns, bytes) = (1_000_000_000, 4096 * ios);
    Measurement { window_ns, ios, bytes, latency, cpu_percent: 50.0, verdict, ..Measurement::default() }
        .into()
}

/// A trial that begins.
pub fn begun(number: u64, iodepth: u32) -> BegunTrial {
    BegunTrial { number, cell: cell(iodepth), at_s: 100.0 }
}

/// Joules of a package.
pub fn energy(joules: f64) -> Vec<TrialEnergy> {
    vec![TrialEnergy {
        meter: "rapl".to_owned(),
        scope: Scope::Package,
        channels: Vec::new(),
        estimated: false,
        rules: 1,
        outcome: EnergyOutcome::Complete(Joules { joules, ..Joules::default() }),
    }]
}
