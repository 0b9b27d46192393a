//! Where a host is found: its folders, its drives' features, and how long its drivers are waited for. What is
//! done there is left to the files that do it.

use super::error::SettingsError;
use crate::nvme_features::FeatureAccess;
use crate::sysfs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a driver may take to come or to go.
const DRIVER_LIMIT: Duration = Duration::from_secs(if cfg!(test) { 30 } else { 10 });
/// How long the namespaces may take to come back: the driver looks for them in the background.
const DISKS_LIMIT: Duration = Duration::from_secs(if cfg!(test) { 30 } else { 20 });

/// The host, as a handle that is cheap to clone: whoever needs it has one of its own.
#[derive(Clone, Debug)]
pub struct Host {
    places: Arc<HostPlaces>,
}

/// The host's sysfs, procfs, device nodes, iopj's folder of locks and journals, and how long its drivers are
/// waited for.
#[derive(Clone, Debug)]
pub struct HostPlaces {
    pub(super) sys: PathBuf,
    pub(super) proc: PathBuf,
    pub(super) dev: PathBuf,
    pub(super) run: PathBuf,
    pub(super) driver_limit: Duration,
    pub(super) disks_limit: Duration,
    pub(crate) features: FeatureAccess,
}

impl Deref for Host {
    type Target = HostPlaces;

    fn deref(&self) -> &HostPlaces {
        &self.places
    }
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
        let places = HostPlaces {
            sys: root.join("sys"),
            proc: root.join("proc"),
            dev: root.join("dev"),
            run: root.join("run/iopj"),
            driver_limit: DRIVER_LIMIT,
            disks_limit: DISKS_LIMIT,
            features: FeatureAccess::of_kernel(),
        };
        Host { places: Arc::new(places) }
    }

    /// A host that is found elsewhere, for tests.
    #[cfg(test)]
    pub(crate) fn with(mut self, change: impl FnOnce(&mut HostPlaces)) -> Host {
        change(Arc::make_mut(&mut self.places));
        self
    }

    /// The process of irqbalance, if it runs here: it moves interrupts from core to core.
    pub fn irqbalance(&self) -> Option<u32> {
        let is_named =
            |folder: &PathBuf| sysfs::read(&folder.join("comm")).is_ok_and(|name| name == "irqbalance");
        let processes = sysfs::numbered(&self.proc, "").unwrap_or_default();
        processes.into_iter().find_map(|(pid, folder)| is_named(&folder).then_some(pid))
    }

    /// The root of sysfs.
    pub(crate) fn sys(&self) -> &Path {
        &self.sys
    }

    /// The folder of device nodes.
    pub(crate) fn dev(&self) -> &Path {
        &self.dev
    }

    /// The boot's id (proc(5), `/proc/sys/kernel/random/boot_id`).
    pub(super) fn boot_id(&self) -> Result<String, SettingsError> {
        let file = self.proc.join("sys/kernel/random/boot_id");
        sysfs::read(&file).map_err(SettingsError::io("read", &file))
    }
}
