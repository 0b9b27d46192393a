//! `libaio`: contexts, `io_submit`, `io_getevents` and the rest.
//!
//! Each context is one of the kernel's too, which has what is not moved. It is moved once it has been seen
//! that one thread uses it, the one that made it. If another comes, it gets what is in flight by asking the
//! first, and from then on everything goes to the kernel, where threads can wait beside each other.

use crate::context::{Block, Context, Event, Owned};
use crate::descriptors;
use crate::events::{Events, GetEvents, LONG, Look, SHORT, SLICE, deadline, left_until};
use crate::moved::Transfer;
use crate::process::is_working;
use crate::real::stand_before;
use crate::state::Inside;
use crate::stats::{self, Reason};
use crate::sys::{self, Quiet};
use iopj_engine::Op;
use std::ffi::{c_int, c_long};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

type Setup = unsafe extern "C-unwind" fn(c_int, *mut usize) -> c_int;
type Destroy = unsafe extern "C-unwind" fn(usize) -> c_int;
type Submit = unsafe extern "C-unwind" fn(usize, c_long, *mut *mut libc::iocb) -> c_int;
type PGetEvents = unsafe extern "C-unwind" fn(
    usize,
    c_long,
    c_long,
    *mut Event,
    *mut libc::timespec,
    *const libc::sigset_t,
) -> c_int;

stand_before! {
    io_setup = setup, else raw::setup: (most: c_int, context: *mut usize) -> c_int;
    io_destroy = destroy, else raw::destroy: (context: usize) -> c_int;
    io_submit = submit, else raw::submit:
        (context: usize, count: c_long, blocks: *mut *mut libc::iocb) -> c_int;
    io_getevents = get_events, else raw::get_events:
        (context: usize, least: c_long, most: c_long, to: *mut Event, limit: *mut libc::timespec) -> c_int;
    io_pgetevents = pget_events, else raw::pget_events: (context: usize, least: c_long, most: c_long,
        to: *mut Event, limit: *mut libc::timespec, mask: *const libc::sigset_t) -> c_int;
}

/// `IOCB_CMD_PREAD` and `IOCB_CMD_PWRITE` of include/uapi/linux/aio_abi.h.
const PREAD: u16 = 0;
const PWRITE: u16 = 1;
/// The most that a context has in flight on a descriptor.
const MOST_DEPTH: u32 = 1024;

unsafe fn setup(real: Setup, most: c_int, context: *mut usize) -> c_int {
    // SAFETY: by the condition of the function of this name.
    let made = unsafe { real(most, context) };
    if made == 0 && is_working() {
        // SAFETY: the call has just written it.
        let id = unsafe { *context };
        match Inside::enter_to_take() {
            Ok(mut inside) => Context::add(id, (most as u32).clamp(1, MOST_DEPTH), &inside.state().owner),
            Err(_) => {
                // One of this number may have ended unseen.
                let _quiet = Quiet::begin();
                drop(Context::remove(id));
            }
        }
    }
    made
}

unsafe fn destroy(real: Destroy, id: usize) -> c_int {
    if is_working() {
        match Inside::enter_to_take() {
            Ok(inside) => end(inside, id),
            Err(_) => {
                let _quiet = Quiet::begin();
                drop(Context::remove(id));
            }
        }
    }
    // SAFETY: by the condition of the function of this name.
    unsafe { real(id) }
}

/// As the kernel does: what is in flight is waited for, and nobody gets it.
fn end(mut inside: Inside, id: usize) {
    let Some(known) = Context::remove(id) else { return };
    if let Some(mut owned) = inside.state().disown(&known) {
        owned.queue.drain();
        owned.publish();
        return;
    }
    known.share();
    let until = Instant::now() + LONG;
    while known.is_moved.load(Ordering::SeqCst) > known.ready().len() && Instant::now() < until {
        known.owner.ask();
        // The other may wait for this thread.
        drop(inside);
        sys::pause(SHORT.as_nanos() as i64);
        inside = match Inside::enter_to_take() {
            Ok(inside) => inside,
            Err(_) => break,
        };
    }
    known.destroy();
}

