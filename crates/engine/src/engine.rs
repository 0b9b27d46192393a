//! The traits that every interface implements, with an engine's counters and set-up.

use crate::error::{EngineError, Refused};
use crate::request::{Completion, Op, Request};
use iopj_path::Way;
use iopj_path::uring::RingFlag;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// What an engine has done since it was opened, without its set-up. Cheap to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// System calls. Absent for `posix-aio`: glibc makes the calls, where iopj cannot count them.
    pub system_calls: Option<u64>,
    /// Of these, calls that handed I/O to the kernel; of `posix-aio`, calls that handed I/O to glibc.
    pub submit_calls: u64,
    /// Of the system calls, those that only woke a sleeping submission poller.
    pub wakeups: u64,
    /// Writes to doorbell registers by `nvme-user`, of submission and completion queues together.
    pub doorbells: u64,
    /// Of these, those of completion queues.
    pub completion_doorbells: u64,
    /// Polls of the completion queue by `nvme-user` that found nothing.
    pub empty_polls: u64,
    /// Of the system calls, sleeps before polling (`clock_nanosleep`) by `nvme-user` with hybrid completion.
    pub sleeps: u64,
    /// What went which way, of an engine that chooses among several; absent of every other.
    pub routes: Option<RouteCounts>,
}

/// What an engine that chooses its way has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteCounts {
    /// Reads and writes of one buffer that were pushed, by the route of their kind, in the order of
    /// [`Way::ALL`].
    pub by_way: [u64; Way::COUNT],
    /// Changes of route.
    pub switches: u64,
    /// I/Os that tried a way other than the chosen one, up to the end of the latest epoch.
    pub explored: u64,
    /// Ways that were left for good.
    pub failures: u64,
    /// I/Os that a way refused, or lost in its failure, and the fallback did.
    pub redone: u64,
}

/// How an engine was set up; nothing in it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setup {
    /// Flags that `io_uring_setup` took.
    pub ring_flags: Vec<RingFlag>,
    /// How buffers and file are registered with the kernel.
    pub registration: Registration,
    /// True if doorbells have shadows in memory, so most need no register: an emulated drive under
    /// `nvme-user`.
    pub shadow_doorbells: bool,
}

/// How the buffers of an engine are registered with the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Registration {
    /// They are not: the kernel looks their pages up for each I/O.
    #[default]
    None,
    /// By this engine; the bytes count against RLIMIT_MEMLOCK.
    Own {
        /// Bytes that are registered.
        bytes: usize,
    },
    /// By another engine over the same pool, whose registration this one shares
    /// (`IORING_REGISTER_CLONE_BUFFERS`, since Linux 6.12): nothing more is counted.
    Shared,
}

/// What was still in flight when an engine was closed. It is leaked with its buffers, because a leak is safe
/// and a free is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{in_flight} requests had not ended when the engine was closed; their memory is never freed")]
pub struct Leaked {
    /// Requests that had not ended.
    pub in_flight: usize,
}

impl Leaked {
    pub(crate) fn unless_none(in_flight: usize) -> Result<(), Leaked> {
        if in_flight == 0 { Ok(()) } else { Err(Leaked { in_flight }) }
    }
}

/// Keeps [`Engine`] to this crate and its sisters, so it can grow.
#[doc(hidden)]
pub mod sealed {
    /// Implemented by engines.
    pub trait Sealed {}
}

/// One way to do I/O on one target, driven by the thread that opened it: no engine is `Send`.
///
/// Dropping an engine cancels what is in flight and waits for it for at most five seconds; [`Engine::close`]
/// says how long, and tells what was left. What the kernel still holds then is leaked with its buffers,
/// because a leak is safe and a free is not. In a forked child, dropping an engine does nothing to the
/// parent's requests. `mem::forget` of an engine is sound too.
///
/// The trait is sealed. [`DynEngine`] is its form as an object, and `Box<dyn DynEngine>` is an engine again.
pub trait Engine: sealed::Sealed {
    /// Queues a request without submitting it; it is in flight from here to its completion.
    ///
    /// # Errors
    /// The engine is full or finished; the buffer is of another pool or too short; offset and length are not
    /// whole blocks; the interface has no such operation. The request comes back, and nothing was done.
    fn push(&mut self, request: Request) -> Result<(), Refused>;

    /// Hands everything queued to the kernel or the device without waiting for completions. `posix-sio`
    /// cannot: it does the I/O here, and blocks.
    ///
    /// # Errors
    /// The engine is finished. A failed I/O is not an error but a [`Completion`].
    fn submit(&mut self) -> Result<(), EngineError>;

    /// Hands what is complete to `sink`, without submitting and without sleeping; returns how many there
    /// were. If `sink` panics, no completion is seen twice: the one that it had is gone, and its buffer back
    /// in the pool.
    ///
    /// # Errors
    /// The engine is finished.
    fn reap<S: FnMut(Completion)>(&mut self, sink: S) -> Result<usize, EngineError>;

    /// Submits what is queued, in the same system call where the interface can, waits until `min` requests
    /// (at most as many as are in flight) have completed or `until` is over, and hands out what is complete;
    /// returns how many there were. `sink` may be called before the last of them has completed; with a `min`
    /// of 0 or 1 it is called after the wait. A `min` of 0 never sleeps.
    ///
    /// A polled ring of the kernel's takes no time limit: with `until` it is entered again and again until
    /// then, which [`Counters::system_calls`] counts. `posix-sio` blocks as long as the I/O takes.
    ///
    /// # Errors
    /// The engine is finished.
    fn wait<S: FnMut(Completion)>(
        &mut self,
        min: usize,
        until: Option<Instant>,
        sink: S,
    ) -> Result<usize, EngineError>;

