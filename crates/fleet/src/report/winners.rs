//! Which path is fastest for a workload, which to take, and what that saves.

use super::read::{Figure, KindTrials};
use iopj_report::analysis::metric::Metric;
use iopj_report::analysis::stats::{Ratio, Summary, ratio_of_paired_means, summarize};
use iopj_report::analysis::winner::{self, Axis, MapCell, WinnerQuestion, rank};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The share of hosts on which a path must be verified to be rolled out.
const VERIFIED_SHARE: f64 = 0.95;

/// What is compared with, the first that was measured: what programs do that chose nothing.
const PLAIN: [&str; 4] = [
    "io_uring/syscall/interrupt",
    "libaio/syscall/interrupt",
    "posix-sio/syscall/interrupt",
    "posix-aio/syscall/interrupt",
];

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
    /// Of these, hosts where no trial was refuted.
    pub verified_hosts: usize,
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

/// Which path to take.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The path.
    pub path: String,
    /// What it has the least of: `joules` where a meter of the whole machine measured, else `cpu`.
    pub by: &'static str,
    /// What it is compared with.
    pub against: String,
    /// The share of hosts where it is verified.
    pub verified_share: f64,
    /// Joules for each I/O.
    pub joules: Option<Saving>,
    /// CPU time for each I/O.
    pub cpu: Option<Saving>,
    /// Mean latency.
    pub latency: Option<Saving>,
}

/// The share that is saved of what it is compared with; below zero it costs more.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Saving {
    /// The share.
    pub share: f64,
    /// Its 95 % interval over hosts.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// All set-ups of a kind.
pub(super) fn workloads(trials: &KindTrials) -> Vec<WorkloadReport> {
    trials.setups.numbers().map(|setup| of_setup(trials, setup)).collect()
}

fn of_setup(trials: &KindTrials, setup: u32) -> WorkloadReport {
    let paths = trials.paths.numbers().filter(|path| trials.of(setup, *path).next().is_some());
    let paths: Vec<u32> = paths.collect();
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
        advice: advice(trials, setup, &paths),
        cell,
    }
}

/// Decides, with the p-values corrected over all of these workloads.
pub(super) fn correct<'w>(workloads: impl Iterator<Item = &'w mut WorkloadReport>) {
    let mut workloads: Vec<&mut WorkloadReport> = workloads.collect();
    winner::correct(workloads.iter_mut().map(|workload| &mut workload.cell));
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
    let (all, verified) = verified_hosts(trials, setup, path);
    PathFigures {
        path: trials.paths.name(path).to_owned(),
        hosts: all,
        verified_hosts: verified,
        iops: mean(Figure::Iops),
        latency_ns: mean(Figure::LatencyMean),
        latency_p99_ns: mean(Figure::LatencyP99),
        cpu_ns_per_io: mean(Figure::CpuNsPerIo),
        joules_per_io: mean(Figure::JoulesPerIo),
    }
}

/// Hosts that measured a path, and those of them where it was verified and never refuted.
fn verified_hosts(trials: &KindTrials, setup: u32, path: u32) -> (usize, usize) {
    let mut all = BTreeSet::new();
    let (mut refuted, mut verified) = (BTreeSet::new(), BTreeSet::new());
    for cell in trials.of(setup, path) {
        all.insert(cell.host);
        if cell.refuted > 0 {
            refuted.insert(cell.host);
        }
        if cell.verified > 0 {
            verified.insert(cell.host);
        }
    }
    (all.len(), verified.difference(&refuted).count())
}

/// The path with the least joules for each I/O where they were measured, else with the least CPU time, among
/// those that are verified on nearly every host.
fn advice(trials: &KindTrials, setup: u32, paths: &[u32]) -> Option<Advice> {
    // Of all hosts that did it: a path that one host of many has is not one to roll out.
    let of_setup = paths.iter().flat_map(|path| trials.of(setup, *path)).map(|cell| cell.host);
    let hosts = of_setup.collect::<BTreeSet<u32>>().len().max(1) as f64;
    let share = |path: u32| verified_hosts(trials, setup, path).1 as f64 / hosts;
    let sound: Vec<u32> = paths.iter().copied().filter(|path| share(*path) >= VERIFIED_SHARE).collect();
    let least = |figure: Figure| least_on_all(trials, setup, &sound, figure);
    let by_joules = least(Figure::JoulesPerIo).map(|path| (path, "joules"));
    let (path, by) = by_joules.or_else(|| least(Figure::CpuNsPerIo).map(|path| (path, "cpu")))?;
    let plain = |name: &&str| paths.iter().copied().find(|path| trials.paths.name(*path) == *name);
    let against = PLAIN.iter().find_map(plain).unwrap_or(path);
    let saving = |figure| saving(trials, setup, [path, against], figure);
    Some(Advice {
        path: trials.paths.name(path).to_owned(),
        by,
        against: trials.paths.name(against).to_owned(),
        verified_share: share(path),
        joules: saving(Figure::JoulesPerIo),
        cpu: saving(Figure::CpuNsPerIo),
        latency: saving(Figure::LatencyMean),
    })
}

/// The path with the least mean of a figure, over the hosts that have it for each of these paths; `None` with
/// fewer than two such hosts.
fn least_on_all(trials: &KindTrials, setup: u32, paths: &[u32], figure: Figure) -> Option<u32> {
    let figures: Vec<BTreeMap<u32, f64>> =
        paths.iter().map(|path| trials.of_hosts(setup, *path, figure).into_iter().collect()).collect();
    let has_all = |host: &&u32| figures.iter().all(|of_path| of_path.contains_key(host));
    let hosts: Vec<u32> = figures.first()?.keys().filter(has_all).copied().collect();
    if hosts.len() < 2 {
        return None;
    }
    let sum = |of_path: &BTreeMap<u32, f64>| hosts.iter().map(|host| of_path[host]).sum::<f64>();
    let sums = paths.iter().zip(&figures).map(|(path, of_path)| (*path, sum(of_path)));
    sums.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(path, _)| path)
}

/// What the first path saves of a figure of the second, over the hosts that have both.
fn saving(trials: &KindTrials, setup: u32, [path, against]: [u32; 2], figure: Figure) -> Option<Saving> {
    if path == against {
        return None;
    }
    let plain: BTreeMap<u32, f64> = trials.of_hosts(setup, against, figure).into_iter().collect();
    let own = trials.of_hosts(setup, path, figure).into_iter();
    let pairs = own.filter_map(|(host, value)| Some((value, *plain.get(&host)?)));
    let (own, plain): (Vec<f64>, Vec<f64>) = pairs.unzip();
    let Ratio { ratio, low, high } = ratio_of_paired_means(&own, &plain)?;
    Some(Saving { share: 1.0 - ratio, low: 1.0 - high, high: 1.0 - low })
}
