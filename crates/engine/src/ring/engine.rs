//! The engine that `io_uring` and `nvme-passthrough` share. They differ in how they write an entry and read
//! its result: [`EntryFormat`].

mod rare;
#[cfg(test)]
mod tests;
mod waiting;

use crate::drain::{DRAIN_LIMIT, Leaky};
use crate::engine::{Counters, Engine, Leaked, Setup, sealed};
use crate::error::{EngineError, Refused};
use crate::gate::Gate;
use crate::pool::Pool;
use crate::rare::RareFlights;
use crate::request::{Buffers, Completion, Op, Request};
use crate::ring::entry::{EntryBase, EntryFormat};
use crate::ring::raw::{CQE_LEN, RawRing, SqPoller};
use crate::ring::setup::{
    KernelCpus, bind_workers, completion_event, register, require_ring_for_callers,
    require_unregistered_files,
};
use crate::target::{Descriptor, Target};
use iopj_path::path::{Ring as Modes, RingCompletion, RingSubmission};
use linux_raw_sys::io_uring as sys;
use std::cell::OnceCell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::time::Instant;

/// What must outlive every request that the kernel holds.
struct Held<X> {
    ring: RawRing,
    rare: RareFlights<X>,
    _fd: Descriptor,
}

/// The engine of `io_uring` and of `nvme-passthrough`, by the format of its entries: use the names
/// [`IoUring`](crate::IoUring) and [`NvmePassthrough`](crate::NvmePassthrough).
#[expect(private_bounds, reason = "the two formats are those of this crate")]
pub struct RingEngine<F: EntryFormat> {
    held: Leaky<Held<F::Extra>>,
    gate: Gate,
    format: F,
    modes: Modes,
    base: EntryBase,
    /// Tag of what is in flight and what its result needs, by buffer.
    flights: Box<[(u64, F::Kept)]>,
    in_flight: usize,
    /// Entries that a system call has yet to submit, and what an entry adds to them: 1, or 0 with a poller.
    queued: u32,
    by_syscall: u32,
    /// A wait submits in its own system call.
    waits_and_submits: bool,
    /// Completions come only inside `io_uring_enter`: polled rings and deferred task work.
    enter_to_reap: bool,
    /// Places of entries that hold a rare request and must be prepared again; few, and rarely any.
    unprepared: Vec<usize>,
    /// Signalled when there is something to reap, once somebody has asked for it.
    event: OnceCell<OwnedFd>,
    setup: Setup,
    submit_calls: u64,
    /// Calls that submitted nothing.
    other_calls: u64,
    wakeups: u64,
    is_closed: bool,
}

#[expect(private_bounds, reason = "the two formats are those of this crate")]
impl<F: EntryFormat> RingEngine<F> {
    pub(crate) fn open_with(
        format: F,
        target: &Target,
        pool: &Pool,
        modes: Modes,
        iodepth: u32,
        (cpus, poller_idle_ms): (&KernelCpus, u32),
    ) -> Result<Self, EngineError> {
        let fd = target.reopen().map_err(|error| EngineError::unsupported(error.to_string()))?;
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
        if target.is_callers() {
            require_ring_for_callers(modes)?;
        }
        let poller = match sqpoll {
            true => SqPoller { cpu: cpus.poller, idle_ms: poller_idle_ms },
            false => SqPoller::default(),
        };
        let ring = RawRing::new(iodepth, required, poller)?;
        bind_workers(&ring, &cpus.workers)?;
        if sqpoll && !modes.registered {
            require_unregistered_files(ring.features)?;
        }
        let mut base = EntryBase { fd: fd.as_raw_fd(), registered: modes.registered };
        let mut setup = Setup { ring_flags: ring.setup_flags(), ..Setup::default() };
        if modes.registered {
            setup.registration = register(&ring, pool, base.fd)?;
            base.fd = 0;
        }
        let gate = Gate::new(pool, target, iodepth, F::name(modes.completion != RingCompletion::Interrupt));
        Ok(RingEngine::over(ring, fd, format, gate, modes, (base, setup)))
    }

