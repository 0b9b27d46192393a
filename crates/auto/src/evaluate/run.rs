//! One run: the chooser over a simulated machine, driven as the engine drives it, in virtual time.
//!
//! An epoch's I/Os pass at once; those that the engine would time are drawn one by one. What is counted is
//! the true mean of each I/O on the way that it took, with what the chooser itself costs: its share of an
//! I/O, its work at an epoch's end, opening an engine, and I/Os that end on one engine while others begin on
//! another.

mod bounded;
mod meter;

use super::breach::{Breach, shows};
use super::chance::Chance;
use super::cost::Cost;
use super::shape::Shape;
use super::truth::Truth;
use super::workload::{Load, Workload};
use crate::chooser::{Chooser, Plan};
use crate::clock::Crowding;
use crate::engines::slot_of;
use crate::flight::Timings;
use crate::key::{KINDS, Kind};
use crate::policy::Aim;
use crate::seen::{Seen, Timed};
use crate::timing::{
    CROWDING_EVERY_NS, IDLE_NS, POLLER_IDLE_MS, TIMED_AT_FIRST, TIMED_IN_BURST, timed_every,
};
use crate::way::Way;
pub(super) use meter::Meter;

/// What the choice adds to each I/O: 34 instructions, at one in 0.33 ns. Some ten fewer are counted now
/// (docs/auto-evaluation.md).
const CHOICE_NS: f64 = 11.3;
/// Two clock reads of an I/O that is timed.
const TIMING_NS: f64 = 50.0;
/// The end of an epoch: a thread's CPU time is read by a system call, and routes are revised.
const EPOCH_END_NS: f64 = 5e3;
/// A ring is set up, and registers its buffers.
const OPENING_NS: f64 = 200e3;
/// By how much the CPU time of one I/O scatters that does not wait.
const WORK_SCATTERS: f64 = 0.2;
/// The most timed I/Os of an epoch.
const MOST_TIMED: usize = 2048;

/// What was spent, in sums over I/Os.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spent {
    pub(super) ios: u64,
    pub(super) latency_ns: f64,
    pub(super) cpu_ns: f64,
    pub(super) joules: f64,
}

impl Spent {
    /// The mean over I/Os.
    pub(super) fn mean(&self, aim: Aim) -> f64 {
        let sum = match aim {
            Aim::Latency => self.latency_ns,
            Aim::Cpu => self.cpu_ns,
            Aim::IosPerJoule => self.joules,
        };
        sum / self.ios.max(1) as f64
    }

    pub(super) fn add(&mut self, ios: u64, cost: &Cost) {
        self.ios += ios;
        self.latency_ns += ios as f64 * cost.latency_ns;
        self.cpu_ns += ios as f64 * cost.cpu_ns;
        self.joules += ios as f64 * cost.joules;
    }
}

/// Where a run is in its workload.
#[derive(Clone, Copy, Debug)]
struct Place {
    phase: usize,
    /// I/Os that are left of it.
    left: u64,
}

/// A run that goes on.
pub(super) struct Run<'a> {
    truth: &'a Truth,
    workload: &'a Workload,
    pub(super) chooser: Chooser,
    place: Place,
    chance: Chance,
    /// The present phase's cost by the present routes, until one of them changes.
    now: Option<(usize, Vec<Way>, Cost)>,
    /// What was taken before the routes changed.
    before: Option<Vec<Way>>,
    now_ns: f64,
    every: u32,
    crowding_ns: f64,
    /// By engine, when a route led to it last; absent if it is closed.
    used_ns: [Option<f64>; 5],
    poller_until_ns: f64,
    pub(super) spent: Spent,
    /// What was spent when each phase ended.
    ended: Vec<Spent>,
    /// How the bound is kept, if there is one, and in which phases some way keeps it.
    pub(super) breach: Option<(Breach, Vec<bool>)>,
    /// Shares of an I/O that are left of each kind of a phase.
    carried: Vec<f64>,
    ios: [u32; KINDS],
    timings: Timings,
    /// What the machine draws is read, where joules count.
    pub(super) meter: Option<Meter>,
}

