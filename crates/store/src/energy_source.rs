//! Which joules of a store can be compared: those of one meter over one scope.

use crate::record::{Measurement, Trial};
use iopj_core::fabric::BOTH_HOSTS;
use iopj_core::{Joules, Scope, TrialEnergy, VerdictKind};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Why there are no joules of a trial that a meter of the store took no part in.
pub const TOOK_NO_PART: &str = "the meter took no part";

/// A meter and one of its scopes. Joules of two sources are never compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct EnergySource {
    /// The widest first, in the order of [`Scope::ALL`].
    pub scope: Scope,
    /// The meter's name in the study.
    pub meter: String,
    /// A model, whose joules enter no comparison.
    pub estimated: bool,
}

/// How many trials a source took part in, and how many of these it covered.
#[derive(Clone, Copy, Default)]
struct Cover {
    all: usize,
    complete: usize,
}

/// What each meter's scope covers: the widest scope first.
type Covers<'a> = BTreeMap<(Scope, &'a str), Cover>;

impl EnergySource {
    /// The meter and scope by which all of these sets of trials are compared: the widest scope of a meter
    /// that took part in every trial of all sets and covered most of them; if there is none, what covered the
    /// most trials, the widest scope of equals. It covered at least one trial of each set. Refuted and failed
    /// trials do not count. `None` if there is no such meter; models are not meters.
    ///
    /// Where a trial has joules of both hosts ([`BOTH_HOSTS`]), only these are compared: by the meter of one
    /// host the other's part of a remote I/O would cost nothing.
    pub fn measured(sets: &[&[Trial]]) -> Option<EnergySource> {
        choose(sets, false, &|_| true)
    }

    /// The same among the meters of one store whose names are meant.
    pub fn measured_by(trials: &[Trial], is_meant: &dyn Fn(&str) -> bool) -> Option<EnergySource> {
        choose(&[trials], false, is_meant)
    }

    /// The same among models.
    pub fn estimated(sets: &[&[Trial]]) -> Option<EnergySource> {
        choose(sets, true, &|_| true)
    }

    /// The source of the energy shown for a store: a meter that has joules, or a model that has, or else a
    /// meter that took part and has none.
    pub fn shown(trials: &[Trial]) -> Option<EnergySource> {
        let taking_part = || {
            let (_, covers) = covers(trials, false, &|_| true);
            let (scope, meter) = *covers.keys().next()?;
            Some(EnergySource { scope, meter: meter.to_owned(), estimated: false })
        };
        EnergySource::measured(&[trials]).or_else(|| EnergySource::estimated(&[trials])).or_else(taking_part)
    }

    /// What this source has of a trial; `None` if it took no part.
    pub fn of<'m>(&self, measurement: &'m Measurement) -> Option<&'m TrialEnergy> {
        measurement
            .energy
            .iter()
            .find(|one| one.scope == self.scope && one.meter == self.meter && one.estimated == self.estimated)
    }

    /// The joules of a trial; `None` if the source did not cover it.
    pub fn joules<'m>(&self, measurement: &'m Measurement) -> Option<&'m Joules> {
        self.of(measurement)?.joules()
    }

    /// Why there are no joules of a trial; `None` if there are.
    pub fn lack<'m>(&self, measurement: &'m Measurement) -> Option<&'m str> {
        self.of(measurement).map_or(Some(TOOK_NO_PART), TrialEnergy::lack)
    }
}

/// `system by plug`; of a model `package by model, est.`.
impl fmt::Display for EnergySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}{}", self.scope, self.meter, if self.estimated { ", est." } else { "" })
    }
}

fn choose(sets: &[&[Trial]], estimated: bool, is_meant: &dyn Fn(&str) -> bool) -> Option<EnergySource> {
    let covers: Vec<(usize, Covers<'_>)> = sets.iter().map(|set| covers(set, estimated, is_meant)).collect();
    let (_, first) = covers.first()?;
    let candidates = first.keys().filter_map(|key| {
        let each = covers.iter().map(|(_, covers)| covers.get(key).copied().unwrap_or_default());
        let (all, complete) = each.clone().fold((0, 0), |sum, one| (sum.0 + one.all, sum.1 + one.complete));
        each.clone().all(|one| one.complete > 0).then_some((*key, all, complete))
    });
    let is_both = |(_, meter): &(Scope, &str)| *meter == BOTH_HOSTS;
    let is_summed =
        covers.iter().flat_map(|(_, covers)| covers).any(|(key, one)| is_both(key) && one.complete > 0);
    let candidates = candidates.filter(|(key, ..)| !is_summed || is_both(key));
    let trials: usize = covers.iter().map(|(trials, _)| trials).sum();
    // Candidates are in the order of scopes, the widest first, and the first of equals is kept. A gap in a
    // trial does not narrow the scope of a meter that took part throughout and covered most: the trial is
    // left out.
    let throughout = |all: usize, complete: usize| all == trials && 2 * complete > trials;
    let worth = |all: usize, complete: usize| if throughout(all, complete) { usize::MAX } else { complete };
    // `max_by_key` keeps the last of equals, which in reverse order is the first.
    let ((scope, meter), ..) = candidates.rev().max_by_key(|(_, all, complete)| worth(*all, *complete))?;
    Some(EnergySource { scope, meter: meter.to_owned(), estimated })
}

/// How many trials count, and what each source that is meant covers of them.
fn covers<'a>(trials: &'a [Trial], estimated: bool, is_meant: &dyn Fn(&str) -> bool) -> (usize, Covers<'a>) {
    let measured = || trials.iter().filter_map(|trial| trial.outcome.measurement());
    let counting = || measured().filter(|one| one.verdict.kind != VerdictKind::Refuted);
    let mut covers = Covers::new();
    let taken = |energy: &&TrialEnergy| energy.estimated == estimated && is_meant(&energy.meter);
    for energy in counting().flat_map(|one| &one.energy).filter(taken) {
        let cover = covers.entry((energy.scope, energy.meter.as_str())).or_default();
        cover.all += 1;
        cover.complete += usize::from(energy.joules().is_some());
    }
    (counting().count(), covers)
}

#[cfg(test)]
#[path = "energy_source_tests.rs"]
mod tests;
