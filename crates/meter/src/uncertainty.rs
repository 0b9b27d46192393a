//! Energy with its uncertainty budget after the GUM (JCGM 100:2008), random and common parts kept apart.

use crate::meter::{Accuracy, Distribution};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Share of the truth that an interval covers.
pub(crate) const COVERAGE: f64 = 0.95;
/// Coverage factor for infinite degrees of freedom.
const NORMAL_FACTOR: f64 = 1.959_963_984_540_054;
/// From here on Student's t is the normal distribution to six digits.
const MANY: f64 = 1e6;

/// The source of a random uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UncertaintySource {
    /// Scatter of single readings, estimated from their residuals (type A).
    Noise,
    /// Bridged time without readings (type A).
    Gaps,
    /// The partial intervals at both ends of the window.
    Edges,
    /// The instant of a reading.
    Jitter,
    /// The meter's clock: offset and drift from the host's, or the age of a value.
    Clock,
    /// The value's last digit.
    Resolution,
    /// Idle power that was subtracted.
    Idle,
}

/// One line of an uncertainty budget.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Component {
    /// Its source.
    pub source: UncertaintySource,
    /// Its standard uncertainty of the energy, in J.
    pub joules: f64,
    /// Degrees of freedom; absent if the uncertainty itself counts as known.
    pub dof: Option<f64>,
}

/// Two bounds that cover the true value with a probability of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

impl Interval {
    /// `half_width` to both sides of `middle`.
    pub(crate) fn about(middle: f64, half_width: f64) -> Self {
        Self { low: middle - half_width, high: middle + half_width }
    }

    /// Whether `value` lies within, bounds included.
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Energy of one window of one channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// Joules.
    pub joules: f64,
    /// Length of the window.
    pub seconds: f64,
    /// The part that differs from window to window.
    pub random: Vec<Component>,
    /// The part that all windows of the channel share; absent if nobody has declared it.
    pub accuracy: Option<Accuracy>,
}

impl Energy {
    /// Mean power.
    pub fn watts(&self) -> f64 {
        self.joules / self.seconds
    }

    /// Standard uncertainty of the random part in J.
    pub fn random_standard(&self) -> f64 {
        standard(&self.random)
    }

    /// Effective degrees of freedom of the random part (Welch-Satterthwaite, G.4.1); `None` for infinitely
    /// many.
    pub fn random_dof(&self) -> Option<f64> {
        effective_dof(&self.random, self.random_standard())
    }

    /// 95 % interval of the random part alone, in J: the channel's gain and offset count as exact.
    pub fn random_interval(&self) -> Interval {
        Interval::about(self.joules, factor(self.random_dof()) * self.random_standard())
    }

    /// 95 % interval of the common part alone, in J; `None` if no accuracy is declared.
    pub fn common_interval(&self) -> Option<Interval> {
        Some(Interval::about(self.joules, half_width(&[], &self.common()?)))
    }

    /// 95 % interval of everything, in J; `None` if no accuracy is declared.
    pub fn interval(&self) -> Option<Interval> {
        Some(Interval::about(self.joules, half_width(&self.random, &self.common()?)))
    }

    /// Gain and offset as errors in J.
    fn common(&self) -> Option<[Distribution; 2]> {
        let Accuracy { gain, offset } = self.accuracy?;
        Some([scaled(gain, self.joules), scaled(offset, self.seconds)])
    }
}

/// The energy of several instruments over one window. Nothing is common to them: the random parts, the gains
/// and the offsets of all are independent errors (JCGM 100:2008, 5.1.2).
#[derive(Clone, Debug, PartialEq)]
pub struct EnergySum(Vec<Energy>);

impl EnergySum {
    /// The sum of these; `None` without any.
    pub fn of(parts: Vec<Energy>) -> Option<Self> {
        (!parts.is_empty()).then_some(Self(parts))
    }

    /// Joules of all.
    pub fn joules(&self) -> f64 {
        self.0.iter().map(|part| part.joules).sum()
    }

    /// Length of the window.
    pub fn seconds(&self) -> f64 {
        self.0.first().map_or(0.0, |part| part.seconds)
    }

    /// Standard uncertainty of the random part in J.
    pub fn random_standard(&self) -> f64 {
        standard(&self.random())
    }

    /// As for [`Energy::random_dof`].
    pub fn random_dof(&self) -> Option<f64> {
        effective_dof(&self.random(), self.random_standard())
    }

    /// As for [`Energy::random_interval`].
    pub fn random_interval(&self) -> Interval {
        Interval::about(self.joules(), factor(self.random_dof()) * self.random_standard())
    }

    /// 95 % interval of everything, in J; `None` if no accuracy is declared of one of the instruments.
    pub fn interval(&self) -> Option<Interval> {
        let common = self.0.iter().map(Energy::common).collect::<Option<Vec<_>>>()?.concat();
        Some(Interval::about(self.joules(), half_width(&self.random(), &common)))
    }

    fn random(&self) -> Vec<Component> {
        self.0.iter().flat_map(|part| &part.random).copied().collect()
    }
}

/// The distribution of an error that a known factor multiplies.
fn scaled(distribution: Distribution, factor: f64) -> Distribution {
    match distribution {
        Distribution::Rectangular(half_width) => Distribution::Rectangular(half_width * factor.abs()),
        Distribution::Normal(deviation) => Distribution::Normal(deviation * factor.abs()),
    }
}

/// Expanded uncertainty of independent errors (6.2.1), with the coverage factor of G.6.4. It is never wider
/// than the declared bounds allow: the factor is meant for nearly normal errors, and would reach beyond the
/// ends of a single rectangle.
fn half_width(random: &[Component], common: &[Distribution]) -> f64 {
    let expanded = |rectangles: bool| {
        let normal = common.iter().filter(|error| rectangles || matches!(error, Distribution::Normal(_)));
        let standard = normal.fold(standard(random), |sum, error| sum.hypot(error.standard()));
        factor(effective_dof(random, standard)) * standard
    };
    let bounds = common.iter().map(|error| match error {
        Distribution::Rectangular(half_width) => half_width.abs(),
        Distribution::Normal(_) => 0.0,
    });
    expanded(true).min(expanded(false) + bounds.sum::<f64>())
}

/// Combined standard uncertainty of independent components (5.1.2).
pub(crate) fn standard(components: &[Component]) -> f64 {
    components.iter().fold(0.0, |sum: f64, component| sum.hypot(component.joules))
}

/// Welch and Satterthwaite's degrees of freedom of a combined standard uncertainty (G.4.1, equation G.2b);
/// components without a number have infinitely many, and so has the sum if no component has one.
pub(crate) fn effective_dof(components: &[Component], combined: f64) -> Option<f64> {
    let shares = components
        .iter()
        .filter_map(|component| Some((component.joules / combined).powi(4) / component.dof?));
    let sum: f64 = shares.sum();
    (sum > 0.0).then(|| 1.0 / sum)
}

/// Coverage factor: the two-sided 95 % quantile of Student's t (G.3.2); the normal distribution's for `None`.
pub(crate) fn factor(dof: Option<f64>) -> f64 {
    match dof {
        Some(dof) if dof < MANY => StudentsT::new(0.0, 1.0, dof)
            .map_or(f64::INFINITY, |student| student.inverse_cdf(f64::midpoint(1.0, COVERAGE))),
        _ => NORMAL_FACTOR,
    }
}

#[cfg(test)]
mod tests;
