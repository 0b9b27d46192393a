//! The locks of a run: one per device, by flock(2) on a file in the folder of journals, and one that runs
//! without root can see.

use super::allowed::is_device_name;
use super::error::SettingsError;
use super::files::{self, Locked};
use super::host::Host;
use crate::sysfs;
use iopj_engine::target::LoopBacking;
use rustix::fs::{major, minor};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// The lock for what all CPUs share; the colon keeps it apart from every device's name.
pub(super) const CPU_LOCK: &str = "host:cpu";

/// The locks that a run holds on its devices, from [`Host::lock`] until they are dropped;
/// the kernel frees them at any death.
#[derive(Debug)]
pub struct DeviceLocks {
    held: BTreeMap<String, Locked>,
    /// Locks that runs of every user can see.
    claims: Vec<Locked>,
    effective: bool,
}

impl DeviceLocks {
    /// No lock at all, for a run that is only planned: it may change nothing.
    pub fn none() -> Arc<DeviceLocks> {
        Arc::new(DeviceLocks::ineffective())
    }

    fn ineffective() -> DeviceLocks {
        DeviceLocks { held: BTreeMap::new(), claims: Vec::new(), effective: false }
    }

    /// False if the process may not make the lock files: then nothing can be changed.
    pub fn is_effective(&self) -> bool {
        self.effective
    }

    pub(super) fn holds(&self, device: &str) -> bool {
        self.held.contains_key(device)
    }

    /// Takes all locks or none, without waiting.
    fn take(folder: &Path, names: &BTreeSet<&String>) -> Result<DeviceLocks, SettingsError> {
        match files::make_folder(folder) {
            Err(SettingsError::Io { source, .. })
                if matches!(
                    source.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                return Ok(DeviceLocks::ineffective());
            }
            made => made?,
        }
        let mut held = BTreeMap::new();
        for name in names {
            held.insert((*name).clone(), take(folder, name)?);
        }
        Ok(DeviceLocks { held, claims: Vec::new(), effective: true })
    }
}

impl Host {
    /// Takes the lock of each of these whole block devices (named as in `/sys/block`), without waiting.
    ///
    /// If the process may not make `/run/iopj` (no root), the locks still keep other runs off, but allow no
    /// change: [`DeviceLocks::is_effective`]. Call [`Host::restore_left_behind`] first, which takes the same
    /// locks for a moment.
    ///
    /// # Errors
    /// [`SettingsError::NoDevice`], [`SettingsError::Locked`] with the process that holds it,
    /// [`SettingsError::UnsafeFolder`], or a failed file operation.
    pub fn lock(&self, devices: &[String]) -> Result<Arc<DeviceLocks>, SettingsError> {
        self.lock_with(devices, None)
    }

    /// As [`Host::lock`], and keeps runs on loop devices off the file that the run itself reads or writes.
    ///
    /// # Errors
    /// As for [`Host::lock`].
    pub fn lock_with(
        &self,
        devices: &[String],
        file: Option<&Path>,
    ) -> Result<Arc<DeviceLocks>, SettingsError> {
        let folder = self.sys.join("block");
        for device in devices {
            if !is_device_name(device) || !folder.join(device).is_dir() {
                return Err(SettingsError::NoDevice { device: device.clone(), folder });
            }
        }
        let Covered { devices, mut files } = covered(self, devices);
        files.extend(file.and_then(|file| std::fs::metadata(file).ok()).as_ref().and_then(lock_of_file));
        let mut locks = DeviceLocks::take(&self.run, &devices.iter().chain(&files).collect())?;
        for device in &devices {
            locks.claims.extend(claim(self, device)?);
        }
        Ok(Arc::new(locks))
    }
}

/// What a run on some devices keeps other runs off.
struct Covered {
    /// Whole devices: those, and all that they are built on.
    devices: BTreeSet<String>,
    /// Names of locks for the backing files of loop devices.
    files: BTreeSet<String>,
}

