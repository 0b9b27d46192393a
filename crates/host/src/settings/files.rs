//! Files that only root may shape: the folder of journals, locks on files, and checks of owner and mode.

use super::error::SettingsError;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Makes the folder of journals and locks if it is missing, for this user alone (0700).
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
    let reason = if metadata.is_dir() { distrust(&metadata) } else { Some("is not a folder") };
    match reason {
        None => Ok(()),
        // Root's own folder is as it should be: it is this user who may not use it.
        Some(_) if metadata.uid() == 0 && !is_root() => {
            Err(SettingsError::io("use", folder)(Errno::ACCESS.into()))
        }
        Some(reason) => Err(SettingsError::UnsafeFolder { folder: folder.to_owned(), reason }),
    }
}

/// Why a file or folder of this owner and mode is not trusted; `None` if it is.
pub(super) fn distrust(metadata: &Metadata) -> Option<&'static str> {
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Some("belongs to another user");
    }
    (metadata.mode() & 0o022 != 0).then_some("can be written by other users")
}

/// True if the process has the rights of root.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Opens a file in the folder for reading and writing without following a symbolic link. The standard library
/// opens with `O_CLOEXEC`, which keeps the locks of the run from the programs that it starts.
pub(super) fn open_private(file: &Path, how: &mut OpenOptions) -> io::Result<File> {
    how.read(true).write(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(file)
}

/// A file with its exclusive lock (flock(2)). It is unlocked before it is closed: a child that has not yet
/// become its program has the file open too, and closing alone would leave the lock with it.
#[derive(Debug)]
pub(super) struct Locked(File);

impl Locked {
    /// Takes the lock of an open file without waiting; `None` if another holds it.
    pub(super) fn take(file: File) -> io::Result<Option<Locked>> {
        match file.try_lock() {
            Ok(()) => Ok(Some(Locked(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
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
        // If it fails, closing the file frees the lock.
        let _ = self.0.unlock();
    }
}

/// Syncs a folder: a name made or removed in it survives.
pub(super) fn sync_folder(folder: &Path) -> Result<(), SettingsError> {
    File::open(folder).and_then(|open| open.sync_all()).map_err(SettingsError::io("sync", folder))
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
