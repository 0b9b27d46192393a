//! What to choose under each workload: by the metric that answers it, by tail latency and energy where these
//! answer differently, and which paths were starved or do not compete. `render` makes sentences of it.
//!
//! `winner` decides; under emulation, where times mean nothing, by instructions per I/O.

use super::admission::{Admission, Barred};
use super::contrast::{Sample, TestPlan, in_blocks};
use super::figure::FigureName;
use super::grouping::{TrialSetup, grouped};
use super::metric::Metric;
use super::stats::{LEVEL, Method, mean};
use super::winner::{Axis, AxisValue, Decision, MapCell, RankedPath, WinnerMap, WinnerQuestion, winner_maps};
use super::without_unsteady::{CellDecision, MapWithoutUnsteady, maps_without_unsteady};
use iopj_core::{IoPath, Spinner, Workload};
use iopj_record::{EnergySource, Measurement, Outcome, StudyRecord, Trial};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Of paths among which nothing is decided, one that takes this many times the CPU of another is named.
const MUCH_CPU: f64 = 1.5;

/// What a study decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choices {
    /// One for each workload, settings and generator under which a path competes, small and shallow first.
    pub all: Vec<Choice>,
    /// The paths that do not compete under some workload, each reason once.
    pub out: Vec<Out>,
    /// Workloads, with settings and generator, that have trials.
    pub setups: usize,
    /// Of these, how many have a path that competes and lacks the metric: under emulation, instructions.
    pub uncounted: usize,
}

/// What to choose under one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The workload, its settings, and what issued the I/O.
    pub setup: TrialSetup,
    /// The answer by I/Os per second, by a program's figure, or by instructions per I/O under emulation.
    pub first: Standing,
    /// Mean latency of the best path in ns; absent under emulation.
    pub latency_ns: Option<f64>,
    /// Other answers: by tail latency if it is another one, and by energy if that was measured.
    pub others: Vec<Standing>,
    /// Of the paths that `first` does not separate, or of the winner and the next one: the one that takes the
    /// least CPU and the one that takes the most, if it takes much more; in per cent of one core. A winner
    /// that takes less is not named.
    pub cpu: Option<[(IoPath, f64); 2]>,
    /// Paths that compete and spin, and lost their core, each with the worst of its trials.
    pub starved: Vec<(IoPath, Spinner)>,
}

/// The answer by one metric: the cell of its winner map.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The metric.
    pub metric: Metric,
    /// The meter and scope of an energy metric.
    pub source: Option<EnergySource>,
    /// What the program calls its figure, if one did the I/O.
    pub figure: Option<FigureName>,
    /// The share within which paths are equal.
    pub tolerance: f64,
    /// The ranking, and what it decides.
    pub cell: MapCell,
    /// What it decides without the unsteady trials, if that is something else.
    pub without_unsteady: Option<CellDecision>,
}

/// Paths that do not compete, for one reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Out {
    /// The paths.
    pub paths: Vec<IoPath>,
    /// Why.
    pub why: Barred,
    /// The first reason in words: that of the verdict, the error, or what disturbed the trials.
    pub reason: String,
    /// The number of workloads in which each of them does not compete.
    pub setups: usize,
}

impl Standing {
    /// What the cell decides.
    pub fn decision(&self) -> Decision {
        self.cell.decision()
    }

    /// How much worse a place is than the best, as a share: of the best's I/Os that it does not do, or of the
    /// best's time or count that it takes in addition.
    pub fn behind(&self, place: &RankedPath) -> f64 {
        let ratio = place.summary.mean / self.cell.ranking[0].summary.mean;
        if self.metric.more_is_better() { 1.0 - ratio } else { ratio - 1.0 }
    }

    /// How much better the winner is than the next path, with the 95 % interval: I/Os that it does more, or
    /// time that it takes less; absent without a finite one.
    pub fn lead(&self) -> Option<Lead> {
        let ratio = self.cell.lead()?.ratio?;
        let (share, low, high) = if self.metric.more_is_better() {
            (ratio.ratio - 1.0, ratio.low - 1.0, ratio.high - 1.0)
        } else {
            (1.0 - ratio.ratio, 1.0 - ratio.high, 1.0 - ratio.low)
        };
        Some(Lead { share, low, high }).filter(|lead| lead.high.is_finite())
    }

    /// The path that wins.
    fn winner(&self) -> Option<IoPath> {
        (self.decision() == Decision::Wins).then(|| self.cell.ranking[0].path)
    }
}

/// How much better the best path is than the next: a share, and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lead {
    /// The share.
    pub share: f64,
    /// The least that is compatible with the data.
    pub low: f64,
    /// The greatest.
    pub high: f64,
}

