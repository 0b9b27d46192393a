//! `posix-aio`: `aio_read`, `aio_write` and what belongs to them, but `aio_fsync`.
//!
//! An I/O is in the queue of the thread that began it, and has glibc's own state in its control block, so
//! that aio_return(3) is glibc's. I/Os are moved once it has been seen that threads ask for their own alone;
//! one that asks for another's all the same gets it by asking its thread, and is the last.

use crate::control_block::{self, ControlBlock, Place, Whose};
use crate::descriptors;
use crate::events::{LONG, SHORT, SLICE, deadline};
use crate::moved::Transfer;
use crate::process::is_working;
use crate::real::stand_before;
use crate::state::{Inside, State};
use crate::stats::{self, Reason};
use crate::sys::{self, Quiet};
use iopj_engine::Op;
use std::ffi::c_int;
use std::sync::Arc;
use std::time::Instant;

type Block = *mut ControlBlock;
type Event = *mut libc::sigevent;
type Start = unsafe extern "C-unwind" fn(Block) -> c_int;
type Suspend = unsafe extern "C-unwind" fn(*const Block, c_int, *const libc::timespec) -> c_int;
type Return = unsafe extern "C-unwind" fn(Block) -> isize;
type Cancel = unsafe extern "C-unwind" fn(c_int, Block) -> c_int;
type Listio = unsafe extern "C-unwind" fn(c_int, *const Block, c_int, Event) -> c_int;

stand_before! {
    aio_read = read: (block: Block) -> c_int;
    aio_read64 = read: (block: Block) -> c_int;
    aio_write = write: (block: Block) -> c_int;
    aio_write64 = write: (block: Block) -> c_int;
    aio_error = error: (block: Block) -> c_int;
    aio_error64 = error: (block: Block) -> c_int;
    aio_return = returned: (block: Block) -> isize;
    aio_return64 = returned: (block: Block) -> isize;
    aio_suspend = suspend: (list: *const Block, count: c_int, limit: *const libc::timespec) -> c_int;
    aio_suspend64 = suspend: (list: *const Block, count: c_int, limit: *const libc::timespec) -> c_int;
    aio_cancel = cancel: (fd: c_int, block: Block) -> c_int;
    aio_cancel64 = cancel: (fd: c_int, block: Block) -> c_int;
    lio_listio = list_io: (mode: c_int, list: *const Block, count: c_int, event: Event) -> c_int;
    lio_listio64 = list_io: (mode: c_int, list: *const Block, count: c_int, event: Event) -> c_int;
}

unsafe extern "C-unwind" {
    /// pthread_testcancel(3): unwinds the thread if it is to be cancelled.
    safe fn pthread_testcancel();
}

unsafe fn read(real: Start, block: Block) -> c_int {
    // SAFETY: by the condition of the function of this name.
    unsafe { start(real, block, Op::Read) }
}

unsafe fn write(real: Start, block: Block) -> c_int {
    // SAFETY: by the condition of the function of this name.
    unsafe { start(real, block, Op::Write) }
}

unsafe fn start(real: Start, block: Block, op: Op) -> c_int {
    let mut is_left = false;
    if is_working() {
        let op_of = |_: &ControlBlock| Ok(op);
        // SAFETY: by the condition of the function of this name.
        match unsafe { submit(&[block], op_of) } {
            Ok(()) => return 0,
            Err(reason) => stats::passed(reason),
        }
        // SAFETY: as above.
        is_left = unsafe { leave(&[block], op_of) };
    }
    // SAFETY: as above.
    let begun = unsafe { real(block) };
    if is_left && begun != 0 {
        let _quiet = Quiet::begin();
        // SAFETY: as above.
        unsafe { block.as_ref() }.inspect(|block| block.refused());
    }
    begun
}

/// Before glibc gets I/Os: those of ours end that they would overtake, and it is noted that it has them. True
/// if one was noted.
///
/// # Safety
/// The blocks are null or the program's.
unsafe fn leave(blocks: &[Block], op_of: impl Fn(&ControlBlock) -> Result<Op, Reason>) -> bool {
    // SAFETY: by this function's condition.
    let all = || blocks.iter().filter_map(|block| unsafe { block.as_ref() });
    if !all().any(|block| descriptors::may_move(block.fd).is_ok()) {
        return false;
    }
    let mut inside = Inside::enter_to_take();
    let quiet = inside.is_err().then(Quiet::begin);
    for block in all() {
        let Ok(op) = op_of(block) else { continue };
        let place = block.place(op);
        let owner = inside.as_mut().ok().map(|inside| {
            come_after(inside, &place);
            Arc::clone(&inside.state().owner)
        });
        block.leave(owner, place);
    }
    drop(quiet);
    true
}

