//! How long to sleep before polling: learnt per kind of request, from nothing but whether the sleep was too
//! long.
//!
//! The rule is that of PAS, the per-I/O adaptive sleep of DPAS ("DPAS: A Prompt, Accurate and Safe I/O
//! Completion Method for SSDs", FAST '26), with its constants: if the first poll after the sleep finds the
//! completion, the thread slept too long, else too briefly. Two alike in a row speed the change up, a turn
//! sets it back to one step; a step down is ten times a step up. PAS runs in the kernel, per processor; this
//! is one table for a thread, and the time that `clock_nanosleep` takes beyond what it was asked for is
//! measured apart and subtracted. Above one request in flight, what is learnt is the time to the next
//! completion.

use crate::clock::Clock;
use crate::key::{KINDS, Kind};
use std::time::Duration;

/// A step up, as a share of the sleep.
const UP: f64 = 0.01;
/// A step down.
const DOWN: f64 = 0.1;
/// Where a sleep begins, and what it never falls below, in ns.
const LEAST_NS: f64 = 100.0;
/// No sleep is longer, in ns: a drive that stalls once is not slept through for ever.
const MOST_NS: f64 = 10_000_000.0;
/// Sleeps whose oversleep is averaged.
const SLEEPS: f64 = 16.0;
/// Waits that do not sleep after one that woke up too late though it asked for almost nothing.
const PAUSE: u32 = 256;

#[derive(Clone, Copy, Debug)]
struct Learnt {
    /// From submission to waking up, in ns.
    sleep_ns: f64,
    /// What it is multiplied by next.
    factor: f64,
    overslept: bool,
    /// Waits before the next that may sleep.
    pause: u32,
}

/// The sleeps of one thread.
#[derive(Debug)]
pub(crate) struct Sleeper {
    kinds: [Learnt; KINDS],
    /// Mean time that a sleep takes beyond what it was asked for.
    oversleep_ns: f64,
    pub(crate) sleeps: u64,
    /// The thread's timer slack, where it was changed.
    slack: Option<u64>,
}

impl Sleeper {
    pub(crate) fn new() -> Sleeper {
        let learnt = Learnt { sleep_ns: LEAST_NS, factor: 1.0, overslept: false, pause: 0 };
        Sleeper { kinds: [learnt; KINDS], oversleep_ns: 0.0, sleeps: 0, slack: None }
    }

    /// Sleeps for what was learnt of `kind`, or not where waking up alone takes as long. False if the wait
    /// teaches nothing. No sleep is longer than `most`.
    pub(crate) fn sleep(&mut self, kind: Kind, most: Option<Duration>, clock: &impl Clock) -> bool {
        let learnt = &mut self.kinds[kind.index()];
        if learnt.pause > 0 {
            learnt.pause -= 1;
            return false;
        }
        let asked_ns = (learnt.sleep_ns - self.oversleep_ns).floor();
        if asked_ns < 1.0 {
            return true;
        }
        if most.is_some_and(|most| most.as_nanos() < asked_ns as u128) {
            return false;
        }
        if self.slack.is_none() {
            self.slack = clock.keep_fine_time();
        }
        let began_ns = clock.now_ns();
        clock.sleep(asked_ns as u64);
        self.sleeps += 1;
        let over_ns = clock.now_ns().saturating_sub(began_ns) as f64 - asked_ns;
        self.oversleep_ns += (over_ns.max(0.0) - self.oversleep_ns) / SLEEPS;
        true
    }

    /// Learns from the first poll after a sleep: whether it found a completion.
    pub(crate) fn learn(&mut self, kind: Kind, overslept: bool) {
        let learnt = &mut self.kinds[kind.index()];
        learnt.factor = match (learnt.overslept, overslept) {
            (false, false) => learnt.factor + UP,
            (false, true) => 1.0 - DOWN,
            (true, false) => 1.0 + UP,
            (true, true) => learnt.factor - DOWN,
        };
        if learnt.factor <= 0.0 {
            learnt.factor = 1.0;
        }
        if overslept && learnt.sleep_ns < 1.5 * self.oversleep_ns {
            learnt.pause = PAUSE;
        }
        learnt.overslept = overslept;
        learnt.sleep_ns = (learnt.sleep_ns * learnt.factor).clamp(LEAST_NS, MOST_NS);
    }

    /// Gives the thread its usual timer slack back.
    pub(crate) fn rest(&mut self, clock: &impl Clock) {
        if let Some(before) = self.slack.take() {
            clock.keep_usual_time(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Crowding;
    use crate::key::Direction;
    use std::cell::Cell;

    /// A clock whose sleeps take 3 us longer than they should.
    struct Late(Cell<u64>);

    impl Clock for Late {
        fn now_ns(&self) -> u64 {
            self.0.get()
        }

        fn cpu_ns(&self) -> u64 {
            0
        }

        fn sleep(&self, ns: u64) {
            self.0.set(self.0.get() + ns + 3_000);
        }

        fn crowding(&self) -> Option<Crowding> {
            None
        }
    }

    /// Waits for `ios` I/Os of `latency_ns`; returns the mean time between waking up and completion (negative
    /// if too late) over the last half.
    fn run(sleeper: &mut Sleeper, latency_ns: u64, ios: u32) -> f64 {
        let kind = Kind::new(Direction::Read, 4096);
        let clock = Late(Cell::new(0));
        let mut early = Vec::new();
        for _ in 0..ios {
            let began = clock.now_ns();
            let teaches = sleeper.sleep(kind, None, &clock);
            let slept = clock.now_ns() - began;
            if teaches {
                sleeper.learn(kind, slept >= latency_ns);
            }
            early.push(latency_ns as f64 - slept as f64);
        }
        let half = early.split_off(early.len() / 2);
        half.iter().sum::<f64>() / half.len() as f64
    }

    #[test]
    fn a_sleep_ends_near_the_completion_whatever_waking_up_takes() {
        let mut sleeper = Sleeper::new();
        for latency_ns in [80_000, 20_000, 200_000] {
            let early = run(&mut sleeper, latency_ns, 2_000) / latency_ns as f64;
            assert!(early.abs() < 0.1, "{early} of {latency_ns} ns before the completion");
        }
        assert!((sleeper.oversleep_ns - 3_000.0).abs() < 1.0, "{}", sleeper.oversleep_ns);
    }

    #[test]
    fn what_completes_before_a_sleep_could_end_is_not_slept_for() {
        let mut sleeper = Sleeper::new();
        run(&mut sleeper, 2_000, 4_000);
        let before = sleeper.sleeps;
        run(&mut sleeper, 2_000, 1_000);
        assert!(sleeper.sleeps - before < 100, "{} of 1000 slept", sleeper.sleeps - before);
    }

    #[test]
    fn the_steps_are_those_of_the_paper() {
        let kind = Kind::new(Direction::Write, 512);
        let mut sleeper = Sleeper::new();
        sleeper.kinds[kind.index()].sleep_ns = 10_000.0;
        let mut factors = Vec::new();
        for overslept in [false, false, true, true, false] {
            sleeper.learn(kind, overslept);
            factors.push((sleeper.kinds[kind.index()].factor * 100.0).round() as u32);
        }
        assert_eq!(factors, [101, 102, 90, 80, 101]);
        for _ in 0..100 {
            sleeper.learn(kind, true);
        }
        assert_eq!(sleeper.kinds[kind.index()].sleep_ns, LEAST_NS);
    }
}