/// Looks below devices: the parts of device mapper and md, and what loop devices lie on.
fn covered(host: &Host, devices: &[String]) -> Covered {
    let mut covered = Covered { devices: BTreeSet::new(), files: BTreeSet::new() };
    let mut open: Vec<String> = devices.to_vec();
    while let Some(device) = open.pop() {
        if !covered.devices.insert(device.clone()) {
            continue;
        }
        let folder = host.sys.join("block").join(&device);
        let parts = std::fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten();
        open.extend(parts.filter_map(|part| whole_name(&part.path())));
        match LoopBacking::of(&folder) {
            Some(LoopBacking::Device(number)) => {
                let number = format!("dev/block/{}:{}", major(number), minor(number));
                open.extend(whole_name(&host.sys.join(number)));
            }
            Some(LoopBacking::File { device, inode }) => {
                covered.files.insert(name_of_file(device, inode));
            }
            None => {}
        }
    }
    covered
}

/// The name of the lock for a regular file: it has one such pair, whatever its names are.
fn lock_of_file(file: &Metadata) -> Option<String> {
    file.is_file().then(|| name_of_file(file.dev(), file.ino()))
}

fn name_of_file(device: u64, inode: u64) -> String {
    format!("file:{}:{}:{inode}", major(device), minor(device))
}

/// The name of the whole device that a link in sysfs leads to, or to a partition of which it leads.
fn whole_name(link: &Path) -> Option<String> {
    let folder = link.canonicalize().ok()?;
    let whole = if folder.join("partition").exists() { folder.parent()? } else { &folder };
    Some(whole.file_name()?.to_str()?.to_owned())
}

/// Takes a lock that runs of every user can see, as only root may make lock files: flock(2) on the device's
/// statistics in sysfs, which everybody may open.
pub(super) fn claim(host: &Host, device: &str) -> Result<Option<Locked>, SettingsError> {
    let path = host.sys.join("block").join(device).join("stat");
    let Ok(file) = File::open(&path) else { return Ok(None) };
    let metadata = file.metadata().map_err(SettingsError::io("look at", &path))?;
    match Locked::take(file).map_err(SettingsError::io("lock", &path))? {
        Some(locked) => Ok(Some(locked)),
        None => {
            let (dev, inode) = (metadata.dev(), metadata.ino());
            let place = format!("{:02x}:{:02x}:{inode}", major(dev), minor(dev));
            let pid = sysfs::read(&host.proc.join("locks")).ok().and_then(|list| holder(&list, &place));
            // Anybody may take this lock, and pass it on: what runs as root waits for root alone.
            if files::is_root() && !pid.is_some_and(|pid| is_of_root(host, pid)) {
                return Ok(None);
            }
            Err(SettingsError::Locked { device: device.to_owned(), pid })
        }
    }
}

/// True if a process lives that root itself started: one that a user started from a file of root's, such as
/// `su`, keeps the user's number as its real one (credentials(7)).
fn is_of_root(host: &Host, pid: u32) -> bool {
    let status = sysfs::read(&host.proc.join(pid.to_string()).join("status")).unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let mut users = users.split_whitespace().peekable();
    users.peek().is_some() && users.all(|user| user == "0")
}

/// The process that holds a flock on the file at `place` (`MAJOR:MINOR:INODE`) by the kernel's list of locks
/// (proc(5), `/proc/locks`).
fn holder(list: &str, place: &str) -> Option<u32> {
    // `3: FLOCK  ADVISORY  WRITE 4711 00:16:10344 0 EOF`; a waiting one has `->` after its number.
    let fields = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, "FLOCK", _, _, pid, at, ..] if at == place => pid.parse().ok().filter(|pid| *pid > 0),
        _ => None,
    };
    list.lines().find_map(fields)
}

