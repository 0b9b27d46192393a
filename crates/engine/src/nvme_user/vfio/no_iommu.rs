//! VFIO without an IOMMU: the device sees physical addresses, and nothing keeps it from the rest of memory.
//! Only huge pages are given to it: the kernel neither moves nor swaps them.
//!
//! Sources: drivers/vfio/group.c (`noiommu`); Documentation/admin-guide/mm/pagemap.rst.

use super::super::device::{PAGE, PageRange};
use super::ioctl;
use super::{container, group};
use crate::error::EngineError;
use crate::pci::PciAddress;
use rustix::param::page_size;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The group and the container of a device, which stay open as long as the device.
pub(super) struct Physical {
    _group: File,
    _container: File,
}

/// Opens the device by its group, which it also has without an IOMMU once it is bound.
pub(super) fn open(address: PciAddress, folder: &Path) -> Result<(OwnedFd, Physical), EngineError> {
    require_small_pages(address, page_size())?;
    let name = format!("noiommu-{}", group(address, folder)?);
    if !Path::new("/dev/vfio").join(&name).exists() {
        return Err(EngineError::unsupported(format!(
            "there is no /dev/vfio/{name}: {address} is behind an IOMMU (leave --i-know-no-iommu out), or \
             VFIO's no-IOMMU mode is off: `echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode`"
        )));
    }
    let (container, group, device) = container::open_group(address, &name, |_| ioctl::VFIO_NOIOMMU_IOMMU)?;
    Ok((device, Physical { _group: group, _container: container }))
}

/// Refuses kernels whose pages are not as large as the drive's: pagemap has the addresses of the kernel's
/// pages (16 or 64 KiB on some Arm kernels), and the drive would be sent to memory of others.
pub(crate) fn require_small_pages(address: PciAddress, page_bytes: usize) -> Result<(), EngineError> {
    if page_bytes == PAGE {
        return Ok(());
    }
    Err(EngineError::unsupported(format!(
        "{address} has no IOMMU, and this kernel has memory pages of {page_bytes} bytes, where bypass \
         without an IOMMU needs {PAGE}: switch the IOMMU on, or boot a kernel with pages of 4 KiB"
    )))
}

/// The physical address of each page.
pub(super) fn map(memory: &PageRange) -> Result<Box<[u64]>, EngineError> {
    if !memory.is_huge {
        return Err(EngineError::unsupported(
            "without an IOMMU the device gets physical addresses, and buffers that are not in huge pages \
             move: make the pool by `Pool::huge`",
        ));
    }
    let first = memory.base.as_ptr() as u64 / PAGE as u64;
    let mut entries = vec![0; memory.len / PAGE * 8];
    let read =
        File::open("/proc/self/pagemap").and_then(|pagemap| pagemap.read_exact_at(&mut entries, first * 8));
    read.map_err(|e| EngineError::failed("read (/proc/self/pagemap)", e))?;
    let pages = entries
        .chunks_exact(8)
        .map(|bytes| page_address(u64::from_le_bytes(bytes.try_into().unwrap_or_default())));
    pages.collect::<Option<_>>().ok_or_else(|| {
        EngineError::unsupported(
            "/proc/self/pagemap hides physical addresses from this user: run iopj as root",
        )
    })
}

/// The address in an entry of pagemap: present in bit 63, the frame's number in bits 0 to 54, zero for a
/// process that may not see it.
fn page_address(entry: u64) -> Option<u64> {
    let frame = entry & ((1 << 55) - 1);
    (entry >> 63 != 0 && frame != 0).then_some(frame * PAGE as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::NonNull;

    #[test]
    fn entries_of_pagemap_are_present_and_visible_or_none() {
        assert_eq!(page_address(1 << 63 | 0x1234), Some(0x123_4000));
        assert_eq!(page_address(0x1234), None, "swapped or absent");
        assert_eq!(page_address(1 << 63 | 1 << 61), None, "hidden");
    }

    #[test]
    fn kernels_with_other_pages_are_refused() {
        let address = "0000:01:00.0".parse().unwrap();
        require_small_pages(address, 4096).unwrap();
        for page in [16 << 10, 64 << 10] {
            let message = require_small_pages(address, page).unwrap_err().to_string();
            assert!(message.starts_with(&format!(
                "0000:01:00.0 has no IOMMU, and this kernel has memory pages of {page} bytes"
            )));
            assert!(
                message.ends_with("switch the IOMMU on, or boot a kernel with pages of 4 KiB"),
                "{message}"
            );
        }
        if cfg!(target_arch = "x86_64") {
            assert_eq!(page_size(), 4096);
        }
    }

    #[test]
    fn only_huge_pages_are_mapped() {
        let mut page = [0u8; 8];
        let memory = PageRange { base: NonNull::from(&mut page[..]).cast(), len: 4096, is_huge: false };
        let message = map(&memory).unwrap_err().to_string();
        assert!(message.contains("Pool::huge"), "{message}");
    }
}
