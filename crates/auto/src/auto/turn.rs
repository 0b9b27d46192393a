//! The end of an epoch: what it showed goes to the chooser, and the routes that come of it are adopted.

use super::{Auto, Memo};
use crate::chooser::Plan;
use crate::clock::Clock;
use crate::engines::{SLOTS, slot_of};
use crate::key::{KINDS, Kind};
use crate::seen::Seen;
use crate::timing::{
    CROWDING_EVERY_NS, IDLE_NS, TIMED_AT_FIRST, TIMED_IN_BURST, TIMED_OFTEN_NEAR, timed_every,
};
use crate::way::Way;
use std::time::{Duration, Instant};

/// Time in which an engine without requests ends.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// The epoch that runs.
pub(super) struct Epoch {
    ios: [u32; KINDS],
    /// Requests until one is timed, and between two of them.
    until_timed: u32,
    every: u32,
    /// What `until_timed` was when requests were counted last.
    counted_at: u32,
    /// Those since then that are like the second one that is remembered.
    seconds: u32,
    plan: Plan,
    is_settling: bool,
    opened_ns: u64,
    began_ns: u64,
    began_cpu_ns: u64,
    /// When idle engines are looked for next.
    idle_ns: u64,
    /// When threads are counted next.
    crowding_ns: u64,
    /// By engine, when a route led to it last.
    used_ns: [u64; SLOTS],
}

impl Epoch {
    pub(super) fn new(now_ns: u64, is_bounded: bool) -> Epoch {
        Epoch {
            ios: [0; KINDS],
            until_timed: 1,
            counted_at: 1,
            seconds: 0,
            every: if is_bounded { 1 } else { TIMED_AT_FIRST },
            plan: Plan { settle: 0, ios: 0, ns: 0, explores: false },
            is_settling: false,
            opened_ns: now_ns,
            began_ns: now_ns,
            began_cpu_ns: 0,
            idle_ns: 0,
            crowding_ns: 0,
            used_ns: [now_ns; SLOTS],
        }
    }

    /// Counts down to the next request that is to be timed; true if this is it. [`Epoch::settle`] counts the
    /// requests by what is left.
    #[inline(always)]
    pub(super) fn count(&mut self) -> bool {
        self.until_timed -= 1;
        self.until_timed == 0
    }

    /// Counts a request as one like the second that is remembered.
    #[inline(always)]
    pub(super) fn count_second(&mut self) {
        self.seconds += 1;
    }

    /// Counts it no more: it was refused.
    pub(super) fn discount_second(&mut self) {
        self.seconds -= 1;
    }

    /// Counts the requests that were pushed since this was called last, all like those that are remembered.
    pub(super) fn settle(&mut self, memo: &Memo) {
        self.ios[memo.second_kind.index()] += self.seconds;
        self.ios[memo.kind.index()] += self.counted_at - self.until_timed - self.seconds;
        (self.counted_at, self.seconds) = (self.until_timed, 0);
    }

    /// Counts down anew: soon, if the bound has come near in this epoch.
    pub(super) fn time_again(&mut self, is_near: bool) {
        let every = if is_near { self.every.min(TIMED_OFTEN_NEAR) } else { self.every };
        (self.until_timed, self.counted_at, self.seconds) = (every, every, 0);
    }

    /// Requests that were pushed since [`Epoch::settle`] was called last: of the latest kind, or of the
    /// second, which goes the same way.
    pub(super) fn unsettled(&self) -> u32 {
        self.counted_at - self.until_timed
    }

    /// Requests that were pushed in it, of some kinds.
    pub(super) fn pushed_by(&self, is_one: impl Fn(Kind) -> bool) -> u32 {
        Kind::all().filter(|kind| is_one(*kind)).map(|kind| self.ios[kind.index()]).sum()
    }

    /// A time of the clock, in ns since the engine was opened.
    pub(super) fn at_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.opened_ns)
    }
}

impl<C: Clock> Auto<C> {
    /// Ends the epoch, if it is over.
    #[cold]
    #[inline(never)]
    pub(super) fn turn(&mut self) {
        if self.is_held {
            self.is_due = true;
            self.watch.put_off();
            return;
        }
        let now_ns = self.watch.clock.now_ns();
        self.epoch.settle(&self.memo);
        if self.epoch.is_settling {
            self.carry_refusals();
            self.chooser.settled(&self.epoch.ios);
            return self.measure_from(now_ns);
        }
        let elapsed_ns = now_ns.saturating_sub(self.epoch.began_ns);
        if !self.watch.timings.end_epoch(&self.epoch.plan, elapsed_ns) {
            return self.watch.end_after(self.epoch.plan.ios / 8);
        }
        self.carry_refusals();
        let at_ns = self.epoch.at_ns(now_ns);
        let counts_threads = at_ns >= self.epoch.crowding_ns;
        if counts_threads {
            self.epoch.crowding_ns = at_ns + CROWDING_EVERY_NS;
        }
        let seen = Seen {
            now_ns: at_ns,
            elapsed_ns,
            cpu_ns: self.watch.clock.cpu_ns().saturating_sub(self.epoch.began_cpu_ns),
            ios: &self.epoch.ios,
            timed: &self.watch.timings.timed,
            crowding: if counts_threads { self.watch.clock.crowding() } else { None },
            joules: if counts_threads && self.chooser.asks_meter() {
                self.watch.clock.joules()
            } else {
                None
            },
        };
        self.epoch.every =
            timed_every(self.epoch.pushed_by(|_| true), elapsed_ns, self.watch.timings.bound());
        self.chooser.epoch(&seen);
        if self.chooser.has_new_routes() {
            self.adopt_routes();
        }
        if now_ns >= self.epoch.idle_ns {
            self.epoch.idle_ns = now_ns + IDLE_NS / 8;
            self.close_idle(now_ns);
        }
        self.begin_epoch();
    }

