//! `posix-aio`: `aio_read`, `aio_write` and what belongs to them.
//!
//! An I/O is in the queue of the thread that asked for it, and has glibc's own state in its control block, so
//! that aio_return(3) is glibc's. Any thread takes what has ended: the one that asks for it.

use crate::control_block::{self, Address, ControlBlock, Flights};
use crate::descriptors;
use crate::libaio::deadline;
use crate::moved::Transfer;
use crate::process::is_working;
use crate::real::stand_before;
use crate::state::Inside;
use crate::stats::{self, Reason};
use crate::sys;
use iopj_engine::Op;
use std::ffi::c_int;
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::{Duration, Instant};

type Block = *mut ControlBlock;
type Start = unsafe extern "C-unwind" fn(Block) -> c_int;
type Suspend = unsafe extern "C-unwind" fn(*const Block, c_int, *const libc::timespec) -> c_int;
type OfNumber = unsafe extern "C-unwind" fn(c_int, Block) -> c_int;
type Listio = unsafe extern "C-unwind" fn(c_int, *const Block, c_int, *mut libc::sigevent) -> c_int;

stand_before! {
    aio_read = read: (block: Block) -> c_int;
    aio_read64 = read: (block: Block) -> c_int;
    aio_write = write: (block: Block) -> c_int;
    aio_write64 = write: (block: Block) -> c_int;
    aio_error = error: (block: Block) -> c_int;
    aio_error64 = error: (block: Block) -> c_int;
    aio_suspend = suspend: (list: *const Block, count: c_int, limit: *const libc::timespec) -> c_int;
    aio_suspend64 = suspend: (list: *const Block, count: c_int, limit: *const libc::timespec) -> c_int;
    aio_cancel = cancel: (fd: c_int, block: Block) -> c_int;
    aio_cancel64 = cancel: (fd: c_int, block: Block) -> c_int;
    aio_fsync = sync: (op: c_int, block: Block) -> c_int;
    aio_fsync64 = sync: (op: c_int, block: Block) -> c_int;
    lio_listio = list_io: (mode: c_int, list: *const Block, count: c_int, event: *mut libc::sigevent) -> c_int;
    lio_listio64 = list_io: (mode: c_int, list: *const Block, count: c_int, event: *mut libc::sigevent) -> c_int;
}

unsafe extern "C-unwind" {
    /// pthread_testcancel(3): unwinds the thread if it is to be cancelled.
    safe fn pthread_testcancel();
}

/// How long signals are held off at a time, and how long what another thread waits for is left alone.
const SLICE: Duration = Duration::from_millis(10);
const SHORT: Duration = Duration::from_micros(100);

unsafe fn read(real: Start, block: Block) -> c_int {
    // SAFETY: by the condition of the function of this name.
    unsafe { start(real, block, Op::Read) }
}

unsafe fn write(real: Start, block: Block) -> c_int {
    // SAFETY: by the condition of the function of this name.
    unsafe { start(real, block, Op::Write) }
}

unsafe fn start(real: Start, block: Block, op: Op) -> c_int {
    if is_working() {
        // SAFETY: by the condition of the function of this name.
        match unsafe { submit(&[(block, op)]) } {
            Ok(()) => return 0,
            Err(reason) => stats::passed(reason),
        }
    }
    // SAFETY: as above.
    unsafe { real(block) }
}

