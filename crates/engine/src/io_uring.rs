//! `io_uring`: reads and writes as `IORING_OP_READ` and `IORING_OP_WRITE`, or their forms for
//! registered buffers.

use crate::engine::{IoError, Op, Request};
use crate::ring_engine::EntryFormat;
use iopj_core::path::Ring as Modes;
use linux_raw_sys::io_uring as sys;
use std::ptr::NonNull;

pub(crate) struct ReadWrite;

impl EntryFormat for ReadWrite {
    const SETUP: u32 = 0;

    // SAFETY: by the trait's condition the entry is the ring's next one, zeroed and unpublished.
    #[inline]
    unsafe fn prepare(
        &self,
        mut entry: NonNull<sys::io_uring_sqe>,
        request: &Request,
        address: NonNull<u8>,
        modes: Modes,
        fd: i32,
    ) {
        use sys::io_uring_op::{
            IORING_OP_READ, IORING_OP_READ_FIXED, IORING_OP_WRITE, IORING_OP_WRITE_FIXED,
        };
        let opcode = match (request.op, modes.registered) {
            (Op::Read, false) => IORING_OP_READ,
            (Op::Read, true) => IORING_OP_READ_FIXED,
            (Op::Write, false) => IORING_OP_WRITE,
            (Op::Write, true) => IORING_OP_WRITE_FIXED,
        };
        // SAFETY: by this function's conditions only we use the entry; zeroed, it is a valid one.
        let entry = unsafe { entry.as_mut() };
        entry.opcode = opcode as u8;
        entry.fd = fd;
        entry.flags =
            if modes.registered { 1 << sys::io_uring_sqe_flags_bit::IOSQE_FIXED_FILE_BIT as u8 } else { 0 };
        entry.__bindgen_anon_1.off = request.offset;
        entry.__bindgen_anon_2.addr = address.as_ptr() as u64;
        entry.len = request.len;
    }

    #[inline]
    fn result(&self, result: i32, _len: u32) -> Result<u32, IoError> {
        u32::try_from(result).map_err(|_| IoError::Os(-result))
    }
}
