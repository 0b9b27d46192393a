//! The columns of a CSV that hold energy, by one source for all of its trials.

use crate::cell::known;
use crate::energy_source::EnergySource;
use crate::trial::{Measurement, Trial};
use iopj_core::Joules;

/// A column of the energy by the source that compares the store's trials.
pub(crate) type EnergyColumn = (&'static str, fn(&Measurement, &Joules) -> String);

/// Those columns. Intervals are of 95 %: `random` ones cover what differs from trial to trial, the others the
/// meter's declared accuracy too, and are empty if none was declared. I/Os per joule above idle are empty if
/// idle power is not exceeded.
pub(crate) const ENERGY: &[EnergyColumn] = &[
    ("joules", |_, j| j.joules.to_string()),
    ("joules_random_low", |_, j| j.random_interval[0].to_string()),
    ("joules_random_high", |_, j| j.random_interval[1].to_string()),
    ("joules_low", |_, j| known(j.interval.map(|[low, _]| low))),
    ("joules_high", |_, j| known(j.interval.map(|[_, high]| high))),
    ("watts", |_, j| j.watts().to_string()),
    ("ios_per_joule", |m, j| known(per_joule(m, j.joules))),
    ("ios_per_joule_random_low", |m, j| known(per_joule(m, j.random_interval[1]))),
    ("ios_per_joule_random_high", |m, j| known(per_joule(m, j.random_interval[0]))),
    ("ios_per_joule_low", |m, j| known(j.interval.and_then(|[_, high]| per_joule(m, high)))),
    ("ios_per_joule_high", |m, j| known(j.interval.and_then(|[low, _]| per_joule(m, low)))),
    ("idle_watts", |_, j| known(j.above_idle.as_ref().map(|above| above.idle_watts))),
    ("joules_above_idle", |_, j| known(j.above_idle.as_ref().map(|above| above.joules))),
    ("ios_per_joule_above_idle", |m, j| {
        let above = j.above_idle.as_ref().filter(|above| above.random_interval[0] > 0.0);
        known(above.and_then(|above| per_joule(m, above.joules)))
    }),
];

/// What names the source, after [`ENERGY`].
pub(crate) const ENERGY_SOURCE: [&str; 4] =
    ["energy_scope", "energy_meter", "energy_estimated", "energy_incomplete"];

fn per_joule(measurement: &Measurement, joules: f64) -> Option<f64> {
    (joules > 0.0).then(|| measurement.ios as f64 / joules)
}

/// The cells of the energy: all empty if no source took part or the trial was not measured.
pub(crate) fn energy(trial: &Trial, source: Option<&EnergySource>) -> Vec<String> {
    let Some((source, measurement)) = source.zip(trial.outcome.measurement()) else {
        return vec![String::new(); ENERGY.len() + ENERGY_SOURCE.len()];
    };
    let joules = source.joules(measurement);
    let mut cells: Vec<String> =
        ENERGY.iter().map(|(_, of)| known(joules.map(|joules| of(measurement, joules)))).collect();
    cells.extend([source.scope.to_string(), source.meter.clone(), source.estimated.to_string()]);
    cells.push(known(source.lack(measurement)));
    cells
}
