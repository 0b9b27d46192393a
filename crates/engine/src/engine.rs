//! The trait that every interface implements, with its requests, completions, errors and facts.

use crate::pool::{PoolError, Slot};
use iopj_core::uring::RingFlag;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// From the target into the slot.
    Read,
    /// From the slot to the target.
    Write,
}

/// One I/O. It names a slot of the pool, never a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Read or write.
    pub op: Op,
    /// The slot whose first `len` bytes are read or written.
    pub slot: Slot,
    /// Length in bytes.
    pub len: u32,
    /// Offset on the target in bytes.
    pub offset: u64,
    /// Returned with the completion.
    pub tag: u64,
}

/// The end of one I/O. The slot is free again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's tag.
    pub tag: u64,
    /// The request's slot.
    pub slot: Slot,
    /// Bytes moved (fewer than asked for: a partial I/O), or why none were.
    pub result: Result<u32, IoError>,
}

/// Why one I/O failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoError {
    /// An errno.
    #[error("{}", std::io::Error::from_raw_os_error(*.0))]
    Os(i32),
    /// An NVMe status: status code in bits 0 to 7, its type in bits 8 to 10.
    #[error("NVMe status {:#x} (type {}, code {:#x})", .0, .0 >> 8 & 7, .0 & 0xff)]
    Nvme(u16),
}

/// Why an engine is finished, or was not opened, or refused a request. One word long: results stay in
/// registers on the I/O path.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct EngineError(Box<Cause>);

/// The kinds of [`EngineError`].
#[derive(Debug, Error)]
pub enum Cause {
    /// A request or a set-up that the pool refuses.
    #[error(transparent)]
    Pool(PoolError),
    /// A system call of the engine itself failed.
    #[error("{call} failed: {}{remedy}", std::io::Error::from_raw_os_error(*.errno))]
    Call {
        /// The system call.
        call: &'static str,
        /// Its errno.
        errno: i32,
        /// What to do about it, with a leading separator, or empty.
        remedy: String,
    },
    /// The interface cannot do what was asked for.
    #[error("{0}")]
    Unsupported(String),
    /// A controller that this process drives (`nvme-user`) failed or was pulled, or the kernel wants it back.
    #[error("{0}")]
    Controller(String),
}

impl EngineError {
    /// What the error is.
    pub fn cause(&self) -> &Cause {
        &self.0
    }

    /// A failed system call with what to do about it.
    #[cold]
    pub(crate) fn call(call: &'static str, errno: i32, remedy: String) -> EngineError {
        EngineError(Box::new(Cause::Call { call, errno, remedy }))
    }

    /// A failed system call without a remedy, by its error.
    #[cold]
    pub(crate) fn failed(call: &'static str, error: impl Into<std::io::Error>) -> EngineError {
        EngineError::call(call, error.into().raw_os_error().unwrap_or(0), String::new())
    }

    /// Something that the interface cannot do.
    #[cold]
    pub fn unsupported(message: impl Into<String>) -> EngineError {
        EngineError(Box::new(Cause::Unsupported(message.into())))
    }

    /// A controller that has stopped serving, or refuses a command.
    #[cold]
    pub(crate) fn controller(message: String) -> EngineError {
        EngineError(Box::new(Cause::Controller(message)))
    }
}

impl From<PoolError> for EngineError {
    #[cold]
    fn from(error: PoolError) -> EngineError {
        EngineError(Box::new(Cause::Pool(error)))
    }
}

/// How an engine was set up and what it has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineFacts {
    /// System calls made since the engine was opened, without those of its set-up. Absent for `posix-aio`:
    /// glibc makes the calls, where iopj cannot count them.
    pub system_calls: Option<u64>,
    /// Of these, calls that handed I/O to the kernel; of `posix-aio`, calls that handed I/O to glibc.
    pub submit_calls: u64,
    /// Of the system calls, those that only woke a sleeping submission poller.
    pub wakeups: u64,
    /// Flags that `io_uring_setup` took.
    pub ring_flags: Vec<RingFlag>,
    /// True if buffers and file are registered with the kernel.
    pub registered: bool,
    /// Writes to doorbell registers by `nvme-user`, of submission and completion queues together.
    pub doorbells: u64,
    /// Of these, those of completion queues.
    pub completion_doorbells: u64,
    /// Polls of the completion queue by `nvme-user` that found nothing.
    pub empty_polls: u64,
    /// Of the system calls, sleeps before polling (`clock_nanosleep`) by `nvme-user` with hybrid completion.
    pub sleeps: u64,
    /// True if doorbells have shadows in memory, so most need no register: an emulated drive under
    /// `nvme-user`.
    pub shadow_doorbells: bool,
}

/// One way to do I/O on one target, driven by the thread that opened it: no engine is `Send`.
///
/// Dropping an engine cancels what is in flight and waits for it for at most five seconds. What the kernel
/// still holds then is leaked with the pool, because a leak is safe and a free is not. Each engine keeps its
/// pool alive, so `mem::forget` of an engine is sound too.
pub trait Engine {
    /// Queues requests in order without submitting them; returns how many were taken. Fewer than
    /// given means that the engine is full; a slot is in flight from here to its completion.
    ///
    /// # Errors
    /// A slot that is out of range, too short or not free; with `nvme-passthrough` and `nvme-user`, a request
    /// that no NVMe command can express (not whole logical blocks, or too many). Earlier requests of the call
    /// stay queued.
    fn push(&mut self, requests: &[Request]) -> Result<usize, EngineError>;

    /// Hands everything queued to the kernel without waiting for completions. `posix-sio` cannot:
    /// it does the I/O here, and blocks.
    ///
    /// # Errors
    /// The engine is finished. A failed I/O is not an error but a [`Completion`].
    fn submit(&mut self) -> Result<(), EngineError>;

    /// Submits what is queued, in the same system call where the interface can, waits for `min` completions
    /// (0 never sleeps; at most as many as are in flight) and appends what is complete to `done`, within its
    /// spare capacity.
    ///
    /// # Errors
    /// The engine is finished.
    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), EngineError>;

    /// Requests that were pushed and have not completed.
    fn in_flight(&self) -> usize;

    /// How the engine was set up and what it has done.
    fn facts(&self) -> EngineFacts;
}
