//! Which path is fastest for a workload with its settings and generator.

use super::advice::{self, Advice};
use super::read::{Figure, KindTrials};
use iopj_analysis::metric::Metric;
use iopj_analysis::stats::{Summary, summarize};
use iopj_analysis::winner::{self, Axis, MapCell, WinnerQuestion, rank};
use serde::Serialize;
use std::collections::BTreeMap;

/// A workload with its settings and generator on a kind of machine.
#[derive(Clone, Debug, Serialize)]
pub struct WorkloadReport {
    /// What its trials share, in words.
    pub setup: String,
    /// The workload's title.
    pub workload: String,
    /// Settings of the study.
    pub settings: String,
    /// What issued the I/O.
    pub generator: String,
    /// `wins`, `equal`, `undecided`, `alone` or `empty`: by IOPS, over hosts.
    pub decision: &'static str,
    /// The path with the most IOPS; unless it wins, also those that are not distinguished from it.
    pub best: Vec<String>,
    /// The p-value of the decision, corrected over all kinds and set-ups.
    pub p: Option<f64>,
    /// Every path.
    pub paths: Vec<PathFigures>,
    /// Which path to take; absent where nothing is verified on enough hosts.
    pub advice: Option<Advice>,
    #[serde(skip)]
    cell: MapCell<String>,
}

/// A path on the hosts of a kind.
#[derive(Clone, Debug, Serialize)]
pub struct PathFigures {
    /// The path.
    pub path: String,
    /// Hosts that measured it.
    pub hosts: usize,
    /// Of these, hosts where a trial competes and none was refuted.
    pub verified_hosts: usize,
    /// Its trials.
    pub trials: u32,
    /// Of these, trials whose path was verified.
    pub verified_trials: u32,
    /// Mean over hosts, with its 95 % interval: I/Os per second.
    pub iops: Option<Mean>,
    /// Mean latency in ns.
    pub latency_ns: Option<Mean>,
    /// 99th percentile of the latency in ns, its mean over trials and hosts.
    pub latency_p99_ns: Option<Mean>,
    /// CPU time of the threads that do or serve an I/O, in ns.
    pub cpu_ns_per_io: Option<Mean>,
    /// Joules of the whole machine for an I/O.
    pub joules_per_io: Option<Mean>,
}

/// A mean over hosts.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Its 95 % interval; absent for one host.
    pub interval: Option<(f64, f64)>,
}

impl From<Summary> for Mean {
    fn from(summary: Summary) -> Mean {
        Mean { mean: summary.mean, interval: summary.interval }
    }
}

/// All set-ups of a kind.
pub(super) fn workloads(trials: &KindTrials) -> Vec<WorkloadReport> {
    trials.setups.numbers().map(|setup| of_setup(trials, setup)).collect()
}

fn of_setup(trials: &KindTrials, setup: u32) -> WorkloadReport {
    let paths = trials.paths_of(setup);
    let samples = paths
        .iter()
        .map(|path| (trials.paths.name(*path).to_owned(), trials.of_hosts(setup, *path, Figure::Iops)));
    let samples: BTreeMap<String, Vec<(u32, f64)>> = samples.filter(|(_, hosts)| !hosts.is_empty()).collect();
    let family = samples.len().saturating_sub(1).max(1);
    // The axes of a map, which one cell alone does not have.
    let cell = match WinnerQuestion::new(Metric::Iops, Axis::Iodepth, Axis::Bs) {
        Ok(question) => rank(samples, &question, family),
        Err(_) => MapCell::default(),
    };
    let parts = trials.parts.get(setup as usize);
    WorkloadReport {
        setup: trials.setups.name(setup).to_owned(),
        workload: parts.map(|one| one.workload.clone()).unwrap_or_default(),
        settings: parts.map(|one| one.settings.clone()).unwrap_or_default(),
        generator: parts.map(|one| one.generator.clone()).unwrap_or_default(),
        decision: cell.decision().as_str(),
        best: Vec::new(),
        p: cell.p,
        paths: paths.iter().map(|path| figures(trials, setup, *path)).collect(),
        advice: advice::advice(trials, setup, &paths),
        cell,
    }
}

/// Decides, with the p-values corrected over all of these workloads.
pub(super) fn correct<'w>(workloads: impl Iterator<Item = &'w mut WorkloadReport>) {
    let mut workloads: Vec<&mut WorkloadReport> = workloads.collect();
    winner::correct(workloads.iter_mut().map(|workload| &mut workload.cell));
    advice::correct(workloads.iter_mut().filter_map(|workload| workload.advice.as_mut()));
    for one in workloads {
        one.decision = one.cell.decision().as_str();
        one.p = one.cell.p;
        one.best = one.cell.best().iter().map(|place| place.path.clone()).collect();
    }
}

fn figures(trials: &KindTrials, setup: u32, path: u32) -> PathFigures {
    let mean = |figure| {
        let values: Vec<f64> =
            trials.of_hosts(setup, path, figure).into_iter().map(|(_, value)| value).collect();
        summarize(&values).map(Mean::from)
    };
    let verified = trials.verified(setup, path);
    PathFigures {
        path: trials.paths.name(path).to_owned(),
        hosts: verified.measured,
        verified_hosts: verified.hosts,
        trials: verified.trials,
        verified_trials: verified.verified,
        iops: mean(Figure::Iops),
        latency_ns: mean(Figure::LatencyMean),
        latency_p99_ns: mean(Figure::LatencyP99),
        cpu_ns_per_io: mean(Figure::CpuNsPerIo),
        joules_per_io: mean(Figure::JoulesPerIo),
    }
}
