//! The data of a claim: the trials that may be compared, and their cells, each with the trials of one path
//! under one workload.

use super::metrics::ClaimMetric;
use super::{ClaimContext, ClaimFigure};
use iopj_analysis::admission::BarredCounts;
use iopj_analysis::contrast::{Sample, TestPlan};
use iopj_analysis::grouping::{ascending, grouped};
use iopj_analysis::stats::summarize;
use iopj_core::{IoPath, Rw, Workload, format_bytes};
use iopj_record::{EnergySource, Measurement, Trial};
use std::collections::BTreeMap;
use std::fmt;

/// The part of a workload that the claims vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) rw: Rw,
    pub(super) bs: u32,
    pub(super) iodepth: u32,
    pub(super) numjobs: u32,
}

impl Shape {
    /// I/Os of 4 KiB, one at a time on one thread.
    pub(super) fn of_4k(rw: Rw) -> Shape {
        Shape { rw, bs: 4096, iodepth: 1, numjobs: 1 }
    }

    pub(super) fn of(workload: &Workload) -> Shape {
        Shape { rw: workload.rw, bs: workload.bs, iodepth: workload.iodepth, numjobs: workload.numjobs }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { rw, bs, iodepth, numjobs } = self;
        write!(f, "{rw} {} iodepth {iodepth} numjobs {numjobs}", format_bytes((*bs).into()))
    }
}

/// What a part that depends on a time lacks if the machine was emulated.
pub const EMULATED: &str = "emulated: times mean nothing";

/// Trials that may be compared: they share generator, settings, and the workload except its shape.
pub(super) struct TrialSet<'a> {
    pub(super) trials: Vec<&'a Trial>,
    /// The machine on which they ran.
    pub(super) machine: ClaimContext,
    /// The meter and scope of all energy.
    pub(super) source: Option<&'a EnergySource>,
}

/// A workload without its shape.
pub(super) fn without_shape(workload: &Workload) -> Workload {
    let Workload { rw, bs, iodepth, numjobs, .. } = Workload::default();
    Workload { rw, bs, iodepth, numjobs, ..workload.clone() }
}

/// What the trials of a [`TrialSet`] share: the workload without its shape, the settings and the generator.
fn shared(trial: &Trial) -> (Workload, &BTreeMap<String, String>, iopj_record::Generator) {
    (without_shape(&trial.workload), &trial.settings, trial.generator)
}

impl<'a> TrialSet<'a> {
    /// The trials of a store by what they share, of paths that were asked for as such; one set without trials
    /// for a store without any.
    pub(super) fn of(
        trials: &'a [Trial],
        machine: ClaimContext,
        source: Option<&'a EnergySource>,
    ) -> Vec<TrialSet<'a>> {
        let fixed = trials.iter().filter(|trial| trial.path.is_fixed());
        let sets = grouped(fixed.map(|trial| (shared(trial), trial)));
        if sets.is_empty() {
            return vec![TrialSet { trials: Vec::new(), machine, source }];
        }
        sets.into_iter().map(|(_, trials)| TrialSet { trials, machine, source }).collect()
    }

    /// The cell of a path under a workload.
    pub(super) fn cell(&self, path: IoPath, shape: Shape) -> ClaimCell<'a> {
        self.cell_of((path, shape), [path.to_string(), path.to_string()], |_| true)
    }

    /// The same of the trials that belong to it, with its name beside other cells and its name alone.
    pub(super) fn cell_of(
        &self,
        (path, shape): (IoPath, Shape),
        [name, full_name]: [String; 2],
        belongs: impl Fn(&Trial) -> bool,
    ) -> ClaimCell<'a> {
        let (machine, source) = (self.machine, self.source);
        let (verified, blocks, left_out) = (Vec::new(), Vec::new(), BarredCounts::default());
        let mut cell =
            ClaimCell { path, name, full_name, shape, machine, source, verified, blocks, left_out };
        let is_own = |trial: &Trial| trial.path == path && Shape::of(&trial.workload) == shape;
        for trial in self.trials.iter().filter(|trial| is_own(trial) && belongs(trial)) {
            match self.machine.admission.admit(trial) {
                Ok(measurement) => {
                    cell.verified.push(measurement);
                    cell.blocks.push(trial.replicate);
                }
                Err(why) => cell.left_out.add(why),
            }
        }
        cell
    }

    /// The cells of a workload whose path fits, in the order of paths: those with a verified trial, then the
    /// rest.
    pub(super) fn cells(
        &self,
        shape: Shape,
        fits: impl Fn(&IoPath) -> bool,
    ) -> (Vec<ClaimCell<'a>>, Vec<ClaimCell<'a>>) {
        let of_shape = self.trials.iter().filter(|trial| Shape::of(&trial.workload) == shape);
        let paths = ascending(of_shape.map(|trial| trial.path).filter(fits));
        paths.into_iter().map(|path| self.cell(path, shape)).partition(|cell| !cell.verified.is_empty())
    }

    /// The workloads that fit of trials of these paths, by depth and threads.
    pub(super) fn shapes(&self, paths: &[IoPath], fits: impl Fn(&Shape) -> bool) -> Vec<Shape> {
        self.shapes_of_all(|path| paths.contains(path), fits)
    }

    /// The same for all paths that fit.
    pub(super) fn shapes_of_all(
        &self,
        is_asked: impl Fn(&IoPath) -> bool,
        fits: impl Fn(&Shape) -> bool,
    ) -> Vec<Shape> {
        let of_paths = self.trials.iter().filter(|trial| is_asked(&trial.path));
        let mut shapes: Vec<Shape> = of_paths.map(|trial| Shape::of(&trial.workload)).filter(fits).collect();
        shapes.sort_unstable_by_key(|shape| (shape.iodepth, shape.numjobs, shape.rw, shape.bs));
        shapes.dedup();
        shapes
    }

    /// The first of these paths that has a verified trial, else the first that has any trial, else the first
    /// of all.
    pub(super) fn preferred(&self, paths: [IoPath; 2]) -> IoPath {
        let is_verified = |trial: &Trial| self.machine.admission.admit(trial).is_ok();
        let of = |path: IoPath| self.trials.iter().filter(move |trial| trial.path == path);
        let rank = |path: IoPath| (!of(path).any(|trial| is_verified(trial)), of(path).next().is_none());
        if rank(paths[1]) < rank(paths[0]) { paths[1] } else { paths[0] }
    }

    /// What the machine lacks for questions about more than one busy core; `None` if nothing.
    pub(super) fn lacks_cores(&self) -> Option<String> {
        match self.machine.cores {
            0 => Some("a measured trial, which shows the number of cores".to_owned()),
            1 => Some("a machine with at least two cores".to_owned()),
            _ => None,
        }
    }

    /// What these trials share, in words: the generator and the settings.
    pub(super) fn label(&self) -> String {
        let Some(first) = self.trials.first() else { return String::new() };
        let settings = first.settings.iter().map(|(name, value)| format!("{name}={value}"));
        let words: Vec<String> = [first.generator.as_str().to_owned(), first.workload.length_text()]
            .into_iter()
            .chain(settings)
            .collect();
        words.join(" ")
    }
}