unsafe fn submit(real: Submit, id: usize, count: c_long, blocks: *mut *mut libc::iocb) -> c_int {
    let all = match usize::try_from(count) {
        // SAFETY: by the condition of the function of this name.
        Ok(count) if !blocks.is_null() && is_working() => unsafe {
            std::slice::from_raw_parts(blocks, count)
        },
        _ => &[],
    };
    if all.is_empty() {
        // SAFETY: as above.
        return unsafe { real(id, count, blocks) };
    }
    let entered = Inside::enter().and_then(|mut inside| {
        let known = Context::of(id);
        if let Some(known) = &known {
            known.is_used_by(&inside.state().owner);
            may_move(known, &inside)?;
        }
        Ok((inside, known))
    });
    let (mut inside, known) = match entered {
        Ok((inside, Some(known))) => (inside, known),
        // SAFETY: as above.
        Ok((_, None)) => return unsafe { real(id, count, blocks) },
        Err(reason) => {
            all.iter().for_each(|_| stats::passed(reason));
            // SAFETY: as above.
            return unsafe { pass(real, id, all) };
        }
    };
    inside.state().forget_destroyed();
    let owned = inside.state().owned(&known);
    let mut taken = 0;
    for place in all {
        // SAFETY: as above: the blocks are the program's, and live until their events.
        if let Err(reason) = unsafe { push(owned, *place) } {
            stats::passed(reason);
            known.give_to_kernel(1);
            // SAFETY: as above.
            let one = unsafe { real(id, 1, std::ptr::from_ref(place).cast_mut()) };
            if one != 1 {
                known.take_from_kernel(1);
                taken = if taken > 0 { taken } else { one };
                break;
            }
        }
        taken += 1;
    }
    owned.queue.submit();
    taken
}

/// Whether what this thread submits to a context is moved.
///
/// # Errors
/// Why not.
fn may_move(context: &Context, inside: &Inside) -> Result<(), Reason> {
    if context.is_shared() {
        Err(Reason::Shared)
    } else if !context.has_passed_trial() {
        Err(Reason::Trial)
    } else if !inside.is_reachable() {
        Err(Reason::Unreachable)
    } else {
        Ok(())
    }
}

/// Gives all to the kernel, and counts what it has, for whoever gets the events.
///
/// # Safety
/// As for io_submit(2).
unsafe fn pass(real: Submit, id: usize, all: &[*mut libc::iocb]) -> c_int {
    let quiet = Quiet::begin();
    let known = Context::of(id);
    if let Some(known) = &known {
        known.give_to_kernel(all.len());
    }
    // SAFETY: by this function's condition.
    let taken = unsafe { real(id, all.len() as c_long, all.as_ptr().cast_mut()) };
    if let Some(known) = &known {
        known.take_from_kernel(all.len() - taken.max(0) as usize);
    }
    drop(known);
    drop(quiet);
    taken
}

/// Queues what a control block asks for, if it is moved.
///
/// # Safety
/// As for io_submit(2).
unsafe fn push(owned: &mut Owned, block: *mut libc::iocb) -> Result<(), Reason> {
    // SAFETY: by this function's condition; a null pointer is left to the kernel.
    let Some(iocb) = (unsafe { block.as_mut() }) else { return Err(Reason::Length) };
    let op = match (iocb.aio_lio_opcode, iocb.aio_rw_flags) {
        (PREAD, 0) => Op::Read,
        (PWRITE, 0) => Op::Write,
        (PWRITE, libc::RWF_DSYNC) => Op::WriteDsync,
        (PWRITE, libc::RWF_SYNC) => Op::WriteSync,
        (PREAD | PWRITE, _) => return Err(Reason::CallFlags),
        _ => return Err(Reason::Operation),
    };
    if iocb.aio_flags != 0 {
        return Err(Reason::Notified);
    }
    if iocb.aio_reqprio != 0 || iocb.aio_offset < 0 {
        return Err(Reason::CallFlags);
    }
    let buffer = std::ptr::with_exposed_provenance_mut(iocb.aio_buf as usize);
    let vector = libc::iovec { iov_base: buffer, iov_len: iocb.aio_nbytes as usize };
    let (fd, offset) = (iocb.aio_fildes as c_int, iocb.aio_offset as u64);
    let transfer = Transfer { fd, op, vectors: &[vector], offset };
    transfer.check()?;
    let file = descriptors::may_move_now(fd, transfer.reads())?;
    if !owned.context.announce() {
        return Err(Reason::Shared);
    }
    let whose = Block { data: iocb.aio_data, address: block.expose_provenance() as u64 };
    iocb.aio_key = 0;
    // SAFETY: by this function's condition.
    let pushed = unsafe { owned.queue.push(&transfer, file, whose) };
    if pushed.is_err() {
        owned.context.withdraw(1);
    }
    pushed
}

