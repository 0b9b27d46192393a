//! Descriptors: a target's own, and the number of one that a caller has.

use super::{Claims, sys};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, RawFd};
use std::sync::Arc;

/// What a target does its I/O by.
#[derive(Debug)]
pub(super) struct Handle {
    file: ManuallyDrop<File>,
    is_callers: bool,
}

impl Handle {
    /// The number of a descriptor that the caller has: nothing here closes it, or keeps open what it names.
    ///
    /// # Safety
    /// The caller answers for whatever the number names while it is used.
    pub(super) unsafe fn callers(fd: RawFd) -> Handle {
        // SAFETY: by this function's condition; it is not closed, as only `drop` of what is ours closes.
        Handle { file: ManuallyDrop::new(unsafe { File::from_raw_fd(fd) }), is_callers: true }
    }

    /// The same number, if it is the caller's.
    pub(super) fn of_callers(&self) -> Option<Handle> {
        // SAFETY: whoever made this one answers for the number.
        self.is_callers.then(|| unsafe { Handle::callers(self.file.as_raw_fd()) })
    }

    /// Another descriptor of the same file; of a caller's, the same number.
    pub(super) fn try_clone(&self) -> io::Result<Handle> {
        self.of_callers().map_or_else(|| Ok(self.file.try_clone()?.into()), Ok)
    }
}

impl From<File> for Handle {
    fn from(file: File) -> Handle {
        Handle { file: ManuallyDrop::new(file), is_callers: false }
    }
}

impl Deref for Handle {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.is_callers {
            // SAFETY: dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}

/// A descriptor of a target for an engine of its own, with the target's claims: no one else can claim the
/// devices until the last descriptor that may write is closed, and never if it is leaked.
#[derive(Debug)]
pub struct Descriptor {
    pub(super) file: Handle,
    _claims: Claims,
}

impl Descriptor {
    pub(super) fn new(file: Handle, claims: &Claims) -> Descriptor {
        Descriptor { file, _claims: Arc::clone(claims) }
    }

    /// Another of the same target, with more flags of open(2); for writing only if this one is. A caller's
    /// has none: closing it would end locks that the caller has on the file (fcntl(2), `F_SETLK`).
    pub(crate) fn again(&self, flags: i32) -> io::Result<Descriptor> {
        if self.file.is_callers {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let file = sys::reopen_alike(&self.file, libc::O_DIRECT | flags)?;
        Ok(Descriptor::new(file.into(), &self._claims))
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}
