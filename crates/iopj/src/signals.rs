//! Ctrl-C and other signals: the first one begins nothing new and ends the program when all is put back, and
//! the handler itself says so at once; the second one ends the program.

use crate::log::{self, Utc};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// What the first signal says of a run.
const STOPPING: &str = "stopping: nothing new begins, and settings are put back; a second signal ends iopj \
                        at once, after which `iopj restore` puts them back";

static STOP: AtomicBool = AtomicBool::new(false);
static SAYS: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int) {
    if STOP.swap(true, Ordering::Relaxed) {
        // SAFETY: `_exit` is async-signal-safe. Settings that are still changed are in the journal.
        unsafe { libc::_exit(i32::from(crate::output::INTERRUPTED)) };
    }
    if SAYS.load(Ordering::Relaxed) {
        say_stopping();
    }
}

/// Says what the first signal does, from its handler: without a lock, and without memory of the allocator's.
fn say_stopping() {
    let mut line = [0_u8; 512];
    let mut rest = &mut line[..];
    // The line is long enough for both forms.
    let _ = match log::is_json() {
        true => {
            let time = Utc(SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default());
            let fields = r#""level":"info","event":"stopping""#;
            writeln!(rest, r#"{{"time":"{time}",{fields},"message":"{STOPPING}"}}"#)
        }
        // The cursor may stand behind the `^C` of a terminal.
        false if log::is_terminal() => writeln!(rest, "\n{STOPPING}"),
        false => writeln!(rest, "{STOPPING}"),
    };
    let length = 512 - rest.len();
    // SAFETY: `write` is async-signal-safe and gets `length` bytes of `line`; `errno`, which it may set, is
    // put back for who was interrupted.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), length);
        *errno = before;
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

/// As [`stop_flag`], for a run: the first signal says what it does.
pub(crate) fn stop_flag_that_says() -> &'static AtomicBool {
    SAYS.store(true, Ordering::Relaxed);
    stop_flag()
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
        // A second signal comes through even while the first waits for a full pipe.
        action.sa_flags = libc::SA_RESTART | libc::SA_NODEFER;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}
