//! Whether files may grow as the program likes (`RLIMIT_FSIZE`): a write that may not is told by a signal,
//! which a ring does not send.

use crate::real::stand_before;
use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicBool, Ordering};

type Set = unsafe extern "C-unwind" fn(c_uint, *const libc::rlimit) -> c_int;
type Both = unsafe extern "C-unwind" fn(libc::pid_t, c_uint, *const libc::rlimit, *mut libc::rlimit) -> c_int;

stand_before! {
    setrlimit = set: (resource: c_uint, limit: *const libc::rlimit) -> c_int;
    setrlimit64 = set: (resource: c_uint, limit: *const libc::rlimit) -> c_int;
    prlimit = both:
        (process: libc::pid_t, resource: c_uint, new: *const libc::rlimit, old: *mut libc::rlimit) -> c_int;
    prlimit64 = both:
        (process: libc::pid_t, resource: c_uint, new: *const libc::rlimit, old: *mut libc::rlimit) -> c_int;
}

static IS_LIMITED: AtomicBool = AtomicBool::new(false);

/// True if there is a limit.
pub(crate) fn is_size_limited() -> bool {
    IS_LIMITED.load(Ordering::Relaxed)
}

/// Asks for the limit.
pub(crate) fn ask() {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the call writes the limit.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    IS_LIMITED.store(limit.rlim_cur != libc::RLIM_INFINITY, Ordering::Relaxed);
}

unsafe fn set(real: Set, resource: c_uint, limit: *const libc::rlimit) -> c_int {
    // SAFETY: by the condition of the function of this name.
    let result = unsafe { real(resource, limit) };
    if resource == libc::RLIMIT_FSIZE as c_uint {
        ask();
    }
    result
}

unsafe fn both(
    real: Both,
    process: libc::pid_t,
    resource: c_uint,
    new: *const libc::rlimit,
    old: *mut libc::rlimit,
) -> c_int {
    // SAFETY: by the condition of the function of this name.
    let result = unsafe { real(process, resource, new, old) };
    if resource == libc::RLIMIT_FSIZE as c_uint && !new.is_null() {
        ask();
    }
    result
}