    /// Requests that were pushed and whose completion was not handed out.
    fn in_flight(&self) -> usize;

    /// The most requests in flight.
    fn iodepth(&self) -> usize;

    /// True if the interface, in this mode, has the operation. The target may still fail it.
    fn supports(&self, op: Op) -> bool;

    /// A descriptor that becomes readable when [`Engine::reap`] may find something, to join an epoll or tokio
    /// loop; `None` where there is none, as where the engine polls. Once it was asked for, each reap takes a
    /// system call or two more: it makes the descriptor unreadable again.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// What the engine has done so far.
    fn counters(&self) -> Counters;

    /// How it was set up.
    fn setup(&self) -> &Setup;

    /// The latest decisions of an engine that chooses among ways, a line each and the oldest first; each is
    /// handed out once. Other engines decide nothing.
    fn decisions(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Cancels what is in flight and waits for it until `until`; completions are not handed out, their
    /// buffers go back to the pool. Engines that are closed one after the other may share one deadline.
    ///
    /// # Errors
    /// [`Leaked`]: what had not ended by then.
    fn close(self, until: Instant) -> Result<(), Leaked>
    where
        Self: Sized;
}

/// [`Engine`] as an object, for a path that is chosen at run time. Every engine implements it, and
/// `Box<dyn DynEngine>` is an [`Engine`], by which it is used.
pub trait DynEngine: sealed::Sealed {
    #[doc(hidden)]
    fn dyn_push(&mut self, request: Request) -> Result<(), Refused>;
    #[doc(hidden)]
    fn dyn_submit(&mut self) -> Result<(), EngineError>;
    #[doc(hidden)]
    fn dyn_reap(&mut self, sink: &mut dyn FnMut(Completion)) -> Result<usize, EngineError>;
    #[doc(hidden)]
    fn dyn_wait(
        &mut self,
        min: usize,
        until: Option<Instant>,
        sink: &mut dyn FnMut(Completion),
    ) -> Result<usize, EngineError>;
    #[doc(hidden)]
    fn dyn_in_flight(&self) -> usize;
    #[doc(hidden)]
    fn dyn_iodepth(&self) -> usize;
    #[doc(hidden)]
    fn dyn_supports(&self, op: Op) -> bool;
    #[doc(hidden)]
    fn dyn_descriptor(&self) -> Option<BorrowedFd<'_>>;
    #[doc(hidden)]
    fn dyn_counters(&self) -> Counters;
    #[doc(hidden)]
    fn dyn_setup(&self) -> &Setup;
    #[doc(hidden)]
    fn dyn_decisions(&mut self) -> Vec<String>;
    #[doc(hidden)]
    fn dyn_close(self: Box<Self>, until: Instant) -> Result<(), Leaked>;
}

impl<E: Engine> DynEngine for E {
    fn dyn_push(&mut self, request: Request) -> Result<(), Refused> {
        self.push(request)
    }

    fn dyn_submit(&mut self) -> Result<(), EngineError> {
        self.submit()
    }

    fn dyn_reap(&mut self, sink: &mut dyn FnMut(Completion)) -> Result<usize, EngineError> {
        self.reap(sink)
    }

    fn dyn_wait(
        &mut self,
        min: usize,
        until: Option<Instant>,
        sink: &mut dyn FnMut(Completion),
    ) -> Result<usize, EngineError> {
        self.wait(min, until, sink)
    }

    fn dyn_in_flight(&self) -> usize {
        self.in_flight()
    }

    fn dyn_iodepth(&self) -> usize {
        self.iodepth()
    }

    fn dyn_supports(&self, op: Op) -> bool {
        self.supports(op)
    }

    fn dyn_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor()
    }

    fn dyn_counters(&self) -> Counters {
        self.counters()
    }

    fn dyn_setup(&self) -> &Setup {
        self.setup()
    }

    fn dyn_decisions(&mut self) -> Vec<String> {
        self.decisions()
    }

    fn dyn_close(self: Box<Self>, until: Instant) -> Result<(), Leaked> {
        self.close(until)
    }
}

impl sealed::Sealed for Box<dyn DynEngine + '_> {}

impl Engine for Box<dyn DynEngine + '_> {
    fn push(&mut self, request: Request) -> Result<(), Refused> {
        (**self).dyn_push(request)
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        (**self).dyn_submit()
    }

    fn reap<S: FnMut(Completion)>(&mut self, mut sink: S) -> Result<usize, EngineError> {
        (**self).dyn_reap(&mut sink)
    }

    fn wait<S: FnMut(Completion)>(
        &mut self,
        min: usize,
        until: Option<Instant>,
        mut sink: S,
    ) -> Result<usize, EngineError> {
        (**self).dyn_wait(min, until, &mut sink)
    }

    fn in_flight(&self) -> usize {
        (**self).dyn_in_flight()
    }

    fn iodepth(&self) -> usize {
        (**self).dyn_iodepth()
    }

    fn supports(&self, op: Op) -> bool {
        (**self).dyn_supports(op)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (**self).dyn_descriptor()
    }

    fn counters(&self) -> Counters {
        (**self).dyn_counters()
    }

    fn setup(&self) -> &Setup {
        (**self).dyn_setup()
    }

    fn decisions(&mut self) -> Vec<String> {
        (**self).dyn_decisions()
    }

    fn close(self, until: Instant) -> Result<(), Leaked> {
        self.dyn_close(until)
    }
}
