//! `libaio`: contexts, `io_submit`, `io_getevents` and the rest.
//!
//! Each context is one of the kernel's too, which has what is not moved. It is moved once it has been seen
//! that one thread uses it, the one that made it. If another comes, it gets what is in flight by asking the
//! first, and from then on everything goes to the kernel, where threads can wait beside each other.

use crate::context::{Block, Context, Event, Owned};
use crate::descriptors;
use crate::moved::Transfer;
use crate::process::is_working;
use crate::real::stand_before;
use crate::state::{Inside, State};
use crate::stats::{self, Reason};
use crate::sys;
use iopj_engine::Op;
use std::ffi::{c_int, c_long};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

type Setup = unsafe extern "C-unwind" fn(c_int, *mut usize) -> c_int;
type Destroy = unsafe extern "C-unwind" fn(usize) -> c_int;
type Submit = unsafe extern "C-unwind" fn(usize, c_long, *mut *mut libc::iocb) -> c_int;
type GetEvents = unsafe extern "C-unwind" fn(usize, c_long, c_long, *mut Event, *mut libc::timespec) -> c_int;
type PGetEvents = unsafe extern "C-unwind" fn(
    usize,
    c_long,
    c_long,
    *mut Event,
    *mut libc::timespec,
    *const libc::sigset_t,
) -> c_int;

stand_before! {
    io_setup = setup: (most: c_int, context: *mut usize) -> c_int;
    io_destroy = destroy: (context: usize) -> c_int;
    io_submit = submit: (context: usize, count: c_long, blocks: *mut *mut libc::iocb) -> c_int;
    io_getevents = get_events:
        (context: usize, least: c_long, most: c_long, to: *mut Event, limit: *mut libc::timespec) -> c_int;
    io_pgetevents = pget_events: (context: usize, least: c_long, most: c_long, to: *mut Event,
        limit: *mut libc::timespec, mask: *const libc::sigset_t) -> c_int;
}

/// `IOCB_CMD_PREAD` and `IOCB_CMD_PWRITE` of include/uapi/linux/aio_abi.h.
const PREAD: u16 = 0;
const PWRITE: u16 = 1;
/// The most that a context has in flight on a descriptor.
const MOST_DEPTH: u32 = 1024;
/// How long signals are held off at a time, and how long a busy queue is left alone.
const SLICE: Duration = Duration::from_millis(10);
const SHORT: Duration = Duration::from_micros(100);
/// How long a thread is waited for that does not answer. By then the drive has done what it was given.
const LONG: Duration = Duration::from_secs(30);

unsafe fn setup(real: Setup, most: c_int, context: *mut usize) -> c_int {
    // SAFETY: by the condition of the function of this name.
    let made = unsafe { real(most, context) };
    if made == 0
        && is_working()
        && let Ok(mut inside) = Inside::enter()
    {
        // SAFETY: the call has just written it.
        let id = unsafe { *context };
        Context::add(id, (most as u32).clamp(1, MOST_DEPTH), &inside.state().owner);
    }
    made
}

unsafe fn destroy(real: Destroy, id: usize) -> c_int {
    if is_working()
        && let Ok(mut inside) = Inside::enter()
        && let Some(known) = Context::remove(id)
    {
        // As the kernel does: what is in flight is waited for, and nobody gets it.
        match inside.state().disown(&known) {
            Some(mut owned) => owned.queue.drain(),
            None => wait_for_owner(&known),
        }
    }
    // SAFETY: by the condition of the function of this name.
    unsafe { real(id) }
}

/// Waits until nothing of a context is in flight in the queue of its owner, which is another thread.
fn wait_for_owner(context: &Context) {
    context.share();
    let until = Instant::now() + LONG;
    while context.is_moved.load(Ordering::SeqCst) > context.ready().len() && Instant::now() < until {
        context.owner.ask();
        sys::pause(SHORT.as_nanos() as i64);
    }
}

