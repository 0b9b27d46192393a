//! Memory mappings: made, reached at checked offsets, and unmapped when they are dropped.

use crate::system::last_errno;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;

/// A mapping that can be read and written. It hands out addresses, not references: its owner decides who uses
/// the memory, and drops it only when nobody does, neither here nor in the kernel nor in a device.
#[derive(Debug)]
pub(crate) struct Mmap {
    base: NonNull<u8>,
    len: usize,
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
            Some(base) if address != libc::MAP_FAILED => Ok(Mmap { base, len }),
            _ => Err(last_errno()),
        }
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
        // SAFETY: the mapping is ours, and the owner drops it only when nobody uses it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
