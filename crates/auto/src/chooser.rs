//! Which way each kind of request takes: pure, so a simulation can drive it as the engine does.

mod choice;
mod explore;
mod learn;
mod rivals;
#[cfg(test)]
mod tests;

use crate::estimate::{Estimate, Estimates};
use crate::key::{Band, KINDS, Kind, Kinds};
use crate::log::{Counts, Decision, Log, Why};
use crate::policy::Aim;
use crate::seen::{Seen, Tail};
pub use crate::timing::BOUND_GRACE_NS;
use crate::way::Way;
pub use choice::{BURST_IOS, Choice, EPOCH_IOS, EPOCH_NS, Epochs, Plan, Rule};
use explore::Burst;
use learn::Readings;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Breaches of the bound that count.
const MOST_BREACHES: u8 = 10;
/// Requests of a kind in an epoch below which its route stays.
const LEAST_IOS: u32 = 32;

/// The share of requests whose cost must be known, where kinds go together.
const NEARLY_ALL: f64 = 0.9;

/// A kind whose requests in flight are in another band.
struct Move {
    kind: Kind,
    from: Band,
    /// The way that is best there by the policy; absent if it has no word on that, or something was measured
    /// there.
    expected: Option<Expected>,
}

/// What a policy says of a band.
#[derive(Clone, Copy)]
enum Expected {
    /// It has figures, which what is seen corrects.
    Cheapest,
    /// It has an order.
    Preferred(Way),
}

