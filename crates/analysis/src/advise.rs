//! Which way to carry a load: of those that keep up and meet the bounds, the one that is best by the
//! objective, how sure that is, what it saves, and what would change the answer.
//!
//! `docs/advise.md` gives each rule with its reason. `render` makes sentences of it.

pub mod candidate;
mod flips;
pub mod highest;
pub mod next;
pub mod question;
pub mod recipe;
mod saving;
pub mod tail;

pub use candidate::{BoundCheck, Candidate, Load, Way};
pub use flips::{Flips, ToFlip};
pub use highest::{Carried, Highest};
pub use question::{AdviseError, AdviseQuestion, Bound, Objective, Percentile, UnknownObjective};
pub use recipe::Step;
pub use saving::{Against, Saving, SavingLack, Savings};
pub use tail::{BoundAnswer, LimitBy, Tail};

use super::contrast::Sample;
use super::figure::FigureName;
use super::grouping::ascending;
use super::metric::Metric;
use super::winner::{Axis, Decision, MapCell, WinnerQuestion, correct, rank};
use candidate::{Family, Measures};
use iopj_core::{IoPath, Workload};
use iopj_record::{EnergySource, Generator, StudyRecord, Trial};
use std::collections::BTreeMap;

/// The answers of a store.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// What the best way is best in.
    pub objective: Objective,
    /// What is ranked, or, of the most I/Os per second, what decides.
    pub metric: Metric,
    /// The cost of the front.
    pub cost: Metric,
    /// The meter and scope of all joules; absent without a measurement of energy.
    pub source: Option<EnergySource>,
    /// One for each set of loads that differ only in how much there is to do.
    pub groups: Vec<Group>,
    /// Paths of the store that only show what choosing is worth, and are no way to carry a load.
    pub baselines: Vec<IoPath>,
}

/// Loads that differ only in how much there is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The workload; jobs, depth, batches and rate are those of the ways and loads.
    pub workload: Workload,
    /// What issued the I/O.
    pub generator: Generator,
    /// What was asked for, if a rate was.
    pub asked: Option<Asked>,
    /// The answers, in the order of the loads.
    pub answers: Vec<Answer>,
    /// Where the most I/Os per second are asked for and their number is given by the load: the highest rates.
    /// Then the only answer is that at the highest of all, or if none is carried, at the least.
    pub highest: Option<Highest>,
    /// All loads that were measured, with the ways at each, ascending.
    pub loads: Vec<(Load, Vec<Candidate>)>,
}

/// Where a rate that was asked for lies.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// It was measured.
    Measured(u64),
    /// It lies between two that were measured, which are both answered.
    Between {
        /// The rate.
        rate: u64,
        /// The way that both answers name; absent where they differ, or one is undecided.
        same: Option<Way>,
    },
}

/// The answer at one load.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The load.
    pub load: Load,
    /// Every way that was measured at it.
    pub candidates: Vec<Candidate>,
    /// What these are ranked by: the metric of the advice, but of a load that gives the number of I/Os, the
    /// latency instead of that.
    pub metric: Metric,
    /// Those that may be chosen, ranked.
    pub cell: MapCell<Way>,
    /// What the chosen way saves in a year, or why that is not said; absent if none can be chosen.
    pub savings: Option<Result<Savings, SavingLack>>,
    /// What would change the answer.
    pub flips: Flips,
    /// What to type for the way to take.
    pub recipe: Vec<Step>,
}

impl Answer {
    /// The way to take: the best one; of equal ones, that of the least latency.
    pub fn way(&self) -> Option<&Way> {
        if self.cell.decision() != Decision::Equal {
            return self.cell.ranking.first().map(|place| &place.path);
        }
        let latency = |way: &Way| self.candidate(way).and_then(|one| one.tail.as_ref()).map(|tail| tail.ns);
        let alike = self.cell.best().into_iter().map(|place| &place.path);
        alike.min_by(|a, b| {
            latency(a).unwrap_or(f64::INFINITY).total_cmp(&latency(b).unwrap_or(f64::INFINITY))
        })
    }

    /// The figures of a way.
    pub fn candidate(&self, way: &Way) -> Option<&Candidate> {
        self.candidates.iter().find(|one| one.way == *way)
    }

    /// If no way can be chosen, the one that comes nearest: it keeps up, its percentiles are within the
    /// bounds if any way's are, and its upper limits, or else its percentiles, exceed them by the least
    /// factor.
    pub fn nearest(&self) -> Option<&Candidate> {
        let excess = |one: &Candidate| {
            let factor = |check: &BoundCheck| {
                let tail = check.tail.as_ref()?;
                Some(tail.upper().map_or(tail.ns, |(upper, _)| upper) / check.bound.ns)
            };
            one.bounds.iter().map(|check| factor(check).unwrap_or(f64::INFINITY)).fold(0.0, f64::max)
        };
        let is_missed =
            |one: &Candidate| one.unmet().is_some_and(|check| check.answer == BoundAnswer::Missed);
        let keeping_up = self.candidates.iter().filter(|one| one.keeps_up());
        keeping_up.min_by(|a, b| {
            let missed = is_missed(a).cmp(&is_missed(b));
            missed.then_with(|| excess(a).total_cmp(&excess(b)))
        })
    }

