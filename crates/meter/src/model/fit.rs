//! Coefficients from a store with a real meter: ordinary least squares by Householder reflections.

use super::{Coefficient, Coefficients, Feature, Features};
use std::collections::BTreeMap;
use thiserror::Error;

/// The least number of observations in excess of coefficients. The standard deviation of the residuals is
/// then known to about a third.
const LEAST_EXCESS: usize = 5;
/// Share of a feature's variance that the others must leave unexplained: a variance inflation factor of 100.
const LEAST_OWN: f64 = 0.01;

/// One trial: what the meter measured, and what was counted during it.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Mean power in W by a real meter.
    pub watts: f64,
    /// What was counted.
    pub features: Features,
}

/// Why no model can be fitted. The text names the cause and the remedy.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum FitError {
    /// Fewer observations than a fit needs.
    #[error(
        "{found} trials have joules of a real meter, {needed} are needed for {coefficients} coefficients: \
         measure more, or fit fewer features"
    )]
    TooFew { found: usize, needed: usize, coefficients: usize },
    /// A feature that the others, or the constant, explain.
    #[error(
        "`{0}` hardly varies by itself between the trials, so its coefficient cannot be separated from \
         the others': leave it out, or measure workloads in which it varies"
    )]
    Collinear(Feature),
    /// An observation without a feature that others have.
    #[error("`{0}` was counted in some trials only: leave it out")]
    Missing(Feature),
    /// A trial of another machine.
    #[error("a trial ran on `{found}`, and the model is for `{wanted}`: fit each CPU model by itself")]
    OtherCpu { wanted: String, found: String },
    /// A number is not finite.
    #[error("a trial has a number that is not finite: leave the trial out")]
    NotFinite,
    /// The source of the observations is missing.
    #[error("a model must say where it comes from: name the store and its meter as the source")]
    NoSource,
}

/// Fits power as a constant and a coefficient for each feature of the observations. Each observation has the
/// same weight; residuals are assumed to be independent and of one variance.
///
/// # Errors
/// [`FitError`] if the observations do not determine the coefficients.
pub fn fit(observations: &[Observation], cpu_model: &str, source: &str) -> Result<Coefficients, FitError> {
    if source.trim().is_empty() || cpu_model.trim().is_empty() {
        return Err(FitError::NoSource);
    }
    let mut features: Vec<Feature> =
        observations.first().map_or_else(Vec::new, |first| first.features.values.keys().cloned().collect());
    // If features add up to a constant, the last one is refused: a C-state, as CPU time by kind says more.
    features.sort_by_key(|feature| matches!(feature, Feature::CState(_)));
    let count = features.len() + 1;
    let needed = (2 * count).max(count + LEAST_EXCESS);
    if observations.len() < needed {
        return Err(FitError::TooFew { found: observations.len(), needed, coefficients: count });
    }
    let (columns, watts) = columns(observations, &features, cpu_model)?;
    let n = observations.len() as f64;
    let means: Vec<f64> = columns.iter().map(|column| mean(column)).collect();
    let mean_watts = mean(&watts);
    let centred: Vec<Vec<f64>> =
        columns.iter().zip(&means).map(|(column, mean)| less(column, *mean)).collect();
    // The mean of equal values can differ from them in the last bit.
    let varies = |(column, raw): (&Vec<f64>, &Vec<f64>)| dot(column, column) > 1e-18 * dot(raw, raw);
    if let Some(place) = centred.iter().zip(&columns).position(|pair| !varies(pair)) {
        return Err(FitError::Collinear(features[place].clone()));
    }
    let Solved { slopes, inverse, residual_square } = solve(&centred, &less(&watts, mean_watts))
        .map_err(|place| FitError::Collinear(features[place].clone()))?;
    let variance = residual_square / (n - count as f64);
    let total_square: f64 = watts.iter().map(|value| (value - mean_watts).powi(2)).sum();
    let constant = mean_watts - dot(&slopes, &means);
    let covariance = by_name(&covariance(&inverse, &means, n, variance), &features);
    let by_feature: BTreeMap<Feature, f64> = features.into_iter().zip(slopes).collect();
    let own = by_feature.into_iter().enumerate().map(|(place, (feature, value))| {
        let standard = Some(covariance[place + 1][place + 1].sqrt());
        let unit = feature.unit().to_owned();
        (feature, Coefficient { value, unit, standard })
    });
    let coefficients: BTreeMap<Feature, Coefficient> = own.collect();
    let model = Coefficients {
        cpu_model: cpu_model.trim().to_owned(),
        source: source.trim().to_owned(),
        constant_watts: constant,
        residual_standard_watts: variance.sqrt(),
        observations: Some(observations.len()),
        r_squared: (total_square > 0.0).then(|| 1.0 - residual_square / total_square),
        coefficients,
        covariance: Some(covariance),
    };
    model.check().map(|()| model).map_err(|_| FitError::NotFinite)
}