/// The transfer that a control block asks for, if it may be moved.
///
/// # Safety
/// The block is null or the program's.
unsafe fn check<T>(block: Block, op: Op, with: impl FnOnce(&Transfer<'_>) -> T) -> Result<T, Reason> {
    // SAFETY: by this function's condition.
    let Some(block) = (unsafe { block.as_ref() }) else { return Err(Reason::Length) };
    if block.event.sigev_notify != libc::SIGEV_NONE {
        return Err(Reason::Notified);
    }
    if block.priority != 0 || block.offset < 0 {
        return Err(Reason::CallFlags);
    }
    let vector = libc::iovec { iov_base: block.buffer, iov_len: block.len };
    let transfer = Transfer { fd: block.fd, op, vectors: &[vector], offset: block.offset as u64 };
    transfer.check()?;
    if !descriptors::is_open_for(block.fd, transfer.reads()) {
        return Err(Reason::NotOpen);
    }
    Ok(with(&transfer))
}

/// Hands I/Os to the engine, all or none.
///
/// # Safety
/// The blocks are null or the program's, and stay where they are until it is told that their I/O has ended.
unsafe fn submit(all: &[(Block, Op)]) -> Result<(), Reason> {
    for (block, op) in all {
        // SAFETY: by this function's condition.
        unsafe { check(*block, *op, |_| ()) }?;
    }
    let mut inside = Inside::enter()?;
    let owner = Arc::clone(inside.state().aio());
    let mut queue = owner.lock().unwrap_or_else(PoisonError::into_inner);
    for (number, (block, op)) in all.iter().enumerate() {
        // SAFETY: `check` has seen that it is not null.
        let at = unsafe { &**block };
        // SAFETY: by this function's condition.
        let pushed = unsafe {
            check(*block, *op, |transfer| {
                let file = descriptors::may_move_now(transfer.fd)?;
                at.begin(&owner);
                queue.push(transfer, file, at.address())
            })
        };
        if let Err(reason) = pushed.and_then(|pushed| pushed) {
            at.take_back();
            if number == 0 {
                return Err(reason);
            }
            // The others are on their way: this one is done here and now.
            // SAFETY: by this function's condition.
            let done =
                unsafe { check(*block, *op, |it| sys::transfer(it.reads(), it.fd, it.vectors, it.offset)) };
            stats::passed(reason);
            at.begin(&owner);
            queue.ended.push_back((at.address(), done.unwrap_or(-(libc::EINVAL as isize))));
        }
    }
    queue.submit();
    control_block::tell(&mut queue);
    Ok(())
}

/// Takes what has ended of a queue, unless another thread does; waits for something until `until`, if that is
/// given. False if another thread does.
fn take(queue: &Arc<Flights>, until: Option<Instant>) -> bool {
    let mut queue = match queue.try_lock() {
        Ok(queue) => queue,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return false,
    };
    match until {
        Some(until) => queue.wait(until),
        None => queue.reap(),
    }
    control_block::tell(&mut queue);
    true
}

/// True if the program has not been told the end of an I/O that is ours.
///
/// # Safety
/// The block is null or the program's.
unsafe fn is_pending(block: Block) -> bool {
    // SAFETY: by this function's condition.
    unsafe { block.as_ref() }.is_some_and(|block| {
        block.error() == libc::EINPROGRESS && control_block::queue_of(block.address()).is_some()
    })
}

unsafe fn error(real: Start, block: Block) -> c_int {
    // SAFETY: by the condition of the function of this name.
    let asks = is_working() && unsafe { block.as_ref() }.is_some_and(|it| it.error() == libc::EINPROGRESS);
    if asks
        && let Ok(_inside) = Inside::enter()
        && let Some(queue) = control_block::queue_of(Address(block.expose_provenance()))
    {
        take(&queue, None);
    }
    // SAFETY: as above.
    unsafe { real(block) }
}

/// What one look at a list found.
enum Look {
    /// One has ended.
    Ended,
    /// None is ours, so glibc waits.
    Glibcs,
    /// Some are glibc's, of which none has ended.
    Mixed,
    /// A while has passed.
    Waited,
    Interrupted,
}

unsafe fn suspend(real: Suspend, list: *const Block, count: c_int, limit: *const libc::timespec) -> c_int {
    // SAFETY: by the condition of the function of this name.
    let time = unsafe { limit.as_ref() };
    let until = time.and_then(deadline);
    let is_usual = is_working() && count > 0 && !list.is_null() && time.is_none() == until.is_none();
    if !is_usual {
        // SAFETY: as above.
        return unsafe { real(list, count, limit) };
    }
    loop {
        // What may unwind has nothing that must be dropped.
        pthread_testcancel();
        // SAFETY: as above.
        match unsafe { look(list, count as usize, until) } {
            Look::Ended => return 0,
            // SAFETY: as above.
            Look::Glibcs => return unsafe { real(list, count, limit) },
            Look::Interrupted => return sys::returned(-(libc::EINTR as isize)) as c_int,
            Look::Mixed => {
                let short = libc::timespec { tv_sec: 0, tv_nsec: SHORT.as_nanos() as i64 };
                let errno = sys::errno();
                // SAFETY: as above. To glibc ours are in progress.
                let waited = unsafe { real(list, count, &raw const short) };
                if waited == 0 || sys::errno() != libc::EAGAIN {
                    return waited;
                }
                sys::set_errno(errno);
            }
            Look::Waited => {}
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return sys::returned(-(libc::EAGAIN as isize)) as c_int;
        }
    }
}

/// Takes what has ended, and waits for a while for one of the list.
///
/// # Safety
/// `list` has `count` addresses of blocks or null pointers.
unsafe fn look(list: *const Block, count: usize, until: Option<Instant>) -> Look {
    let Ok(inside) = Inside::enter() else { return Look::Glibcs };
    // SAFETY: by this function's condition.
    let blocks = unsafe { std::slice::from_raw_parts(list, count) };
    let (mut queues, mut others) = (Vec::new(), 0);
    for block in blocks {
        // SAFETY: by this function's condition.
        let Some(at) = (unsafe { block.as_ref() }) else { continue };
        if at.error() != libc::EINPROGRESS {
            return Look::Ended;
        }
        match control_block::queue_of(at.address()) {
            Some(queue) if queues.iter().any(|other| Arc::ptr_eq(other, &queue)) => {}
            Some(queue) => queues.push(queue),
            None => others += 1,
        }
    }
    if queues.is_empty() {
        return Look::Glibcs;
    }
    let is_alone = queues.len() == 1 && others == 0;
    let end = Instant::now() + if is_alone { SLICE } else { SHORT };
    let end = until.map_or(end, |until| until.min(end));
    let mut is_busy = false;
    for queue in &queues {
        is_busy |= !take(queue, Some(end));
    }
    // SAFETY: as above.
    let has_ended =
        |block: &Block| unsafe { block.as_ref() }.is_some_and(|block| block.error() != libc::EINPROGRESS);
    if blocks.iter().any(has_ended) {
        return Look::Ended;
    }
    if inside.is_interrupted() {
        return Look::Interrupted;
    }
    drop(inside);
    if is_busy {
        sys::pause(SHORT.as_nanos() as i64);
    }
    if others > 0 { Look::Mixed } else { Look::Waited }
}

/// A device cannot be asked to give up what it has.
unsafe fn cancel(real: OfNumber, fd: c_int, block: Block) -> c_int {
    if is_working()
        && let Ok(_inside) = Inside::enter()
    {
        for queue in control_block::queues() {
            take(&queue, None);
        }
        // SAFETY: by the condition of the function of this name.
        if unsafe { is_pending(block) } {
            return libc::AIO_NOTCANCELED;
        }
        let is_busy = |queue: &Arc<Flights>| queue.try_lock().map_or(true, |it| it.in_flight_on(fd) > 0);
        if block.is_null() && control_block::queues().iter().any(is_busy) {
            return libc::AIO_NOTCANCELED;
        }
    }
    // SAFETY: as above.
    unsafe { real(fd, block) }
}

/// glibc's, once all that is in flight on the descriptor has ended: it is what is to be made durable.
unsafe fn sync(real: OfNumber, op: c_int, block: Block) -> c_int {
    // SAFETY: by the condition of the function of this name.
    let fd = unsafe { block.as_ref() }.map_or(-1, |block| block.fd);
    while is_working() && fd >= 0 {
        let Ok(_inside) = Inside::enter() else { break };
        let mut is_busy = false;
        for queue in control_block::queues() {
            let has_some = queue.try_lock().map_or(true, |it| it.in_flight_on(fd) > 0);
            is_busy |= has_some;
            if has_some {
                take(&queue, Some(Instant::now() + SLICE));
            }
        }
        if !is_busy {
            break;
        }
    }
    // SAFETY: as above.
    unsafe { real(op, block) }
}

unsafe fn list_io(
    real: Listio,
    mode: c_int,
    list: *const Block,
    count: c_int,
    event: *mut libc::sigevent,
) -> c_int {
    // SAFETY: by the condition of the function of this name.
    match unsafe { submit_list(mode, list, count, event) } {
        Ok(()) if mode != libc::LIO_WAIT => return 0,
        Ok(()) => {}
        Err(reason) => {
            if is_working() {
                stats::passed(reason);
            }
            // SAFETY: as above.
            return unsafe { real(mode, list, count, event) };
        }
    }
    loop {
        pthread_testcancel();
        // SAFETY: as above.
        match unsafe { all_ended(list, count as usize) } {
            Ok(true) => return 0,
            Ok(false) => {}
            Err(errno) => return sys::returned(-(errno as isize)) as c_int,
        }
    }
}

/// # Safety
/// As for lio_listio(3).
unsafe fn submit_list(
    mode: c_int,
    list: *const Block,
    count: c_int,
    event: *mut libc::sigevent,
) -> Result<(), Reason> {
    if !is_working() || count <= 0 || list.is_null() || ![libc::LIO_WAIT, libc::LIO_NOWAIT].contains(&mode) {
        return Err(Reason::Operation);
    }
    // SAFETY: by this function's condition.
    let event = unsafe { event.as_ref() };
    if mode == libc::LIO_NOWAIT && event.is_some_and(|event| event.sigev_notify != libc::SIGEV_NONE) {
        return Err(Reason::Notified);
    }
    // SAFETY: by this function's condition.
    let blocks = unsafe { std::slice::from_raw_parts(list, count as usize) };
    let asked = |block: &Block| {
        // SAFETY: by this function's condition; null pointers are left to glibc.
        match unsafe { block.as_ref() }.map(|block| block.opcode) {
            Some(libc::LIO_READ) => Ok((*block, Op::Read)),
            Some(libc::LIO_WRITE) => Ok((*block, Op::Write)),
            _ => Err(Reason::Operation),
        }
    };
    let all = blocks.iter().map(asked).collect::<Result<Vec<_>, Reason>>()?;
    // SAFETY: by this function's condition.
    unsafe { submit(&all) }
}

/// Whether all of a list have ended, after a while.
///
/// # Safety
/// `list` has `count` addresses of blocks.
unsafe fn all_ended(list: *const Block, count: usize) -> Result<bool, c_int> {
    // SAFETY: by this function's condition.
    let blocks = unsafe { std::slice::from_raw_parts(list, count) };
    let mut has_failed = false;
    for block in blocks {
        // SAFETY: by this function's condition.
        let Some(at) = (unsafe { block.as_ref() }) else { continue };
        if at.error() == libc::EINPROGRESS {
            let Ok(inside) = Inside::enter() else { return Ok(false) };
            if let Some(queue) = control_block::queue_of(at.address()) {
                take(&queue, Some(Instant::now() + SLICE));
            }
            return if inside.is_interrupted() { Err(libc::EINTR) } else { Ok(false) };
        }
        has_failed |= at.error() != 0;
    }
    if has_failed { Err(libc::EIO) } else { Ok(true) }
}
