//! The lab's folder in the user's cache: where it is, its lock, its room, and how it is emptied.

use crate::kernels::KernelError;
use std::env;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Marks a folder as a cache that backups may leave out (the Cache Directory Tagging Specification), and as
/// ours to empty.
const TAG: &str = "CACHEDIR.TAG";
const TAG_TEXT: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# The kernels of iopj's lab. `iopj lab \
                        clean` empties this folder.\n";
const LOCK: &str = "lock";
/// The folders of what can be fetched again.
const FETCHED: [&str; 2] = ["kernels", "apt"];

/// The folder in which the lab keeps what can be fetched or built again: `$XDG_CACHE_HOME/iopj/lab`, or
/// `~/.cache/iopj/lab` (the XDG Base Directory Specification).
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
}

/// The right to change the cache, held until it is dropped; the kernel frees it at any death (flock(2)).
#[derive(Debug)]
pub(crate) struct CacheLock {
    file: File,
}

impl Drop for CacheLock {
    fn drop(&mut self) {
        // Closing would not do: a child that another thread has just forked holds the file until it runs its
        // program.
        let _ = flock(&self.file, libc::LOCK_UN);
    }
}

impl Cache {
    /// Opens the user's cache and makes its folder where it is missing.
    ///
    /// # Errors
    /// [`KernelError::NoHome`] where the environment names no folder, and [`Cache::at`]'s.
    pub fn open() -> Result<Cache, KernelError> {
        let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        Cache::at(&base.ok_or(KernelError::NoHome)?.join("iopj/lab"))
    }

    /// Opens the cache in `folder` and makes it where it is missing.
    ///
    /// # Errors
    /// [`KernelError::NotWritable`], and [`KernelError::Foreign`] for a folder that holds files of others: it
    /// could not be emptied safely.
    pub fn at(folder: &Path) -> Result<Cache, KernelError> {
        let not_writable = |source| KernelError::NotWritable { path: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(not_writable)?;
        let tag = folder.join(TAG);
        if !tag.exists() {
            if fs::read_dir(folder).map_err(not_writable)?.next().is_some() {
                return Err(KernelError::Foreign(folder.to_owned()));
            }
            fs::write(&tag, TAG_TEXT).map_err(not_writable)?;
        }
        Ok(Cache { folder: folder.to_owned() })
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Removes the kernels and the package lists, and returns the bytes that they held. What guests use
    /// stays: their kernel is open in QEMU, and the folders of runs are their owners'.
    ///
    /// # Errors
    /// [`KernelError::Busy`] while another process fills the cache, [`KernelError::NotWritable`], and
    /// [`KernelError::Io`] for a file that cannot be removed.
    pub fn clear(&self) -> Result<u64, KernelError> {
        let file = self.lock_file()?;
        if !flock(&file, libc::LOCK_EX | libc::LOCK_NB).map_err(KernelError::io("lock", &self.folder))? {
            return Err(KernelError::Busy(self.folder.clone()));
        }
        let _lock = CacheLock { file };
        let mut freed_bytes = 0;
        for path in FETCHED.map(|name| self.folder.join(name)) {
            if path.exists() {
                freed_bytes += size_bytes(&path).map_err(KernelError::io("list", &path))?;
                remove(&path)?;
            }
        }
        Ok(freed_bytes)
    }

    /// Waits until no other process changes the cache, saying so by `note` where it must wait.
    pub(crate) fn lock(&self, note: &mut dyn FnMut(&str)) -> Result<CacheLock, KernelError> {
        let file = self.lock_file()?;
        let failed = || KernelError::io("lock", &self.folder);
        if !flock(&file, libc::LOCK_EX | libc::LOCK_NB).map_err(failed())? {
            note("waiting for another iopj that fills the cache");
            while !flock(&file, libc::LOCK_EX).map_err(failed())? {}
        }
        Ok(CacheLock { file })
    }

    fn lock_file(&self) -> Result<File, KernelError> {
        OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.folder.join(LOCK))
            .map_err(|source| KernelError::NotWritable { path: self.folder.clone(), source })
    }

    /// Refuses what would not fit: `what` needs `needed_bytes` at its largest.
    pub(crate) fn need_room(&self, what: &str, needed_bytes: u64) -> Result<(), KernelError> {
        let free_bytes = free_bytes(&self.folder).map_err(KernelError::io("measure", &self.folder))?;
        if free_bytes < needed_bytes {
            let (path, what) = (self.folder.clone(), what.to_owned());
            return Err(KernelError::NoRoom { path, what, needed_bytes, free_bytes });
        }
        Ok(())
    }
}

/// flock(2): true where the lock is held now, false where another holds it or a signal came.
fn flock(file: &File, operation: libc::c_int) -> io::Result<bool> {
    // SAFETY: flock takes a descriptor, which `file` keeps open during the call, and no memory.
    match unsafe { libc::flock(file.as_raw_fd(), operation) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(false)
            }
            error => Err(error),
        },
    }
}

/// What this user may still write to the file system of `path`, in bytes (statvfs(3)).
fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut figures = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero byte and `figures` has room for the structure that is written.
    if unsafe { libc::statvfs(path.as_ptr(), figures.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: statvfs succeeded, so it has filled the structure.
    let figures = unsafe { figures.assume_init() };
    Ok(figures.f_bavail.saturating_mul(figures.f_frsize))
}

/// The bytes of all files under `path`; symbolic links are not followed.
pub(crate) fn size_bytes(path: &Path) -> io::Result<u64> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    fs::read_dir(path)?.map(|entry| size_bytes(&entry?.path())).sum()
}

/// Removes a file or a folder with all that it holds; what is not there is removed already.
pub(crate) fn remove(path: &Path) -> Result<(), KernelError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(KernelError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_folder_of_others_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        fs::write(temporary.path().join("thesis.tex"), "mine").unwrap();
        let refused = Cache::at(temporary.path()).unwrap_err();
        assert!(matches!(refused, KernelError::Foreign(ref path) if path == temporary.path()), "{refused}");
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
        assert!(matches!(cache.clear(), Err(KernelError::Busy(_))));
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
