//! Trials with costs, grouped into blocks of one workload and cells of one path.

use super::measure::{MeanSpread, Measure};
use crate::grouping::grouped;
use iopj_core::evidence::EngineEvidence;
use iopj_core::fabric::HostSide;
use iopj_core::workload::Length;
use iopj_core::{
    CostKind, CostProfile, CostSource, FunctionCost, IoPath, Space, Transport, VerdictKind, Workload,
};
use iopj_record::{Generator, Measurement, Trial};
use std::collections::BTreeMap;

/// The drivers' poll functions. If several are called, the one with the most calls is the target's.
pub const POLL_FUNCTIONS: [&str; 3] = ["nvme_poll", "virtblk_poll", "null_poll"];

/// Functions that spin until another processor releases a lock (kernel/locking/). In a guest whose processors
/// share the host's they can spin for long, on any path.
const LOCK_WAITS: [&str; 3] =
    ["native_queued_spin_lock_slowpath", "queued_read_lock_slowpath", "queued_write_lock_slowpath"];

/// One trial with costs and at least one I/O.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedTrial<'a> {
    pub(super) measurement: &'a Measurement,
    pub(super) costs: &'a CostProfile,
    /// Its sleeps set a timer, and are fitted separately from those that an interrupt ends.
    pub(super) timed: bool,
}

impl CountedTrial<'_> {
    /// I/Os issued in the window.
    pub(super) fn ios(&self) -> f64 {
        self.measurement.evidence.ios() as f64
    }

    /// The sum over the functions that `belongs` picks, per I/O.
    pub(super) fn sum(&self, measure: Measure, belongs: impl Fn(&FunctionCost) -> bool) -> f64 {
        let picked = self.costs.functions.iter().filter(|function| belongs(function));
        picked.map(|function| measure.of(&function.cost)).sum::<u64>() as f64 / self.ios()
    }

    /// One column of a space, per I/O.
    pub(super) fn total(&self, space: Space, kind: CostKind) -> f64 {
        self.costs.total(space).get(kind) as f64 / self.ios()
    }

    /// The kernel's part, per I/O.
    pub(super) fn kernel(&self, measure: Measure) -> f64 {
        self.sum(measure, |function| function.space == Space::Kernel)
    }

    /// The kernel's part without waiting for locks, per I/O.
    pub(super) fn kernel_unlocked(&self, measure: Measure) -> f64 {
        self.sum(measure, |function| function.space == Space::Kernel && !CountedTrial::is_lock_wait(function))
    }

    pub(super) fn is_lock_wait(function: &FunctionCost) -> bool {
        LOCK_WAITS.contains(&function.function.as_str())
    }

    /// Voluntary context switches of the I/O's threads per I/O.
    pub(super) fn sleeps(&self) -> f64 {
        self.measurement.evidence.process.voluntary_switches as f64 / self.ios()
    }

    /// What the engine counted per I/O.
    pub(super) fn by_engine(&self, count: impl Fn(&EngineEvidence) -> Option<u64>) -> Option<f64> {
        Some(count(self.measurement.evidence.engine.as_ref()?)? as f64 / self.ios())
    }

    /// Calls of the driver's poll function per I/O; absent if calls were not counted.
    pub(super) fn spins(&self) -> Option<f64> {
        let calls = |name: &&str| -> u64 {
            let named = self.costs.functions.iter().filter(|function| function.function == **name);
            named.map(|function| function.cost.calls).sum()
        };
        let most = POLL_FUNCTIONS.iter().map(calls).max().unwrap_or(0);
        self.costs.has(CostKind::Calls).then(|| most as f64 / self.ios())
    }
}

/// Replicates: the trials of one path under one workload, with refuted ones separate.
#[derive(Clone, Debug)]
pub(super) struct PathTrials<'a> {
    pub(super) path: IoPath,
    pub(super) settings: &'a BTreeMap<String, String>,
    pub(super) refuted: bool,
    pub(super) runs: Vec<CountedTrial<'a>>,
}

