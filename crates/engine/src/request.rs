//! Requests and completions: what an engine is asked to do, and what became of it.

use crate::pool::Buffer;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What a request does, without its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// From the target into a buffer.
    Read,
    /// From a buffer to the target.
    Write,
    /// As [`Op::Write`], and the data are durable when it completes: `RWF_DSYNC`, or a drive's FUA.
    WriteDsync,
    /// As [`Op::WriteDsync`], with the file's times: `RWF_SYNC`.
    WriteSync,
    /// From the target into several buffers, one after the other.
    ReadVectored,
    /// From several buffers, one after the other, to the target.
    WriteVectored,
    /// Makes everything that was written durable: fdatasync(2), or the drive's own command.
    Flush,
    /// As [`Op::Flush`], with the file's times: fsync(2).
    Fsync,
    /// Says that a range is not needed any more; what it reads as afterwards is the target's choice.
    Discard,
    /// Makes a range read as zeros.
    WriteZeroes,
}

impl Op {
    /// True if it changes what the target holds.
    pub fn writes(self) -> bool {
        !matches!(self, Op::Read | Op::ReadVectored | Op::Flush | Op::Fsync)
    }

    /// True if it moves one buffer.
    #[inline]
    pub(crate) fn is_transfer(self) -> bool {
        matches!(self, Op::Read | Op::Write | Op::WriteDsync | Op::WriteSync)
    }

    /// True if what it writes is durable when it completes.
    #[inline]
    pub fn is_durable(self) -> bool {
        matches!(self, Op::WriteDsync | Op::WriteSync)
    }

    /// Its flags of pwritev2(2), which io_uring and libaio take too.
    #[inline]
    pub(crate) fn rw_flags(self) -> u32 {
        match self {
            Op::WriteDsync => libc::RWF_DSYNC as u32,
            Op::WriteSync => libc::RWF_SYNC as u32,
            _ => 0,
        }
    }
}

/// One read or write of one buffer.
#[derive(Debug)]
pub struct Transfer {
    /// The buffer whose first `len` bytes are read or written.
    pub buffer: Buffer,
    /// Length in bytes.
    pub len: u32,
    /// Offset on the target in bytes.
    pub offset: u64,
}

/// An operation with its operands.
#[derive(Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the operations are explained by `Op`; offsets and lengths are in bytes")]
pub enum Operation {
    Read(Transfer),
    Write(Transfer),
    WriteDsync(Transfer),
    WriteSync(Transfer),
    /// The buffers are filled whole.
    ReadVectored {
        buffers: Vec<Buffer>,
        offset: u64,
    },
    /// The buffers are written whole.
    WriteVectored {
        buffers: Vec<Buffer>,
        offset: u64,
    },
    Flush,
    Fsync,
    Discard {
        offset: u64,
        len: u64,
    },
    WriteZeroes {
        offset: u64,
        len: u64,
    },
}

impl Transfer {
    /// The operation that moves it. Operations that move no single buffer are none of a transfer, and become
    /// reads.
    #[doc(hidden)]
    #[inline]
    pub fn by(self, op: Op) -> Operation {
        match op {
            Op::Write => Operation::Write(self),
            Op::WriteDsync => Operation::WriteDsync(self),
            Op::WriteSync => Operation::WriteSync(self),
            _ => Operation::Read(self),
        }
    }
}

impl Operation {
    /// What it does.
    #[inline]
    pub fn op(&self) -> Op {
        match self {
            Operation::Read(_) => Op::Read,
            Operation::Write(_) => Op::Write,
            Operation::WriteDsync(_) => Op::WriteDsync,
            Operation::WriteSync(_) => Op::WriteSync,
            Operation::ReadVectored { .. } => Op::ReadVectored,
            Operation::WriteVectored { .. } => Op::WriteVectored,
            Operation::Flush => Op::Flush,
            Operation::Fsync => Op::Fsync,
            Operation::Discard { .. } => Op::Discard,
            Operation::WriteZeroes { .. } => Op::WriteZeroes,
        }
    }

    /// The operands of a read or a write of one buffer.
    #[inline]
    pub fn transfer(&self) -> Option<&Transfer> {
        match self {
            Operation::Read(transfer)
            | Operation::Write(transfer)
            | Operation::WriteDsync(transfer)
            | Operation::WriteSync(transfer) => Some(transfer),
            _ => None,
        }
    }

    /// As [`Operation::transfer`], with the buffer.
    #[inline]
    pub fn into_transfer(self) -> Option<Transfer> {
        match self {
            Operation::Read(transfer)
            | Operation::Write(transfer)
            | Operation::WriteDsync(transfer)
            | Operation::WriteSync(transfer) => Some(transfer),
            _ => None,
        }
    }

