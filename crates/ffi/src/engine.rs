//! Engines for C: opened by a path's text, given requests, asked for completions, closed.

use crate::driven::{Asked, Driven, Inner};
use crate::error::{IOPJ_ERROR_ARGUMENT, IOPJ_ERROR_ENGINE, IOPJ_OK, Outcome, failure, guard};
use crate::handle::Kind;
use crate::pointers::{io_path, read, require, write};
use crate::table::{self, Object};
use iopj_engine::{Completion, IoError, Op};
use std::ffi::c_char;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Reads `len` bytes at `offset` into the buffer.
pub const IOPJ_READ: u32 = 0;
/// Writes the buffer's first `len` bytes at `offset`.
pub const IOPJ_WRITE: u32 = 1;
/// Makes everything durable whose completion came before: fdatasync(2), or the drive's own command.
pub const IOPJ_FLUSH: u32 = 2;
/// As `IOPJ_FLUSH`, with the file's times: fsync(2).
pub const IOPJ_FSYNC: u32 = 3;
/// Says that `len` bytes at `offset` are not needed any more.
pub const IOPJ_DISCARD: u32 = 4;
/// Makes `len` bytes at `offset` read as zeros.
pub const IOPJ_WRITE_ZEROES: u32 = 5;
/// As `IOPJ_WRITE`, and the data are durable when it completes: `RWF_DSYNC`, or a drive's FUA.
pub const IOPJ_WRITE_DSYNC: u32 = 6;
/// As `IOPJ_WRITE_DSYNC`, with the file's times: `RWF_SYNC`.
pub const IOPJ_WRITE_SYNC: u32 = 7;

/// The buffer of a completion whose request had none.
pub const IOPJ_NO_BUFFER: u32 = u32::MAX;

/// `system_calls` of an engine whose system calls cannot be counted.
pub const IOPJ_NOT_COUNTED: u64 = u64::MAX;

/// How long a close waits that sets no limit.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// One request.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct IopjRequest {
    /// What to do, such as `IOPJ_READ`.
    pub op: u32,
    /// Index of a buffer that the caller has, for reads and writes.
    pub buffer: u32,
    /// Length in bytes, a multiple of the target's logical block. Flushes have none.
    pub len: u64,
    /// Offset on the target in bytes, such a multiple too, from the target's `data_offset` on.
    pub offset: u64,
    /// Returned with the completion.
    pub tag: u64,
}

/// The end of one request.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct IopjCompletion {
    /// The request's tag.
    pub tag: u64,
    /// Bytes moved (fewer than asked for: a partial I/O; 0 where nothing is moved), or a negative errno;
    /// after an NVMe status, `-EIO`.
    pub result: i64,
    /// The NVMe status of a failed command (code in bits 0 to 7, type in bits 8 to 10), else 0.
    pub nvme_status: u32,
    /// Index of the request's buffer, which the caller has again, or `IOPJ_NO_BUFFER`.
    pub buffer: u32,
}

/// What an engine has done since it was opened, without its set-up.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct IopjCounters {
    /// System calls, or `IOPJ_NOT_COUNTED` for `posix-aio`, whose calls glibc makes.
    pub system_calls: u64,
    /// Of these, calls that handed I/O to the kernel; of `posix-aio`, calls that handed I/O to glibc.
    pub submit_calls: u64,
    /// Of the system calls, those that only woke a sleeping submission poller.
    pub wakeups: u64,
    /// Writes to doorbell registers by `nvme-user`.
    pub doorbells: u64,
    /// Of these, those of completion queues.
    pub completion_doorbells: u64,
    /// Polls of the completion queue by `nvme-user` that found nothing.
    pub empty_polls: u64,
    /// Sleeps before polling by `nvme-user` with hybrid completion.
    pub sleeps: u64,
}

/// Opens the engine of a path, such as `io_uring/syscall/interrupt`, on a target for up to `iodepth` requests
/// in flight over the buffers of a pool. Returns its handle, or 0.
///
/// # Safety
/// `path` is `NULL` (which is an error), or a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_engine_open(path: *const c_char, target: u64, pool: u64, iodepth: u32) -> u64 {
    guard(|| {
        // SAFETY: this function's condition.
        let path = unsafe { io_path(path) }?;
        let buffers = table::pool(pool)?;
        let (engine, data) = table::target(target, |target| {
            let engine = iopj_engine::open(path, target, buffers.pool(), iodepth);
            let engine = engine.map_err(|error| failure(IOPJ_ERROR_ENGINE, error))?;
            let start = target.data_offset();
            Ok((engine, start..start.saturating_add(target.data_len())))
        })?;
        table::insert(Kind::Engine, |handle| {
            Object::Engine(Box::new(Driven::new(Inner::Plain(engine), handle, buffers, data)))
        })
    })
}