    /// The ways among which the answer is, if it is decided.
    fn decided(&self) -> Vec<&Way> {
        match self.cell.decision() {
            Decision::Wins | Decision::Equal | Decision::Alone => {
                self.cell.best().into_iter().map(|place| &place.path).collect()
            }
            Decision::Undecided | Decision::Empty => Vec::new(),
        }
    }
}

/// The answers of a store to a question.
///
/// # Errors
/// What is missing to answer it.
pub fn advise(
    study: &StudyRecord,
    trials: &[Trial],
    question: &AdviseQuestion,
) -> Result<Advice, AdviseError> {
    if let Some(figure) = FigureName::of(trials) {
        return Err(AdviseError::Program(figure.name));
    }
    let question = AdviseQuestion { admission: question.admission.of(study), ..question.clone() };
    let source = EnergySource::measured(&[trials]);
    let (objective, metric) = decide_by(study, trials, &question, source.as_ref())?;
    let cost = if source.is_some() { Metric::IosPerJoule } else { Metric::IopsPerCpu };
    let cost = if objective == Objective::Cpu { Metric::IopsPerCpu } else { cost };
    let measures = Measures { question: &question, objective, metric, cost, source: source.as_ref() };
    let families = Family::all(trials, &measures);
    let mut asked = asked(&families, question.rate)?;
    let highest = highest(&families, &measures, &mut asked)?;
    let plan = plan(study, metric);
    // The family of the correction is every load that is answered and has two ways to choose from.
    let is_asked = |(family, loads): &(&Family, &Vec<Load>)| {
        let several = |(load, all): &&(Load, Vec<Candidate>)| {
            loads.contains(load) && all.iter().filter(|one| one.is_eligible()).count() > 1
        };
        family.loads.iter().filter(several).count()
    };
    let tests = families.iter().zip(&asked).map(|pair| is_asked(&pair)).sum();
    let ranked = |((family, loads), highest): ((Family, Vec<Load>), Option<Highest>)| {
        let plan = |load| WinnerQuestion { metric: measures.metric_at(load), ..plan };
        (!loads.is_empty()).then(|| Group::ranked(family, &loads, highest, &plan, tests))
    };
    let mut groups: Vec<Group> = families.into_iter().zip(asked).zip(highest).filter_map(ranked).collect();
    correct(groups.iter_mut().flat_map(|group| &mut group.answers).map(|answer| &mut answer.cell));
    groups.iter_mut().for_each(|group| group.complete(&measures, &plan));
    let baselines = ascending(trials.iter().map(|trial| trial.path).filter(IoPath::is_baseline));
    Ok(Advice { objective, metric, cost, source, groups, baselines })
}

/// The question of the winner maps, by whose rules ways are ranked; its axes mean nothing here.
fn plan(study: &StudyRecord, metric: Metric) -> WinnerQuestion {
    WinnerQuestion::new(metric, Axis::Iodepth, Axis::Numjobs)
        .unwrap_or_else(|error| unreachable!("two axes: {error}"))
        .of(study)
}

/// The objective, and the metric that decides.
fn decide_by(
    study: &StudyRecord,
    trials: &[Trial],
    question: &AdviseQuestion,
    source: Option<&EnergySource>,
) -> Result<(Objective, Metric), AdviseError> {
    if let Some(emulator) = &study.emulated {
        return Err(AdviseError::Emulated(emulator.clone()));
    }
    if trials.is_empty() {
        return Err(AdviseError::Empty);
    }
    let deployed = trials.iter().filter(|trial| !trial.path.is_baseline());
    let mut competing = deployed.filter_map(|trial| question.admission.admit(trial).ok()).peekable();
    if trials.iter().all(|trial| trial.path.is_baseline()) {
        return Err(AdviseError::OnlyBaselines);
    }
    if competing.peek().is_none() {
        let why = question.admission.why_none_competes(trials);
        let why = why.map(|why| why.trim_start_matches("nothing is ranked: ").to_owned());
        let failed = || format!("none of {} trials was measured", trials.len());
        return Err(AdviseError::NobodyCompetes(why.unwrap_or_else(failed)));
    }
    let plain = if source.is_some() { Objective::IosPerJoule } else { Objective::Cpu };
    let objective = question.objective.unwrap_or(plain);
    let metric = objective.metric(question.percentile());
    match competing.any(|one| metric.value(one, source).is_some()) {
        true => Ok((objective, metric)),
        false if metric.is_energy() => Err(AdviseError::NoEnergy),
        false => Err(AdviseError::Unmeasured { objective, metric }),
    }
}

