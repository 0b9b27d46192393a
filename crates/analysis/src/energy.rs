//! Energy of a cell: means over its replicates with their uncertainty, and the trials that a meter did not
//! cover.
//!
//! Which meter and scope trials are compared by is the store's [`EnergySource`]. The random part, which the
//! spread of the replicates contains, limits how well two paths on one meter can be distinguished. The common
//! part, chiefly the meter's gain, is the same in all replicates and only matters for the figure itself.

use super::grouping::{grouped, list, unique};
use super::metric::Metric;
use super::stats::{LEVEL, summarize, upper_quantile};
use iopj_core::energy::PENDING;
use iopj_core::{Joules, Scope, TrialEnergy, VerdictKind};
use iopj_record::{EnergySource, Measurement, TOOK_NO_PART, Trial};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The two-sided 95 % quantile of the normal distribution.
const NORMAL: f64 = 1.959_963_984_540_054;

/// The energy of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellEnergy {
    /// The meter and the scope.
    pub source: EnergySource,
    /// Replicates with joules.
    pub replicates: usize,
    /// Replicates without joules.
    pub incomplete: usize,
    /// Why these have none, each reason once.
    pub lacks: Vec<String>,
    /// Mean energy over the window in J; like the others absent if no replicate has any.
    pub joules: Option<Uncertain>,
    /// Mean power in W.
    pub watts: Option<Uncertain>,
    /// I/Os per joule.
    pub ios_per_joule: Option<Uncertain>,
}

/// A mean with half of its 95 % intervals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Uncertain {
    /// The mean over replicates.
    pub mean: f64,
    /// The random part: between replicates by Student's t; for a single one, from the meter's readings.
    pub random: f64,
    /// Random and common parts together; absent unless the meter's accuracy is declared for every replicate.
    pub combined: Option<f64>,
}

impl CellEnergy {
    /// The energy of these replicates by a source; `None` if it took part in none of them.
    pub fn of(measured: &[&Measurement], source: &EnergySource) -> Option<CellEnergy> {
        measured.iter().any(|one| source.of(one).is_some()).then(|| {
            let with: Vec<(&Measurement, &Joules)> =
                measured.iter().filter_map(|one| Some((*one, source.joules(one)?))).collect();
            CellEnergy {
                source: source.clone(),
                replicates: with.len(),
                incomplete: measured.len() - with.len(),
                lacks: unique(measured.iter().filter_map(|one| source.lack(one)).map(str::to_owned)),
                joules: uncertain(&with, source, Metric::Joules),
                watts: uncertain(&with, source, Metric::Watts),
                ios_per_joule: uncertain(&with, source, Metric::IosPerJoule),
            }
        })
    }
}

/// A metric proportional to the energy or to its inverse, so its relative uncertainties are those of the
/// energy.
fn uncertain(with: &[(&Measurement, &Joules)], source: &EnergySource, metric: Metric) -> Option<Uncertain> {
    let all: Option<Vec<f64>> = with.iter().map(|(one, _)| metric.value(one, Some(source))).collect();
    let all = all.filter(|_| with.iter().all(|(_, joules)| joules.joules > 0.0))?;
    let summary = summarize(&all)?;
    let relative = || all.iter().zip(with).map(|(value, (_, joules))| (value / joules.joules, *joules));
    let (standard, dof, random) = match summary.interval {
        Some((low, high)) => {
            let dof = (summary.n - 1) as f64;
            (summary.stddev / (summary.n as f64).sqrt(), Some(dof), (high - low) / 2.0)
        }
        None => {
            let (scale, joules) = relative().next()?;
            (scale * joules.random_j, joules.random_dof, scale * half(joules.random_interval))
        }
    };
    // The common part is the same in all replicates, so the mean of the replicates has it too.
    let common: Option<f64> = relative().map(|(scale, joules)| Some(scale * common_j(joules)?)).sum();
    let common = common.map(|sum| sum / all.len() as f64);
    let combined = common.map(|common| combine((standard, dof, random), common));
    Some(Uncertain { mean: summary.mean, random, combined })
}

fn half([low, high]: [f64; 2]) -> f64 {
    (high - low) / 2.0
}

/// Standard uncertainty of the common part in J, from the combined interval and the random standard
/// uncertainty.
fn common_j(joules: &Joules) -> Option<f64> {
    let combined = half(joules.interval?) / NORMAL;
    Some((combined.powi(2) - joules.random_j.powi(2)).max(0.0).sqrt())
}

