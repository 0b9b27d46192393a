//! The drives that a run took from their drivers: plain data, kept from taking to giving back.

use super::attribute::Attribute;
use super::binding::Binding;
use super::drive_setting::DriveSetting;
use super::files::Locked;
use std::collections::BTreeMap;

/// The drives that a run took, with their locks.
#[derive(Debug, Default)]
pub(super) struct TakenDrives {
    /// Locks beside those of the target: of the bindings, and of the drives' other block devices.
    pub(super) locks: BTreeMap<String, Locked>,
    /// Locks that runs of every user can see, on what has come back: earlier ones went with the driver.
    pub(super) claims: Vec<Locked>,
    pub(super) drives: Vec<TakenDrive>,
}

/// One drive, as it was when it was taken.
#[derive(Debug)]
pub(super) struct TakenDrive {
    pub(super) binding: Binding,
    /// The driver that had it.
    pub(super) from: String,
    /// Its block devices.
    pub(super) disks: Vec<String>,
    /// The queue files of the run's devices, with their values: the driver makes the queues anew.
    pub(super) queue: Vec<(Attribute, String)>,
    /// What the drive itself loses, with the values.
    pub(super) settings: Vec<(DriveSetting, String)>,
    pub(super) serial: Option<String>,
}

impl TakenDrives {
    /// The block devices of the drives that are taken.
    pub(super) fn disks(&self) -> impl Iterator<Item = &String> {
        self.drives.iter().flat_map(|drive| &drive.disks)
    }
}
