//! iommufd and the device's own file in /dev/vfio/devices: since Linux 6.6, where the kernel has both.
//!
//! Sources: Documentation/userspace-api/iommufd.rst; include/uapi/linux/iommufd.h.

use super::super::device::{PAGE, PageRange};
use super::ioctl::{self, Argument, AttachIommufd, BindIommufd, IoasAlloc, IoasMap, IoasUnmap};
use super::{call, consecutive, map_error, open_node};
use crate::error::EngineError;
use crate::pci::PciAddress;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

const IOMMUFD: &str = "/dev/iommu";

/// An address space in which the kernel chooses the addresses.
pub(super) struct Iommufd {
    iommu: File,
    ioas: u32,
}

impl Iommufd {
    /// Opens the device by its own file; `None` where the kernel has none, or no iommufd.
    pub(super) fn open(
        address: PciAddress,
        folder: &Path,
    ) -> Option<Result<(OwnedFd, Iommufd), EngineError>> {
        let node = device_node(folder)?;
        if !Path::new(IOMMUFD).exists() || !node.exists() {
            return None;
        }
        Some(Iommufd::open_node(address, &node))
    }

    fn open_node(address: PciAddress, node: &Path) -> Result<(OwnedFd, Iommufd), EngineError> {
        let device = open_node(node)?;
        let iommu = open_node(Path::new(IOMMUFD))?;
        let mut bind = BindIommufd { iommufd: iommu.as_raw_fd(), ..BindIommufd::sized() };
        ioctl::with(&device, ioctl::VFIO_DEVICE_BIND_IOMMUFD, &mut bind).map_err(|errno| {
            let remedy = match errno {
                libc::EPERM => {
                    format!(
                        ": the IOMMU does not remap interrupts, or other devices share the group of {address}"
                    )
                }
                _ => String::new(),
            };
            EngineError::call("VFIO_DEVICE_BIND_IOMMUFD", errno, remedy)
        })?;
        let mut space = IoasAlloc::sized();
        ioctl::with(&iommu, ioctl::IOMMU_IOAS_ALLOC, &mut space)
            .map_err(|errno| call("IOMMU_IOAS_ALLOC", errno))?;
        let ioas = space.out_ioas_id;
        let mut attach = AttachIommufd { pt_id: ioas, ..AttachIommufd::sized() };
        ioctl::with(&device, ioctl::VFIO_DEVICE_ATTACH_IOMMUFD_PT, &mut attach)
            .map_err(|errno| call("VFIO_DEVICE_ATTACH_IOMMUFD_PT", errno))?;
        Ok((device.into(), Iommufd { iommu, ioas }))
    }

    pub(super) fn map(&self, memory: &PageRange) -> Result<Box<[u64]>, EngineError> {
        let mut map = IoasMap {
            flags: ioctl::IOMMU_IOAS_MAP_READABLE | ioctl::IOMMU_IOAS_MAP_WRITEABLE,
            ioas_id: self.ioas,
            user_va: memory.base.as_ptr() as u64,
            length: memory.len as u64,
            ..IoasMap::sized()
        };
        ioctl::with(&self.iommu, ioctl::IOMMU_IOAS_MAP, &mut map)
            .map_err(|errno| map_error("IOMMU_IOAS_MAP", errno))?;
        Ok(consecutive(map.iova, memory.len))
    }

    pub(super) fn unmap(&self, pages: &[u64]) {
        let Some(iova) = pages.first().copied() else { return };
        let mut unmap =
            IoasUnmap { ioas_id: self.ioas, iova, length: (pages.len() * PAGE) as u64, ..IoasUnmap::sized() };
        // A range that stays mapped stays pinned: nobody else gets its pages.
        let _ = ioctl::with(&self.iommu, ioctl::IOMMU_IOAS_UNMAP, &mut unmap);
    }
}

/// `/dev/vfio/devices/vfioN` by the one entry of the device's `vfio-dev`.
fn device_node(folder: &Path) -> Option<PathBuf> {
    let entry = std::fs::read_dir(folder.join("vfio-dev")).ok()?.flatten().next()?;
    Some(Path::new("/dev/vfio/devices").join(entry.file_name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri reads no folder")]
    fn the_devices_own_file_is_named_by_sysfs() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(device_node(folder.path()), None);
        std::fs::create_dir_all(folder.path().join("vfio-dev/vfio7")).unwrap();
        assert_eq!(device_node(folder.path()).unwrap(), Path::new("/dev/vfio/devices/vfio7"));
    }
}