    /// An engine over a new ring, whose set-up is done.
    fn over(
        mut ring: RawRing,
        fd: Descriptor,
        format: F,
        gate: Gate,
        modes: Modes,
        (base, setup): (EntryBase, Setup),
    ) -> RingEngine<F> {
        for entry in ring.sq.every_entry() {
            // SAFETY: the kernel gave the entries zeroed, and does not look at them before a tail is
            // published; each is `ENTRY_LEN` bytes of the ring's mapping, aligned as the kernel aligns it.
            unsafe { format.prepare(entry.cast(), base) };
        }
        let sqpoll = matches!(modes.submission, RingSubmission::Sqpoll { .. });
        let enter_to_reap =
            !sqpoll && ring.flags & (sys::IORING_SETUP_IOPOLL | sys::IORING_SETUP_DEFER_TASKRUN) != 0;
        RingEngine {
            held: Leaky::new(Held { ring, rare: RareFlights::new(), _fd: fd }),
            format,
            modes,
            base,
            flights: vec![Default::default(); gate.pool.count() as usize].into(),
            gate,
            in_flight: 0,
            queued: 0,
            by_syscall: u32::from(!sqpoll),
            waits_and_submits: modes.submission == (RingSubmission::Syscall { split: false }),
            enter_to_reap,
            unprepared: Vec::new(),
            event: OnceCell::new(),
            setup,
            submit_calls: 0,
            other_calls: 0,
            wakeups: 0,
            is_closed: false,
        }
    }

    fn polls(&self) -> bool {
        self.modes.completion != RingCompletion::Interrupt
    }

    /// The next entry, as it was prepared unless it holds a rare request.
    #[inline]
    fn next_entry(&mut self) -> NonNull<sys::io_uring_sqe> {
        self.held.ring.sq.next(F::ENTRY_LEN).cast()
    }

    /// Queues a transfer that can be: the next entry is prepared.
    #[inline(always)]
    fn queue(&mut self, request: Request) {
        let op = request.operation.op();
        let Some(transfer) = request.operation.into_transfer() else { return };
        let index = transfer.buffer.index();
        let address = self.gate.pool.address(index);
        let entry = self.next_entry();
        // SAFETY: the entry is prepared and ours until it is published; it is `ENTRY_LEN` bytes of the ring's
        // mapping, from which the pointer comes, and aligned as the kernel aligns it. No reference to it is
        // alive.
        unsafe {
            (*entry.as_ptr()).user_data = index.into();
            self.format.transfer(entry, op, &transfer, address, self.base);
        }
        // SAFETY: there is a flight for each buffer of the pool, of which this is one.
        unsafe { *self.flights.get_unchecked_mut(index as usize) = (request.tag, F::kept(transfer.len)) };
        self.entry_taken();
        transfer.buffer.take_off();
    }

    #[inline]
    fn entry_taken(&mut self) {
        self.held.ring.sq.advance();
        self.queued += self.by_syscall;
        self.in_flight += 1;
    }

    /// Hands out what is ready; returns how many.
    #[inline(always)]
    fn take<S: FnMut(Completion)>(&mut self, sink: &mut S) -> usize {
        let ready = self.held.ring.cq.ready();
        for _ in 0..ready {
            let completion = self.take_one();
            sink(completion);
        }
        ready as usize
    }

    /// The next completion, which is ready. It is taken when this returns, whatever becomes of it.
    #[inline(always)]
    fn take_one(&mut self) -> Completion {
        let cq = &mut self.held.ring.cq;
        let (user_data, result) = if F::SETUP & sys::IORING_SETUP_CQE32 == 0 {
            cq.take::<CQE_LEN>()
        } else {
            cq.take::<{ 2 * CQE_LEN }>()
        };
        self.in_flight -= 1;
        match self.flights.get(user_data as usize) {
            Some(&(tag, kept)) => {
                // SAFETY: the kernel returns the `user_data` of each request once, and this is the number of
                // the buffer that took off with it.
                let buffer = unsafe { self.gate.pool.land(user_data as u32) };
                Completion { tag, result: self.format.result(result, kept), buffers: Buffers::One(buffer) }
            }
            None => *self.end_rare(user_data, result),
        }
    }

