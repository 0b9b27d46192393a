//! Straight lines through points of known uncertainty: a clock's offset over a study, and the lines between
//! neighbours from which scatter is judged.

use serde::{Deserialize, Serialize};

/// A point of the line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Standard uncertainty of `y`.
    pub(crate) standard: f64,
}

/// y over x; value and slope are uncorrelated at the centre of the points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    centre: f64,
    value: f64,
    /// y per x; 0 for a single point.
    pub(crate) slope: f64,
    variance_of_value: f64,
    variance_of_slope: f64,
    /// Points in excess of two if their scatter, not their own uncertainty, gives the variances.
    pub(crate) scatter_dof: Option<f64>,
}

impl Line {
    /// A level line through one point; the standard uncertainty of its slope is `slope_standard`.
    pub(crate) fn level(point: Point, slope_standard: f64) -> Self {
        Self {
            centre: point.x,
            value: point.y,
            slope: 0.0,
            variance_of_value: point.standard.powi(2),
            variance_of_slope: slope_standard.powi(2),
            scatter_dof: None,
        }
    }

    /// Weighted least squares. If three or more points scatter by more than their uncertainties, these are
    /// enlarged by the ratio (Birge 1932). One point gives a level line with `slope_standard` as the
    /// uncertainty of its slope. `None` without points.
    pub(crate) fn fit(points: &[Point], slope_standard: f64) -> Option<Self> {
        let scale = points.iter().fold(0.0, |greatest: f64, point| greatest.max(point.y.abs()));
        // A point without uncertainty would have infinite weight.
        let least = (scale * 1e-12).max(f64::MIN_POSITIVE.sqrt());
        let weight = |point: &Point| point.standard.max(least).powi(-2);
        let sum = |term: &dyn Fn(&Point) -> f64| {
            points.iter().map(|point| weight(point) * term(point)).sum::<f64>()
        };
        let total = sum(&|_| 1.0);
        if points.is_empty() {
            return None;
        }
        let (centre, value) = (sum(&|point| point.x) / total, sum(&|point| point.y) / total);
        let spread = sum(&|point| (point.x - centre).powi(2));
        let (slope, variance_of_slope) = if points.len() > 1 && spread > 0.0 {
            (sum(&|point| (point.x - centre) * (point.y - value)) / spread, 1.0 / spread)
        } else {
            (0.0, slope_standard.powi(2))
        };
        let mut line = Self {
            centre,
            value,
            slope,
            variance_of_value: 1.0 / total,
            variance_of_slope,
            scatter_dof: None,
        };
        if points.len() > 2 {
            let dof = (points.len() - 2) as f64;
            let birge = sum(&|point| (point.y - line.at(point.x)).powi(2)) / dof;
            if birge > 1.0 {
                line.variance_of_value *= birge;
                line.variance_of_slope *= birge;
                line.scatter_dof = Some(dof);
            }
        }
        Some(line)
    }

    pub(crate) fn at(&self, x: f64) -> f64 {
        self.value + self.slope * (x - self.centre)
    }

    /// Covariance of the line's values at two x; the variance if they are equal.
    pub(crate) fn covariance(&self, x: f64, other: f64) -> f64 {
        self.variance_of_value + (x - self.centre) * (other - self.centre) * self.variance_of_slope
    }

    pub(crate) fn slope_standard(&self) -> f64 {
        self.variance_of_slope.sqrt()
    }
}

/// Correlation of neighbouring residuals, and of those two apart, when each is a reading less the line
/// between its neighbours and the readings are independent.
const RESIDUAL_CORRELATION: [f64; 2] = [-2.0 / 3.0, 1.0 / 6.0];

/// The square of how far the middle of three points lies from the line between the other two, in units of
/// the variance that their uncertainties give it.
pub(crate) fn residual_square([before, middle, after]: [Point; 3]) -> f64 {
    let share = (middle.x - before.x) / (after.x - before.x);
    let residual = middle.y - (1.0 - share) * before.y - share * after.y;
    let parts = [(middle, 1.0), (before, 1.0 - share), (after, share)];
    let expected: f64 = parts.iter().map(|(point, weight)| (weight * point.standard).powi(2)).sum();
    // A point without uncertainty that lies on the line scatters no more than it says.
    if residual == 0.0 { 0.0 } else { residual.powi(2) / expected }
}

/// Degrees of freedom of `count` such residuals in a row, of which neighbouring ones correlate; for normal
/// noise.
pub(crate) fn residual_dof(count: f64) -> f64 {
    let [one, two] = RESIDUAL_CORRELATION;
    let pairs = (count - 1.0) * one * one + (count - 2.0).max(0.0) * two * two;
    count * count / (count + 2.0 * pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[(f64, f64, f64)]) -> Vec<Point> {
        values.iter().map(|&(x, y, standard)| Point { x, y, standard }).collect()
    }

    #[track_caller]
    fn close(got: f64, want: f64) {
        assert!((got - want).abs() <= 1e-12 * want.abs().max(1.0), "{got} is not {want}");
    }

    #[test]
    fn two_points_give_the_line_through_them_and_its_uncertainty() {
        let line = Line::fit(&points(&[(0.0, 10.0, 0.3), (10.0, 12.0, 0.4)]), 0.0).unwrap();
        close(line.slope, 0.2);
        close(line.at(5.0), 11.0);
        // Halfway between two points: half the root of the squares' sum.
        close(line.covariance(5.0, 5.0).sqrt(), 0.25);
        close(line.covariance(0.0, 0.0).sqrt(), 0.3);
        close(line.covariance(0.0, 10.0), 0.0);
        close(line.slope_standard(), 0.05);
    }

    #[test]
    fn scatter_beyond_the_uncertainties_enlarges_them() {
        let line = Line::fit(&points(&[(-1.0, 1.0, 0.1), (0.0, 4.0, 0.1), (1.0, 1.0, 0.1)]), 0.0).unwrap();
        close(line.at(0.0), 2.0);
        // Residuals -1, 2, -1 with one degree of freedom: variance 6 of a point, 2 of the mean.
        close(line.covariance(0.0, 0.0), 2.0);
        assert_eq!(line.scatter_dof, Some(1.0));
        let quiet = Line::fit(&points(&[(-1.0, 1.0, 9.0), (0.0, 4.0, 9.0), (1.0, 1.0, 9.0)]), 0.0).unwrap();
        close(quiet.covariance(0.0, 0.0), 27.0);
        assert_eq!(quiet.scatter_dof, None);
    }

    #[test]
    fn one_point_is_level_with_the_slope_that_is_feared() {
        let line = Line::fit(&points(&[(3.0, 7.0, 0.5)]), 0.1).unwrap();
        close(line.at(100.0), 7.0);
        close(line.covariance(13.0, 13.0), 1.25);
        assert_eq!(Line::fit(&[], 0.1), None);
    }

    #[test]
    fn exact_points_are_no_division_by_zero() {
        let line = Line::fit(&points(&[(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (2.0, 0.0, 0.0)]), 0.0).unwrap();
        close(line.at(1.5), 0.0);
        assert!(line.covariance(1.0, 1.0) < 1e-12);
    }
}
