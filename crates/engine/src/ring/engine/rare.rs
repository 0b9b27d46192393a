//! What an engine on a ring seldom does: requests that are no ordinary transfers, and its end.

use super::RingEngine;
use crate::drain::{Drained, drain};
use crate::error::{EngineError, Refused};
use crate::rare::RARE;
use crate::request::{Completion, Op, Request};
use crate::ring::entry::EntryFormat;
use crate::ring::setup::forget_registration;
use linux_raw_sys::io_uring as sys;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

#[expect(private_bounds, reason = "the two formats are those of this crate")]
impl<F: EntryFormat> RingEngine<F> {
    /// Queues a transfer that can be, in an entry that may have held a rare request. Apart as a whole: across
    /// a call, what was pushed would have to be kept.
    #[cold]
    #[inline(never)]
    pub(super) fn push_prepared(&mut self, request: Request) {
        let entry = self.next_entry();
        self.prepare_again(entry);
        self.queue(request);
    }

    fn prepare_again(&mut self, entry: NonNull<sys::io_uring_sqe>) {
        let place = self.held.ring.sq.place();
        if let Some(at) = self.unprepared.iter().position(|other| *other == place) {
            self.unprepared.swap_remove(at);
            // SAFETY: the entry is the next one, whole, and the kernel does not look at it until it is
            // published.
            unsafe {
                entry.cast::<u8>().write_bytes(0, F::ENTRY_LEN);
                self.format.prepare(entry, self.base);
            }
        }
    }

    /// Queues a request that is not an ordinary transfer, or refuses it.
    #[cold]
    #[inline(never)]
    pub(super) fn push_rare(&mut self, request: Request) -> Result<(), Refused> {
        if let Err(error) = self.admit_rare(&request) {
            return Err(Refused::new(request, error));
        }
        let extra = match self.format.extra(&request.operation) {
            Ok(extra) => extra,
            Err(error) => return Err(Refused::new(request, error)),
        };
        let (entry, place) = (self.next_entry(), self.held.ring.sq.place());
        if !self.unprepared.contains(&place) {
            self.unprepared.push(place);
        }
        // SAFETY: as in `push`. What the entry points to lives in the buffers and in `extra`, whose place
        // does not change when it moves into the table: it holds its contents by address.
        unsafe {
            entry.cast::<u8>().write_bytes(0, F::ENTRY_LEN);
            self.format.rare(entry, &request.operation, &extra, self.base);
            let (id, _) = self.held.rare.start(request, extra);
            (*entry.as_ptr()).user_data = id;
        }
        self.entry_taken();
        Ok(())
    }

    /// Only what is no ordinary transfer passes: `push` takes those, so one that comes here is refused.
    fn admit_rare(&self, request: &Request) -> Result<(), EngineError> {
        let op = request.operation.op();
        if let Some(transfer) = request.operation.transfer() {
            self.gate.check(request, self.in_flight)?;
            self.format.accepts(transfer)?;
            return Err(EngineError::unsupported("the request was refused for no known reason"));
        }
        if let Some(why) = self.lacks(op) {
            return Err(self.gate.lacks(op, why));
        }
        self.gate.check(request, self.in_flight)
    }

    /// Why a rare operation cannot be done; none if it can.
    pub(super) fn lacks(&self, op: Op) -> Option<&'static str> {
        match self.polls() {
            true => Some(": a polled ring takes nothing but reads and writes"),
            false => self.format.lacks(op, self.base.registered),
        }
    }

    /// Boxed, so that the common completion is made in registers.
    #[cold]
    #[inline(never)]
    pub(super) fn end_rare(&mut self, id: u64, result: i32) -> Box<Completion> {
        let rare = self.held.rare.end(id).expect("the kernel returns what it was given, once");
        let result = self.format.result(result, F::kept(rare.bytes));
        Box::new(rare.complete(result))
    }

    /// Ends the engine; what has not ended by `until` is leaked. Returns how many that are.
    pub(super) fn end(&mut self, until: Instant) -> usize {
        if std::mem::replace(&mut self.is_closed, true) || self.held.is_parents() {
            return 0;
        }
        // The kernel never gets what it does not have yet: a write that was only pushed does not happen. The
        // rest is cancelled (IORING_REGISTER_SYNC_CANCEL, since 6.0). Before that, and for requests that a
        // device holds, waiting is all that can be done.
        let mut taken_back = Vec::new();
        let sq = &mut self.held.ring.sq;
        let wake = if self.by_syscall > 0 {
            sq.take_back_unconsumed(|user_data| taken_back.push(user_data));
            0
        } else {
            sq.take_back_unpublished(|user_data| taken_back.push(user_data));
            sys::IORING_ENTER_SQ_WAKEUP
        };
        for user_data in taken_back {
            self.in_flight -= 1;
            if user_data >= RARE {
                drop(self.held.rare.end(user_data));
            } else {
                // SAFETY: the entry will not be read, so the buffer that took off with it lands here alone.
                drop(unsafe { self.gate.pool.land(user_data as u32) });
            }
        }
        let mut cancelled = false;
        let drained = drain(until, |_| {
            if self.in_flight == 0 {
                return Drained::Empty;
            }
            let _ = self.held.ring.enter(0, 0, sys::IORING_ENTER_GETEVENTS | wake);
            if self.take(&mut drop) == 0 {
                if !std::mem::replace(&mut cancelled, true) {
                    self.held.ring.cancel_all();
                }
                std::thread::sleep(Duration::from_micros(50));
            }
            if self.in_flight == 0 { Drained::Empty } else { Drained::Pending }
        });
        forget_registration(&self.held.ring, &self.gate.pool);
        if drained {
            self.held.release();
        }
        self.in_flight
    }
}
