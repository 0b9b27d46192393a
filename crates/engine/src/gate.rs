//! What an engine checks before it takes a request.

use crate::error::{Cause, EngineError};
use crate::pool::Pool;
use crate::request::{Op, Operation, Request, Transfer};
use crate::target::Target;

/// The deepest queue that an engine takes: io_uring's own limit (IORING_MAX_ENTRIES).
pub const MAX_IODEPTH: u32 = 32_768;

pub(crate) fn check_depth(iodepth: u32) -> Result<(), EngineError> {
    if (1..=MAX_IODEPTH).contains(&iodepth) {
        return Ok(());
    }
    Err(EngineError::unsupported(format!("iodepth {iodepth} is not between 1 and {MAX_IODEPTH}")))
}

/// The pool of an engine and what direct I/O on its target needs.
pub(crate) struct Gate {
    pub(crate) pool: Pool,
    /// The bits of an offset or a length that must be zero.
    mask: u64,
    /// Length of a buffer.
    most: u32,
    iodepth: usize,
    /// The interface and its mode, for messages.
    interface: &'static str,
}

impl Gate {
    pub(crate) fn new(pool: &Pool, target: &Target, iodepth: u32, interface: &'static str) -> Gate {
        Gate::with_block(pool, target.logical_block(), iodepth, interface)
    }

    /// For a target with logical blocks of `block` bytes.
    pub(crate) fn with_block(pool: &Pool, block: u32, iodepth: u32, interface: &'static str) -> Gate {
        let mask = u64::from(block) - 1;
        Gate { pool: pool.clone(), mask, most: pool.buffer_len(), iodepth: iodepth as usize, interface }
    }

    #[inline]
    pub(crate) fn iodepth(&self) -> usize {
        self.iodepth
    }

    /// True if the transfer's buffer is of the pool, and its length and offset are possible.
    #[inline]
    pub(crate) fn admits(&self, transfer: &Transfer) -> bool {
        transfer.buffer.pool().is(&self.pool)
            && transfer.len <= self.most
            && (transfer.offset | u64::from(transfer.len)) & self.mask == 0
    }

    /// As [`Gate::admits`], for any request: why not.
    ///
    /// # Errors
    /// The first fault.
    pub(crate) fn check(&self, request: &Request, in_flight: usize) -> Result<(), EngineError> {
        if in_flight >= self.iodepth {
            return Err(Cause::Full { iodepth: self.iodepth }.into());
        }
        if let Some(Transfer { buffer, len, offset }) = request.operation.transfer() {
            if !buffer.pool().is(&self.pool) {
                return Err(Cause::OtherPool.into());
            }
            if *len > self.most {
                return Err(Cause::TooLong { len: *len, buffer_len: self.most }.into());
            }
            return self.check_range(*offset, u64::from(*len));
        }
        match &request.operation {
            Operation::ReadVectored { buffers, offset } | Operation::WriteVectored { buffers, offset } => {
                if buffers.iter().any(|buffer| !buffer.pool().is(&self.pool)) {
                    return Err(Cause::OtherPool.into());
                }
                self.check_range(*offset, u64::from(self.most))
            }
            Operation::Discard { offset, len } | Operation::WriteZeroes { offset, len } => {
                self.check_range(*offset, *len)
            }
            _ => Ok(()),
        }
    }

    fn check_range(&self, offset: u64, len: u64) -> Result<(), EngineError> {
        if (offset | len) & self.mask == 0 {
            return Ok(());
        }
        Err(Cause::Unaligned { len, offset, block: self.mask + 1 }.into())
    }

    /// That the interface lacks an operation; `why` has a leading separator, or is empty.
    pub(crate) fn lacks(&self, op: Op, why: &'static str) -> EngineError {
        Cause::NoSuchOp { interface: self.interface, op, why }.into()
    }
}
