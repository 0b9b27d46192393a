//! The ioctls of VFIO and iommufd, and their structs.
//!
//! Sources: include/uapi/linux/vfio.h, include/uapi/linux/iommufd.h (Linux 6.18).

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `_IO(';', number)`: all of these ioctls carry no size; the struct says its own.
const fn io(number: u64) -> u64 {
    (b';' as u64) << 8 | number
}

pub(super) const VFIO_API_VERSION: i32 = 0;
pub(super) const VFIO_TYPE1_IOMMU: i32 = 1;
pub(super) const VFIO_TYPE1V2_IOMMU: i32 = 3;
pub(super) const VFIO_NOIOMMU_IOMMU: i32 = 8;

pub(super) const VFIO_GET_API_VERSION: u64 = io(100);
pub(super) const VFIO_CHECK_EXTENSION: u64 = io(101);
pub(super) const VFIO_SET_IOMMU: u64 = io(102);
pub(super) const VFIO_GROUP_GET_STATUS: u64 = io(103);
pub(super) const VFIO_GROUP_SET_CONTAINER: u64 = io(104);
pub(super) const VFIO_GROUP_GET_DEVICE_FD: u64 = io(106);
pub(super) const VFIO_DEVICE_GET_REGION_INFO: u64 = io(108);
pub(super) const VFIO_DEVICE_GET_IRQ_INFO: u64 = io(109);
pub(super) const VFIO_DEVICE_SET_IRQS: u64 = io(110);
pub(super) const VFIO_IOMMU_GET_INFO: u64 = io(112);
pub(super) const VFIO_IOMMU_MAP_DMA: u64 = io(113);
pub(super) const VFIO_IOMMU_UNMAP_DMA: u64 = io(114);
pub(super) const VFIO_DEVICE_BIND_IOMMUFD: u64 = io(118);
pub(super) const VFIO_DEVICE_ATTACH_IOMMUFD_PT: u64 = io(119);
pub(super) const IOMMU_IOAS_ALLOC: u64 = io(0x81);
pub(super) const IOMMU_IOAS_MAP: u64 = io(0x85);
pub(super) const IOMMU_IOAS_UNMAP: u64 = io(0x86);

pub(super) const VFIO_GROUP_FLAGS_VIABLE: u32 = 1;
pub(super) const VFIO_REGION_INFO_FLAG_MMAP: u32 = 1 << 2;
pub(super) const VFIO_IOMMU_INFO_CAPS: u32 = 1 << 1;
pub(super) const VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE: u16 = 1;
pub(super) const VFIO_DMA_MAP_FLAG_READ: u32 = 1;
pub(super) const VFIO_DMA_MAP_FLAG_WRITE: u32 = 1 << 1;
pub(super) const VFIO_IRQ_SET_DATA_EVENTFD: u32 = 1 << 2;
pub(super) const VFIO_IRQ_SET_ACTION_TRIGGER: u32 = 1 << 5;
pub(super) const IOMMU_IOAS_MAP_WRITEABLE: u32 = 1 << 1;
pub(super) const IOMMU_IOAS_MAP_READABLE: u32 = 1 << 2;

pub(super) const VFIO_PCI_BAR0_REGION_INDEX: u32 = 0;
pub(super) const VFIO_PCI_CONFIG_REGION_INDEX: u32 = 7;
pub(super) const VFIO_PCI_MSIX_IRQ_INDEX: u32 = 2;
pub(super) const VFIO_PCI_ERR_IRQ_INDEX: u32 = 3;
pub(super) const VFIO_PCI_REQ_IRQ_INDEX: u32 = 4;

/// Plain integers whose first `u32` is the struct's length (`argsz`, or `size`): zero is a valid value of
/// each.
///
/// # Safety
/// The type is `repr(C)`, has only integers and no padding, and begins with such a `u32`.
pub(super) unsafe trait Argument: Sized {
    /// A zeroed struct that says its length.
    fn sized() -> Self {
        // SAFETY: zero is valid by the trait's condition.
        let mut argument: Self = unsafe { std::mem::zeroed() };
        // SAFETY: the struct begins with a `u32`, by the trait's condition.
        unsafe { (&raw mut argument).cast::<u32>().write(size_of::<Self>() as u32) };
        argument
    }
}

macro_rules! arguments {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub(super) struct $name { $(pub(super) $field: $kind),* }

        // SAFETY: only integers, the length first, each aligned by those before it.
        unsafe impl Argument for $name {}
    )*};
}

