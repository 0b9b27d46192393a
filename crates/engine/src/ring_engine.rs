//! The engine that `io_uring` and `nvme-passthrough` share: they differ in how an entry is written
//! and how its result is read, which [`Command`] tells.

use crate::engine::{Completion, Engine, EngineError, EngineFacts, IoError, Request};
use crate::pool::{Pool, Slot};
use crate::remedy;
use crate::ring::{Ring, SQE_LEN};
use iopj_core::path::{Ring as Modes, RingCompletion, RingSubmission};
use linux_raw_sys::io_uring as sys;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How one interface writes an entry and reads its result.
pub(crate) trait Command {
    /// Set-up flags that the interface needs.
    const SETUP: u32;

    /// Length of an entry under those flags.
    const ENTRY_LEN: usize = if Self::SETUP & sys::IORING_SETUP_SQE128 == 0 { SQE_LEN } else { 2 * SQE_LEN };

    /// Fills a zeroed entry, `user_data` apart.
    fn prepare(&self, entry: &mut sys::io_uring_sqe, request: &Request, address: NonNull<u8>, modes: Modes, fd: i32);

    /// Bytes moved, or the error, of a request of `len` bytes.
    fn result(&self, result: i32, len: u32) -> Result<u32, IoError>;
}

/// What must outlive every request that the kernel holds.
struct Held {
    ring: Ring,
    pool: Rc<Pool>,
    _fd: OwnedFd,
}

