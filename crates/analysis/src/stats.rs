//! Statistics of small samples: summaries, t-tests, ratios, equivalence, and Holm's correction.
//!
//! `docs/statistics.md` describes the methods and names their sources. No function returns NaN: undefined
//! results are `None`.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Level of all tests and, as 1 - `LEVEL`, of all intervals.
pub const LEVEL: f64 = 0.05;

/// A p-value with this many decimals, or with as many as it takes to be on the same side of [`LEVEL`] as the
/// value itself; `<0.001` for one that all these decimals would call 0.
pub fn p_text(p: f64, decimals: usize) -> String {
    let least = 10f64.powi(-(decimals as i32));
    if p < least && p < LEVEL {
        return format!("<{least:.decimals$}");
    }
    let is_sided = |text: &String| text.parse::<f64>().is_ok_and(|shown| (shown < LEVEL) == (p < LEVEL));
    let mut texts = (decimals..=MOST_DECIMALS).map(|decimals| format!("{p:.decimals$}"));
    texts.find(is_sided).unwrap_or_else(|| p.to_string())
}

/// Decimals that distinguish a value from [`LEVEL`] well enough to be read.
const MOST_DECIMALS: usize = 9;

/// The same as a statement: `p = 0.01`, `p < 0.01`.
pub fn p_statement(p: f64) -> String {
    let text = p_text(p, 2);
    text.strip_prefix('<').map_or_else(|| format!("p = {text}"), |least| format!("p < {least}"))
}

/// The test that compares two samples. All are two-sided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Two independent samples of equal variance: the papers' rule.
    Student,
    /// Two independent samples of unequal variances.
    Welch,
    /// Differences within blocks: the samples are of equal length and in the order of their blocks.
    Paired,
}

/// A sample in numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Values.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation with n - 1; 0 for one value.
    pub stddev: f64,
    /// 95 % interval of the mean by Student's t; absent for one value.
    pub interval: Option<(f64, f64)>,
    /// Median.
    pub median: f64,
}

/// The result of a t-test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TTest {
    /// Test statistic; infinite if the samples differ and do not vary.
    pub t: f64,
    /// Degrees of freedom.
    pub df: f64,
    /// Standard error of the difference.
    pub standard_error: f64,
    /// Two-sided p-value.
    pub p: f64,
}

/// A ratio of two means with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Ratio {
    /// Mean over mean.
    pub ratio: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

impl Ratio {
    /// With an interval of `half` to either side of `middle`; `None` if that has no bounds.
    fn within(ratio: f64, middle: f64, half: f64) -> Option<Ratio> {
        let (low, high) = (middle - half, middle + half);
        (low.is_finite() && high.is_finite()).then_some(Ratio { ratio, low, high })
    }
}

/// Mean, spread, interval and median; `None` if `values` is empty or one of them, or the result, is not
/// finite.
pub fn summarize(values: &[f64]) -> Option<Summary> {
    let Moments { n, mean, variance } = Moments::of(values)?;
    let stddev = variance.sqrt();
    let interval = (n > 1).then(|| {
        let half = quantile((n - 1) as f64) * stddev / (n as f64).sqrt();
        (mean - half, mean + half)
    });
    let bounds_are_finite = interval.is_none_or(|(low, high)| low.is_finite() && high.is_finite());
    bounds_are_finite.then_some(Summary { n, mean, stddev, interval, median: median(values)? })
}

/// The middle value, or the mean of the two; `None` if `values` is empty or one of them is not finite.
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]))
}

