//! How many descriptors this process may have: counters of a pass take four for each processor and two for
//! each job, engines one or more for each job.

use std::sync::OnceLock;

/// The limit that this process began with, once it was raised.
static BEFORE: OnceLock<libc::rlimit> = OnceLock::new();

/// More than any study needs. Some containers allow a thousand times as many, and some programs walk through
/// all that they may have.
const MOST: libc::rlim_t = 1 << 20;

/// Raises this process' limit of descriptors to the most that it may give itself, up to 2^20. Where it
/// cannot, what needs more says so.
pub fn raise_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the answer.
    let has_limit = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    let most = libc::rlimit { rlim_cur: limit.rlim_max.min(MOST).max(limit.rlim_cur), ..limit };
    // SAFETY: the call only reads `most`.
    if has_limit && unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const most) } == 0 {
        BEFORE.get_or_init(|| limit);
    }
}

/// What gives a child that is about to run its program the limit that this process began with, for some
/// programs walk through all descriptors that they may have; where that cannot be, it keeps the raised one.
/// It makes one system call, which is async-signal-safe, and allocates nothing.
pub(crate) fn put_back() -> impl Fn() + Send + Sync + 'static {
    let before = BEFORE.get().copied();
    move || {
        if let Some(limit) = &before {
            // SAFETY: the call only reads the limit.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) };
        }
    }
}
