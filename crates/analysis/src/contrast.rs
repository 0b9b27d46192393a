//! Comparison of two samples: the test, the size of the effect, whether they are equivalent, the least effect
//! that could have been seen, and how many more replicates would decide.

use super::exact::{least_blocks, sign_flips};
use super::least::{More, Outlook, least_shift};
use super::metric::Metric;
use super::stats::{
    LEVEL, Method, Ratio, TTest, Within, mean, over, quantile, ratio_of_means, ratio_of_paired_means, t_test,
    within,
};
use iopj_record::StudyRecord;
use serde::Serialize;
use std::collections::HashMap;

/// The replicates of a cell: their numbers and values.
pub type Sample = Vec<(u32, f64)>;

/// The share of the second within which two samples are equal, unless the study says another.
pub const TOLERANCE: f64 = 0.05;

/// The share within which two paths of a study are equal: its own `until`, or [`TOLERANCE`].
pub fn tolerance_of(study: &StudyRecord) -> f64 {
    study.sequential.map_or(TOLERANCE, |sequential| sequential.until)
}

/// True if the study's replicates are blocks, each with every cell once; those of an import are not.
pub fn in_blocks(study: &StudyRecord) -> bool {
    !study.provenance.contains_key("imported_from")
}

/// How two samples are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestPlan {
    /// The test.
    pub method: Method,
    /// True for percentiles: their logarithms are compared, and the effect is a ratio of geometric means.
    pub logs: bool,
    /// The number of comparisons that Holm's correction covers, including this one.
    pub family: usize,
    /// The number of looks that decided how many replicates there are: p-values are multiplied by it.
    pub looks: u32,
    /// The share of the second within which the two are equal.
    pub tolerance: f64,
    /// True if values may be negative; if not, neither is a ratio.
    pub signed: bool,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Contrast {
    /// Blocks that have both, or replicates of the smaller sample.
    pub replicates: usize,
    /// The first is more (1), less (-1), or neither (0).
    #[serde(skip)]
    pub sign: f64,
    /// Two-sided p-value for all looks, not corrected for the family.
    pub p: f64,
    /// The first over the second with its 95 % interval; absent if that has no bounds.
    pub ratio: Option<Ratio>,
    /// p-value of the two being equal within the plan's tolerance, by two one-sided tests, for all looks, not
    /// corrected for the family; absent if the second is negative.
    #[serde(skip)]
    pub equal: Option<f64>,
    /// The data from which the least difference follows.
    #[serde(skip)]
    sight: Sensitivity,
}

/// A test's power to see a difference.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sensitivity {
    df: f64,
    level: f64,
    standard_error: f64,
    /// The mean of the second; absent for logarithms.
    second: Option<f64>,
    outlook: Outlook,
}

impl Contrast {
    /// The least difference, as a share of the second, that would have been seen four times out of five at 5
    /// % over the family.
    pub fn least(&self) -> Option<f64> {
        let Sensitivity { df, level, standard_error, second, .. } = self.sight;
        let shift = least_shift(df, level)? * standard_error;
        let least = second.map_or_else(|| shift.exp_m1(), |second| shift / second.abs());
        Some(least).filter(|least| least.is_finite())
    }

    /// How many more replicates of both would decide whether they differ or are equal, four times out of
    /// five, if difference and spread are those observed.
    pub fn more(&self) -> More {
        self.sight.outlook.more()
    }
}

impl TestPlan {
    /// The plan for a metric.
    pub fn of(metric: Metric, method: Method, family: usize) -> TestPlan {
        let (logs, signed) = (metric.is_percentile(), metric.may_be_negative());
        TestPlan { method, logs, family, looks: 1, tolerance: TOLERANCE, signed }
    }

    /// The test of `a` against `b` alone: its p-value for all looks, and whether the first is more (1), less
    /// (-1), or neither (0). `None` if there are too few replicates.
    pub fn test(&self, a: &Sample, b: &Sample) -> Option<(f64, f64)> {
        let (a, b) = self.values(a, b);
        let (x, y) = (self.scaled(&a), self.scaled(&b));
        Some(self.judged(&x, &y, &t_test(self.method, &x, &y)?))
    }

    fn judged(&self, x: &[f64], y: &[f64], test: &TTest) -> (f64, f64) {
        let p = over(self.looks, self.permuted(x, y).unwrap_or(test.p));
        (p, if test.t == 0.0 { 0.0 } else { test.t.signum() })
    }

