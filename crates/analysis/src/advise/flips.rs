//! What would change an answer: another bound, another rate. By the figures measured, without a test.

use super::Answer;
use super::candidate::{Candidate, Load, Measures, Way};
use super::highest::Highest;
use super::question::Percentile;
use crate::metric::Metric;
use crate::stats::mean;
use serde::Serialize;

/// A value at which another way becomes the answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToFlip<T> {
    /// The value.
    pub at: T,
    /// The way that is the answer beyond it; absent if none is.
    pub way: Option<Way>,
}

/// What would change an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Flips {
    /// The percentile that the bounds are of.
    pub percentile: Percentile,
    /// The least bound in ns that the chosen way still meets, and the answer below it.
    pub tighter: Option<ToFlip<f64>>,
    /// The least bound in ns under which a way that is better by the objective could be chosen, if the one
    /// asked for excludes it.
    pub looser: Option<ToFlip<f64>>,
    /// Other rates that were measured at which another way is best, ascending.
    pub rates: Vec<ToFlip<u64>>,
    /// The greatest measured rate up to which the chosen way keeps up, and the least at which it falls
    /// behind.
    pub keeps_up: (Option<u64>, Option<u64>),
}

impl Flips {
    /// Leaves only the tighter bound, and of its ways only those that carry the highest rate: where that is
    /// asked for, the rates are the answer.
    pub(super) fn only_tighter(&mut self, highest: &Highest) {
        let carry = highest.most().map_or_else(Vec::new, |(_, ways)| ways);
        let tighter = self
            .tighter
            .take()
            .map(|flip| ToFlip { way: flip.way.filter(|way| carry.contains(&way)), ..flip });
        *self = Flips { percentile: self.percentile, tighter, ..Flips::default() };
    }
}

/// The loads of a group, with the ways at each.
type Loads = [(Load, Vec<Candidate>)];

pub(super) fn flips(answer: &Answer, way: &Way, loads: &Loads, measures: &Measures<'_>) -> Flips {
    let percentile = measures.question.percentile();
    let value = |one: &Candidate| value(one, answer.metric);
    // What has an upper limit and keeps up, the best first.
    let mut limited: Vec<(&Candidate, f64)> = answer
        .candidates
        .iter()
        .filter(|one| one.keeps_up() && value(one).is_some())
        .filter_map(|one| Some((one, one.tail.as_ref()?.upper()?.0)))
        .collect();
    limited.sort_by(|(a, _), (b, _)| value(a).partial_cmp(&value(b)).unwrap_or(std::cmp::Ordering::Equal));
    let own = limited.iter().find(|(one, _)| one.way == *way);
    let tighter = own.map(|(_, upper)| {
        let below = limited.iter().find(|(_, other)| other < upper);
        ToFlip { at: *upper, way: below.map(|(one, _)| one.way.clone()) }
    });
    let bound = measures.question.bounds.first().map(|bound| bound.ns);
    let looser = own.zip(bound).and_then(|((chosen, _), bound)| {
        let better = limited.iter().take_while(|(one, _)| one.way != chosen.way);
        let excluded = better.filter(|(_, upper)| *upper > bound);
        let first = excluded.min_by(|(_, a), (_, b)| a.total_cmp(b))?;
        Some(ToFlip { at: first.1, way: Some(first.0.way.clone()) })
    });
    let (rates, keeps_up) = over_rates(answer, way, loads);
    Flips { percentile, tighter, looser, rates, keeps_up }
}

/// The mean of what is ranked, as less is better.
fn value(one: &Candidate, metric: Metric) -> Option<f64> {
    let values: Vec<f64> = one.ranked.iter().map(|(_, value)| *value).collect();
    let sign = if metric.more_is_better() { -1.0 } else { 1.0 };
    (!values.is_empty()).then(|| sign * mean(&values))
}

type OverRates = (Vec<ToFlip<u64>>, (Option<u64>, Option<u64>));

/// The best way at each other rate, and up to which rate this one keeps up.
fn over_rates(answer: &Answer, way: &Way, loads: &Loads) -> OverRates {
    let value = |one: &Candidate| value(one, answer.metric);
    let (mut rates, mut keeps, mut behind) = (Vec::new(), None, None);
    if answer.load.rate().is_none() {
        return (rates, (keeps, behind));
    }
    for (rate, candidates) in loads.iter().filter_map(|(load, all)| Some((load.rate()?, all))) {
        match candidates.iter().find(|one| one.way == *way) {
            Some(own) if own.keeps_up() && behind.is_none() => keeps = Some(rate),
            Some(own) if !own.keeps_up() => behind = behind.or(Some(rate)),
            _ => {}
        }
        let eligible = candidates.iter().filter(|one| one.is_eligible() && value(one).is_some());
        let by_value = |a: &&Candidate, b: &&Candidate| {
            value(a).partial_cmp(&value(b)).unwrap_or(std::cmp::Ordering::Equal)
        };
        let best = eligible.min_by(by_value).map(|one| one.way.clone());
        if answer.load != Load::Rate(rate) && best.as_ref() != Some(way) {
            rates.push(ToFlip { at: rate, way: best });
        }
    }
    (rates, (keeps, behind))
}