/// Queues a request without submitting it. Its buffer is in flight from here to its completion: whoever
/// touches its bytes in between races with the kernel, and iopj cannot tell. If the call fails, nothing was
/// done, and the caller still has the buffer.
///
/// # Safety
/// `request` is `NULL` (which is an error), or may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_push(engine: u64, request: *const IopjRequest) -> i32 {
    guard(|| {
        // SAFETY: this function's condition.
        let IopjRequest { op, buffer, len, offset, tag } = unsafe { read(request, "request") }?;
        let asked = Asked { op: operation(op)?, buffer, len, offset, tag };
        table::engine(engine, |driven| driven.push(&asked)).map(|()| IOPJ_OK)
    })
}

fn operation(number: u32) -> Outcome<Op> {
    Ok(match number {
        IOPJ_READ => Op::Read,
        IOPJ_WRITE => Op::Write,
        IOPJ_FLUSH => Op::Flush,
        IOPJ_FSYNC => Op::Fsync,
        IOPJ_DISCARD => Op::Discard,
        IOPJ_WRITE_ZEROES => Op::WriteZeroes,
        IOPJ_WRITE_DSYNC => Op::WriteDsync,
        IOPJ_WRITE_SYNC => Op::WriteSync,
        other => {
            let text = format!("there is no operation {other}: use IOPJ_READ or another one of iopj.h");
            return Err(failure(IOPJ_ERROR_ARGUMENT, text));
        }
    })
}

/// Hands everything queued to the kernel or the device without waiting for completions. `posix-sio` cannot:
/// it does the I/O here, and blocks.
#[unsafe(no_mangle)]
pub extern "C" fn iopj_submit(engine: u64) -> i32 {
    guard(|| table::engine(engine, Driven::submit).map(|()| IOPJ_OK))
}

/// Fetches what is complete, without submitting and without sleeping. Returns how many completions there are
/// in the array, from 0 to `capacity`, or a negative code. What does not fit comes with the next call.
///
/// # Safety
/// `completions` is `NULL` (which is an error), or `capacity` elements that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_reap(engine: u64, completions: *mut IopjCompletion, capacity: u32) -> i32 {
    guard(|| {
        let capacity = elements(completions, capacity)?;
        table::engine(engine, |driven| {
            driven.reap()?;
            // SAFETY: this function's condition.
            Ok(unsafe { fetch(driven, completions, capacity) })
        })
    })
}

/// Submits what is queued, waits until `min` completions can be fetched (at most as many as are in flight) or
/// `timeout_ns` nanoseconds are over, and fetches what is complete; a negative timeout is none. Returns how
/// many completions there are in the array, from 0 to `capacity`, or a negative code. What does not fit comes
/// with the next call, and counts for its `min`. A `min` of 0 never sleeps. `posix-sio` blocks as long as the
/// I/O takes.
///
/// # Safety
/// `completions` is `NULL` (which is an error), or `capacity` elements that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_wait(
    engine: u64,
    min: u32,
    timeout_ns: i64,
    completions: *mut IopjCompletion,
    capacity: u32,
) -> i32 {
    guard(|| {
        let capacity = elements(completions, capacity)?;
        let limit = u64::try_from(timeout_ns).ok().map(Duration::from_nanos);
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        table::engine(engine, |driven| {
            driven.wait(min as usize, until)?;
            // SAFETY: this function's condition.
            Ok(unsafe { fetch(driven, completions, capacity) })
        })
    })
}

/// The length of an array of completions, whose count must be a positive answer.
fn elements(completions: *mut IopjCompletion, capacity: u32) -> Outcome<usize> {
    require(completions, "completions")?;
    if capacity == 0 || i32::try_from(capacity).is_err() {
        let text = format!("`capacity` is {capacity}: pass the number of elements, from 1 to {}", i32::MAX);
        return Err(failure(IOPJ_ERROR_ARGUMENT, text));
    }
    Ok(capacity as usize)
}

