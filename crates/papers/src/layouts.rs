//! The papers' tables from any store: completion modes side by side, latency with its slowdown, the design
//! space. Means over replicates, percentiles included, as the papers do; `published` has what the papers
//! print.

use super::published::Design;
use iopj_analysis::admission::Admission;
use iopj_analysis::efficiency::mean;
pub use iopj_analysis::grouping::TrialSetup;
use iopj_analysis::grouping::{ascending, grouped, paths};
use iopj_core::{CompletionMode, IoPath, Rw, Submission};
use iopj_record::{Measurement, Trial};
use serde::Serialize;
use std::collections::BTreeMap;

/// Completion modes of one interface side by side, over threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompletionTable {
    /// What the cells share; `numjobs` is the axis.
    pub setting: TrialSetup,
    /// Thread counts, the least first.
    pub numjobs: Vec<u32>,
    /// One row per path, in the order of latency at the first thread count that each has.
    pub rows: Vec<CompletionRow>,
}

/// One completion mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompletionRow {
    /// The path.
    pub path: IoPath,
    /// A cell for each thread count; absent if no trial competes.
    pub cells: Vec<Option<CompletionCell>>,
}

/// Means over the replicates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CompletionCell {
    /// Replicates.
    pub replicates: usize,
    /// Mean latency in ns.
    pub latency_ns: f64,
    /// I/Os per second.
    pub iops: f64,
}

/// Tables of the interfaces with two completion modes or more under one workload.
pub fn completion_modes(trials: &[Trial], admission: Admission) -> Vec<CompletionTable> {
    let keyed = trials.iter().map(|trial| {
        let mut setup = TrialSetup::of(trial);
        setup.workload.numjobs = 1;
        ((setup, trial.path.interface(), trial.path.submission()), trial)
    });
    grouped(keyed)
        .into_iter()
        .filter_map(|((setting, ..), trials)| completion_table(setting, &trials, admission))
        .collect()
}

fn completion_table(setting: TrialSetup, trials: &[&Trial], admission: Admission) -> Option<CompletionTable> {
    let numjobs: Vec<u32> = ascending(trials.iter().map(|trial| trial.workload.numjobs));
    let paths = paths(trials);
    let modes: Vec<CompletionMode> = ascending(paths.iter().map(IoPath::completion));
    if modes.len() < 2 {
        return None;
    }
    let cell = |path: &IoPath, numjobs: u32| {
        let own = trials.iter().filter(|t| t.path == *path && t.workload.numjobs == numjobs);
        let measured: Vec<_> = own.filter_map(|trial| admission.admit(trial).ok()).collect();
        (!measured.is_empty()).then(|| CompletionCell {
            replicates: measured.len(),
            latency_ns: mean(&measured, |m| m.latency.mean),
            iops: mean(&measured, Measurement::iops),
        })
    };
    let row = |path: IoPath| CompletionRow { path, cells: numjobs.iter().map(|n| cell(&path, *n)).collect() };
    let mut rows: Vec<CompletionRow> = paths.into_iter().map(row).collect();
    let first =
        |row: &CompletionRow| row.cells.iter().flatten().next().map_or(f64::INFINITY, |cell| cell.latency_ns);
    rows.sort_by(|a, b| first(a).total_cmp(&first(b)));
    Some(CompletionTable { setting, numjobs, rows })
}

/// Latency of reads and of writes by path, and how much slower each path is than the reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyTable {
    /// What the cells share; `rw` is that of the reads.
    pub setting: TrialSetup,
    /// The path that the others are compared with; absent if no such path has all four figures.
    pub reference: Option<IoPath>,
    /// One row per path: the least slowdown first, then those without one.
    pub rows: Vec<LatencyRow>,
}

/// One path. Figures are means over replicates in ns, absent if no trial competes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyRow {
    /// The path.
    pub path: IoPath,
    /// Median and 99th percentile of reads.
    pub read: Option<Percentiles>,
    /// Median and 99th percentile of writes.
    pub write: Option<Percentiles>,
    /// Average slowdown relative to the reference; 0 for the reference itself.
    pub slower: Option<f64>,
}

impl LatencyRow {
    /// The four figures of the average slowdown.
    pub fn four(&self) -> Option<[f64; 4]> {
        let (read, write) = (self.read?, self.write?);
        Some([read.p50_ns, read.p99_ns, write.p50_ns, write.p99_ns])
    }
}

/// Percentiles of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// Replicates.
    pub replicates: usize,
    /// Median in ns.
    pub p50_ns: f64,
    /// 99th percentile in ns.
    pub p99_ns: f64,
}

/// The mean of the four ratios to the reference, less one: `iface23`'s average slowdown. Absent unless all
/// figures are above 0 and finite.
pub fn average_slowdown(figures: [f64; 4], reference: [f64; 4]) -> Option<f64> {
    let sound = figures.iter().chain(&reference).all(|figure| figure.is_finite() && *figure > 0.0);
    let sum: f64 = figures.iter().zip(reference).map(|(figure, reference)| figure / reference).sum();
    sound.then_some(sum / 4.0 - 1.0)
}