/// Chooses ways. [`Chooser::epoch`] takes what an epoch showed and revises the routes.
pub struct Chooser {
    choice: Choice,
    has: [bool; Way::COUNT],
    estimates: Estimates,
    routes: [Way; KINDS],
    bands: [Band; KINDS],
    /// By kind, a way that was better in the latest epochs, and the sum of what it would have saved in them,
    /// in margins.
    rivals: [Option<(Way, f64)>; KINDS],
    /// By kind, the way that was last taken because it was better, and in which epoch.
    hopes: [Option<(Way, u64)>; KINDS],
    /// By kind, what epochs running showed of the way that is taken, beside a bound.
    tails: [Tail; KINDS],
    /// The load of a kind, as a power of two of its I/Os per second.
    loads: [Option<u32>; KINDS],
    burst: Option<Burst>,
    /// Threads wait for processors; or would, if a poller of submissions ran too.
    crowded: Readings,
    full: Readings,
    /// When a poller of submissions was last given something.
    poller_ns: Option<u64>,
    /// The most requests that were seen in flight in an epoch.
    in_flight: u32,
    /// Of the latest epoch that did not explore, the kinds with their requests.
    mix: Vec<(Kind, u32)>,
    is_over_bound: bool,
    are_routes_new: bool,
    /// A route was chosen since the last epoch that did not explore.
    is_young: bool,
    random: Xoshiro256PlusPlus,
    log: Log,
    counts: Counts,
    ios: u64,
    /// Epochs that did not explore.
    epochs: u64,
    explored_ns: u64,
    /// What all I/Os cost by the aim, as believed, and what those cost more that explored.
    spent: f64,
    excess: f64,
    /// The same of those that tried what was not measured.
    ventured: f64,
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
            hopes: [None; KINDS],
            tails: [Tail::default(); KINDS],
            loads: [None; KINDS],
            poller_ns: None,
            burst: None,
            crowded: Readings::default(),
            full: Readings::default(),
            in_flight: choice.iodepth,
            mix: Vec::new(),
            is_over_bound: false,
            are_routes_new: false,
            is_young: true,
            random: Xoshiro256PlusPlus::seed_from_u64(choice.seed),
            log: Log::default(),
            counts: Counts::default(),
            ios: 0,
            epochs: 0,
            explored_ns: 0,
            spent: 0.0,
            excess: 0.0,
            ventured: 0.0,
            choice,
        };
        for kind in Kind::all() {
            chooser.routes[kind.index()] = match chooser.choice.rule {
                Rule::Pinned(way) => way,
                Rule::Follow | Rule::Random => chooser.first(kind),
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

    /// True if joules are what is chosen for, so that a meter helps.
    pub fn asks_meter(&self) -> bool {
        self.choice.policy.aim == Aim::IosPerJoule
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
        let settle = if std::mem::take(&mut self.are_routes_new) { self.settle() } else { 0 };
        match self.burst {
            Some(burst) => Plan { settle, ios: burst.ios, ns: 0, explores: true },
            // How many requests are in flight is seen soon, and what is in doubt.
            None if self.ios == 0 => Plan { settle, ios: burst_ios.min(ios), ns: 0, explores: false },
            None if self.is_in_doubt() => Plan { settle, ios, ns: 0, explores: false },
            None => Plan { settle, ios, ns, explores: false },
        }
    }

    /// True if a route was just chosen, or another way is about to be, of a kind that even a short epoch has
    /// enough requests of.
    fn is_in_doubt(&self) -> bool {
        let total: u64 = self.mix.iter().map(|(_, ios)| u64::from(*ios)).sum();
        let (least, all) = (u64::from(self.least_ios()), u64::from(self.choice.epochs.ios));
        let is_frequent = |ios: u32| u64::from(ios) * all >= least * total;
        let is_near = |(kind, ios): &(Kind, u32)| self.rivals[kind.index()].is_some() && is_frequent(*ios);
        self.choice.rule == Rule::Follow && (self.is_young || self.mix.iter().any(is_near))
    }

    /// I/Os that end before those of new routes do, some of which are late.
    fn settle(&self) -> u32 {
        2 * self.in_flight
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
        let most = seen.timed.iter().map(|timed| timed.in_flight).max();
        self.in_flight = most.unwrap_or(u32::MAX).min(self.choice.iodepth);
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
        if self.burst.is_none() {
            self.epochs += 1;
            self.is_young = false;
            self.mix = seen.kinds().collect();
        }
        let moves: Vec<Move> = seen.kinds().filter_map(|(kind, _)| self.change_band(kind, seen)).collect();
        self.learn(seen);
        self.account(seen);
        let was_burst = self.end_burst();
        if !was_burst {
            self.is_over_bound = false;
        }
        let kinds: Vec<Kind> = match self.is_together() {
            true => seen.leading().into_iter().collect(),
            false => seen.kinds().map(|(kind, _)| kind).collect(),
        };
        if !was_burst {
            // What another way would have saved adds up over epochs running.
            for kind in Kind::all().filter(|kind| !kinds.contains(kind)) {
                self.rivals[kind.index()] = None;
            }
        }
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
        if band == from {
            return None;
        }
        self.bands[kind.index()] = band;
        self.tails[kind.index()] = Tail::default();
        let is_measured = Way::ALL.into_iter().any(|way| self.estimate(kind, way).measured_ns.is_some());
        let expected = match (is_measured, self.cheapest(kind)) {
            (true, _) => None,
            (false, Some(_)) => Some(Expected::Cheapest),
            (false, None) => self.preferred(kind).map(Expected::Preferred),
        };
        Some(Move { kind, from, expected })
    }

    /// Changes the route of a kind where that is due.
    fn revise(&mut self, kind: Kind, seen: &Seen<'_>, change: Option<&Move>, was_burst: bool) {
        let (current, band) = (self.route(kind), self.bands[kind.index()]);
        let expected = match change.and_then(|change| change.expected) {
            Some(Expected::Cheapest) => self.cheapest(kind).unwrap_or(current),
            Some(Expected::Preferred(way)) => way,
            None => current,
        };
        if self.is_split() {
            return self.take(kind, self.best(kind), Why::Together, seen.now_ns);
        }
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
        let broken = |kind: Kind| self.tails[kind.index()].broken();
        if let Some(bound_ns) = self.bound_ns()
            && let Some(p99_ns) = self.together_with(kind).into_iter().find_map(broken)
        {
            let (before, way) = (self.route(kind), self.within_reach(kind));
            self.is_over_bound = way != before;
            for kind in self.together_with(kind).into_iter().filter(|_| way != before) {
                let estimate = self.estimates.get_mut(kind, self.bands[kind.index()], before);
                estimate.breaches = (estimate.breaches + 1).min(MOST_BREACHES);
            }
            return self.take(kind, way, Why::OverBound { p99_ns, bound_ns }, seen.now_ns);
        }
        if seen.ios[kind.index()] >= self.least_ios() {
            self.consider_rival(kind, seen.now_ns);
        }
    }

    /// True if requests may go this way with so many in flight.
    fn may_take(&self, way: Way, band: Band) -> bool {
        self.has[way.index()] && (way != Way::Sio || band == Band::ONE) && !self.is_excluded(way)
    }

    /// True if the way would keep a processor busy for which threads wait.
    fn is_excluded(&self, way: Way) -> bool {
        way.spins() && self.crowded.is_so() || way.has_poller() && self.full.is_so()
    }

    /// The ways that requests of a kind may go.
    fn takable(&self, kind: Kind) -> impl Iterator<Item = Way> + '_ {
        Way::ALL.into_iter().filter(move |way| self.may_take(*way, self.bands[kind.index()]))
    }

    /// True if all kinds go one way: where one engine does them; and where they are in flight together and
    /// what counts is what the thread does. It waits in one way for all of them: if one kind polls, all do.
    fn is_together(&self) -> bool {
        let is_of_thread = self.choice.policy.aim != Aim::Latency && self.in_flight > 1;
        self.choice.is_bypass || is_of_thread && self.mix.len() > 1
    }

    /// True if kinds that should go one way do not.
    fn is_split(&self) -> bool {
        let mut routes = self.mix.iter().map(|(kind, _)| self.route(*kind));
        let first = routes.next();
        self.is_together() && routes.any(|way| Some(way) != first)
    }

    /// What an I/O costs by the aim, with as many in flight as there are: of this kind, or of all that go
    /// together, in their shares, if nearly all are known.
    fn cost(&self, kind: Kind, way: Way) -> Option<f64> {
        let aim = self.choice.policy.aim;
        let cost = |kind: Kind| self.estimates.cost(kind, self.bands[kind.index()], way, aim);
        if !self.is_together() || self.mix.len() < 2 {
            return cost(kind);
        }
        let (mut sum, mut known, mut total) = (0.0, 0.0, 0.0);
        for (kind, ios) in self.mix.iter().map(|(kind, ios)| (*kind, f64::from(*ios))) {
            total += ios;
            if let Some(cost) = cost(kind) {
                sum += cost * ios;
                known += ios;
            }
        }
        (known >= NEARLY_ALL * total).then(|| sum / known)
    }

    /// The kinds that take one way, this one the last: it alone, or all that are in flight together.
    fn together_with(&self, kind: Kind) -> Vec<Kind> {
        let mix = if self.is_together() { &self.mix[..] } else { &[] };
        mix.iter().map(|(other, _)| *other).filter(|other| *other != kind).chain([kind]).collect()
    }

    /// What is believed of a kind on a way, with as many in flight as there are.
    fn estimate(&self, kind: Kind, way: Way) -> Estimate {
        self.estimates.get(kind, self.bands[kind.index()], way)
    }

    /// The cheapest way within the bound, of those of which the cost is known.
    fn cheapest(&self, kind: Kind) -> Option<Way> {
        let bound = self.choice.policy.bound_p99_ns;
        let bounded = if bound.is_some() { self.together_with(kind) } else { Vec::new() };
        let is_within = |way: Way| bounded.iter().all(|kind| self.estimate(*kind, way).is_within(bound));
        let cost = |way: Way| self.cost(kind, way).filter(|_| is_within(way)).map(|cost| (way, cost));
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

    /// The way that a kind begins with. How many requests are in flight is not seen yet, nor whether anything
    /// is: where CPU time counts, nothing spins before that.
    fn first(&self, kind: Kind) -> Way {
        let is_by_cpu = self.choice.policy.aim == Aim::Cpu;
        Some(self.best(kind)).filter(|way| !(is_by_cpu && way.spins())).unwrap_or(self.fallback())
    }

    fn least_ios(&self) -> u32 {
        LEAST_IOS.min(self.choice.epochs.ios)
    }

    fn take(&mut self, kind: Kind, to: Way, why: Why, now_ns: u64) {
        self.rivals[kind.index()] = None;
        // Where kinds go together that did not, the way that is left may be another kind's.
        let others = self.together_with(kind).into_iter().map(|kind| self.route(kind));
        let mut left = [self.route(kind)].into_iter().chain(others).filter(|way| *way != to);
        let Some(from) = left.next() else { return };
        let kinds = self.going_with(kind);
        self.set_routes(kinds, to);
        for kind in Kind::all().filter(|kind| kinds.has(*kind)) {
            self.tails[kind.index()] = Tail::default();
        }
        self.is_young = true;
        let of = (!self.is_together()).then_some(kind);
        self.note(of, self.bands[kind.index()], [from, to], why, now_ns);
    }

    /// The kinds that change their way with this one.
    fn going_with(&self, kind: Kind) -> Kinds {
        match (self.choice.is_bypass, self.is_together()) {
            (true, _) => Kinds::ALL,
            (false, true) => self.mix.iter().map(|(kind, _)| *kind).chain([kind]).collect(),
            (false, false) => [kind].into_iter().collect(),
        }
    }

    fn set_routes(&mut self, kinds: Kinds, way: Way) {
        for kind in Kind::all().filter(|kind| kinds.has(*kind)) {
            self.routes[kind.index()] = way;
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
        if self.burst.is_some_and(|burst| burst.kinds.has(kind)) {
            self.counts.explored += u64::from(ios);
        }
    }
}