unsafe fn get_events(
    real: GetEvents,
    id: usize,
    least: c_long,
    most: c_long,
    to: *mut Event,
    limit: *mut libc::timespec,
) -> c_int {
    // SAFETY: by the condition of the function of this name.
    let time = unsafe { limit.as_ref() };
    let until = time.and_then(deadline);
    let is_usual = is_working() && most > 0 && (0..=most).contains(&least) && !to.is_null();
    let entered =
        if is_usual && time.is_none() == until.is_none() { Inside::enter_to_take().ok() } else { None };
    let Some((mut inside, known)) = entered.and_then(|inside| Some((inside, Context::of(id)?))) else {
        // SAFETY: as above.
        return unsafe { real(id, least, most, to, limit) };
    };
    known.is_used_by(&inside.state().owner);
    // By the condition of the function of this name there is room for `most` events.
    let mut events = Events { real, id, to, most: most as usize, count: 0 };
    loop {
        let state = events.look(&known, inside.state(), least as usize, until);
        let is_interrupted = matches!(state, Look::Waited) && inside.is_interrupted();
        if matches!(state, Look::Done) {
            return events.count as c_int;
        }
        // Signals that have come are handled here.
        drop(inside);
        match state {
            Look::Done => break,
            // SAFETY: by the condition of the function of this name.
            Look::Kernel => return unsafe { events.wait_in_kernel(&known, least as usize, until, limit) },
            Look::Waited if is_interrupted && events.count == 0 => return -libc::EINTR,
            Look::Waited if is_interrupted => break,
            Look::Waited => {}
            Look::OfOthers => sys::pause(SHORT.as_nanos() as i64),
        }
        inside = match Inside::enter_to_take() {
            Ok(inside) => inside,
            Err(_) => break,
        };
    }
    events.count as c_int
}

/// With a mask of signals the wait is the kernel's. What was moved and is in flight ends first: it is disk
/// I/O.
unsafe fn pget_events(
    real: PGetEvents,
    id: usize,
    least: c_long,
    most: c_long,
    to: *mut Event,
    limit: *mut libc::timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    // SAFETY: by the condition of the function of this name.
    let time = unsafe { limit.as_ref() };
    let until = time.and_then(deadline);
    let is_usual = is_working() && most > 0 && (0..=most).contains(&least) && !to.is_null();
    let entered =
        if is_usual && time.is_none() == until.is_none() { Inside::enter_to_take().ok() } else { None };
    let Some((inside, known)) = entered.and_then(|inside| Some((inside, Context::of(id)?))) else {
        // SAFETY: as above.
        return unsafe { real(id, least, most, to, limit, mask) };
    };
    let mut events = Events { real: no_events, id, to, most: most as usize, count: 0 };
    let inside = take_moved(inside, &known, &mut events, least as usize, until);
    drop(known);
    drop(inside);
    let count = events.count as c_long;
    if count > 0 && count >= least {
        return count as c_int;
    }
    let mut left = until.map(left_until);
    let limit = left.as_mut().map_or(limit, std::ptr::from_mut);
    let room = to.wrapping_add(count as usize);
    // SAFETY: by the condition of the function of this name.
    let found = unsafe { real(id, (least - count).max(0), most - count, room, limit, mask) };
    if found < 0 && count > 0 { count as c_int } else { found + count as c_int }
}

