//! Why an engine was not opened, refused a request, or is finished.

use crate::region::PoolError;
use crate::request::{Op, Request};
use std::fmt;
use thiserror::Error;

/// Why an engine is finished, or was not opened, or refused a request. One word long: results stay in
/// registers on the I/O path.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct EngineError(Box<Cause>);

/// The kinds of [`EngineError`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Cause {
    /// The pool could not be made.
    #[error(transparent)]
    Pool(PoolError),
    /// As many requests are in flight as the engine takes.
    #[error("{iodepth} requests are in flight, and the engine takes no more: wait for completions first")]
    Full {
        /// The depth that it was opened with.
        iodepth: usize,
    },
    /// A buffer of another pool than the one that the engine was opened with.
    #[error("the buffer is of another pool than the engine's: open an engine over that pool")]
    OtherPool,
    /// A transfer longer than its buffer.
    #[error("{len} bytes do not fit into a buffer of {buffer_len} bytes")]
    TooLong {
        /// Length asked for.
        len: u32,
        /// Length of the buffer.
        buffer_len: u32,
    },
    /// An offset or a length that direct I/O on the target cannot have.
    #[error("{len} bytes at byte {offset} are not whole blocks of {block} bytes, as direct I/O needs them")]
    Unaligned {
        /// Length asked for.
        len: u64,
        /// Offset asked for.
        offset: u64,
        /// Length of a logical block of the target.
        block: u64,
    },
    /// An operation that the interface does not have, or not in this mode.
    #[error("{interface} cannot do {op:?}{why}")]
    NoSuchOp {
        /// The engine's interface and mode.
        interface: &'static str,
        /// What was asked for.
        op: Op,
        /// Why, with a leading separator, or empty.
        why: &'static str,
    },
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
        Cause::Call { call, errno, remedy }.into()
    }

    /// A failed system call without a remedy, by its error.
    #[cold]
    pub(crate) fn failed(call: &'static str, error: impl Into<std::io::Error>) -> EngineError {
        EngineError::call(call, error.into().raw_os_error().unwrap_or(0), String::new())
    }

    /// Something that the interface cannot do.
    #[cold]
    pub fn unsupported(message: impl Into<String>) -> EngineError {
        Cause::Unsupported(message.into()).into()
    }

    /// A controller that has stopped serving, or refuses a command.
    #[cold]
    pub(crate) fn controller(message: String) -> EngineError {
        Cause::Controller(message).into()
    }
}

impl From<Cause> for EngineError {
    #[cold]
    fn from(cause: Cause) -> EngineError {
        EngineError(Box::new(cause))
    }
}

impl From<PoolError> for EngineError {
    #[cold]
    fn from(error: PoolError) -> EngineError {
        Cause::Pool(error).into()
    }
}

/// A request that an engine did not take, with the reason: nothing was done, and its buffers are the caller's
/// again. One word long: results stay in registers on the I/O path.
pub struct Refused(Box<(Request, EngineError)>);

impl Refused {
    /// For engines, of this crate and its sisters.
    #[cold]
    #[doc(hidden)]
    pub fn new(request: Request, error: EngineError) -> Refused {
        Refused(Box::new((request, error)))
    }

    /// The request.
    pub fn request(&self) -> &Request {
        &self.0.0
    }

    /// Why it was not taken.
    pub fn error(&self) -> &EngineError {
        &self.0.1
    }

    /// The request, and why it was not taken.
    pub fn into_parts(self) -> (Request, EngineError) {
        *self.0
    }
}

impl From<Refused> for EngineError {
    fn from(refused: Refused) -> EngineError {
        refused.0.1
    }
}

impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("request", &self.0.0).field("error", &self.0.1).finish()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.1.fmt(f)
    }
}

impl std::error::Error for Refused {}
