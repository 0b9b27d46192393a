//! A lease on a drive: a file that one job at a time holds, by the kernel's lock where jobs share a machine
//! and by what stands in it where they share only a folder.

use crate::error::FleetError;
use crate::files;
use crate::job::boot_id;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Who holds a drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The host, as the campaign names it.
    pub host: String,
    /// The scheduler's name of the task, if it has one.
    pub task: Option<String>,
    /// The boot in which it runs.
    pub boot: String,
}

impl Holder {
    /// A job of this machine.
    pub fn here(host: &str, task: Option<&str>) -> Holder {
        Holder { host: host.to_owned(), task: task.map(str::to_owned), boot: boot_id() }
    }
}

/// A drive that this process holds until it is dropped.
#[derive(Debug)]
pub struct Lease {
    path: PathBuf,
    _lock: File,
}

/// What came of asking for a drive.
#[derive(Debug)]
pub enum Taken {
    /// It is this process's.
    Held(Lease),
    /// Another job has it.
    By(Holder),
}

impl Lease {
    /// Takes a drive without waiting. `is_over` says of a holder on another machine whether it has ended;
    /// one of this machine is known by its lock, and one of an earlier boot of this host is over.
    ///
    /// # Errors
    /// The folder of leases cannot be used.
    pub fn take(
        folder: &Path,
        drive: &str,
        holder: &Holder,
        is_over: &dyn Fn(&Holder) -> bool,
    ) -> Result<Taken, FleetError> {
        files::make_folder(folder)?;
        let path = folder.join(files::name_of(drive));
        loop {
            // `create_new` is O_EXCL: of two jobs that find no file, one makes it.
            let made = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
            let opened = made.or_else(|_| OpenOptions::new().read(true).write(true).open(&path));
            let mut file = match opened {
                Ok(file) => file,
                // It was released between the two.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(FleetError::io("open", &path)(error)),
            };
            let is_locked = match file.try_lock() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) => false,
                Err(TryLockError::Error(error)) => return Err(FleetError::io("lock", &path)(error)),
            };
            let mut text = String::new();
            file.read_to_string(&mut text).map_err(FleetError::io("read", &path))?;
            let before: Option<Holder> = serde_json::from_str(&text).ok();
            if !is_locked {
                let unnamed = Holder { host: "another job".to_owned(), task: None, boot: String::new() };
                return Ok(Taken::By(before.unwrap_or(unnamed)));
            }
            let is_elsewhere = |before: &Holder| before.boot != holder.boot && before.host != holder.host;
            if let Some(before) = before.filter(|before| is_elsewhere(before) && !is_over(before)) {
                return Ok(Taken::By(before));
            }
            if !is_still(&path, &file) {
                continue;
            }
            let text = serde_json::to_vec(holder)
                .map_err(|source| FleetError::Form { path: path.clone(), source })?;
            file.set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| file.write_all(&text))
                .and_then(|()| file.sync_all())
                .map_err(FleetError::io("write", &path))?;
            return Ok(Taken::Held(Lease { path, _lock: file }));
        }
    }

    /// Releases what ended tasks left: every lease whose holder `is_over`.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn release(folder: &Path, is_over: &dyn Fn(&Holder) -> bool) -> Result<(), FleetError> {
        let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let Ok(file) = File::open(&path) else { continue };
            let holder: Option<Holder> = files::read_json(&path).unwrap_or_default();
            let is_free = file.try_lock().is_ok();
            if is_free && holder.is_none_or(|holder| is_over(&holder)) && is_still(&path, &file) {
                fs::remove_file(&path).map_err(FleetError::io("remove", &path))?;
            }
        }
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // While it is locked: whoever opens the file now sees that its name is gone.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether the name still leads to the open file.
fn is_still(path: &Path, file: &File) -> bool {
    let id = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
    let (named, open) = (fs::metadata(path), file.metadata());
    matches!((&named, &open), (Ok(named), Ok(open)) if id(named) == id(open))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn holder(host: &str, boot: &str) -> Holder {
        Holder { host: host.to_owned(), task: Some("7_1".to_owned()), boot: boot.to_owned() }
    }

    fn take(folder: &Path, drive: &str, asks: &Holder, is_over: bool) -> Taken {
        Lease::take(folder, drive, asks, &|_| is_over).unwrap()
    }

    #[test]
    fn a_drive_has_one_holder_and_a_prefix_of_its_serial_is_another_drive() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (holder("n1", "x"), holder("n2", "x"));
        let held = take(folder.path(), "S 1/2", &a, true);
        assert!(matches!(held, Taken::Held(_)));
        assert!(matches!(take(folder.path(), "S 1/2", &b, true), Taken::By(by) if by == a));
        assert!(matches!(take(folder.path(), "S 1/", &b, true), Taken::Held(_)));
        drop(held);
        assert!(matches!(take(folder.path(), "S 1/2", &b, true), Taken::Held(_)));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a lease ends with its holder");
    }

    /// Such a job leaves its file, and no lock.
    #[test]
    fn the_lease_of_a_killed_job_is_taken_over_once_its_end_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("S1");
        let leave = |left: &Holder| fs::write(&path, serde_json::to_vec(left).unwrap()).unwrap();
        leave(&holder("n1", "elsewhere"));
        let asks = holder("n2", "here");
        assert!(matches!(take(folder.path(), "S1", &asks, false), Taken::By(by) if by.host == "n1"));
        assert!(matches!(take(folder.path(), "S1", &asks, true), Taken::Held(_)));
        leave(&holder("n1", "here"));
        assert!(matches!(take(folder.path(), "S1", &asks, false), Taken::Held(_)), "its lock is free");
        leave(&holder("n1", "elsewhere"));
        Lease::release(folder.path(), &|_| false).unwrap();
        assert!(path.exists());
        Lease::release(folder.path(), &|_| true).unwrap();
        assert!(!path.exists());
    }

    /// Kubernetes gives no word of such a holder, so the drive was taken for ever.
    #[test]
    fn the_lease_of_a_host_that_restarted_ends() {
        let folder = tempfile::tempdir().unwrap();
        let before = Holder { task: None, ..holder("n1", "before") };
        fs::write(folder.path().join("S1"), serde_json::to_vec(&before).unwrap()).unwrap();
        let other = Holder { task: None, ..holder("n2", "now") };
        assert!(matches!(take(folder.path(), "S1", &other, false), Taken::By(by) if by == before));
        let now = Holder { boot: "now".to_owned(), ..before };
        assert!(matches!(take(folder.path(), "S1", &now, false), Taken::Held(_)));
    }

    #[test]
    fn of_many_that_ask_at_once_never_two_hold_a_drive() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, most, had) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (folder, inside, most, had) = (folder.path(), &inside, &most, &had);
                scope.spawn(move || {
                    let asks = holder(&format!("n{number}"), "x");
                    while had.load(Ordering::SeqCst) < 200 {
                        if let Taken::Held(lease) = take(folder, "S1", &asks, true) {
                            most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            had.fetch_add(1, Ordering::SeqCst);
                            std::thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                            drop(lease);
                        }
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 1);
    }
}