/// Moves completions into the array; returns how many.
///
/// # Safety
/// `completions` is `capacity` elements that may be written.
unsafe fn fetch(driven: &mut Driven, completions: *mut IopjCompletion, capacity: usize) -> i32 {
    let count = driven.fetch(capacity, |place, completion| {
        // SAFETY: the place is below the capacity, and the rest is this function's condition.
        unsafe { completions.add(place).write_unaligned(ended(completion)) }
    });
    count as i32
}

fn ended(completion: &Completion) -> IopjCompletion {
    let (result, nvme_status) = match completion.result {
        Ok(bytes) => (bytes.into(), 0),
        Err(IoError::Os(errno)) => (-i64::from(errno), 0),
        Err(IoError::Nvme(status)) => (-i64::from(libc::EIO), status),
    };
    let buffer = completion.buffer().map_or(IOPJ_NO_BUFFER, |buffer| buffer.index());
    IopjCompletion { tag: completion.tag, result, nvme_status, buffer }
}

/// Requests that were pushed and whose completion was not fetched, or a negative code.
#[unsafe(no_mangle)]
pub extern "C" fn iopj_in_flight(engine: u64) -> i32 {
    guard(|| table::engine(engine, |driven| Ok(i32::try_from(driven.in_flight()).unwrap_or(i32::MAX))))
}

/// 1 if the engine has the operation, such as `IOPJ_FLUSH`, else 0; or a negative code. The target may still
/// fail it.
#[unsafe(no_mangle)]
pub extern "C" fn iopj_supports(engine: u64, op: u32) -> i32 {
    guard(|| {
        let op = operation(op)?;
        table::engine(engine, |driven| Ok(i32::from(driven.engine().dyn_supports(op))))
    })
}

/// Gives a descriptor that becomes readable when `iopj_reap` may find something, to join an event loop; -1
/// where there is none, as where the engine polls. It is the engine's: do not close it. It says nothing about
/// completions that did not fit into an array: call `iopj_reap` until it returns less than the capacity.
///
/// # Safety
/// `descriptor` is `NULL` (which is an error), or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_descriptor(engine: u64, descriptor: *mut i32) -> i32 {
    guard(|| {
        let found = table::engine(engine, |driven| {
            Ok(driven.engine().dyn_descriptor().map_or(-1, |descriptor| descriptor.as_raw_fd()))
        })?;
        // SAFETY: this function's condition.
        unsafe { write(descriptor, "descriptor", found) }?;
        Ok(IOPJ_OK)
    })
}

/// Says what an engine has done so far.
///
/// # Safety
/// `counters` is `NULL` (which is an error), or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_counters(engine: u64, counters: *mut IopjCounters) -> i32 {
    guard(|| {
        let done = table::engine(engine, |driven| Ok(driven.engine().dyn_counters()))?;
        let answer = IopjCounters {
            system_calls: done.system_calls.unwrap_or(IOPJ_NOT_COUNTED),
            submit_calls: done.submit_calls,
            wakeups: done.wakeups,
            doorbells: done.doorbells,
            completion_doorbells: done.completion_doorbells,
            empty_polls: done.empty_polls,
            sleeps: done.sleeps,
        };
        // SAFETY: this function's condition.
        unsafe { write(counters, "counters", answer) }?;
        Ok(IOPJ_OK)
    })
}

/// Closes an engine: cancels what is in flight and waits for it for at most `timeout_ns` nanoseconds (a
/// negative timeout is none). Completions that were not fetched are lost, and their buffers go back to the
/// pool. It says `IOPJ_ERROR_LEAKED`, and is closed, if requests had not ended by then: their buffers never
/// come back, and their memory is never freed, because a leak is safe and a free is not.
#[unsafe(no_mangle)]
pub extern "C" fn iopj_engine_close(engine: u64, timeout_ns: i64) -> i32 {
    guard(|| {
        let limit = u64::try_from(timeout_ns).map_or(FOREVER, Duration::from_nanos);
        let now = Instant::now();
        let until = now.checked_add(limit).unwrap_or(now);
        match table::remove(engine, Kind::Engine)? {
            Object::Engine(driven) => driven.close(until).map(|()| IOPJ_OK),
            Object::Target(_) | Object::Pool(_) => Ok(IOPJ_OK),
        }
    })
}