pub(crate) struct RingEngine<C> {
    held: ManuallyDrop<Held>,
    command: C,
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

impl<C: Command> RingEngine<C> {
    pub(crate) fn open(
        command: C,
        fd: OwnedFd,
        pool: &Rc<Pool>,
        modes: Modes,
        iodepth: u32,
    ) -> Result<Self, EngineError> {
        let mut required = C::SETUP;
        required |= match modes.completion {
            RingCompletion::Interrupt => 0,
            RingCompletion::Poll => sys::IORING_SETUP_IOPOLL,
            RingCompletion::Hybrid => sys::IORING_SETUP_IOPOLL | sys::IORING_SETUP_HYBRID_IOPOLL,
        };
        let sqpoll = matches!(modes.submission, RingSubmission::Sqpoll { .. });
        if sqpoll {
            required |= sys::IORING_SETUP_SQPOLL;
        }
        let ring = Ring::new(iodepth, required)?;
        let mut number = fd.as_raw_fd();
        if modes.registered {
            let register = |opcode, errno| EngineError::call(opcode, errno, remedy::memory_lock(errno));
            let region = pool.region();
            ring.register(sys::io_uring_register_op::IORING_REGISTER_BUFFERS as u32, &raw const region, 1)
                .map_err(|errno| register("io_uring_register (buffers)", errno))?;
            ring.register(sys::io_uring_register_op::IORING_REGISTER_FILES as u32, &raw const number, 1)
                .map_err(|errno| register("io_uring_register (files)", errno))?;
            number = 0;
        }
        let enter_to_reap = !sqpoll && ring.flags & (sys::IORING_SETUP_IOPOLL | sys::IORING_SETUP_DEFER_TASKRUN) != 0;
        Ok(RingEngine {
            held: ManuallyDrop::new(Held { ring, pool: Rc::clone(pool), _fd: fd }),
            command,
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

    /// Writes one entry. Kept out of line: inlined, all that it reads is loaded ahead of the batch, which a
    /// batch of one pays in full.
    #[inline(never)]
    fn push_one(&mut self, request: &Request) -> Result<(), EngineError> {
        let slot = request.slot;
        let address = self.held.pool.start(slot, request.len)?;
        let entry = self.held.ring.sq.next(C::ENTRY_LEN);
        // SAFETY: the entry is zeroed and ours until it is published; it is at least as long as
        // `io_uring_sqe` and aligned as the kernel aligns it.
        let entry = unsafe { entry.cast::<sys::io_uring_sqe>().as_mut() };
        self.command.prepare(entry, request, address, self.modes, self.fd);
        entry.user_data = slot.0.into();
        self.held.ring.sq.advance();
        self.queued += self.by_syscall;
        self.in_flight_by_slot[slot.0 as usize] = (request.tag, request.len);
        self.in_flight += 1;
        Ok(())
    }

    /// One `io_uring_enter` for what is queued; returns entries consumed.
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
            Err(errno) => enter_failed(errno),
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

    /// Waits for completions that the submission poller brings, by spinning or in the kernel.
    #[inline]
    fn wait_by_ring(&mut self, min: usize, kernel_wait: bool, done: &mut Vec<Completion>) -> Result<(), EngineError> {
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
        let (command, by_slot) = (&self.command, &self.in_flight_by_slot);
        let taken = ring.cq.take(room, |user_data, result| {
            let slot = Slot(user_data as u32);
            let Some(&(tag, len)) = by_slot.get(slot.0 as usize) else { return };
            pool.finish(slot);
            done.push(Completion { tag, slot, result: command.result(result, len) });
        });
        self.in_flight -= taken as usize;
        taken as usize
    }
}

/// Signals and a full completion queue are no errors: the caller's loop comes again.
#[cold]
fn enter_failed(errno: i32) -> Result<u32, EngineError> {
    match errno {
        libc::EINTR | libc::EAGAIN | libc::EBUSY => Ok(0),
        errno => Err(EngineError::call("io_uring_enter", errno, remedy::io_uring_enter(errno))),
    }
}

impl<C: Command> Engine for RingEngine<C> {
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
            system_calls: self.submit_calls + self.other_calls,
            submit_calls: self.submit_calls,
            wakeups: self.wakeups,
            ring_flags: self.held.ring.flag_names(),
            registered: self.modes.registered,
        }
    }
}

/// `struct io_uring_sync_cancel_reg`: cancels every request of the ring.
fn cancel_all() -> sys::io_uring_sync_cancel_reg {
    // SAFETY: the struct is plain integers, for which zero is a valid value.
    let mut cancel: sys::io_uring_sync_cancel_reg = unsafe { std::mem::zeroed() };
    cancel.fd = -1;
    cancel.flags = sys::IORING_ASYNC_CANCEL_ANY | sys::IORING_ASYNC_CANCEL_ALL;
    cancel
}

impl<C> Drop for RingEngine<C> {
    fn drop(&mut self) {
        let deadline = Instant::now() + crate::DRAIN_LIMIT;
        let Held { ring, pool, .. } = &mut *self.held;
        // What was pushed is handed over, for only a completion ends it; then all is cancelled
        // (IORING_REGISTER_SYNC_CANCEL, since 6.0; elsewhere, and for requests that a device holds,
        // waiting is all there is).
        ring.sq.publish();
        let wake = if ring.flags & sys::IORING_SETUP_SQPOLL != 0 { sys::IORING_ENTER_SQ_WAKEUP } else { 0 };
        let mut cancelled = false;
        while self.in_flight > 0 {
            let _ = ring.enter(ring.sq.unconsumed(), 0, sys::IORING_ENTER_GETEVENTS | wake);
            let taken = ring.cq.take(u32::MAX, |user_data, _| pool.finish(Slot(user_data as u32)));
            self.in_flight -= taken as usize;
            if taken > 0 {
                continue;
            }
            if Instant::now() > deadline {
                return; // leaks `held`: the kernel may still write into the pool
            }
            if !std::mem::replace(&mut cancelled, true) {
                let cancel = cancel_all();
                let _ =
                    ring.register(sys::io_uring_register_op::IORING_REGISTER_SYNC_CANCEL as u32, &raw const cancel, 1);
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        // SAFETY: nothing is in flight, and `held` is not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.held) };
    }
}
