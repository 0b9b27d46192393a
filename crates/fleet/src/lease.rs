//! A lease on a drive: a file whose name one job at a time holds. Whether its holder still lives is known by
//! the kernel's lock on the same machine, and by the scheduler beyond it.

use crate::error::FleetError;
use crate::files;
use crate::owner::Owner;
use crate::process::boot_id;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

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
    lock: File,
    owner: Option<Owner>,
}

/// What came of asking for a drive.
#[derive(Debug)]
pub enum Taken {
    /// It is this process's.
    Held(Lease),
    /// Another job has it.
    By(Holder),
}

/// How often a lease that ends at this moment is asked for again.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

impl Lease {
    /// Takes a drive without waiting. `is_over` says of a holder on another machine whether it has ended;
    /// one of this machine is known by its lock, and one of an earlier boot of this host is over.
    ///
    /// A lease gets its name when it is written whole, by a link, which fails where there is one: that holds
    /// too where the machines do not see each other's locks, as on some NFS. With an `owner` of the folder it
    /// is that user's, who releases what a task that is root by `sudo` leaves.
    ///
    /// # Errors
    /// The folder of leases cannot be used.
    pub fn take(
        folder: &Path,
        drive: &str,
        holder: &Holder,
        owner: Option<&Owner>,
        is_over: &dyn Fn(&Holder) -> bool,
    ) -> Result<Taken, FleetError> {
        let _inside = Owner::enter_if(owner)?;
        files::make_folder(folder)?;
        let path = folder.join(files::name_of(drive));
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let lying = Lying::open(&path)?;
            if let Some(by) = lying.as_ref().and_then(|lying| lying.held_by(holder, is_over)) {
                return Ok(Taken::By(by));
            }
            let own = Own::write(&path, holder)?;
            let is_taken = match &lying {
                None => own.link(&path)?,
                Some(lying) => lying.end(&own, is_over, || fs::rename(&own.path, &path))?,
            };
            if is_taken {
                // A lock is of both descriptors, until the last is closed.
                let lock = own.file.try_clone().map_err(FleetError::io("keep", &path))?;
                return Ok(Taken::Held(Lease { path, lock, owner: owner.cloned() }));
            }
            last = lying.and_then(|lying| lying.holder);
            thread::sleep(PAUSE);
        }
        Ok(Taken::By(last.unwrap_or_else(|| unnamed(&path))))
    }

    /// Releases what ended tasks left: every lease whose holder `is_over`.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn release(folder: &Path, is_over: &dyn Fn(&Holder) -> bool) -> Result<(), FleetError> {
        let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
        let here = Holder::here("iopj fleet", None);
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let Some(lying) = Lying::open(&path)? else { continue };
            if lying.held_by(&here, is_over).is_some() {
                continue;
            }
            if is_own(&path) {
                fs::remove_file(&path).map_err(FleetError::io("remove", &path))?;
            } else {
                let own = Own::write(&path, &here)?;
                lying.end(&own, is_over, || fs::remove_file(&path))?;
            }
        }
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Ok(_inside) = Owner::enter_if(self.owner.as_ref()) else { return };
        // While it is locked: whoever opens the file now sees that its name is gone.
        if is_still(&self.path, &self.lock) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The same as `is_over`, which is asked once in `interval`; in between, no other holder has ended than those
/// of which it said so.
pub fn seldom<'a>(interval: Duration, is_over: &'a dyn Fn(&Holder) -> bool) -> impl Fn(&Holder) -> bool + 'a {
    let asked = Cell::new(None::<Instant>);
    let over = RefCell::new(Vec::<Holder>::new());
    move |holder| {
        if over.borrow().contains(holder) {
            return true;
        }
        let is_due = asked.get().is_none_or(|asked| asked.elapsed() >= interval);
        if is_due {
            asked.set(Some(Instant::now()));
        }
        let has_ended = is_due && is_over(holder);
        if has_ended {
            over.borrow_mut().push(holder.clone());
        }
        has_ended
    }
}

/// A lease that lies there.
struct Lying {
    file: File,
    is_locked: bool,
    /// Absent if something else stands in it.
    holder: Option<Holder>,
    path: PathBuf,
}

