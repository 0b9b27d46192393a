//! Ctrl-C and other signals: the first one ends the current trial, the second one ends the program.

use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int) {
    if STOP.swap(true, Ordering::Relaxed) {
        // SAFETY: `_exit` is async-signal-safe. Settings that are still changed are in the journal.
        unsafe { libc::_exit(i32::from(crate::output::INTERRUPTED)) };
    }
}

/// Catches SIGINT, SIGTERM and SIGHUP; the flag is true once one has arrived.
pub(crate) fn stop_flag() -> &'static AtomicBool {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler does only what is async-signal-safe; the struct is plain data, for which zero
        // is a valid value.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
    &STOP
}
