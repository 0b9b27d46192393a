//! Trying ways that are not taken: in bursts, of which a stated share of all I/Os is the most.

use super::Chooser;
use crate::key::Kind;
use crate::seen::Seen;
use crate::way::Way;
use rand_xoshiro::rand_core::Rng;

/// A way that one kind tries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    pub(super) kind: Kind,
    pub(super) way: Way,
    /// The way that it takes otherwise.
    pub(super) home: Way,
}

impl Chooser {
    /// Begins a burst if the share of I/Os and of time allows one, and no bound is broken.
    pub(super) fn begin_burst(&mut self, seen: &Seen<'_>) {
        let share = self.choice.policy.exploration;
        // What settles before and after the burst goes the other way too.
        let burst_ios = self.choice.epochs.burst_ios + 2 * self.choice.iodepth;
        let explored = self.counts.explored + u64::from(burst_ios);
        if self.is_over_bound
            || explored as f64 > share * self.ios as f64
            || self.explored_ns as f64 > share * seen.now_ns as f64
        {
            return;
        }
        let Some(kind) = self.kind_by_chance(seen) else { return };
        let Some(way) = self.least_known(kind) else { return };
        self.burst = Some(Burst { kind, way, home: self.route(kind) });
        self.set_route(kind, way);
    }

    /// Ends a burst; false if there was none.
    pub(super) fn end_burst(&mut self) -> bool {
        let Some(Burst { kind, home, .. }) = self.burst.take() else { return false };
        self.set_route(kind, home);
        true
    }

    /// A kind with enough requests, by chance, in which each request counts.
    fn kind_by_chance(&mut self, seen: &Seen<'_>) -> Option<Kind> {
        let least = self.least_ios();
        let frequent = || seen.kinds().filter(|(_, ios)| *ios >= least);
        let total: u64 = frequent().map(|(_, ios)| u64::from(ios)).sum();
        let mut rest = self.random.next_u64().checked_rem(total)?;
        frequent()
            .find(|(_, ios)| {
                let is_here = rest < u64::from(*ios);
                rest = rest.saturating_sub(u64::from(*ios));
                is_here
            })
            .map(|(kind, _)| kind)
    }

    /// The other way that was not measured, or the longest ago.
    fn least_known(&self, kind: Kind) -> Option<Way> {
        let (band, current) = (self.bands[kind.index()], self.route(kind));
        let others = self.takable(kind).filter(|way| *way != current);
        others.min_by_key(|way| self.estimates.get(kind, band, *way).measured_ns)
    }
}
