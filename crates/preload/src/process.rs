//! What a process has: whether the library works in it, and state that a forked child begins anew.

use crate::sys::Quiet;
use crate::{heap, stats};
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// A word in a page that is zeroed in a forked child, however it was forked: [`NEW`] there.
static ALIVE: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
/// The process in which the library works.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// How many forks lie between the process that loaded the library and this one.
static GENERATION: AtomicU64 = AtomicU64::new(1);

const NEW: u32 = 0;
const WORKS: u32 = 1;
const BEGINS: u32 = 2;

/// From now on the library works in this process.
pub(crate) fn start() {
    let page = heap::page_of_this_process().cast::<AtomicU32>();
    // SAFETY: the page is never unmapped; zeros are a valid word.
    if let Some(word) = unsafe { page.as_ref() } {
        PROCESS.store(std::process::id(), Ordering::Relaxed);
        word.store(WORKS, Ordering::Relaxed);
        ALIVE.store(page, Ordering::Release);
    }
}

/// True if the library works in this process. In a forked child it begins anew: the parent's engines, and
/// whatever threads of the parent held, stay the parent's.
pub(crate) fn is_working() -> bool {
    // SAFETY: as in `start`.
    let Some(word) = (unsafe { ALIVE.load(Ordering::Acquire).as_ref() }) else { return false };
    match word.load(Ordering::Acquire) {
        WORKS => true,
        NEW => {
            let _quiet = Quiet::begin();
            if word.compare_exchange(NEW, BEGINS, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                return false;
            }
            GENERATION.fetch_add(1, Ordering::Relaxed);
            PROCESS.store(std::process::id(), Ordering::Relaxed);
            iopj_engine::close_rings_of_parent();
            stats::reset();
            word.store(WORKS, Ordering::Release);
            true
        }
        _ => false,
    }
}

/// False in a child that has the memory of its parent (vfork(2)).
pub(crate) fn is_own() -> bool {
    PROCESS.load(Ordering::Relaxed) == std::process::id()
}

/// A number that differs between a process and its children.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// A value that all threads of a process share, and a child does not.
pub(crate) struct Shared<T>(AtomicPtr<Of<T>>);

struct Of<T> {
    generation: u64,
    value: Mutex<T>,
}

impl<T: Default> Shared<T> {
    pub(crate) const fn new() -> Shared<T> {
        Shared(AtomicPtr::new(null_mut()))
    }

    /// Does something with the value, in its lock.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut value = self.of().value.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        work(&mut value)
    }

    fn of(&self) -> &Of<T> {
        loop {
            let known = self.0.load(Ordering::Acquire);
            // SAFETY: values are never freed: those of the parent are leaked.
            match unsafe { known.as_ref() } {
                Some(of) if of.generation == generation() => return of,
                _ => {}
            }
            let new = Box::new(Of { generation: generation(), value: Mutex::new(T::default()) });
            let new = Box::into_raw(new);
            if self.0.compare_exchange(known, new, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }
}
