//! The ways to carry a load that a store has measured, with their figures there.

use super::question::{AdviseQuestion, Bound, Objective};
use super::tail::{BoundAnswer, Tail};
use crate::contrast::Sample;
use crate::grouping::{grouped, unique};
use crate::metric::Metric;
use crate::stats::{Summary, mean, summarize};
use iopj_core::uring::RingFlag;
use iopj_core::{IoPath, OpenLoad, Workload};
use iopj_record::{EnergySource, Generator, Measurement, Trial};
use serde::Serialize;
use std::collections::BTreeMap;

/// A way to carry a load: a path, and how it is used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Way {
    /// The path.
    pub path: IoPath,
    /// Jobs.
    pub numjobs: u32,
    /// The most I/Os in flight of each.
    pub iodepth: u32,
    /// The most I/Os that are submitted at once.
    pub iodepth_batch_submit: u32,
    /// The least that are waited for.
    pub iodepth_batch_complete_min: u32,
    /// Settings of the host, by name.
    pub settings: BTreeMap<String, String>,
}

impl Way {
    /// One job with one I/O in flight; its path means nothing.
    const SINGLE: Way = Way {
        path: IoPath::Libaio,
        numjobs: 1,
        iodepth: 1,
        iodepth_batch_submit: 1,
        iodepth_batch_complete_min: 1,
        settings: BTreeMap::new(),
    };

    fn of(trial: &Trial) -> Way {
        let Workload { numjobs, iodepth, iodepth_batch_submit, iodepth_batch_complete_min, .. } =
            trial.workload;
        let (path, settings) = (trial.path, trial.settings.clone());
        Way { path, numjobs, iodepth, iodepth_batch_submit, iodepth_batch_complete_min, settings }
    }

    /// The workload of a load that is carried this way.
    pub fn workload(&self, load: &Workload) -> Workload {
        let Way { numjobs, iodepth, iodepth_batch_submit, iodepth_batch_complete_min, .. } = *self;
        Workload { numjobs, iodepth, iodepth_batch_submit, iodepth_batch_complete_min, ..load.clone() }
    }

    /// The `rate_iops` of each job that makes this rate of all jobs together, rounded up; within bursts, if
    /// the load has any.
    pub(super) fn rate_iops(&self, open: &OpenLoad, rate: u64) -> u64 {
        let share = OpenLoad { rate_iops: 1, rate_iops_end: None, ..*open }.mean_rate();
        (rate as f64 / f64::from(self.numjobs) / share).ceil() as u64
    }
}

/// How much I/O there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// I/Os that arrive in a second, of all jobs together.
    Rate(u64),
    /// The I/Os of a trace, when they were recorded or scaled to be.
    Trace,
    /// A closed loop: as much as these do.
    Closed {
        /// Jobs.
        numjobs: u32,
        /// I/Os in flight of each.
        iodepth: u32,
    },
}

impl Load {
    fn of(workload: &Workload) -> Load {
        let Workload { numjobs, iodepth, open, trace, .. } = workload;
        match (open, trace) {
            (Some(open), _) => Load::Rate((open.mean_rate() * f64::from(*numjobs)).round() as u64),
            (None, Some(trace)) if !trace.no_stall => Load::Trace,
            _ => Load::Closed { numjobs: *numjobs, iodepth: *iodepth },
        }
    }

    /// True if I/Os arrive whatever became of those before: jobs and depth belong to the way.
    pub fn is_open(&self) -> bool {
        !matches!(self, Load::Closed { .. })
    }

    /// The rate of a load that has one.
    pub fn rate(&self) -> Option<u64> {
        match self {
            Load::Rate(rate) => Some(*rate),
            Load::Trace | Load::Closed { .. } => None,
        }
    }
}

