//! `aio_fsync`: glibc's, once all has ended that was in flight on the descriptor when it was called, for that
//! is what it makes durable.
//!
//! The call does not wait for what other threads have in flight: they may hold off the signal by which they
//! are asked for it. A thread of the library's waits for it then, as glibc has threads for what comes later.

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
    if let Some(at) = unsafe { block.as_ref() }
        && is_working()
        && come_after(real, op, at)
    {
        return 0;
    }
    // SAFETY: as above.
    unsafe { real(op, block) }
}

/// Waits for what this thread has in flight on the descriptor. True if others have some: then it is glibc's
/// when that has ended.
fn come_after(real: Sync, op: c_int, block: &ControlBlock) -> bool {
    let quiet = Quiet::begin();
    let (fd, begun) = (block.fd, control_block::begun());
    drop(quiet);
    take_own(fd, begun);
    let _quiet = Quiet::begin();
    // What glibc refuses it refuses at once.
    let is_refused = ![libc::O_SYNC, libc::O_DSYNC].contains(&op) || sys::open_flags(fd).is_none();
    if is_refused || control_block::owners_on(fd, begun).is_empty() {
        return false;
    }
    let number = block.come_later();
    let later = Later { real, op, block: std::ptr::from_ref(block).cast_mut(), fd, begun, number };
    if begin(later) {
        return true;
    }
    // There can be no thread more.
    wait(fd, begun);
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
    wait(fd, begun);
    // SAFETY: the program leaves a control block where it is until it is told that it has ended. Once glibc
    // has it, that may be before this call comes back.
    unsafe {
        let address = (*block).address();
        if real(op, block) != 0 {
            (*block).fail(sys::errno());
        }
        control_block::is_glibcs(address, number);
    }
    std::ptr::null_mut()
}

/// Waits for what threads have in flight on a descriptor, of the first `begun`, by asking them.
fn wait(fd: c_int, begun: u64) {
    let until = Instant::now() + LONG;
    loop {
        let owners = control_block::owners_on(fd, begun);
        if owners.is_empty() || Instant::now() >= until {
            return;
        }
        owners.iter().for_each(|owner| owner.ask());
        sys::pause(SHORT.as_nanos() as i64);
    }
}
