//! Which way each kind of request takes: pure, so a simulation can drive it as the engine does.

mod choice;
mod explore;
mod learn;
#[cfg(test)]
mod tests;

use crate::estimate::Estimates;
use crate::key::{Band, KINDS, Kind};
use crate::log::{Counts, Decision, Log, Why};
use crate::seen::Seen;
use crate::way::Way;
pub use choice::{BOUND_GRACE_NS, BURST_IOS, Choice, EPOCH_IOS, EPOCH_NS, Epochs, Plan, Rule};
use explore::Burst;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Epochs running in which another way must be better before it is taken.
const EPOCHS_RUNNING: u32 = 2;
/// Requests of a kind in an epoch below which its route stays.
const LEAST_IOS: u32 = 32;

/// A kind whose requests in flight are in another band.
struct Move {
    kind: Kind,
    from: Band,
    /// The way that is best there by the policy; absent if it has no word on that, or something was measured
    /// there.
    expected: Option<Way>,
}

/// Chooses ways. [`Chooser::epoch`] takes what an epoch showed and revises the routes.
pub struct Chooser {
    choice: Choice,
    has: [bool; Way::COUNT],
    estimates: Estimates,
    routes: [Way; KINDS],
    bands: [Band; KINDS],
    /// By kind, a way that was better, and in how many epochs running.
    rivals: [Option<(Way, u32)>; KINDS],
    /// The load of a kind, as a power of two of its I/Os per second.
    loads: [Option<u32>; KINDS],
    burst: Option<Burst>,
    /// Readings running that showed threads waiting for processors, or did not.
    crowded_for: u32,
    roomy_for: u32,
    is_crowded: bool,
    is_over_bound: bool,
    are_routes_new: bool,
    random: Xoshiro256PlusPlus,
    log: Log,
    counts: Counts,
    ios: u64,
    explored_ns: u64,
}

impl Chooser {
    /// One that begins by the policy.
    pub fn new(choice: Choice) -> Chooser {
        let mut chooser = Chooser {
            has: Way::ALL.map(|way| choice.ways.contains(&way)),
            estimates: Estimates::of(&choice.policy),
            routes: [Way::fallback(choice.is_bypass); KINDS],
            bands: [Band::of(choice.iodepth); KINDS],
            rivals: [None; KINDS],
            loads: [None; KINDS],
            burst: None,
            crowded_for: 0,
            roomy_for: 0,
            is_crowded: false,
            is_over_bound: false,
            are_routes_new: false,
            random: Xoshiro256PlusPlus::seed_from_u64(choice.seed),
            log: Log::default(),
            counts: Counts::default(),
            ios: 0,
            explored_ns: 0,
            choice,
        };
        for kind in Kind::all() {
            chooser.routes[kind.index()] = match chooser.choice.rule {
                Rule::Pinned(way) => way,
                Rule::Follow | Rule::Random => chooser.best(kind),
            };
        }
        if chooser.choice.is_bypass {
            chooser.routes = [chooser.routes[0]; KINDS];
        }
        chooser
    }

    /// The way of each kind, until the next epoch.
    pub fn route(&self, kind: Kind) -> Way {
        self.routes[kind.index()]
    }

    /// The way of requests that read or write no single buffer, and of what another way could not do.
    pub fn fallback(&self) -> Way {
        Way::fallback(self.choice.is_bypass)
    }

    /// What was counted.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The bound of the 99th percentile, in ns.
    pub fn bound_ns(&self) -> Option<u64> {
        self.choice.policy.bound_p99_ns
    }

