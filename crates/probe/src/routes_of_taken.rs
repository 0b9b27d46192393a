//! How the completions of a way were found on a drive that was taken, where ways that complete differently
//! took turns: the interrupts and the sleeps that the kernel counted must be those of the ways.

use crate::comparison::Comparison;
use crate::completion_by_counts::MIXED_SHARE;
use crate::completion_by_interrupts::{
    INTERRUPT_SHARE, NO_INTERRUPT, STRAY_INTERRUPTS, interrupts_otherwise, uncounted_of_taken,
};
use crate::quantities::{
    HYBRID_SLEEPS, POLL_SLEEPS, Pollers, in_flight, in_flight_per_vector, interrupts, per_window_round,
    ratio, text,
};
use crate::remedy::Remedy;
use iopj_core::evidence::{EngineEvidence, Evidence};
use iopj_core::path::CompletionMode;
use iopj_core::{Route, Routes, Way};

/// The least I/Os of a try, which changes the way twice.
const LEAST_TRY: u64 = 32;
/// The longest that the driver in this process waits for an interrupt without a look at the drive.
const LONGEST_WAIT_NS: u64 = 100_000_000;
/// The shortest that it waits when something else is due.
const SHORTEST_WAIT_NS: u64 = 1_000_000;

/// The ways of a trial on a drive that was taken.
pub(crate) struct TakenRoutes<'a> {
    pub(crate) evidence: &'a Evidence,
    pub(crate) engine: &'a EngineEvidence,
    pub(crate) routes: &'a Routes,
}

fn interrupts_on(way: Way) -> bool {
    way.completion() == CompletionMode::Interrupt
}

impl TakenRoutes<'_> {
    /// How the completions of a way were found.
    pub(crate) fn completion(&self, route: Route) -> Comparison {
        let mode = route.way.completion();
        match self.explained(route, mode) {
            Err(comparison) => comparison,
            Ok(()) => Comparison::AsAsked(format!("completion by {mode} was seen")),
        }
    }

    fn explained(&self, route: Route, mode: CompletionMode) -> Result<(), Comparison> {
        let all = interrupts(self.evidence)
            .map_err(|name| Comparison::Open(Remedy::Repeat.after(uncounted_of_taken(name))))?;
        if mode == CompletionMode::Interrupt {
            return self.interrupted(all);
        }
        self.without_interrupt(all)?;
        self.slept(route, mode)
    }

    /// Whether there are enough interrupts for what went by the way that interrupts.
    fn interrupted(&self, all: u64) -> Result<(), Comparison> {
        let ios = self.routes.ios_by(interrupts_on);
        let figures = format!("{all} interrupts in the window, where the way that interrupts had {ios} I/Os");
        let most = all.saturating_mul(in_flight(self.evidence)) as f64;
        if most <= NO_INTERRUPT * ios as f64 {
            return Err(Comparison::Other(figures));
        }
        let at_once = in_flight_per_vector(self.evidence);
        if (all.saturating_mul(at_once) as f64) < INTERRUPT_SHARE * ios as f64 {
            let why = format!("{figures}, with up to {at_once} of them in flight on a vector");
            return Err(Comparison::Open(Remedy::ShallowQueue.after(why)));
        }
        Ok(())
    }

    /// What is no read or write has no route, and may interrupt.
    fn unrouted(&self) -> u64 {
        self.evidence.syncs + self.evidence.discards
    }

    /// Whether the interrupts are those of the way that interrupts, and the drive does interrupt.
    fn without_interrupt(&self, all: u64) -> Result<(), Comparison> {
        let ios = self.routes.ios_by(interrupts_on);
        if all > ios + self.unrouted() + self.late() + self.slack() {
            let why = format!("{all} interrupts in the window, where the way that interrupts had {ios} I/Os");
            return Err(Comparison::Other(why));
        }
        match interrupts_otherwise(self.evidence) {
            Err((reason, remedy)) if ios <= self.slack() => Err(Comparison::Open(remedy.after(reason))),
            _ => Ok(()),
        }
    }

    /// Whether the sleeps are those of the ways: waits for interrupts, and sleeps before polls.
    fn slept(&self, route: Route, mode: CompletionMode) -> Result<(), Comparison> {
        let open = |why: String, remedy: Remedy| Err(Comparison::Open(remedy.after(why)));
        let Some((calls, before_polls)) = self.engine.system_calls.zip(self.engine.sleeps) else {
            return open("the engine did not count its sleeps".to_owned(), Remedy::Report);
        };
        let (waits, ios) = (calls.saturating_sub(before_polls), self.routes.ios_by(interrupts_on));
        // Under an open load a wait ends when the next I/O is due, too.
        let longest_ns = if self.evidence.pace.is_some() { SHORTEST_WAIT_NS } else { LONGEST_WAIT_NS };
        let looks = self.evidence.window_ns / longest_ns * u64::from(self.evidence.numjobs.max(1));
        if waits > ios + self.unrouted() + self.late() + looks + self.slack() {
            let why = format!("{waits} waits for interrupts, where the way that interrupts had {ios} I/Os");
            return open(why, Remedy::Report);
        }
        let slept = Pollers::of(self.evidence).sleeps.least;
        // A thread may sleep while its vector is switched on or off.
        let beyond = slept.saturating_sub(waits + before_polls + self.changes());
        let polled = self.routes.ios_by(|way| !interrupts_on(way));
        if self.per_round(beyond, polled) >= POLL_SLEEPS {
            let why = format!(
                "{slept} sleeps, where the engine waited {waits} times for an interrupt and slept \
                 {before_polls} times before it polled"
            );
            return open(why, Remedy::Repeat);
        }
        let per_round = self.per_round(before_polls.min(slept), route.ios);
        if mode == CompletionMode::Hybrid && per_round < HYBRID_SLEEPS {
            let why = format!(
                "{} sleeps per round of this way: as if it polled, for it found something complete at most \
                 looks",
                text(per_round)
            );
            return open(why, Remedy::Repeat);
        }
        Ok(())
    }

    /// A count per round of so many I/Os of the window: one of each that a job keeps in flight.
    fn per_round(&self, count: u64, ios: u64) -> f64 {
        per_window_round(self.evidence, count) * ratio(self.evidence.ios(), ios)
    }

    /// I/Os that can have completed after the way that they went was left: what was in flight at changes of
    /// the way, and the interrupt that was pending.
    fn late(&self) -> u64 {
        self.changes().saturating_mul(u64::from(self.evidence.iodepth) + 1)
    }

    /// The most changes of the way, each of which masks the vector or unmasks it.
    fn changes(&self) -> u64 {
        let tries = self.routes.explored.div_ceil(LEAST_TRY);
        self.routes.switches + 2 * tries + u64::from(self.evidence.numjobs)
    }

    fn slack(&self) -> u64 {
        (MIXED_SHARE * self.evidence.ios() as f64) as u64 + STRAY_INTERRUPTS
    }
}