/// The trials of a path under a workload.
#[derive(Clone)]
pub(super) struct ClaimCell<'a> {
    pub(super) path: IoPath,
    /// Its name beside the cells that it is compared with: the path, or what else tells them apart.
    pub(super) name: String,
    /// Its name alone.
    pub(super) full_name: String,
    pub(super) shape: Shape,
    pub(super) machine: ClaimContext,
    source: Option<&'a EnergySource>,
    /// The trials that compete.
    pub(super) verified: Vec<&'a Measurement>,
    /// The replicate of each.
    blocks: Vec<u32>,
    pub(super) left_out: BarredCounts,
}

impl ClaimCell<'_> {
    /// Its workload; also its path if its name does not say it.
    pub(super) fn place(&self) -> String {
        let path = self.path.to_string();
        if self.name == path { self.shape.to_string() } else { format!("{}, {path}", self.shape) }
    }

    /// The figures of its trials; empty if they mean nothing.
    pub(super) fn values(&self, metric: ClaimMetric) -> Vec<f64> {
        self.sample(metric).into_iter().map(|(_, value)| value).collect()
    }

    /// The same with their replicates.
    pub(super) fn sample(&self, metric: ClaimMetric) -> Sample {
        let meaningful = !(self.machine.emulated && metric.is_time());
        let all = self.blocks.iter().zip(&self.verified).filter(|_| meaningful);
        all.filter_map(|(block, one)| Some((*block, metric.value(one, self.source)?))).collect()
    }

    /// How its figures are compared with another cell's, in a family of this many comparisons.
    pub(super) fn plan(&self, metric: ClaimMetric, family: usize) -> TestPlan {
        self.machine.plan(metric.is_percentile(), family)
    }

    /// The mean over its verified trials; absent without any.
    pub(super) fn mean(&self, metric: ClaimMetric) -> Option<f64> {
        summarize(&self.values(metric)).map(|summary| summary.mean)
    }

    /// Its figure beside the paper's.
    pub(super) fn figure(&self, metric: ClaimMetric, published: Option<f64>) -> ClaimFigure {
        ClaimFigure::of(self.name.clone(), metric.unit, &self.values(metric), published)
    }

    /// What this cell lacks to have this many verified replicates with the figure.
    pub(super) fn lacks(&self, metric: ClaimMetric, replicates: usize) -> Option<String> {
        let (name, shape, have) = (&self.full_name, self.shape, self.verified.len());
        if self.machine.emulated && metric.is_time() {
            return Some(EMULATED.to_owned());
        }
        if have >= replicates.max(1) {
            let with = self.values(metric).len();
            let lack = format!("{name}, {shape} ({} in {with} of {have} verified trials)", metric.name);
            return (with < replicates.max(1)).then_some(lack);
        }
        let competing = (have > 0).then(|| format!("{have} verified"));
        let counts: Vec<String> = competing.into_iter().chain(self.left_out.words()).collect();
        let counts = if counts.is_empty() { "no trial".to_owned() } else { counts.join(", ") };
        Some(format!("{name}, {shape} ({counts}; {} verified needed)", replicates.max(1)))
    }
}
