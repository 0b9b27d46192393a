//! How the library begins in a process, and what it leaves at the end.

use crate::ending::wait_for_others;
use crate::real::stand_before;
use crate::state::{self, Inside, State};
use crate::sys::Quiet;
use crate::{limits, moved, owner, process, settings, stats, sys, thread};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

type Exit = unsafe extern "C-unwind" fn(c_int);

stand_before! {
    _exit = exit: (code: c_int) -> ();
    _Exit = exit: (code: c_int) -> ();
}

unsafe extern "C" {
    /// at_quick_exit(3).
    safe fn at_quick_exit(function: extern "C" fn()) -> c_int;
}

/// The generation of the process that has ended.
static ENDED: AtomicU64 = AtomicU64::new(0);
/// The highest number that a ring is given, and how many numbers are for rings at the most.
const HIGHEST: u64 = 1 << 16;
const MOST_RINGS: u64 = 1024;
/// Rings that an engine may have at a time.
const RINGS_OF_ENGINE: u64 = 4;

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

/// Called when the library is loaded.
#[cfg_attr(test, expect(dead_code, reason = "tests are not preloaded"))]
extern "C" fn begin() {
    let _quiet = Quiet::begin();
    if settings::get().is_off {
        return;
    }
    std::panic::set_hook(Box::new(|fault| die(&fault.to_string())));
    let (lowest, count) = numbers_of_rings(most_descriptors());
    iopj_engine::keep_rings_from(lowest as c_int);
    moved::limit_engines((count / RINGS_OF_ENGINE) as u32);
    limits::ask();
    owner::answer_by(state::answer);
    thread::start::<State>();
    process::start();
    // The handlers of quick_exit(3) run in reverse order: the program's before this, which is the first.
    at_quick_exit(end);
}

/// Ends the program after a fault of the library's own: whatever it did next might be wrong.
fn die(fault: &str) {
    sys::end_program(&format!(
        "{fault}: this is a fault of the library, and the program is ended; IOPJ_PRELOAD=off switches the \
         library off"
    ));
}

/// The lowest number for rings, and how many there are: the upper half of those that a process may have, at
/// most.
fn numbers_of_rings(most: u64) -> (u64, u64) {
    let most = most.min(HIGHEST);
    let lowest = (most / 2).max(most.saturating_sub(MOST_RINGS));
    (lowest, most - lowest)
}

/// The most descriptors of this process (getrlimit(2), `RLIMIT_NOFILE`).
fn most_descriptors() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes the limit.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur
}

/// Called when the process ends by exit(3), `_exit` or quick_exit(3).
extern "C" fn end() {
    if !process::is_working()
        || !process::is_own()
        || ENDED.swap(process::generation(), Ordering::Relaxed) == process::generation()
    {
        return;
    }
    finish_own();
    wait_for_others();
    let Some(path) = settings::get().stats.as_deref() else { return };
    let _quiet = Quiet::begin();
    let program = std::fs::read("/proc/self/comm").unwrap_or_default();
    sys::append(path, stats::line(String::from_utf8_lossy(&program).trim_end()).as_bytes());
}

/// Ends what this thread has in flight.
fn finish_own() {
    if let Ok(mut inside) = Inside::enter_to_take() {
        inside.state().finish();
    }
}

unsafe fn exit(real: Exit, code: c_int) {
    end();
    // SAFETY: by the condition of the function of this name.
    unsafe { real(code) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_have_the_upper_numbers() {
        assert_eq!(numbers_of_rings(1024), (512, 512));
        assert_eq!(numbers_of_rings(1 << 20), (65_536 - 1024, 1024));
        assert_eq!(numbers_of_rings(u64::MAX), (65_536 - 1024, 1024));
        assert_eq!(numbers_of_rings(16), (8, 8));
    }
}