impl Lying {
    fn open(path: &Path) -> Result<Option<Lying>, FleetError> {
        // NFS locks only what is open for writing.
        let file = match files::open(path, OpenOptions::new().read(true).write(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FleetError::io("open", path)(error)),
        };
        let is_locked = match file.try_lock() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(error)) => return Err(FleetError::io("lock", path)(error)),
        };
        let holder = files::value_of(file.try_clone().map_err(FleetError::io("read", path))?, path).ok();
        Ok(Some(Lying { file, is_locked, holder, path: path.to_owned() }))
    }

    /// Who has it, unless that one has ended.
    fn held_by(&self, here: &Holder, is_over: &dyn Fn(&Holder) -> bool) -> Option<Holder> {
        match &self.holder {
            None => Some(unnamed(&self.path)),
            Some(holder) if self.is_locked => Some(holder.clone()),
            // A lock of this boot would be seen, and what ran in an earlier one has ended.
            Some(holder) if holder.boot == here.boot || holder.host == here.host || is_over(holder) => None,
            Some(holder) => Some(holder.clone()),
        }
    }

    /// Ends this lease by `act`, if it is still what lies there. Of those that find at the same moment that
    /// its holder has ended, one has the right to do that; false if it is another one.
    fn end(
        &self,
        own: &Own,
        is_over: &dyn Fn(&Holder) -> bool,
        act: impl FnOnce() -> io::Result<()>,
    ) -> Result<bool, FleetError> {
        let right = own_name(&self.path, "");
        if !own.link(&right)? {
            // Whoever had the right may have died.
            if Lying::open(&right)?.is_some_and(|of| of.held_by(&own.holder, is_over).is_none()) {
                let _ = fs::remove_file(&right);
            }
            return Ok(false);
        }
        let is_same = is_still(&self.path, &self.file);
        let acted = if is_same { act() } else { Ok(()) };
        fs::remove_file(&right).and(acted).map_err(FleetError::io("replace", &self.path))?;
        Ok(is_same)
    }
}

/// A lease under a name of this process's own, locked, until it has the name of a drive.
struct Own {
    path: PathBuf,
    file: File,
    holder: Holder,
}

