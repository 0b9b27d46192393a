//! What the chosen way saves in a year against others: joules of the whole machine, never of a part of it.

use super::candidate::{Candidate, Load, Measures, Way};
use super::{AdviseQuestion, Answer};
use crate::contrast::TestPlan;
use crate::metric::Metric;
use crate::stats::{mean, quantile, t_test};
use crate::winner::WinnerQuestion;
use iopj_core::{IoPath, Ring, Scope, SioCompletion};
use iopj_record::EnergySource;
use serde::Serialize;

/// Seconds in a year of 365.25 days.
const YEAR_S: f64 = 31_557_600.0;

/// Joules in a kWh.
const KWH: f64 = 3.6e6;

/// What another way is to the chosen one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// The next in the ranking.
    RunnerUp,
    /// What programs do that ask for nothing else: io_uring or system calls, with interrupts.
    Usual,
}

/// What a way saves against another one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Saving {
    /// The other way.
    pub way: Way,
    /// What it is.
    pub against: Against,
    /// J per I/O that the chosen way takes less, with the 95 % interval of the difference between replicates;
    /// absent interval for too few of them.
    pub joules_per_io: (f64, Option<(f64, f64)>),
    /// kWh in a year.
    pub kwh: (f64, Option<(f64, f64)>),
    /// The same in money, if the price was given.
    pub money: Option<(f64, Option<(f64, f64)>)>,
}

/// What a way saves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Savings {
    /// I/Os per second, all the year.
    pub rate: f64,
    /// Against each.
    pub all: Vec<Saving>,
}

/// Why it is not said what a way saves.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavingLack {
    /// No joules were measured.
    #[error("no joules were measured")]
    NoJoules,
    /// The joules are of a part of the machine.
    #[error("{0} is a part of the machine, and what the rest takes is not known")]
    Part(EnergySource),
    /// There is nothing to compare with.
    #[error("no other way that keeps up has joules at this load")]
    NoOther,
}

/// What `way` saves at the load of an answer.
pub(super) fn savings(
    answer: &Answer,
    way: &Way,
    measures: &Measures<'_>,
    plan: &WinnerQuestion,
) -> Result<Savings, SavingLack> {
    let source = measures.source.ok_or(SavingLack::NoJoules)?;
    if !matches!(source.scope, Scope::System | Scope::Psys) || source.estimated {
        return Err(SavingLack::Part(source.clone()));
    }
    let chosen = answer.candidate(way).filter(|one| !one.joules_per_io.is_empty());
    let chosen = chosen.ok_or(SavingLack::NoJoules)?;
    let rate = match answer.load {
        Load::Rate(rate) => rate as f64,
        Load::Trace | Load::Closed { .. } => chosen.iops,
    };
    let runner_up = answer.cell.ranking.iter().map(|place| &place.path).find(|other| *other != way);
    let runner_up = runner_up.and_then(|other| answer.candidate(other));
    let usual = usual(answer, way).filter(|other| runner_up.is_none_or(|next| next.way != other.way));
    let others = [(Against::RunnerUp, runner_up), (Against::Usual, usual)];
    let saving = |(against, other): (Against, Option<&Candidate>)| {
        against_other(chosen, other?, against, (rate, measures.question), plan)
    };
    let all: Vec<Saving> = others.into_iter().filter_map(saving).collect();
    if all.is_empty() { Err(SavingLack::NoOther) } else { Ok(Savings { rate, all }) }
}

/// The usual way among those that keep up, unless it is the chosen one: the one that takes the least.
fn usual<'a>(answer: &'a Answer, way: &Way) -> Option<&'a Candidate> {
    let paths = [IoPath::IoUring(Ring::PLAIN), IoPath::PosixSio(SioCompletion::Interrupt)];
    if paths.contains(&way.path) {
        return None;
    }
    let of = |path: IoPath| {
        let own = answer.candidates.iter().filter(move |one| one.way.path == path && one.keeps_up());
        let own = own.filter(|one| !one.joules_per_io.is_empty());
        let joules = |one: &Candidate| {
            one.joules_per_io.iter().map(|(_, joules)| joules).sum::<f64>() / one.joules_per_io.len() as f64
        };
        own.min_by(|a, b| joules(a).total_cmp(&joules(b)))
    };
    paths.into_iter().find_map(of)
}

fn against_other(
    chosen: &Candidate,
    other: &Candidate,
    against: Against,
    (rate, question): (f64, &AdviseQuestion),
    plan: &WinnerQuestion,
) -> Option<Saving> {
    let test = TestPlan { looks: plan.looks, ..TestPlan::of(Metric::Joules, plan.method, 1) };
    let (more, less) = test.values(&other.joules_per_io, &chosen.joules_per_io);
    if more.is_empty() || less.is_empty() {
        return None;
    }
    let difference = mean(&more) - mean(&less);
    let interval = t_test(plan.method, &more, &less).map(|test| {
        let half = quantile(test.df) * test.standard_error;
        (difference - half, difference + half)
    });
    let times =
        |factor: f64| (difference * factor, interval.map(|(low, high)| (low * factor, high * factor)));
    let year = rate * YEAR_S / KWH;
    Some(Saving {
        way: other.way.clone(),
        against,
        joules_per_io: times(1.0),
        kwh: times(year),
        money: question.price_per_kwh.map(|price| times(year * price)),
    })
}
