//! Whose I/O is in flight: only the thread that began it can take its end out of a ring. Another that waits
//! for it asks the first by a signal of the library's own.

use crate::sys;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

/// A thread.
#[derive(Debug)]
pub(crate) struct Owner {
    /// A number that no other thread has.
    id: u64,
    thread: i32,
    is_asked: AtomicBool,
    /// How many are asking it just now.
    asking: AtomicU32,
}

/// The signal, once a thread has had something in flight: 0 until then, and -1 if all are the program's.
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
        Owner::new(id, sys::thread_id())
    }

    fn new(id: u64, thread: i32) -> Owner {
        Owner { id, thread, is_asked: AtomicBool::new(false), asking: AtomicU32::new(0) }
    }

    /// True if it is the same thread.
    pub(crate) fn is(&self, other: &Owner) -> bool {
        self.id == other.id
    }

    /// Asks it to take what has ended, unless it was asked and has not answered. False if it cannot be asked.
    pub(crate) fn ask(&self) -> bool {
        let signal = signal();
        if signal <= 0 || !is_ours(signal) {
            return false;
        }
        let mut is_on_its_way = true;
        self.asking.fetch_add(1, Ordering::SeqCst);
        if !self.is_asked.swap(true, Ordering::SeqCst) {
            let arguments = [std::process::id() as usize, self.thread as usize, signal as usize, 0, 0, 0];
            // SAFETY: the call touches no memory; the handler is this module's.
            if unsafe { sys::call(libc::SYS_tgkill, arguments) } < 0 {
                self.answered();
                is_on_its_way = false;
            }
        }
        self.asking.fetch_sub(1, Ordering::SeqCst);
        is_on_its_way
    }

    /// From now on it is not asked, until it answers: for the calling thread, which holds signals off, and is
    /// about to become another program. A signal that were still on its way would end that.
    pub(crate) fn silence(&self) {
        self.is_asked.store(true, Ordering::SeqCst);
        while self.asking.load(Ordering::SeqCst) > 0 {
            sys::pause(10_000);
        }
        sys::take_pending(own());
    }

    /// True if it was asked and has not answered.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Acquire)
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

/// The signal as a set, empty if there is none yet.
fn own() -> sys::Signals {
    match SIGNAL.load(Ordering::Acquire) {
        signal @ 1.. => 1 << (signal - 1),
        _ => 0,
    }
}

/// True if a thread that holds off these signals can be asked.
pub(crate) fn is_reachable(held_off: sys::Signals) -> bool {
    signal() > 0 && held_off & own() == 0
}

/// As [`sys::is_interrupted`], for signals of the program's.
pub(crate) fn is_interrupted(before: sys::Signals) -> bool {
    sys::is_interrupted(before | own())
}

/// As [`sys::handled`], for handlers of the program's.
pub(crate) fn handled(signals: sys::Signals) -> sys::Signals {
    sys::handled(signals & !own())
}

/// True if the signal still has this module's handler: the program may have given it another one since, or
/// none, which would end it.
fn is_ours(signal: c_int) -> bool {
    // SAFETY: zeroed, the structure is valid; the call writes it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == handle as extern "C" fn(c_int) as libc::sighandler_t
    }
}

/// Takes a signal, if the program has not. Its handler runs on whatever stack the thread is on: one that the
/// program has for signals may be too small.
fn take(signal: c_int) -> bool {
    // SAFETY: zeroed, the structure is valid; the calls read and write it, and the handler is ours.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let asked = libc::sigaction(signal, std::ptr::null(), &raw mut action);
        if asked != 0 || action.sa_sigaction != libc::SIG_DFL {
            return false;
        }
        action.sa_sigaction = handle as extern "C" fn(c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signal_of_the_library_interrupts_nobody_and_reaches_who_does_not_hold_it_off() {
        let thread = Owner::this_thread();
        let quiet = sys::Quiet::begin();
        assert!(is_reachable(quiet.before) && !is_reachable(!0));
        assert!(thread.ask() && thread.ask(), "it is on its way");
        assert!(thread.is_asked() && sys::is_interrupted(quiet.before) && !is_interrupted(quiet.before));
        assert_eq!((handled(own()), sys::handled(own())), (0, own()));
        drop(quiet);
        let gone = Owner::new(0, -1);
        assert!(!gone.ask(), "there is no such thread");
        assert!(!gone.is_asked(), "the next one asks again");
        let quiet = sys::Quiet::begin();
        thread.answered();
        thread.ask();
        thread.silence();
        assert!(!sys::is_interrupted(quiet.before), "its signal is gone");
        thread.ask();
        assert!(!sys::is_interrupted(quiet.before), "nobody asks");
    }
}
