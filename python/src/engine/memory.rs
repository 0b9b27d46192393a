//! The memory of the buffers: shared with forked children, so that neither side's pages move under a request.

use iopj_engine::{Pool, Region};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ptr::NonNull;
use std::sync::Arc;

/// Buffers start at multiples of this many bytes.
const PAGE: usize = 4096;

/// An anonymous mapping, unmapped when dropped.
///
/// A private one would be copied on a write after a fork, and the kernel would go on reading into the old
/// page; and one that children lack (`MADV_DONTFORK`) would end a child that reads a view of its parent's.
pub(super) struct Memory {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the struct is an address; who may touch the bytes is kept by slots and their pool.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps room for `count` buffers of `len` bytes; why there is none.
    pub(super) fn new(count: u32, len: u32) -> Result<Arc<Memory>, String> {
        let stride = (len.max(1) as usize).next_multiple_of(PAGE);
        let none = |why: &str| format!("no memory for {count} buffers of {len} bytes ({why}): ask for less");
        let len = stride.checked_mul(count as usize).ok_or_else(|| none("too many bytes"))?;
        let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, kind) };
        let base = base.map_err(|errno| none(&errno.to_string()))?;
        let base = NonNull::new(base.cast()).ok_or_else(|| none("it is at address 0"))?;
        Ok(Arc::new(Memory { base, len }))
    }

    /// A pool of all of it.
    pub(super) fn pool(self: &Arc<Memory>, count: u32, len: u32) -> Result<Pool, String> {
        // SAFETY: the mapping lives until its last owner is dropped, of which the region is one. Python
        // touches a buffer only while its slot says that it is not in flight, and then the pool does not.
        let region = unsafe { Region::adopt(self.base, self.len, self.clone()) };
        let region = region.map_err(|error| error.to_string())?;
        Pool::within(&region, count, len).map_err(|error| error.to_string())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this struct's, and nothing uses it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
