//! The locks of a run: one per device, by flock(2) on a file in the folder of journals, and one that runs
//! without root can see.

use super::allowed::is_device_name;
use super::error::SettingsError;
use super::files::{self, Locked};
use super::host::Host;
use crate::sysfs;
use rustix::fs::{major, minor};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
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
        let folder = self.sys.join("block");
        for device in devices {
            if !is_device_name(device) || !folder.join(device).is_dir() {
                return Err(SettingsError::NoDevice { device: device.clone(), folder });
            }
        }
        let devices: BTreeSet<&String> = devices.iter().collect();
        let mut locks = DeviceLocks::take(&self.run, &devices)?;
        for device in devices {
            locks.claims.extend(claim(self, device)?);
        }
        Ok(Arc::new(locks))
    }
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
            Err(SettingsError::Locked { device: device.to_owned(), pid })
        }
    }
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
