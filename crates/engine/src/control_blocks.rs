//! Control blocks that the kernel or glibc reads while requests are in flight: a heap array that is only
//! reached by raw pointer, so no Rust reference overlaps a block in use.

use std::ptr::NonNull;

/// One block for each buffer of a pool, or for one request.
pub(crate) struct ControlBlocks<T> {
    blocks: NonNull<[T]>,
}

impl<T> From<Box<[T]>> for ControlBlocks<T> {
    fn from(blocks: Box<[T]>) -> ControlBlocks<T> {
        ControlBlocks { blocks: NonNull::from(Box::leak(blocks)) }
    }
}

impl<T> Default for ControlBlocks<T> {
    fn default() -> ControlBlocks<T> {
        ControlBlocks::from(Box::default())
    }
}

impl<T> ControlBlocks<T> {
    /// The first of them, and how many there are.
    pub(crate) fn all(&self) -> (*mut T, usize) {
        (self.blocks.as_ptr().cast(), self.blocks.len())
    }
}

impl<T: Clone> ControlBlocks<T> {
    pub(crate) fn new(block: T, count: u32) -> ControlBlocks<T> {
        ControlBlocks::from(vec![block; count as usize].into_boxed_slice())
    }

    /// The address of a buffer's block.
    pub(crate) fn at(&self, index: u32) -> *mut T {
        assert!((index as usize) < self.blocks.len(), "the pool has the buffer");
        self.blocks.as_ptr().cast::<T>().wrapping_add(index as usize)
    }
}

impl<T> Drop for ControlBlocks<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::leak` and is freed once; the owner drops it only
        // when no request is in flight.
        drop(unsafe { Box::from_raw(self.blocks.as_ptr()) });
    }
}
