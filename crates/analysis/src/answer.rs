//! The answer to "do these two samples differ?": they do, they are equal, or it is undecided, with what is
//! known all the same.

use super::contrast::Contrast;
pub use super::least::{MOST_MORE, More};
use super::stats::LEVEL;

/// An answer. One excludes the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer {
    /// They differ significantly.
    Differs,
    /// They do not differ significantly, and are equivalent within the tolerance.
    Equal,
    /// Neither.
    Undecided(Open),
}

/// What is known where nothing is decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Open {
    /// Between which shares of the second the difference lies, by the ratio's 95 % interval (-0.18 and 0.52);
    /// absent if that has no bounds.
    pub difference: Option<(f64, f64)>,
    /// About how many more replicates of both would decide.
    pub more: More,
}

impl Answer {
    /// The answer of a comparison, absent without a test, by its p-values after all corrections: of the two
    /// being the same, and of their not being equivalent.
    pub fn of(contrast: Option<&Contrast>, p: Option<f64>, equal: Option<f64>) -> Answer {
        if p.is_some_and(|p| p < LEVEL) {
            Answer::Differs
        } else if equal.is_some_and(|p| p < LEVEL) {
            Answer::Equal
        } else {
            Answer::Undecided(Open::of(contrast))
        }
    }
}

impl Open {
    /// What a comparison shows; absent without a test.
    pub fn of(contrast: Option<&Contrast>) -> Open {
        let ratio = contrast.and_then(|contrast| contrast.ratio);
        Open {
            difference: ratio.map(|ratio| (ratio.low - 1.0, ratio.high - 1.0)),
            more: contrast.map_or(More::Untested, Contrast::more),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contrast::{Sample, TestPlan};
    use crate::metric::Metric;
    use crate::stats::Method;
    use proptest::prelude::*;

    fn answer(plan: &TestPlan, a: &Sample, b: &Sample) -> Answer {
        let contrast = plan.contrast(a, b);
        Answer::of(contrast.as_ref(), contrast.map(|one| one.p), contrast.and_then(|one| one.equal))
    }

    fn sample(mean: f64, noise: &[f64]) -> Sample {
        (0..).zip(noise.iter().map(|one| mean + one)).collect()
    }

    #[test]
    fn a_difference_wins_little_noise_is_equal_and_much_is_undecided() {
        let noise = [[1.0, -1.0, 0.5, -0.5, 0.2], [-0.4, 0.6, -0.8, 0.3, 0.3]];
        let plan = TestPlan::of(Metric::Iops, Method::Paired, 1);
        let of = |mean: f64, by: f64| {
            let [a, b] = noise.map(|noise| noise.map(|one| one * by));
            answer(&plan, &sample(mean, &a), &sample(100.0, &b))
        };
        assert_eq!(of(110.0, 1.0), Answer::Differs);
        // A significant difference within the tolerance is a difference.
        assert_eq!(of(101.0, 0.1), Answer::Differs);
        assert_eq!(of(101.0, 1.0), Answer::Equal);
        let Answer::Undecided(Open { difference: Some((low, high)), more }) = of(104.5, 6.0) else {
            panic!()
        };
        // scipy.stats.ttest_rel(a, q * b).pvalue is 0.05 at q = 1 + low and q = 1 + high.
        assert!(
            (low + 0.04816959913544128).abs() < 1e-9 && (high - 0.1510143910999544).abs() < 1e-9,
            "{low} {high}"
        );
        assert_eq!(more, More::Replicates(19));
        let single = answer(&plan, &vec![(0, 1.0)], &vec![(0, 2.0)]);
        assert_eq!(single, Answer::Undecided(Open { difference: None, more: More::Untested }));
    }

    #[test]
    fn a_difference_of_what_is_never_negative_is_not_below_minus_100_per_cent() {
        let [a, b] = [[10.0, 300.0, 20.0], [400.0, 380.0, 390.0]].map(|values| sample(0.0, &values));
        let low = |metric| {
            let contrast = TestPlan::of(metric, Method::Paired, 1).contrast(&a, &b);
            Open::of(contrast.as_ref()).difference.unwrap().0
        };
        assert_eq!(low(Metric::Iops), -1.0);
        assert!(low(Metric::WattsAboveIdle) < -1.0);
    }

    proptest! {
        #[test]
        fn more_spread_never_makes_equal_what_was_undecided(
            mean in 90.0..110.0,
            noise in proptest::collection::vec((-4.0..4.0, -4.0..4.0), 2..9),
            spread in 1.0..20.0,
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = noise.into_iter().unzip();
            let about = |mean: f64, noise: &[f64], spread: f64, logs: bool| -> Sample {
                let own = noise.iter().sum::<f64>() / noise.len() as f64;
                let value = |one: &f64| if logs {
                    (mean.ln() + spread * (one - own) / 100.0).exp()
                } else {
                    mean + spread * (one - own)
                };
                (0..).zip(noise.iter().map(value)).collect()
            };
            for metric in [Metric::Iops, Metric::LatencyP99] {
                for method in [Method::Paired, Method::Welch, Method::Student] {
                    let plan = TestPlan::of(metric, method, 1);
                    let logs = plan.logs;
                    let of = |spread| {
                        answer(&plan, &about(mean, &a, spread, logs), &about(100.0, &b, spread, logs))
                    };
                    if matches!(of(1.0), Answer::Undecided(_)) {
                        prop_assert!(of(spread) != Answer::Equal, "{metric} {method:?}");
                    }
                }
            }
        }
    }
}
