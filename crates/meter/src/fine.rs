//! The fine search: a load pattern's offset to a small part of the meter's interval, by least squares about
//! the offset that the coarse search found.

use crate::coarse::between;
use crate::curve::Step;
use crate::line::Point;
use crate::pattern::Shape;

/// Reach of the search to either side, in intervals of the log.
const FINE_REACH: f64 = 1.5;
/// Step of its first pass, in intervals of the log.
const FINE: f64 = 1.0 / 16.0;
/// Number of steps of its second pass, over the plausible part of the first.
const FINEST_PARTS: u32 = 128;
/// Logarithm of the likelihood ratio at five standard deviations.
const LEAST_LIKELY: f64 = -12.5;

/// The search about one offset: at every offset, idle power, loaded power and a trend are fitted by least
/// squares.
pub(crate) struct Fine<'a> {
    steps: &'a [Step],
    shape: &'a Shape,
    interval_s: f64,
    about_s: f64,
}

/// One pattern's offset.
pub(crate) struct OffsetFit {
    /// Offset over host time.
    pub(crate) point: Point,
    pub(crate) correlation: f64,
}

impl<'a> Fine<'a> {
    pub(crate) fn new(steps: &'a [Step], shape: &'a Shape, interval_s: f64, about_s: f64) -> Self {
        // The same samples at every offset, and none that a load other than the pattern's can reach.
        let margin_s = FINE_REACH * interval_s;
        let steps = between(steps, shape.begin_s + about_s + margin_s, shape.end_s + about_s - margin_s);
        Self { steps, shape, interval_s, about_s }
    }

    /// The offset's mean and standard deviation under its posterior with a flat prior on offset, levels and
    /// trend and Jeffreys' prior on the noise: the residuals' sum of squares to the power -(n - 3) / 2. It
    /// serves likelihoods that are a bell, as for averages, or flat between two samples, as for instants.
    pub(crate) fn offset(&self) -> OffsetFit {
        let reach = (FINE_REACH / FINE) as i64;
        let grid: Vec<f64> =
            (-reach..=reach).map(|at| self.about_s + at as f64 * FINE * self.interval_s).collect();
        let likely = self.likelihoods(&grid);
        let plausible = |index: &usize| likely[*index] > LEAST_LIKELY;
        let first = (0..grid.len()).find(plausible).unwrap_or(0).saturating_sub(1);
        let last = ((0..grid.len()).rfind(plausible).unwrap_or(0) + 1).min(grid.len() - 1);
        let part_s = (grid[last] - grid[first]) / f64::from(FINEST_PARTS);
        let finest: Vec<f64> =
            (0..=FINEST_PARTS).map(|part| grid[first] + f64::from(part) * part_s).collect();
        let weights: Vec<f64> = self.likelihoods(&finest).into_iter().map(f64::exp).collect();
        let total: f64 = weights.iter().sum();
        let mean = |value: &dyn Fn(f64) -> f64| {
            finest.iter().zip(&weights).map(|(at, weight)| weight * value(*at)).sum::<f64>() / total
        };
        let offset_s = self.about_s + mean(&|at| at - self.about_s);
        // The grid adds a rectangle of one step.
        let variance = mean(&|at| (at - offset_s).powi(2)) + part_s * part_s / 12.0;
        let x = f64::midpoint(self.shape.begin_s, self.shape.end_s);
        OffsetFit {
            point: Point { x, y: offset_s, standard: variance.sqrt() },
            correlation: self.fit(offset_s).correlation(),
        }
    }

    /// Logarithm of the ratio of each offset's likelihood to the greatest.
    fn likelihoods(&self, offsets_s: &[f64]) -> Vec<f64> {
        let fits: Vec<Fit> = offsets_s.iter().map(|offset_s| self.fit(*offset_s)).collect();
        // Logs without noise fit perfectly: rounding keeps the residual above zero.
        let residual = |fit: &Fit| fit.residual() + 1e-12 * fit.yy;
        let least = fits.iter().map(residual).fold(f64::INFINITY, f64::min);
        let power = -0.5 * (self.steps.len() as f64 - 3.0).max(1.0);
        let of = |fit: &Fit| {
            if fit.is_rising() { power * (residual(fit) / least).ln() } else { f64::NEG_INFINITY }
        };
        fits.iter().map(of).collect()
    }

    fn fit(&self, offset_s: f64) -> Fit {
        let values = self.steps.iter().map(|step| {
            let load = self.shape.share(step.begin_s - offset_s, step.end_s - offset_s);
            [step.middle_s() - offset_s, load, step.watts]
        });
        let values: Vec<[f64; 3]> = values.collect();
        let count = values.len() as f64;
        let mean = [0, 1, 2].map(|at| values.iter().map(|value| value[at]).sum::<f64>() / count);
        let product = |one: usize, other: usize| {
            values.iter().map(|value| (value[one] - mean[one]) * (value[other] - mean[other])).sum::<f64>()
        };
        let (tt, tx, ty) = (product(0, 0), product(0, 1), product(0, 2));
        Fit {
            xx: product(1, 1) - tx * tx / tt,
            xy: product(1, 2) - tx * ty / tt,
            yy: product(2, 2) - ty * ty / tt,
        }
    }
}

/// Sums of squares and products of load and power, both without their mean and trend.
struct Fit {
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Fit {
    fn correlation(&self) -> f64 {
        if self.is_rising() { self.xy / (self.xx * self.yy).sqrt() } else { 0.0 }
    }

    fn residual(&self) -> f64 {
        (self.yy - self.xy * self.xy / self.xx).max(0.0)
    }

    /// Whether load raises power.
    fn is_rising(&self) -> bool {
        self.xy > 0.0 && self.xx > 0.0
    }
}
