//! The engine that `io_uring` and `nvme-passthrough` share. They differ in how they write an entry and read
//! its result: [`EntryFormat`].

use crate::drain::{Drained, Leaky, drain};
use crate::engine::{Completion, Engine, EngineError, EngineFacts, IoError, Request};
use crate::pool::{Pool, Slot};
use crate::remedy;
use crate::ring::{IoUring, SQE_LEN};
use crate::ring_setup::{KernelCpus, bind_workers, register, require_unregistered_files};
use crate::target::Descriptor;
use iopj_core::path::{Ring as Modes, RingCompletion, RingSubmission};
use linux_raw_sys::io_uring as sys;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::rc::Rc;
use std::time::Duration;

/// How one interface writes an entry and reads its result.
pub(crate) trait EntryFormat {
    /// Set-up flags that the interface needs.
    const SETUP: u32;

    /// Length of an entry under those flags.
    const ENTRY_LEN: usize = if Self::SETUP & sys::IORING_SETUP_SQE128 == 0 { SQE_LEN } else { 2 * SQE_LEN };

    /// Refuses what the interface cannot express, before the request has touched anything.
    ///
    /// # Errors
    /// [`crate::Cause::Unsupported`].
    #[inline]
    fn accepts(&self, _request: &Request) -> Result<(), EngineError> {
        Ok(())
    }

    /// Fills a zeroed entry, except `user_data`, for a request that was accepted.
    ///
    /// # Safety
    /// `entry` points to [`EntryFormat::ENTRY_LEN`] zeroed bytes, aligned as an `io_uring_sqe`, that nobody
    /// else uses. The whole length may be written through it.
    unsafe fn prepare(
        &self,
        entry: NonNull<sys::io_uring_sqe>,
        request: &Request,
        address: NonNull<u8>,
        modes: Modes,
        fd: i32,
    );

    /// Bytes moved, or the error, of a request of `len` bytes.
    fn result(&self, result: i32, len: u32) -> Result<u32, IoError>;
}

/// What must outlive every request that the kernel holds.
struct Held {
    ring: IoUring,
    pool: Rc<Pool>,
    _fd: Descriptor,
}

pub(crate) struct RingEngine<F> {
    held: Leaky<Held>,
    format: F,
    modes: Modes,
    /// Descriptor as entries name it: a number, or an index of registered files.
    fd: i32,
    /// Tag and length of what is in flight, by slot.
    in_flight_by_slot: Box<[(u64, u32)]>,
    in_flight: usize,
    iodepth: usize,
    /// Entries that a system call has yet to submit, and what an entry adds to them: 1, or 0 with a poller.
    queued: u32,
    by_syscall: u32,
    /// Completions come only inside `io_uring_enter`: polled rings and deferred task work.
    enter_to_reap: bool,
    submit_calls: u64,
    /// Calls that submitted nothing.
    other_calls: u64,
    wakeups: u64,
}

impl<F: EntryFormat> RingEngine<F> {
    pub(crate) fn open(
        format: F,
        fd: Descriptor,
        pool: &Rc<Pool>,
        modes: Modes,
        iodepth: u32,
        cpus: &KernelCpus,
    ) -> Result<Self, EngineError> {
        let mut required = F::SETUP;
        required |= match modes.completion {
            RingCompletion::Interrupt => 0,
            RingCompletion::Poll => sys::IORING_SETUP_IOPOLL,
            RingCompletion::Hybrid => sys::IORING_SETUP_IOPOLL | sys::IORING_SETUP_HYBRID_IOPOLL,
        };
        let sqpoll = matches!(modes.submission, RingSubmission::Sqpoll { .. });
        if sqpoll {
            required |= sys::IORING_SETUP_SQPOLL;
        }
        let ring = IoUring::new(iodepth, required, cpus.poller.filter(|_| sqpoll))?;
        bind_workers(&ring, &cpus.workers)?;
        if sqpoll && !modes.registered {
            require_unregistered_files(ring.features)?;
        }
        let mut number = fd.as_raw_fd();
        if modes.registered {
            register(&ring, pool, number)?;
            number = 0;
        }
        let enter_to_reap =
            !sqpoll && ring.flags & (sys::IORING_SETUP_IOPOLL | sys::IORING_SETUP_DEFER_TASKRUN) != 0;
        Ok(RingEngine {
            held: Leaky::new(Held { ring, pool: Rc::clone(pool), _fd: fd }),
            format,
            modes,
            fd: number,
            in_flight_by_slot: vec![(0, 0); pool.slots() as usize].into(),
            in_flight: 0,
            iodepth: iodepth as usize,
            queued: 0,
            by_syscall: u32::from(!sqpoll),
            enter_to_reap,
            submit_calls: 0,
            other_calls: 0,
            wakeups: 0,
        })
    }