/// Takes what was moved, until that is enough, all, or `until` is over; `None` if the thread is out.
fn take_moved(
    mut inside: Inside,
    context: &Arc<Context>,
    events: &mut Events,
    least: usize,
    until: Option<Instant>,
) -> Option<Inside> {
    context.share();
    let is_owner = context.owner.is(&inside.state().owner);
    loop {
        if is_owner {
            let slice = Instant::now() + SLICE;
            let owned = inside.state().owned(context);
            owned.queue.wait(until.map_or(slice, |until| until.min(slice)));
            owned.publish();
        }
        events.take(context);
        let is_enough = events.count >= least.max(1) || context.is_moved.load(Ordering::SeqCst) == 0;
        if is_enough || least == 0 || until.is_some_and(|until| Instant::now() >= until) {
            return Some(inside);
        }
        // Signals that have come are handled here.
        drop(inside);
        if !is_owner {
            context.owner.ask();
            sys::pause(SHORT.as_nanos() as i64);
        }
        inside = Inside::enter_to_take().ok()?;
    }
}

/// Has none.
unsafe extern "C-unwind" fn no_events(
    _: usize,
    _: c_long,
    _: c_long,
    _: *mut Event,
    _: *mut libc::timespec,
) -> c_int {
    0
}

/// The system calls, as libaio's functions make them: for a program in which a plugin alone has libaio, whose
/// functions are found here and not behind us.
mod raw {
    use super::{Event, c_int, c_long, sys};

    /// `__NR_io_pgetevents` of the kernel's tables: x86-64 has its own, newer machines have one.
    const PGETEVENTS: c_long = if cfg!(target_arch = "x86_64") { 333 } else { 292 };

    /// `struct __aio_sigset` of include/uapi/linux/aio_abi.h.
    #[repr(C)]
    struct Mask {
        signals: *const libc::sigset_t,
        len: usize,
    }

    pub(super) unsafe extern "C-unwind" fn setup(most: c_int, context: *mut usize) -> c_int {
        // SAFETY: by io_setup(2)'s condition.
        unsafe { sys::call(libc::SYS_io_setup, [most as usize, context as usize, 0, 0, 0, 0]) as c_int }
    }

    pub(super) unsafe extern "C-unwind" fn destroy(context: usize) -> c_int {
        // SAFETY: by io_destroy(2)'s condition.
        unsafe { sys::call(libc::SYS_io_destroy, [context, 0, 0, 0, 0, 0]) as c_int }
    }

    pub(super) unsafe extern "C-unwind" fn submit(
        context: usize,
        count: c_long,
        blocks: *mut *mut libc::iocb,
    ) -> c_int {
        // SAFETY: by io_submit(2)'s condition.
        unsafe {
            sys::call(libc::SYS_io_submit, [context, count as usize, blocks as usize, 0, 0, 0]) as c_int
        }
    }

    pub(super) unsafe extern "C-unwind" fn get_events(
        context: usize,
        least: c_long,
        most: c_long,
        to: *mut Event,
        limit: *mut libc::timespec,
    ) -> c_int {
        let arguments = [context, least as usize, most as usize, to as usize, limit as usize, 0];
        // SAFETY: by io_getevents(2)'s condition.
        unsafe { sys::call(libc::SYS_io_getevents, arguments) as c_int }
    }

    pub(super) unsafe extern "C-unwind" fn pget_events(
        context: usize,
        least: c_long,
        most: c_long,
        to: *mut Event,
        limit: *mut libc::timespec,
        signals: *const libc::sigset_t,
    ) -> c_int {
        let mask = Mask { signals, len: size_of::<sys::Signals>() };
        let at = (&raw const mask) as usize;
        let arguments = [context, least as usize, most as usize, to as usize, limit as usize, at];
        // SAFETY: by io_pgetevents(2)'s condition; the mask lives through the call.
        unsafe { sys::call(PGETEVENTS, arguments) as c_int }
    }
}