/// Two-sided t-test of equal means (Student 1908, Welch 1947). `None` if a sample has fewer than two values
/// or one that is not finite, or, for [`Method::Paired`], if the lengths differ.
pub fn t_test(method: Method, a: &[f64], b: &[f64]) -> Option<TTest> {
    if method == Method::Paired {
        if a.len() != b.len() {
            return None;
        }
        let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
        let Moments { n, mean, variance } = Moments::of(&differences).filter(|moments| moments.n > 1)?;
        // Differences of large numbers carry the rounding of those: only what exceeds it is a difference.
        let scale = a.iter().chain(b).fold(0.0, |greatest: f64, value| greatest.max(value.abs()));
        return Some(tested(mean, (variance / n as f64).sqrt(), (n - 1) as f64, scale));
    }
    let (a, b) = (Moments::of(a).filter(|a| a.n > 1)?, Moments::of(b).filter(|b| b.n > 1)?);
    let scale = a.mean.abs().max(b.mean.abs());
    let pooled_df = (a.n + b.n - 2) as f64;
    let (error, df) = if method == Method::Student {
        let pooled = ((a.n - 1) as f64 * a.variance + (b.n - 1) as f64 * b.variance) / pooled_df;
        ((pooled * (1.0 / a.n as f64 + 1.0 / b.n as f64)).sqrt(), pooled_df)
    } else {
        (a.of_mean(1.0).hypot(b.of_mean(1.0)), satterthwaite(&a, &b, 1.0))
    };
    Some(tested(a.mean - b.mean, error, df, scale))
}

/// The mean of `a` over that of `b` with the 95 % interval of Fieller (1954), with unequal variances and the
/// degrees of freedom after Satterthwaite (1946) at the ratio itself. `None` if a sample has fewer than two
/// values or one that is not finite, or if the mean of `b` does not differ from zero: the interval is then
/// unbounded.
pub fn ratio_of_means(a: &[f64], b: &[f64]) -> Option<Ratio> {
    let (a, b) = (Moments::of(a).filter(|a| a.n > 1)?, Moments::of(b).filter(|b| b.n > 1)?);
    let ratio = a.mean / b.mean;
    if !ratio.is_finite() {
        return None;
    }
    let critical = quantile(satterthwaite(&a, &b, ratio));
    // Bounds are the roots q of (a - q b)^2 = sa^2 + q^2 vb, in units of the mean of b.
    let (sa, vb) = (critical * a.of_mean(1.0) / b.mean, (critical * b.of_mean(1.0) / b.mean).powi(2));
    if vb.is_nan() || vb >= 1.0 {
        return None;
    }
    // A sum of squares, but the squares of tiny ones would vanish.
    let half = (sa * (1.0 - vb).sqrt()).hypot(ratio * vb.sqrt()) / (1.0 - vb);
    Ratio::within(ratio, ratio / (1.0 - vb), half)
}

/// The mean of `a` over that of `b` with the 95 % interval of Fieller (1954), for samples of equal length in
/// the order of their blocks: common variation cancels. It contains the ratios q at which [`Method::Paired`]
/// does not distinguish `a` from q times `b`. `None` as for [`ratio_of_means`], and if the lengths differ.
pub fn ratio_of_paired_means(a: &[f64], b: &[f64]) -> Option<Ratio> {
    let (first, second) = (Moments::of(a).filter(|a| a.n > 1)?, Moments::of(b)?);
    let ratio = first.mean / second.mean;
    if first.n != second.n || !ratio.is_finite() {
        return None;
    }
    // The part of `a` that is not in proportion to `b`: unlike the whole variances, it does not cancel.
    let rest: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - ratio * b).collect();
    let n = first.n as f64;
    let covariance = rest.iter().zip(b).map(|(rest, b)| rest * (b - second.mean)).sum::<f64>() / (n - 1.0);
    // Bounds are the roots q of (a - q b)^2 = t^2 (v - 2 (q - ratio) c + (q - ratio)^2 vb), in units of the
    // mean of b.
    let unit = quantile(n - 1.0).powi(2) / n / second.mean.powi(2);
    let [v, c, vb] = [Moments::of(&rest)?.variance, covariance, second.variance].map(|one| one * unit);
    if vb.is_nan() || vb >= 1.0 {
        return None;
    }
    let half = (v * (1.0 - vb)).sqrt().hypot(c) / (1.0 - vb);
    Ratio::within(ratio, ratio - c / (1.0 - vb), half)
}

