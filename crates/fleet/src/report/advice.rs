//! Which path to roll out for a workload with its settings and generator, and what that saves.

use super::read::{Figure, KindTrials};
use iopj_analysis::metric::Metric;
use iopj_analysis::stats::{Ratio, ratio_of_paired_means};
use iopj_analysis::winner::{self, Axis, MapCell, WinnerQuestion, rank};
use serde::Serialize;
use std::collections::BTreeMap;

/// What is compared with, the first that was measured: what programs do that chose nothing.
const PLAIN: [&str; 4] = [
    "io_uring/syscall/interrupt",
    "libaio/syscall/interrupt",
    "posix-sio/syscall/interrupt",
    "posix-aio/syscall/interrupt",
];

/// Which path to take.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The path.
    pub path: String,
    /// What it has the least of: `joules` where a meter of the whole machine measured, else `cpu`.
    pub by: &'static str,
    /// `wins`, `equal` or `undecided` against the others that might be taken; `alone` without one.
    pub decision: &'static str,
    /// The paths that it is not distinguished from.
    pub rivals: Vec<String>,
    /// The p-value of the decision, corrected over all kinds and set-ups.
    pub p: Option<f64>,
    /// The hosts that decide: those that have the figure for each of these paths.
    pub hosts: usize,
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
    #[serde(skip)]
    cell: MapCell<String>,
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

/// The path with the least joules for each I/O where they were measured, else with the least CPU time, among
/// those that are verified.
pub(super) fn advice(trials: &KindTrials, setup: u32, paths: &[u32]) -> Option<Advice> {
    let sound: Vec<u32> = paths.iter().copied().filter(|path| trials.is_sound(setup, *path)).collect();
    let least = |figure| least_on_all(trials, setup, &sound, figure);
    let by_joules = least(Figure::JoulesPerIo).map(|found| (found, "joules"));
    let ((cell, hosts), by) = by_joules.or_else(|| least(Figure::CpuNsPerIo).map(|found| (found, "cpu")))?;
    let named = |name: &str| paths.iter().copied().find(|path| trials.paths.name(*path) == name);
    let path = named(&cell.ranking.first()?.path)?;
    let against = PLAIN.iter().find_map(|name| named(name)).unwrap_or(path);
    let saving = |figure| saving(trials, setup, [path, against], figure);
    Some(Advice {
        path: trials.paths.name(path).to_owned(),
        by,
        decision: cell.decision().as_str(),
        rivals: Vec::new(),
        p: cell.p,
        hosts,
        against: trials.paths.name(against).to_owned(),
        verified_share: trials.verified_share(setup, path),
        joules: saving(Figure::JoulesPerIo),
        cpu: saving(Figure::CpuNsPerIo),
        latency: saving(Figure::LatencyMean),
        cell,
    })
}

/// Decides, with the p-values corrected over all of this advice.
pub(super) fn correct<'a>(advice: impl Iterator<Item = &'a mut Advice>) {
    let mut advice: Vec<&mut Advice> = advice.collect();
    winner::correct(advice.iter_mut().map(|one| &mut one.cell));
    for one in advice {
        one.decision = one.cell.decision().as_str();
        one.p = one.cell.p;
        one.rivals = one.cell.best().into_iter().skip(1).map(|place| place.path.clone()).collect();
    }
}

/// The paths by a figure, the least first, over the hosts that have it for each of them, and how many hosts
/// these are; `None` with fewer than two.
fn least_on_all(
    trials: &KindTrials,
    setup: u32,
    paths: &[u32],
    figure: Figure,
) -> Option<(MapCell<String>, usize)> {
    let figures: Vec<BTreeMap<u32, f64>> =
        paths.iter().map(|path| trials.of_hosts(setup, *path, figure).into_iter().collect()).collect();
    let has_all = |host: &&u32| figures.iter().all(|of_path| of_path.contains_key(host));
    let hosts: Vec<u32> = figures.first()?.keys().filter(has_all).copied().collect();
    if hosts.len() < 2 {
        return None;
    }
    let sample = |of_path: &BTreeMap<u32, f64>| hosts.iter().map(|host| (*host, of_path[host])).collect();
    let names = paths.iter().map(|path| trials.paths.name(*path).to_owned());
    let samples: BTreeMap<String, Vec<(u32, f64)>> = names.zip(figures.iter().map(sample)).collect();
    // Of the question only the direction matters here, and a latency is better where it is less.
    let question = WinnerQuestion::new(Metric::LatencyMean, Axis::Iodepth, Axis::Bs).ok()?;
    let family = samples.len().saturating_sub(1).max(1);
    Some((rank(samples, &question, family), hosts.len()))
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