    /// Shows the submission poller what is queued, and wakes it if it sleeps.
    #[inline]
    fn publish_to_poller(&mut self) -> Result<(), EngineError> {
        let sq = &mut self.held.ring.sq;
        if sq.unpublished() > 0 {
            sq.publish();
            if sq.needs_wakeup() {
                self.wakeups += 1;
                self.enter(0, sys::IORING_ENTER_SQ_WAKEUP)?;
            }
        }
        Ok(())
    }

    /// Writes one entry. Kept out of line: when inlined, all that it reads is loaded before the batch, at
    /// full cost to a batch of one.
    #[inline(never)]
    fn push_one(&mut self, request: &Request) -> Result<(), EngineError> {
        let slot = request.slot;
        self.format.accepts(request)?;
        let address = self.held.pool.start(slot, request.len)?;
        let entry = self.held.ring.sq.next(F::ENTRY_LEN).cast::<sys::io_uring_sqe>();
        // SAFETY: the entry is zeroed and ours until it is published; it is `ENTRY_LEN` bytes of the ring's
        // mapping, from which the pointer comes, and aligned as the kernel aligns it. No reference to it is
        // alive.
        unsafe {
            self.format.prepare(entry, request, address, self.modes, self.fd);
            (*entry.as_ptr()).user_data = slot.0.into();
        }
        self.held.ring.sq.advance();
        self.queued += self.by_syscall;
        self.in_flight_by_slot[slot.0 as usize] = (request.tag, request.len);
        self.in_flight += 1;
        Ok(())
    }

    /// One `io_uring_enter` for what is queued; returns the number of entries consumed.
    #[inline]
    fn enter(&mut self, min_complete: u32, flags: u32) -> Result<u32, EngineError> {
        if self.queued > 0 {
            self.submit_calls += 1;
        } else {
            self.other_calls += 1;
        }
        match self.held.ring.enter(self.queued, min_complete, flags) {
            Ok(consumed) => {
                self.queued -= consumed;
                Ok(consumed)
            }
            Err(errno) => enter_failed(errno, self.in_flight > self.queued as usize),
        }
    }

    /// Submits and waits in one call, and again until `min` completions were taken.
    #[inline]
    fn wait_by_enter(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        let mut found = 0;
        loop {
            let ready = self.held.ring.cq.ready();
            let wanted = (min - found) as u32;
            let kick = ready == 0 && self.enter_to_reap && found == 0 && self.in_flight > 0;
            if self.queued > 0 || ready < wanted || kick {
                let events = if wanted > 0 || kick { sys::IORING_ENTER_GETEVENTS } else { 0 };
                self.enter(wanted, events)?;
            }
            found += self.reap(done);
            if found >= min {
                return Ok(());
            }
        }
    }

    /// Waits for completions, by spinning or in the kernel, while the submission poller submits.
    #[inline]
    fn wait_by_ring(
        &mut self,
        min: usize,
        kernel_wait: bool,
        done: &mut Vec<Completion>,
    ) -> Result<(), EngineError> {
        let wanted = min as u32;
        while self.held.ring.cq.ready() < wanted {
            if kernel_wait {
                self.enter(wanted, sys::IORING_ENTER_GETEVENTS)?;
            } else {
                std::hint::spin_loop();
            }
        }
        self.reap(done);
        Ok(())
    }