    /// Begins an epoch as the chooser wants it.
    pub(super) fn begin_epoch(&mut self) {
        self.epoch.plan = self.chooser.plan();
        self.measure_from(self.watch.clock.now_ns());
        let settle = self.epoch.plan.settle;
        if settle > 0 {
            self.epoch.is_settling = true;
            self.watch.end_after(settle);
        }
    }

    /// Begins to count and to measure.
    fn measure_from(&mut self, now_ns: u64) {
        let epoch = &mut self.epoch;
        if epoch.plan.explores {
            epoch.every =
                if self.watch.timings.bound_ns.is_some() { 1 } else { epoch.every.min(TIMED_IN_BURST) };
        }
        epoch.is_settling = false;
        epoch.time_again(false);
        epoch.ios.fill(0);
        (epoch.began_ns, epoch.began_cpu_ns) = (now_ns, self.watch.clock.cpu_ns());
        self.watch.end_after(epoch.plan.ios);
        self.watch.timings.begin(now_ns);
    }

    /// Adopts the chooser's routes. A way whose engine cannot be opened is left for good.
    pub(super) fn adopt_routes(&mut self) {
        let mut wanted = self.routes_wanted();
        while let Some(way) = wanted.pop() {
            if let Err(error) = self.engines.make_ready(way) {
                let now_ns = self.epoch.at_ns(self.watch.clock.now_ns());
                self.chooser.fail(way, &error.to_string(), now_ns);
                wanted = self.routes_wanted();
                wanted.retain(|other| *other != way);
            }
        }
        let now_ns = self.watch.clock.now_ns();
        for kind in Kind::all() {
            self.epoch.used_ns[slot_of(self.routes[kind.index()])] = now_ns;
            self.routes[kind.index()] = self.chooser.route(kind);
            self.epoch.used_ns[slot_of(self.routes[kind.index()])] = now_ns;
        }
        self.memo.forget();
        self.is_fresh = true;
    }

    /// The ways that any kind is routed to.
    fn routes_wanted(&self) -> Vec<Way> {
        let mut ways: Vec<Way> = Kind::all().map(|kind| self.chooser.route(kind)).collect();
        ways.sort_unstable();
        ways.dedup();
        ways
    }

    /// Closes the engines that no route has led to for a while.
    fn close_idle(&mut self, now_ns: u64) {
        let wanted = self.routes_wanted();
        for slot in 0..SLOTS {
            let is_wanted = wanted.iter().any(|way| slot_of(*way) == slot) || slot == slot_of(self.fallback);
            if is_wanted || self.engines.in_flight_at(slot) > 0 {
                self.epoch.used_ns[slot] = now_ns;
            } else if self.engines.at(slot).is_open()
                && now_ns.saturating_sub(self.epoch.used_ns[slot]) >= IDLE_NS
            {
                // Nothing is in flight, so nothing can be left.
                let _ = self.engines.close(slot, Instant::now() + CLOSE_LIMIT);
            }
        }
        if !wanted.contains(&Way::SleepPoll) && self.is_plain {
            self.sleeper.rest(&self.watch.clock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_engine::Op;

    #[test]
    fn requests_of_two_kinds_that_take_turns_are_counted_apart() {
        let (read, write) = (Kind::of(Op::Read, 4096), Kind::of(Op::Write, 512));
        let mut memo = Memo::of(Memo::what(Op::Read, 4096), read, Way::Interrupt);
        memo.second_kind = write;
        let mut epoch = Epoch::new(0, false);
        epoch.time_again(false);
        for number in 0..7 {
            if number % 3 == 0 {
                epoch.count_second();
            }
            epoch.count();
        }
        // One more that is refused.
        epoch.count_second();
        epoch.discount_second();
        epoch.settle(&memo);
        epoch.settle(&memo);
        assert_eq!((epoch.ios[read.index()], epoch.ios[write.index()]), (4, 3));
    }

    #[test]
    fn a_bound_that_comes_near_is_looked_at_more_often_at_once() {
        let mut epoch = Epoch::new(0, true);
        epoch.every = 64;
        epoch.time_again(false);
        assert_eq!((0..64).filter(|_| epoch.count()).count(), 1);
        epoch.time_again(true);
        assert_eq!((0..3).filter(|_| epoch.count()).count(), 0);
        assert!(epoch.count());
    }
}
