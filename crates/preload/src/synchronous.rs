//! `posix-sio`: `pread`, `pwrite` and their vectored forms.

use crate::descriptors;
use crate::moved::{Moved, Transfer, is_to_be_done_again};
use crate::process::is_working;
use crate::real::stand_before;
use crate::state::Inside;
use crate::stats::{self, Interface, Reason};
use crate::sys;
use iopj_engine::Op;
use std::ffi::{c_int, c_void};

stand_before! {
    pread = read: (fd: c_int, to: *mut c_void, len: usize, offset: i64) -> isize;
    pread64 = read: (fd: c_int, to: *mut c_void, len: usize, offset: i64) -> isize;
    pwrite = write: (fd: c_int, from: *const c_void, len: usize, offset: i64) -> isize;
    pwrite64 = write: (fd: c_int, from: *const c_void, len: usize, offset: i64) -> isize;
    preadv = read_vectors: (fd: c_int, vectors: *const libc::iovec, count: c_int, offset: i64) -> isize;
    preadv64 = read_vectors: (fd: c_int, vectors: *const libc::iovec, count: c_int, offset: i64) -> isize;
    pwritev = write_vectors: (fd: c_int, vectors: *const libc::iovec, count: c_int, offset: i64) -> isize;
    pwritev64 = write_vectors: (fd: c_int, vectors: *const libc::iovec, count: c_int, offset: i64) -> isize;
    preadv2 = read_with_flags:
        (fd: c_int, vectors: *const libc::iovec, count: c_int, offset: i64, flags: c_int) -> isize;
    preadv64v2 = read_with_flags:
        (fd: c_int, vectors: *const libc::iovec, count: c_int, offset: i64, flags: c_int) -> isize;
    pwritev2 = write_with_flags:
        (fd: c_int, vectors: *const libc::iovec, count: c_int, offset: i64, flags: c_int) -> isize;
    pwritev64v2 = write_with_flags:
        (fd: c_int, vectors: *const libc::iovec, count: c_int, offset: i64, flags: c_int) -> isize;
    __pread_chk = read_checked: (fd: c_int, to: *mut c_void, len: usize, offset: i64, room: usize) -> isize;
    __pread64_chk = read_checked: (fd: c_int, to: *mut c_void, len: usize, offset: i64, room: usize) -> isize;
}

type One<B> = unsafe extern "C-unwind" fn(c_int, B, usize, i64) -> isize;
type Vectors = unsafe extern "C-unwind" fn(c_int, *const libc::iovec, c_int, i64) -> isize;
type WithFlags = unsafe extern "C-unwind" fn(c_int, *const libc::iovec, c_int, i64, c_int) -> isize;
type Checked = unsafe extern "C-unwind" fn(c_int, *mut c_void, usize, i64, usize) -> isize;

unsafe extern "C-unwind" {
    /// pthread_testcancel(3): unwinds the thread if it is to be cancelled.
    safe fn pthread_testcancel();
}

unsafe fn read(real: One<*mut c_void>, fd: c_int, to: *mut c_void, len: usize, offset: i64) -> isize {
    let vector = libc::iovec { iov_base: to, iov_len: len };
    match moved(fd, Op::Read, &[vector], offset) {
        Some(result) => result,
        // SAFETY: by the condition of the function of this name.
        None => unsafe { real(fd, to, len, offset) },
    }
}

unsafe fn write(real: One<*const c_void>, fd: c_int, from: *const c_void, len: usize, offset: i64) -> isize {
    let vector = libc::iovec { iov_base: from.cast_mut(), iov_len: len };
    match moved(fd, Op::Write, &[vector], offset) {
        Some(result) => result,
        // SAFETY: by the condition of the function of this name.
        None => unsafe { real(fd, from, len, offset) },
    }
}

/// As [`read`], where the compiler knew how much room there is: the C library ends the program if it is less.
unsafe fn read_checked(
    real: Checked,
    fd: c_int,
    to: *mut c_void,
    len: usize,
    offset: i64,
    room: usize,
) -> isize {
    let vector = libc::iovec { iov_base: to, iov_len: len };
    let result = if len <= room { moved(fd, Op::Read, &[vector], offset) } else { None };
    // SAFETY: by the condition of the function of this name.
    result.unwrap_or_else(|| unsafe { real(fd, to, len, offset, room) })
}

unsafe fn read_vectors(real: Vectors, fd: c_int, at: *const libc::iovec, count: c_int, offset: i64) -> isize {
    // SAFETY: by the condition of the function of this name.
    match moved(fd, Op::Read, unsafe { slice(at, count) }, offset) {
        Some(result) => result,
        // SAFETY: as above.
        None => unsafe { real(fd, at, count, offset) },
    }
}

