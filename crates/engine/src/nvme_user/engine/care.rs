//! What the engine does beside I/O: looks at the controller, ages commands, and ends.

use super::{EngineEnd, NvmeUser};
use crate::drain::{Drained, drain};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::nvme_user::flights::Flight;
use crate::nvme_user::registers::ControllerEnd;
use crate::request::{Completion, IoError};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Looks at the commands in flight per look at the controller, while completions keep coming.
const LOOKS: u32 = 16;

/// A command in flight ages this many times within the time limit; an older one is aborted.
const AGES: u32 = 10;

impl NvmeUser {
    /// Checks the commands in flight, and from time to time the controller, while completions come.
    #[cold]
    pub(super) fn look_after(&mut self) {
        self.until_look = self.look_every;
        self.age();
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(LOOKS) {
            self.finished = self.held.controller.look().map(EngineEnd::Ended);
        }
        if self.asked_back.load(Ordering::Relaxed) {
            self.finished = Some(EngineEnd::AskedBack);
        }
    }

    /// Ages the commands in flight, [`AGES`] times within the time limit. Aborts those that are older and, if
    /// that does not help in time, resets the controller.
    #[cold]
    pub(super) fn age(&mut self) {
        let controller = &self.held.controller;
        let (limits, now) = (controller.limits, Instant::now());
        if now < self.next_age {
            return;
        }
        // They age once, however late this is: a process that was stopped for a minute must not think that a
        // command hangs.
        let period = limits.command / AGES;
        self.next_age = now + period;
        let old = self.flights.grow_older(AGES);
        let after_abort = limits.abort.div_duration_f64(period).ceil() as u32;
        if old.iter().any(|(_, age)| *age > AGES + 1 + after_abort) {
            controller.reset(ControllerEnd::Late);
        }
        for (id, _) in old.iter().filter(|(_, age)| *age == AGES + 1) {
            controller.abort(self.held.pair.id, *id);
        }
        self.finished = controller.end().map(EngineEnd::Ended);
    }

    #[cold]
    pub(in crate::nvme_user) fn finish_error(&self, finish: EngineEnd) -> EngineError {
        match finish {
            EngineEnd::Ended(end) => self.held.controller.end_error(end),
            EngineEnd::AskedBack => self.held.controller.asked_back_error(),
        }
    }

    /// The error that the engine ended with, if it has.
    pub(in crate::nvme_user) fn ended(&self) -> Option<EngineError> {
        self.finished.map(|finish| self.finish_error(finish))
    }

    /// After the controller's end: completes what is in flight with errors, then returns the error that says
    /// why.
    #[cold]
    pub(super) fn give_up<S: FnMut(Completion)>(
        &mut self,
        finish: EngineEnd,
        sink: &mut S,
    ) -> Result<usize, EngineError> {
        let EngineEnd::Ended(end) = finish else { return Err(self.finish_error(finish)) };
        let found = self.take_late(sink);
        if found > 0 {
            return Ok(found); // these had completed before
        }
        let controller = &self.held.controller;
        if self.in_flight() == 0 || !controller.has_stopped() {
            return Err(controller.end_error(end));
        }
        let ids = self.flights.ids();
        for id in &ids {
            if let Some(Flight { tag, .. }) = self.flights.end(*id) {
                let completion = self.complete(*id, tag, Err(IoError::Os(end.errno())));
                sink(completion);
            }
        }
        Ok(ids.len())
    }

    /// Nothing came for a while: checks the controller, rings again, and checks what is in flight.
    #[cold]
    pub(super) fn quiet(&mut self) {
        if self.asked_back.load(Ordering::Relaxed) {
            self.finished = Some(EngineEnd::AskedBack);
            return;
        }
        self.finished = self.held.controller.look().map(EngineEnd::Ended);
        if self.finished.is_none() && self.in_flight() > 0 {
            self.held.pair.ring_if_behind();
            self.age();
        }
    }

    /// Ends the engine; what has not ended by `until` is leaked. Returns how many that are.
    pub(super) fn end(&mut self, until: Instant) -> usize {
        if std::mem::replace(&mut self.is_closed, true) || self.held.is_parents() {
            return 0;
        }
        // Commands that the controller has not seen are taken back: a write that was only pushed does not
        // happen.
        let mut taken_back = Vec::new();
        self.held.pair.submission.take_back(|id| taken_back.push(id));
        taken_back.into_iter().for_each(|id| self.forget(id));
        drain(until, |_| {
            if self.flights.count() == 0 || self.held.controller.end().is_some() {
                return Drained::Empty;
            }
            while let Some(entry) = self.held.pair.completion.next() {
                self.forget(entry.id);
            }
            self.held.pair.completion.release();
            self.held.pair.ring_if_behind();
            std::thread::yield_now();
            Drained::Pending
        });
        // The next engine on this pair finds its vector armed.
        let _ = self.arm(true);
        // Deleting the queues ends what is still in flight; where that fails the controller may still write
        // into the pool.
        if self.held.controller.delete_pair(self.held.pair.id) {
            self.flights.ids().into_iter().for_each(|id| self.forget(id));
            self.held.release();
        }
        self.flights.count()
    }

    /// Ends a command whose completion nobody gets.
    pub(super) fn forget(&mut self, id: u16) {
        if let Some(Flight { tag, .. }) = self.flights.end(id) {
            drop(self.complete(id, tag, Ok(0)));
        }
    }
}
