//! Files that only root may shape: the folder of journals, locks on files, and checks of owner and mode.

use super::SettingsError;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::ops::{Deref, DerefMut};
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

/// Opens a file in the folder for reading and writing without following a symbolic link; `O_CLOEXEC` keeps
/// the locks of the run from the programs that it starts.
pub(super) fn open_private(file: &Path, how: &mut OpenOptions) -> io::Result<File> {
    how.read(true).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC).open(file)
}

/// Writes a file of sysfs, never through a symbolic link in the file's place and never making a file.
pub(super) fn write(file: &Path, value: &str) -> io::Result<()> {
    // One write call: sysfs takes each write as a whole value.
    let mut open = OpenOptions::new().write(true).truncate(true).custom_flags(libc::O_NOFOLLOW).open(file)?;
    open.write_all(value.as_bytes())
}

/// A file with its exclusive lock (flock(2)). Dropped, it is unlocked before it is closed: a process that is
/// being started holds the file open as well until it has become its program, and a lock goes with the last
/// of those who have it open.
#[derive(Debug)]
pub(super) struct Locked(File);

impl Locked {
    /// Takes the lock of an open file without waiting; `None` where another holds it.
    pub(super) fn take(file: File) -> io::Result<Option<Locked>> {
        // SAFETY: flock takes a descriptor, which `file` keeps open during the call, and no memory.
        match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
            0 => Ok(Some(Locked(file))),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                error => Err(error),
            },
        }
    }
}

impl Deref for Locked {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: as in `take`.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that was being started kept the lock of a run that had ended.
    #[test]
    fn a_lock_ends_with_its_owner_whoever_has_the_file_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let open = || open_private(&path, OpenOptions::new().create(true)).unwrap();
        let held = Locked::take(open()).unwrap().unwrap();
        let inherited = held.try_clone().unwrap();
        assert!(Locked::take(open()).unwrap().is_none());
        drop(held);
        assert!(Locked::take(open()).unwrap().is_some());
        drop(inherited);
    }
}
