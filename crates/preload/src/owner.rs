//! Whose I/O is in flight: only the thread that began it can take its end out of a ring. Another that waits
//! for it asks the first by a signal of the library's own.

use crate::sys;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// A thread.
#[derive(Debug)]
pub(crate) struct Owner {
    /// A number that no other thread has.
    id: u64,
    thread: i32,
    is_asked: AtomicBool,
}

/// The signal, once it was needed: 0 until then, and -1 if all are the program's.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// What the signal's handler does.
static ANSWER: std::sync::OnceLock<fn()> = std::sync::OnceLock::new();

/// Sets what a thread does that is asked: take what has ended, and call [`Owner::answered`].
pub(crate) fn answer_by(answer: fn()) {
    let _ = ANSWER.set(answer);
}

impl Owner {
    /// The calling thread.
    pub(crate) fn this_thread() -> Owner {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Owner { id, thread: sys::thread_id(), is_asked: AtomicBool::new(false) }
    }

    /// True if it is the same thread.
    pub(crate) fn is(&self, other: &Owner) -> bool {
        self.id == other.id
    }

    /// Asks it to take what has ended, unless it was asked and has not answered.
    pub(crate) fn ask(&self) {
        let signal = signal();
        if signal > 0 && !self.is_asked.swap(true, Ordering::AcqRel) {
            let arguments = [std::process::id() as usize, self.thread as usize, signal as usize, 0, 0, 0];
            // SAFETY: the call touches no memory; the handler is this module's.
            unsafe { sys::call(libc::SYS_tgkill, arguments) };
        }
    }

    /// It has taken what has ended.
    pub(crate) fn answered(&self) {
        self.is_asked.store(false, Ordering::Release);
    }
}

/// The signal by which threads are asked: the highest for which the program has no handler.
fn signal() -> c_int {
    let known = SIGNAL.load(Ordering::Acquire);
    if known != 0 {
        return known;
    }
    let signal = (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev().find(|signal| take(*signal)).unwrap_or(-1);
    SIGNAL.store(signal, Ordering::Release);
    signal
}

/// Takes a signal, if the program has not.
fn take(signal: c_int) -> bool {
    // SAFETY: zeroed, the structure is valid; the calls read and write it, and the handler is ours.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let asked = libc::sigaction(signal, std::ptr::null(), &raw mut action);
        if asked != 0 || action.sa_sigaction != libc::SIG_DFL {
            return false;
        }
        action.sa_sigaction = handle as extern "C" fn(c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut()) == 0
    }
}

extern "C" fn handle(_: c_int) {
    let errno = sys::errno();
    if let Some(answer) = ANSWER.get() {
        answer();
    }
    sys::set_errno(errno);
}
