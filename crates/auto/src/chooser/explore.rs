//! Trying ways that are not taken: in bursts, of which a stated share of all I/Os, of the time, and of what
//! all I/Os cost is the most.

use super::Chooser;
use crate::estimate::Estimate;
use crate::key::{Kind, Kinds};
use crate::policy::Aim;
use crate::seen::Seen;
use crate::timing::POLLER_IDLE_MS;
use crate::way::Way;
use rand_xoshiro::rand_core::Rng;

/// The least burst, as a part of the usual one.
const LEAST_BURST: u32 = 8;
/// By what factor a figure that was not measured may be wrong.
const DOUBT: f64 = 2.0;
/// A way that costs more than that times the one that is taken has such a part of the room.
const HOPELESS: f64 = 20.0;
/// Of what a way may be expected to save, the part that trying it may cost.
const VENTURE: f64 = 0.25;
/// How much more seldom a way is tried that costs as much again as the one that is taken.
const SELDOM: f64 = 10.0;

/// A way that one kind tries, or all that go together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    pub(super) kinds: Kinds,
    pub(super) way: Way,
    /// The way that it takes otherwise.
    pub(super) home: Way,
    /// Its I/Os.
    pub(super) ios: u32,
    /// It was not measured, and may well be better.
    is_open: bool,
}

/// A way that may be tried.
struct Trial {
    way: Way,
    ios: u32,
    /// What was not measured, and may well be better, comes first; then by the urgency.
    is_open: bool,
    urgency: f64,
}

/// What a burst may take.
struct Room {
    ios: f64,
    cost: f64,
    /// The share of its I/Os that go another way.
    share: f64,
    now_ns: u64,
}

impl Chooser {
    /// Begins a burst if the share of I/Os, of time and of the cost allows one, and no bound is broken.
    pub(super) fn begin_burst(&mut self, seen: &Seen<'_>) {
        let share = self.choice.policy.exploration;
        // What settles before the burst goes the other way too.
        let ios = share * self.ios as f64 - self.counts.explored as f64 - f64::from(self.settle());
        if self.is_over_bound
            || ios < f64::from(self.least_burst())
            || self.explored_ns as f64 > share * seen.now_ns as f64
        {
            return;
        }
        let Some(kind) = self.kind_by_chance(seen) else { return };
        let kinds = self.going_with(kind);
        let of_kind = seen.share(kinds);
        let cost = share * self.spent - self.excess;
        let room = Room { ios, cost, share: of_kind, now_ns: seen.now_ns };
        let Some(Trial { way, ios, is_open, .. }) = self.to_try(kind, &room) else { return };
        self.burst = Some(Burst { kinds, way, home: self.route(kind), ios, is_open });
        self.set_routes(kinds, way);
    }

    /// Ends a burst; false if there was none.
    pub(super) fn end_burst(&mut self) -> bool {
        let Some(Burst { kinds, home, .. }) = self.burst.take() else { return false };
        self.set_routes(kinds, home);
        true
    }

    /// Adds up what I/Os cost, and what a burst cost more than the way that is taken otherwise.
    pub(super) fn account(&mut self, seen: &Seen<'_>) {
        let mut excess = self.burst.map_or(0.0, |burst| self.aftermath(burst.way));
        for (kind, ios) in seen.kinds() {
            let Some(cost) = self.cost(kind, self.route(kind)) else { continue };
            self.spent += cost * f64::from(ios);
            if let Some(burst) = self.burst.filter(|burst| burst.kinds.has(kind)) {
                let home = self.cost(kind, burst.home).unwrap_or(cost);
                let more = (cost - home).max(0.0);
                let settling = f64::from(2 * self.settle()) / seen.total() as f64;
                let settling = settling * self.settling(kind, burst.way, more);
                excess += f64::from(ios) * (more + settling);
            }
        }
        let is_open = self.burst.is_some_and(|burst| burst.is_open);
        *if is_open { &mut self.ventured } else { &mut self.excess } += excess;
    }

