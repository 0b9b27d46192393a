//! `aio_fsync`: glibc's, once all has ended that was in flight on the descriptor when it was called, for that
//! is what it makes durable.
//!
//! The call does not wait for what other threads have in flight: they may hold off the signal by which they
//! are asked for it. A thread of the library's waits for it then, as glibc has threads for what comes later.
//! If the program is to be notified, the call waits itself: if glibc refused it later, nobody would notify.
//! What has not ended after the longest wait is not said to be durable: the call fails.

use crate::control_block::{self, ControlBlock};
use crate::events::{LONG, SHORT};
use crate::process::is_working;
use crate::real::stand_before;
use crate::state::{Inside, State};
use crate::sys::{self, Quiet};
use std::ffi::{c_int, c_void};
use std::ptr::null;
use std::time::Instant;

type Block = *mut ControlBlock;
type Sync = unsafe extern "C-unwind" fn(c_int, Block) -> c_int;

stand_before! {
    aio_fsync = sync: (op: c_int, block: Block) -> c_int;
    aio_fsync64 = sync: (op: c_int, block: Block) -> c_int;
}

/// A call that comes later.
struct Later {
    real: Sync,
    op: c_int,
    block: Block,
    fd: c_int,
    /// How many I/Os were begun before it, and its own number.
    begun: u64,
    number: u64,
}

unsafe fn sync(real: Sync, op: c_int, block: Block) -> c_int {
    // SAFETY: by the condition of the function of this name.
    let when = match unsafe { block.as_ref() } {
        Some(at) if is_working() => come_after(real, op, at),
        _ => When::Now,
    };
    match when {
        // SAFETY: as above.
        When::Now => unsafe { real(op, block) },
        When::Later => 0,
        When::Never => sys::returned(-(libc::EAGAIN as isize)) as c_int,
    }
}

/// When glibc gets a call.
enum When {
    Now,
    Later,
    /// What it comes after has not ended in time.
    Never,
}

/// Waits for what this thread has in flight on the descriptor. If others have some it is glibc's when that
/// has ended.
fn come_after(real: Sync, op: c_int, block: &ControlBlock) -> When {
    let quiet = Quiet::begin();
    let (fd, begun) = (block.fd, control_block::begun());
    drop(quiet);
    take_own(fd, begun);
    let quiet = Quiet::begin();
    // What glibc refuses it refuses at once.
    let is_refused = ![libc::O_SYNC, libc::O_DSYNC].contains(&op) || sys::open_flags(fd).is_none();
    if is_refused || control_block::owners_on(fd, begun).is_empty() {
        return When::Now;
    }
    if block.event.sigev_notify == libc::SIGEV_NONE && begin_later(real, op, block, begun) {
        return When::Later;
    }
    drop(quiet);
    if wait_here(fd, begun) { When::Now } else { When::Never }
}

/// Marks a call as in flight, and begins the thread that gives it to glibc; false if there can be none.
fn begin_later(real: Sync, op: c_int, block: &ControlBlock, begun: u64) -> bool {
    let fd = block.fd;
    let number = block.come_later();
    let later = Later { real, op, block: std::ptr::from_ref(block).cast_mut(), fd, begun, number };
    if begin(later) {
        return true;
    }
    block.take_back();
    false
}

/// Takes what this thread has in flight on a descriptor, of the first `begun`: the drive ends it.
fn take_own(fd: c_int, begun: u64) {
    while let Ok(mut inside) = Inside::enter_to_take() {
        let State { owner, aio, .. } = inside.state();
        if !control_block::owners_on(fd, begun).iter().any(|it| it.is(owner)) {
            return;
        }
        aio.wait(Instant::now() + SHORT);
        control_block::tell(aio);
    }
}

/// Begins a thread that holds off every signal, as its maker does now; false if there can be none.
fn begin(later: Later) -> bool {
    let later = Box::into_raw(Box::new(later)).cast::<c_void>();
    let mut thread: libc::pthread_t = 0;
    // SAFETY: the thread gets what it takes; nobody joins it.
    unsafe {
        if libc::pthread_create(&raw mut thread, null(), give_to_glibc, later) == 0 {
            libc::pthread_detach(thread);
            return true;
        }
        drop(Box::from_raw(later.cast::<Later>()));
    }
    false
}

/// What the thread does.
extern "C" fn give_to_glibc(later: *mut c_void) -> *mut c_void {
    let _quiet = Quiet::begin();
    // SAFETY: `begin` made the box, for this thread.
    let Later { real, op, block, fd, begun, number } = *unsafe { Box::from_raw(later.cast::<Later>()) };
    let has_ended = wait(fd, begun);
    // SAFETY: the program leaves a control block where it is until it is told that it has ended. Once glibc
    // has it, that may be before this call comes back.
    unsafe {
        let address = (*block).address();
        if !has_ended {
            (*block).fail(libc::EIO);
        } else if real(op, block) != 0 {
            (*block).fail(sys::errno());
        }
        control_block::is_glibcs(address, number);
    }
    std::ptr::null_mut()
}

/// Waits for what threads have in flight on a descriptor, of the first `begun`, by asking them. False if it
/// has not ended in time.
fn wait(fd: c_int, begun: u64) -> bool {
    let until = Instant::now() + LONG;
    while !ask_once(fd, begun) {
        if Instant::now() >= until {
            return false;
        }
    }
    true
}

/// As [`wait`], in a call of the program's: others may wait for this thread, so it answers them, and signals
/// that have come are handled.
fn wait_here(fd: c_int, begun: u64) -> bool {
    let until = Instant::now() + LONG;
    loop {
        let quiet = Quiet::begin();
        let has_ended = ask_once(fd, begun);
        drop(quiet);
        if has_ended || Instant::now() >= until {
            return has_ended;
        }
        drop(Inside::enter_to_take());
    }
}

/// True if nothing is in flight; else asks for it, and waits for a moment.
fn ask_once(fd: c_int, begun: u64) -> bool {
    let owners = control_block::owners_on(fd, begun);
    for owner in &owners {
        owner.ask();
    }
    if !owners.is_empty() {
        sys::pause(SHORT.as_nanos() as i64);
    }
    owners.is_empty()
}
