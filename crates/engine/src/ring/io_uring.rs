//! `io_uring`: reads and writes as `IORING_OP_READ` and `IORING_OP_WRITE`, or their forms for registered
//! buffers; the rest by the operations that have the names of their system calls.

use crate::control_blocks::ControlBlocks;
use crate::error::EngineError;
use crate::rare::vectors;
use crate::request::{IoError, Op, Operation, Transfer};
use crate::ring::entry::{EntryBase, EntryFormat};
use linux_raw_sys::io_uring as sys;
use std::ptr::NonNull;
use sys::io_uring_op::{
    IORING_OP_FALLOCATE, IORING_OP_FSYNC, IORING_OP_READ, IORING_OP_READ_FIXED, IORING_OP_READV,
    IORING_OP_URING_CMD, IORING_OP_WRITE, IORING_OP_WRITE_FIXED, IORING_OP_WRITEV,
};

/// `BLOCK_URING_CMD_DISCARD` of include/uapi/linux/blkdev.h, `_IO(0x12, 0)`; since Linux 6.12.
const BLOCK_URING_CMD_DISCARD: u64 = 0x12 << 8;

/// `IOSQE_FIXED_FILE`: the descriptor is an index of registered files.
pub(crate) const FIXED_FILE: u8 = 1 << sys::io_uring_sqe_flags_bit::IOSQE_FIXED_FILE_BIT as u8;

// A write's code follows that of the read.
const _: () = assert!(IORING_OP_READ as u8 + 1 == IORING_OP_WRITE as u8);
const _: () = assert!(IORING_OP_READ_FIXED as u8 + 1 == IORING_OP_WRITE_FIXED as u8);

/// The entries of [`IoUring`](crate::IoUring).
pub struct ReadWrite {
    /// Code of a read; that of a write follows it.
    read: u8,
    /// The target is a device, not a file.
    is_device: bool,
}

impl ReadWrite {
    pub(crate) fn new(registered: bool, is_device: bool) -> ReadWrite {
        let read = if registered { IORING_OP_READ_FIXED } else { IORING_OP_READ };
        ReadWrite { read: read as u8, is_device }
    }
}

impl EntryFormat for ReadWrite {
    const SETUP: u32 = 0;

    type Kept = ();
    type Extra = ControlBlocks<libc::iovec>;

    // SAFETY: by the trait's condition the entry is the ring's, zeroed and unpublished.
    unsafe fn prepare(&self, mut entry: NonNull<sys::io_uring_sqe>, base: EntryBase) {
        // SAFETY: by this function's condition only we use the entry; zeroed, it is a valid one.
        let entry = unsafe { entry.as_mut() };
        entry.fd = base.fd;
        entry.flags = if base.registered { FIXED_FILE } else { 0 };
    }

    // SAFETY: by the trait's condition the entry is the ring's next one, prepared and unpublished.
    #[inline]
    unsafe fn transfer(
        &self,
        mut entry: NonNull<sys::io_uring_sqe>,
        op: Op,
        transfer: &Transfer,
        address: NonNull<u8>,
        _: EntryBase,
    ) {
        // SAFETY: by this function's condition only we use the entry, which is a valid one.
        let entry = unsafe { entry.as_mut() };
        entry.opcode = self.read + u8::from(op != Op::Read);
        entry.__bindgen_anon_3.rw_flags = op.rw_flags();
        entry.__bindgen_anon_1.off = transfer.offset;
        entry.__bindgen_anon_2.addr = address.as_ptr() as u64;
        entry.len = transfer.len;
    }

    #[inline]
    fn kept(_: u32) {}

    #[inline]
    fn result(&self, result: i32, (): ()) -> Result<u32, IoError> {
        if result >= 0 { Ok(result as u32) } else { failed(result) }
    }

    fn lacks(&self, op: Op, registered: bool) -> Option<&'static str> {
        (registered && matches!(op, Op::ReadVectored | Op::WriteVectored))
            .then_some(": registered buffers are read and written one by one")
    }

    fn extra(&self, operation: &Operation) -> Result<ControlBlocks<libc::iovec>, EngineError> {
        Ok(vectors(operation).into())
    }

    // SAFETY: by the trait's condition the entry is the ring's next one, zeroed and unpublished.
    unsafe fn rare(
        &self,
        mut entry: NonNull<sys::io_uring_sqe>,
        operation: &Operation,
        vectors: &ControlBlocks<libc::iovec>,
        base: EntryBase,
    ) {
        // SAFETY: as in `prepare`.
        unsafe { self.prepare(entry, base) };
        // SAFETY: by this function's condition only we use the entry.
        let entry = unsafe { entry.as_mut() };
        let code = match operation {
            Operation::ReadVectored { offset, .. } | Operation::WriteVectored { offset, .. } => {
                entry.__bindgen_anon_1.off = *offset;
                let (first, count) = vectors.all();
                (entry.__bindgen_anon_2.addr, entry.len) = (first as u64, count as u32);
                if operation.op() == Op::ReadVectored { IORING_OP_READV } else { IORING_OP_WRITEV }
            }
            Operation::Discard { offset, len } if self.is_device => {
                entry.__bindgen_anon_1.off = BLOCK_URING_CMD_DISCARD;
                entry.__bindgen_anon_2.addr = *offset;
                // SAFETY: `addr3` is plain, and the entry of 64 bytes has it.
                unsafe { entry.__bindgen_anon_6.__bindgen_anon_1.as_mut().addr3 = *len };
                IORING_OP_URING_CMD
            }
            Operation::Discard { offset, len } | Operation::WriteZeroes { offset, len } => {
                entry.__bindgen_anon_1.off = *offset;
                entry.__bindgen_anon_2.addr = *len;
                entry.len = fallocate_mode(operation.op()) as u32;
                IORING_OP_FALLOCATE
            }
            _ => {
                let only_data = operation.op() == Op::Flush;
                entry.__bindgen_anon_3.fsync_flags = if only_data { sys::IORING_FSYNC_DATASYNC } else { 0 };
                IORING_OP_FSYNC
            }
        };
        entry.opcode = code as u8;
    }

    fn name(polls: bool) -> &'static str {
        if polls { "io_uring with polled completion" } else { "io_uring" }
    }
}

/// Out of line, so the common result is a constant one.
#[cold]
#[inline(never)]
fn failed(result: i32) -> Result<u32, IoError> {
    Err(IoError::Os(-result))
}

/// The mode of fallocate(2) that discards a range of a file, or zeroes one of a file or a block device.
pub(crate) fn fallocate_mode(op: Op) -> i32 {
    libc::FALLOC_FL_KEEP_SIZE
        | if op == Op::Discard { libc::FALLOC_FL_PUNCH_HOLE } else { libc::FALLOC_FL_ZERO_RANGE }
}
