//! Memory mappings: made, reached at checked offsets, and unmapped when they are dropped.

use crate::system::{Owner, last_errno};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;

/// A mapping that can be read and written. It hands out addresses, not references: its owner decides who uses
/// the memory, and drops it only when nobody does, neither here nor in the kernel nor in a device.
#[derive(Debug)]
pub(crate) struct Mmap {
    base: NonNull<u8>,
    len: usize,
    owner: Owner,
}

// SAFETY: a mapping has no thread, and this value only hands out addresses, whose users need `unsafe`.
unsafe impl Send for Mmap {}
// SAFETY: as above.
unsafe impl Sync for Mmap {}

impl Mmap {
    /// `len` bytes of zeros; `flags` are those of mmap(2) besides `MAP_ANONYMOUS`.
    ///
    /// # Errors
    /// The errno of mmap(2).
    pub(crate) fn anonymous(len: usize, flags: i32) -> Result<Mmap, i32> {
        Mmap::new(len, flags | libc::MAP_ANONYMOUS, -1, 0)
    }

    /// `len` bytes of a file from `offset` on, shared.
    ///
    /// # Errors
    /// The errno of mmap(2).
    pub(crate) fn of_file(file: &impl AsRawFd, offset: u64, len: usize, flags: i32) -> Result<Mmap, i32> {
        Mmap::new(len, flags | libc::MAP_SHARED, file.as_raw_fd(), offset as libc::off_t)
    }

    fn new(len: usize, flags: i32, fd: RawFd, offset: libc::off_t) -> Result<Mmap, i32> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory of ours.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, fd, offset) };
        match NonNull::new(address.cast()) {
            Some(base) if address != libc::MAP_FAILED => Ok(Mmap { base, len, owner: Owner::this_process() }),
            _ => Err(last_errno()),
        }
    }

    /// Leaves the mapping out of forked children. Else a fork makes private memory copied on write, and what
    /// this process writes to next is another page than the one that a device still uses.
    ///
    /// # Errors
    /// The errno of madvise(2).
    pub(crate) fn keep_from_children(&self) -> Result<(), i32> {
        if cfg!(miri) {
            return Ok(()); // Miri has neither madvise nor fork
        }
        // SAFETY: the range is this mapping, and the advice changes nothing in this process.
        let result = unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, libc::MADV_DONTFORK) };
        if result == 0 { Ok(()) } else { Err(last_errno()) }
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address of byte `offset`, which `len` bytes of the mapping follow.
    pub(crate) fn at(&self, offset: usize, len: usize) -> NonNull<u8> {
        assert!(offset <= self.len && len <= self.len - offset, "the range lies within the mapping");
        // SAFETY: the offset was just checked.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for Mmap {
    fn drop(&mut self) {
        if !self.owner.is_this_process() {
            return; // a child may have something else at this address
        }
        // SAFETY: the mapping is ours, and the owner drops it only when nobody uses it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