/// The mean of at least one value.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Holm's correction over the comparisons that were tested; the others stay without a p-value.
pub fn holm_over_tested(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut corrected = holm(&p.iter().copied().flatten().collect::<Vec<f64>>()).into_iter();
    p.iter().map(|p| p.and_then(|_| corrected.next())).collect()
}

/// Holm's (1979) step-down correction: adjusted p-values in the order of `p`.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        least = least.max((p[index] * (p.len() - rank) as f64).min(1.0));
        adjusted[index] = least;
    }
    adjusted
}

/// The p-value of a test that could have been made at any of this many looks (Bonferroni): whichever look
/// ended the study, and why, a true null hypothesis is rejected with at most the level's probability.
pub fn over(looks: u32, p: f64) -> f64 {
    (p * f64::from(looks)).min(1.0)
}

/// Two one-sided tests: whether a mean lies between two bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Within {
    /// The greater of the two p-values; the mean is shown to lie between the bounds if this is below
    /// [`LEVEL`].
    pub p: f64,
    /// How far inside the lower and the upper bound it lies, each in standard errors.
    pub inside: [f64; 2],
}

/// Two one-sided tests (Schuirmann 1987) of the mean of `a` lying above that of `low` and below that of
/// `high`, each by `method`. Where nothing varies the means themselves decide, the bounds included. `None` if
/// one of the tests is.
pub fn within(method: Method, a: &[f64], low: &[f64], high: &[f64]) -> Option<Within> {
    let ((above, from_low), (below, from_high)) =
        (beyond(method, a, low, 1.0)?, beyond(method, a, high, -1.0)?);
    Some(Within { p: above.max(below), inside: [from_low, from_high] })
}

/// The one-sided test of the mean of `a` lying above that of `bound` (`direction` 1) or below it (-1): its
/// p-value, and how far beyond the bound it lies, in standard errors. Where nothing varies the means decide,
/// the bound included. `None` as for [`t_test`].
pub(super) fn beyond(method: Method, a: &[f64], bound: &[f64], direction: f64) -> Option<(f64, f64)> {
    let TTest { t, p, standard_error, .. } = t_test(method, a, bound)?;
    let scale = a.iter().chain(bound).fold(0.0, |greatest: f64, value| greatest.max(value.abs()));
    if t == 0.0 && standard_error <= rounding(scale) {
        return Some((0.0, f64::INFINITY));
    }
    Some((if t * direction > 0.0 { p / 2.0 } else { 1.0 - p / 2.0 }, t * direction))
}

/// The p-value of the mean of `a` lying within `tolerance`, relative to the mean of `b`. Each of the two
/// one-sided tests is of `a` against `b` scaled by 1 - `tolerance` or 1 + `tolerance`, so the bounds carry
/// the uncertainty of `b`. `None` as for [`within`], and if the mean of `b` or `tolerance` is negative.
pub fn equivalent(method: Method, a: &[f64], b: &[f64], tolerance: f64) -> Option<f64> {
    if Moments::of(b)?.mean < 0.0 || !tolerance.is_finite() || tolerance < 0.0 {
        return None;
    }
    let bound = |factor: f64| b.iter().map(|b| factor * b).collect::<Vec<f64>>();
    within(method, a, &bound(1.0 - tolerance), &bound(1.0 + tolerance)).map(|within| within.p)
}

/// Slope of a straight line by weighted least squares, and the two-sided p-value of its being zero. `points`
/// are x, y and weight. `None` for fewer than three points, for equal x, and for values that are not finite.
pub fn slope(points: &[(f64, f64, f64)]) -> Option<(f64, f64)> {
    if points.len() < 3 {
        return None;
    }
    let sum =
        |of: &dyn Fn(&(f64, f64, f64)) -> f64| points.iter().map(|point| point.2 * of(point)).sum::<f64>();
    let weight = sum(&|_| 1.0);
    let (x_mean, y_mean) = (sum(&|p| p.0) / weight, sum(&|p| p.1) / weight);
    let xx = sum(&|p| (p.0 - x_mean).powi(2));
    let slope = sum(&|p| (p.0 - x_mean) * (p.1 - y_mean)) / xx;
    let residual = sum(&|p| (p.1 - y_mean - slope * (p.0 - x_mean)).powi(2));
    let df = (points.len() - 2) as f64;
    let error = (residual / df / xx).sqrt();
    if !slope.is_finite() || !error.is_finite() {
        return None;
    }
    let width = (xx / weight).sqrt();
    Some((slope, tested(slope, error, df, y_mean.abs() / width).p))
}