/// Waits for what an I/O on this place must not overtake.
fn come_after(inside: &mut Inside, place: &Place) {
    let until = Instant::now() + LONG;
    while let Some(owner) = control_block::before(place)
        && Instant::now() < until
    {
        let state = inside.state();
        if owner.is(&state.owner) {
            take(state, Some(Instant::now() + SLICE));
        } else {
            owner.ask();
            sys::pause(SHORT.as_nanos() as i64);
            state.publish();
        }
    }
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
    Ok(with(&transfer))
}

/// Hands I/Os to the engine, all or none.
///
/// # Safety
/// The blocks are null or the program's, and stay where they are until it is told that their I/O has ended.
unsafe fn submit(
    blocks: &[Block],
    op_of: impl Fn(&ControlBlock) -> Result<Op, Reason>,
) -> Result<(), Reason> {
    for block in blocks {
        // SAFETY: by this function's condition.
        let at = unsafe { block.as_ref() }.ok_or(Reason::Length)?;
        // SAFETY: by this function's condition.
        unsafe { check(*block, op_of(at)?, |_| ()) }?;
    }
    let mut inside = Inside::enter()?;
    for block in blocks {
        // SAFETY: it has been seen that it is not null.
        let at = unsafe { &**block };
        control_block::may_move(at, &at.place(op_of(at)?))?;
    }
    if !inside.is_reachable() {
        return Err(Reason::Unreachable);
    }
    for (number, block) in blocks.iter().enumerate() {
        // SAFETY: as above.
        let (at, op) = unsafe { (&**block, op_of(&**block)?) };
        let place = at.place(op);
        come_after(&mut inside, &place);
        let State { owner, aio: queue, .. } = inside.state();
        // SAFETY: by this function's condition.
        let pushed = unsafe {
            check(*block, op, |transfer| {
                let file = descriptors::may_move_now(transfer.fd, transfer.reads())?;
                at.begin(owner, place);
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
            let done = unsafe { check(*block, op, |it| sys::transfer(it.op, it.fd, it.vectors, it.offset)) };
            stats::passed(reason);
            at.begin(owner, place);
            queue.ended.push_back((at.address(), done.unwrap_or(-(libc::EINVAL as isize))));
        }
    }
    let queue = &mut inside.state().aio;
    queue.submit();
    control_block::tell(queue);
    Ok(())
}

/// Takes what this thread has and has ended; waits for something until `until`, if that is given.
fn take(state: &mut State, until: Option<Instant>) {
    match until {
        Some(until) => state.aio.wait(until),
        None => state.aio.reap(),
    }
    control_block::tell(&mut state.aio);
}

unsafe fn error(real: Start, block: Block) -> c_int {
    // SAFETY: by the condition of the function of this name.
    unsafe { see(block) };
    // SAFETY: as above.
    unsafe { real(block) }
}

unsafe fn returned(real: Return, block: Block) -> isize {
    if is_working() && control_block::is_watching() {
        // SAFETY: by the condition of the function of this name.
        unsafe { see(block) };
    }
    // SAFETY: as above.
    unsafe { real(block) }
}

/// Takes the end of what a thread asks for, if it is there.
///
/// # Safety
/// The block is null or the program's.
unsafe fn see(block: Block) {
    if is_working()
        // SAFETY: by this function's condition.
        && let Some(at) = unsafe { block.as_ref() }
        && (at.error() == libc::EINPROGRESS || control_block::is_watching())
        && let Ok(mut inside) = Inside::enter_to_take()
    {
        match at.asked_by(&inside.state().owner) {
            Whose::Own => take(inside.state(), None),
            Whose::Others(owner) => {
                owner.ask();
            }
            Whose::Later | Whose::Nobodys => {}
        }
    }
}

/// What one look at a list found.
enum Look {
    /// One has ended.
    Ended,
    /// None is ours, so glibc waits.
    Glibcs,
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
    let Ok(mut inside) = Inside::enter_to_take() else { return Look::Glibcs };
    // SAFETY: by this function's condition.
    let blocks = unsafe { std::slice::from_raw_parts(list, count) };
    let (mut own, mut others, mut glibcs) = (0, 0, 0);
    for block in blocks {
        // SAFETY: by this function's condition.
        let Some(at) = (unsafe { block.as_ref() }) else { continue };
        match at.asked_by(&inside.state().owner) {
            _ if at.error() != libc::EINPROGRESS => return Look::Ended,
            Whose::Own => own += 1,
            Whose::Others(owner) => {
                owner.ask();
                others += 1;
            }
            Whose::Later => others += 1,
            Whose::Nobodys => glibcs += 1,
        }
    }
    if own + others == 0 {
        return Look::Glibcs;
    }
    if own > 0 {
        let end = Instant::now() + if others + glibcs == 0 { SLICE } else { SHORT };
        take(inside.state(), Some(until.map_or(end, |until| until.min(end))));
    }
    if others + glibcs > 0 {
        // glibc's threads say so in the control blocks when they are done, and other threads of ours do.
        sys::pause(SHORT.as_nanos() as i64);
    }
    // SAFETY: by this function's condition.
    let has_ended =
        |block: &Block| unsafe { block.as_ref() }.is_some_and(|block| block.error() != libc::EINPROGRESS);
    if blocks.iter().any(has_ended) {
        Look::Ended
    } else if inside.is_interrupted() {
        Look::Interrupted
    } else {
        Look::Waited
    }
}

/// A device cannot be asked to give up what it has.
unsafe fn cancel(real: Cancel, fd: c_int, block: Block) -> c_int {
    if is_working()
        && let Ok(mut inside) = Inside::enter_to_take()
    {
        take(inside.state(), None);
        // SAFETY: by the condition of the function of this name.
        let is_in_flight = match unsafe { block.as_ref() } {
            Some(at) => !matches!(at.asked_by(&inside.state().owner), Whose::Nobodys),
            None => control_block::is_any_on(fd),
        };
        if is_in_flight {
            return libc::AIO_NOTCANCELED;
        }
    }
    // SAFETY: as above.
    unsafe { real(fd, block) }
}

unsafe fn list_io(real: Listio, mode: c_int, list: *const Block, count: c_int, event: Event) -> c_int {
    // SAFETY: by the condition of the function of this name.
    match unsafe { submit_list(mode, list, count, event) } {
        Ok(()) if mode != libc::LIO_WAIT => return 0,
        Ok(()) => {}
        Err(reason) => {
            if is_working() {
                stats::passed(reason);
                // SAFETY: as above.
                unsafe { leave(blocks_of(list, count), op_of_list) };
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
unsafe fn submit_list(mode: c_int, list: *const Block, count: c_int, event: Event) -> Result<(), Reason> {
    if !is_working() || count <= 0 || list.is_null() || ![libc::LIO_WAIT, libc::LIO_NOWAIT].contains(&mode) {
        return Err(Reason::Operation);
    }
    // SAFETY: by this function's condition.
    let event = unsafe { event.as_ref() };
    if mode == libc::LIO_NOWAIT && event.is_some_and(|event| event.sigev_notify != libc::SIGEV_NONE) {
        return Err(Reason::Notified);
    }
    // SAFETY: by this function's condition.
    unsafe { submit(blocks_of(list, count), op_of_list) }
}

/// # Safety
/// As for lio_listio(3).
unsafe fn blocks_of<'a>(list: *const Block, count: c_int) -> &'a [Block] {
    match usize::try_from(count) {
        // SAFETY: by this function's condition.
        Ok(count) if !list.is_null() => unsafe { std::slice::from_raw_parts(list, count) },
        _ => &[],
    }
}

fn op_of_list(block: &ControlBlock) -> Result<Op, Reason> {
    match block.opcode {
        libc::LIO_READ => Ok(Op::Read),
        libc::LIO_WRITE => Ok(Op::Write),
        _ => Err(Reason::Operation),
    }
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
            let Ok(mut inside) = Inside::enter_to_take() else { return Ok(false) };
            take(inside.state(), Some(Instant::now() + SLICE));
            return if inside.is_interrupted() { Err(libc::EINTR) } else { Ok(false) };
        }
        has_failed |= at.error() != 0;
    }
    if has_failed { Err(libc::EIO) } else { Ok(true) }
}
