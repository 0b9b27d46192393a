//! Files that only root may shape: the folder of journals, locks on files, and checks of owner and mode.

use super::SettingsError;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Makes the folder of journals and locks where it is missing, for this user alone (0700).
///
/// # Errors
/// The system's error, or [`SettingsError::UnsafeFolder`] as for [`check_folder`].
pub(super) fn make_folder(folder: &Path) -> Result<(), SettingsError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(SettingsError::io("make the folder", folder))?;
    check_folder(folder)
}

/// Refuses a folder that another user could have filled: a symbolic link, another owner, writable by others.
pub(super) fn check_folder(folder: &Path) -> Result<(), SettingsError> {
    let metadata = folder.symlink_metadata().map_err(SettingsError::io("look at", folder))?;
    let reason = if metadata.is_dir() { distrust(&metadata) } else { Some("is no folder") };
    match reason {
        None => Ok(()),
        // Root's own folder is as it should be: it is this user who may not use it.
        Some(_) if metadata.uid() == 0 && effective_uid() != 0 => {
            Err(SettingsError::io("use", folder)(io::Error::from_raw_os_error(libc::EACCES)))
        }
        Some(reason) => Err(SettingsError::UnsafeFolder { folder: folder.to_owned(), reason }),
    }
}

/// Why a file or folder of this owner and mode is not to be trusted; `None` where it is.
pub(super) fn distrust(metadata: &Metadata) -> Option<&'static str> {
    if metadata.uid() != effective_uid() {
        return Some("belongs to another user");
    }
    (metadata.mode() & 0o022 != 0).then_some("can be written by other users")
}

/// Opens a file in the folder for reading and writing without following a symbolic link; `O_CLOEXEC` keeps the
/// locks of the run from the programs that it starts.
pub(super) fn open_private(file: &Path, how: &mut OpenOptions) -> io::Result<File> {
    how.read(true).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC).open(file)
}

/// Takes the exclusive lock of an open file (flock(2)) without waiting; false where another holds it.
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: flock takes a descriptor, which `file` keeps open during the call, and no memory.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            error => Err(error),
        },
    }
}

/// Syncs a folder, so that a name made or removed in it survives.
pub(super) fn sync_folder(folder: &Path) -> Result<(), SettingsError> {
    File::open(folder).and_then(|open| open.sync_all()).map_err(SettingsError::io("sync", folder))
}

/// The user whose rights the process has.
pub(super) fn effective_uid() -> u32 {
    // SAFETY: geteuid takes nothing, touches no memory of ours and cannot fail.
    unsafe { libc::geteuid() }
}
