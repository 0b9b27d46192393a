//! A PCI function through VFIO: its registers and configuration space mapped or read, its vectors, its
//! memory.
//!
//! Source: Documentation/driver-api/vfio.rst; include/uapi/linux/vfio.h. `container` (type1),
//! `iommufd` and `no_iommu` map memory.

mod calls;
mod container;
mod ioctl;
mod iommufd;
pub(crate) mod no_iommu;

use self::ioctl::{Argument, IrqInfo, IrqSet, RegionInfo};
use super::device::{Device, HugePages, PageRange, Registers};
use super::irq::{self, Watch};
use super::registers::DOORBELLS;
use crate::error::EngineError;
use crate::mmap::Mmap;
use crate::pci::{Isolation, PciAddress};
use calls::{call, consecutive, group, map_error, open_node};
use container::Container;
use iommufd::Iommufd;
use no_iommu::Physical;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Offset of the command register in configuration space, and its bits: memory space, bus master, no
/// interrupt by line (PCI 3.0, 6.2.2).
const COMMAND: u64 = 4;
const MEMORY_SPACE: u16 = 1 << 1;
const BUS_MASTER: u16 = 1 << 2;
const INTX_DISABLE: u16 = 1 << 10;

/// How the device's accesses to memory are translated.
enum Translation {
    Type1(Container),
    Iommufd(Iommufd),
    Physical(#[expect(dead_code, reason = "open as long as the device")] Physical),
}

/// A function that is bound to vfio-pci, open for this process alone. Fields are dropped in order: the watch
/// ends before its device is closed, and the device is closed before what maps its memory.
pub(super) struct Vfio {
    watch: Watch,
    /// The holder of a pointer into them (`Registers::mapped`) keeps the device alive.
    registers: Mmap,
    vectors: u32,
    /// Where configuration space lies in the device's file.
    config_at: u64,
    device: File,
    space: Translation,
}

impl Vfio {
    pub(super) fn open(address: PciAddress, isolation: Isolation) -> Result<Vfio, EngineError> {
        let folder = PathBuf::from(format!("/sys/bus/pci/devices/{address}"));
        require_bound(address, &folder)?;
        let (device, space) = match isolation {
            Isolation::None => {
                let (device, space) = no_iommu::open(address, &folder)?;
                (device, Translation::Physical(space))
            }
            Isolation::Iommu => match Iommufd::open(address, &folder) {
                Some(Ok((device, space))) => (device, Translation::Iommufd(space)),
                Some(Err(error)) if !Path::new(container::CONTAINER).exists() => return Err(error),
                // No iommufd, or one that does not take the device: the group is the classic way.
                _ => {
                    let (device, space) = Container::open(address, &folder)?;
                    (device, Translation::Type1(space))
                }
            },
        };
        let config_at = region(&device, ioctl::VFIO_PCI_CONFIG_REGION_INDEX)?.offset;
        let device = File::from(device);
        set_command(&device, config_at, MEMORY_SPACE, BUS_MASTER)
            .map_err(|e| EngineError::failed("enabling the memory space (pwrite)", e))?;
        let registers = map_registers(&device, address)?;
        let vectors = irq_count(&device, ioctl::VFIO_PCI_MSIX_IRQ_INDEX);
        let watch = watch(&device)?;
        Ok(Vfio { watch, registers, vectors, config_at, device, space })
    }
}

/// Refuses a function that another driver has, or none.
fn require_bound(address: PciAddress, folder: &Path) -> Result<(), EngineError> {
    if !folder.exists() {
        return Err(EngineError::unsupported(format!("there is no PCI device {address}: see `lspci -D`")));
    }
    let driver = folder.join("driver").read_link().ok();
    let driver =
        driver.as_deref().and_then(Path::file_name).map_or("no driver".into(), |name| name.to_string_lossy());
    if driver == "vfio-pci" {
        return Ok(());
    }
    Err(EngineError::unsupported(format!(
        "{address} is bound to {driver} and not to vfio-pci: take it with `--take-device {address}`"
    )))
}

fn region(device: &impl AsRawFd, index: u32) -> Result<RegionInfo, EngineError> {
    let mut info = RegionInfo { index, ..RegionInfo::sized() };
    ioctl::with(device, ioctl::VFIO_DEVICE_GET_REGION_INFO, &mut info)
        .map_err(|errno| call("VFIO_DEVICE_GET_REGION_INFO", errno))?;
    Ok(info)
}

/// Sets and clears bits of the command register; returns its new value.
fn set_command(device: &File, config_at: u64, set: u16, clear: u16) -> std::io::Result<u16> {
    let mut bytes = [0; 2];
    device.read_exact_at(&mut bytes, config_at + COMMAND)?;
    let command = (u16::from_le_bytes(bytes) | set) & !clear;
    device.write_all_at(&command.to_le_bytes(), config_at + COMMAND)?;
    device.read_exact_at(&mut bytes, config_at + COMMAND)?;
    Ok(u16::from_le_bytes(bytes))
}

fn irq_count(device: &impl AsRawFd, index: u32) -> u32 {
    let mut info = IrqInfo { index, ..IrqInfo::sized() };
    // An index that the kernel does not know has no vector.
    ioctl::with(device, ioctl::VFIO_DEVICE_GET_IRQ_INFO, &mut info).map_or(0, |_| info.count)
}

/// Lets vector n signal `events[n]`.
fn set_events(device: &impl AsRawFd, index: u32, events: &[impl AsRawFd]) -> Result<(), i32> {
    let events: Vec<i32> = events.iter().map(AsRawFd::as_raw_fd).collect();
    set_vectors(device, index, 0, &events)
}

/// Lets vector `first` + n signal the event whose descriptor is `events[n]`, or nothing where that is -1.
fn set_vectors(device: &impl AsRawFd, index: u32, first: u32, events: &[i32]) -> Result<(), i32> {
    let header = size_of::<IrqSet>();
    let mut argument = vec![0u64; (header + 4 * events.len()).div_ceil(8)];
    let flags = ioctl::VFIO_IRQ_SET_DATA_EVENTFD | ioctl::VFIO_IRQ_SET_ACTION_TRIGGER;
    let words = [0, flags, index, first, events.len() as u32]
        .into_iter()
        .chain(events.iter().map(|event| *event as u32));
    for (at, word) in words.enumerate() {
        argument[at / 2] |= u64::from(word) << (32 * (at % 2));
    }
    ioctl::with_bytes(device, ioctl::VFIO_DEVICE_SET_IRQS, &mut argument).map(drop)
}

/// Watches for the kernel's request to have the device back and, where the device reports them, for errors of
/// its link.
fn watch(device: &File) -> Result<Watch, EngineError> {
    let mut events = Vec::new();
    for index in [ioctl::VFIO_PCI_REQ_IRQ_INDEX, ioctl::VFIO_PCI_ERR_IRQ_INDEX] {
        if irq_count(device, index) > 0 {
            let event = irq::event()?;
            // Only a PCI Express device reports errors.
            if set_events(device, index, std::slice::from_ref(&event)).is_ok() {
                events.push(event);
            }
        }
    }
    Watch::start(events)
}

fn map_registers(device: &File, address: PciAddress) -> Result<Mmap, EngineError> {
    let info = region(device, ioctl::VFIO_PCI_BAR0_REGION_INDEX)?;
    if info.flags & ioctl::VFIO_REGION_INFO_FLAG_MMAP == 0 || info.size < DOORBELLS as u64 + 16 {
        return Err(EngineError::unsupported(format!(
            "{address} has no registers that can be mapped (BAR 0 of {} bytes): is it an NVMe controller?",
            info.size
        )));
    }
    Mmap::of_file(device, info.offset, info.size as usize, 0).map_err(|errno| call("mmap (registers)", errno))
}

impl Vfio {
    /// The address of a register of `T`, which is aligned.
    #[inline]
    fn register<T>(&self, at: usize) -> NonNull<T> {
        assert!(at.is_multiple_of(size_of::<T>()), "a register");
        self.registers.at(at, size_of::<T>()).cast()
    }
}

impl Registers for Vfio {
    fn read32(&self, at: usize) -> u32 {
        // SAFETY: `register` gave an aligned register within the mapping; likewise in the three that follow.
        unsafe { self.register::<u32>(at).read_volatile() }
    }

