//! The study that would decide what a store leaves open: which ways, at which loads, how often.

use super::candidate::{Family, Load, Measures, Way};
use super::question::AdviseQuestion;
use super::{Advice, Answer, Carried, Group, Highest, advise, decide_by};
use crate::answer::More;
use crate::grouping::{ascending, grouped, unique};
use crate::winner::Decision;
use iopj_core::{IoPath, OpenLoad, Workload};
use iopj_record::{EnergySource, Generator, StudyRecord, Trial};

/// The fewest replicates that are proposed.
const FEWEST: usize = 5;

/// The most.
const MOST: usize = 60;

/// A study that would decide.
#[derive(Clone, Debug, PartialEq)]
pub struct NextStudy {
    /// What it decides, in a sentence.
    pub why: String,
    /// How often each cell is to be measured.
    pub replicates: u32,
    /// Its workloads, each with the paths that are in question.
    pub tables: Vec<NextTable>,
}

/// The paths of a study under one workload, at several rates.
#[derive(Clone, Debug, PartialEq)]
pub struct NextTable {
    /// What issues the I/O.
    pub generator: Generator,
    /// The workload; `rates` replaces the rate of an open load.
    pub workload: Workload,
    /// The paths.
    pub paths: Vec<IoPath>,
    /// Rates of each job, ascending; empty for a closed loop.
    pub rates: Vec<u32>,
}

/// A way at a load, in question.
struct Cell<'a> {
    group: (&'a Workload, Generator),
    way: Way,
    load: Load,
}

/// The study that would decide what a question to a store leaves open; `None` where no trial competes.
pub fn next_study(study: &StudyRecord, trials: &[Trial], question: &AdviseQuestion) -> Option<NextStudy> {
    match (advise(study, trials, question), question.rate) {
        (Ok(advice), _) => Some(of_advice(&advice)),
        (Err(_), rate) => of_ways(study, trials, question, rate),
    }
}

/// What an answer leaves open, or else the decision again.
fn of_advice(advice: &Advice) -> NextStudy {
    let mut cells = Vec::new();
    let (mut replicates, mut open) = (FEWEST, 0);
    for group in &advice.groups {
        let between = rate_between(group);
        for answer in &group.answers {
            let (ways, more) = in_question(answer);
            open += usize::from(more > 0 || answer.cell.decision() == Decision::Empty);
            let now = answer.candidates.iter().map(|one| one.replicates).max().unwrap_or(0);
            replicates = replicates.max(now + more);
            let load = between.map_or(answer.load, Load::Rate);
            let group = (&group.workload, group.generator);
            cells.extend(ways.into_iter().map(|way| Cell { group, way, load }));
        }
        let steps = group.highest.iter().flat_map(halves);
        let group = (&group.workload, group.generator);
        cells.extend(steps.map(|(way, rate)| Cell { group, way, load: Load::Rate(rate) }));
    }
    let finer =
        advice.groups.iter().filter_map(|group| group.highest.as_ref()).any(|one| !halves(one).is_empty());
    let why = match (advice.groups.iter().find_map(rate_between), open) {
        (Some(rate), _) => format!("It measures {rate} I/Os per second, which the store lacks."),
        (None, _) if finer => {
            "It measures rates between the highest that a path carries and the next.".to_owned()
        }
        (None, 0) => "It repeats what decided, to be held against the answer.".to_owned(),
        (None, 1) => "It decides what is open at one load.".to_owned(),
        (None, many) => format!("It decides what is open at {many} loads."),
    };
    NextStudy { why, replicates: replicates.min(MOST) as u32, tables: tables(cells) }
}

/// For each of the ways that carry the highest rate, the rate halfway to the next, which it does not carry.
fn halves(highest: &Highest) -> Vec<(Way, u64)> {
    let most = highest.most().map(|(rate, _)| rate);
    let top = highest.ways.iter().filter(|one| one.rate().is_some() && one.rate() == most);
    let half = |one: &Carried| {
        let (rate, (beyond, _)) = (one.rate()?, one.beyond.as_ref()?);
        (beyond - rate > 1).then(|| (one.way.clone(), rate + (beyond - rate) / 2))
    };
    top.filter_map(half).collect()
}

