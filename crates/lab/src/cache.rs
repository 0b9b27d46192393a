//! The lab's folder in the user's cache: where it is, its lock, its room, and how it is emptied.

use rustix::process::geteuid;
use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Marks a folder as a cache that backups may leave out (the Cache Directory Tagging Specification), and as
/// ours to empty.
const TAG: &str = "CACHEDIR.TAG";
const TAG_TEXT: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# The kernels of iopj's lab. `iopj lab \
                        clean` empties this folder.\n";
const LOCK: &str = "lock";
/// The folders whose content can be fetched again.
const FETCHED: [&str; 2] = ["kernels", "apt"];

/// The folder in which the lab keeps what can be fetched or built again: `$XDG_CACHE_HOME/iopj/lab`, or
/// `~/.cache/iopj/lab` (the XDG Base Directory Specification).
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
}

/// Why the cache cannot be used, each reason with its remedy.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum CacheError {
    /// The user's cache folder is not known.
    #[error("no cache folder is known: set HOME, or XDG_CACHE_HOME to an absolute path")]
    NoHome,
    /// The cache folder cannot be made or written.
    #[error(
        "the cache folder `{path}` cannot be written: {source}; make it writable, or set XDG_CACHE_HOME to \
         another"
    )]
    NotWritable { path: PathBuf, source: io::Error },
    /// The cache folder holds files of others.
    #[error(
        "`{0}` holds files that the lab did not make: move them away, or set XDG_CACHE_HOME to another \
         folder"
    )]
    Foreign(PathBuf),
    /// Others can change what is in the cache folder.
    #[error(
        "the cache folder `{0}` is another user's, or others can write in it: set XDG_CACHE_HOME to a folder \
         of your own"
    )]
    NotOwn(PathBuf),
    /// Another process is filling the cache.
    #[error("another iopj is filling the cache `{0}`: wait for it to finish, then try again")]
    Busy(PathBuf),
    /// The file system is too full.
    #[error(
        "`{path}` has room for {} MB, {what} needs {} MB: free some, or set XDG_CACHE_HOME to another file \
         system",
        .free_bytes / 1_000_000, .needed_bytes.div_ceil(1_000_000)
    )]
    NoRoom {
        path: PathBuf,
        what: String,
        /// What it needs at its largest.
        needed_bytes: u64,
        /// What is free to this user.
        free_bytes: u64,
    },
    /// A file could not be used.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// What was tried, a verb.
        action: &'static str,
        path: PathBuf,
        /// The system's error, which names the remedy.
        source: io::Error,
    },
}

impl CacheError {
    /// For `map_err`: what was tried on which file.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CacheError {
        move |source| CacheError::Io { action, path: path.to_owned(), source }
    }
}

/// The right to change the cache, held until it is dropped; the kernel releases it whenever the process dies.
#[derive(Debug)]
pub(crate) struct CacheLock(File);

impl Drop for CacheLock {
    fn drop(&mut self) {
        // Closing is not enough: a child that another thread has just forked holds the file until its exec.
        let _ = self.0.unlock();
    }
}

impl Cache {
    /// Opens the user's cache and makes its folder if it is missing.
    ///
    /// # Errors
    /// [`CacheError::NoHome`] if the environment names no folder, and [`Cache::at`]'s.
    pub fn open() -> Result<Cache, CacheError> {
        let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        Cache::at(&base.ok_or(CacheError::NoHome)?.join("iopj/lab"))
    }

    /// Opens the cache in `folder` and makes it if it is missing.
    ///
    /// # Errors
    /// [`CacheError::NotWritable`], [`CacheError::NotOwn`] for a folder in which others could have put what
    /// is removed, ended or booted here, and [`CacheError::Foreign`] for one that holds files of others: it
    /// could not be emptied safely.
    pub fn at(folder: &Path) -> Result<Cache, CacheError> {
        let not_writable = |source| CacheError::NotWritable { path: folder.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(not_writable)?;
        let found = fs::metadata(folder).map_err(not_writable)?;
        if found.uid() != geteuid().as_raw() || found.mode() & 0o002 != 0 {
            return Err(CacheError::NotOwn(folder.to_owned()));
        }
        let tag = folder.join(TAG);
        if !tag.exists() {
            if fs::read_dir(folder).map_err(not_writable)?.next().is_some() {
                return Err(CacheError::Foreign(folder.to_owned()));
            }
            fs::write(&tag, TAG_TEXT).map_err(not_writable)?;
        }
        Ok(Cache { folder: folder.to_owned() })
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Removes the kernels and the package lists, and returns the bytes that they held. Running guests are
    /// not affected: QEMU has their kernel open, and the folders of runs belong to their owners.
    ///
    /// # Errors
    /// [`CacheError::Busy`] while another process fills the cache, [`CacheError::NotWritable`], and
    /// [`CacheError::Io`] for a file that cannot be removed.
    pub fn clear(&self) -> Result<u64, CacheError> {
        let Some(_lock) = self.try_lock()? else { return Err(CacheError::Busy(self.folder.clone())) };
        let mut freed_bytes = 0;
        for path in FETCHED.map(|name| self.folder.join(name)) {
            if path.exists() {
                freed_bytes += size_bytes(&path).map_err(CacheError::io("list", &path))?;
                remove(&path)?;
            }
        }
        Ok(freed_bytes)
    }

    /// Waits until no other process changes the cache, and says so to `note` if it must wait.
    pub(crate) fn lock(&self, note: &mut dyn FnMut(&str)) -> Result<CacheLock, CacheError> {
        if let Some(lock) = self.try_lock()? {
            return Ok(lock);
        }
        note("waiting for another iopj that fills the cache");
        let file = self.lock_file()?;
        loop {
            match file.lock() {
                Ok(()) => return Ok(CacheLock(file)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(CacheError::io("lock", &self.folder)(error)),
            }
        }
    }

    /// The lock, unless another process holds it.
    fn try_lock(&self) -> Result<Option<CacheLock>, CacheError> {
        let file = self.lock_file()?;
        match file.try_lock() {
            Ok(()) => Ok(Some(CacheLock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(CacheError::io("lock", &self.folder)(error)),
        }
    }

    fn lock_file(&self) -> Result<File, CacheError> {
        OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.folder.join(LOCK))
            .map_err(|source| CacheError::NotWritable { path: self.folder.clone(), source })
    }

    /// Refuses `what` if it does not fit: it needs `needed_bytes` at its largest.
    pub(crate) fn need_room(&self, what: &str, needed_bytes: u64) -> Result<(), CacheError> {
        let free = rustix::fs::statvfs(&self.folder)
            .map_err(|error| CacheError::io("measure", &self.folder)(error.into()))?;
        // What this user may still write.
        let free_bytes = free.f_bavail.saturating_mul(free.f_frsize);
        if free_bytes < needed_bytes {
            let (path, what) = (self.folder.clone(), what.to_owned());
            return Err(CacheError::NoRoom { path, what, needed_bytes, free_bytes });
        }
        Ok(())
    }
}

/// The bytes of all files under `path`; symbolic links are not followed.
pub(crate) fn size_bytes(path: &Path) -> io::Result<u64> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    fs::read_dir(path)?.map(|entry| size_bytes(&entry?.path())).sum()
}

/// Removes a file, or a folder with its content; a missing one counts as removed.
pub(crate) fn remove(path: &Path) -> Result<(), CacheError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(CacheError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn clear_removes_what_the_lab_made_and_says_how_much() {
        let temporary = tempfile::tempdir().unwrap();
        let cache = Cache::at(&temporary.path().join("lab")).unwrap();
        fs::create_dir_all(cache.folder().join("kernels/x")).unwrap();
        fs::write(cache.folder().join("kernels/x/vmlinux"), [0; 700]).unwrap();
        fs::create_dir_all(cache.folder().join("apt/lists")).unwrap();
        fs::write(cache.folder().join("apt/lists/x"), [0; 30]).unwrap();
        fs::create_dir_all(cache.folder().join("runs/7-1")).unwrap();
        fs::write(cache.folder().join("runs/7-1/initramfs"), [0; 5]).unwrap();
        assert_eq!(cache.clear().unwrap(), 730);
        assert!(!cache.folder().join("kernels").exists());
        assert!(cache.folder().join("runs/7-1/initramfs").exists(), "a living run's");
        assert_eq!(cache.clear().unwrap(), 0);
        assert_eq!(Cache::at(cache.folder()).unwrap().folder(), cache.folder());
    }

    /// Root emptied the folder that a user's link led to, and killed the process that a user's file named.
    #[test]
    fn a_cache_that_others_can_fill_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("lab");
        let refused = || matches!(Cache::at(&folder), Err(CacheError::NotOwn(path)) if path == folder);
        assert!(!refused());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o757)).unwrap();
        assert!(refused());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o775)).unwrap();
        assert!(!refused());
        if geteuid().is_root() {
            std::os::unix::fs::chown(&folder, Some(65534), None).unwrap();
            assert!(refused());
        }
    }

    #[test]
    fn a_folder_of_others_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        fs::write(temporary.path().join("thesis.tex"), "mine").unwrap();
        let refused = Cache::at(temporary.path()).unwrap_err();
        assert!(matches!(refused, CacheError::Foreign(ref path) if path == temporary.path()), "{refused}");
        assert_eq!(fs::read_to_string(temporary.path().join("thesis.tex")).unwrap(), "mine");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named_with_the_remedy() {
        let temporary = tempfile::tempdir().unwrap();
        let file = temporary.path().join("file");
        fs::write(&file, "").unwrap();
        let message = Cache::at(&file.join("lab")).unwrap_err().to_string();
        assert!(message.starts_with(&format!("the cache folder `{}/lab` cannot be written", file.display())));
        assert!(message.ends_with("set XDG_CACHE_HOME to another"), "{message}");
    }

    #[test]
    fn a_cache_that_is_being_filled_is_not_cleared() {
        let temporary = tempfile::tempdir().unwrap();
        let cache = Cache::at(temporary.path()).unwrap();
        fs::create_dir(cache.folder().join("kernels")).unwrap();
        fs::write(cache.folder().join("kernels/partial"), "half").unwrap();
        let mut notes = 0;
        let lock = cache.lock(&mut |_| notes += 1).unwrap();
        assert!(matches!(cache.clear(), Err(CacheError::Busy(_))));
        drop(lock);
        assert_eq!((cache.clear().unwrap(), notes), (4, 0));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_both_figures() {
        let temporary = tempfile::tempdir().unwrap();
        let cache = Cache::at(temporary.path()).unwrap();
        cache.need_room("a byte", 1).unwrap();
        let message = cache.need_room("everything", u64::MAX).unwrap_err().to_string();
        assert!(message.contains("everything needs 18446744073710 MB"), "{message}");
    }
}
