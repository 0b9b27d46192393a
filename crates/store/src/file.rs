//! The store's file as the operating system sees it: made whole, locked, writable, with room.

use rustix::fs::{Access, AtFlags, CWD, OFlags, accessat, linkat, statvfs};
use rustix::io::Errno;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The folder that holds `path`.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Where SQLite keeps its log and its index of a store, while somebody uses it (sqlite.org/tempfiles.html).
pub(crate) fn beside(path: &Path) -> [PathBuf; 3] {
    ["-journal", "-wal", "-shm"].map(|suffix| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    })
}

/// Makes `path` with these contents, locked and synced. It gets its name when it is whole (open(2),
/// `O_TMPFILE`); if the file system cannot do that, a crash in between leaves a partial file. Never replaces
/// an existing file.
pub(crate) fn create_whole(path: &Path, contents: &[u8]) -> io::Result<File> {
    let fill = |file: &mut File| -> io::Result<()> {
        file.try_lock()?;
        file.write_all(contents)?;
        file.sync_all()
    };
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o666).custom_flags(OFlags::TMPFILE.bits() as i32);
    let file = match options.open(folder(path)) {
        Ok(mut file) => {
            fill(&mut file)?;
            let node = format!("/proc/self/fd/{}", file.as_raw_fd());
            linkat(CWD, node, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
            file
        }
        Err(error)
            if matches!(
                Errno::from_io_error(&error),
                Some(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL)
            ) =>
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

/// True if the file system of `path` may have no room for the index that readers and a writer of SQLite's
/// log share: 32 KiB, mapped. Where blocks are smaller than pages, a page of it without room raises a signal
/// (SIGBUS) instead of an error.
pub(crate) fn is_nearly_full(path: &Path) -> bool {
    const ROOM_BYTES: u64 = 128 << 10;
    statvfs(folder(path)).is_ok_and(|free| free.f_bavail.saturating_mul(free.f_frsize) < ROOM_BYTES)
}

/// True if a file is long, and its disk holds a thousandth of it at most: no compression does that to a
/// store, and whoever copied it would fill a disk.
pub(crate) fn is_hollow(path: &Path) -> bool {
    const LONG: u64 = 64 << 20;
    let is = |found: Metadata| found.len() > LONG && found.blocks() * 512 < found.len() / 1000;
    path.metadata().is_ok_and(is)
}

/// True if this user may write the file and make others beside it.
pub(crate) fn may_write(path: &Path) -> bool {
    [path, folder(path)].iter().all(|path| accessat(CWD, *path, Access::WRITE_OK, AtFlags::EACCESS).is_ok())
}
