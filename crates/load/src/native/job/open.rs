//! The loop of a job under an open load, or a trace.
//!
//! An I/O is issued when it is due, or as soon as fewer than `iodepth` are in flight; its latency runs from
//! when it was due. With nothing in flight the job passes the time as its path does; else it waits for a
//! completion or the next arrival, whichever comes first, in one call of the engine.

use super::{LoopOn, LoopState};
use crate::native::Limit;
use crate::native::slices::Begin;
use crate::trace::Op;
use iopj_engine::{Buffers, Completion, Engine, EngineError, IoError, Request};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Of its time, what a run may take longer to issue all that was due in it.
const GRACE: u32 = 10;

impl<'a, E: Engine> LoopOn<'a, E> {
    /// [`Job::run`](super::Job::run) for arrivals.
    #[inline(never)]
    pub(super) fn run_open(
        &mut self,
        limit: Limit,
        begin: &Begin,
        stop: [&'a AtomicBool; 2],
    ) -> Result<(), EngineError> {
        self.state.start_open(limit, begin, stop);
        let depth = self.state.workload.iodepth as usize;
        loop {
            let now = self.state.seen();
            self.issue_due(now)?;
            if self.state.free.len() < depth {
                self.wait_open()?;
            } else if !self.state.idle() {
                break;
            }
        }
        self.state.finish_open();
        Ok(())
    }

    /// Issues what is due, `iodepth_batch_submit` at a time; the last batch is submitted by the wait.
    #[inline]
    fn issue_due(&mut self, mut now: u64) -> Result<(), EngineError> {
        let LoopState { clock, offsets, sizes, batch_submit, free, left, most, pace, tally, .. } =
            &mut self.state;
        let (Some(pace), Some(open)) = (pace, &mut tally.open) else { return Ok(()) };
        if let Some(ticks) = pace.behind(clock, now) {
            open.behind_ns = clock.ns_between(0, ticks);
        }
        let mut batch_left = *batch_submit;
        while !free.is_empty() {
            // A flush comes before what would be issued next.
            let flush = sizes.flush();
            if flush.is_none() && (*left == 0 || pace.due(clock) > now) {
                break;
            }
            if batch_left == 0 {
                self.engine.submit()?;
                (now, batch_left) = (clock.now(), *batch_submit);
            }
            let drawn = || {
                let (write, offset) = offsets.next();
                sizes.piece(write, offset)
            };
            let taken = match flush {
                Some(piece) => pace.take_off_at_once(now, piece),
                None => pace.take_off(now, drawn),
            };
            let (Some(buffer), Some((number, flight, piece))) = (free.pop(), taken) else { break };
            let operation = pace.operation(piece, buffer);
            self.engine.push(Request { operation, tag: number.into() })?;
            batch_left -= 1;
            if flush.is_some() {
                continue;
            }
            open.issued(&flight, clock.ns_between(flight.due, flight.issued));
            *left -= 1;
            if flight.op.is_write() {
                sizes.wrote();
            }
        }
        self.progress.0.store(*most - *left, Ordering::Relaxed);
        Ok(())
    }

    /// Waits for completions until the next I/O is due and can be issued.
    #[inline]
    fn wait_open(&mut self) -> Result<(), EngineError> {
        let state = &mut self.state;
        let in_flight = state.workload.iodepth as usize - state.free.len();
        let least = state.workload.iodepth_batch_complete_min as usize;
        let least = if state.running { least.min(in_flight) } else { 1 };
        let until = state.next_arrival();
        let mut now = 0;
        self.engine.wait(least, until, |Completion { tag, result, buffers }| {
            state.take_back_open(buffers);
            if now == 0 {
                now = state.seen();
            }
            state.record_open(tag, result, now);
        })?;
        Ok(())
    }
}

impl<'a> LoopState<'a> {
    fn start_open(&mut self, limit: Limit, begin: &Begin, stop: [&'a AtomicBool; 2]) {
        let with_grace = |time: Duration| time.saturating_add(time / GRACE);
        let is_timed = self.pace.as_ref().is_some_and(|pace| !pace.is_timeless);
        let (time, limit) = match limit {
            limit if !is_timed => (None, limit),
            Limit::Time(time) => (Some(time), Limit::Time(with_grace(time))),
            Limit::Either(time, ios) => (Some(time), Limit::Either(with_grace(time), ios)),
            Limit::Ios(ios) => (None, Limit::Ios(ios)),
        };
        self.start(limit, begin, stop);
        if let Some(pace) = &mut self.pace {
            pace.start(&self.clock, self.tally.first_ns, time);
        }
    }

    /// Until when to wait for a completion: an arrival that can be issued then. None while the queue is full,
    /// or if nothing more is due.
    fn next_arrival(&mut self) -> Option<std::time::Instant> {
        let pace = self.pace.as_mut()?;
        if self.left == 0 || self.free.is_empty() {
            return None;
        }
        let due = pace.due(&self.clock);
        (due < u64::MAX).then(|| pace.instant(&self.clock, due))
    }

    /// Nothing is in flight: passes the time until the next arrival, or until the time is over. False if the
    /// run has ended.
    fn idle(&mut self) -> bool {
        let Some(pace) = &mut self.pace else { return false };
        if !self.running {
            return false;
        }
        let due = if self.left > 0 { pace.due(&self.clock) } else { u64::MAX };
        let until = match due {
            u64::MAX if pace.end == u64::MAX || self.last >= pace.end => return false,
            due => due.min(pace.end),
        };
        let slept = pace.idle_until(&self.clock, until.min(self.next_event));
        if let (Some(slept_ns), Some(open)) = (slept, &mut self.tally.open) {
            open.slept(slept_ns);
        }
        true
    }

    fn finish_open(&mut self) {
        let LoopState { pace, tally, clock, last, .. } = self;
        if let (Some(pace), Some(open)) = (pace, &mut tally.open) {
            if pace.end == u64::MAX {
                open.behind_ns = open.last_lag_ns;
            } else if *last >= pace.end {
                // Else it was stopped, and there is no saying what would have been issued.
                open.unissued = pace.unissued(clock);
            }
        }
        self.finish();
    }

    /// Counts a completion that the clock read at `now` has seen.
    #[inline(always)]
    fn record_open(&mut self, tag: u64, result: Result<u32, IoError>, now: u64) {
        let Some(flight) = self.pace.as_mut().and_then(|pace| pace.land(tag)) else { return };
        let latency_ns = self.clock.ns_between(flight.due, now);
        match (flight.op, result, &mut self.tally.open) {
            (op, Ok(bytes), Some(open)) if op.transfers() && bytes == flight.len => {
                open.complete(bytes, self.clock.ns_between(flight.issued, now));
                self.tally.record(op.is_write(), latency_ns);
            }
            (Op::Flush | Op::Fsync, Ok(_), Some(open)) => open.synced(latency_ns),
            (Op::Discard, Ok(_), Some(open)) => open.discards += 1,
            (op, odd, _) => self.record_odd(op != Op::Read, odd),
        }
    }

    /// Takes a buffer back, also that of an operation without one.
    #[inline(always)]
    fn take_back_open(&mut self, buffers: Buffers) {
        match (buffers, &mut self.pace) {
            (Buffers::None, Some(pace)) => {
                if let Some(buffer) = pace.give_back() {
                    self.take_back(Buffers::One(buffer));
                }
            }
            (buffers, _) => self.take_back(buffers),
        }
    }
}
