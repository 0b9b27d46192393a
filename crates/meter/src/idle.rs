//! Energy above idle: what a trial takes beyond the idle power around it, which may drift.

use crate::integrate::Window;
use crate::line::{Line, Point};
use crate::meter::{Accuracy, Distribution};
use crate::ratio::{Ratio, Shared, Undefined, ratio_with};
use crate::uncertainty::{Component, Energy, Source};
use serde::{Deserialize, Serialize};

/// An idle stretch, measured on the same channel as the trials.
#[derive(Clone, Debug, PartialEq)]
pub struct Idle {
    /// When.
    pub window: Window,
    /// Its energy.
    pub energy: Energy,
}

/// Idle power over a study: a straight line through the idle stretches before, between and after.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct IdlePower {
    origin_ns: u64,
    line: Line,
    stretches: usize,
    dof: Option<f64>,
}

/// A window's energy less idle power over the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AboveIdle {
    /// When.
    pub window: Window,
    /// The energy. Its offset is none: one and the same is in the idle power.
    pub energy: Energy,
}

impl IdlePower {
    /// Fits the line; `None` without idle stretches. With three or more, a scatter larger than their uncertainties counts.
    pub fn fit(stretches: &[Idle]) -> Option<Self> {
        let origin_ns = stretches.first()?.window.middle_ns();
        let points = stretches.iter().map(|idle| Point {
            x: seconds(origin_ns, idle.window),
            y: idle.energy.watts(),
            standard: idle.energy.random_standard() / idle.energy.seconds,
        });
        let line = Line::fit(&points.collect::<Vec<_>>(), 0.0)?;
        let fewest = stretches.iter().filter_map(|idle| idle.energy.random_dof()).min_by(f64::total_cmp);
        Some(Self { origin_ns, line, stretches: stretches.len(), dof: line.scatter_dof.or(fewest) })
    }

    /// Idle power at the middle of a window, in W.
    pub fn watts(&self, window: Window) -> f64 {
        self.line.at(seconds(self.origin_ns, window))
    }

    /// Its standard uncertainty in W.
    pub fn standard_watts(&self, window: Window) -> f64 {
        self.covariance(window, window).sqrt()
    }

    /// Change of idle power in W per s; `None` where only one idle stretch is known.
    pub fn drift_watts_per_s(&self) -> Option<f64> {
        (self.stretches > 1).then_some(self.line.slope)
    }

    /// The energy of `window` less idle power: the power drifts in a straight line, so the middle's counts. The gain's error
    /// stays in proportion to the difference; the offset's drops out.
    pub fn above(&self, window: Window, energy: &Energy) -> AboveIdle {
        let seconds = energy.seconds;
        let mut random = energy.random.clone();
        random.push(Component { source: Source::Idle, joules: seconds * self.standard_watts(window), dof: self.dof });
        let accuracy = energy.accuracy.map(|accuracy| Accuracy { offset: Distribution::NONE, ..accuracy });
        let joules = energy.joules - seconds * self.watts(window);
        AboveIdle { window, energy: Energy { joules, seconds, random, accuracy } }
    }

    /// Covariance of the idle power at two windows in W².
    fn covariance(&self, one: Window, other: Window) -> f64 {
        self.line.covariance(seconds(self.origin_ns, one), seconds(self.origin_ns, other))
    }
}

/// `above` over `below`, both above the same idle power, by Fieller's interval: the gain divides out, and the idle power's error is in both.
///
/// # Errors
/// [`Undefined`] where `below` does not exceed idle by more than its uncertainty.
pub fn ratio_above_idle(above: &AboveIdle, below: &AboveIdle, idle: &IdlePower) -> Result<Ratio, Undefined> {
    let joules = |of: &AboveIdle| of.energy.seconds * idle.standard_watts(of.window);
    let seconds = above.energy.seconds * below.energy.seconds;
    let shared = Shared {
        above: joules(above),
        below: joules(below),
        covariance: seconds * idle.covariance(above.window, below.window),
        dof: idle.dof,
    };
    ratio_with(&without_idle(above), &without_idle(below), &shared)
}

/// The energy with the random part that idle power has not given it.
fn without_idle(above: &AboveIdle) -> Energy {
    let mut energy = above.energy.clone();
    energy.random.retain(|component| component.source != Source::Idle);
    energy
}

fn seconds(origin_ns: u64, window: Window) -> f64 {
    let middle_ns = window.middle_ns();
    let apart = middle_ns.abs_diff(origin_ns) as f64 * 1e-9;
    if middle_ns < origin_ns { -apart } else { apart }
}

#[cfg(test)]
#[path = "idle_tests.rs"]
mod tests;