unsafe fn submit(real: Submit, id: usize, count: c_long, blocks: *mut *mut libc::iocb) -> c_int {
    let all = match usize::try_from(count) {
        // SAFETY: by the condition of the function of this name.
        Ok(count) if !blocks.is_null() && is_working() => unsafe {
            std::slice::from_raw_parts(blocks, count)
        },
        _ => &[],
    };
    let entered = if all.is_empty() { Err(Reason::Length) } else { Inside::enter() };
    let known = entered.ok().and_then(|inside| Some((inside, Context::of(id)?)));
    let Some((mut inside, known)) = known else {
        // SAFETY: as above.
        return unsafe { real(id, count, blocks) };
    };
    known.is_used_by(&inside.state().owner);
    if known.is_shared() || !known.has_passed_trial() {
        let reason = if known.is_shared() { Reason::Shared } else { Reason::Trial };
        all.iter().for_each(|_| stats::passed(reason));
        // SAFETY: as above.
        let taken = unsafe { real(id, count, blocks) };
        known.in_kernel.fetch_add(taken.max(0) as usize, Ordering::Relaxed);
        return taken;
    }
    let owned = inside.state().owned(&known);
    let mut taken = 0;
    for place in all {
        // SAFETY: as above: the blocks are the program's, and live until their events.
        if let Err(reason) = unsafe { push(owned, *place) } {
            stats::passed(reason);
            // SAFETY: as above.
            let one = unsafe { real(id, 1, std::ptr::from_ref(place).cast_mut()) };
            if one != 1 {
                taken = if taken > 0 { taken } else { one };
                break;
            }
            known.in_kernel.fetch_add(1, Ordering::Relaxed);
        }
        taken += 1;
    }
    owned.queue.submit();
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
        let is_interrupted = inside.is_interrupted();
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

/// What one look found.
enum Look {
    /// Enough, or the time is over.
    Done,
    /// Everything that is left is the kernel's.
    Kernel,
    /// A while has passed.
    Waited,
    /// What is in flight is another thread's, which was asked for it.
    OfOthers,
}

/// The program's array of events.
struct Events {
    real: GetEvents,
    id: usize,
    to: *mut Event,
    most: usize,
    count: usize,
}

impl Events {
    /// Takes what there is, and waits for a while if that is not enough.
    fn look(
        &mut self,
        context: &Arc<Context>,
        state: &mut State,
        least: usize,
        until: Option<Instant>,
    ) -> Look {
        let is_owner = context.owner.is(&state.owner);
        self.take(context);
        if is_owner && context.is_moved.load(Ordering::SeqCst) > 0 {
            let is_alone = context.in_kernel.load(Ordering::Relaxed) == 0 && !context.is_shared();
            let end = Instant::now() + if is_alone { SLICE } else { SHORT };
            let owned = state.owned(context);
            match self.count < least {
                true => owned.queue.wait(until.map_or(end, |until| until.min(end))),
                false => owned.queue.reap(),
            }
            owned.publish();
            self.take(context);
        }
        if context.in_kernel.load(Ordering::Relaxed) > 0 && self.count < self.most {
            self.ask_kernel(context);
        }
        if is_owner {
            context.see(self.count);
        }
        if self.count >= least.max(1) {
            return Look::Done;
        }
        if context.is_moved.load(Ordering::SeqCst) == 0 {
            return if least == 0 && self.count > 0 { Look::Done } else { Look::Kernel };
        }
        if least == 0 || until.is_some_and(|until| Instant::now() >= until) {
            return Look::Done;
        }
        if is_owner {
            return Look::Waited;
        }
        context.owner.ask();
        Look::OfOthers
    }

    /// Takes what has ended and was moved.
    fn take(&mut self, context: &Context) {
        let mut ready = context.ready();
        let before = self.count;
        while self.count < self.most
            && let Some(event) = ready.pop_front()
        {
            // SAFETY: there is room for `most` events.
            unsafe { self.to.add(self.count).write(event) };
            self.count += 1;
        }
        context.withdraw(self.count - before);
    }

    /// Takes what has ended of the kernel's, without waiting.
    fn ask_kernel(&mut self, context: &Context) {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let room = (self.most - self.count) as c_long;
        // SAFETY: there is room for so many events.
        let found = unsafe { (self.real)(self.id, 0, room, self.to.add(self.count), &raw mut now) };
        self.count_kernel(context, found);
    }

    /// Waits for the rest in the kernel.
    ///
    /// # Safety
    /// `limit` is null or a time.
    unsafe fn wait_in_kernel(
        &mut self,
        context: &Context,
        least: usize,
        until: Option<Instant>,
        limit: *mut libc::timespec,
    ) -> c_int {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let mut left = left.map(|left| libc::timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        });
        let limit = if self.count == 0 { limit } else { left.as_mut().map_or(limit, std::ptr::from_mut) };
        let (least, room) = (least.saturating_sub(self.count), self.most - self.count);
        // SAFETY: there is room for so many events; by this function's condition.
        let found =
            unsafe { (self.real)(self.id, least as c_long, room as c_long, self.to.add(self.count), limit) };
        let before = self.count;
        self.count_kernel(context, found);
        if !context.is_shared() {
            context.see(self.count - before);
        }
        if found < 0 && self.count == 0 { found } else { self.count as c_int }
    }

    fn count_kernel(&mut self, context: &Context, found: c_int) {
        let found = found.max(0) as usize;
        self.count += found;
        let fewer = |count: usize| Some(count.saturating_sub(found));
        let _ = context.in_kernel.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }
}

/// When a time is over; `None` if it is no time.
pub(crate) fn deadline(time: &libc::timespec) -> Option<Instant> {
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let ns = u32::try_from(time.tv_nsec).ok().filter(|ns| *ns < 1_000_000_000)?;
    let far = Duration::from_secs(1 << 32);
    Instant::now().checked_add(Duration::new(seconds, ns).min(far))
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
    let is_usual = is_working() && most > 0 && (0..=most).contains(&least) && !to.is_null();
    let mut count = 0;
    if is_usual
        && let Ok(mut inside) = Inside::enter()
        && let Some(known) = Context::of(id)
    {
        known.share();
        let mut events = Events { real: no_events, id, to, most: most as usize, count: 0 };
        if known.owner.is(&inside.state().owner) {
            let owned = inside.state().owned(&known);
            owned.queue.drain();
            owned.publish();
        } else {
            wait_for_owner(&known);
        }
        events.take(&known);
        count = events.count;
    }
    if count > 0 && count as c_long >= least {
        return count as c_int;
    }
    let (least, room) = (least - count as c_long, most - count as c_long);
    // SAFETY: by the condition of the function of this name.
    let found = unsafe { real(id, least, room, to.wrapping_add(count), limit, mask) };
    if found < 0 && count > 0 { count as c_int } else { found + count as c_int }
}

unsafe extern "C-unwind" fn no_events(
    _: usize,
    _: c_long,
    _: c_long,
    _: *mut Event,
    _: *mut libc::timespec,
) -> c_int {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_over_later_and_a_wrong_one_is_none() {
        let time = |tv_sec, tv_nsec| deadline(&libc::timespec { tv_sec, tv_nsec });
        assert!(time(1, 5).unwrap() > Instant::now());
        assert!(time(i64::MAX, 0).is_some(), "very late");
        for (seconds, ns) in [(-1, 0), (0, -1), (0, 1_000_000_000)] {
            assert_eq!(time(seconds, ns), None);
        }
    }
}
