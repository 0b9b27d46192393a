//! Where the descriptors of rings are put: for a library in a program that does not know of them.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// The lowest number that a ring gets; 0 while nobody asks for one.
static LOWEST: AtomicI32 = AtomicI32::new(0);
/// Numbers that can be marked.
const MARKS: usize = 1 << 16;
/// The numbers that rings have.
static RINGS: [AtomicU64; MARKS / 64] = [const { AtomicU64::new(0) }; MARKS / 64];

thread_local! {
    static CLOSED: Cell<u32> = const { Cell::new(0) };
}

/// From now on the descriptors of rings get numbers from `lowest` on (below 65536), so that those which the
/// rest of the process gets are what they would be without them.
pub fn keep_rings_from(lowest: RawFd) {
    LOWEST.store(lowest.clamp(0, MARKS as i32 - 1), Ordering::Relaxed);
}

/// True if a ring that was made since [`keep_rings_from`] has this number: closing it, or putting another
/// file in its place, would end the I/O of its engine.
pub fn is_ring(fd: RawFd) -> bool {
    mark(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// How many rings this thread has closed, of those that [`is_ring`] knew. The kernel interrupts the thread
/// that made a ring once more some time after its close (`io_tctx_exit_cb` of io_uring/io_uring.c).
pub fn rings_closed() -> u32 {
    CLOSED.get()
}

/// In a forked child: closes the descriptors of the parent's rings, whose engines the child must leak. Only
/// those that were made since [`keep_rings_from`] are known.
pub fn close_rings_of_parent() {
    for (number, word) in RINGS.iter().enumerate() {
        let mut bits = word.swap(0, Ordering::Relaxed);
        while bits != 0 {
            let fd = number * 64 + bits.trailing_zeros() as usize;
            if names_ring(fd) {
                // SAFETY: the descriptor is a copy of a ring's of the parent, and nothing here uses it.
                unsafe { libc::syscall(libc::SYS_close, fd) };
            }
            bits &= bits - 1;
        }
    }
}

/// True if a ring is open under this number: the child may have closed it, and opened something else.
fn names_ring(fd: usize) -> bool {
    let (path, mut name) = (format!("/proc/self/fd/{fd}\0"), [0_u8; 64]);
    // SAFETY: the path ends with a zero byte, and the call writes no more than there is room for.
    let len = unsafe { libc::readlink(path.as_ptr().cast(), name.as_mut_ptr().cast(), name.len()) };
    name[..len.max(0) as usize].starts_with(b"anon_inode:[io_uring]")
}

fn mark(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    RINGS.get(fd / 64).map(|word| (word, 1 << (fd % 64)))
}

/// The descriptor of a ring.
pub(crate) struct RingFd(OwnedFd);

impl RingFd {
    /// Puts a new ring's descriptor where it belongs.
    ///
    /// # Errors
    /// The errno of fcntl(2): there is no number left.
    pub(crate) fn new(fd: OwnedFd) -> Result<RingFd, i32> {
        let lowest = LOWEST.load(Ordering::Relaxed);
        if lowest == 0 {
            return Ok(RingFd(fd));
        }
        // SAFETY: the call touches no memory.
        let moved = unsafe { libc::syscall(libc::SYS_fcntl, fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, lowest) };
        if moved < 0 {
            return Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EMFILE));
        }
        let moved = moved as RawFd;
        if let Some((word, bit)) = mark(moved) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        // SAFETY: the call has just returned this descriptor to us alone.
        Ok(RingFd(unsafe { OwnedFd::from_raw_fd(moved) }))
    }
}

impl AsFd for RingFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for RingFd {
    #[inline]
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Drop for RingFd {
    fn drop(&mut self) {
        if let Some((word, bit)) = mark(self.0.as_raw_fd())
            && word.fetch_and(!bit, Ordering::Relaxed) & bit != 0
        {
            let _ = CLOSED.try_with(|closed| closed.set(closed.get() + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{RawRing, SqPoller};

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no rings")]
    fn rings_are_kept_from_a_number_on_and_marked_while_they_live() {
        assert!(!is_ring(-1) && !is_ring(i32::MAX));
        keep_rings_from(700);
        let ring = RawRing::new(1, 0, SqPoller::default());
        keep_rings_from(0);
        let Ok(ring) = ring else {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "needs io_uring");
            return eprintln!("skipped: needs io_uring");
        };
        let fd = ring.fd().as_raw_fd();
        assert!(names_ring(fd as usize) && !names_ring(0));
        assert!(fd >= 700 && is_ring(fd), "{fd}");
        let before = rings_closed();
        drop(ring);
        assert_eq!((is_ring(fd), rings_closed() - before), (false, 1));
    }
}
