//! The power of t-tests over the noncentral distribution: the least difference that one would have seen, and
//! how many more replicates would decide.

use super::stats::upper_quantile;
use statrs::distribution::{ContinuousCDF, Normal};
use statrs::function::gamma::ln_gamma;

/// The probability with which a difference of the least size is seen.
pub const POWER: f64 = 0.8;
/// The most replicates that are named as missing.
pub const MOST_MORE: u32 = 100;
/// Steps of Simpson's rule, even: for what has a corner, or does not begin flat.
const STEPS: usize = 500;
/// Steps for what is smooth, and flat at both ends: the rule is then far better than its order.
const STEPS_SMOOTH: usize = 128;
/// From these degrees of freedom on, the density of the estimate begins flat enough.
const FLAT: f64 = 8.0;

/// How many more replicates would decide between two samples, the fewest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum More {
    /// About this many of each.
    Replicates(u32),
    /// More than [`MOST_MORE`].
    Many,
    /// There is no test yet: each needs two at least.
    Untested,
}

/// What is known about two samples that more replicates would decide on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outlook {
    /// Replicates of the smaller.
    pub(super) replicates: usize,
    /// Degrees of freedom of the test.
    pub(super) df: f64,
    /// The level of each of the tests that share [`LEVEL`](super::stats::LEVEL).
    pub(super) level: f64,
    /// The difference in standard errors.
    pub(super) apart: f64,
    /// How far inside the bounds of equality it lies, in standard errors.
    pub(super) inside: Option<[f64; 2]>,
}

impl Outlook {
    /// The fewest replicates that decide with probability [`POWER`].
    pub(super) fn more(&self) -> More {
        fewest(self.guess(), |more| self.decides(more))
    }

    /// About how many, as if the standard error were known.
    fn guess(&self) -> f64 {
        let now = self.replicates as f64;
        let differs = known_error(now, self.level / 2.0, self.apart);
        let nearest = self.inside.map_or(0.0, |[low, high]| low.min(high));
        differs.min(known_error(now, self.level, nearest))
    }

    /// True if either test decides with this many more replicates: they shrink the standard error and add
    /// degrees of freedom in proportion.
    fn decides(&self, more: u32) -> bool {
        let now = self.replicates as f64;
        let then = now + f64::from(more);
        let (df, closer) = (self.df * (then - 1.0) / (now - 1.0), (then / now).sqrt());
        let differs = || {
            let critical = upper_quantile(df, self.level / 2.0)?;
            power(df, critical, self.apart * closer)
        };
        let equal = || {
            let (inside, critical) = self.inside.zip(upper_quantile(df, self.level))?;
            power_of_equality(df, critical, inside.map(|distance| distance * closer))
        };
        let is_enough = |power: Option<f64>| power.is_some_and(|power| power >= POWER);
        is_enough(differs()) || is_enough(equal())
    }
}

/// How many more replicates a one-sided test at this level needs, by the normal distribution, to see a mean
/// that lies this many standard errors of `now` replicates apart.
fn known_error(now: f64, level: f64, apart: f64) -> f64 {
    let normal = Normal::standard();
    let needed = normal.inverse_cdf(1.0 - level) + normal.inverse_cdf(POWER);
    if apart > 0.0 { now * ((needed / apart).powi(2) - 1.0) } else { f64::INFINITY }
}

/// The fewest that decide, where more of them never decide less: it is sought from a guess on, as each look
/// takes long.
fn fewest(guess: f64, decide: impl Fn(u32) -> bool) -> More {
    let guess = (guess.clamp(1.0, f64::from(MOST_MORE)) as u32).max(1);
    let (mut too_few, mut enough, mut step) = (0, MOST_MORE + 1, 1);
    if decide(guess) {
        enough = guess;
        while enough > 1 && step > 0 {
            let fewer = enough.saturating_sub(step).max(1);
            match decide(fewer) {
                true => (enough, step) = (fewer, step * 2),
                false => (too_few, step) = (fewer, 0),
            }
        }
    } else {
        too_few = guess;
        while too_few < MOST_MORE && step > 0 {
            let more = (too_few + step).min(MOST_MORE);
            match decide(more) {
                true => (enough, step) = (more, 0),
                false => (too_few, step) = (more, step * 2),
            }
        }
    }
    if enough > MOST_MORE {
        return More::Many;
    }
    while enough - too_few > 1 {
        let middle = u32::midpoint(too_few, enough);
        if decide(middle) { enough = middle } else { too_few = middle }
    }
    More::Replicates(enough)
}

