//! How many descriptors this process may have: counters of a pass take four for each processor and two for
//! each job, engines one or more for each job.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::OnceLock;

/// The limit that this process began with, once it was raised.
static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// More than any study needs. Some containers allow a thousand times as many, and some programs walk through
/// all that they may have.
const MOST: u64 = 1 << 20;

/// Raises this process's limit of descriptors to the most that it may give itself, up to 2^20. If that fails,
/// whatever needs more reports it.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // An absent limit is infinite.
    let most = limit.maximum.unwrap_or(u64::MAX).min(MOST);
    let current = limit.current.map(|current| current.max(most));
    if setrlimit(Resource::Nofile, Rlimit { current, ..limit }).is_ok() {
        BEFORE.get_or_init(|| limit);
    }
}

/// Gives a child that is about to run its program the limit that this process began with: some programs walk
/// through all descriptors that they may have. If that fails, it keeps the raised one. The closure makes one
/// system call, which is async-signal-safe, and allocates nothing.
pub(crate) fn put_back() -> impl Fn() + Send + Sync + 'static {
    let before = BEFORE.get().copied();
    move || {
        if let Some(limit) = before {
            let _ = setrlimit(Resource::Nofile, limit);
        }
    }
}
