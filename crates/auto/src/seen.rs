//! What an epoch showed: counts, CPU time, and the latencies that were timed.

use crate::clock::Crowding;
use crate::key::{KINDS, Kind, Kinds};
use crate::way::Way;

/// Timed I/Os below which a percentile says nothing.
pub(crate) const LEAST_TIMED: usize = 100;

/// The share of I/Os that may be over a bound of the 99th percentile, and how seldom chance alone may let
/// more of those that were timed seem to be.
const MAY_BE_OVER: f64 = 0.01;
const BY_CHANCE: f64 = 0.05;
/// Timed I/Os that are remembered of a way that may break a bound.
const MOST_TIMED: u32 = 4_096;

/// One I/O that was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// What it was.
    pub kind: Kind,
    /// The way that it went.
    pub way: Way,
    /// Requests in flight, with itself, when it was pushed.
    pub in_flight: u32,
    /// From its push to the clock read after its completion, in ns.
    pub latency_ns: u64,
}

/// What an epoch showed.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Its end, in ns since the engine was opened.
    pub now_ns: u64,
    /// Its length in ns.
    pub elapsed_ns: u64,
    /// CPU time of the thread in it, in ns.
    pub cpu_ns: u64,
    /// Requests pushed in it, by kind: each went by the route of its kind.
    pub ios: &'a [u32; KINDS],
    /// Those of them that were timed.
    pub timed: &'a [Timed],
    /// Threads and processors, where that was looked at.
    pub crowding: Option<Crowding>,
    /// Joules that the machine has drawn, since whenever, if a meter was read at its end.
    pub joules: Option<f64>,
}

impl Seen<'_> {
    /// Requests pushed in it.
    pub(crate) fn total(&self) -> u64 {
        self.ios.iter().map(|ios| u64::from(*ios)).sum()
    }

    /// The kinds of which there were requests, with how many.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (Kind, u32)> + '_ {
        Kind::all().map(|kind| (kind, self.ios[kind.index()])).filter(|(_, ios)| *ios > 0)
    }

    /// A kind that stands for all: the first that has a quarter of the requests, or the most frequent one.
    pub(crate) fn leading(&self) -> Option<Kind> {
        let is_many = |(_, ios): &(Kind, u32)| 4 * u64::from(*ios) >= self.total();
        let first = self.kinds().find(is_many).or_else(|| self.kinds().max_by_key(|(_, ios)| *ios));
        first.map(|(kind, _)| kind)
    }

    /// The share of some kinds in all requests.
    pub(crate) fn share(&self, kinds: Kinds) -> f64 {
        let ios: u64 = self.kinds().filter(|(kind, _)| kinds.has(*kind)).map(|(_, ios)| u64::from(ios)).sum();
        ios as f64 / self.total().max(1) as f64
    }

    /// The latencies of a kind on a way.
    pub(crate) fn latencies(&self, kind: Kind, way: Way) -> Latencies {
        let is_its = |timed: &&Timed| timed.kind == kind && timed.way == way;
        Latencies(self.timed.iter().filter(is_its).map(|timed| timed.latency_ns).collect())
    }

    /// Mean requests in flight when those of a kind were pushed, whichever way they went. Less than nearly
    /// two are one: most of them are alone.
    pub(crate) fn in_flight(&self, kind: Kind) -> Option<u32> {
        let of_kind = || self.timed.iter().filter(|timed| timed.kind == kind);
        let sum: u64 = of_kind().map(|timed| u64::from(timed.in_flight)).sum();
        let count = of_kind().count() as u64;
        let is_alone = 10 * sum < 19 * count;
        (count > 0).then(|| if is_alone { 1 } else { ((sum + count / 2) / count) as u32 })
    }
}

/// Latencies in any order.
pub(crate) struct Latencies(Vec<u64>);

impl Latencies {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Their mean in ns, if there are any.
    pub(crate) fn mean_ns(&self) -> Option<f64> {
        let sum: u64 = self.0.iter().sum();
        (!self.0.is_empty()).then(|| sum as f64 / self.0.len() as f64)
    }

    /// The 99th percentile in ns, if there are enough.
    pub(crate) fn p99_ns(&mut self) -> Option<u64> {
        if self.0.len() < LEAST_TIMED { None } else { self.at_99() }
    }

    /// The 99th percentile in ns of however few.
    pub(crate) fn at_99(&mut self) -> Option<u64> {
        let rank = (self.0.len() * 99).div_ceil(100);
        let (_, at_rank, _) = self.0.select_nth_unstable(rank.checked_sub(1)?);
        Some(*at_rank)
    }