/// How many more replicates in blocks would show, with probability [`POWER`] and by a one-sided t-test at
/// `level`, that a mean lies beyond a bound from which these have it this many standard errors.
pub(super) fn beyond_a_bound(replicates: usize, level: f64, apart: f64) -> More {
    let now = replicates as f64;
    let shows = |more: u32| {
        let then = now + f64::from(more);
        let critical = upper_quantile(then - 1.0, level);
        let seen = |critical| power_beyond(then - 1.0, critical, apart * (then / now).sqrt());
        critical.and_then(seen).is_some_and(|power| power >= POWER)
    };
    fewest(known_error(now, level, apart), shows)
}

/// The shift of means, in standard errors of their difference, that a two-sided t-test at `level` sees with
/// probability [`POWER`]. `None` for degrees of freedom or a level that no test has.
pub fn least_shift(df: f64, level: f64) -> Option<f64> {
    let critical = upper_quantile(df, level / 2.0)?;
    let lacking = |shift: f64| Some(power(df, critical, shift)? - POWER);
    let (mut low, mut high) = (0.0, critical + 10.0);
    let (mut below, mut above) = (lacking(low)?, lacking(high)?);
    // Far tails of few degrees of freedom need more.
    while above < 0.0 {
        (low, below) = (high, above);
        high *= 2.0;
        above = lacking(high)?;
    }
    // The secant between two shifts, of which the one that stays weighs half (the Illinois algorithm: Dowell
    // and Jarratt 1971): each look takes long.
    let mut stays = 0;
    for _ in 0..60 {
        let shift = (low * above - high * below) / (above - below);
        let now = lacking(shift)?;
        if now.abs() < 1e-12 || high - low < 1e-12 * high {
            return Some(shift);
        }
        if now < 0.0 {
            (low, below) = (shift, now);
            above /= if stays == 1 { 2.0 } else { 1.0 };
            stays = 1;
        } else {
            (high, above) = (shift, now);
            below /= if stays == 2 { 2.0 } else { 1.0 };
            stays = 2;
        }
    }
    Some(high)
}

/// The probability that |t| exceeds `critical` if the means differ by `shift` standard errors.
fn power(df: f64, critical: f64, shift: f64) -> Option<f64> {
    let normal = Normal::new(0.0, 1.0).ok()?;
    let seen = |s: f64| normal.cdf(shift - critical * s) + normal.cdf(-shift - critical * s);
    over_estimates(df, (shift + 9.0) / critical, steps(df), seen)
}

/// The probability that t exceeds a positive `critical` if the mean is this many standard errors beyond the
/// bound.
fn power_beyond(df: f64, critical: f64, shift: f64) -> Option<f64> {
    let normal = Normal::new(0.0, 1.0).ok()?;
    over_estimates(df, (shift + 9.0) / critical, steps(df), |s: f64| normal.cdf(shift - critical * s))
}

/// The probability that both one-sided tests exceed `critical` if the mean is this many standard errors
/// inside the bounds (Phillips 1990).
fn power_of_equality(df: f64, critical: f64, [low, high]: [f64; 2]) -> Option<f64> {
    let least = low.min(high);
    if least <= 0.0 {
        return Some(0.0);
    }
    let normal = Normal::new(0.0, 1.0).ok()?;
    let seen = |s: f64| (normal.cdf(low - critical * s) + normal.cdf(high - critical * s) - 1.0).max(0.0);
    over_estimates(df, (least + 9.0) / critical, STEPS, seen)
}

fn steps(df: f64) -> usize {
    if df < FLAT { STEPS } else { STEPS_SMOOTH }
}

/// The mean of a probability, which is zero beyond `last`, over the distribution of the standard deviation's
/// estimate, in units of the deviation itself.
fn over_estimates(df: f64, last: f64, steps: usize, seen: impl Fn(f64) -> f64) -> Option<f64> {
    // s is the estimate over the truth: s^2 df has the chi-squared distribution of df degrees of freedom.
    let scale = (df / 2.0) * (df / 2.0).ln() + 2f64.ln() - ln_gamma(df / 2.0);
    let density =
        |s: f64| if s > 0.0 { (scale + (df - 1.0) * s.ln() - df * s * s / 2.0).exp() } else { at_zero(df) };
    // Where the density or the probability is zero there is nothing to add.
    let wide = 10.0 / df.sqrt();
    let (from, until) =
        if df < FLAT { (0.0, (1.0 + wide).max(3.0)) } else { ((1.0 - wide).max(0.0), 1.0 + wide) };
    let until = until.min(last).max(from);
    let step = (until - from) / steps as f64;
    let weight = |at: usize| {
        if at == 0 || at == steps {
            1.0
        } else if at % 2 == 1 {
            4.0
        } else {
            2.0
        }
    };
    let sum: f64 = (0..=steps)
        .map(|at| (at, from + at as f64 * step))
        .map(|(at, s)| weight(at) * density(s) * seen(s))
        .sum();
    Some(sum * step / 3.0).filter(|power| power.is_finite())
}

