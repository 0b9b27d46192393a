//! A percentile of a way's latency at a load, and how high it may be: its upper confidence limit, between
//! replicates and within them.

use super::question::{Bound, Percentile};
use crate::stats::{LEVEL, summarize};
use iopj_record::{LatencyFrom, Measurement, Pooled};
use serde::Serialize;
use statrs::distribution::{Binomial, DiscreteCDF};

/// Where an upper limit comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitBy {
    /// The spread between replicates.
    Replicates,
    /// The number of I/Os in them.
    Ios,
}

/// A percentile over the replicates of a way at a load. Times in ns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tail {
    /// Which percentile.
    pub percentile: Percentile,
    /// The geometric mean of the replicates'.
    pub ns: f64,
    /// The upper end of the 95 % interval of that mean, by Student's t on logarithms; absent for one
    /// replicate.
    pub between_ns: Option<f64>,
    /// The upper 97.5 % limit of the percentile of all I/Os together, by order statistics; absent without
    /// histograms, or where there are too few I/Os for one.
    pub within_ns: Option<f64>,
    /// Why there is no upper limit.
    pub lacks: Option<&'static str>,
}

/// Whether a bound is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundAnswer {
    /// The upper limit is within the bound.
    Met,
    /// The percentile is within it, its upper limit is not, or there is none.
    Open,
    /// The percentile is beyond it.
    Missed,
}

impl Tail {
    /// The percentile of these measurements; `None` without one that has it.
    pub fn of(measured: &[&Measurement], percentile: Percentile) -> Option<Tail> {
        let values = measured.iter().filter_map(|one| percentile.metric().value(one, None));
        let logs: Vec<f64> = values.filter(|ns| *ns > 0.0).map(f64::ln).collect();
        let summary = summarize(&logs)?;
        let (within_ns, too_few) = within(measured, percentile.share());
        let hides_waiting = |one: &&Measurement| {
            one.open.as_ref().is_some_and(|open| open.latency_from == LatencyFrom::Submission)
        };
        let lacks = if measured.iter().any(hides_waiting) {
            Some("its latency runs from submission and hides how long I/Os waited")
        } else if summary.n < 2 {
            Some("one replicate shows no spread")
        } else {
            too_few.then_some("there are too few I/Os for a limit of this percentile")
        };
        let between_ns = summary.interval.map(|(_, high)| high.exp()).filter(|high| high.is_finite());
        Some(Tail { percentile, ns: summary.mean.exp(), between_ns, within_ns, lacks })
    }

    /// The more cautious of the two upper limits, and which that is; `None` if there is not one of each.
    pub fn upper(&self) -> Option<(f64, LimitBy)> {
        let between = self.between_ns.filter(|_| self.lacks.is_none())?;
        match self.within_ns {
            Some(within) if within > between => Some((within, LimitBy::Ios)),
            _ => Some((between, LimitBy::Replicates)),
        }
    }

    /// Whether it meets a bound.
    pub fn answer(&self, bound: &Bound) -> BoundAnswer {
        match self.upper() {
            _ if self.ns > bound.ns => BoundAnswer::Missed,
            Some((upper, _)) if upper <= bound.ns => BoundAnswer::Met,
            _ => BoundAnswer::Open,
        }
    }
}

/// The upper limit of a quantile of all I/Os together, and whether there are too few of them for one.
fn within(measured: &[&Measurement], share: f64) -> (Option<f64>, bool) {
    let pooled = Pooled::of(measured.iter().map(|one| &one.latency.histogram[..]));
    if pooled.is_empty() {
        return (None, false);
    }
    let Some(rank) = upper_rank(pooled.len(), share) else { return (None, true) };
    // The limit is the value of that rank; a quantile of it less a half is not moved by rounding.
    let quantile = (rank as f64 - 0.5) / pooled.len() as f64;
    (Some(pooled.value_at_quantile(quantile) as f64), false)
}

