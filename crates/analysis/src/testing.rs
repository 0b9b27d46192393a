//! Questions and answers for tests of what asks and shows them (feature `testing`).

pub mod runs;

use crate::Admission;
use crate::advise::{AdviseQuestion, Bound, Percentile};
use crate::compare::{Change, Comparison, GateError, gate};
use crate::workload_table::{CellMeans, CellRow, Times};
use iopj_core::VerdictKind;
use iopj_record::{Generator, StudyRecord, Trial};
use std::collections::BTreeMap;

/// Compares two stores, whose trials are of one machine.
pub fn compare(
    before: (&StudyRecord, &[Trial]),
    after: (&StudyRecord, &[Trial]),
    admission: Admission,
) -> Comparison {
    crate::compare::compare(before, after, &[], admission).unwrap()
}

/// What got worse by more than so many per cent.
pub fn regressions(comparison: &Comparison, percent: f64) -> Result<Vec<&Change>, GateError> {
    gate(comparison, percent).map(|gate| gate.worse)
}

/// A question for a rate under a bound of p99.
pub fn asking(rate: Option<u64>, p99_us: Option<f64>) -> AdviseQuestion {
    let bounds = p99_us.map(|us| Bound { percentile: Percentile::P99, ns: us * 1e3 });
    AdviseQuestion { rate, bounds: bounds.into_iter().collect(), ..AdviseQuestion::default() }
}

/// A row that was measured three times.
pub fn row(path: &str, iops: f64) -> CellRow {
    let figures = CellMeans {
        replicates: 3,
        times: Some(Times {
            iops,
            iops_spread: None,
            mb_per_s: iops * 4096.0 / 1e6,
            mean_ns: 1e9 / iops,
            p50_ns: 1e9 / iops,
            p20_ns: Some(0.5e9 / iops),
            p80_ns: Some(1.5e9 / iops),
            p95_ns: 1.8e9 / iops,
            p99_ns: 2e9 / iops,
            p99_9_ns: 3e9 / iops,
            cpu_percent: 50.0,
        }),
        context_switches_per_io: 1.0,
        interrupts_per_io: Some(1.0),
        system_calls_per_io: Some(2.0),
        sleeps_per_io: Some(0.5),
        costs: None,
        energy: None,
        corunner: None,
        two_hosts: None,
        load: None,
        kinds: Vec::new(),
        figure: None,
    };
    CellRow {
        path: path.parse().unwrap(),
        settings: BTreeMap::new(),
        generator: Generator::Native,
        verdicts: vec![(VerdictKind::Verified, 3)],
        failed: 0,
        figures: Some(figures),
        competes: true,
        marked: false,
        slower: None,
        reasons: Vec::new(),
        short_ios: 0,
        preconditioning: None,
    }
}
