//! Pools over memory of others, which is used where it lies: for a library whose callers bring a buffer with
//! each I/O.

use super::{Buffer, Pool};
use std::cell::Cell;
use std::ptr::NonNull;

/// The most bytes that are lent at a time: a gibibyte, which every interface moves in one request.
const MOST_LENT: u32 = 1 << 30;

impl Pool {
    /// A pool of `count` buffers without memory: [`Pool::lend`] says where each is. Its buffers are empty
    /// slices to Rust, because others may have references to what they stand for. It cannot be registered
    /// with a ring, and no driver in this process takes it.
    pub fn lent(count: u32) -> Pool {
        let places = (0..count).map(|_| Cell::new(NonNull::dangling())).collect();
        let lens = (0..count).map(|_| Cell::new(0)).collect();
        Pool::of(places, Some(lens), MOST_LENT, None)
    }

    /// A buffer that stands for `len` bytes of the caller's memory from `base` on, without a copy; `None` if
    /// all are with users or in flight, if the pool has memory of its own, or for more than a gibibyte. The
    /// alignment is what the target needs, which the kernel checks.
    ///
    /// # Safety
    /// Until the buffer is dropped, and for ever if an engine leaks it, a read may write to the memory and a
    /// write may read it, as by the system call; the kernel refuses what is not mapped (EFAULT). A buffer
    /// that [`Pool::acquire`] takes from this pool stands for what was lent under its number last: it goes to
    /// no engine, unless that memory is still lent.
    pub unsafe fn lend(&self, base: NonNull<u8>, len: u32) -> Option<Buffer> {
        let lens = self.0.lens.as_ref().filter(|_| len <= MOST_LENT)?;
        let buffer = self.acquire()?;
        self.0.places.get(buffer.index as usize)?.set(base);
        lens.get(buffer.index as usize)?.set(len);
        Some(buffer)
    }

    /// Bytes of a buffer that Rust may see.
    #[inline]
    pub(super) fn visible(&self) -> usize {
        if self.0.lens.is_some() { 0 } else { self.0.len as usize }
    }
}
