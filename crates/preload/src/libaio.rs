//! `libaio`: contexts, `io_submit`, `io_getevents` and the rest.
//!
//! Each context is one of the kernel's too, which has what is not moved. It is moved while one thread uses it:
//! the one that made it. Once another comes, what is in flight is handed out to whoever asks, and from then on
//! everything goes to the kernel, where threads can wait beside each other.

use crate::descriptors;
use crate::moved::Transfer;
use crate::process::{Shared, is_working};
use crate::queue::Queue;
use crate::real::stand_before;
use crate::state::Inside;
use crate::stats::{self, Interface, Reason};
use crate::sys;
use iopj_engine::Op;
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
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

/// `struct io_event` of include/uapi/linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    data: u64,
    block: u64,
    result: i64,
    result2: i64,
}

/// The control block that is in flight.
struct Whose {
    data: u64,
    block: u64,
}

struct Context {
    /// The thread that made it.
    owner: u64,
    /// Another thread has used it.
    is_shared: AtomicBool,
    /// In flight in the kernel's context.
    in_kernel: AtomicUsize,
    queue: Mutex<Queue<Whose>>,
}

static CONTEXTS: Shared<Vec<(usize, Arc<Context>)>> = Shared::new();

fn context(id: usize) -> Option<Arc<Context>> {
    CONTEXTS.with(|all| all.iter().find(|(other, _)| *other == id).map(|(_, context)| Arc::clone(context)))
}

