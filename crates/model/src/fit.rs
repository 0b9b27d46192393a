//! The fit: parameters that make data and priors likeliest together, by Gauss and Newton's steps damped after
//! Levenberg and Marquardt, and their covariance by Laplace's approximation.

use crate::case::{Case, Observation, Quantity};
use crate::formula::{Values, value};
use crate::linear::Square;
use crate::parameter::Parameter;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What a fit found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fitted {
    /// Logarithms of the parameters, in their order.
    pub(crate) logs: Vec<f64>,
    /// Their covariance.
    pub(crate) covariance: Square,
    /// What the formula misses of each quantity: the variance of the logarithm over cells that the
    /// replicates do not explain.
    pub(crate) misfit: BTreeMap<Quantity, f64>,
}

/// What the misfit is taken to be before any data: 5 %, by the weight of as many data. A formula is not true,
/// and few data may lie on it by chance. (The scaled inverse chi-squared distribution of a variance.)
const PRIOR_MISFIT: (f64, f64) = (0.0025, 4.0);
/// Rounds of fitting with the misfit of the round before.
const ROUNDS: usize = 12;
/// Steps of one round.
const STEPS: usize = 40;
/// A step below this share of a standard deviation ends a round.
const SMALL_STEP: f64 = 1e-3;
/// A round that changes no misfit by more than this share is the last.
const SETTLED: f64 = 0.02;
/// The step over which logarithms are differentiated.
const DIFFERENCE: f64 = 1e-5;

/// The parameters' values by name, and which of them were asked for.
struct Asked<'a> {
    parameters: &'a [Parameter],
    values: Vec<f64>,
    asked: RefCell<Vec<bool>>,
}

impl<'a> Asked<'a> {
    fn new(parameters: &'a [Parameter], logs: &[f64]) -> Asked<'a> {
        let values = logs.iter().map(|log| log.exp()).collect();
        Asked { parameters, values, asked: RefCell::new(vec![false; logs.len()]) }
    }

    /// The logarithm of what the formula says; `None` if a parameter is missing.
    fn say(&self, case: &Case, quantity: Quantity) -> Option<f64> {
        Some(value(self, case, quantity).ok()?.ln())
    }
}

impl Values for Asked<'_> {
    fn get(&self, parameter: Parameter) -> Option<f64> {
        let at = self.parameters.binary_search(&parameter).ok()?;
        self.asked.borrow_mut()[at] = true;
        Some(self.values[at])
    }
}

/// The logarithm of what the formula says of a case's quantity, and its slopes by the logarithms of the
/// parameters; `None` if a parameter is missing.
pub(crate) fn slopes(
    parameters: &[Parameter],
    logs: &[f64],
    (case, quantity): (&Case, Quantity),
) -> Option<(f64, Vec<f64>)> {
    let mut values = Asked::new(parameters, logs);
    let here = values.say(case, quantity)?;
    let asked = values.asked.take();
    values.asked = RefCell::new(vec![false; logs.len()]);
    let mut slopes = vec![0.0; logs.len()];
    for at in (0..logs.len()).filter(|at| asked[*at]) {
        let known = values.values[at];
        values.values[at] = known * DIFFERENCE.exp();
        slopes[at] = (values.say(case, quantity)? - here) / DIFFERENCE;
        values.values[at] = known;
    }
    Some((here, slopes))
}

/// Fits these parameters, sorted, to the observations.
pub(crate) fn fit(parameters: &[Parameter], observations: &[Observation]) -> Option<Fitted> {
    let quantities: Vec<Quantity> = observations.iter().map(|one| one.quantity).collect();
    let mut misfit: BTreeMap<Quantity, f64> = quantities.iter().map(|one| (*one, PRIOR_MISFIT.0)).collect();
    let mut logs: Vec<f64> = parameters.iter().map(|one| one.prior().median.ln()).collect();
    let mut covariance = Square::zero(logs.len());
    for _ in 0..ROUNDS {
        logs = settle(parameters, observations, &misfit, logs)?;
        let (normal, _, left) = system(parameters, observations, &misfit, &logs)?;
        covariance = normal.inverse()?;
        let next = misfits(observations, &misfit, &covariance, &left);
        let is_settled = next.iter().all(|(one, now)| (now / misfit[one]).ln().abs() < SETTLED);
        misfit = next;
        if is_settled {
            break;
        }
    }
    Some(Fitted { logs, covariance, misfit })
}