/// Loads that are alike but for how much there is to do.
pub(super) struct Family {
    /// The workload; what belongs to a way, and the rate, mean nothing.
    pub(super) workload: Workload,
    pub(super) generator: Generator,
    /// By load, ascending.
    pub(super) loads: Vec<(Load, Vec<Candidate>)>,
}

impl Family {
    /// The families of a store, in the order of their first trials.
    pub(super) fn all(trials: &[Trial], measures: &Measures<'_>) -> Vec<Family> {
        let admission = measures.question.admission;
        // Nobody deploys what only shows what choosing is worth.
        let deployed = trials.iter().filter(|trial| !trial.path.is_baseline());
        let competing = deployed.filter_map(|trial| Some((trial, admission.admit(trial).ok()?)));
        let keyed = competing.map(|(trial, one)| {
            let mut workload = Way::SINGLE.workload(&trial.workload);
            if let Some(open) = &mut workload.open {
                open.rate_iops = 1;
            }
            ((workload, trial.generator), (Load::of(&trial.workload), (Way::of(trial), (trial, one))))
        });
        let of_load = |(load, keyed): (Load, Vec<_>)| {
            let ways = grouped(keyed).into_iter();
            let mut all: Vec<Candidate> =
                ways.map(|(way, trials)| Candidate::of(way, load, &trials, measures)).collect();
            all.sort_by(|a, b| a.way.cmp(&b.way));
            mark_front(&mut all, measures.cost);
            (load, all)
        };
        let family = |((workload, generator), keyed): (_, Vec<_>)| {
            let mut loads: Vec<(Load, Vec<Candidate>)> = grouped(keyed).into_iter().map(of_load).collect();
            loads.sort_by_key(|(load, _)| *load);
            Family { workload, generator, loads }
        };
        grouped(keyed).into_iter().map(family).collect()
    }
}

/// What is measured of a candidate.
pub(super) struct Measures<'q> {
    pub(super) question: &'q AdviseQuestion,
    /// What the best way is best in.
    pub(super) objective: Objective,
    /// What that is ranked by.
    pub(super) metric: Metric,
    /// The cost of the front.
    pub(super) cost: Metric,
    /// The source of joules.
    pub(super) source: Option<&'q EnergySource>,
}

impl Measures<'_> {
    /// What is ranked at a load. One that gives the number of I/Os does not tell ways apart by it: there the
    /// latency does.
    pub(super) fn metric_at(&self, load: Load) -> Metric {
        match self.objective {
            Objective::Ios if load.is_open() => self.question.percentile().metric(),
            _ => self.metric,
        }
    }
}

/// A bound, and whether a way meets it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BoundCheck {
    /// The bound.
    pub bound: Bound,
    /// Its percentile.
    pub tail: Option<Tail>,
    /// Whether it is met.
    pub answer: BoundAnswer,
}

/// A way with its figures at a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// The way.
    pub way: Way,
    /// Trials that compete.
    pub replicates: usize,
    /// Of these, trials in which it fell behind.
    pub overloaded: usize,
    /// Trials in which a thread that spins lost its core.
    pub starved: usize,
    /// I/Os per second that it did.
    pub iops: f64,
    /// The percentile of the front.
    pub tail: Option<Tail>,
    /// The bounds that were asked for.
    pub bounds: Vec<BoundCheck>,
    /// The cost of the front over its replicates, in the unit of its metric; absent where not measured.
    #[serde(skip)]
    pub cost: Option<Summary>,
    /// No other way that keeps up has less latency and costs less.
    pub on_front: bool,
    /// An unproven or disturbed trial of it competes.
    pub marked: bool,
    /// What is ranked, by replicate.
    #[serde(skip)]
    pub(super) ranked: Sample,
    /// J per I/O, by replicate.
    #[serde(skip)]
    pub(super) joules_per_io: Sample,
    /// The disks under the target.
    #[serde(skip)]
    pub(super) devices: Vec<String>,
    /// The drive was taken from its driver.
    #[serde(skip)]
    pub(super) is_taken: bool,
    /// The flags that its rings were set up with.
    #[serde(skip)]
    pub(super) ring_flags: Vec<RingFlag>,
}