    /// Takes completions within `done`'s spare capacity; returns how many.
    #[inline]
    fn reap(&mut self, done: &mut Vec<Completion>) -> usize {
        let room = (done.capacity() - done.len()) as u32;
        let Held { ring, pool, .. } = &mut *self.held;
        let (format, by_slot) = (&self.format, &self.in_flight_by_slot);
        let taken = ring.cq.take(room, |user_data, result| {
            let slot = Slot(user_data as u32);
            let Some(&(tag, len)) = by_slot.get(slot.0 as usize) else { return };
            pool.finish(slot);
            done.push(Completion { tag, slot, result: format.result(result, len) });
        });
        self.in_flight -= taken as usize;
        taken as usize
    }
}

/// A signal is not an error: the caller's loop comes again. Nor is a lack of memory, or of room for
/// completions, while there are requests that will give it back when they end; with none it would never come.
#[cold]
fn enter_failed(errno: i32, some_will_end: bool) -> Result<u32, EngineError> {
    match errno {
        libc::EINTR => Ok(0),
        libc::EAGAIN | libc::EBUSY if some_will_end => Ok(0),
        errno => Err(EngineError::call("io_uring_enter", errno, remedy::io_uring_enter(errno))),
    }
}

impl<F: EntryFormat> Engine for RingEngine<F> {
    fn push(&mut self, requests: &[Request]) -> Result<usize, EngineError> {
        let taken = (self.iodepth - self.in_flight).min(requests.len());
        for request in &requests[..taken] {
            self.push_one(request)?;
        }
        Ok(taken)
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        if let RingSubmission::Sqpoll { .. } = self.modes.submission {
            return self.publish_to_poller();
        }
        self.held.ring.sq.publish();
        while self.queued > 0 {
            if self.enter(0, 0)? == 0 {
                break; // the kernel has no room before completions are taken
            }
        }
        Ok(())
    }

    #[inline]
    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        let min = min.min(self.in_flight).min(done.capacity() - done.len());
        match self.modes.submission {
            RingSubmission::Syscall { split } => {
                if split {
                    self.submit()?;
                }
                self.held.ring.sq.publish();
                self.wait_by_enter(min, done)
            }
            RingSubmission::Sqpoll { kernel_wait } => {
                self.publish_to_poller()?;
                self.wait_by_ring(min, kernel_wait, done)
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn facts(&self) -> EngineFacts {
        EngineFacts {
            system_calls: Some(self.submit_calls + self.other_calls),
            submit_calls: self.submit_calls,
            wakeups: self.wakeups,
            ring_flags: self.held.ring.setup_flags(),
            registered: self.modes.registered,
            ..EngineFacts::default()
        }
    }
}

impl<F> Drop for RingEngine<F> {
    fn drop(&mut self) {
        if self.held.is_parents() {
            return;
        }
        // The kernel never gets what it does not have yet: a write that was only pushed does not happen. The
        // rest is cancelled (IORING_REGISTER_SYNC_CANCEL, since 6.0). Before that, and for requests that a
        // device holds, waiting is all that can be done.
        let Held { ring, pool, .. } = &mut *self.held;
        let finish = |user_data| pool.finish(Slot(user_data as u32));
        let (taken_back, wake) = if ring.flags & sys::IORING_SETUP_SQPOLL == 0 {
            (ring.sq.take_back_unconsumed(finish), 0)
        } else {
            (ring.sq.take_back_unpublished(finish), sys::IORING_ENTER_SQ_WAKEUP)
        };
        self.in_flight -= taken_back as usize;
        let mut cancelled = false;
        let drained = drain(|_| {
            if self.in_flight == 0 {
                return Drained::Empty;
            }
            let _ = ring.enter(0, 0, sys::IORING_ENTER_GETEVENTS | wake);
            let taken = ring.cq.take(u32::MAX, |user_data, _| finish(user_data));
            self.in_flight -= taken as usize;
            if taken == 0 {
                if !std::mem::replace(&mut cancelled, true) {
                    ring.cancel_all();
                }
                std::thread::sleep(Duration::from_micros(50));
            }
            if self.in_flight == 0 { Drained::Empty } else { Drained::Pending }
        });
        if drained {
            self.held.release();
        }
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
