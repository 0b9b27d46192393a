//! Ordinary least squares with common slopes and a fixed part for each group of observations.
//!
//! Regressors are centred within their groups and orthogonalised by modified Gram-Schmidt (Björck 1967), so
//! the large fixed parts cost the slopes no digits. With one group this is the usual regression.

/// Rows, or columns, of numbers.
type Matrix = Vec<Vec<f64>>;

/// One run: its cost, and what the cost may depend on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Observation {
    pub(super) y: f64,
    pub(super) x: Vec<f64>,
}

/// Slopes and fixed parts, with the data for their errors.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Solution {
    /// A slope for each regressor.
    pub(super) slopes: Vec<f64>,
    /// The fixed part of each group.
    pub(super) fixed: Vec<f64>,
    /// Observations less parameters.
    pub(super) df: usize,
    /// Sum of the squared residuals over `df`; absent if that is 0.
    pub(super) variance: Option<f64>,
    centres: Vec<Centre>,
    /// The inverse of the centred regressors' cross products.
    inverse: Matrix,
}

/// The means of a group.
#[derive(Clone, Debug, PartialEq)]
struct Centre {
    n: f64,
    y: f64,
    x: Vec<f64>,
}

impl Solution {
    /// The standard error of a slope.
    pub(super) fn slope_error(&self, slope: usize) -> Option<f64> {
        Some((self.variance? * self.inverse[slope][slope]).sqrt())
    }

    /// The value of a group's line at `x`.
    pub(super) fn at(&self, group: usize, x: &[f64]) -> f64 {
        self.fixed[group] + self.slopes.iter().zip(x).map(|(slope, x)| slope * x).sum::<f64>()
    }

    /// The standard error of [`Solution::at`]; of the fixed part at zero.
    pub(super) fn error_at(&self, group: usize, x: &[f64]) -> Option<f64> {
        let centre = &self.centres[group];
        let away: Vec<f64> = x.iter().zip(&centre.x).map(|(x, mean)| x - mean).collect();
        Some((self.variance? * (1.0 / centre.n + self.leverage(&away))).sqrt())
    }

    /// The fixed part of group `a` less that of group `b`, and its standard error.
    pub(super) fn apart(&self, a: usize, b: usize) -> (f64, Option<f64>) {
        let (own, other) = (&self.centres[a], &self.centres[b]);
        let away: Vec<f64> = own.x.iter().zip(&other.x).map(|(own, other)| own - other).collect();
        let spread = 1.0 / own.n + 1.0 / other.n + self.leverage(&away);
        (self.fixed[a] - self.fixed[b], self.variance.map(|variance| (variance * spread).sqrt()))
    }

    /// The variance that the slopes' errors add this far from the centre.
    fn leverage(&self, away: &[f64]) -> f64 {
        self.inverse.iter().zip(away).map(|(row, x)| x * dot(row, away)).sum()
    }
}

/// The fit; `None` without observations in a group, with fewer observations than parameters, and for
/// regressors that do not vary within their groups or are combinations of others. Every `x` has the same
/// length.
pub(super) fn least_squares(groups: &[Vec<Observation>]) -> Option<Solution> {
    let centres: Vec<Centre> = groups.iter().map(|group| centre(group)).collect::<Option<_>>()?;
    let regressors = centres.first()?.x.len();
    let observations =
        || groups.iter().zip(&centres).flat_map(|(group, centre)| group.iter().map(move |o| (o, centre)));
    let df = observations().count().checked_sub(groups.len() + regressors)?;
    let y: Vec<f64> = observations().map(|(observation, centre)| observation.y - centre.y).collect();
    let column =
        |at: usize| observations().map(|(observation, centre)| observation.x[at] - centre.x[at]).collect();
    let columns: Matrix = (0..regressors).map(column).collect();
    let (q, r) = orthogonal(&columns)?;
    let inverse_r = inverse(&r);
    let projections: Vec<f64> = q.iter().map(|q| dot(q, &y)).collect();
    let slopes: Vec<f64> = inverse_r.iter().map(|row| dot(row, &projections)).collect();
    let residuals = (0..y.len()).map(|row| {
        let explained: f64 = slopes.iter().zip(&columns).map(|(slope, column)| slope * column[row]).sum();
        (y[row] - explained).powi(2)
    });
    let variance = (df > 0).then(|| residuals.sum::<f64>() / df as f64);
    let fixed = centres.iter().map(|centre| centre.y - dot(&slopes, &centre.x)).collect();
    let inverse = inverse_r.iter().map(|a| inverse_r.iter().map(|b| dot(a, b)).collect()).collect();
    Some(Solution { slopes, fixed, df, variance, centres, inverse })
}

fn centre(group: &[Observation]) -> Option<Centre> {
    let n = group.len() as f64;
    let mean = |of: &dyn Fn(&Observation) -> f64| group.iter().map(of).sum::<f64>() / n;
    let x = (0..group.first()?.x.len()).map(|at| mean(&|observation| observation.x[at])).collect();
    Some(Centre { n, y: mean(&|observation| observation.y), x })
}

/// The columns as an orthonormal basis and its upper triangle, by rows.
fn orthogonal(columns: &[Vec<f64>]) -> Option<(Matrix, Matrix)> {
    let mut q: Matrix = Vec::new();
    let mut r = vec![vec![0.0; columns.len()]; columns.len()];
    for (at, column) in columns.iter().enumerate() {
        let mut rest = column.clone();
        for (before, direction) in q.iter().enumerate() {
            r[before][at] = dot(direction, &rest);
            rest.iter_mut().zip(direction).for_each(|(value, part)| *value -= r[before][at] * part);
        }
        r[at][at] = dot(&rest, &rest).sqrt();
        // A remainder within rounding is zero.
        if r[at][at] <= 1e-10 * dot(column, column).sqrt() {
            return None;
        }
        rest.iter_mut().for_each(|value| *value /= r[at][at]);
        q.push(rest);
    }
    Some((q, r))
}

/// The inverse of an upper triangle without zeros on its diagonal, by rows.
fn inverse(r: &[Vec<f64>]) -> Matrix {
    let column = |column: usize| {
        let mut solved = vec![0.0; r.len()];
        for row in (0..=column).rev() {
            let known: f64 = (row + 1..=column).map(|k| r[row][k] * solved[k]).sum();
            solved[row] = (f64::from(row == column) - known) / r[row][row];
        }
        solved
    };
    let columns: Matrix = (0..r.len()).map(column).collect();
    (0..r.len()).map(|row| columns.iter().map(|column| column[row]).collect()).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests;