    #[inline]
    fn write32(&self, at: usize, value: u32) {
        // SAFETY: as in `read32`.
        unsafe { self.register::<u32>(at).write_volatile(value) }
    }

    fn mapped(&self, at: usize) -> Option<NonNull<u32>> {
        Some(self.register(at))
    }

    fn read64(&self, at: usize) -> u64 {
        // SAFETY: as in `read32`.
        unsafe { self.register::<u64>(at).read_volatile() }
    }

    fn write64(&self, at: usize, value: u64) {
        // SAFETY: as in `read32`.
        unsafe { self.register::<u64>(at).write_volatile(value) }
    }
}

impl Device for Vfio {
    fn registers_len(&self) -> usize {
        self.registers.len()
    }

    fn huge_pages(&self) -> HugePages {
        if matches!(self.space, Translation::Physical(_)) {
            HugePages::Required
        } else {
            HugePages::Preferred
        }
    }

    fn map(&self, memory: &PageRange) -> Result<Box<[u64]>, EngineError> {
        match &self.space {
            Translation::Type1(container) => container.map(memory),
            Translation::Iommufd(iommufd) => iommufd.map(memory),
            Translation::Physical(_) => no_iommu::map(memory),
        }
    }

    fn unmap(&self, pages: &[u64]) {
        match &self.space {
            Translation::Type1(container) => container.unmap(pages),
            Translation::Iommufd(iommufd) => iommufd.unmap(pages),
            Translation::Physical(_) => {}
        }
    }

