//! Joules of trials.

use crate::Trial;
use crate::testing::cells::measurement_of;
use iopj_core::{AboveIdle, EnergyOutcome, Joules, Scope, TrialEnergy};

/// The length of the window of the trials of `cell`.
pub const SECONDS: f64 = 2.0;

/// Gives a trial joules of a meter over a scope: half of the random interval is 1 J, idle power 30 W, known
/// to 2 J. A meter called `model` estimates.
pub fn give(trial: &mut Trial, meter: &str, scope: Scope, joules: f64) {
    let complete = Joules {
        seconds: SECONDS,
        joules,
        random_j: 1.0 / 1.959_963_984_540_054,
        random_interval: [joules - 1.0, joules + 1.0],
        above_idle: Some(AboveIdle {
            idle_watts: 30.0,
            joules: joules - 30.0 * SECONDS,
            random_interval: [joules - 30.0 * SECONDS - 2.0, joules - 30.0 * SECONDS + 2.0],
        }),
        ..Joules::default()
    };
    give_outcome(trial, meter, scope, EnergyOutcome::Complete(complete));
}

/// The same with joules, or without.
pub fn give_outcome(trial: &mut Trial, meter: &str, scope: Scope, outcome: EnergyOutcome) {
    let (meter, estimated) = (meter.to_owned(), meter == "model");
    measurement_of(trial).energy.push(TrialEnergy {
        meter,
        scope,
        channels: Vec::new(),
        estimated,
        rules: 1,
        outcome,
    });
}