impl<'a> PathTrials<'a> {
    /// The values of the trials that have the figure.
    pub(super) fn values(&self, of: &dyn Fn(&CountedTrial<'a>) -> Option<f64>) -> Vec<f64> {
        self.runs.iter().filter_map(of).collect()
    }

    /// Mean and spread over the trials that have the figure.
    pub(super) fn figure(&self, of: &dyn Fn(&CountedTrial<'a>) -> Option<f64>) -> Option<MeanSpread> {
        MeanSpread::of(&self.values(of))
    }

    /// The mean over all trials; 0 if there is none.
    pub(super) fn mean(&self, of: &dyn Fn(&CountedTrial<'a>) -> f64) -> f64 {
        self.figure(&|run| Some(of(run))).map_or(0.0, |figure| figure.mean)
    }
}

/// Cells that may be compared: of one workload, one generator and one way of counting.
#[derive(Clone, Debug)]
pub(super) struct WorkloadTrials<'a> {
    pub(super) workload: &'a Workload,
    pub(super) generator: Generator,
    pub(super) source: &'a CostSource,
    /// The number of looks that decided how many trials there are.
    pub(super) looks: u32,
    pub(super) cells: Vec<PathTrials<'a>>,
}

impl WorkloadTrials<'_> {
    /// The columns that every trial has.
    pub(super) fn kinds(&self) -> Vec<CostKind> {
        const ALL: [CostKind; 5] =
            [CostKind::Calls, CostKind::Instructions, CostKind::Loads, CostKind::Stores, CostKind::CpuTime];
        let everywhere =
            |kind: &CostKind| self.cells.iter().flat_map(|cell| &cell.runs).all(|run| run.costs.has(*kind));
        ALL.into_iter().filter(everywhere).collect()
    }
}

/// The trials with costs, and the number of measured trials without.
pub(super) fn runs(trials: &[Trial]) -> (Vec<(&Trial, CountedTrial<'_>)>, usize) {
    let measured = || trials.iter().filter_map(|trial| Some((trial, trial.outcome.measurement()?)));
    let counted = measured().filter_map(|(trial, measurement)| {
        let costs = measurement.costs.as_ref().filter(|_| measurement.evidence.ios() > 0)?;
        Some((trial, CountedTrial { measurement, costs, timed: false }))
    });
    let counted: Vec<_> = counted.collect();
    let without = measured().count() - counted.len();
    (counted, without)
}

/// The groups in reading order: small and shallow first. What one host did alone is a group of its own: the
/// target host's processor may be another, and of trials over a wire what a host executes at rest is taken
/// off. Within a group the paths are in the order of `paths`, or of the design space if that is empty;
/// refuted trials come last.
pub(super) fn groups<'a>(
    runs: &[(&'a Trial, CountedTrial<'a>)],
    paths: &[IoPath],
    looks: u32,
) -> Vec<WorkloadTrials<'a>> {
    let asked = runs.iter().filter(|(trial, _)| paths.is_empty() || paths.contains(&trial.path));
    let key = |trial: &'a Trial, run: &CountedTrial<'a>| {
        (&trial.workload, trial.generator, &run.costs.source, done_alone(trial))
    };
    let keyed = asked.map(|(trial, run)| (key(trial, run), (*trial, *run)));
    let group = |((workload, generator, source, _), runs): (_, Vec<(&'a Trial, CountedTrial<'a>)>)| {
        let place = |cell: &PathTrials<'_>| paths.iter().position(|path| *path == cell.path);
        let mut cells = cells(runs);
        cells.sort_by_key(|cell| (cell.refuted, place(cell), cell.path, cell.settings));
        WorkloadTrials { workload, generator, source, looks, cells }
    };
    let mut groups: Vec<WorkloadTrials<'a>> = grouped(keyed).into_iter().map(group).collect();
    groups.sort_by_key(|group| {
        let Workload { rw, bs, numjobs, iodepth, length, .. } = group.workload;
        (*rw, *bs, *numjobs, *iodepth, order(*length), group.generator)
    });
    groups
}

/// The host that did the I/O of a trial over fabrics alone; `None` for both hosts, and without fabrics.
fn done_alone(trial: &Trial) -> Option<HostSide> {
    let transport = trial.settings.get("transport").and_then(|text| text.parse::<Transport>().ok());
    let transport = transport.filter(|transport| !transport.is_remote())?;
    Some(if transport.is_on_target() { HostSide::Target } else { HostSide::Host })
}

fn cells<'a>(runs: Vec<(&'a Trial, CountedTrial<'a>)>) -> Vec<PathTrials<'a>> {
    let refuted = |run: &CountedTrial<'_>| run.measurement.verdict.kind == VerdictKind::Refuted;
    let keyed = runs.into_iter().map(|(trial, run)| ((trial.path, &trial.settings, refuted(&run)), run));
    let cell = |((path, settings, refuted), runs)| PathTrials { path, settings, refuted, runs };
    grouped(keyed).into_iter().map(cell).collect()
}

/// Lengths in time before lengths in I/Os, the short before the long.
fn order(length: Length) -> (bool, u128) {
    match length {
        Length::Runtime(time) => (false, time.as_nanos()),
        Length::Ios(ios) => (true, ios.into()),
    }
}
