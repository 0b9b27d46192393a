//! Handles as numbers: kind, generation and index, whose each one is, and why a number is none of a thread's.

use crate::error::{Failure, IOPJ_ERROR_HANDLE, Outcome, failure};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const INDEX_BITS: u32 = 16;
const GENERATION_BITS: u32 = 44;

/// Handles that one thread may have open.
pub(crate) const MOST: usize = 1 << INDEX_BITS;

/// What a handle is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Target = 1,
    Pool = 2,
    Engine = 3,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Target => "a target",
            Kind::Pool => "a pool",
            Kind::Engine => "an engine",
        })
    }
}

/// The next generation. No two handles of a process have the same, on whatever threads they are.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// The open handles of all threads, each with its thread as the kernel numbers it. Only opening, closing and
/// misuse look at it.
static OWNERS: Mutex<BTreeMap<u64, libc::c_long>> = Mutex::new(BTreeMap::new());

fn owners() -> MutexGuard<'static, BTreeMap<u64, libc::c_long>> {
    OWNERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// This thread, as the kernel numbers it. glibc has a function for it only since 2.30.
fn this_thread() -> libc::c_long {
    // SAFETY: gettid(2) takes nothing and always succeeds.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

/// A new handle of this thread for the place `index` of its table.
///
/// # Errors
/// All generations were given out.
pub(crate) fn issue(kind: Kind, index: usize) -> Outcome<u64> {
    let generation = GENERATION.fetch_add(1, Ordering::Relaxed);
    if generation >> GENERATION_BITS != 0 || index >= MOST {
        return Err(failure(IOPJ_ERROR_HANDLE, "there are no more handles: start the process again"));
    }
    let handle = (kind as u64) << (GENERATION_BITS + INDEX_BITS) | generation << INDEX_BITS | index as u64;
    owners().insert(handle, this_thread());
    Ok(handle)
}

/// Says that a handle is closed.
pub(crate) fn retire(handle: u64) {
    owners().remove(&handle);
}

/// The place in the thread's table that a handle names, if it is one at all.
#[inline]
pub(crate) fn index(handle: u64) -> usize {
    handle as usize & (MOST - 1)
}

fn kind(handle: u64) -> Option<Kind> {
    let number = handle >> (GENERATION_BITS + INDEX_BITS);
    [Kind::Target, Kind::Pool, Kind::Engine].into_iter().find(|kind| *kind as u64 == number)
}

fn generation(handle: u64) -> u64 {
    handle >> INDEX_BITS & ((1 << GENERATION_BITS) - 1)
}

/// Why a number is no handle of this kind and this thread.
#[cold]
pub(crate) fn refuse(handle: u64, wanted: Kind) -> Failure {
    let was_issued = (1..GENERATION.load(Ordering::Relaxed)).contains(&generation(handle));
    let (owner, this) = (owners().get(&handle).copied(), this_thread());
    let text = match (kind(handle), owner) {
        _ if handle == 0 => format!("0 is no handle of {wanted}: the call that returned it has failed"),
        (Some(kind), Some(_)) if kind != wanted => {
            format!("{handle:#x} is a handle of {kind}: pass one of {wanted}")
        }
        (_, Some(owner)) => format!(
            "{handle:#x} is a handle of {wanted} that belongs to thread {owner}, and this is thread {this}: \
             use a handle on the thread that opened it"
        ),
        (Some(kind), None) if was_issued => {
            format!("{handle:#x} is a handle of {kind} that was closed: open {wanted} again")
        }
        _ => format!("{handle:#x} is no handle: pass what the call that opens {wanted} returned"),
    };
    failure(IOPJ_ERROR_HANDLE, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_told_apart() {
        let target = issue(Kind::Target, 5).unwrap();
        let other = issue(Kind::Target, 5).unwrap();
        assert_ne!(target, other);
        assert_eq!((index(target), kind(target)), (5, Some(Kind::Target)));
        assert!(generation(target) < generation(other));
        let text = |handle, kind| refuse(handle, kind).text;
        assert!(text(target, Kind::Pool).contains("is a handle of a target: pass one of a pool"));
        let foreign = std::thread::spawn(move || refuse(target, Kind::Target).text).join().unwrap();
        assert!(foreign.contains(&format!("belongs to thread {}", this_thread())), "{foreign}");
        retire(target);
        assert!(text(target, Kind::Target).contains("that was closed"));
        assert!(text(0, Kind::Engine).contains("0 is no handle of an engine"));
        assert!(text(u64::MAX, Kind::Engine).contains("is no handle"));
        let never = (Kind::Pool as u64) << 60 | ((1 << GENERATION_BITS) - 1) << INDEX_BITS;
        assert!(text(never, Kind::Pool).contains("is no handle"));
        retire(other);
    }
}