arguments! {
    /// `struct vfio_group_status`.
    GroupStatus { argsz: u32, flags: u32 }
    /// `struct vfio_region_info`.
    RegionInfo { argsz: u32, flags: u32, index: u32, cap_offset: u32, size: u64, offset: u64 }
    /// `struct vfio_irq_info`.
    IrqInfo { argsz: u32, flags: u32, index: u32, count: u32 }
    /// `struct vfio_irq_set` without its data.
    IrqSet { argsz: u32, flags: u32, index: u32, start: u32, count: u32 }
    /// `struct vfio_iommu_type1_info`.
    Type1Info { argsz: u32, flags: u32, iova_pgsizes: u64, cap_offset: u32, pad: u32 }
    /// `struct vfio_iommu_type1_dma_map`.
    DmaMap { argsz: u32, flags: u32, vaddr: u64, iova: u64, size: u64 }
    /// `struct vfio_iommu_type1_dma_unmap`.
    DmaUnmap { argsz: u32, flags: u32, iova: u64, size: u64 }
    /// `struct vfio_device_bind_iommufd`.
    BindIommufd { argsz: u32, flags: u32, iommufd: i32, out_devid: u32 }
    /// `struct vfio_device_attach_iommufd_pt` as of Linux 6.6; a newer kernel's has more fields, which it
    /// then takes as zero.
    AttachIommufd { argsz: u32, flags: u32, pt_id: u32 }
    /// `struct iommu_ioas_alloc`.
    IoasAlloc { size: u32, flags: u32, out_ioas_id: u32 }
    /// `struct iommu_ioas_map`.
    IoasMap { size: u32, flags: u32, ioas_id: u32, reserved: u32, user_va: u64, length: u64, iova: u64 }
    /// `struct iommu_ioas_unmap`.
    IoasUnmap { size: u32, ioas_id: u32, iova: u64, length: u64 }
}

/// One ioctl with a struct that the kernel reads and fills; its result, or errno.
pub(super) fn with<T: Argument>(fd: &impl AsRawFd, request: u64, argument: &mut T) -> Result<i32, i32> {
    // SAFETY: the kernel reads and writes no more than the length that the struct begins with, which is its
    // own or, where the caller appended data, that of the whole allocation.
    result(unsafe { libc::ioctl(fd.as_raw_fd(), request, std::ptr::from_mut(argument)) })
}

pub(super) fn with_number(fd: &impl AsRawFd, request: u64, number: i32) -> Result<i32, i32> {
    // SAFETY: the kernel takes the argument by value and touches no memory of ours.
    result(unsafe { libc::ioctl(fd.as_raw_fd(), request, libc::c_long::from(number)) })
}

/// `VFIO_GROUP_SET_CONTAINER`, whose argument is a pointer to a descriptor.
pub(super) fn set_container(group: &impl AsRawFd, container: &impl AsRawFd) -> Result<i32, i32> {
    let fd = container.as_raw_fd();
    // SAFETY: the kernel reads one `int` at the pointer.
    result(unsafe { libc::ioctl(group.as_raw_fd(), VFIO_GROUP_SET_CONTAINER, &raw const fd) })
}

/// `VFIO_GROUP_GET_DEVICE_FD`, whose argument is a name.
pub(super) fn device_fd(group: &impl AsRawFd, name: &std::ffi::CStr) -> Result<OwnedFd, i32> {
    // SAFETY: the kernel reads a string that ends with zero.
    let fd = result(unsafe { libc::ioctl(group.as_raw_fd(), VFIO_GROUP_GET_DEVICE_FD, name.as_ptr()) })?;
    // SAFETY: the descriptor is new and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An ioctl on a struct with data after it, in memory of whole `u64`, which begins with its length in bytes.
pub(super) fn with_bytes(fd: &impl AsRawFd, request: u64, argument: &mut [u64]) -> Result<i32, i32> {
    let len = size_of_val(argument) as u64;
    argument[0] = argument[0] >> 32 << 32 | len;
    // SAFETY: the kernel reads and writes no more than the length that the argument begins with.
    result(unsafe { libc::ioctl(fd.as_raw_fd(), request, argument.as_mut_ptr()) })
}

fn result(result: i32) -> Result<i32, i32> {
    if result < 0 { Err(crate::system::last_errno()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that a C compiler gives, from the headers of Linux.
    #[test]
    fn numbers_and_lengths_are_those_of_the_kernel() {
        assert_eq!([VFIO_GET_API_VERSION, VFIO_IOMMU_MAP_DMA, IOMMU_IOAS_MAP], [0x3b64, 0x3b71, 0x3b85]);
        assert_eq!([size_of::<GroupStatus>(), size_of::<RegionInfo>(), size_of::<IrqInfo>()], [8, 32, 16]);
        assert_eq!([size_of::<IrqSet>(), size_of::<DmaMap>(), size_of::<DmaUnmap>()], [20, 32, 24]);
        assert_eq!([size_of::<BindIommufd>(), size_of::<AttachIommufd>()], [16, 12]);
        assert_eq!([size_of::<IoasAlloc>(), size_of::<IoasMap>(), size_of::<IoasUnmap>()], [12, 40, 24]);
        assert_eq!(DmaMap::sized().argsz, 32);
    }
}
