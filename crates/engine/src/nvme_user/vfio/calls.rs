//! Calls of VFIO and what they refuse.

use super::super::device::PAGE;
use crate::error::EngineError;
use crate::pci::PciAddress;
use std::fs::File;
use std::path::Path;

pub(super) fn call(what: &'static str, errno: i32) -> EngineError {
    EngineError::call(what, errno, String::new())
}

/// The IOMMU group of a function, by number.
pub(super) fn group(address: PciAddress, folder: &Path) -> Result<u32, EngineError> {
    let link = folder.join("iommu_group").read_link().ok();
    link.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()?.parse().ok()).ok_or_else(|| {
        EngineError::unsupported(format!(
            "{address} is not behind an IOMMU: switch one on in the firmware and by `intel_iommu=on` or \
             `amd_iommu=on` on the kernel command line; without one, --i-know-no-iommu allows it \
             unprotected"
        ))
    })
}

/// Opens a file of VFIO; the error says what to do.
pub(super) fn open_node(path: &Path) -> Result<File, EngineError> {
    File::options().read(true).write(true).open(path).map_err(|e| {
        let shown = path.display();
        match e.raw_os_error() {
            Some(libc::EBUSY) => EngineError::unsupported(format!(
                "{shown} is in use by another process (a virtual machine, SPDK, or another iopj): end that \
                 process"
            )),
            Some(libc::EACCES | libc::EPERM) => EngineError::unsupported(format!(
                "you may not open {shown}: run iopj as root, or give this user access to it"
            )),
            Some(libc::ENOENT | libc::ENODEV) => EngineError::unsupported(format!(
                "there is no {shown}: `modprobe vfio-pci`, and bind the device to it"
            )),
            errno => {
                EngineError::call("open (VFIO)", errno.unwrap_or(0), format!(": {shown} cannot be used"))
            }
        }
    })
}

/// The addresses of the pages of a range that the device sees as one.
pub(super) fn consecutive(iova: u64, len: usize) -> Box<[u64]> {
    (0..len / PAGE).map(|page| iova + (page * PAGE) as u64).collect()
}

pub(super) fn map_error(what: &'static str, errno: i32) -> EngineError {
    EngineError::call(what, errno, crate::remedy::memory_lock(errno))
}
