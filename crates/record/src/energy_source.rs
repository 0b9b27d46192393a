//! Which joules of a store can be compared: those of one meter over one scope.

use crate::trial::{Measurement, Trial};
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
#[derive(Clone, Copy, Debug, Default)]
struct Cover {
    all: usize,
    complete: usize,
}

/// What each meter's scope covers of some trials: the widest scope first.
#[derive(Clone, Debug, Default)]
struct Covers {
    /// How many trials count.
    trials: usize,
    by: BTreeMap<(Scope, String), Cover>,
}

impl Covers {
    /// Of meters or of models whose names are meant.
    fn of(trials: &[Trial], estimated: bool, is_meant: &dyn Fn(&str) -> bool) -> Covers {
        let mut covers = Covers::default();
        trials.iter().for_each(|trial| covers.add(trial, estimated, is_meant));
        covers
    }

    /// Refuted and failed trials do not count.
    fn add(&mut self, trial: &Trial, estimated: bool, is_meant: &dyn Fn(&str) -> bool) {
        let measured = trial.outcome.measurement().filter(|one| one.verdict.kind != VerdictKind::Refuted);
        let Some(measured) = measured else { return };
        self.trials += 1;
        let taken = |energy: &&TrialEnergy| energy.estimated == estimated && is_meant(&energy.meter);
        for energy in measured.energy.iter().filter(taken) {
            let cover = self.by.entry((energy.scope, energy.meter.clone())).or_default();
            cover.all += 1;
            cover.complete += usize::from(energy.joules().is_some());
        }
    }
}

/// What the meters and the models of a store cover, found trial by trial.
#[derive(Clone, Debug, Default)]
pub struct EnergyCover {
    meters: Covers,
    models: Covers,
}

impl EnergyCover {
    /// Takes a trial of the store.
    pub fn add(&mut self, trial: &Trial) {
        self.meters.add(trial, false, &|_| true);
        self.models.add(trial, true, &|_| true);
    }

    /// As [`EnergySource::shown`].
    pub fn shown(&self) -> Option<EnergySource> {
        let taking_part = || {
            let (scope, meter) = self.meters.by.keys().next()?.clone();
            Some(EnergySource { scope, meter, estimated: false })
        };
        choose(std::slice::from_ref(&self.meters), false)
            .or_else(|| choose(std::slice::from_ref(&self.models), true))
            .or_else(taking_part)
    }
}

impl EnergySource {
    /// The meter and scope by which all of these sets of trials are compared: the widest scope of a meter
    /// that took part in every trial of all sets and covered most of them; if there is none, what covered the
    /// most trials, the widest scope of equals. It covered at least one trial of each set. Refuted and failed
    /// trials do not count. `None` if there is no such meter; models are not meters.
    ///
    /// Where a trial has joules of both hosts ([`BOTH_HOSTS`]), only these are compared: by the meter of one
    /// host the other's part of a remote I/O would cost nothing.
    pub fn measured(sets: &[&[Trial]]) -> Option<EnergySource> {
        choose(&covers(sets, false, &|_| true), false)
    }

    /// The same among the meters of one store whose names are meant.
    pub fn measured_by(trials: &[Trial], is_meant: &dyn Fn(&str) -> bool) -> Option<EnergySource> {
        choose(&covers(&[trials], false, is_meant), false)
    }

    /// The same among models.
    pub fn estimated(sets: &[&[Trial]]) -> Option<EnergySource> {
        choose(&covers(sets, true, &|_| true), true)
    }

    /// The source of the energy shown for a store: a meter that has joules, or a model that has, or else a
    /// meter that took part and has none.
    pub fn shown(trials: &[Trial]) -> Option<EnergySource> {
        let mut cover = EnergyCover::default();
        trials.iter().for_each(|trial| cover.add(trial));
        cover.shown()
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

/// What is covered of each set.
fn covers(sets: &[&[Trial]], estimated: bool, is_meant: &dyn Fn(&str) -> bool) -> Vec<Covers> {
    sets.iter().map(|set| Covers::of(set, estimated, is_meant)).collect()
}

fn choose(covers: &[Covers], estimated: bool) -> Option<EnergySource> {
    let candidates = covers.first()?.by.keys().filter_map(|key| {
        let each = covers.iter().map(|covers| covers.by.get(key).copied().unwrap_or_default());
        let (all, complete) = each.clone().fold((0, 0), |sum, one| (sum.0 + one.all, sum.1 + one.complete));
        each.clone().all(|one| one.complete > 0).then_some((key, all, complete))
    });
    let is_both = |(_, meter): &(Scope, String)| meter == BOTH_HOSTS;
    let is_summed =
        covers.iter().flat_map(|covers| &covers.by).any(|(key, one)| is_both(key) && one.complete > 0);
    let candidates = candidates.filter(|(key, ..)| !is_summed || is_both(key));
    let trials: usize = covers.iter().map(|covers| covers.trials).sum();
    // Candidates are in the order of scopes, the widest first, and the first of equals is kept. A gap in a
    // trial does not narrow the scope of a meter that took part throughout and covered most: the trial is
    // left out.
    let throughout = |all: usize, complete: usize| all == trials && 2 * complete > trials;
    let worth = |all: usize, complete: usize| if throughout(all, complete) { usize::MAX } else { complete };
    // `max_by_key` keeps the last of equals, which in reverse order is the first.
    let (key, ..) = candidates.rev().max_by_key(|(_, all, complete)| worth(*all, *complete))?;
    let (scope, meter) = key.clone();
    Some(EnergySource { scope, meter, estimated })
}

#[cfg(test)]
mod tests;
