//! Energy above idle: the energy of a trial beyond the idle power around it, which may drift.

use crate::line::{Point, residual_dof, residual_square};
use crate::meter::{Accuracy, Distribution};
use crate::ratio::{Ratio, Shared, Undefined, ratio_with};
use crate::trace::Window;
use crate::uncertainty::{Component, Energy, UncertaintySource};
use serde::{Deserialize, Serialize};

/// An idle stretch, measured on the same channel as the trials.
#[derive(Clone, Debug, PartialEq)]
pub struct IdleStretch {
    /// When.
    pub window: Window,
    /// Its energy.
    pub energy: Energy,
}

/// Idle power over a study: a straight line between neighbouring idle stretches, constant before the first
/// and after the last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IdlePower {
    origin_ns: u64,
    /// In the order of their time.
    stretches: Vec<IdlePoint>,
    dof: Option<f64>,
}

/// Power of an idle stretch at its middle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct IdlePoint {
    at_s: f64,
    watts: f64,
    standard: f64,
}

/// A window's energy less idle power over the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AboveIdle {
    /// When.
    pub window: Window,
    /// The energy. It has no offset: the idle power has the same one.
    pub energy: Energy,
}

impl IdlePower {
    /// Through the idle stretches; `None` without any. If three or more scatter about the lines between their
    /// neighbours by more than their uncertainties, these are enlarged by the ratio (Birge 1932).
    pub fn fit(stretches: &[IdleStretch]) -> Option<Self> {
        let origin_ns = stretches.first()?.window.middle_ns();
        let stretch = |idle: &IdleStretch| IdlePoint {
            at_s: seconds(origin_ns, idle.window),
            watts: idle.energy.watts(),
            standard: idle.energy.random_standard() / idle.energy.seconds,
        };
        let mut known: Vec<IdlePoint> = stretches.iter().map(stretch).collect();
        known.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
        let fewest = stretches.iter().filter_map(|idle| idle.energy.random_dof()).min_by(f64::total_cmp);
        let dof = match excess(&known) {
            Some((ratio, dof)) => {
                known.iter_mut().for_each(|stretch| stretch.standard *= ratio);
                Some(dof)
            }
            None => fewest,
        };
        Some(Self { origin_ns, stretches: known, dof })
    }

    /// The stretches next to a time, with their weights in the power there.
    fn weights(&self, at_s: f64) -> [(usize, f64); 2] {
        let after = self.stretches.partition_point(|stretch| stretch.at_s <= at_s);
        let (Some(before), Some(next)) = (after.checked_sub(1), self.stretches.get(after)) else {
            return [(after.saturating_sub(1), 1.0), (0, 0.0)];
        };
        let begin_s = self.stretches[before].at_s;
        let share = (at_s - begin_s) / (next.at_s - begin_s);
        [(before, 1.0 - share), (after, share)]
    }

    /// Idle power at the middle of a window, in W.
    pub fn watts(&self, window: Window) -> f64 {
        let weights = self.weights(seconds(self.origin_ns, window));
        weights.iter().map(|(stretch, weight)| weight * self.stretches[*stretch].watts).sum()
    }

    /// Its standard uncertainty in W.
    pub fn standard_watts(&self, window: Window) -> f64 {
        self.covariance(window, window).sqrt()
    }

    /// The energy of `window` minus idle power. No idle stretch is inside a trial, so idle power is a
    /// straight line there, and its value in the middle counts. The error of the gain is in proportion to the
    /// difference; that of the offset cancels.
    pub fn above(&self, window: Window, energy: &Energy) -> AboveIdle {
        let seconds = energy.seconds;
        let mut random = energy.random.clone();
        random.push(Component {
            source: UncertaintySource::Idle,
            joules: seconds * self.standard_watts(window),
            dof: self.dof,
        });
        let accuracy = energy.accuracy.map(|accuracy| Accuracy { offset: Distribution::NONE, ..accuracy });
        let joules = energy.joules - seconds * self.watts(window);
        AboveIdle { window, energy: Energy { joules, seconds, random, accuracy } }
    }

    /// Covariance of the idle power at two windows in W².
    fn covariance(&self, one: Window, other: Window) -> f64 {
        let [one, other] = [one, other].map(|window| self.weights(seconds(self.origin_ns, window)));
        let pairs = one.iter().flat_map(|one| other.iter().map(move |other| (one, other)));
        let shared = pairs.filter(|(one, other)| one.0 == other.0);
        shared.map(|(one, other)| one.1 * other.1 * self.stretches[one.0].standard.powi(2)).sum()
    }
}

/// The ratio by which stretches, in order of time, scatter about the lines between their neighbours beyond
/// their own uncertainties, and its degrees of freedom; `None` if they do not.
fn excess(stretches: &[IdlePoint]) -> Option<(f64, f64)> {
    let point = |stretch: &IdlePoint| Point { x: stretch.at_s, y: stretch.watts, standard: stretch.standard };
    let square = |three: &[IdlePoint]| residual_square([&three[0], &three[1], &three[2]].map(point));
    let squares: Vec<f64> = stretches.windows(3).map(square).collect();
    let ratio = (squares.iter().sum::<f64>() / squares.len() as f64).sqrt();
    (ratio > 1.0 && ratio.is_finite()).then(|| (ratio, residual_dof(squares.len() as f64)))
}

/// `above` over `below`, both above the same idle power, with Fieller's interval: the gain cancels, and the
/// error of the idle power is in both.
///
/// # Errors
/// [`Undefined`] if `below` does not exceed idle by more than its uncertainty.
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

/// The energy without the random part that comes from idle power.
fn without_idle(above: &AboveIdle) -> Energy {
    let mut energy = above.energy.clone();
    energy.random.retain(|component| component.source != UncertaintySource::Idle);
    energy
}

fn seconds(origin_ns: u64, window: Window) -> f64 {
    let middle_ns = window.middle_ns();
    let apart = middle_ns.abs_diff(origin_ns) as f64 * 1e-9;
    if middle_ns < origin_ns { -apart } else { apart }
}

#[cfg(test)]
mod tests;