    /// As [`Engine::push`], always in its caller's code, for an engine that owns this one: a call would take
    /// the request through memory.
    ///
    /// # Errors
    /// As [`Engine::push`].
    #[doc(hidden)]
    #[inline(always)]
    pub fn push_inline(&mut self, request: Request) -> Result<(), Refused> {
        let Some(transfer) = request.operation.transfer() else {
            return self.push_rare(request);
        };
        if self.in_flight >= self.gate.iodepth()
            || !self.gate.admits(transfer)
            || !self.format.is_accepted(transfer)
        {
            return self.push_rare(request);
        }
        if !self.unprepared.is_empty() {
            self.push_prepared(request);
            return Ok(());
        }
        self.queue(request);
        Ok(())
    }

    /// As [`Engine::wait`], always in its caller's code: an engine that owns this one has a wait of its own
    /// around it, and would pay for two calls.
    ///
    /// # Errors
    /// The engine is finished.
    #[doc(hidden)]
    #[inline(always)]
    pub fn wait_inline<S: FnMut(Completion)>(
        &mut self,
        min: usize,
        until: Option<Instant>,
        mut sink: S,
    ) -> Result<usize, EngineError> {
        let min = min.min(self.in_flight);
        let mut found = 0;
        loop {
            let is_over = if self.queued > 0 && self.waits_and_submits && min > found && until.is_none() {
                self.submit_and_wait(min - found)?;
                false
            } else {
                self.wait_otherwise(min, found, until)?
            };
            found += self.take(&mut sink);
            if found >= min || is_over {
                return Ok(found);
            }
        }
    }
}

impl<F: EntryFormat> sealed::Sealed for RingEngine<F> {}

impl<F: EntryFormat> Engine for RingEngine<F> {
    #[inline]
    fn push(&mut self, request: Request) -> Result<(), Refused> {
        self.push_inline(request)
    }

    #[inline(always)]
    fn submit(&mut self) -> Result<(), EngineError> {
        if self.queued == 0 {
            return self.publish_to_poller();
        }
        self.held.ring.sq.publish();
        self.submit_calls += 1;
        let entered = self.held.ring.enter(self.queued, 0, 0);
        if entered != Ok(self.queued) {
            return self.submit_rest(entered);
        }
        self.queued = 0;
        Ok(())
    }

    fn reap<S: FnMut(Completion)>(&mut self, mut sink: S) -> Result<usize, EngineError> {
        self.kick()?;
        let mut found = self.take(&mut sink);
        if let Some(event) = self.event.get() {
            // What came before the event is read is found here; what comes later signals it again.
            self.other_calls += 1;
            let _ = rustix::io::read(event, &mut [0; 8]);
            self.kick()?;
            found += self.take(&mut sink);
        }
        Ok(found)
    }

    #[inline]
    fn wait<S: FnMut(Completion)>(
        &mut self,
        min: usize,
        until: Option<Instant>,
        sink: S,
    ) -> Result<usize, EngineError> {
        self.wait_inline(min, until, sink)
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn iodepth(&self) -> usize {
        self.gate.iodepth()
    }

    fn supports(&self, op: Op) -> bool {
        op.is_transfer() || self.lacks(op).is_none()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        if self.polls() {
            return None;
        }
        if self.event.get().is_none() {
            let event = completion_event(&self.held.ring)?;
            let kept_back = self.queued.max(self.held.ring.sq.unpublished());
            if self.in_flight > kept_back as usize {
                // What completed before the kernel knew of the event will not signal it.
                let _ = rustix::io::write(&event, &1u64.to_ne_bytes());
            }
            let _ = self.event.set(event);
        }
        self.event.get().map(AsFd::as_fd)
    }

    fn counters(&self) -> Counters {
        Counters {
            system_calls: Some(self.submit_calls + self.other_calls),
            submit_calls: self.submit_calls,
            wakeups: self.wakeups,
            ..Counters::default()
        }
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn close(mut self, until: Instant) -> Result<(), Leaked> {
        Leaked::unless_none(self.end(until))
    }
}

impl<F: EntryFormat> Drop for RingEngine<F> {
    fn drop(&mut self) {
        self.end(Instant::now() + DRAIN_LIMIT);
    }
}
