//! Control blocks that the kernel or glibc reads while requests are in flight: a heap array that is only
//! reached by raw pointer, so no Rust reference overlaps a block in use.

use crate::pool::Slot;
use std::ptr::NonNull;

/// One block for each slot of a pool.
pub(crate) struct ControlBlocks<T> {
    blocks: NonNull<[T]>,
}

impl<T: Clone> ControlBlocks<T> {
    pub(crate) fn new(block: T, slots: u32) -> ControlBlocks<T> {
        ControlBlocks { blocks: NonNull::from(Box::leak(vec![block; slots as usize].into_boxed_slice())) }
    }

    /// The address of a slot's block. The slot must be one that the pool has accepted.
    pub(crate) fn at(&self, slot: Slot) -> *mut T {
        assert!((slot.0 as usize) < self.blocks.len(), "the pool has accepted the slot");
        self.blocks.as_ptr().cast::<T>().wrapping_add(slot.0 as usize)
    }
}

impl<T> Drop for ControlBlocks<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::leak` and is freed once; the owner drops it only
        // when no request is in flight.
        drop(unsafe { Box::from_raw(self.blocks.as_ptr()) });
    }
}