    fn admit(&self) -> Result<(), EngineError> {
        set_command(&self.device, self.config_at, BUS_MASTER, 0)
            .map(drop)
            .map_err(|e| EngineError::failed("enabling the bus master (pwrite)", e))
    }

    fn cut_off(&self) -> bool {
        // A device that is gone reads as all ones, except for the bit that VFIO answers itself
        // (drivers/vfio/pci/vfio_pci_config.c, `init_pci_cap_basic_perm`); a device that is not there reads
        // no memory.
        set_command(&self.device, self.config_at, 0, BUS_MASTER)
            .is_ok_and(|command| command | INTX_DISABLE == u16::MAX || command & BUS_MASTER == 0)
    }

    fn vectors(&self) -> u32 {
        self.vectors
    }

    fn arm(&self, events: &[Arc<OwnedFd>]) -> Result<(), EngineError> {
        set_events(&self.device, ioctl::VFIO_PCI_MSIX_IRQ_INDEX, events).map_err(|errno| {
            let count = events.len();
            EngineError::call(
                "VFIO_DEVICE_SET_IRQS",
                errno,
                format!(": {count} vectors (MSI-X) were asked for; poll instead"),
            )
        })
    }

    fn arm_one(&self, vector: u16, event: Option<&OwnedFd>) -> Result<(), EngineError> {
        // -1 frees the vector, so its entry of the device's table is masked
        // (drivers/vfio/pci/vfio_pci_intrs.c).
        let event = event.map_or(-1, AsRawFd::as_raw_fd);
        set_vectors(&self.device, ioctl::VFIO_PCI_MSIX_IRQ_INDEX, vector.into(), &[event]).map_err(|errno| {
            EngineError::call("VFIO_DEVICE_SET_IRQS", errno, format!(": vector {vector} (MSI-X)"))
        })
    }

    fn asked_back(&self) -> Arc<AtomicBool> {
        Arc::clone(self.watch.asked())
    }

    fn vfio(&self) -> &'static str {
        match self.space {
            Translation::Type1(_) => "type1",
            Translation::Iommufd(_) => "iommufd",
            Translation::Physical(_) => "no-iommu",
        }
    }
}
