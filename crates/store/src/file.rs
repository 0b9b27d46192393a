//! The store's file as the operating system sees it: made whole, locked, allowed.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The folder that holds `path`.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn c_string(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// Makes `path` with these contents, locked and synced. It gets its name when it is whole (open(2),
/// `O_TMPFILE`); where the file system cannot do that, a death meanwhile leaves a part. Never replaces what
/// stands there.
pub(crate) fn create_whole(path: &Path, contents: &[u8]) -> io::Result<File> {
    let fill = |file: &mut File| -> io::Result<()> {
        lock(file)?;
        file.write_all(contents)?;
        file.sync_all()
    };
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o666).custom_flags(libc::O_TMPFILE);
    let file = match options.open(folder(path)) {
        Ok(mut file) => {
            fill(&mut file)?;
            let node = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
            let name = c_string(path)?;
            // SAFETY: both texts end in a zero byte and live until the call returns.
            let linked = unsafe {
                libc::linkat(
                    libc::AT_FDCWD,
                    node.as_ptr(),
                    libc::AT_FDCWD,
                    name.as_ptr(),
                    libc::AT_SYMLINK_FOLLOW,
                )
            };
            if linked < 0 {
                return Err(io::Error::last_os_error());
            }
            file
        }
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) =>
        {
            let mut file = File::create_new(path)?;
            fill(&mut file).inspect_err(|_| drop(std::fs::remove_file(path)))?;
            file
        }
        Err(error) => return Err(error),
    };
    File::open(folder(path)).and_then(|folder| folder.sync_all())?;
    Ok(file)
}

/// True where the file system of `path` may have no room for the index that readers and a writer of SQLite's
/// log share: 32 KiB that are mapped. Where blocks are smaller than pages, a page of it that finds no room
/// then is a signal (SIGBUS) and no error.
pub(crate) fn is_nearly_full(path: &Path) -> bool {
    const ROOM_BYTES: u64 = 128 << 10;
    let Ok(folder) = c_string(folder(path)) else { return false };
    // SAFETY: plain data, for which zero is a valid value.
    let mut figures: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the text ends in a zero byte, and the structure is there to be filled.
    let known = unsafe { libc::statvfs(folder.as_ptr(), &raw mut figures) } == 0;
    known && figures.f_bavail.saturating_mul(figures.f_frsize) < ROOM_BYTES
}

/// Locks a file for this process, without waiting. The lock goes with the descriptor, also when the process
/// is killed.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open for the length of the call.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// True if this user may write the file and make others beside it.
pub(crate) fn may_write(path: &Path) -> bool {
    [path, folder(path)].iter().all(|path| {
        let Ok(name) = c_string(path) else { return false };
        // SAFETY: `name` is a C string that outlives the call.
        unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), libc::W_OK, libc::AT_EACCESS) == 0 }
    })
}