/// Tables of every workload with pure reads or writes. The reference is `reference`, or the path of least
/// median read among those that have all four figures.
pub fn latencies(trials: &[Trial], reference: Option<IoPath>, admission: Admission) -> Vec<LatencyTable> {
    let keyed = trials.iter().filter(|trial| !trial.workload.rw.is_mixed()).map(|trial| {
        let mut setup = TrialSetup::of(trial);
        setup.workload.rw = if setup.workload.rw.is_random() { Rw::Randread } else { Rw::Read };
        (setup, trial)
    });
    grouped(keyed)
        .into_iter()
        .map(|(setting, trials)| latency_table(setting, &trials, (reference, admission)))
        .collect()
}

fn latency_table(
    setting: TrialSetup,
    trials: &[&Trial],
    (reference, admission): (Option<IoPath>, Admission),
) -> LatencyTable {
    let figures = |path: &IoPath, writes: bool| {
        let cell = trials.iter().filter(|trial| trial.path == *path && trial.workload.rw.writes() == writes);
        let measured: Vec<_> = cell.filter_map(|trial| admission.admit(trial).ok()).collect();
        (!measured.is_empty()).then(|| Percentiles {
            replicates: measured.len(),
            p50_ns: mean(&measured, |m| m.latency.p50 as f64),
            p99_ns: mean(&measured, |m| m.latency.p99 as f64),
        })
    };
    let row = |path: IoPath| LatencyRow {
        path,
        read: figures(&path, false),
        write: figures(&path, true),
        slower: None,
    };
    let mut rows: Vec<LatencyRow> = paths(trials).into_iter().map(row).collect();
    let complete = rows.iter().filter_map(|row| Some((row.path, row.four()?)));
    let reference = match reference {
        Some(path) => complete.into_iter().find(|(other, _)| *other == path),
        None => complete.into_iter().min_by(|(_, a), (_, b)| a[0].total_cmp(&b[0])),
    };
    for row in &mut rows {
        row.slower = reference.and_then(|(_, reference)| average_slowdown(row.four()?, reference));
    }
    let order = |row: &LatencyRow| row.slower.unwrap_or(f64::INFINITY);
    rows.sort_by(|a, b| order(a).total_cmp(&order(b)));
    LatencyTable { setting, reference: reference.map(|(path, _)| path), rows }
}

/// An interface of the design space, and its trials in the store.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DesignRow {
    /// What the interface offers.
    pub design: Design,
    /// Hybrid polling, which the paper's table does not distinguish from polling.
    pub complete_hybrid: bool,
    /// Trials whose path was verified, by submission and completion; none if no record can have the
    /// interface.
    pub verified: Vec<(Submission, CompletionMode, usize)>,
}

/// The interfaces that iopj takes, as paths offer them.
pub fn design_space(trials: &[Trial]) -> Vec<DesignRow> {
    let mut interfaces: Vec<&'static str> = IoPath::all().iter().map(IoPath::interface).collect();
    interfaces.dedup();
    interfaces.into_iter().map(|interface| design_row(interface, trials)).collect()
}

fn design_row(interface: &'static str, trials: &[Trial]) -> DesignRow {
    let paths: Vec<IoPath> = IoPath::all().into_iter().filter(|path| path.interface() == interface).collect();
    let submits = |submission| paths.iter().any(|path| path.submission() == submission);
    let completes = |completion| paths.iter().any(|path| path.completion() == completion);
    let synchronous = paths.iter().all(IoPath::is_synchronous);
    let design = Design {
        interface,
        kernel: !paths.iter().all(IoPath::is_bypass),
        // glibc's threads do the asynchronous half of POSIX AIO.
        user: paths.iter().any(|path| path.is_bypass() || matches!(path, IoPath::PosixAio(_))),
        // A ring can submit and wait in one system call.
        sync: synchronous || paths.iter().any(|path| path.ring().is_some()),
        r#async: !synchronous,
        submit_syscall: submits(Submission::Syscall),
        submit_poll: submits(Submission::Sqpoll),
        complete_interrupt: completes(CompletionMode::Interrupt),
        complete_poll: completes(CompletionMode::Poll),
    };
    let mut verified: BTreeMap<(Submission, CompletionMode), usize> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.path.interface() == interface) {
        if Admission::default().admit(trial).is_ok() {
            *verified.entry((trial.path.submission(), trial.path.completion())).or_default() += 1;
        }
    }
    DesignRow {
        design,
        complete_hybrid: completes(CompletionMode::Hybrid),
        verified: verified
            .into_iter()
            .map(|((submission, completion), count)| (submission, completion, count))
            .collect(),
    }
}
