//! Memory of the library's own: blocks of a power of two from mappings, and a mapping for whatever is longer.
//!
//! A function that POSIX lets a signal handler call (`pread`) may find the program in its allocator, so the
//! library must not need that one. In a forked child the heap begins anew, whoever held its lock.

use crate::sys;
use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Bytes of the least block, and how many lengths there are: 16 bytes to 64 KiB.
const LEAST: usize = 16;
const CLASSES: usize = 13;
/// Bytes that are mapped at a time, and the most alignment that there is.
const CHUNK: usize = 1 << 20;
const PAGE: usize = 4096;

/// The allocator.
pub(crate) struct Heap;

/// What it knows, in a page that is zeroed in a forked child (`MADV_WIPEONFORK`); zeroed, it is a new one.
struct State {
    lock: AtomicU32,
    /// Of each length the blocks that nobody has: each begins with the address of the next.
    free: [AtomicPtr<u8>; CLASSES],
    /// What is left of the latest chunk.
    next: AtomicUsize,
    end: AtomicUsize,
}

static STATE: AtomicPtr<State> = AtomicPtr::new(null_mut());

fn map(len: usize) -> *mut u8 {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address that the kernel chooses touches no memory of ours.
    let at = unsafe { libc::mmap(null_mut(), len, protection, flags, -1, 0) };
    if at == libc::MAP_FAILED { null_mut() } else { at.cast() }
}

/// A page of zeros, which is zeroed again in a forked child; null if there is none.
pub(crate) fn page_of_this_process() -> *mut u8 {
    let page = map(PAGE);
    // SAFETY: the range is the mapping, or the call fails.
    if !page.is_null() && unsafe { libc::madvise(page.cast(), PAGE, libc::MADV_WIPEONFORK) } == 0 {
        return page;
    }
    null_mut()
}

/// The length class of a block; none for what gets a mapping of its own.
fn class(layout: &Layout) -> Option<usize> {
    let len = layout.size().max(layout.align()).max(LEAST).next_power_of_two();
    let class = (len / LEAST).trailing_zeros() as usize;
    (class < CLASSES).then_some(class)
}

impl State {
    fn get() -> Option<&'static State> {
        let mut state = STATE.load(Ordering::Acquire);
        if state.is_null() {
            let new = page_of_this_process().cast::<State>();
            match STATE.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => state = new,
                Err(other) => state = other,
            }
        }
        // SAFETY: the page is never unmapped, and zeros are a valid state.
        unsafe { state.as_ref() }
    }

    fn locked<T>(&self, work: impl FnOnce(&State) -> T) -> T {
        while self.lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            // SAFETY: the call touches no memory.
            unsafe { libc::sched_yield() };
        }
        let result = work(self);
        self.lock.store(0, Ordering::Release);
        result
    }

    /// A block that nobody has, or a new one.
    fn take(&self, class: usize) -> *mut u8 {
        let free = &self.free[class];
        let first = free.load(Ordering::Relaxed);
        if !first.is_null() {
            // SAFETY: a free block begins with the address of the next.
            free.store(unsafe { first.cast::<*mut u8>().read() }, Ordering::Relaxed);
            return first;
        }
        let len = LEAST << class;
        let mut at = self.next.load(Ordering::Relaxed).next_multiple_of(len);
        if at + len > self.end.load(Ordering::Relaxed) {
            let chunk = map(CHUNK);
            if chunk.is_null() {
                return chunk;
            }
            at = chunk.expose_provenance().next_multiple_of(len);
            self.end.store(chunk.addr() + CHUNK, Ordering::Relaxed);
        }
        self.next.store(at + len, Ordering::Relaxed);
        std::ptr::with_exposed_provenance_mut(at)
    }

    fn give_back(&self, block: *mut u8, class: usize) {
        let free = &self.free[class];
        // SAFETY: the block is at least 16 bytes long and aligned, and nobody has it any more.
        unsafe { block.cast::<*mut u8>().write(free.load(Ordering::Relaxed)) };
        free.store(block, Ordering::Relaxed);
    }
}

/// A handler that comes while the lock is held would wait for its own thread for ever. Such a fault seldom
/// shows, so a library that is built for tests looks for it each time.
fn check() {
    if cfg!(all(debug_assertions, not(test))) && !sys::is_quiet() {
        let text = "libiopj_preload.so: memory while signals come: this is a fault of the library\n";
        // SAFETY: the text lives through the call.
        unsafe { sys::call(libc::SYS_write, [2, text.as_ptr() as usize, text.len(), 0, 0, 0]) };
        std::process::abort();
    }
}

// SAFETY: blocks are as long and as aligned as the layout says, and nobody else's until they come back.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check();
        match class(&layout) {
            Some(class) => State::get().map_or(null_mut(), |state| state.locked(|state| state.take(class))),
            None if layout.align() <= PAGE => map(layout.size().next_multiple_of(PAGE)),
            None => null_mut(),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        check();
        match class(&layout) {
            Some(class) => {
                if let Some(state) = State::get() {
                    state.locked(|state| state.give_back(block, class));
                }
            }
            None => {
                // SAFETY: by the trait's condition the block is the mapping that `alloc` made for the layout.
                unsafe { libc::munmap(block.cast(), layout.size().next_multiple_of(PAGE)) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
        #[test]
        fn blocks_are_aligned_and_nobody_elses(
            wanted in prop::collection::vec((1_usize..200_000, 0_u32..13, any::<bool>()), 1..80),
        ) {
            let mut held: Vec<(*mut u8, Layout, u8)> = Vec::new();
            for (number, (len, align, keeps)) in wanted.into_iter().enumerate() {
                let layout = Layout::from_size_align(len, 1 << align).unwrap();
                // SAFETY: the layout has a length; the block is as long.
                let block = unsafe { Heap.alloc(layout) };
                prop_assert!(!block.is_null() && block.addr().is_multiple_of(1 << align));
                // SAFETY: as above.
                unsafe { block.write_bytes(number as u8, len) };
                held.push((block, layout, number as u8));
                if !keeps {
                    let (block, layout, byte) = held.swap_remove(number % held.len());
                    // SAFETY: the block is as long as its layout says, and comes back once.
                    unsafe {
                        let bytes = std::slice::from_raw_parts(block, layout.size());
                        prop_assert!(bytes.iter().all(|it| *it == byte));
                        Heap.dealloc(block, layout);
                    }
                }
            }
            for (block, layout, byte) in held {
                // SAFETY: as above.
                unsafe {
                    let bytes = std::slice::from_raw_parts(block, layout.size());
                    prop_assert!(bytes.iter().all(|it| *it == byte));
                    Heap.dealloc(block, layout);
                }
            }
        }
    }
}