/// Size, mean and variance of a sample.
struct Moments {
    n: usize,
    mean: f64,
    variance: f64,
}

impl Moments {
    fn of(values: &[f64]) -> Option<Moments> {
        let first = *values.first()?;
        let n = values.len();
        // Equal values are distinguished from nearly equal ones here, before a sum rounds.
        if values.iter().all(|value| *value == first) {
            return first.is_finite().then_some(Moments { n, mean: first, variance: 0.0 });
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
        (mean.is_finite() && variance.is_finite()).then_some(Moments { n, mean, variance })
    }

    /// Standard error of the mean times `factor`.
    fn of_mean(&self, factor: f64) -> f64 {
        factor.abs() * (self.variance / self.n as f64).sqrt()
    }
}

/// Degrees of freedom of `a - factor b` with unequal variances.
fn satterthwaite(a: &Moments, b: &Moments, factor: f64) -> f64 {
    let (va, vb) = (a.of_mean(1.0).powi(2), b.of_mean(factor).powi(2));
    // Shares rather than variances: the squares of tiny ones would vanish.
    let share = va / (va + vb);
    let df = 1.0 / (share.powi(2) / (a.n - 1) as f64 + (1.0 - share).powi(2) / (b.n - 1) as f64);
    if df.is_finite() { df } else { (a.n + b.n - 2) as f64 }
}

/// The greatest difference that rounding alone can make between values of size `scale`.
fn rounding(scale: f64) -> f64 {
    4.0 * f64::EPSILON * scale
}

/// The test of a difference with its standard error, between figures of size `scale`.
pub(super) fn tested(difference: f64, standard_error: f64, df: f64, scale: f64) -> TTest {
    if standard_error > rounding(scale) {
        let t = difference / standard_error;
        TTest { t, df, p: (2.0 * tail(-t.abs(), df)).min(1.0), standard_error }
    } else if difference.abs() <= rounding(scale) {
        TTest { t: 0.0, df, p: 1.0, standard_error }
    } else {
        TTest { t: f64::INFINITY.copysign(difference), df, p: 0.0, standard_error }
    }
}

/// Probability of Student's t at or below `t`. `df` is positive.
fn tail(t: f64, df: f64) -> f64 {
    student(df).map_or(1.0, |student| student.cdf(t))
}

/// The two-sided 95 % quantile of Student's t. `df` is positive.
pub(super) fn quantile(df: f64) -> f64 {
    upper_quantile(df, LEVEL / 2.0).unwrap_or(f64::INFINITY)
}

/// The value that Student's t exceeds with this probability; `None` without degrees of freedom.
pub(super) fn upper_quantile(df: f64, probability: f64) -> Option<f64> {
    if df >= MANY {
        return Some(of_many(df, Normal::standard().inverse_cdf(1.0 - probability)));
    }
    student(df).map(|student| student.inverse_cdf(1.0 - probability))
}

/// Degrees of freedom from which on the quantile is expanded around the normal distribution's: statrs 0.18
/// loses digits from 38,000 on and does not return from 15 million on.
const MANY: f64 = 1e4;

/// Student's quantile by the normal distribution's (Abramowitz and Stegun, 26.7.5; the rest is of the order
/// of `df` to the power of -3).
fn of_many(df: f64, normal: f64) -> f64 {
    let first = (normal.powi(3) + normal) / 4.0;
    let second = (5.0 * normal.powi(5) + 16.0 * normal.powi(3) + 3.0 * normal) / 96.0;
    normal + first / df + second / df / df
}

fn student(df: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, df).ok()
}

#[cfg(test)]
mod tests;