    /// Takes the decisions that were made, the oldest first; the latest
    /// [`LOG_LEN`](crate::LOG_LEN) are there.
    pub fn drain_log(&mut self) -> impl Iterator<Item = Decision> + '_ {
        self.log.drain()
    }

    /// True if the routes are others than when the last epoch was planned.
    pub fn has_new_routes(&self) -> bool {
        self.are_routes_new
    }

    /// The epoch that begins now.
    pub fn plan(&mut self) -> Plan {
        let Epochs { ios, ns, burst_ios } = self.choice.epochs;
        let settle = if std::mem::take(&mut self.are_routes_new) { 2 * self.choice.iodepth } else { 0 };
        match self.burst {
            Some(_) => Plan { settle, ios: burst_ios, ns: 0, explores: true },
            None => Plan { settle, ios, ns, explores: false },
        }
    }

    /// Counts requests that were pushed outside of an epoch, while routes settled.
    pub fn settled(&mut self, ios: &[u32; KINDS]) {
        for kind in Kind::all() {
            self.count(kind, ios[kind.index()]);
        }
    }

    /// Counts requests that the fallback did again.
    pub fn redone(&mut self, ios: u64) {
        self.counts.redone += ios;
    }

    /// Takes what an epoch showed, and revises the routes.
    pub fn epoch(&mut self, seen: &Seen<'_>) {
        self.settled(seen.ios);
        if seen.total() == 0 {
            return;
        }
        self.note_crowding(seen);
        match self.choice.rule {
            Rule::Pinned(_) => {}
            Rule::Random => self.route_by_chance(seen.now_ns),
            Rule::Follow => self.follow(seen),
        }
    }

    /// Leaves a way for good. True if it was not left before.
    pub fn fail(&mut self, way: Way, error: &str, now_ns: u64) -> bool {
        if !std::mem::take(&mut self.has[way.index()]) {
            return false;
        }
        if self.burst.is_some_and(|burst| burst.way == way) {
            self.end_burst();
        }
        let fallback = self.fallback();
        if let Some(burst) = self.burst.as_mut().filter(|burst| burst.home == way) {
            burst.home = fallback;
        }
        self.counts.failures += 1;
        let why = Why::Failed(error.to_owned());
        self.note(None, self.bands[0], [way, self.fallback()], why, now_ns);
        for kind in Kind::all() {
            if self.routes[kind.index()] == way {
                self.routes[kind.index()] = self.fallback();
                self.are_routes_new = true;
            }
        }
        true
    }

    fn follow(&mut self, seen: &Seen<'_>) {
        let moves: Vec<Move> = seen.kinds().filter_map(|(kind, _)| self.change_band(kind, seen)).collect();
        self.learn(seen);
        let was_burst = self.end_burst();
        if !was_burst {
            self.is_over_bound = false;
        }
        let kinds: Vec<Kind> = match self.choice.is_bypass {
            true => seen.kinds().max_by_key(|(_, ios)| *ios).map(|(kind, _)| kind).into_iter().collect(),
            false => seen.kinds().map(|(kind, _)| kind).collect(),
        };
        for kind in kinds {
            let change = moves.iter().find(|change| change.kind == kind);
            self.revise(kind, seen, change, was_burst);
        }
        if !was_burst {
            self.begin_burst(seen);
        }
    }

    /// Notes the band that a kind is in, if it is another one than before.
    fn change_band(&mut self, kind: Kind, seen: &Seen<'_>) -> Option<Move> {
        let from = self.bands[kind.index()];
        let band = seen.in_flight(kind).map_or(from, Band::of);
        self.bands[kind.index()] = band;
        let is_measured =
            Way::ALL.into_iter().any(|way| self.estimates.get(kind, band, way).measured_ns.is_some());
        let expected = if is_measured { None } else { self.cheapest(kind).or_else(|| self.preferred(kind)) };
        (band != from).then_some(Move { kind, from, expected })
    }

    /// Changes the route of a kind where that is due.
    fn revise(&mut self, kind: Kind, seen: &Seen<'_>, change: Option<&Move>, was_burst: bool) {
        let (current, band) = (self.route(kind), self.bands[kind.index()]);
        let expected = change.and_then(|change| change.expected).unwrap_or(current);
        let in_flight = change.map(|change| Why::InFlight { from: change.from });
        if !self.may_take(current, band) {
            let why = in_flight.filter(|_| !self.is_excluded(current)).unwrap_or(Why::Crowded);
            return self.take(kind, self.best(kind), why, seen.now_ns);
        }
        if let Some(why) = in_flight.filter(|_| expected != current) {
            return self.take(kind, expected, why, seen.now_ns);
        }
        if was_burst {
            return;
        }
        if let Some(bound_ns) = self.bound_ns()
            && let Some(p99_ns) = seen.latencies(kind, current).over(bound_ns)
        {
            self.is_over_bound = true;
            return self.take(kind, self.fastest(kind), Why::OverBound { p99_ns, bound_ns }, seen.now_ns);
        }
        if seen.ios[kind.index()] >= self.least_ios() {
            self.consider_rival(kind, seen.now_ns);
        }
    }

    /// Takes another way if it was better by more than the margin in enough epochs running.
    fn consider_rival(&mut self, kind: Kind, now_ns: u64) {
        let aim = self.choice.policy.aim;
        let current = self.route(kind);
        let rival = self.cheapest(kind).unwrap_or(current);
        let cost = |way| self.estimates.get(kind, self.bands[kind.index()], way).cost(aim);
        let Some(to) = cost(rival) else { return };
        let from = cost(current);
        let is_better = from.is_none_or(|from| to < from * (1.0 - self.choice.policy.hysteresis));
        if rival == current || !is_better {
            self.rivals[kind.index()] = None;
            return;
        }
        let before =
            self.rivals[kind.index()].filter(|(way, _)| *way == rival).map_or(0, |(_, epochs)| epochs);
        self.rivals[kind.index()] = Some((rival, before + 1));
        if before + 1 >= EPOCHS_RUNNING {
            self.take(kind, rival, Why::Better { aim, from, to }, now_ns);
        }
    }

    /// True if requests may go this way with so many in flight.
    fn may_take(&self, way: Way, band: Band) -> bool {
        self.has[way.index()] && (way != Way::Sio || band == Band::ONE) && !self.is_excluded(way)
    }

    /// True if the way would keep a processor busy for which threads wait.
    fn is_excluded(&self, way: Way) -> bool {
        self.is_crowded && way.spins()
    }

    /// The ways that requests of a kind may go.
    fn takable(&self, kind: Kind) -> impl Iterator<Item = Way> + '_ {
        Way::ALL.into_iter().filter(move |way| self.may_take(*way, self.bands[kind.index()]))
    }

    /// The cheapest way within the bound, of those of which the cost is known.
    fn cheapest(&self, kind: Kind) -> Option<Way> {
        let (policy, band) = (&self.choice.policy, self.bands[kind.index()]);
        let cost = |way: Way| {
            let estimate = self.estimates.get(kind, band, way);
            let cost = estimate.cost(policy.aim)?;
            estimate.is_within(policy.bound_p99_ns).then_some((way, cost))
        };
        let cheapest = self.takable(kind).filter_map(cost).min_by(|one, other| one.1.total_cmp(&other.1));
        cheapest.map(|(way, _)| way)
    }

    /// The first in the policy's order.
    fn preferred(&self, kind: Kind) -> Option<Way> {
        let band = self.bands[kind.index()];
        self.estimates.order(kind, band).iter().copied().find(|way| self.may_take(*way, band))
    }

    /// The cheapest way, the preferred one, or the fallback, by what is known.
    fn best(&self, kind: Kind) -> Way {
        self.cheapest(kind).or_else(|| self.preferred(kind)).unwrap_or(self.fallback())
    }

    /// The way with the least latency, by the 99th percentile where that is known; the current one if nothing
    /// is known of others.
    fn fastest(&self, kind: Kind) -> Way {
        let latency = |way: Way| {
            let estimate = self.estimates.get(kind, self.bands[kind.index()], way);
            estimate.p99_ns.or(estimate.mean_ns).map(|latency| (way, latency))
        };
        let fastest = self.takable(kind).filter_map(latency).min_by(|one, other| one.1.total_cmp(&other.1));
        fastest.map_or(self.route(kind), |(way, _)| way)
    }

    fn least_ios(&self) -> u32 {
        LEAST_IOS.min(self.choice.epochs.ios)
    }

    fn take(&mut self, kind: Kind, to: Way, why: Why, now_ns: u64) {
        let from = self.route(kind);
        self.rivals[kind.index()] = None;
        if to == from {
            return;
        }
        self.set_route(kind, to);
        let of = (!self.choice.is_bypass).then_some(kind);
        self.note(of, self.bands[kind.index()], [from, to], why, now_ns);
    }

    fn set_route(&mut self, kind: Kind, way: Way) {
        match self.choice.is_bypass {
            true => self.routes = [way; KINDS],
            false => self.routes[kind.index()] = way,
        }
        self.are_routes_new = true;
    }

    fn note(&mut self, kind: Option<Kind>, band: Band, [from, to]: [Way; 2], why: Why, at_ns: u64) {
        self.counts.switches += 1;
        self.log.note(self.ios, Decision { at_ns, kind, band, from, to, why, ios: 0 });
    }

    fn route_by_chance(&mut self, now_ns: u64) {
        let ways: Vec<Way> = Way::ALL.into_iter().filter(|way| self.has[way.index()]).collect();
        for kind in Kind::all() {
            let way = ways[self.random.next_u64() as usize % ways.len()];
            if !self.choice.is_bypass || kind.index() == 0 {
                self.take(kind, way, Why::Random, now_ns);
            }
        }
    }

    fn count(&mut self, kind: Kind, ios: u32) {
        let way = self.route(kind);
        self.ios += u64::from(ios);
        self.counts.by_way[way.index()] += u64::from(ios);
        if self.burst.is_some_and(|burst| burst.kind == kind || self.choice.is_bypass) {
            self.counts.explored += u64::from(ios);
        }
    }
}