/// The loads to answer of each family: all, the one that was asked for, or its two neighbours.
fn asked(families: &[Family], rate: Option<u64>) -> Result<Vec<Vec<Load>>, AdviseError> {
    let loads = |family: &Family| family.loads.iter().map(|(load, _)| *load).collect::<Vec<Load>>();
    let Some(rate) = rate else { return Ok(families.iter().map(loads).collect()) };
    let rates = |family: &Family| loads(family).iter().filter_map(Load::rate).collect::<Vec<u64>>();
    let of = |family: &Family| {
        let rates = rates(family);
        if rates.contains(&rate) {
            return vec![Load::Rate(rate)];
        }
        let below = rates.iter().rev().find(|other| **other < rate);
        let above = rates.iter().find(|other| **other > rate);
        below.zip(above).map_or_else(Vec::new, |(a, b)| vec![Load::Rate(*a), Load::Rate(*b)])
    };
    let asked: Vec<Vec<Load>> = families.iter().map(of).collect();
    if asked.iter().any(|loads| !loads.is_empty()) {
        return Ok(asked);
    }
    let all: Vec<u64> = families.iter().flat_map(rates).collect();
    Err(match (all.iter().min(), all.iter().max()) {
        (Some(least), Some(most)) => AdviseError::RateNotMeasured { rate, least: *least, most: *most },
        _ => AdviseError::NoOpenLoad(rate),
    })
}

/// The highest rates of each family, if the most I/Os per second are asked for; of the loads to answer then
/// that at the highest alone is left, or if none is carried, at the least.
fn highest(
    families: &[Family],
    measures: &Measures<'_>,
    asked: &mut [Vec<Load>],
) -> Result<Vec<Option<Highest>>, AdviseError> {
    if measures.objective != Objective::Ios {
        return Ok(vec![None; families.len()]);
    }
    if let Some(rate) = measures.question.rate {
        return Err(AdviseError::RateOfIos(rate));
    }
    let highest: Vec<Option<Highest>> = families.iter().map(|family| Highest::of(&family.loads)).collect();
    for (loads, highest) in asked.iter_mut().zip(&highest) {
        let Some(highest) = highest else { continue };
        let most = highest.most().map(|(rate, _)| Load::Rate(rate));
        *loads = most.or(loads.first().copied()).into_iter().collect();
    }
    Ok(highest)
}

/// Where a rate lies among the loads that are answered.
fn placed(rate: u64, answers: &[Answer]) -> Asked {
    let [low, high] = answers else { return Asked::Measured(rate) };
    let decided = high.decided();
    // The order at the higher rate, where less is to spare.
    let same = decided.into_iter().find(|way| low.decided().contains(way)).cloned();
    Asked::Between { rate, same }
}

impl Group {
    /// Ranks the ways that may be chosen at these loads; `tests` is the number of rankings of two ways or
    /// more. Not corrected.
    fn ranked(
        family: Family,
        loads: &[Load],
        highest: Option<Highest>,
        plan: &dyn Fn(Load) -> WinnerQuestion,
        tests: usize,
    ) -> Group {
        let Family { workload, generator, loads: all } = family;
        // At the highest rate, a way that did not carry a lower one is no choice.
        let carry = highest.as_ref().and_then(Highest::most).map(|(_, ways)| ways);
        let may =
            |one: &Candidate| one.is_eligible() && carry.as_ref().is_none_or(|ways| ways.contains(&&one.way));
        let own = all.iter().filter(|(load, _)| loads.contains(load));
        let answers = own
            .map(|(load, candidates)| Answer::of((*load, candidates), &may, &plan(*load), tests))
            .collect();
        Group { workload, generator, asked: None, answers, highest, loads: all }
    }

    /// Adds what follows from the corrected rankings.
    fn complete(&mut self, measures: &Measures<'_>, plan: &WinnerQuestion) {
        let Group { workload, loads, answers, .. } = self;
        for answer in answers.iter_mut() {
            let Some(way) = answer.way().cloned() else { continue };
            answer.savings = Some(saving::savings(answer, &way, measures, plan));
            answer.flips = flips::flips(answer, &way, loads, measures);
            let candidate = answer.candidate(&way);
            answer.recipe = candidate.map_or_else(Vec::new, |one| recipe::recipe(one, workload, answer.load));
        }
        if let Some(highest) = &self.highest {
            answers.iter_mut().for_each(|answer| answer.flips.only_tighter(highest));
        }
        self.asked = measures.question.rate.map(|rate| placed(rate, &self.answers));
    }
}

impl Answer {
    fn of(
        (load, candidates): (Load, &[Candidate]),
        may: &dyn Fn(&Candidate) -> bool,
        plan: &WinnerQuestion,
        tests: usize,
    ) -> Answer {
        let eligible = candidates.iter().filter(|one| may(one));
        let samples: BTreeMap<Way, Sample> =
            eligible.map(|one| (one.way.clone(), one.ranked.clone())).collect();
        let mut cell = rank(samples, plan, tests);
        for place in &mut cell.ranking {
            place.marked = candidates.iter().any(|one| one.way == place.path && one.marked);
        }
        let (candidates, flips) = (candidates.to_vec(), Flips::default());
        Answer { load, candidates, metric: plan.metric, cell, savings: None, flips, recipe: Vec::new() }
    }
}

#[cfg(test)]
pub(crate) mod tests;