/// The rate that was asked for, if it was not measured itself.
fn rate_between(group: &Group) -> Option<u64> {
    match group.asked {
        Some(super::Asked::Between { rate, .. }) => Some(rate),
        _ => None,
    }
}

/// The ways that an answer leaves in question, and how many more replicates would decide between them.
fn in_question(answer: &Answer) -> (Vec<Way>, usize) {
    let mut ways: Vec<Way> = match answer.cell.decision() {
        Decision::Undecided => answer.cell.best().into_iter().map(|place| place.path.clone()).collect(),
        _ => answer.cell.ranking.iter().take(2).map(|place| place.path.clone()).collect(),
    };
    let mut more = match answer.cell.open().map(|(_, open)| open.more) {
        Some(More::Replicates(more)) => more as usize,
        Some(More::Many) => MOST,
        Some(More::Untested) => FEWEST,
        None => 0,
    };
    // Ways that may meet a bound, as far as the trials show.
    let open = answer.candidates.iter().filter(|one| {
        let missed = one.unmet().is_some_and(|check| check.answer == super::BoundAnswer::Missed);
        one.keeps_up() && !one.is_eligible() && !missed
    });
    let open: Vec<Way> = open.map(|one| one.way.clone()).collect();
    if !open.is_empty() {
        more = more.max(FEWEST);
    }
    ways.extend(open);
    ways.extend(answer.nearest().filter(|_| ways.is_empty()).map(|one| one.way.clone()));
    (unique(ways), more)
}

/// Of each path the way with the most I/Os in flight, at the rate asked for.
fn of_ways(
    study: &StudyRecord,
    trials: &[Trial],
    question: &AdviseQuestion,
    rate: Option<u64>,
) -> Option<NextStudy> {
    let question = AdviseQuestion { admission: question.admission.of(study), ..question.clone() };
    let (source, plain) =
        (EnergySource::measured(&[trials]), AdviseQuestion { objective: None, ..question.clone() });
    let (objective, metric) = decide_by(study, trials, &plain, source.as_ref()).ok()?;
    let measures = Measures { question: &plain, objective, metric, cost: metric, source: source.as_ref() };
    let families = Family::all(trials, &measures);
    let mut cells = Vec::new();
    for family in &families {
        let all = family.loads.iter().flat_map(|(load, all)| all.iter().map(move |one| (&one.way, *load)));
        for (_, ways) in grouped(all.map(|(way, load)| (way.path, (way, load)))) {
            let in_flight = |way: &Way| u64::from(way.numjobs) * u64::from(way.iodepth);
            let Some((way, load)) = ways.into_iter().max_by_key(|(way, _)| in_flight(way)) else { continue };
            let load = rate.map_or(load, Load::Rate);
            cells.push(Cell { group: (&family.workload, family.generator), way: way.clone(), load });
        }
    }
    let why = match rate {
        Some(rate) => format!("It measures {rate} I/Os per second, which the store lacks."),
        None => "It measures what the store lacks; name a meter for joules.".to_owned(),
    };
    Some(NextStudy { why, replicates: FEWEST as u32, tables: tables(cells) })
}

/// Ways of one shape and generator share a table.
fn tables(cells: Vec<Cell<'_>>) -> Vec<NextTable> {
    let keyed = cells.into_iter().map(|Cell { group: (workload, generator), way, load }| {
        let mut workload = way.workload(workload);
        let rate = load.rate().map(|rate| (workload.open.unwrap_or(OpenLoad::at(1)), rate));
        workload.open = rate.map(|(open, _)| open);
        let rate = rate.map(|(open, rate)| way.rate_iops(&open, rate));
        ((workload, generator), (way.path, rate))
    });
    let table = |((workload, generator), cells): (_, Vec<(IoPath, Option<u64>)>)| {
        let most = u64::from(OpenLoad::MAX_RATE_IOPS);
        let rates = cells.iter().filter_map(|(_, rate)| rate.filter(|rate| *rate <= most));
        let rates = rates.filter_map(|rate| u32::try_from(rate).ok());
        let (rates, paths) = (ascending(rates), ascending(cells.iter().map(|(path, _)| *path)));
        NextTable { generator, workload, paths, rates }
    };
    grouped(keyed).into_iter().map(table).collect()
}
