//! Ctrl-C and other signals: the first one ends the current trial, the second one ends the program.

use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int) {
    if STOP.swap(true, Ordering::Relaxed) {
        // SAFETY: `_exit` is async-signal-safe. Settings that are still changed are in the journal.
        unsafe { libc::_exit(i32::from(crate::output::INTERRUPTED)) };
    }
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_interrupt(_: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Leaves Ctrl-C and Ctrl-\ to a program that this process has started in its own process group; the flag is
/// true once one of them has arrived.
pub(crate) fn leave_interrupts() -> &'static AtomicBool {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        catch(signal, on_interrupt);
    }
    &INTERRUPTED
}

/// Catches SIGINT, SIGTERM and SIGHUP; the flag is true once one has arrived.
pub(crate) fn stop_flag() -> &'static AtomicBool {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        catch(signal, on_signal);
    }
    &STOP
}

/// As [`stop_flag`], for a run that a scheduler ends: it tells one process in many ways at once, and kills
/// what goes on, so a second signal says nothing new.
pub(crate) fn scheduled_stop_flag() -> &'static AtomicBool {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        catch(signal, on_scheduled);
    }
    &STOP
}

extern "C" fn on_scheduled(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

fn catch(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: the handlers do only what is async-signal-safe; the struct is plain data, for which zero is a
    // valid value.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}