/// What these trials decide.
pub fn choices(study: &StudyRecord, trials: &[Trial], admission: Admission) -> Choices {
    let admission = admission.of(study);
    let by = |metric| standings(study, trials, metric, admission);
    let (first, others) = if FigureName::of(trials).is_some() && study.emulated.is_none() {
        (by(Metric::Figure), vec![by(Metric::FigurePerCpu), by(Metric::FigurePerJoule)])
    } else if study.emulated.is_some() {
        (by(Metric::Instructions(None)), Vec::new())
    } else {
        let deciding = |metric| {
            let is_own =
                move |(setup, _): &(TrialSetup, Standing)| Metric::deciding(&setup.workload) == metric;
            by(metric).into_iter().filter(is_own)
        };
        let first = deciding(Metric::Iops).chain(deciding(Metric::LatencyMean)).collect();
        (first, vec![by(Metric::LatencyP99), by(Metric::IosPerJoule)])
    };
    let groups = grouped(trials.iter().map(|trial| (TrialSetup::of(trial), trial)));
    let others: Vec<HashMap<TrialSetup, Standing>> = others.into_iter().map(by_setup).collect();
    let by_group: HashMap<&TrialSetup, &Vec<&Trial>> = groups.iter().map(|(key, all)| (key, all)).collect();
    let of = |(setup, first): (TrialSetup, Standing)| {
        let own = by_group.get(&setup).into_iter().flat_map(|trials| trials.iter());
        let own: Vec<Competing<'_>> = own
            .filter_map(|trial| Some((trial.path, trial.replicate, admission.admit(trial).ok()?)))
            .collect();
        let same = others.iter().filter_map(|of| of.get(&setup).cloned());
        let others = same.filter(|other| says_more(&first, other)).collect();
        Choice {
            latency_ns: latency_ns(&first, &own).filter(|_| study.emulated.is_none()),
            others,
            cpu: cpu(study, &first, &own).filter(|_| study.emulated.is_none()),
            starved: starved(&own, admission),
            setup,
            first,
        }
    };
    let mut all: Vec<Choice> = first.into_iter().map(of).collect();
    all.sort_by_key(|one| {
        let Workload { rw, bs, numjobs, iodepth, open, .. } = one.setup.workload;
        (rw, bs, numjobs, iodepth, open.map(|open| open.rate_iops))
    });
    let chosen: HashSet<&TrialSetup> = all.iter().map(|choice| &choice.setup).collect();
    let is_uncounted = |(setup, trials): &&(TrialSetup, Vec<&Trial>)| {
        let competes = |trial: &&Trial| !trial.path.is_baseline() && admission.admit(trial).is_ok();
        let competes = trials.iter().any(competes);
        competes && !chosen.contains(setup)
    };
    let uncounted = groups.iter().filter(is_uncounted).count();
    Choices { all, out: out(&groups, admission), setups: groups.len(), uncounted }
}

/// The first answer of each workload.
fn by_setup(all: Vec<(TrialSetup, Standing)>) -> HashMap<TrialSetup, Standing> {
    // Of equal keys the last one stays.
    all.into_iter().rev().collect()
}

/// A trial that competes: its path, its replicate, and what it measured.
type Competing<'a> = (IoPath, u32, &'a Measurement);

/// The answer of every workload that has one by this metric.
fn standings(
    study: &StudyRecord,
    trials: &[Trial],
    metric: Metric,
    admission: Admission,
) -> Vec<(TrialSetup, Standing)> {
    let Ok(question) = WinnerQuestion::new(metric, Axis::Iodepth, Axis::Numjobs) else { return Vec::new() };
    let question = WinnerQuestion { admission, ..question.of(study) };
    let tolerance = question.tolerance;
    let of = |(map, apart): (WinnerMap, Option<MapWithoutUnsteady>)| {
        let WinnerMap { workload, settings, generator, source, figure, cells, .. } = map;
        let redecided = apart.into_iter().flat_map(|apart| apart.cells);
        let mut redecided: BTreeMap<(AxisValue, AxisValue), CellDecision> =
            redecided.map(|one| (one.at, one.without)).collect();
        let standing = move |(at, cell): ((AxisValue, AxisValue), MapCell)| {
            let without_unsteady = redecided.remove(&at);
            let (AxisValue::Count(numjobs), AxisValue::Count(iodepth)) = at else { return None };
            let workload = Workload { iodepth, numjobs, ..workload.clone() };
            let setup = TrialSetup { workload, settings: settings.clone(), generator };
            let (source, figure) = (source.clone(), figure.clone());
            Some((setup, Standing { metric, source, figure, tolerance, cell, without_unsteady }))
        };
        cells.into_iter().filter(|(_, cell)| !cell.ranking.is_empty()).filter_map(standing)
    };
    let maps = winner_maps(trials, &question);
    let apart = maps_without_unsteady(study, trials, &question, &maps);
    maps.into_iter().zip(apart).flat_map(of).collect()
}

