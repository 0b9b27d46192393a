//! Which descriptors have I/O that is moved.
//!
//! What is remembered only saves questions: each I/O that is moved asks the kernel again what the descriptor
//! names, and is given to the kernel by the program's own number. A number that was closed or opened anew
//! behind the library (by a raw system call, by another library) does its I/O where the program means it.

use crate::stats::Reason;
use crate::sys;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

/// Numbers that are remembered; above them every call asks.
const MOST: usize = 1 << 16;

/// Nothing is known.
const UNKNOWN: u32 = 0;
/// It is a file or a block device that is open for direct I/O.
const DIRECT: u32 = 1;
const BUFFERED: u32 = 2;
const NOT_A_FILE: u32 = 3;
const OPEN_FLAGS: u32 = 4;
/// The lowest bits are one of these; above them is how often it was forgotten, so that an answer which was
/// asked for before is not noted after.
const STATE: u32 = 7;

static KNOWN: [AtomicU32; MOST] = [const { AtomicU32::new(UNKNOWN) }; MOST];

fn forget_at(known: &AtomicU32) {
    let anew = |old: u32| Some((old & !STATE).wrapping_add(STATE + 1));
    let _ = known.fetch_update(Ordering::Relaxed, Ordering::Relaxed, anew);
}

/// What a descriptor names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// The device that the file is on, or that it is.
    pub(crate) device: u64,
    /// Its number there.
    pub(crate) inode: u64,
}

/// That nothing is known of a descriptor any more: it was closed, opened, or its flags have changed.
pub(crate) fn forget(fd: c_int) {
    if let Some(known) = usize::try_from(fd).ok().and_then(|fd| KNOWN.get(fd)) {
        forget_at(known);
    }
}

/// As [`forget`], for all from `first` to `last`.
pub(crate) fn forget_range(first: u32, last: u32) {
    let last = (last as usize).min(MOST - 1);
    KNOWN.get(first as usize..=last).unwrap_or_default().iter().for_each(forget_at);
}

/// Whether the I/O of a descriptor may be moved, from memory if something is known.
///
/// # Errors
/// Why not.
#[inline]
pub(crate) fn may_move(fd: c_int) -> Result<(), Reason> {
    let known = usize::try_from(fd).ok().and_then(|fd| KNOWN.get(fd));
    let state = match known {
        Some(known) => {
            let now = known.load(Ordering::Relaxed);
            match now & STATE {
                UNKNOWN => {
                    let state = ask(fd);
                    let _ = known.compare_exchange(now, now | state, Ordering::Relaxed, Ordering::Relaxed);
                    state
                }
                state => state,
            }
        }
        None => ask(fd),
    };
    match state {
        DIRECT => Ok(()),
        BUFFERED => Err(Reason::Buffered),
        NOT_A_FILE => Err(Reason::NotAFile),
        OPEN_FLAGS => Err(Reason::OpenFlags),
        _ => Err(Reason::NotOpen),
    }
}

/// As [`may_move`], with nothing from memory: what a descriptor names now, if it is open for reads, or for
/// writes.
///
/// # Errors
/// Why not.
pub(crate) fn may_move_now(fd: c_int, reads: bool) -> Result<File, Reason> {
    let flags = sys::open_flags(fd).ok_or(Reason::NotOpen)?;
    let mode = flags & libc::O_ACCMODE;
    let file = judge(fd, flags)?;
    let is_open_for_it = mode == libc::O_RDWR || mode == if reads { libc::O_RDONLY } else { libc::O_WRONLY };
    if is_open_for_it { Ok(file) } else { Err(Reason::NotOpen) }
}

/// What a descriptor names now, if that is a file or a block device.
pub(crate) fn file(fd: c_int) -> Option<File> {
    let status = sys::file_status(fd)?;
    let device = match status.st_mode & libc::S_IFMT {
        libc::S_IFREG => status.st_dev,
        libc::S_IFBLK => status.st_rdev,
        _ => return None,
    };
    Some(File { device, inode: status.st_ino })
}

fn ask(fd: c_int) -> u32 {
    let Some(flags) = sys::open_flags(fd) else { return UNKNOWN };
    match judge(fd, flags) {
        Ok(_) => DIRECT,
        Err(Reason::Buffered) => BUFFERED,
        Err(Reason::OpenFlags) => OPEN_FLAGS,
        Err(_) => NOT_A_FILE,
    }
}

fn judge(fd: c_int, flags: c_int) -> Result<File, Reason> {
    if flags & libc::O_DIRECT == 0 {
        return Err(Reason::Buffered);
    }
    // A ring would not wait for a descriptor with O_NONBLOCK, and the place of what is appended is known to
    // the kernel alone.
    if flags & (libc::O_APPEND | libc::O_NONBLOCK) != 0 {
        return Err(Reason::OpenFlags);
    }
    file(fd).ok_or(Reason::NotAFile)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;

    #[test]
    fn only_files_that_are_open_for_direct_io_are_moved() {
        let folder = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, [0; 512]).unwrap();
        let open = |flags| OpenOptions::new().write(true).custom_flags(flags).open(&path).unwrap();
        let direct = open(libc::O_DIRECT);
        assert_eq!(may_move(direct.as_raw_fd()), Ok(()));
        assert!(may_move_now(direct.as_raw_fd(), false).is_ok());
        assert_eq!(may_move_now(direct.as_raw_fd(), true), Err(Reason::NotOpen));
        let appends = open(libc::O_DIRECT | libc::O_APPEND);
        assert_eq!(may_move(appends.as_raw_fd()), Err(Reason::OpenFlags));
        let buffered = File::open(&path).unwrap();
        assert_eq!(may_move(buffered.as_raw_fd()), Err(Reason::Buffered));
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(may_move(socket.as_raw_fd()), Err(Reason::Buffered));
        assert_eq!((may_move(-1), may_move(1 << 20)), (Err(Reason::NotOpen), Err(Reason::NotOpen)));
        // What is remembered is wrong until it is forgotten, or asked for.
        let fd = direct.as_raw_fd();
        set_flags(fd, 0);
        assert_eq!((may_move(fd), may_move_now(fd, false)), (Ok(()), Err(Reason::Buffered)));
        forget(fd);
        assert_eq!(may_move(fd), Err(Reason::Buffered));
        forget_range(0, u32::MAX);
        assert_eq!(may_move(buffered.as_raw_fd()), Err(Reason::Buffered));
    }

    fn set_flags(fd: c_int, flags: c_int) {
        // SAFETY: the call touches no memory.
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFL, flags) }, 0);
    }
}