    fn least_burst(&self) -> u32 {
        (self.choice.epochs.burst_ios / LEAST_BURST).max(1)
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

    /// The other way that is worth trying most, of those that there is room for.
    fn to_try(&self, kind: Kind, room: &Room) -> Option<Trial> {
        let current = self.route(kind);
        let trials = self.takable(kind).filter(|way| *way != current);
        let trials = trials.filter_map(|way| self.trial(kind, way, room));
        trials
            .max_by(|one, other| one.is_open.cmp(&other.is_open).then(one.urgency.total_cmp(&other.urgency)))
    }

    fn trial(&self, kind: Kind, way: Way, room: &Room) -> Option<Trial> {
        let Estimate { measured_ns, rests_until, .. } =
            self.estimates.get(kind, self.bands[kind.index()], way);
        if self.ios < rests_until {
            return None;
        }
        let current = self.cost(kind, self.route(kind)).unwrap_or(0.0);
        let cost = self.expected(kind, way).unwrap_or(current);
        let excess = (cost - current).max(0.0);
        let is_hopeless = cost > DOUBT * current;
        let mut ios = room.ios.min(self.choice.epochs.burst_ios.into());
        let ratio = if current > 0.0 { cost / current } else { 1.0 };
        let is_open = measured_ns.is_none() && !is_hopeless;
        let cost_left = match (is_open, is_hopeless) {
            (true, _) => room.cost.max(self.venture(ratio)),
            (false, true) => room.cost / HOPELESS,
            (false, false) => room.cost,
        } - self.aftermath(way);
        // I/Os settle before the burst, and after it.
        let settling = f64::from(2 * self.settle()) * self.settling(kind, way, excess) * room.share;
        if excess > 0.0 {
            ios = ios.min((cost_left - settling) / (excess * room.share));
        } else if settling > 0.0 && settling > cost_left {
            return None;
        }
        if ios < f64::from(self.least_burst()) {
            return None;
        }
        let age_ns = room.now_ns.saturating_sub(measured_ns.unwrap_or(0)) as f64;
        let urgency = if is_open { -ratio } else { age_ns / (1.0 + SELDOM * (ratio - 1.0).max(0.0)) };
        Some(Trial { way, ios: ios as u32, is_open, urgency })
    }

    /// What the try of a way may cost that was not measured, and is believed to cost so many times as much
    /// as the one that is taken: a part of what it may be expected to save over as much again as was spent.
    /// That is what it saves if the belief is wrong by the factor [`DOUBT`], times half of that share, for
    /// how likely it is that it saves anything.
    fn venture(&self, ratio: f64) -> f64 {
        let most = (1.0 - ratio / DOUBT).max(0.0);
        VENTURE * 0.5 * most * most * self.spent - self.ventured
    }

    /// What an I/O is expected to cost. A way that spins takes all the time that there is, whatever is
    /// believed of it: that may be of another load.
    fn expected(&self, kind: Kind, way: Way) -> Option<f64> {
        let known = self.cost(kind, way);
        if self.choice.policy.aim != Aim::Cpu || !(way.spins() || known.is_none() && way.must_be_asked()) {
            return known;
        }
        let current = self.estimates.get(kind, self.bands[kind.index()], self.route(kind));
        let own = self.estimates.get(kind, self.bands[kind.index()], way);
        let spun = own.time_ns.or(current.time_ns).map(|time_ns| time_ns * way.busy_processors());
        known.map_or(spun, |known| Some(known.max(spun.unwrap_or(known))))
    }

    /// What an I/O costs more, by the aim, while some are in flight by this way and some by the other: the
    /// thread asks both all the time if one of them must be asked.
    fn settling(&self, kind: Kind, way: Way, excess: f64) -> f64 {
        let current = self.estimates.get(kind, self.bands[kind.index()], self.route(kind));
        match (current.time_ns, current.cpu_ns) {
            (Some(time_ns), Some(cpu_ns)) if self.in_flight > 1 && way.must_be_asked() => {
                let busy = self.estimates.cost_of_cpu((time_ns - cpu_ns).max(0.0), self.choice.policy.aim);
                excess.max(busy)
            }
            _ => excess,
        }
    }

    /// What a burst costs by the aim after its end.
    fn aftermath(&self, way: Way) -> f64 {
        let cpu_ns = if way.has_poller() { 1e6 * f64::from(POLLER_IDLE_MS) } else { 0.0 };
        self.estimates.cost_of_cpu(cpu_ns, self.choice.policy.aim)
    }
}