    /// How many there are, if none is over the bound.
    pub(crate) fn within(&self, bound_ns: u64) -> Option<u32> {
        self.0.iter().all(|latency| *latency <= bound_ns).then_some(self.0.len() as u32)
    }

    /// How many are over the bound.
    pub(crate) fn over(&self, bound_ns: u64) -> u32 {
        self.0.iter().filter(|latency| **latency > bound_ns).count() as u32
    }
}

/// Timed I/Os of epochs running, while more of them are over the bound than may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    timed: u32,
    over: u32,
    /// The greatest 99th percentile of an epoch.
    p99_ns: u64,
}

impl Tail {
    /// Takes what an epoch showed. As long as no more are over the bound than may be, it begins anew.
    pub(crate) fn add(&mut self, latencies: &mut Latencies, bound_ns: u64) {
        self.timed += latencies.count() as u32;
        self.over += latencies.over(bound_ns);
        self.p99_ns = self.p99_ns.max(latencies.at_99().filter(|p99| *p99 > bound_ns).unwrap_or(0));
        if f64::from(self.over) <= MAY_BE_OVER * f64::from(self.timed) {
            *self = Tail::default();
        }
        if self.timed > MOST_TIMED {
            (self.timed, self.over) = (self.timed / 2, self.over / 2);
        }
    }

    /// The greatest 99th percentile in ns if more I/Os are over the bound than chance explains where it is
    /// kept. Two of ten are, four of a hundred, and 29 of two thousand.
    pub(crate) fn broken(&self) -> Option<u64> {
        let is_sure = self.over >= 2 && at_least(self.over, self.timed) < BY_CHANCE;
        is_sure.then_some(self.p99_ns)
    }
}

/// How likely it is that so many of `total` I/Os or more are over what [`MAY_BE_OVER`] of all are: one less
/// the binomial distribution's sum below.
fn at_least(over: u32, total: u32) -> f64 {
    let odds = MAY_BE_OVER / (1.0 - MAY_BE_OVER);
    let mut term = (1.0 - MAY_BE_OVER).powi(total as i32);
    let mut below = 0.0;
    for number in 0..over {
        below += term;
        term *= odds * f64::from(total - number) / f64::from(number + 1);
    }
    (1.0 - below).max(0.0)
}

#[cfg(test)]
impl From<Vec<u64>> for Latencies {
    fn from(all: Vec<u64>) -> Latencies {
        Latencies(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_enough() {
        let of = |count: u64| Latencies((1..=count).rev().collect());
        assert_eq!((of(99).p99_ns(), of(100).p99_ns(), of(200).p99_ns()), (None, Some(99), Some(198)));
        assert_eq!((of(0).mean_ns(), of(3).mean_ns()), (None, Some(2.0)));
        assert_eq!([of(7).within(8), of(8).within(8), of(9).within(8)], [Some(7), Some(8), None]);
        assert_eq!([of(100).over(99), of(100).over(98), of(0).over(0)], [1, 2, 0]);
    }

    #[test]
    fn a_bound_is_broken_by_more_than_chance_explains_in_one_epoch_or_over_several() {
        let add = |tail: &mut Tail, timed: u64, over: u64| {
            tail.add(&mut Latencies((1..=timed).collect()), timed - over);
            tail.broken()
        };
        let once = |timed, over| add(&mut Tail::default(), timed, over);
        // SciPy's binom.sf: 0.079 and 0.018 for 3 and 4 of 100, 0.052 and 0.034 for 28 and 29 of 2,000.
        assert_eq!((once(100, 3), once(100, 4)), (None, Some(99)));
        assert_eq!((once(2000, 28), once(2000, 29)), (None, Some(1980)));
        assert_eq!((once(10, 1), once(10, 2)), (None, Some(10)));
        // Three of a hundred are found out in the second epoch, and one in a hundred never.
        let mut tail = Tail::default();
        assert_eq!([(); 2].map(|()| add(&mut tail, 100, 3)), [None, Some(99)]);
        let mut tail = Tail::default();
        assert!((0..10_000).all(|_| add(&mut tail, 100, 1).is_none() && tail == Tail::default()));
        // An epoch that keeps the bound so well that all together do ends the suspicion.
        let mut tail = Tail::default();
        assert_eq!([add(&mut tail, 100, 3), add(&mut tail, 500, 0)], [None, None]);
        assert_eq!(tail, Tail::default());
        // Nothing becomes too small or too large to be told.
        let mut tail = Tail::default();
        assert!((0..10_000).all(|_| add(&mut tail, 2000, 100).is_some()));
    }
}