/// Takes the lock `name` and writes this process's id into it. The file stays when the lock is freed: to
/// remove it would let two runs lock two files of one name.
pub(super) fn take(folder: &Path, name: &str) -> Result<Locked, SettingsError> {
    let path = folder.join(format!("{name}.lock"));
    let file = files::open_private(&path, OpenOptions::new().create(true))
        .map_err(SettingsError::io("open", &path))?;
    let Some(mut file) = Locked::take(file).map_err(SettingsError::io("lock", &path))? else {
        let pid = sysfs::read(&path).ok().and_then(|text| text.parse().ok());
        return Err(SettingsError::Locked { device: name.to_owned(), pid });
    };
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(SettingsError::io("write to", &path))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A user took the lock and passed it on to a program that is root's, or to a process that had ended.
    #[test]
    fn a_lock_holds_root_off_only_where_root_itself_has_it() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::with_root(root.path());
        let process = |pid: u32, users: &str| {
            let folder = host.proc.join(pid.to_string());
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("status"), format!("Name:\tx\nUid:{users}\nGid:\t0\n")).unwrap();
        };
        process(7, "\t0\t0\t0\t0");
        process(8, "\t1000\t0\t0\t0");
        process(9, "");
        assert_eq!([7, 8, 9, 10].map(|pid| is_of_root(&host, pid)), [true, false, false, false]);
    }

    /// A run on a loop device and one on what it lies on ran at once, as two on loop devices of one file did.
    #[test]
    fn what_a_device_is_built_on_is_locked_with_it() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::with_root(root.path());
        let block = root.path().join("sys/block");
        for device in ["sda", "dm-0", "loop0", "loop1", "loop2"] {
            fs::create_dir_all(block.join(device).join("slaves")).unwrap();
        }
        let partition = block.join("sda/sda2");
        fs::create_dir(&partition).unwrap();
        fs::write(partition.join("partition"), "2").unwrap();
        symlink(&partition, block.join("dm-0/slaves/sda2")).unwrap();
        let image = root.path().join("image");
        fs::write(&image, "x").unwrap();
        fs::hard_link(&image, root.path().join("other")).unwrap();
        for (device, file) in [("loop0", "image"), ("loop1", "other")] {
            fs::create_dir(block.join(device).join("loop")).unwrap();
            let file = root.path().join(file).display().to_string();
            fs::write(block.join(device).join("loop/backing_file"), file).unwrap();
        }
        let of = |device: &str| {
            let Covered { devices, files } = covered(&host, &[device.to_owned()]);
            (devices.into_iter().collect::<Vec<_>>(), files.into_iter().collect::<Vec<_>>())
        };
        assert_eq!(of("dm-0"), (vec!["dm-0".to_owned(), "sda".to_owned()], vec![]));
        let (devices, files) = of("loop0");
        assert_eq!((devices, files.len()), (vec!["loop0".to_owned()], 1));
        assert_eq!(of("loop1").1, files);
        let held = host.lock(&["loop0".to_owned()]).unwrap();
        let refused = host.lock(&["loop1".to_owned()]).unwrap_err().to_string();
        assert!(refused.starts_with("`the file of a loop device` is in use by "), "{refused}");
        host.lock(&["loop2".to_owned()]).unwrap();
        drop(held);
        host.lock(&["loop1".to_owned()]).unwrap();
    }

    /// A run on a file, and one on a loop device of the file, ran at once.
    #[test]
    fn a_run_on_a_file_keeps_runs_on_its_loop_devices_off() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::with_root(root.path());
        let image = root.path().join("image");
        fs::write(&image, "x").unwrap();
        let device = root.path().join("sys/block/loop0/loop");
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("backing_file"), image.display().to_string()).unwrap();
        let on_device = || host.lock(&["loop0".to_owned()]);
        let on_file = || host.lock_with(&[], Some(&image));
        let held = on_file().unwrap();
        let refused = on_device().unwrap_err().to_string();
        assert!(refused.starts_with("`the file of a loop device` is in use by "), "{refused}");
        drop(held);
        let held = on_device().unwrap();
        on_file().unwrap_err();
        drop(held);
        on_file().unwrap();
        // A name that leads to nothing yet, or to a folder.
        host.lock_with(&[], Some(root.path())).unwrap();
        host.lock_with(&[], Some(&root.path().join("none"))).unwrap();
    }

    #[test]
    fn the_kernels_list_names_who_holds_a_lock() {
        let list = "1: POSIX  ADVISORY  WRITE 11 00:16:10344 0 EOF\n2: FLOCK  ADVISORY  WRITE 4711 \
                    00:16:10344 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 12 00:16:10344 0 EOF\n3: FLOCK  \
                    ADVISORY  READ 0 fe:00:77 0 EOF\n";
        let of = |place: &str| holder(list, place);
        // A process of another namespace has no number here.
        assert_eq!([of("00:16:10344"), of("00:16:1034"), of("fe:00:77")], [Some(4711), None, None]);
    }
}
