//! The system calls of an engine on a ring: submitting and waiting.

use super::RingEngine;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::remedy;
use crate::ring::entry::EntryFormat;
use iopj_path::path::RingSubmission;
use linux_raw_sys::io_uring as sys;
use std::time::{Duration, Instant};

#[expect(private_bounds, reason = "the two formats are those of this crate")]
impl<F: EntryFormat> RingEngine<F> {
    /// Shows the submission poller what is queued, and wakes it if it sleeps; for a ring without one there is
    /// nothing to show.
    #[inline(never)]
    pub(super) fn publish_to_poller(&mut self) -> Result<(), EngineError> {
        let sq = &mut self.held.ring.sq;
        if sq.unpublished() > 0 {
            sq.publish();
            if sq.needs_wakeup() {
                self.wakeups += 1;
                self.enter(0, sys::IORING_ENTER_SQ_WAKEUP, None)?;
            }
        }
        Ok(())
    }

    /// One `io_uring_enter` for what is queued, waiting for at most `left` if that is given; returns the
    /// number of entries consumed.
    #[inline]
    pub(super) fn enter(&mut self, min: u32, flags: u32, left: Option<Duration>) -> Result<u32, EngineError> {
        if self.queued > 0 {
            self.submit_calls += 1;
        } else {
            self.other_calls += 1;
        }
        let ring = &self.held.ring;
        let entered = match left {
            None => ring.enter(self.queued, min, flags),
            Some(left) => ring.enter_for(self.queued, min, left),
        };
        self.consumed(entered)
    }

    /// Counts the entries that a call consumed.
    #[inline]
    pub(super) fn consumed(&mut self, entered: Result<u32, i32>) -> Result<u32, EngineError> {
        match entered {
            Ok(consumed) => {
                self.queued -= consumed;
                Ok(consumed)
            }
            Err(errno) => enter_failed(errno, self.in_flight > self.queued as usize),
        }
    }

    /// Lets the kernel complete what it can, if that takes a call and nothing is there yet.
    pub(super) fn kick(&mut self) -> Result<(), EngineError> {
        if self.enter_to_reap && self.held.ring.cq.ready() == 0 && self.in_flight > self.queued as usize {
            self.other_calls += 1;
            if let Err(errno) = self.held.ring.enter(0, 0, sys::IORING_ENTER_GETEVENTS) {
                enter_failed(errno, true)?;
            }
        }
        Ok(())
    }

    /// Goes on after a call that did not submit all.
    #[cold]
    #[inline(never)]
    pub(super) fn submit_rest(&mut self, entered: Result<u32, i32>) -> Result<(), EngineError> {
        let mut consumed = self.consumed(entered)?;
        while self.queued > 0 && consumed > 0 {
            consumed = self.enter(0, 0, None)?;
        }
        Ok(()) // without an entry consumed the kernel has no room before completions are taken
    }

    /// Submits what is queued, which is something, and waits for `min` completions, in one call.
    #[inline]
    pub(super) fn submit_and_wait(&mut self, min: usize) -> Result<(), EngineError> {
        self.held.ring.sq.publish();
        self.submit_calls += 1;
        let entered = self.held.ring.enter(self.queued, min as u32, sys::IORING_ENTER_GETEVENTS);
        if entered != Ok(self.queued) {
            return self.consumed(entered).map(drop);
        }
        self.queued = 0;
        Ok(())
    }

    /// One step of [`Engine::wait`] where that is not all: the ring has a poller, submits by a call of its
    /// own, has nothing to submit, or does not wait, or not for ever. `found` of `min` completions were
    /// handed out before. True if `until` is over.
    #[inline(never)]
    pub(super) fn wait_otherwise(
        &mut self,
        min: usize,
        found: usize,
        until: Option<Instant>,
    ) -> Result<bool, EngineError> {
        if let RingSubmission::Sqpoll { kernel_wait } = self.modes.submission {
            return self.wait_by_ring(min - found, until, kernel_wait);
        }
        if self.modes.submission == (RingSubmission::Syscall { split: true }) && self.queued > 0 {
            self.submit()?;
        }
        self.held.ring.sq.publish();
        let ready = self.held.ring.cq.ready();
        let wanted = (min - found) as u32;
        let kick = ready == 0 && self.enter_to_reap && found == 0 && self.in_flight > 0;
        if self.queued == 0 && ready >= wanted && !kick {
            return Ok(false);
        }
        let events = if wanted > 0 || kick { sys::IORING_ENTER_GETEVENTS } else { 0 };
        match until {
            None => self.enter(wanted, events, None).map(|_| false),
            Some(until) => self.enter_until(wanted, events, until),
        }
    }

    /// One enter of a wait that ends at `until`; true if it is over.
    #[cold]
    pub(super) fn enter_until(
        &mut self,
        wanted: u32,
        events: u32,
        until: Instant,
    ) -> Result<bool, EngineError> {
        let left = until.saturating_duration_since(Instant::now());
        if wanted == 0 || left.is_zero() || self.polls() {
            // The kernel's polling takes no time limit, so it is asked for what there is.
            self.enter(0, events, None)?;
        } else {
            self.enter(wanted, events, Some(left))?;
        }
        Ok(Instant::now() >= until)
    }

    /// Waits for completions, by spinning or in the kernel, while the submission poller submits. True if
    /// `until` is over.
    pub(super) fn wait_by_ring(
        &mut self,
        min: usize,
        until: Option<Instant>,
        kernel_wait: bool,
    ) -> Result<bool, EngineError> {
        self.publish_to_poller()?;
        let wanted = min as u32;
        while self.held.ring.cq.ready() < wanted {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(true);
            }
            if kernel_wait {
                self.enter(wanted, sys::IORING_ENTER_GETEVENTS, left)?;
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(false)
    }
}

/// A signal is not an error: the caller's loop comes again. Nor is a lack of memory, or of room for
/// completions, while there are requests that will give it back when they end; with none it would never come.
#[cold]
#[inline(never)]
pub(super) fn enter_failed(errno: i32, some_will_end: bool) -> Result<u32, EngineError> {
    match errno {
        libc::EINTR => Ok(0),
        libc::EAGAIN | libc::EBUSY if some_will_end => Ok(0),
        errno => Err(EngineError::call("io_uring_enter", errno, remedy::io_uring_enter(errno))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_enter_comes_again_only_if_something_can_change() {
        for errno in [libc::EAGAIN, libc::EBUSY] {
            assert_eq!(enter_failed(errno, true).unwrap(), 0);
            let message = enter_failed(errno, false).unwrap_err().to_string();
            assert!(message.starts_with("io_uring_enter failed: "), "{message}");
        }
        assert_eq!(enter_failed(libc::EINTR, false).unwrap(), 0);
        assert!(enter_failed(libc::EBADF, true).is_err());
    }
}