/// True if another metric's answer is worth a sentence: energy wherever several paths have it, tail latency
/// where another path wins by it, or where the first answer's winner is worse by it.
fn says_more(first: &Standing, other: &Standing) -> bool {
    if other.metric.is_energy() {
        return other.cell.ranking.len() > 1;
    }
    let best = first.winner();
    let is_worse = other.cell.ranking.iter().any(|place| Some(place.path) == best && place.differs());
    is_worse || (other.winner().is_some() && other.winner() != best)
}

/// Mean latency of the best path.
fn latency_ns(first: &Standing, own: &[Competing<'_>]) -> Option<f64> {
    let best = first.cell.ranking.first()?.path;
    let of_best = own.iter().filter(|(path, ..)| *path == best);
    let values: Vec<f64> = of_best.filter_map(|(.., one)| Metric::LatencyMean.value(one, None)).collect();
    (!values.is_empty()).then(|| mean(&values))
}

/// Of the paths that the answer does not separate, the one that takes the least CPU and the one that takes
/// the most, if that is much more and significantly so.
fn cpu(study: &StudyRecord, first: &Standing, own: &[Competing<'_>]) -> Option<[(IoPath, f64); 2]> {
    let metric = Metric::CpuPercent;
    let sample = |path: IoPath| -> Option<(IoPath, Sample, f64)> {
        let own = own.iter().filter(|(other, ..)| *other == path);
        let sample: Sample =
            own.filter_map(|(_, replicate, one)| Some((*replicate, metric.value(one, None)?))).collect();
        let values: Vec<f64> = sample.iter().map(|(_, value)| *value).collect();
        (!values.is_empty()).then(|| (path, sample, mean(&values)))
    };
    let winner = first.winner();
    let compared = match winner {
        Some(_) => first.cell.ranking.iter().take(2).collect(),
        None => first.cell.best(),
    };
    let mut paths: Vec<_> = compared.iter().filter_map(|place| sample(place.path)).collect();
    paths.sort_by(|(.., a), (.., b)| a.total_cmp(b));
    let [(least, few, least_cpu), .., (most, many, most_cpu)] = &paths[..] else { return None };
    let method = if in_blocks(study) { Method::Paired } else { Method::Welch };
    // The data choose which two of the paths these are.
    let pairs = paths.len() * (paths.len() - 1) / 2;
    let plan = TestPlan { looks: study.looks(), ..TestPlan::of(metric, method, pairs) };
    let p = plan.contrast(many, few)?.p * pairs as f64;
    let is_much = *most_cpu >= MUCH_CPU * least_cpu && p < LEVEL && winner.is_none_or(|path| path == *most);
    is_much.then_some([(*least, *least_cpu), (*most, *most_cpu)])
}

/// The paths with a trial whose spinning thread lost its core, each with the one that waited longest.
fn starved(own: &[Competing<'_>], admission: Admission) -> Vec<(IoPath, Spinner)> {
    let starved = own.iter().filter_map(|(path, _, one)| Some((*path, *admission.starved(one)?)));
    let worst = |(path, all): (IoPath, Vec<Spinner>)| {
        Some((path, all.into_iter().max_by(|a, b| a.waited.total_cmp(&b.waited))?))
    };
    grouped(starved).into_iter().filter_map(worst).collect()
}

/// The paths that do not compete under some workload.
fn out(groups: &[(TrialSetup, Vec<&Trial>)], admission: Admission) -> Vec<Out> {
    let by_path = grouped(groups.iter().flat_map(|(_, trials)| barred(trials, admission)));
    let alike = by_path
        .into_iter()
        .map(|((path, why), trials)| ((why, reason(trials[0], why, admission), trials.len()), path));
    let mut out: Vec<Out> = grouped(alike)
        .into_iter()
        .map(|((why, reason, setups), paths)| Out { paths, why, reason, setups })
        .collect();
    out.sort_by_key(|one| one.why);
    out
}

/// The paths of which none of these trials competes, each with the first reason and its trial.
fn barred<'t>(trials: &[&'t Trial], admission: Admission) -> Vec<((IoPath, Barred), &'t Trial)> {
    let paths = grouped(trials.iter().map(|trial| (trial.path, *trial)));
    let of = |(path, trials): (IoPath, Vec<&'t Trial>)| {
        let why: Option<Vec<Barred>> = trials.iter().map(|trial| admission.admit(trial).err()).collect();
        Some(((path, *why?.first()?), trials[0]))
    };
    paths.into_iter().filter_map(of).collect()
}

/// Why a trial does not compete, in words.
fn reason(trial: &Trial, why: Barred, admission: Admission) -> String {
    match &trial.outcome {
        Outcome::Failed(error) => error.clone(),
        Outcome::Measured(_) if why == Barred::Incomplete => {
            "no I/O moved all its bytes, or more than 0.1 % were short".to_owned()
        }
        Outcome::Measured(one) if why == Barred::Disturbed => admission.disturbed(one).unwrap_or_default(),
        Outcome::Measured(one) => one.verdict.reasons.first().cloned().unwrap_or_default(),
    }
}
