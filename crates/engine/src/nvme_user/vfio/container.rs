//! A type1 container: the classic way by the IOMMU group, on every kernel.
//!
//! Source: include/uapi/linux/vfio.h ("API for Type1 VFIO IOMMU").

use super::super::device::{PAGE, PageRange};
use super::ioctl::{self, Argument, DmaMap, DmaUnmap, GroupStatus, Type1Info};
use super::{call, consecutive, group, map_error, open_node};
use crate::error::EngineError;
use crate::pci::PciAddress;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The file that opens a container.
pub(super) const CONTAINER: &str = "/dev/vfio/vfio";

/// A container with one group in it. The descriptor of the group goes before the container's.
pub(super) struct Container {
    _group: File,
    container: File,
    space: Mutex<IovaSpace>,
}

impl Container {
    pub(super) fn open(address: PciAddress, folder: &Path) -> Result<(OwnedFd, Container), EngineError> {
        let number = group(address, folder)?;
        let (container, group, device) = open_group(address, &number.to_string(), |container| {
            let has = |kind| {
                ioctl::with_number(container, ioctl::VFIO_CHECK_EXTENSION, kind).is_ok_and(|has| has > 0)
            };
            if has(ioctl::VFIO_TYPE1V2_IOMMU) { ioctl::VFIO_TYPE1V2_IOMMU } else { ioctl::VFIO_TYPE1_IOMMU }
        })?;
        let space = Mutex::new(IovaSpace::new(ranges(&container)));
        Ok((device, Container { _group: group, container, space }))
    }

    pub(super) fn map(&self, memory: &PageRange) -> Result<Box<[u64]>, EngineError> {
        let mut space = self.space.lock().unwrap_or_else(PoisonError::into_inner);
        let iova = space.take(memory.len as u64).ok_or_else(|| {
            EngineError::unsupported(format!(
                "{} bytes do not fit into the device's address space: lower iodepth, bs or numjobs",
                memory.len
            ))
        })?;
        let mut map = DmaMap {
            flags: ioctl::VFIO_DMA_MAP_FLAG_READ | ioctl::VFIO_DMA_MAP_FLAG_WRITE,
            vaddr: memory.base.as_ptr() as u64,
            iova,
            size: memory.len as u64,
            ..DmaMap::sized()
        };
        if let Err(errno) = ioctl::with(&self.container, ioctl::VFIO_IOMMU_MAP_DMA, &mut map) {
            space.give_back(iova);
            return Err(map_error("VFIO_IOMMU_MAP_DMA", errno));
        }
        Ok(consecutive(iova, memory.len))
    }

    pub(super) fn unmap(&self, pages: &[u64]) {
        let Some(iova) = pages.first().copied() else { return };
        let mut unmap = DmaUnmap { iova, size: (pages.len() * PAGE) as u64, ..DmaUnmap::sized() };
        if ioctl::with(&self.container, ioctl::VFIO_IOMMU_UNMAP_DMA, &mut unmap).is_ok() {
            self.space.lock().unwrap_or_else(PoisonError::into_inner).give_back(iova);
        }
    }
}

/// Opens a group, puts it into a container of the kind that `kind` chooses, and opens the device.
pub(super) fn open_group(
    address: PciAddress,
    group_name: &str,
    kind: impl FnOnce(&File) -> i32,
) -> Result<(File, File, OwnedFd), EngineError> {
    let container = open_node(Path::new(CONTAINER))?;
    if ioctl::with_number(&container, ioctl::VFIO_GET_API_VERSION, 0) != Ok(ioctl::VFIO_API_VERSION) {
        return Err(EngineError::unsupported("this kernel's VFIO has another interface: use another kernel"));
    }
    let group = open_node(&Path::new("/dev/vfio").join(group_name))?;
    let mut status = GroupStatus::sized();
    ioctl::with(&group, ioctl::VFIO_GROUP_GET_STATUS, &mut status)
        .map_err(|e| call("VFIO_GROUP_GET_STATUS", e))?;
    if status.flags & ioctl::VFIO_GROUP_FLAGS_VIABLE == 0 {
        return Err(EngineError::unsupported(format!(
            "the IOMMU group {group_name} of {address} has devices that other drivers use: see \
             /sys/bus/pci/devices/{address}/iommu_group/devices; use a drive in another slot"
        )));
    }
    ioctl::set_container(&group, &container).map_err(|errno| call("VFIO_GROUP_SET_CONTAINER", errno))?;
    ioctl::with_number(&container, ioctl::VFIO_SET_IOMMU, kind(&container)).map_err(|errno| {
        let remedy = match errno {
            libc::EPERM => {
                ": the IOMMU does not remap interrupts; if you trust the device, `modprobe vfio_iommu_type1 \
                 allow_unsafe_interrupts=1`"
            }
            libc::ENODEV | libc::EINVAL => ": `modprobe vfio_iommu_type1`",
            _ => "",
        };
        EngineError::call("VFIO_SET_IOMMU", errno, remedy.to_owned())
    })?;
    let name = CString::new(address.to_string()).unwrap_or_default();
    let device = ioctl::device_fd(&group, &name).map_err(|errno| call("VFIO_GROUP_GET_DEVICE_FD", errno))?;
    Ok((container, group, device))
}

