//! The host whose settings are changed: where it shows itself, and what a run asks of it.

use super::attribute::is_device_name;
use super::binding::{DISKS_LIMIT, DRIVER_LIMIT};
use super::files::Locked;
use super::kept::FeatureAccess;
use super::{DeviceLocks, Settings, SettingsError};
use crate::nvme_features;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the host shows itself: sysfs, procfs, the device nodes, and iopj's folder of locks and journals; and
/// how long its drivers are waited for.
#[derive(Clone, Debug)]
pub struct Host {
    pub(super) sys: PathBuf,
    pub(super) proc: PathBuf,
    pub(super) dev: PathBuf,
    pub(super) run: PathBuf,
    pub(super) driver_limit: Duration,
    pub(super) disks_limit: Duration,
    pub(super) features: FeatureAccess,
}

impl Default for Host {
    fn default() -> Host {
        Host::new()
    }
}

impl Host {
    /// This host: `/sys`, `/proc`, `/dev`, `/run/iopj`.
    pub fn new() -> Host {
        Host::with_root(Path::new("/"))
    }

    /// A host below another root: `ROOT/sys`, `ROOT/proc`, `ROOT/dev`, `ROOT/run/iopj`.
    pub fn with_root(root: &Path) -> Host {
        Host {
            sys: root.join("sys"),
            proc: root.join("proc"),
            dev: root.join("dev"),
            run: root.join("run/iopj"),
            driver_limit: DRIVER_LIMIT,
            disks_limit: DISKS_LIMIT,
            features: FeatureAccess {
                get: nvme_features::get,
                set: nvme_features::set,
                wake: nvme_features::wake,
            },
        }
    }

    /// The root of sysfs.
    pub(crate) fn sys(&self) -> &Path {
        &self.sys
    }

    /// The folder of device nodes.
    pub(crate) fn dev(&self) -> &Path {
        &self.dev
    }

    /// Takes the lock of each of these whole block devices (named as in `/sys/block`), without waiting.
    ///
    /// Where the process may not make `/run/iopj` (no root), the set keeps other runs off all the same, but
    /// allows no change, and says so by [`DeviceLocks::is_effective`]. Call [`Host::restore_left_behind`]
    /// first: it takes the same locks for a moment.
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
        let mut locks = DeviceLocks::take(&self.run, devices.iter().map(String::as_str))?;
        for device in devices.iter().collect::<BTreeSet<_>>() {
            locks.claims.extend(claim(&folder, device)?);
        }
        Ok(locks)
    }

    /// The settings that one run changes, on these devices; nothing is written before the first change.
    pub fn settings<'a>(&'a self, devices: &[String], locks: &'a DeviceLocks) -> Settings<'a> {
        Settings::new(self, devices, locks)
    }

    /// The boot's id (proc(5), `/proc/sys/kernel/random/boot_id`).
    pub(super) fn boot_id(&self) -> Result<String, SettingsError> {
        let file = self.proc.join("sys/kernel/random/boot_id");
        fs::read_to_string(&file).map(|text| text.trim().to_owned()).map_err(SettingsError::io("read", &file))
    }
}

/// A lock that runs of every user can see, for only root may make lock files: flock(2) on the device's
/// statistics in sysfs, which everybody may open.
pub(super) fn claim(folder: &Path, device: &str) -> Result<Option<Locked>, SettingsError> {
    let path = folder.join(device).join("stat");
    let Ok(file) = File::open(&path) else { return Ok(None) };
    match Locked::take(file).map_err(SettingsError::io("lock", &path))? {
        Some(locked) => Ok(Some(locked)),
        None => Err(SettingsError::Locked { device: device.to_owned(), pid: None }),
    }
}
