//! What an NVMe driver needs of its device, behind a trait: the real device is in `vfio`, the simulated one
//! in `sim`.

use crate::error::EngineError;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Bytes of a memory page as this driver sets it (`CC.MPS` = 0).
pub(super) const PAGE: usize = 4096;

/// Memory of this process that is mapped for a device: whole pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageRange {
    pub(super) base: NonNull<u8>,
    pub(super) len: usize,
    /// True if it lies in huge pages.
    pub(super) is_huge: bool,
}

/// Access to the registers of a controller.
pub(super) trait Registers {
    /// Reads 32 bits at a byte offset.
    fn read32(&self, at: usize) -> u32;
    /// Writes 32 bits at a byte offset.
    fn write32(&self, at: usize, value: u32);
    /// The address of the 32 bits at a byte offset, valid as long as `self`, if a store there does what
    /// [`Registers::write32`] does; `None` if it would have no effect.
    fn mapped(&self, at: usize) -> Option<NonNull<u32>>;
    /// Reads 64 bits at a byte offset.
    fn read64(&self, at: usize) -> u64;
    /// Writes 64 bits at a byte offset.
    fn write64(&self, at: usize, value: u64);
}

/// Whether memory for the device comes in huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HugePages {
    /// If one is free.
    Preferred,
    /// Always: without an IOMMU only they stay in place.
    Required,
}

/// A PCI function that this process drives.
pub(super) trait Device: Registers + Send + Sync {
    /// Length of the registers in bytes.
    fn registers_len(&self) -> usize;
    /// How memory for it must be made.
    fn huge_pages(&self) -> HugePages;
    /// Lets the device read and write `memory`; returns the address of each of its pages as the device sees
    /// it.
    ///
    /// # Errors
    /// The kernel refuses, or the memory is not suitable.
    fn map(&self, memory: &PageRange) -> Result<Box<[u64]>, EngineError>;
    /// Takes back what `map` gave. Where the kernel refuses, it keeps the pages pinned: nobody else gets
    /// them.
    fn unmap(&self, pages: &[u64]);
    /// Lets it access memory. It must have been seen to stop: before that it may still use memory of a former
    /// owner.
    ///
    /// # Errors
    /// Its configuration cannot be written.
    fn admit(&self) -> Result<(), EngineError>;
    /// Cuts the device off from memory; true if that was seen to take effect.
    fn cut_off(&self) -> bool;
    fn vectors(&self) -> u32;
    /// Signals `events[n]` by vector n.
    ///
    /// # Errors
    /// The kernel refuses.
    fn arm(&self, events: &[Arc<OwnedFd>]) -> Result<(), EngineError>;
    /// Signals `event` by a vector that `arm` has armed before, or nothing until it is armed again. An
    /// interrupt that the device holds back meanwhile comes then.
    ///
    /// # Errors
    /// The kernel refuses.
    fn arm_one(&self, vector: u16, event: Option<&OwnedFd>) -> Result<(), EngineError>;
    /// Becomes true when the kernel asks for the device back, or reports an error of its link.
    fn asked_back(&self) -> Arc<AtomicBool>;
    /// `type1`, `iommufd` or `no-iommu`.
    fn vfio(&self) -> &'static str;
}