/// The rank, from 1, of the order statistic of `n` values that the quantile of this share exceeds with a
/// probability of at most 2.5 %, whatever the distribution (Conover, Practical Nonparametric Statistics,
/// 3.2); `None` if even the greatest value is no such limit.
pub(super) fn upper_rank(n: u64, share: f64) -> Option<u64> {
    let below = Binomial::new(share, n).ok()?;
    let is_limit = |rank: u64| below.cdf(rank - 1) >= 1.0 - LEVEL / 2.0;
    if n == 0 || !is_limit(n) {
        return None;
    }
    let (mut too_low, mut enough) = (0, n);
    while enough - too_low > 1 {
        let middle = u64::midpoint(too_low, enough);
        if is_limit(middle) { enough = middle } else { too_low = middle }
    }
    Some(enough)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_record::{OpenWindow, histogram};

    fn measured(steps_us: &[u64]) -> Measurement {
        let mut latencies = histogram::new();
        steps_us.iter().for_each(|us| latencies.record(us * 1000).unwrap());
        Measurement { latency: histogram::summary(&latencies), ..Measurement::default() }
    }

    #[test]
    fn ranks_agree_with_the_binomial_distribution() {
        // scipy.stats.binom.ppf(0.975, n, p) + 1, none where that exceeds n.
        for (n, share, rank) in [
            (1000, 0.99, Some(996 + 1)),
            (10_000, 0.99, Some(9919 + 1)),
            (100_000, 0.999, Some(99_919 + 1)),
            (300, 0.99, None),
            (0, 0.99, None),
        ] {
            assert_eq!(upper_rank(n, share), rank, "{n} {share}");
        }
    }

    #[test]
    fn the_more_cautious_limit_counts_and_says_which_it_is() {
        let flat: Vec<u64> = (1..=1000).collect();
        let [a, b] = [measured(&flat), measured(&flat)];
        let tail = Tail::of(&[&a, &b], Percentile::P99).unwrap();
        // No spread between replicates: the I/Os decide.
        let (upper, by) = tail.upper().unwrap();
        assert_eq!(by, LimitBy::Ios);
        assert!(upper > tail.ns && upper < 1.01 * tail.ns, "{tail:?}");
        let slow: Vec<u64> = flat.iter().map(|us| 2 * us).collect();
        let tail = Tail::of(&[&a, &measured(&slow)], Percentile::P99).unwrap();
        assert_eq!(tail.upper().unwrap().1, LimitBy::Replicates);
        let bound = |us: f64| Bound { percentile: Percentile::P99, ns: us * 1e3 };
        let answers = [1300.0, 2000.0, 1e9].map(|us| tail.answer(&bound(us)));
        assert_eq!(answers, [BoundAnswer::Missed, BoundAnswer::Open, BoundAnswer::Met]);
    }

    #[test]
    fn a_single_replicate_few_ios_or_a_latency_that_hides_waiting_meet_no_bound() {
        let (one, few) = (measured(&(1..=1000).collect::<Vec<_>>()), measured(&[1; 100]));
        let mut submitted = one.clone();
        submitted.open = Some(OpenWindow { latency_from: LatencyFrom::Submission, ..OpenWindow::default() });
        let bound = Bound { percentile: Percentile::P99, ns: 1e12 };
        for (all, lack) in [
            (vec![&one], "one replicate shows no spread"),
            (vec![&few, &few], "there are too few I/Os for a limit of this percentile"),
            (vec![&submitted, &one], "its latency runs from submission and hides how long I/Os waited"),
        ] {
            let tail = Tail::of(&all, Percentile::P99).unwrap();
            assert_eq!((tail.lacks, tail.answer(&bound)), (Some(lack), BoundAnswer::Open));
        }
        // Without a histogram, the replicates alone.
        let mut bare = [one.clone(), one];
        bare.iter_mut().for_each(|one| one.latency.histogram.clear());
        let tail = Tail::of(&bare.iter().collect::<Vec<_>>(), Percentile::P99).unwrap();
        assert_eq!((tail.within_ns, tail.answer(&bound)), (None, BoundAnswer::Met));
    }
}