/// The ranges on x86 of every kernel before 5.4, which does not report them: below and above the window of
/// interrupts.
const USUAL: [RangeInclusive<u64>; 2] = [0..=0xfedf_ffff, 0xfef0_0000..=(1 << 39) - 1];

/// The addresses that may be mapped (`VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE`).
fn ranges(container: &File) -> Vec<RangeInclusive<u64>> {
    let mut info = Type1Info::sized();
    if ioctl::with(container, ioctl::VFIO_IOMMU_GET_INFO, &mut info).is_err()
        || info.flags & ioctl::VFIO_IOMMU_INFO_CAPS == 0
    {
        return USUAL.to_vec();
    }
    let mut argument = vec![0u64; (info.argsz as usize).div_ceil(8)];
    match ioctl::with_bytes(container, ioctl::VFIO_IOMMU_GET_INFO, &mut argument) {
        Ok(_) => parse_ranges(&argument).unwrap_or_else(|| USUAL.to_vec()),
        Err(_) => USUAL.to_vec(),
    }
}

/// Finds the ranges in a `struct vfio_iommu_type1_info` with its chain of capabilities
/// (`struct vfio_info_cap_header`: id `u16`, version `u16`, offset of the next `u32`).
fn parse_ranges(info: &[u64]) -> Option<Vec<RangeInclusive<u64>>> {
    let bytes: Vec<u8> = info.iter().flat_map(|word| word.to_le_bytes()).collect();
    let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let mut at = u32_at(16)? as usize;
    // Each link must lead forward, or the chain would have no end.
    while at != 0 {
        if u32_at(at)? as u16 == ioctl::VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE {
            let count = u32_at(at + 8)? as usize;
            return (0..count)
                .map(|range| Some(u64_at(at + 16 + 16 * range)?..=u64_at(at + 24 + 16 * range)?))
                .collect();
        }
        let next = u32_at(at + 4)? as usize;
        at = if next > at { next } else { 0 };
    }
    None
}

/// The device's address space: the ranges that may be used, and those in use.
struct IovaSpace {
    ranges: Vec<RangeInclusive<u64>>,
    /// Lengths by start.
    taken: BTreeMap<u64, u64>,
}

/// Nothing is mapped below this: an address at or near zero is a mistake.
const LOWEST: u64 = 1 << 20;
/// Mappings of at least this length begin at a multiple of it, so the IOMMU can use huge pages.
const LARGE: u64 = 2 << 20;

impl IovaSpace {
    fn new(ranges: Vec<RangeInclusive<u64>>) -> IovaSpace {
        IovaSpace { ranges, taken: BTreeMap::new() }
    }

    /// The lowest free range of `len` bytes, whole pages.
    fn take(&mut self, len: u64) -> Option<u64> {
        let align = if len >= LARGE { LARGE } else { PAGE as u64 };
        let free = |start: u64| {
            self.taken.range(..start + len).next_back().filter(|(begin, held)| *begin + *held > start)
        };
        for range in &self.ranges {
            let mut start = (*range.start()).max(LOWEST).next_multiple_of(align);
            while start.checked_add(len - 1).is_some_and(|last| last <= *range.end()) {
                match free(start) {
                    Some((begin, held)) => start = (begin + held).next_multiple_of(align),
                    None => {
                        self.taken.insert(start, len);
                        return Some(start);
                    }
                }
            }
        }
        None
    }

    fn give_back(&mut self, start: u64) {
        self.taken.remove(&start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_are_found_in_the_chain() {
        // Header of 24 bytes; a capability of another kind; then two ranges.
        let info = [0, 0, 24, 3 | 40 << 32, 0, 1 | 1 << 16, 2, 0, 0xfedf_ffff, 0xfef0_0000, 0xffff_ffff];
        assert_eq!(parse_ranges(&info).unwrap(), [0..=0xfedf_ffff, 0xfef0_0000..=0xffff_ffff]);
        assert_eq!(parse_ranges(&info[..8]), None, "cut off");
        assert_eq!(parse_ranges(&[0, 0, 0]), None, "no chain");
        assert_eq!(parse_ranges(&[0, 0, 24, 3 | 24 << 32]), None, "a chain that goes round");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn what_is_taken_never_overlaps_and_lies_in_the_ranges(
            steps in prop::collection::vec((any::<bool>(), 1u64..2000), 1..60),
        ) {
            let ranges = vec![0..=0x2f_ffff, 0x40_0000..=0x9f_ffff];
            let mut space = IovaSpace::new(ranges.clone());
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (take, pages) in steps {
                let len = pages * PAGE as u64;
                if !take && !held.is_empty() {
                    let (start, _) = held.swap_remove(pages as usize % held.len());
                    space.give_back(start);
                } else if let Some(start) = space.take(len) {
                    let last = start + len - 1;
                    prop_assert!(ranges.iter().any(|range| range.contains(&start) && range.contains(&last)));
                    let apart = |(other, length): &(u64, u64)| last < *other || other + length <= start;
                    prop_assert!(held.iter().all(apart));
                    prop_assert!(start >= LOWEST && (len < LARGE || start.is_multiple_of(LARGE)));
                    held.push((start, len));
                }
            }
            for (start, _) in held {
                space.give_back(start);
            }
            prop_assert_eq!(space.take(0x50_0000), Some(0x40_0000));
        }
    }
}
