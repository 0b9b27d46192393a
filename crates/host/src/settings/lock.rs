//! The locks of a run: one per device, by flock(2) on a file in the folder of journals, and one that runs
//! without root can see.

use super::allowed::is_device_name;
use super::error::SettingsError;
use super::files::{self, Locked};
use super::host::Host;
use crate::sysfs;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

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
                return Ok(DeviceLocks { held: BTreeMap::new(), claims: Vec::new(), effective: false });
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
    pub fn lock(&self, devices: &[String]) -> Result<DeviceLocks, SettingsError> {
        let folder = self.sys.join("block");
        for device in devices {
            if !is_device_name(device) || !folder.join(device).is_dir() {
                return Err(SettingsError::NoDevice { device: device.clone(), folder });
            }
        }
        let devices: BTreeSet<&String> = devices.iter().collect();
        let mut locks = DeviceLocks::take(&self.run, &devices)?;
        for device in devices {
            locks.claims.extend(claim(&folder, device)?);
        }
        Ok(locks)
    }
}

/// Takes a lock that runs of every user can see, as only root may make lock files: flock(2) on the device's
/// statistics in sysfs, which everybody may open.
pub(super) fn claim(folder: &Path, device: &str) -> Result<Option<Locked>, SettingsError> {
    let path = folder.join(device).join("stat");
    let Ok(file) = File::open(&path) else { return Ok(None) };
    match Locked::take(file).map_err(SettingsError::io("lock", &path))? {
        Some(locked) => Ok(Some(locked)),
        None => Err(SettingsError::Locked { device: device.to_owned(), pid: None }),
    }
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