impl<'a> Run<'a> {
    pub(super) fn new(truth: &'a Truth, workload: &'a Workload, chooser: Chooser, chance: Chance) -> Run<'a> {
        let timings = Timings::new(chooser.bound_ns());
        Run {
            truth,
            workload,
            chooser,
            place: Place { phase: 0, left: workload.phases[0].ios },
            chance,
            now: None,
            before: None,
            now_ns: 0.0,
            every: if timings.bound_ns.is_some() { 1 } else { TIMED_AT_FIRST },
            crowding_ns: 0.0,
            used_ns: [None; 5],
            poller_until_ns: 0.0,
            spent: Spent::default(),
            ended: Vec::new(),
            breach: None,
            carried: Vec::new(),
            ios: [0; KINDS],
            timings,
            meter: None,
        }
    }

    /// What was spent in the phases that count.
    pub(super) fn spent_in(&self, counts: &[bool]) -> Spent {
        if counts.iter().all(|counts| *counts) {
            return self.spent;
        }
        let (mut sum, mut before) = (Spent::default(), Spent::default());
        for (end, counts) in self.ended.iter().chain([&self.spent]).zip(counts) {
            if *counts {
                sum.ios += end.ios - before.ios;
                sum.latency_ns += end.latency_ns - before.latency_ns;
                sum.cpu_ns += end.cpu_ns - before.cpu_ns;
                sum.joules += end.joules - before.joules;
            }
            before = *end;
        }
        sum
    }

    /// Goes on until so many I/Os have passed in all, or the epoch after that is over.
    pub(super) fn until(&mut self, ios: u64) {
        while self.spent.ios < ios && self.place.left > 0 {
            self.epoch();
        }
    }

    fn epoch(&mut self) {
        let plan = self.chooser.plan();
        self.settle(plan.settle);
        if plan.explores {
            let is_bounded = self.timings.bound_ns.is_some();
            self.every = if is_bounded { 1 } else { self.every.min(TIMED_IN_BURST) };
        }
        self.ios.fill(0);
        let began_ns = self.now_ns;
        let cpu_ns = self.measured(&plan);
        let elapsed_ns = (self.now_ns - began_ns).max(1.0) as u64;
        let crowding = self.crowding();
        let ios: u32 = self.ios.iter().sum();
        self.every = timed_every(ios, elapsed_ns, self.timings.bound());
        let seen = Seen {
            now_ns: self.now_ns as u64,
            elapsed_ns,
            cpu_ns: cpu_ns as u64,
            ios: &self.ios,
            timed: &self.timings.timed,
            crowding,
            joules: self.meter.as_mut().and_then(|meter| meter.read(self.now_ns, self.spent.joules)),
        };
        let shows = |bound_ns: u64| {
            let shows = |kind| shows(&mut seen.latencies(kind, self.chooser.route(kind)), bound_ns);
            seen.kinds().any(|(kind, _)| shows(kind))
        };
        if let (Some(bound_ns), Some((breach, _))) = (self.timings.bound_ns, &mut self.breach) {
            breach.end_epoch(shows(bound_ns));
        }
        self.chooser.epoch(&seen);
        self.lose(EPOCH_END_NS + TIMING_NS * self.timings.timed.len() as f64);
        self.open_and_close();
    }

    /// I/Os of which some end on the engine before, and some begin on the next one: each is as bad as the
    /// worse of the two, and the thread asks both where one must be asked.
    fn settle(&mut self, count: u32) {
        let mut left = u64::from(count);
        self.ios.fill(0);
        while left > 0 && self.place.left > 0 {
            let ios = left.min(self.place.left);
            let cost = self.cost();
            let phase = &self.workload.phases[self.place.phase];
            let before = self.before.as_ref().filter(|before| before.len() == phase.kinds.len());
            let old = before.map(|before| self.truth.cost(phase, before));
            let settling = match (&old, before) {
                (Some(old), Some(before)) => {
                    let asked = |routes: &[Way]| routes.iter().any(|way| way.must_be_asked());
                    let is_shared = old.in_flight.max(cost.in_flight) > 1.0;
                    let spins = is_shared && (asked(before) || asked(&self.routes()));
                    worse(old, &cost, spins)
                }
                _ => cost.clone(),
            };
            self.note_breach(ios, settling.time_ns * ios as f64, &[Some(&cost), old.as_ref()]);
            self.pass(ios, &settling);
            self.count(ios);
            left -= ios;
        }
        self.before = None;
        self.chooser.settled(&self.ios);
    }

    /// Passes the I/Os of an epoch. Returns the thread's CPU time.
    fn measured(&mut self, plan: &Plan) -> f64 {
        self.timings.begin(self.clock_ns());
        if self.timings.bound_ns.is_some() {
            return self.measured_within(plan);
        }
        let (began_ns, mut cpu_ns) = (self.now_ns, 0.0);
        let mut wanted = u64::from(plan.ios);
        let mut until_timed = u64::from(self.every);
        while self.place.left > 0 {
            let ios = wanted.min(self.place.left);
            let cost = self.cost();
            cpu_ns += self.flow(ios, &cost);
            self.time(ios, &cost, &mut until_timed);
            self.count(ios);
            self.lose(CHOICE_NS * ios as f64);
            wanted -= ios;
            if wanted == 0 {
                if self.now_ns - began_ns >= plan.ns as f64 {
                    break;
                }
                wanted = u64::from(plan.ios / 8).max(1);
            }
        }
        cpu_ns
    }

    /// I/Os pass, in about their time. Returns the thread's CPU time.
    fn flow(&mut self, ios: u64, cost: &Cost) -> f64 {
        let own_ns = cost.cpu_ns - cost.poller_ns;
        let (waits, scatters) = (self.scatter(cost, ios), WORK_SCATTERS / (ios as f64).sqrt());
        let busy = if cost.spins { waits } else { 1.0 + scatters * self.chance.normal() };
        self.spent.add(ios, cost);
        self.forward(cost.time_ns * ios as f64 * waits);
        self.note_breach(ios, cost.time_ns * ios as f64 * waits, &[Some(cost)]);
        own_ns * ios as f64 * busy.max(0.5) + CHOICE_NS * ios as f64
    }

    /// Draws the I/Os that are timed: one at a time is.
    fn time(&mut self, ios: u64, cost: &Cost, until_timed: &mut u64) {
        let step = self.step(cost);
        let mut at = *until_timed;
        while at <= ios {
            let timed = self.timed(cost);
            if self.timings.timed.len() < MOST_TIMED {
                self.timings.timed.push(timed);
            }
            at += step;
        }
        *until_timed = at - ios;
    }

    /// I/Os from one that is timed to the next.
    fn step(&self, cost: &Cost) -> u64 {
        u64::from(self.every) * (cost.in_flight as u64).div_ceil(u64::from(self.every)).max(1)
    }

    /// One I/O that is timed.
    fn timed(&mut self, cost: &Cost) -> Timed {
        let phase = &self.workload.phases[self.place.phase];
        let mut share = self.chance.share();
        let is_it = |(_, of): &(Kind, f64)| {
            share -= of;
            share < 0.0
        };
        let place = phase.kinds.iter().position(is_it).unwrap_or(0);
        let (kind, latency) = (phase.kinds[place].0, cost.latencies[place]);
        let drive = self.truth.drive.shape(kind).draw(&mut self.chance).max(latency.slept);
        let latency_ns = (latency.fixed_ns + latency.drive_ns * drive) as u64;
        let in_flight = match phase.load {
            Load::Closed(in_flight) => in_flight,
            // Those in flight besides itself are as in a Poisson process, about.
            Load::Open(_) => {
                let others = cost.in_flight - 1.0;
                1 + (others + others.sqrt() * self.chance.normal()).round().max(0.0) as u32
            }
        };
        Timed { kind, way: self.chooser.route(kind), in_flight, latency_ns }
    }

    /// How the time of so many I/Os comes out, around 1.
    fn scatter(&mut self, cost: &Cost, ios: u64) -> f64 {
        let phase = &self.workload.phases[self.place.phase];
        let of_drive: f64 =
            phase.kinds.iter().zip(&cost.latencies).map(|((_, share), one)| share * one.drive_ns).sum();
        let deviation = match phase.load {
            Load::Closed(_) => {
                let shapes = phase.kinds.iter().map(|(kind, _)| self.truth.drive.shape(*kind));
                shapes.map(Shape::deviation).fold(0.0, f64::max) * of_drive / cost.latency_ns
            }
            Load::Open(_) => 1.0,
        };
        (1.0 + self.chance.normal() * deviation / (ios as f64).sqrt()).max(0.2)
    }

    fn crowding(&mut self) -> Option<Crowding> {
        if self.now_ns < self.crowding_ns {
            return None;
        }
        self.crowding_ns = self.now_ns + CROWDING_EVERY_NS as f64;
        let phase = &self.workload.phases[self.place.phase.min(self.workload.phases.len() - 1)];
        let poller = u32::from(self.has_poller() || self.poller_until_ns > self.now_ns);
        Some(Crowding { runnable: phase.others + 1 + poller, processors: self.truth.cores })
    }

    fn routes(&self) -> Vec<Way> {
        let phase = &self.workload.phases[self.place.phase];
        phase.kinds.iter().map(|(kind, _)| self.chooser.route(*kind)).collect()
    }

    fn has_poller(&self) -> bool {
        let phase = &self.workload.phases[self.place.phase];
        phase.kinds.iter().any(|(kind, _)| self.chooser.route(*kind).has_poller())
    }

    fn cost(&mut self) -> Cost {
        let routes = self.routes();
        if let Some((phase, of, cost)) = &self.now
            && (*phase, of) == (self.place.phase, &routes)
        {
            return cost.clone();
        }
        let cost = self.truth.cost(&self.workload.phases[self.place.phase], &routes);
        self.now = Some((self.place.phase, routes, cost.clone()));
        cost
    }

    fn pass(&mut self, ios: u64, cost: &Cost) {
        self.spent.add(ios, cost);
        self.forward(cost.time_ns * ios as f64);
        self.lose(CHOICE_NS * ios as f64);
    }

    /// Counts I/Os by kind, and goes on in the workload.
    fn count(&mut self, ios: u64) {
        let phase = &self.workload.phases[self.place.phase];
        self.carried.resize(phase.kinds.len(), 0.0);
        let mut rest = ios;
        for (place, (kind, share)) in phase.kinds.iter().enumerate() {
            let due = self.carried[place] + share * ios as f64;
            let whole = if place + 1 == phase.kinds.len() { rest } else { (due.floor() as u64).min(rest) };
            self.carried[place] = due - whole as f64;
            self.ios[kind.index()] += whole as u32;
            rest -= whole;
        }
        self.place.left -= ios;
        if self.place.left == 0 {
            self.ended.push(self.spent);
        }
        if self.place.left == 0 && self.place.phase + 1 < self.workload.phases.len() {
            self.place.phase += 1;
            self.place.left = self.workload.phases[self.place.phase].ios;
            self.carried.clear();
        }
    }

    /// Time goes on; a poller that nobody uses any more still spins for a while.
    fn forward(&mut self, ns: f64) {
        let begin_ns = self.now_ns;
        self.now_ns += ns;
        if self.has_poller() {
            self.poller_until_ns = self.now_ns + 1e6 * f64::from(POLLER_IDLE_MS);
            return;
        }
        let spun_ns = (self.poller_until_ns.min(self.now_ns) - begin_ns).max(0.0);
        self.spent.cpu_ns += spun_ns;
        self.spent.joules += self.truth.power.joules(0.0, spun_ns, 0.0);
    }

    /// Time of the thread in which no I/O is done.
    fn lose(&mut self, ns: f64) {
        self.now_ns += ns;
        self.spent.latency_ns += ns;
        self.spent.cpu_ns += ns;
        self.spent.joules += self.truth.power.joules(ns, ns, 0.0);
    }

    /// Opens the engines that routes lead to, and closes those that none has led to for a while.
    fn open_and_close(&mut self) {
        let routes = self.routes();
        if self.chooser.has_new_routes() {
            self.before = self.now.as_ref().map(|(_, routes, _)| routes.clone());
        }
        for way in routes {
            if self.used_ns[slot_of(way)].replace(self.now_ns).is_none() && way != self.truth.fallback() {
                self.lose(OPENING_NS);
            }
        }
        let now_ns = self.now_ns;
        for used in &mut self.used_ns {
            *used = used.filter(|used| now_ns - used < IDLE_NS as f64);
        }
    }
}

/// The worse of two, by each measure.
fn worse(one: &Cost, other: &Cost, spins: bool) -> Cost {
    let time_ns = one.time_ns.max(other.time_ns);
    let cpu_ns = one.cpu_ns.max(other.cpu_ns);
    Cost {
        latency_ns: one.latency_ns.max(other.latency_ns),
        time_ns,
        cpu_ns: if spins { cpu_ns.max(time_ns) } else { cpu_ns },
        joules: one.joules.max(other.joules),
        ..other.clone()
    }
}