impl Context {
    /// Notes who uses it; true if it still belongs to one thread.
    fn is_used_by(&self, thread: u64) -> bool {
        if thread != self.owner {
            self.is_shared.store(true, Ordering::Relaxed);
        }
        !self.is_shared.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Queue<Whose>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queue, unless another thread waits in it.
    fn try_lock(&self) -> Option<MutexGuard<'_, Queue<Whose>>> {
        match self.queue.try_lock() {
            Ok(queue) => Some(queue),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

unsafe fn setup(real: Setup, most: c_int, context: *mut usize) -> c_int {
    // SAFETY: by the condition of the function of this name.
    let made = unsafe { real(most, context) };
    if made == 0 && is_working() {
        if let Ok(mut inside) = Inside::enter() {
            // SAFETY: the call has just written it.
            let id = unsafe { *context };
            let queue = Mutex::new(Queue::new((most as u32).clamp(1, MOST_DEPTH)));
            let owner = inside.state().id;
            let (is_shared, in_kernel) = (AtomicBool::new(false), AtomicUsize::new(0));
            let new = Arc::new(Context { owner, is_shared, in_kernel, queue });
            CONTEXTS.with(|all| {
                all.retain(|(other, _)| *other != id);
                all.push((id, new));
            });
        }
    }
    made
}

unsafe fn destroy(real: Destroy, id: usize) -> c_int {
    if is_working() {
        if let Ok(_inside) = Inside::enter() {
            let known = CONTEXTS.with(|all| {
                let place = all.iter().position(|(other, _)| *other == id)?;
                Some(all.swap_remove(place).1)
            });
            // As the kernel does: what is in flight is waited for, and nobody gets it.
            if let Some(known) = known {
                known.lock().drain();
            }
        }
    }
    // SAFETY: by the condition of the function of this name.
    unsafe { real(id) }
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
    let known = entered.ok().and_then(|inside| Some((inside, context(id)?)));
    let Some((mut inside, known)) = known else {
        // SAFETY: as above.
        return unsafe { real(id, count, blocks) };
    };
    if !known.is_used_by(inside.state().id) {
        all.iter().for_each(|_| stats::passed(Reason::Shared));
        // SAFETY: as above.
        let taken = unsafe { real(id, count, blocks) };
        known.in_kernel.fetch_add(taken.max(0) as usize, Ordering::Relaxed);
        return taken;
    }
    let mut queue = known.lock();
    let mut taken = 0;
    for place in all {
        // SAFETY: as above: the blocks are the program's, and live until their events.
        match unsafe { push(&mut queue, *place) } {
            Ok(()) => taken += 1,
            Err(reason) => {
                stats::passed(reason);
                // SAFETY: as above.
                let one = unsafe { real(id, 1, std::ptr::from_ref(place).cast_mut()) };
                if one != 1 {
                    queue.submit();
                    return if taken > 0 { taken } else { one };
                }
                known.in_kernel.fetch_add(1, Ordering::Relaxed);
                taken += 1;
            }
        }
    }
    queue.submit();
    taken
}

/// Queues what a control block asks for, if it is moved.
///
/// # Safety
/// As for io_submit(2).
unsafe fn push(queue: &mut Queue<Whose>, block: *mut libc::iocb) -> Result<(), Reason> {
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
    let file = descriptors::may_move_now(fd)?;
    if !descriptors::is_open_for(fd, transfer.reads()) {
        return Err(Reason::NotOpen);
    }
    let whose = Whose { data: iocb.aio_data, block: block.expose_provenance() as u64 };
    iocb.aio_key = 0;
    // SAFETY: by this function's condition.
    unsafe { queue.push(&transfer, file, whose) }
}

unsafe fn get_events(
    real: GetEvents,
    id: usize,
    least: c_long,
    most: c_long,
    to: *mut Event,
    limit: *mut libc::timespec,
) -> c_int {
    let is_usual = is_working() && most > 0 && (0..=most).contains(&least) && !to.is_null();
    let entered = if is_usual { Inside::enter().ok() } else { None };
    let Some((mut inside, known)) = entered.and_then(|inside| Some((inside, context(id)?))) else {
        // SAFETY: by the condition of the function of this name.
        return unsafe { real(id, least, most, to, limit) };
    };
    // SAFETY: as above.
    let deadline = match unsafe { limit.as_ref() } {
        None => None,
        Some(time) => match deadline(time) {
            Some(deadline) => Some(deadline),
            // SAFETY: as above; the time is none, which the kernel says.
            None => return unsafe { real(id, least, most, to, limit) },
        },
    };
    known.is_used_by(inside.state().id);
    // By the condition of the function of this name there is room for `most` events.
    let mut events = Events { real, id, to, most: most as usize, count: 0 };
    loop {
        let state = events.look(&known, least as usize, deadline);
        let is_interrupted = inside.is_interrupted();
        // Signals that have come are handled here.
        drop(inside);
        match state {
            Look::Done => return events.count as c_int,
            Look::Kernel => return unsafe { events.wait_in_kernel(&known, least as usize, deadline, limit) },
            Look::Waited if is_interrupted && events.count == 0 => return -libc::EINTR,
            Look::Waited if is_interrupted => return events.count as c_int,
            Look::Waited => {}
            Look::Busy => sys::pause(SHORT.as_nanos() as i64),
        }
        inside = match Inside::enter() {
            Ok(inside) => inside,
            Err(_) => return events.count as c_int,
        };
    }
}

/// What one look found.
enum Look {
    /// Enough, or the time is over.
    Done,
    /// Everything that is left is the kernel's.
    Kernel,
    /// A while has passed.
    Waited,
    /// Another thread waits in the queue.
    Busy,
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
    fn look(&mut self, context: &Context, least: usize, deadline: Option<Instant>) -> Look {
        let Some(mut queue) = context.try_lock() else {
            let is_over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            return if is_over { Look::Done } else { Look::Busy };
        };
        queue.reap();
        self.take(&mut queue);
        if context.in_kernel.load(Ordering::Relaxed) > 0 && self.count < self.most {
            self.ask_kernel(context);
        }
        if self.count >= least.max(1) || self.count >= self.most {
            return Look::Done;
        }
        if queue.in_flight() == 0 {
            return if least == 0 && self.count > 0 { Look::Done } else { Look::Kernel };
        }
        let now = Instant::now();
        if least == 0 || deadline.is_some_and(|deadline| now >= deadline) {
            return Look::Done;
        }
        let in_kernel = context.in_kernel.load(Ordering::Relaxed) > 0;
        let end = now + if in_kernel || context.is_shared.load(Ordering::Relaxed) { SHORT } else { SLICE };
        queue.wait(deadline.map_or(end, |deadline| deadline.min(end)));
        self.take(&mut queue);
        if self.count >= least { Look::Done } else { Look::Waited }
    }

    /// Takes what has ended of the queue.
    fn take(&mut self, queue: &mut Queue<Whose>) {
        while self.count < self.most
            && let Some((whose, outcome)) = queue.ended.pop_front()
        {
            stats::moved(Interface::Libaio, outcome.max(0) as u64);
            let event = Event { data: whose.data, block: whose.block, result: outcome as i64, result2: 0 };
            // SAFETY: there is room for `most` events.
            unsafe { self.to.add(self.count).write(event) };
            self.count += 1;
        }
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
        deadline: Option<Instant>,
        limit: *mut libc::timespec,
    ) -> c_int {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let mut left = left.map(|left| libc::timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        });
        let limit = if self.count == 0 { limit } else { left.as_mut().map_or(limit, std::ptr::from_mut) };
        let (least, room) = (least.saturating_sub(self.count), self.most - self.count);
        // SAFETY: there is room for so many events; by this function's condition.
        let found =
            unsafe { (self.real)(self.id, least as c_long, room as c_long, self.to.add(self.count), limit) };
        self.count_kernel(context, found);
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

/// With a mask of signals the wait is the kernel's. What was moved and is in flight ends first: it is disk I/O.
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
        && let Ok(_inside) = Inside::enter()
        && let Some(known) = context(id)
    {
        known.is_shared.store(true, Ordering::Relaxed);
        let mut queue = known.lock();
        queue.drain();
        let none = no_events;
        let mut events = Events { real: none, id, to, most: most as usize, count: 0 };
        events.take(&mut queue);
        count = events.count;
    }
    if count as c_long >= least.max(1) {
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
