//! Whether an NVMe controller may be taken from its driver, to be driven from user space. Nothing here
//! changes anything: the caller takes the controller and gives it back.

use super::error::{TakeRefusal, TargetError, TargetFault};
use super::safety::{self, SystemState};
use super::topology::{Sysfs, entries, name_of};
use crate::nvme_user::no_iommu;
use crate::pci::{Isolation, NVME_CLASS, PciAddress};
use crate::system::attribute;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A controller that may be taken, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakePlan {
    /// The controller.
    pub address: PciAddress,
    /// The driver that it is bound to, `nvme` for most; `None` where it has none.
    pub driver: Option<String>,
    /// Kernel names of its namespaces' block devices (of the heads, under multipath), sorted; they vanish
    /// while the controller is taken.
    pub namespaces: Vec<String>,
    /// Its IOMMU group; `None` without an IOMMU.
    pub group: Option<u32>,
    /// What keeps the drive out of memory that is not its own.
    pub isolation: Isolation,
}

/// Class and subclass of a bridge from PCI to PCI: it belongs to the group of what lies below it and moves no
/// data of its own.
const BRIDGE_CLASS: &str = "0x0604";

/// Exclusive claims on the block devices of a controller that is about to be taken: nobody can mount one in
/// the meantime.
#[derive(Debug)]
pub struct TakeClaims {
    /// Its own, which vanish with its driver. Close them before the driver has it again: a block device that
    /// is open comes back under another name.
    pub own: Vec<File>,
    /// Those by which other controllers show the same namespaces. Keep them as long as it is taken.
    pub twins: Vec<File>,
}

/// Whether the controller may be taken from its driver, and what one must know to take it. Opens each of its
/// namespaces exclusively for a moment; changes nothing. The answer may be outdated a moment later: to take
/// the controller, use [`claim_for_taking`]. `i_know_no_iommu` allows a controller without an IOMMU.
///
/// Sources: Documentation/driver-api/vfio.rst,
/// Documentation/ABI/testing/{sysfs-bus-pci,sysfs-kernel-iommu_groups}.
///
/// # Errors
/// [`TargetError::NotTaken`] with the [`TakeRefusal`]; or a permission is missing, or sysfs cannot be read.
pub fn plan_taking(address: PciAddress, i_know_no_iommu: bool) -> Result<TakePlan, TargetError> {
    claim_for_taking(address, i_know_no_iommu).map(|(plan, _)| plan)
}

/// As [`plan_taking`], and keeps the claims.
///
/// # Errors
/// As for [`plan_taking`].
pub fn claim_for_taking(
    address: PciAddress,
    i_know_no_iommu: bool,
) -> Result<(TakePlan, TakeClaims), TargetError> {
    let folder = address.folder(Path::new(super::SYSFS));
    let system = SystemState::read().map_err(TargetError::system(&folder, "reading mounts and swaps"))?;
    let (plan, disks) = plan_in(Path::new(super::SYSFS), &system, address, i_know_no_iommu)?;
    let (own, twins) =
        disks.into_iter().partition::<Vec<_>, _>(|disk| plan.namespaces.contains(&name_of(disk)));
    let claims = TakeClaims { own: claim_disks(address, &own)?, twins: claim_disks(address, &twins)? };
    Ok((plan, claims))
}

/// Claims disks that nobody else holds exclusively.
pub(super) fn claim_disks(address: PciAddress, disks: &[PathBuf]) -> Result<Vec<File>, TargetError> {
    let claim = |disk: &PathBuf| {
        safety::claim_disk(disk, disk, None).map_err(|error| match error {
            TargetError::Unfit { fault: TargetFault::InUse(found), .. } => {
                TakeRefusal::InUse(address, found).into()
            }
            other => other,
        })
    };
    disks.iter().map(claim).collect()
}

/// The block devices that a controller's namespaces have now, sorted; under multipath the heads `nvmeXnZ`
/// instead of the hidden paths `nvmeXcYnZ`.
fn namespace_disks(sysfs: &Path, address: PciAddress) -> Vec<PathBuf> {
    let controllers = entries(&address.folder(sysfs).join("nvme"));
    let names = controllers
        .iter()
        .flat_map(|controller| entries(controller))
        .filter_map(|dir| visible_namespace(&name_of(&dir)));
    let mut disks: Vec<PathBuf> = names.filter_map(|name| Sysfs::new(sysfs).named(&name).ok()).collect();
    disks.sort();
    disks.dedup();
    disks
}

/// The visible block device of a namespace: `nvme0n1` for itself and for `nvme0c3n1`; `None` if `name` is not
/// a namespace.
pub fn visible_namespace(name: &str) -> Option<String> {
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let (start, namespace) = name.strip_prefix("nvme")?.split_once('n')?;
    let (instance, path) =
        start.split_once('c').map_or((start, None), |(instance, path)| (instance, Some(path)));
    let is_namespace = is_number(instance) && is_number(namespace) && path.is_none_or(is_number);
    is_namespace.then(|| format!("nvme{instance}n{namespace}"))
}