/// The density of the estimate at zero, which is positive for one degree of freedom only.
fn at_zero(df: f64) -> f64 {
    if df > 1.0 { 0.0 } else { (2.0 / std::f64::consts::PI).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Halving all of them took eight looks of 0.1 ms for each cell of a page.
    #[test]
    fn the_fewest_are_found_from_any_guess() {
        for least in 1..=MOST_MORE + 1 {
            for guess in [f64::NEG_INFINITY, 0.0, 1.0, 17.5, 99.0, 1e9, f64::INFINITY, f64::NAN] {
                let looks = std::cell::Cell::new(0);
                let found = fewest(guess, |more| {
                    looks.set(looks.get() + 1);
                    assert!((1..=MOST_MORE).contains(&more));
                    more >= least
                });
                let expected = if least > MOST_MORE { More::Many } else { More::Replicates(least) };
                assert_eq!(found, expected, "{guess}");
                assert!(looks.get() <= 14, "{} from {guess} to {least}", looks.get());
            }
        }
    }

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

    /// A page integrates for each of its cells.
    #[test]
    fn few_steps_are_as_good_as_many_where_they_are_taken() {
        let normal = Normal::standard();
        for df in [8.0, 9.5, 14.0, 40.0, 400.0, 5000.0] {
            for (level, shift) in [(0.05, 0.3), (0.05, 2.8), (0.001, 4.5), (0.2, 1.5), (0.05, 9.0)] {
                let critical = upper_quantile(df, level).unwrap();
                let many = over_estimates(df, (shift + 9.0) / critical, 20_000, |s| {
                    normal.cdf(shift - critical * s)
                });
                let few = power_beyond(df, critical, shift).unwrap();
                assert!((few - many.unwrap()).abs() < 1e-7, "{df} {level} {shift}: {few} {many:?}");
            }
        }
    }

    #[test]
    fn the_power_beyond_a_bound_agrees_with_scipy_and_says_how_many_more_show_it() {
        // scipy.stats.nct.sf(scipy.stats.t.isf(level, df), df, shift)
        for (df, level, shift, expected) in [
            (9.0, 0.05, 3.0, 0.8684544363944794),
            (3.0, 0.05, 2.4, 0.577626269390429),
            (15.0, 0.0125, 3.1, 0.7241291620097987),
            (1.0, 0.05, 9.0, 0.8408423332885526),
        ] {
            near(power_beyond(df, upper_quantile(df, level).unwrap(), shift).unwrap(), expected, 1e-7);
        }
        assert_eq!(beyond_a_bound(4, 0.05, 1.50468601823497), More::Replicates(9));
        assert_eq!(beyond_a_bound(4, 0.05 / 3.0, 1.50468601823497), More::Replicates(14));
        assert_eq!(beyond_a_bound(4, 0.05, 0.4363891589066214), More::Many);
    }

    #[test]
    fn the_power_of_two_one_sided_tests_agrees_with_scipy() {
        // c = t.isf(level, df); scipy.integrate.quad(lambda s: max(0, norm.cdf(low - c * s) + norm.cdf(high -
        // c
        // * s) - 1) * chi.pdf(s * df**0.5, df) * df**0.5, 0, (low + high) / 2 / c, epsrel=1e-12)
        for (df, level, inside, expected) in [
            (9.0, 0.05, [3.5, 4.5], 0.9360494942238512),
            (4.0, 0.05, [6.0, 6.0], 0.9981741025489358),
            (20.5, 0.01, [3.2, 5.0], 0.7354308532097664),
            (2.0, 0.05, [9.0, 7.0], 0.9911572109146554),
        ] {
            let critical = upper_quantile(df, level).unwrap();
            near(power_of_equality(df, critical, inside).unwrap(), expected, 1e-5);
        }
        assert_eq!(power_of_equality(9.0, 1.8, [12.0, -0.1]), Some(0.0));
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