    /// Compares `a` with `b`; `None` if there are too few replicates for a test.
    pub fn contrast(&self, a: &Sample, b: &Sample) -> Option<Contrast> {
        let (a, b) = self.values(a, b);
        let (x, y) = (self.scaled(&a), self.scaled(&b));
        let test = t_test(self.method, &x, &y)?;
        let (p, sign) = self.judged(&x, &y, &test);
        let standard_error = Some(test.standard_error).filter(|error| error.is_finite())?;
        let (replicates, level) = (a.len().min(b.len()), LEVEL / self.tests() as f64);
        let equality = self.equality(&x, &y);
        let inside = equality.map(|within| within.inside);
        Some(Contrast {
            replicates,
            sign,
            p,
            ratio: if self.logs {
                ratio_of_logs(&x, &y, &test, quantile(test.df))
            } else {
                self.ratio(&a, &b)
            },
            equal: equality.map(|within| over(self.looks, within.p)),
            sight: Sensitivity {
                df: test.df,
                level,
                standard_error,
                second: (!self.logs).then(|| mean(&b)),
                outlook: Outlook { replicates, df: test.df, level, apart: test.t.abs(), inside },
            },
        })
    }

    /// The two one-sided tests of `x` against `y` less and more the tolerance.
    fn equality(&self, x: &[f64], y: &[f64]) -> Option<Within> {
        let bound = |factor: f64| -> Vec<f64> {
            y.iter().map(|y| if self.logs { y + factor.ln() } else { factor * y }).collect()
        };
        let is_share = self.logs || mean(y) >= 0.0;
        is_share
            .then(|| within(self.method, x, &bound(1.0 - self.tolerance), &bound(1.0 + self.tolerance)))
            .flatten()
    }

    fn scaled(&self, values: &[f64]) -> Vec<f64> {
        values.iter().map(|value| if self.logs { value.ln() } else { *value }).collect()
    }

    /// The tests that share the level.
    fn tests(&self) -> usize {
        self.family.max(1) * self.looks.max(1) as usize
    }

    /// The values that the test compares: by blocks, those of the blocks that have both, in the same order.
    pub fn values(&self, a: &Sample, b: &Sample) -> (Vec<f64>, Vec<f64>) {
        if self.method == Method::Paired {
            return pairs(a, b).into_iter().unzip();
        }
        let values = |sample: &Sample| sample.iter().map(|(_, value)| *value).collect();
        (values(a), values(b))
    }

    /// The p-value by flipped signs, for percentiles in enough blocks that it can reach the level after
    /// Holm's correction.
    fn permuted(&self, x: &[f64], y: &[f64]) -> Option<f64> {
        let can_reach = x.len() as f64 >= least_blocks(self.tests(), LEVEL);
        let differences = || x.iter().zip(y).map(|(x, y)| x - y).collect::<Vec<f64>>();
        (self.logs && self.method == Method::Paired && can_reach)
            .then(|| sign_flips(&differences()))
            .flatten()
    }

    fn ratio(&self, a: &[f64], b: &[f64]) -> Option<Ratio> {
        let ratio =
            if self.method == Method::Paired { ratio_of_paired_means(a, b) } else { ratio_of_means(a, b) };
        let least = if self.signed { f64::NEG_INFINITY } else { 0.0 };
        ratio.map(|ratio| Ratio { low: ratio.low.max(least), ..ratio })
    }
}

/// The blocks that all samples have, with the values of each; empty without samples.
pub fn joined(samples: &[Sample]) -> Vec<(u32, Vec<f64>)> {
    let by_block: Vec<HashMap<u32, f64>> = samples.iter().map(by_block).collect();
    let all = |block: u32| by_block.iter().map(|sample| sample.get(&block).copied()).collect::<Option<_>>();
    let first = samples.first().into_iter().flatten();
    first.filter_map(|(block, _)| all(*block).map(|values| (*block, values))).collect()
}

/// The values of the blocks that have both.
pub fn pairs(a: &Sample, b: &Sample) -> Vec<(f64, f64)> {
    let b = by_block(b);
    a.iter().filter_map(|(block, a)| b.get(block).map(|b| (*a, *b))).collect()
}

/// The first value of each block.
fn by_block(sample: &Sample) -> HashMap<u32, f64> {
    sample.iter().rev().copied().collect()
}