/// The plan, and the disks to be claimed, from sysfs and the mounts.
fn plan_in(
    sysfs: &Path,
    system: &SystemState,
    address: PciAddress,
    i_know_no_iommu: bool,
) -> Result<(TakePlan, Vec<PathBuf>), TargetError> {
    let folder = address.folder(sysfs);
    let class = address.class(sysfs).ok_or(TakeRefusal::NoDevice(address))?;
    if class != NVME_CLASS {
        return Err(TakeRefusal::NoController(address, class).into());
    }
    let namespaces = namespace_disks(sysfs, address);
    let mut disks = namespaces.clone();
    // Another controller may show the same namespace: a file system mounted there would be overwritten here.
    disks.extend(
        namespaces.iter().flat_map(|disk| system.sysfs.twins(disk)).filter(|twin| !namespaces.contains(twin)),
    );
    let used = safety::find_use(system, &disks);
    let used = used.map_err(TargetError::system(&folder, "reading the numbers of its namespaces"))?;
    if let Some(found) = used {
        return Err(TakeRefusal::InUse(address, found).into());
    }
    let driver = driver_of(&folder);
    if driver.as_deref() != Some("vfio-pci") {
        require_vfio_pci(sysfs, &folder, address)?;
    }
    let group = isolated_group(sysfs, &folder, address)?;
    let isolation = if group.is_some() { Isolation::Iommu } else { Isolation::None };
    if isolation == Isolation::None {
        require_no_iommu_mode(sysfs, address, i_know_no_iommu)?;
        let pages = no_iommu::require_small_pages(address, rustix::param::page_size());
        pages.map_err(TakeRefusal::Pages)?;
    }
    let namespaces = namespaces.iter().map(|disk| name_of(disk)).collect();
    Ok((TakePlan { address, driver, namespaces, group, isolation }, disks))
}

fn driver_of(folder: &Path) -> Option<String> {
    folder.join("driver").canonicalize().ok().map(|driver| name_of(&driver))
}

/// Refuses a device that vfio-pci cannot be asked to take.
fn require_vfio_pci(sysfs: &Path, folder: &Path, address: PciAddress) -> Result<(), TakeRefusal> {
    if !sysfs.join("bus/pci/drivers/vfio-pci").is_dir() {
        return Err(TakeRefusal::NoVfioPci(address));
    }
    match attribute::<String>(folder, "driver_override") {
        Some(driver) if !matches!(driver.as_str(), "" | "(null)") => {
            Err(TakeRefusal::Pinned(address, driver))
        }
        _ => Ok(()),
    }
}

/// The device's IOMMU group, in which it must be alone, except for bridges; `None` without an IOMMU.
fn isolated_group(sysfs: &Path, folder: &Path, address: PciAddress) -> Result<Option<u32>, TakeRefusal> {
    let Some(dir) = folder.join("iommu_group").canonicalize().ok() else { return Ok(None) };
    // VFIO gives a device that it took without an IOMMU a group of this name (drivers/vfio/group.c).
    if attribute::<String>(&dir, "name").as_deref() == Some("vfio-noiommu") {
        return Ok(None);
    }
    let Ok(group) = name_of(&dir).parse() else { return Ok(None) };
    let members = entries(&sysfs.join("kernel/iommu_groups").join(name_of(&dir)).join("devices"));
    let is_other = |member: &&PathBuf| {
        let class = attribute::<String>(member, "class").unwrap_or_default();
        name_of(member) != address.to_string() && !class.starts_with(BRIDGE_CLASS)
    };
    let describe = |member: &PathBuf| {
        format!("{} ({})", name_of(member), driver_of(member).unwrap_or_else(|| "no driver".to_owned()))
    };
    let others: Vec<String> = members.iter().filter(is_other).map(describe).collect();
    if others.is_empty() { Ok(Some(group)) } else { Err(TakeRefusal::SharedGroup { address, group, others }) }
}

/// Refuses a device without an IOMMU that the user did not allow, or that VFIO would not take.
fn require_no_iommu_mode(sysfs: &Path, address: PciAddress, i_know: bool) -> Result<(), TakeRefusal> {
    if !i_know {
        return Err(TakeRefusal::NoIommu(address));
    }
    let remedy = match attribute::<String>(
        &sysfs.join("module/vfio/parameters"),
        "enable_unsafe_noiommu_mode",
    ) {
        Some(mode) if mode == "Y" => return Ok(()),
        Some(_) => {
            "`echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode`, as root, allows it until the \
             next boot"
        }
        None => "use a kernel built with CONFIG_VFIO_NOIOMMU, or switch the IOMMU on",
    };
    Err(TakeRefusal::NoIommuMode(address, remedy))
}

#[cfg(test)]
mod tests;