/// Half of the interval of a random and a common part together: Student's quantile at the degrees of freedom
/// of Welch and Satterthwaite (JCGM 100:2008, G.4.1). `random` is its standard uncertainty, its degrees of
/// freedom and its own half.
fn combine((standard, dof, random): (f64, Option<f64>, f64), common: f64) -> f64 {
    let both = standard.hypot(common);
    if common == 0.0 || both == 0.0 {
        return random;
    }
    let factor = match dof {
        Some(dof) if standard > 0.0 => {
            // Common parts come from a certificate, so their degrees of freedom are infinite.
            let effective = dof * (both / standard).powi(4);
            upper_quantile(effective, LEVEL / 2.0).unwrap_or(NORMAL)
        }
        _ => NORMAL,
    };
    (factor * both).max(random)
}

/// The trials that a meter has no joules of for one reason.
#[derive(Clone, Debug, PartialEq)]
pub struct EnergyLack<'a> {
    /// The meter.
    pub meter: &'a str,
    /// The scopes without joules; empty if these are all scopes of the meter.
    pub scopes: Vec<Scope>,
    /// Why.
    pub reason: &'a str,
    /// The trials, in their order.
    pub trials: Vec<&'a Trial>,
    /// The number of all trials that count.
    pub of: usize,
}

/// `no joules from plug in 2 of 6 trials: the meter took no part`; where a meter has others too, `no joules
/// for dram from rapl`.
impl fmt::Display for EnergyLack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { meter, scopes, reason, trials, of } = self;
        let names = list(&scopes.iter().map(Scope::to_string).collect::<Vec<_>>());
        let scopes = if names.is_empty() { names } else { format!(" for {names}") };
        write!(f, "no joules{scopes} from {meter} in {} of {of} trials: {reason}", trials.len())?;
        match *reason == PENDING {
            true => write!(f, " until the run ends, or `iopj run --resume` ends it"),
            false => Ok(()),
        }
    }
}

/// What each meter of a store has no joules of, and why; refuted and failed trials do not count.
pub fn lacks(trials: &[Trial]) -> Vec<EnergyLack<'_>> {
    let counting: Vec<(&Trial, &Measurement)> = trials
        .iter()
        .filter_map(|trial| Some((trial, trial.outcome.measurement()?)))
        .filter(|(_, one)| one.verdict.kind != VerdictKind::Refuted)
        .collect();
    let mut meters: BTreeMap<&str, BTreeSet<Scope>> = BTreeMap::new();
    for energy in counting.iter().flat_map(|(_, one)| &one.energy) {
        meters.entry(&energy.meter).or_default().insert(energy.scope);
    }
    let mut all = Vec::new();
    for (meter, scopes) in meters {
        // Scopes that lack the same trials for the same reason are one statement.
        let of_scope = |scope: &Scope| {
            let lacking = counting.iter().enumerate();
            let lacking = lacking.filter_map(|(at, (_, one))| Some((lack(one, meter, *scope)?, at)));
            grouped(lacking).into_iter().map(|lack| (lack, *scope)).collect::<Vec<_>>()
        };
        for ((reason, places), own) in grouped(scopes.iter().flat_map(of_scope)) {
            let trials = places.into_iter().map(|at| counting[at].0).collect();
            let own = if own.len() == scopes.len() { Vec::new() } else { own };
            all.push(EnergyLack { meter, scopes: own, reason, trials, of: counting.len() });
        }
    }
    all
}

/// The same of the source by which a statement is made; without one, of all meters.
pub fn lacks_of<'a>(trials: &'a [Trial], source: Option<&EnergySource>) -> Vec<EnergyLack<'a>> {
    let is_own = |lack: &EnergyLack<'_>, source: &EnergySource| {
        lack.meter == source.meter && (lack.scopes.is_empty() || lack.scopes.contains(&source.scope))
    };
    lacks(trials).into_iter().filter(|lack| source.is_none_or(|source| is_own(lack, source))).collect()
}

/// Why a meter has no joules of a trial in a scope.
fn lack<'a>(measurement: &'a Measurement, meter: &str, scope: Scope) -> Option<&'a str> {
    let mut energy = measurement.energy.iter();
    let of_scope = energy.find(|one| one.meter == meter && one.scope == scope);
    of_scope.map_or(Some(TOOK_NO_PART), TrialEnergy::lack)
}