/// The ratio of geometric means with the interval of the difference of logarithms: so many standard errors to
/// either side.
pub(super) fn ratio_of_logs(x: &[f64], y: &[f64], test: &TTest, critical: f64) -> Option<Ratio> {
    let (difference, half) = (mean(x) - mean(y), critical * test.standard_error);
    let [ratio, low, high] = [difference, difference - half, difference + half].map(f64::exp);
    Some(Ratio { ratio, low, high }).filter(|ratio| ratio.low > 0.0 && ratio.high.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [f64; 5] = [101.0, 140.0, 95.0, 123.0, 160.0];
    const B: [f64; 5] = [90.0, 131.0, 93.0, 110.0, 149.0];

    fn sample(values: &[f64]) -> Sample {
        (0..).zip(values.iter().copied()).collect()
    }

    /// Each block was looked for among all of the other sample: of a million trials, days.
    #[test]
    fn many_blocks_are_paired_without_comparing_each_with_each() {
        let many: Sample = (0..500_000).map(|block| (block, f64::from(block))).collect();
        let half: Sample = many.iter().rev().filter(|(block, _)| block % 2 == 0).copied().collect();
        assert_eq!(pairs(&many, &half).len(), 250_000);
        let (last, values) = joined(&[half, many]).into_iter().next().unwrap();
        assert_eq!((last, values), (499_998, vec![499_998.0; 2]));
        // Of a block that is there twice, the first counts.
        assert_eq!(pairs(&vec![(1, 5.0)], &vec![(1, 6.0), (1, 7.0)]), [(5.0, 6.0)]);
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() <= 1e-9 * expected.abs(), "{value} {expected}");
    }

    #[test]
    fn percentiles_in_blocks_agree_with_scipy() {
        // r = scipy.stats.ttest_rel(np.log(a), np.log(b)); r.pvalue; np.exp(r.confidence_interval())
        let plan = TestPlan::of(Metric::LatencyP99, Method::Paired, 1);
        let contrast = plan.contrast(&sample(&A), &sample(&B)).unwrap();
        near(contrast.p, 0.010938245814862345);
        let Ratio { ratio, low, high } = contrast.ratio.unwrap();
        near(ratio, 1.0802505107607439);
        near(low, 1.0298555963270986);
        near(high, 1.1331114480133473);
        assert_eq!((contrast.sign, contrast.replicates), (1.0, 5));
        // r = scipy.stats.ttest_ind(np.log(a), np.log(b), equal_var=False)
        let contrast = TestPlan { method: Method::Welch, ..plan }.contrast(&sample(&A), &sample(&B)).unwrap();
        near(contrast.p, 0.590490656867639);
        near(contrast.ratio.unwrap().low, 0.7863139067235031);
        near(contrast.ratio.unwrap().high, 1.4840652772648846);
    }

    #[test]
    fn percentiles_are_permuted_only_where_flips_can_reach_the_level() {
        let differences = [0.031, -0.004, 0.022, 0.015, 0.040, 0.008, -0.011, 0.027];
        let a: Vec<f64> = differences.iter().map(|one| 100.0 * f64::exp(*one)).collect();
        let (a, b) = (sample(&a), sample(&[100.0; 8]));
        let p = |metric, family| TestPlan::of(metric, Method::Paired, family).contrast(&a, &b).unwrap().p;
        // 1 + log2(6 / 0.05) is 7.9, of 7 comparisons it is 8.1.
        near(p(Metric::LatencyP99, 6), 0.0546875);
        let by_t = p(Metric::LatencyP99, 7);
        assert!((by_t - 0.0546875).abs() > 1e-3, "{by_t}");
        assert_ne!(p(Metric::LatencyMean, 1), 0.0546875, "a mean is no percentile");
    }

    #[test]
    fn what_could_have_been_seen_shrinks_with_replicates_and_grows_with_the_family() {
        let least = |values: &[f64], family| {
            let zero = sample(&vec![100.0; values.len()]);
            TestPlan::of(Metric::Iops, Method::Paired, family)
                .contrast(&sample(values), &zero)
                .unwrap()
                .least()
                .unwrap()
        };
        let five = [101.0, 99.0, 102.0, 98.0, 100.0];
        // Standard error sqrt(2.5 / 5) of a mean of 100, times the shift that SciPy solves for (see `least`).
        for (family, shift) in [(1, 3.7610595538250164), (12, 7.398525991369535)] {
            let (least, expected) = (least(&five, family), shift * 0.5f64.sqrt() / 100.0);
            assert!((least / expected - 1.0).abs() < 1e-7, "{family}: {least} {expected}");
        }
        assert!(least(&[five, five].concat(), 1) < least(&five, 1));
        assert_eq!(least(&[100.0; 3], 1), 0.0);
    }

    #[test]
    fn equality_of_percentiles_and_by_the_papers_rule_agrees_with_scipy_and_statsmodels() {
        let equal = |metric, method| {
            let plan = TestPlan { tolerance: 0.2, ..TestPlan::of(metric, method, 1) };
            plan.contrast(&sample(&A), &sample(&B)).unwrap().equal.unwrap()
        };
        // x, y = np.log(a), np.log(b); statsmodels.stats.weightstats.ttost_paired(x, y, np.log(0.8),
        // np.log(1.2))[0]; ttost_ind(x, y, np.log(0.8), np.log(1.2), usevar="unequal")[0]
        near(equal(Metric::LatencyP99, Method::Paired), 0.0018164400216945718);
        near(equal(Metric::LatencyP99, Method::Welch), 0.23358870981119517);
        // max(scipy.stats.ttest_ind(a, 0.8 * b, alternative="greater").pvalue, ttest_ind(a, 1.2 * b,
        // alternative="less").pvalue)
        near(equal(Metric::Iops, Method::Student), 0.23567342382218678);
        let looks =
            TestPlan { looks: 26, tolerance: 0.2, ..TestPlan::of(Metric::LatencyP99, Method::Paired, 1) };
        near(looks.contrast(&sample(&A), &sample(&B)).unwrap().equal.unwrap(), 26.0 * 0.0018164400216945718);
    }

    #[test]
    fn what_more_replicates_would_decide_agrees_with_scipy() {
        let noise = [[1.0, -1.0, 0.5, -0.5, 0.2], [-0.4, 0.6, -0.8, 0.3, 0.3]];
        let of = |mean: f64, by: f64, noise: [f64; 5]| sample(&noise.map(|one| mean + by * one));
        // The least k of m = n + k with nct.sf(c, m - 1, d) + nct.cdf(-c, m - 1, d) >= 0.8, c = t.isf(level /
        // 2, m - 1), d = ttest_rel(a, b).statistic * (m / n)**0.5, or the power of two one-sided tests (see
        // `least`) by ttest_rel(a, 0.95 * b).statistic and ttest_rel(a, 1.05 * b).statistic
        for (mean, by, family, expected) in [
            (102.0, 2.0, 1, More::Replicates(2)),
            (102.0, 2.0, 12, More::Replicates(9)),
            (100.5, 3.0, 12, More::Replicates(10)),
            (104.5, 6.0, 1, More::Replicates(19)),
            (104.5, 8.0, 12, More::Replicates(64)),
            (104.5, 12.0, 12, More::Many),
        ] {
            let plan = TestPlan::of(Metric::Iops, Method::Paired, family);
            let contrast = plan.contrast(&of(mean, by, noise[0]), &of(100.0, by, noise[1])).unwrap();
            assert_eq!(contrast.more(), expected, "{mean} {by} {family}");
        }
    }

    #[test]
    fn a_ratio_of_what_is_never_negative_is_not_below_zero() {
        let (a, b) = (sample(&[10.0, 300.0, 20.0]), sample(&[400.0, 380.0, 390.0]));
        for method in [Method::Paired, Method::Welch] {
            let low = |metric| TestPlan::of(metric, method, 1).contrast(&a, &b).unwrap().ratio.unwrap().low;
            assert_eq!(low(Metric::Iops), 0.0, "{method:?}");
            assert!(low(Metric::WattsAboveIdle) < 0.0, "{method:?}");
        }
    }

    #[test]
    fn blocks_that_lack_one_side_and_single_values_are_no_test() {
        let plan = TestPlan::of(Metric::Iops, Method::Paired, 1);
        assert_eq!(plan.contrast(&vec![(0, 1.0), (1, 2.0)], &vec![(1, 1.0), (2, 2.0)]), None);
        // A percentile of zero has no logarithm.
        let plan = TestPlan::of(Metric::LatencyP50, Method::Paired, 1);
        assert_eq!(plan.contrast(&sample(&[0.0, 1.0, 2.0]), &sample(&[1.0, 1.0, 2.0])), None);
    }
}
