//! The drive that kernel bypass takes from its driver: which one the user allows, and that it is the
//! target's.

use crate::error::{RunError, TrialError};
use crate::options::Options;
use iopj_core::IoPath;
use iopj_engine::target::{TargetKind, plan_taking};
use iopj_engine::{PciAddress, Target};
use iopj_study::{Axis, Study, parse_paths};
use std::fs;
use std::path::Path;

/// What the user allows: to take this drive from its driver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Taking {
    address: PciAddress,
    /// Even if no IOMMU keeps it out of foreign memory.
    pub(super) i_know_no_iommu: bool,
}

impl Taking {
    /// What the options allow.
    pub(crate) fn of(options: &Options) -> Option<Taking> {
        options.take_device.map(|address| Taking { address, i_know_no_iommu: options.i_know_no_iommu })
    }

    /// Refuses a drive that the study has no use for, or that may not be taken. This comes before the target
    /// is opened, because opening it for writing holds the drive.
    pub(crate) fn check(self, study: &Study) -> Result<(), RunError> {
        let takes = |paths: Vec<IoPath>| paths.iter().any(|path| path.is_bypass_on(true));
        let may_bypass = |paths: &Axis<String>| Ok::<bool, RunError>(parse_paths(paths)?.is_none_or(takes));
        for matrix in &study.workloads {
            if may_bypass(matrix.paths.as_ref().unwrap_or(&study.paths))? {
                plan_taking(self.address, self.i_know_no_iommu)?;
                return Ok(());
            }
        }
        RunError::refuse(format!(
            "--take-device names {}, but the study has no path of kernel bypass (nvme-user, spdk, auto): \
             leave the option out",
            self.address
        ))
    }
}

/// The drive behind the target, which may be taken from its driver.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BypassDrive {
    pub(super) taking: Taking,
    pub(super) address: PciAddress,
    /// The block device below the target.
    device: String,
    pub(super) nsid: u32,
    /// The serial number that the kernel shows; another drive in the same slot has another.
    pub(super) serial: Option<String>,
}

impl BypassDrive {
    /// The drive that may be taken, found to be the target's.
    pub(super) fn find(target: &Target, taking: Taking) -> Result<BypassDrive, TrialError> {
        let address = taking.address;
        let refuse = |message: String| Err(TrialError::CannotTake(message));
        let shown = target.path().display();
        let [device] = target.devices() else {
            return refuse(format!(
                "{shown} is not on one block device, so {address} cannot be taken for it: name the block \
                 device of one of its namespaces by --target"
            ));
        };
        let folder = Path::new("/sys/block").join(device);
        if PciAddress::of_device(&folder) != Some(address) {
            return refuse(format!(
                "{shown} is not on {address}, the device to take: name one of that device's namespaces by \
                 --target, or the device of the target by --take-device"
            ));
        }
        let is_whole = target.kind() != TargetKind::File && !is_partition(target.path());
        let nsid = fs::read_to_string(folder.join("nsid")).ok().and_then(|text| text.trim().parse().ok());
        let (Some(nsid), true) = (nsid, is_whole) else {
            return refuse(format!(
                "{shown} is not a whole namespace of {address}, and without the kernel there are no files \
                 and no partitions: name /dev/{device} by --target"
            ));
        };
        let serial = fs::read_to_string(folder.join("device/serial")).ok().map(|text| text.trim().to_owned());
        Ok(BypassDrive { taking, address, device: device.clone(), nsid, serial })
    }
}

fn is_partition(path: &Path) -> bool {
    let name = path.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_owned()));
    name.is_some_and(|name| Path::new("/sys/class/block").join(name).join("partition").exists())
}