impl Own {
    fn write(lease: &Path, holder: &Holder) -> Result<Own, FleetError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = own_name(lease, &format!("{}-{}-{number}", holder.boot, std::process::id()));
        let text = serde_json::to_vec(holder);
        let text = text.map_err(|source| FleetError::Form { path: path.clone(), source })?;
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let mut file = file.map_err(FleetError::io("write", &path))?;
        let written = file.lock().and_then(|()| file.write_all(&text)).and_then(|()| file.sync_all());
        let own = Own { path, file, holder: holder.clone() };
        written.map(|()| own).map_err(FleetError::io("write", lease))
    }

    /// Gives it this name too; false if there is one of that name.
    fn link(&self, to: &Path) -> Result<bool, FleetError> {
        match fs::hard_link(&self.path, to) {
            Ok(()) => Ok(true),
            // NFS may say so of a link that it made when it was asked twice.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(is_still(to, &self.file)),
            Err(error) => Err(FleetError::io("make", to)(error)),
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A name beside a lease, which no lease has.
fn own_name(lease: &Path, rest: &str) -> PathBuf {
    let mut name = lease.as_os_str().to_owned();
    name.push(format!("~{rest}"));
    name.into()
}

fn is_own(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains('~'))
}

fn unnamed(path: &Path) -> Holder {
    let host = format!("a job that `{}` does not name", path.display());
    Holder { host, task: None, boot: String::new() }
}

/// Whether the name still leads to the open file.
fn is_still(path: &Path, file: &File) -> bool {
    let id = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
    // Opened, for NFS may remember what a name led to until somebody opens it.
    let named = files::open(path, OpenOptions::new().read(true)).and_then(|named| named.metadata());
    matches!((&named, &file.metadata()), (Ok(named), Ok(open)) if id(named) == id(open))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32};

    fn holder(host: &str, boot: &str) -> Holder {
        Holder { host: host.to_owned(), task: Some("7_1".to_owned()), boot: boot.to_owned() }
    }

    fn take(folder: &Path, drive: &str, asks: &Holder, is_over: bool) -> Taken {
        Lease::take(folder, drive, asks, None, &|_| is_over).unwrap()
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

    /// Another node, whose locks are not seen, took the lease of a holder that had not written it yet.
    #[test]
    fn a_lease_that_nobody_sees_locked_is_whole_from_its_first_moment() {
        let folder = tempfile::tempdir().unwrap();
        let (path, is_done) = (folder.path().join("S1"), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..300 {
                    drop(take(folder.path(), "S1", &holder("n1", "x"), false));
                }
                is_done.store(true, Ordering::SeqCst);
            });
            while !is_done.load(Ordering::SeqCst) {
                let Ok(text) = fs::read(&path) else { continue };
                let seen: Holder = serde_json::from_slice(&text).unwrap();
                assert_eq!(seen.host, "n1");
            }
        });
    }

    #[test]
    fn what_is_no_lease_is_held_and_a_taker_that_died_holds_nobody_up() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("S1"), "").unwrap();
        let Taken::By(by) = take(folder.path(), "S1", &holder("n2", "here"), true) else { panic!() };
        assert!(by.host.contains("S1` does not name"), "{by:?}");
        // It died between its right to replace the lease and the lease.
        let dead = serde_json::to_vec(&holder("n1", "elsewhere")).unwrap();
        for name in ["S2", "S2~", "S2~elsewhere-7-0"] {
            fs::write(at(name), &dead).unwrap();
        }
        assert!(matches!(take(folder.path(), "S2", &holder("n2", "here"), false), Taken::By(_)));
        let held = take(folder.path(), "S2", &holder("n2", "here"), true);
        assert!(matches!(held, Taken::Held(_)));
        Lease::release(folder.path(), &|_| true).unwrap();
        assert!(at("S2").exists() && !at("S2~elsewhere-7-0").exists());
        drop(held);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// Slurm was asked ten times a second by every task that waited.
    #[test]
    fn whether_a_holder_has_ended_is_asked_seldom() {
        let asked = AtomicU32::new(0);
        let is_over = |_: &Holder| asked.fetch_add(1, Ordering::SeqCst) > 0;
        let (rarely, always) = (seldom(Duration::MAX, &is_over), seldom(Duration::ZERO, &is_over));
        let (one, other) = (holder("n1", "x"), holder("n2", "y"));
        assert!([(); 5].iter().all(|()| !rarely(&one)));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        assert!(always(&one) && always(&other));
        assert_eq!(asked.load(Ordering::SeqCst), 3);
        assert!(always(&one), "it stays over");
        assert_eq!(asked.load(Ordering::SeqCst), 3);
    }

    /// It took the lease after a pause, or not at all, for the second question came too soon.
    #[test]
    fn a_dead_holder_is_over_in_each_attempt() {
        let folder = tempfile::tempdir().unwrap();
        let dead = serde_json::to_vec(&holder("n1", "elsewhere")).unwrap();
        for name in ["S1", "S1~"] {
            fs::write(folder.path().join(name), &dead).unwrap();
        }
        let is_over = seldom(Duration::MAX, &|_: &Holder| true);
        let taken = Lease::take(folder.path(), "S1", &holder("n2", "here"), None, &is_over).unwrap();
        assert!(matches!(taken, Taken::Held(_)));
    }

    /// Each asks as a machine of its own would.
    #[test]
    fn of_many_machines_that_ask_at_once_one_takes_over_what_a_dead_one_left() {
        for _ in 0..50 {
            let folder = tempfile::tempdir().unwrap();
            let dead = serde_json::to_vec(&holder("n0", "b0")).unwrap();
            fs::write(folder.path().join("S1"), dead).unwrap();
            let held: Vec<Lease> = std::thread::scope(|scope| {
                let ask = |number: u32| {
                    let (folder, boot) = (folder.path(), format!("b{number}"));
                    scope.spawn(move || {
                        let asks = holder(&format!("n{number}"), &boot);
                        match Lease::take(folder, "S1", &asks, None, &|of| of.host == "n0").unwrap() {
                            Taken::Held(lease) => Some(lease),
                            Taken::By(_) => None,
                        }
                    })
                };
                let threads: Vec<_> = (1..9).map(ask).collect();
                threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(held.len(), 1);
        }
    }

    /// `status` could not open the lease of a task that `sudo` started, and failed.
    #[test]
    fn the_lease_of_a_task_that_is_root_is_of_the_user_whose_folder_it_is() {
        if !files::is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(folder.path(), Some(65_532), Some(65_532)).unwrap();
        let owner = Owner::called_by(Some([65_532, 65_532]), folder.path()).unwrap();
        let held = Lease::take(folder.path(), "S1", &holder("n1", "x"), owner.as_ref(), &|_| false).unwrap();
        assert!(matches!(held, Taken::Held(_)));
        let lease = fs::metadata(folder.path().join("S1")).unwrap();
        assert_eq!((lease.uid(), lease.gid()), (65_532, 65_532));
        drop(held);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
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