unsafe fn write_vectors(
    real: Vectors,
    fd: c_int,
    at: *const libc::iovec,
    count: c_int,
    offset: i64,
) -> isize {
    // SAFETY: by the condition of the function of this name.
    match moved(fd, Op::Write, unsafe { slice(at, count) }, offset) {
        Some(result) => result,
        // SAFETY: as above.
        None => unsafe { real(fd, at, count, offset) },
    }
}

unsafe fn read_with_flags(
    real: WithFlags,
    fd: c_int,
    at: *const libc::iovec,
    count: c_int,
    offset: i64,
    flags: c_int,
) -> isize {
    let op = if flags == 0 { Ok(Op::Read) } else { Err(Reason::CallFlags) };
    // SAFETY: by the condition of the function of this name.
    match op.map_or_else(passed, |op| moved(fd, op, unsafe { slice(at, count) }, offset)) {
        Some(result) => result,
        // SAFETY: as above.
        None => unsafe { real(fd, at, count, offset, flags) },
    }
}

unsafe fn write_with_flags(
    real: WithFlags,
    fd: c_int,
    at: *const libc::iovec,
    count: c_int,
    offset: i64,
    flags: c_int,
) -> isize {
    let op = match flags {
        0 => Ok(Op::Write),
        libc::RWF_DSYNC => Ok(Op::WriteDsync),
        libc::RWF_SYNC => Ok(Op::WriteSync),
        _ => Err(Reason::CallFlags),
    };
    // SAFETY: by the condition of the function of this name.
    match op.map_or_else(passed, |op| moved(fd, op, unsafe { slice(at, count) }, offset)) {
        Some(result) => result,
        // SAFETY: as above.
        None => unsafe { real(fd, at, count, offset, flags) },
    }
}

/// The vectors of a call; none if there can be none.
///
/// # Safety
/// `at` points to `count` vectors, or is null.
unsafe fn slice<'a>(at: *const libc::iovec, count: c_int) -> &'a [libc::iovec] {
    match usize::try_from(count) {
        // SAFETY: by this function's condition.
        Ok(count) if !at.is_null() => unsafe { std::slice::from_raw_parts(at, count) },
        _ => &[],
    }
}

/// Counts a call that is passed through.
fn passed<T>(reason: Reason) -> Option<T> {
    if is_working() {
        stats::passed(reason);
    }
    None
}

/// Moves a call, if it may be: what the function returns. `None`, and the call is to be made.
///
/// Nothing here has a destructor while the thread may be cancelled.
#[inline]
fn moved(fd: c_int, op: Op, vectors: &[libc::iovec], offset: i64) -> Option<isize> {
    if !is_working() {
        return None;
    }
    let transfer = Transfer { fd, op, vectors, offset: offset as u64 };
    let may_move = || {
        descriptors::may_move(fd)?;
        if offset < 0 { Err(Reason::CallFlags) } else { transfer.check() }
    };
    if let Err(reason) = may_move() {
        return passed(reason);
    }
    pthread_testcancel();
    match perform(&transfer) {
        Ok(result) => Some(sys::returned(result)),
        Err(reason) => passed(reason),
    }
}

/// Does it by the engine of this thread; bytes, or an errno negated.
fn perform(transfer: &Transfer<'_>) -> Result<isize, Reason> {
    let mut inside = Inside::enter()?;
    let Some(file) = descriptors::file(transfer.fd) else {
        descriptors::forget(transfer.fd);
        return Err(Reason::NotAFile);
    };
    let engines = &mut inside.state().engines;
    let number = engines.number(transfer.fd, file)?;
    let moved = engines.open(number)?;
    match transfer_by(moved, transfer) {
        Ok(result) if !is_to_be_done_again(result) => {
            stats::moved(Interface::PosixSio, result.max(0) as u64);
            Ok(result)
        }
        Ok(_) => Err(Reason::Refused),
        Err(Failed::Refused(reason)) => Err(reason),
        Err(Failed::Finished(error)) => {
            stats::failed(&error);
            // The kernel has nothing of it when this returns, so the call may be made.
            engines.give_up(number);
            Err(Reason::Refused)
        }
    }
}

enum Failed {
    Refused(Reason),
    Finished(String),
}

fn transfer_by(moved: &mut Moved, transfer: &Transfer<'_>) -> Result<isize, Failed> {
    // SAFETY: the program waits for the call, as it does for the system call.
    unsafe { moved.push(transfer, 0) }.map_err(Failed::Refused)?;
    let mut result = None;
    while result.is_none() {
        moved.wait(None, |_, outcome| result = Some(outcome)).map_err(Failed::Finished)?;
    }
    result.ok_or(Failed::Refused(Reason::Refused))
}
