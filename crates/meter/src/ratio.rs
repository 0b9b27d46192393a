//! Ratios of two uncertain numbers: Fieller's interval, and I/Os or bytes per joule.

use crate::meter::Distribution;
use crate::uncertainty::{Component, Energy, Interval, UncertaintySource, effective_dof, factor, standard};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a ratio has no value.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Serialize, Deserialize)]
pub enum Undefined {
    /// The divisor does not differ from zero, or is below it: above idle, idle power is not exceeded.
    #[error("undefined: the divisor, an energy, does not exceed zero by more than its uncertainty")]
    NotAboveZero,
    /// A value is not a finite number.
    #[error("undefined: a value is not a finite number")]
    NotFinite,
}

/// A ratio with its 95 % interval, which need not be symmetrical.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The ratio of the estimates.
    pub value: f64,
    /// Its 95 % interval.
    pub interval: Interval,
}

/// An estimate with its standard uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Value.
    pub value: f64,
    /// Standard uncertainty.
    pub standard: f64,
}

/// `above` over `below`, whose errors have this `covariance`, with the 95 % interval of Fieller (1954). `dof`
/// are the degrees of freedom of the uncertainties at the ratio; `None` for infinitely many.
///
/// # Errors
/// [`Undefined`] if `below` does not exceed zero by more than its uncertainty: there is no bounded interval
/// then.
pub fn fieller(
    above: Estimate,
    below: Estimate,
    covariance: f64,
    dof: Option<f64>,
) -> Result<Ratio, Undefined> {
    let value = above.value / below.value;
    let (variance_a, variance_b) = (above.standard.powi(2), below.standard.powi(2));
    let k2 = factor(dof).powi(2);
    // Bounds are the roots q of (a - q b)^2 = k^2 (va - 2 q cov + q^2 vb).
    let square = below.value * below.value - k2 * variance_b;
    if below.value <= 0.0 || square <= 0.0 {
        return Err(Undefined::NotAboveZero);
    }
    let middle = (above.value * below.value - k2 * covariance) / square;
    let product = (above.value * above.value - k2 * variance_a) / square;
    let half_width = (middle * middle - product).max(0.0).sqrt();
    let interval = Interval::about(middle, half_width);
    let all_finite = value.is_finite() && interval.low.is_finite() && interval.high.is_finite();
    if all_finite { Ok(Ratio { value, interval }) } else { Err(Undefined::NotFinite) }
}

/// The energy of one window over that of another of the same channel. The common gain cancels; the common
/// offset does not, and is propagated with its correlation (JCGM 100:2008, 5.2.2 and F.1.2.3). If no accuracy
/// is declared, the interval covers only the random part.
///
/// # Errors
/// [`Undefined`] if `below` does not exceed zero by more than its uncertainty.
pub fn ratio(above: &Energy, below: &Energy) -> Result<Ratio, Undefined> {
    let offset = above.accuracy.map_or(Distribution::NONE, |accuracy| accuracy.offset).standard();
    let shared = Shared {
        above: offset * above.seconds,
        below: offset * below.seconds,
        covariance: offset * offset * above.seconds * below.seconds,
        dof: None,
    };
    ratio_with(above, below, &shared)
}

/// An error that both energies of a ratio share: standard uncertainties and covariance in J and J².
pub(crate) struct Shared {
    pub(crate) above: f64,
    pub(crate) below: f64,
    pub(crate) covariance: f64,
    pub(crate) dof: Option<f64>,
}

/// Fieller's interval of two energies whose random parts are independent, and which share one more error.
/// Degrees of freedom are those of Welch and Satterthwaite at the ratio itself, where the shared error counts
/// as far as it does not cancel.
pub(crate) fn ratio_with(above: &Energy, below: &Energy, shared: &Shared) -> Result<Ratio, Undefined> {
    let estimate = |energy: &Energy, shared_j: f64| Estimate {
        value: energy.joules,
        standard: energy.random_standard().hypot(shared_j),
    };
    let value = above.joules / below.joules;
    let rest = shared.above.powi(2) + (value * shared.below).powi(2) - 2.0 * value * shared.covariance;
    let part = |joules: f64, dof| Component { source: UncertaintySource::Noise, joules, dof };
    let parts = [
        part(above.random_standard(), above.random_dof()),
        part(value * below.random_standard(), below.random_dof()),
        part(rest.max(0.0).sqrt(), shared.dof),
    ];
    let dof = effective_dof(&parts, standard(&parts));
    fieller(estimate(above, shared.above), estimate(below, shared.below), shared.covariance, dof)
}

/// `count` I/Os or bytes per joule, with the interval that [`Energy::interval`] or
/// [`Energy::random_interval`] of the same energy gives.
///
/// # Errors
/// [`Undefined`] if the interval's energy is not above zero.
pub fn per_joule(count: f64, energy: &Energy, interval: Interval) -> Result<Ratio, Undefined> {
    if interval.low <= 0.0 || energy.joules <= 0.0 {
        return Err(Undefined::NotAboveZero);
    }
    // The count is exact, so Fieller's bounds are the count over the energy's.
    let interval = Interval { low: count / interval.high, high: count / interval.low };
    let value = count / energy.joules;
    if value.is_finite() && interval.high.is_finite() {
        Ok(Ratio { value, interval })
    } else {
        Err(Undefined::NotFinite)
    }
}

#[cfg(test)]
mod tests;