impl Candidate {
    fn of(way: Way, load: Load, trials: &[(&Trial, &Measurement)], measures: &Measures<'_>) -> Candidate {
        let Measures { question, cost, source, .. } = *measures;
        let metric = measures.metric_at(load);
        let all: Vec<&Measurement> = trials.iter().map(|(_, one)| *one).collect();
        let sample = |value: &dyn Fn(&Measurement) -> Option<f64>| -> Sample {
            trials.iter().filter_map(|(trial, one)| Some((trial.replicate, value(one)?))).collect()
        };
        let check = |bound: &Bound| {
            let tail = Tail::of(&all, bound.percentile);
            let answer = tail.as_ref().map_or(BoundAnswer::Open, |tail| tail.answer(bound));
            BoundCheck { bound: *bound, tail, answer }
        };
        let cost = sample(&|one| cost.value(one, source));
        let is_overloaded = |one: &&&Measurement| one.open.as_ref().is_some_and(|open| open.overload);
        Candidate {
            replicates: all.len(),
            overloaded: all.iter().filter(is_overloaded).count(),
            starved: all.iter().filter(|one| question.admission.starved(one).is_some()).count(),
            iops: mean(&all.iter().map(|one| one.iops()).collect::<Vec<f64>>()),
            tail: Tail::of(&all, question.percentile()),
            bounds: question.bounds.iter().map(check).collect(),
            cost: summarize(&cost.iter().map(|(_, value)| *value).collect::<Vec<f64>>()),
            on_front: false,
            marked: all.iter().any(|one| question.admission.is_marked(one)),
            ranked: sample(&|one| metric.value(one, source)),
            joules_per_io: sample(&|one| Metric::IosPerJoule.value(one, source).map(f64::recip)),
            devices: unique(all.iter().flat_map(|one| &one.evidence.devices).map(|one| one.name.clone())),
            is_taken: all.iter().flat_map(|one| &one.evidence.devices).any(|one| one.taken_by.is_some()),
            ring_flags: unique(
                all.iter()
                    .filter_map(|one| one.evidence.engine.as_ref())
                    .flat_map(|one| one.ring_flags.clone()),
            ),
            way,
        }
    }

    /// True if it may be chosen: it keeps up and meets every bound.
    pub fn is_eligible(&self) -> bool {
        self.keeps_up() && self.bounds.iter().all(|check| check.answer == BoundAnswer::Met)
    }

    /// True if it fell behind in no trial.
    pub fn keeps_up(&self) -> bool {
        self.overloaded == 0
    }

    /// The first bound that it does not meet, the missed ones first.
    pub fn unmet(&self) -> Option<&BoundCheck> {
        let unmet = |answer: BoundAnswer| self.bounds.iter().find(move |check| check.answer == answer);
        unmet(BoundAnswer::Missed).or_else(|| unmet(BoundAnswer::Open))
    }
}

/// Marks the ways that no other one beats in both latency and cost, by their means.
fn mark_front(all: &mut [Candidate], cost: Metric) {
    let place = |one: &Candidate| {
        let cost_of = one.cost.map(|cost| cost.mean).filter(|_| one.keeps_up())?;
        Some((one.tail.as_ref()?.ns, if cost.more_is_better() { -cost_of } else { cost_of }))
    };
    let places: Vec<Option<(f64, f64)>> = all.iter().map(place).collect();
    let beats = |a: (f64, f64), b: (f64, f64)| a.0 <= b.0 && a.1 <= b.1 && a != b;
    for (one, place) in all.iter_mut().zip(&places) {
        let is_beaten = |at: (f64, f64)| places.iter().flatten().any(|other| beats(*other, at));
        one.on_front = place.is_some_and(|at| !is_beaten(at));
    }
}