    /// A read or a write of one buffer in its parts, which [`Transfer::by`] puts together again; or what it
    /// was.
    #[doc(hidden)]
    #[inline(always)]
    pub fn apart(self) -> Result<(Op, Transfer), Operation> {
        match self {
            Operation::Read(transfer) => Ok((Op::Read, transfer)),
            Operation::Write(transfer) => Ok((Op::Write, transfer)),
            Operation::WriteDsync(transfer) => Ok((Op::WriteDsync, transfer)),
            Operation::WriteSync(transfer) => Ok((Op::WriteSync, transfer)),
            other => Err(other),
        }
    }

    /// The buffers that it was given.
    pub fn into_buffers(self) -> Buffers {
        match self {
            Operation::ReadVectored { buffers, .. } | Operation::WriteVectored { buffers, .. } => {
                Buffers::Many(buffers.into())
            }
            other => other.into_transfer().map_or(Buffers::None, |transfer| Buffers::One(transfer.buffer)),
        }
    }
}

/// One request.
#[derive(Debug)]
pub struct Request {
    /// What to do.
    pub operation: Operation,
    /// Returned with the completion.
    pub tag: u64,
}

impl Request {
    /// Reads `len` bytes at `offset` into the buffer.
    #[inline]
    pub fn read(buffer: Buffer, len: u32, offset: u64) -> Request {
        Operation::Read(Transfer { buffer, len, offset }).into()
    }

    /// Writes the buffer's first `len` bytes at `offset`.
    #[inline]
    pub fn write(buffer: Buffer, len: u32, offset: u64) -> Request {
        Operation::Write(Transfer { buffer, len, offset }).into()
    }

    /// As [`Request::write`], and the data are durable when it completes.
    #[inline]
    pub fn write_dsync(buffer: Buffer, len: u32, offset: u64) -> Request {
        Operation::WriteDsync(Transfer { buffer, len, offset }).into()
    }

    /// As [`Request::write_dsync`], with the file's times.
    #[inline]
    pub fn write_sync(buffer: Buffer, len: u32, offset: u64) -> Request {
        Operation::WriteSync(Transfer { buffer, len, offset }).into()
    }

    /// Fills the buffers, one after the other, from `offset` on.
    pub fn read_vectored(buffers: Vec<Buffer>, offset: u64) -> Request {
        Operation::ReadVectored { buffers, offset }.into()
    }

    /// Writes the buffers, one after the other, from `offset` on.
    pub fn write_vectored(buffers: Vec<Buffer>, offset: u64) -> Request {
        Operation::WriteVectored { buffers, offset }.into()
    }

    /// Makes everything durable whose completion came before this request.
    pub fn flush() -> Request {
        Operation::Flush.into()
    }

    /// As [`Request::flush`], with the file's times.
    pub fn fsync() -> Request {
        Operation::Fsync.into()
    }

    /// Says that `len` bytes at `offset` are not needed any more.
    pub fn discard(offset: u64, len: u64) -> Request {
        Operation::Discard { offset, len }.into()
    }

    /// Makes `len` bytes at `offset` read as zeros.
    pub fn write_zeroes(offset: u64, len: u64) -> Request {
        Operation::WriteZeroes { offset, len }.into()
    }

    /// With this tag; without, it is 0.
    #[inline]
    #[must_use]
    pub fn tagged(self, tag: u64) -> Request {
        Request { tag, ..self }
    }
}

impl From<Operation> for Request {
    #[inline]
    fn from(operation: Operation) -> Request {
        Request { operation, tag: 0 }
    }
}

/// The buffers that come back with a completion: those that went with the request.
#[derive(Debug)]
pub enum Buffers {
    /// The request had none.
    None,
    /// A read or a write had one.
    One(Buffer),
    /// A vectored one had several, in their order.
    Many(Box<[Buffer]>),
}

/// The end of one request.
#[derive(Debug)]
pub struct Completion {
    /// The request's tag.
    pub tag: u64,
    /// Bytes moved (fewer than asked for: a partial I/O; 0 where nothing is moved), or why none were.
    pub result: Result<u32, IoError>,
    /// The request's buffers.
    pub buffers: Buffers,
}

impl Completion {
    /// The buffer of a read or a write.
    #[inline]
    pub fn into_buffer(self) -> Option<Buffer> {
        match self.buffers {
            Buffers::One(buffer) => Some(buffer),
            _ => None,
        }
    }

    /// The buffer of a read or a write, where it is.
    #[inline]
    pub fn buffer(&self) -> Option<&Buffer> {
        match &self.buffers {
            Buffers::One(buffer) => Some(buffer),
            _ => None,
        }
    }
}

/// Why one I/O failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoError {
    /// An errno.
    #[error("{}", std::io::Error::from_raw_os_error(*.0))]
    Os(i32),
    /// An NVMe status: status code in bits 0 to 7, its type in bits 8 to 10. It is as wide as an errno, so a
    /// result lies in two registers.
    #[error("NVMe status {:#x} (type {}, code {:#x})", .0, .0 >> 8 & 7, .0 & 0xff)]
    Nvme(u32),
}
