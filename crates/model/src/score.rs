//! How good predictions are: their errors against measurements that the model did not see, and how often
//! their intervals held them.

use crate::case::{Case, Observation, Quantity};
use crate::model::{CalibrateError, Model};
use crate::predict::Prediction;
use statrs::distribution::{Beta, ContinuousCDF};
use std::collections::{BTreeMap, BTreeSet};

/// A prediction beside what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// What was measured.
    pub observation: Observation,
    /// What was predicted.
    pub prediction: Prediction,
}

impl Scored {
    /// Predicted over measured, less one.
    pub fn error(&self) -> f64 {
        self.prediction.value / self.observation.value - 1.0
    }

    /// True if the interval, widened by what the replicates leave open, has the measured value.
    pub fn is_covered(&self) -> bool {
        let reach = (self.prediction.value / self.prediction.interval[0]).ln();
        let own = self.prediction.spread.powi(2);
        let widened = reach * ((own + self.observation.variance) / own.max(f64::MIN_POSITIVE)).sqrt();
        (self.observation.value / self.prediction.value).ln().abs() <= widened
    }
}

/// The errors of a quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Predictions.
    pub n: usize,
    /// Median of the errors' sizes, as a share.
    pub median: f64,
    /// Their 90th percentile.
    pub p90: f64,
    /// How many intervals of 90 % had the measured value.
    pub covered: usize,
    /// The interval of that share: exact, 95 % (Clopper and Pearson, Biometrika 26, 1934).
    pub coverage: [f64; 2],
    /// Mean width of the intervals over the predicted value.
    pub width: f64,
}

/// The errors of these predictions; `None` of none.
pub fn score<'a>(scored: impl Iterator<Item = &'a Scored>) -> Option<Score> {
    let all: Vec<&Scored> = scored.collect();
    let mut errors: Vec<f64> = all.iter().map(|one| one.error().abs()).collect();
    errors.sort_by(f64::total_cmp);
    let n = errors.len();
    let width =
        |one: &&Scored| (one.prediction.interval[1] - one.prediction.interval[0]) / one.prediction.value;
    let covered = all.iter().filter(|one| one.is_covered()).count();
    let median = (errors.get(n.checked_sub(1)? / 2)? + errors[n / 2]) / 2.0;
    Some(Score {
        n,
        median,
        p90: errors[(n * 9).div_ceil(10).clamp(1, n) - 1],
        covered,
        coverage: binomial(covered, n),
        width: all.iter().map(width).sum::<f64>() / n as f64,
    })
}

/// The exact 95 % interval of a share.
fn binomial(k: usize, n: usize) -> [f64; 2] {
    let (k, n) = (k as f64, n as f64);
    let quantile = |a: f64, b: f64, p: f64| Beta::new(a, b).map_or(f64::NAN, |beta| beta.inverse_cdf(p));
    [
        if k == 0.0 { 0.0 } else { quantile(k, n - k + 1.0, 0.025) },
        if k == n { 1.0 } else { quantile(k + 1.0, n - k, 0.975) },
    ]
}

/// Predictions of measurements by a model that did not see them; those for which it lacks a parameter are
/// left out, and counted.
pub fn against(model: &Model, observations: &[Observation]) -> (Vec<Scored>, usize) {
    let predicted = observations.iter().filter_map(|one| {
        let prediction = model.predict(&one.case, one.quantity).ok()?;
        Some(Scored { observation: *one, prediction })
    });
    let predicted: Vec<Scored> = predicted.collect();
    let lacking = observations.len() - predicted.len();
    (predicted, lacking)
}

/// Predicts each case by a model that was calibrated by the cases of the other folds. A case belongs to a
/// fold with all its quantities.
///
/// # Errors
/// The cases of the other folds make no model.
pub fn cross_validate(
    observations: &[Observation],
    folds: usize,
) -> Result<(Vec<Scored>, usize), CalibrateError> {
    let cases: BTreeSet<Case> = observations.iter().map(|one| one.case).collect();
    // Neighbours in the order of the cases differ in one key: they belong to different folds.
    let fold: BTreeMap<Case, usize> = cases.into_iter().zip((0..folds).cycle()).collect();
    let mut all = (Vec::new(), 0);
    for held in 0..folds {
        let split = observations.iter().partition(|one| fold[&one.case] == held);
        let (held, rest): (Vec<Observation>, Vec<Observation>) = split;
        let model = Model::calibrate(&rest, BTreeMap::new())?;
        let (scored, lacking) = against(&model, &held);
        all.0.extend(scored);
        all.1 += lacking;
    }
    Ok(all)
}

/// The scores of each quantity.
pub fn by_quantity(scored: &[Scored]) -> BTreeMap<Quantity, Score> {
    let of = |quantity: Quantity| {
        let own = scored.iter().filter(move |one| one.observation.quantity == quantity);
        Some((quantity, score(own)?))
    };
    Quantity::ALL.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_share_is_exact() {
        // scipy.stats.binomtest(k, n).proportion_ci(0.95, 'exact')
        let close = |got: [f64; 2], exact: [f64; 2]| {
            assert!(got.iter().zip(exact).all(|(a, b)| (a - b).abs() < 1e-6), "{got:?} {exact:?}");
        };
        close(binomial(9, 10), [0.554_983_9, 0.997_471_4]);
        close(binomial(0, 10), [0.0, 0.308_497_1]);
        close(binomial(10, 10), [0.691_502_9, 1.0]);
    }
}