/// Features as columns, and the power.
fn columns(
    observations: &[Observation],
    features: &[Feature],
    cpu_model: &str,
) -> Result<(Vec<Vec<f64>>, Vec<f64>), FitError> {
    let mut columns = vec![Vec::with_capacity(observations.len()); features.len()];
    for Observation { watts, features: counted } in observations {
        if counted.cpu_model.trim() != cpu_model.trim() {
            return Err(FitError::OtherCpu {
                wanted: cpu_model.to_owned(),
                found: counted.cpu_model.clone(),
            });
        }
        if let Some(other) = counted.values.keys().find(|feature| !features.contains(feature)) {
            return Err(FitError::Missing(other.clone()));
        }
        for (column, feature) in columns.iter_mut().zip(features) {
            column.push(*counted.values.get(feature).ok_or_else(|| FitError::Missing(feature.clone()))?);
        }
        if !watts.is_finite() || !counted.values.values().all(|value| value.is_finite()) {
            return Err(FitError::NotFinite);
        }
    }
    Ok((columns, observations.iter().map(|observation| observation.watts).collect()))
}

/// Slopes, the inverse of the normal matrix, and the sum of the squared residuals.
struct Solved {
    slopes: Vec<f64>,
    inverse: Vec<Vec<f64>>,
    residual_square: f64,
}

/// Least squares of `y` over centred columns. `Err` is the first column that those before it explain.
fn solve(columns: &[Vec<f64>], y: &[f64]) -> Result<Solved, usize> {
    let size = columns.len();
    let lengths: Vec<f64> = columns.iter().map(|column| dot(column, column).sqrt()).collect();
    // Columns of length 1, as features differ by many powers of ten.
    let mut unit: Vec<Vec<f64>> = columns
        .iter()
        .zip(&lengths)
        .map(|(column, length)| column.iter().map(|value| value / length).collect())
        .collect();
    let mut y = y.to_vec();
    for place in 0..size {
        let (done, rest) = unit.split_at_mut(place + 1);
        let tail = &mut done[place][place..];
        let norm = dot(tail, tail).sqrt();
        if norm * norm < LEAST_OWN {
            return Err(place);
        }
        // The reflection that turns the column's tail into its first element, away from cancellation.
        let first = if tail[0] > 0.0 { -norm } else { norm };
        let mut normal = tail.to_vec();
        normal[0] -= first;
        let square = dot(&normal, &normal);
        for other in rest.iter_mut().map(|column| &mut column[place..]).chain([&mut y[place..]]) {
            let share = 2.0 * dot(&normal, other) / square;
            other.iter_mut().zip(&normal).for_each(|(value, normal)| *value -= share * normal);
        }
        tail[0] = first;
    }
    let upper = |row: usize, column: usize| unit[column][row];
    let back = |mut right: Vec<f64>| {
        for row in (0..size).rev() {
            let known: f64 = (row + 1..size).map(|column| upper(row, column) * right[column]).sum();
            right[row] = (right[row] - known) / upper(row, row);
        }
        right
    };
    let scaled = |values: Vec<f64>| {
        values.iter().zip(&lengths).map(|(value, length)| value / length).collect::<Vec<f64>>()
    };
    let slopes = scaled(back(y[..size].to_vec()));
    // R^-1 by columns; (X'X)^-1 is R^-1 times its transpose.
    let roots: Vec<Vec<f64>> = (0..size)
        .map(|place| scaled(back((0..size).map(|row| f64::from(u8::from(row == place))).collect())))
        .collect();
    let element = |row: usize, column: usize| roots.iter().map(|root| root[row] * root[column]).sum();
    let inverse = (0..size).map(|row| (0..size).map(|column| element(row, column)).collect()).collect();
    Ok(Solved { slopes, inverse, residual_square: dot(&y[size..], &y[size..]) })
}

/// Covariance of the constant and the slopes: that of the centred fit, with the constant moved from the means
/// to zero.
fn covariance(inverse: &[Vec<f64>], means: &[f64], n: f64, variance: f64) -> Vec<Vec<f64>> {
    let with_means: Vec<f64> = inverse.iter().map(|row| dot(row, means)).collect();
    let mut matrix = vec![vec![variance * (1.0 / n + dot(&with_means, means))]];
    matrix[0].extend(with_means.iter().map(|value| -variance * value));
    for (row, with_mean) in inverse.iter().zip(&with_means) {
        matrix.push(
            [-variance * with_mean].into_iter().chain(row.iter().map(|value| variance * value)).collect(),
        );
    }
    matrix
}

/// A covariance in the order of its file: the constant, then the features by name.
fn by_name(matrix: &[Vec<f64>], features: &[Feature]) -> Vec<Vec<f64>> {
    let mut order: Vec<usize> = (0..matrix.len()).collect();
    order[1..].sort_by_key(|place| &features[place - 1]);
    order.iter().map(|row| order.iter().map(|column| matrix[*row][*column]).collect()).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn less(values: &[f64], mean: f64) -> Vec<f64> {
    values.iter().map(|value| value - mean).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