/// The logarithms at which this round's sum of squares is least.
fn settle(
    parameters: &[Parameter],
    observations: &[Observation],
    misfit: &BTreeMap<Quantity, f64>,
    mut logs: Vec<f64>,
) -> Option<Vec<f64>> {
    let mut damping = 1e-3;
    let mut cost = cost(parameters, observations, misfit, &logs)?;
    for _ in 0..STEPS {
        let (normal, downhill, _) = system(parameters, observations, misfit, &logs)?;
        let mut damped = normal.clone();
        (0..logs.len()).for_each(|k| damped.add(k, k, damping * normal.get(k, k)));
        let step = damped.solve(&downhill)?;
        let tried: Vec<f64> = logs.iter().zip(&step).map(|(log, step)| log + step.clamp(-2.0, 2.0)).collect();
        match self::cost(parameters, observations, misfit, &tried).filter(|tried| *tried <= cost) {
            Some(lower) => {
                let gained = cost - lower;
                (logs, cost) = (tried, lower);
                damping = (damping * 0.3).max(1e-9);
                let spans = (0..step.len()).map(|k| step[k].abs() * normal.get(k, k).sqrt());
                if spans.fold(0.0, f64::max) < SMALL_STEP || gained < 1e-6 * cost {
                    break;
                }
            }
            None => damping *= 10.0,
        }
        if damping > 1e9 {
            break;
        }
    }
    Some(logs)
}

/// The sum of squares that a round minimizes.
fn cost(
    parameters: &[Parameter],
    observations: &[Observation],
    misfit: &BTreeMap<Quantity, f64>,
    logs: &[f64],
) -> Option<f64> {
    let values = Asked::new(parameters, logs);
    let mut sum = 0.0;
    for one in observations {
        let residual = one.value.ln() - values.say(&one.case, one.quantity)?;
        sum += residual.powi(2) / (one.variance + misfit[&one.quantity]);
    }
    for (parameter, log) in parameters.iter().zip(logs) {
        let prior = parameter.prior();
        sum += ((log - prior.median.ln()) / prior.spread).powi(2);
    }
    sum.is_finite().then_some(sum)
}

/// The residual of an observation, and the slopes of what is said of it.
type Left = (f64, Vec<f64>);

/// The normal equations: the matrix, the right side, and what they leave of the observations.
fn system(
    parameters: &[Parameter],
    observations: &[Observation],
    misfit: &BTreeMap<Quantity, f64>,
    logs: &[f64],
) -> Option<(Square, Vec<f64>, Vec<Left>)> {
    let n = parameters.len();
    let (mut normal, mut downhill, mut left) = (Square::zero(n), vec![0.0; n], Vec::new());
    for one in observations {
        let (said, slopes) = slopes(parameters, logs, (&one.case, one.quantity))?;
        let weight = 1.0 / (one.variance + misfit[&one.quantity]);
        let residual = one.value.ln() - said;
        normal.add_outer(&slopes, weight);
        downhill.iter_mut().zip(&slopes).for_each(|(sum, slope)| *sum += weight * residual * slope);
        left.push((residual, slopes));
    }
    for (k, parameter) in parameters.iter().enumerate() {
        let prior = parameter.prior();
        normal.add(k, k, prior.spread.powi(-2));
        downhill[k] += (prior.median.ln() - logs[k]) / prior.spread.powi(2);
    }
    Some((normal, downhill, left))
}

/// What the fit left of each quantity, less what its replicates explain. The parameters took some of it: a
/// datum counts for as much as it did not decide itself (one less its leverage).
fn misfits(
    observations: &[Observation],
    misfit: &BTreeMap<Quantity, f64>,
    covariance: &Square,
    left: &[Left],
) -> BTreeMap<Quantity, f64> {
    let mut sums: BTreeMap<Quantity, (f64, f64)> = BTreeMap::new();
    for (one, (residual, slopes)) in observations.iter().zip(left) {
        let total = one.variance + misfit[&one.quantity];
        let free = (1.0 - covariance.quadratic(slopes) / total).clamp(0.0, 1.0);
        let (squares, count) = sums.entry(one.quantity).or_default();
        *squares += (residual.powi(2) - one.variance * free).max(0.0);
        *count += free;
    }
    let (prior, weight) = PRIOR_MISFIT;
    let of = |(squares, count): (f64, f64)| (squares + weight * prior) / (count + weight);
    sums.into_iter().map(|(quantity, sums)| (quantity, of(sums))).collect()
}
