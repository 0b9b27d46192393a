//! The least difference that a t-test would have seen: its power over the noncentral distribution.

use super::stats::upper_quantile;
use statrs::distribution::{ContinuousCDF, Normal};
use statrs::function::gamma::ln_gamma;

/// The probability with which a difference of the least size is seen.
pub const POWER: f64 = 0.8;
/// Steps of Simpson's rule, even.
const STEPS: usize = 500;

/// The shift of means, in standard errors of their difference, that a two-sided t-test at `level` sees with
/// probability [`POWER`]. `None` for degrees of freedom or a level that no test has.
pub fn least_shift(df: f64, level: f64) -> Option<f64> {
    let critical = upper_quantile(df, level / 2.0)?;
    let (mut low, mut high) = (0.0, critical + 10.0);
    // Far tails of few degrees of freedom need more.
    while power(df, critical, high)? < POWER {
        high *= 2.0;
    }
    for _ in 0..48 {
        let middle = f64::midpoint(low, high);
        if power(df, critical, middle)? < POWER { low = middle } else { high = middle }
    }
    Some(high)
}

/// The probability that |t| exceeds `critical` if the means differ by `shift` standard errors: the normal
/// distribution over that of the standard deviation's estimate.
fn power(df: f64, critical: f64, shift: f64) -> Option<f64> {
    let normal = Normal::new(0.0, 1.0).ok()?;
    // s is the estimate over the truth: s^2 df has the chi-squared distribution of df degrees of freedom.
    let scale = (df / 2.0) * (df / 2.0).ln() + 2f64.ln() - ln_gamma(df / 2.0);
    let density =
        |s: f64| if s > 0.0 { (scale + (df - 1.0) * s.ln() - df * s * s / 2.0).exp() } else { at_zero(df) };
    let seen = |s: f64| normal.cdf(shift - critical * s) + normal.cdf(-shift - critical * s);
    // Where the density or the probability is zero there is nothing to add.
    let until = (1.0 + 10.0 / df.sqrt()).max(3.0).min((shift + 9.0) / critical);
    let step = until / STEPS as f64;
    let weight = |at: usize| {
        if at == 0 || at == STEPS {
            1.0
        } else if at % 2 == 1 {
            4.0
        } else {
            2.0
        }
    };
    let sum: f64 =
        (0..=STEPS).map(|at| (at, at as f64 * step)).map(|(at, s)| weight(at) * density(s) * seen(s)).sum();
    Some(sum * step / 3.0).filter(|power| power.is_finite())
}

/// The density of the estimate at zero, which is positive for one degree of freedom only.
fn at_zero(df: f64) -> f64 {
    if df > 1.0 { 0.0 } else { (2.0 / std::f64::consts::PI).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64, tolerance: f64) {
        assert!((value / expected - 1.0).abs() <= tolerance, "{value} {expected}");
    }

    #[test]
    fn the_power_of_a_test_agrees_with_scipy() {
        // tc = t.ppf(1 - level / 2, df); scipy.stats.nct.sf(tc, df, shift) + scipy.stats.nct.cdf(-tc, df,
        // shift)
        for (df, level, shift, expected) in [
            (2.0, 0.05, 5.0, 0.7191805363914986),
            (9.0, 0.05, 3.0, 0.7611566204263244),
            (4.7, 0.01, 4.0, 0.5238372352521186),
            (1.0, 0.05, 9.0, 0.5198938606922644),
        ] {
            near(power(df, upper_quantile(df, level / 2.0).unwrap(), shift).unwrap(), expected, 1e-7);
        }
    }

    #[test]
    fn the_least_shift_agrees_with_scipy() {
        // scipy.optimize.brentq(lambda d: nct.sf(tc, df, d) + nct.cdf(-tc, df, d) - 0.8, 1, 12, xtol=1e-13)
        for (df, level, expected) in [
            (2.0, 0.05, 5.653489266197126),
            (4.0, 0.05, 3.7610595538250164),
            (9.0, 0.05, 3.1496328864506196),
            (4.0, 0.05 / 12.0, 7.398525991369535),
            (9.0, 0.05 / 12.0, 4.822950134252109),
        ] {
            near(least_shift(df, level).unwrap(), expected, 1e-7);
        }
        assert_eq!(least_shift(0.0, 0.05), None);
        assert!(least_shift(1.0, 1e-4).unwrap() > 1000.0);
    }
}
