//! The registers of an NVMe controller, and what else its driver needs of the device, behind a trait: the
//! real device (`vfio`), or a simulated one in tests.
//!
//! Source: NVM Express Base Specification 2.0, section 3.1 (controller properties); PCIe Transport
//! Specification 1.0, section 3.1 (doorbells).

use super::dma::Memory;
use crate::engine::EngineError;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const CAP: usize = 0x00;
pub(super) const VS: usize = 0x08;
pub(super) const CC: usize = 0x14;
pub(super) const CSTS: usize = 0x1c;
pub(super) const AQA: usize = 0x24;
pub(super) const ASQ: usize = 0x28;
pub(super) const ACQ: usize = 0x30;
/// Controller Ready Timeouts, from NVMe 2.0 on (`CAP.CRMS`).
pub(super) const CRTO: usize = 0x68;
/// The first doorbell: the admin submission queue's tail.
pub(super) const DOORBELLS: usize = 0x1000;

/// `CC.EN`.
const ENABLE: u32 = 1;
/// `CSTS.RDY` and `CSTS.CFS`.
const READY: u32 = 1;
const FATAL: u32 = 1 << 1;
/// What a device that is not there any more answers.
const ALL_ONES: u32 = u32::MAX;

/// Bytes of a memory page as this driver sets it (`CC.MPS` = 0).
pub(super) const PAGE: usize = 4096;

/// Access to the registers of a controller.
pub(super) trait Registers {
    /// Reads 32 bits at a byte offset.
    fn read32(&self, at: usize) -> u32;
    /// Writes 32 bits at a byte offset.
    fn write32(&self, at: usize, value: u32);
    /// The 32 bits at a byte offset, where a store does what [`Registers::write32`] does; they are there as
    /// long as `self`. `None` where a store would reach nobody.
    fn mapped(&self, at: usize) -> Option<NonNull<u32>>;
    /// Reads 64 bits at a byte offset.
    fn read64(&self, at: usize) -> u64;
    /// Writes 64 bits at a byte offset.
    fn write64(&self, at: usize, value: u64);
}

/// Whether memory for the device comes in huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HugePages {
    /// Where there is one.
    Preferred,
    /// Always: without an IOMMU only they stay where they are.
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
    /// The kernel refuses, or the memory does not suit.
    fn map(&self, memory: &Memory) -> Result<Box<[u64]>, EngineError>;
    /// Takes back what `map` gave. Where the kernel refuses, it keeps the pages pinned: nobody else gets
    /// them.
    fn unmap(&self, pages: &[u64]);
    /// Lets it reach memory: once it was seen stopped, for what it did before, it did with memory of others.
    ///
    /// # Errors
    /// Its configuration cannot be written.
    fn admit(&self) -> Result<(), EngineError>;
    /// Forbids the device every access to memory; true if that was seen to hold.
    fn cut_off(&self) -> bool;
    /// The number of interrupt vectors.
    fn vectors(&self) -> u32;
    /// Signals `events[n]` by vector n.
    ///
    /// # Errors
    /// The kernel refuses.
    fn arm(&self, events: &[RawFd]) -> Result<(), EngineError>;
    /// Becomes true when the kernel asks for the device back, or reports an error of its link.
    fn asked_back(&self) -> Arc<AtomicBool>;
    /// `type1`, `iommufd` or `no-iommu`.
    fn vfio(&self) -> &'static str;
}

/// What CSTS tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Health {
    Fine,
    /// The controller has failed (`CSTS.CFS`).
    Fatal,
    /// It is not ready any more (`CSTS.RDY`), though nobody here has stopped it.
    Stopped,
    /// It answers with ones only: it was pulled, or its link is down.
    Gone,
}

/// How an enabled controller is.
pub(super) fn health(device: &dyn Device) -> Health {
    match device.read32(CSTS) {
        ALL_ONES => Health::Gone,
        status if status & FATAL != 0 => Health::Fatal,
        status if status & READY == 0 => Health::Stopped,
        _ => Health::Fine,
    }
}

/// The controller's capabilities (`CAP`), and how long it may take to become ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capabilities {
    cap: u64,
    /// In units of 500 ms.
    ready_units: u32,
}

/// The unit of `CAP.TO` and `CRTO`.
const READY_UNIT: Duration = Duration::from_millis(500);

impl Capabilities {
    pub(super) fn read(device: &dyn Device) -> Capabilities {
        /// `CAP.CRMS` bit 0: it can become ready with its media (CC.CRIME = 0, as this driver starts it).
        const READY_WITH_MEDIA: u64 = 1 << 59;
        let cap = device.read64(CAP);
        let timeout = (cap >> 24 & 0xff) as u32;
        // CRWMT; some give less than CAP.TO, as Linux says (drivers/nvme/host/core.c, `nvme_enable_ctrl`).
        let with_media = if cap & READY_WITH_MEDIA != 0 { device.read32(CRTO) & 0xffff } else { 0 };
        Capabilities { cap, ready_units: timeout.max(with_media) }
    }

    /// The most entries of an I/O queue (`MQES`, which is zero-based).
    pub(super) fn most_entries(self) -> u32 {
        (self.cap & 0xffff) as u32 + 1
    }

    /// How long the controller may take to become ready (the larger of `TO` and `CRTO.CRWMT`) or to stop
    /// (`TO`).
    pub(super) fn limit(self, ready: bool) -> Duration {
        let units = if ready { self.ready_units } else { (self.cap >> 24 & 0xff) as u32 };
        READY_UNIT * units.max(1)
    }

    /// Bytes from one doorbell to the next (`DSTRD`).
    pub(super) fn stride(self) -> usize {
        4 << (self.cap >> 32 & 0xf)
    }

    /// The smallest memory page in bytes (`MPSMIN`).
    pub(super) fn smallest_page(self) -> u64 {
        1 << (12 + (self.cap >> 48 & 0xf))
    }

    /// The command set to choose in `CC.CSS`, by `CAP.CSS`: the NVM command set, or all that the controller
    /// has.
    fn command_set(self) -> Option<u32> {
        match self.cap >> 37 & 0xff {
            sets if sets & 1 != 0 => Some(0),
            sets if sets & 1 << 6 != 0 => Some(6),
            _ => None,
        }
    }
}

/// What this driver needs of a controller.
///
/// # Errors
/// The sentence's rest that says what the controller lacks.
pub(super) fn require(device: &dyn Device) -> Result<Capabilities, String> {
    let version = device.read32(VS);
    let capabilities = Capabilities::read(device);
    if version == ALL_ONES {
        return Err("answers no register access (all ones): it is powered down or pulled; plug it in again"
            .to_owned());
    }
    if version < 0x1_0200 {
        let (major, minor) = (version >> 16, version >> 8 & 0xff);
        return Err(format!(
            "is of NVMe {major}.{minor} and this driver needs 1.2 or newer: use another path"
        ));
    }
    if capabilities.smallest_page() > PAGE as u64 {
        let least = capabilities.smallest_page();
        return Err(format!(
            "takes memory pages of {least} bytes or more and this driver has {PAGE}: use another path"
        ));
    }
    if capabilities.command_set().is_none() {
        return Err("has no NVM command set: use another drive".to_owned());
    }
    Ok(capabilities)
}

/// Why a controller did not become ready, or did not stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stuck {
    Late,
    Fatal,
    Gone,
}

/// Waits until `CSTS.RDY` is as wanted, for at most the controller's own limit.
fn await_ready(device: &dyn Device, capabilities: Capabilities, ready: bool) -> Result<(), Stuck> {
    let deadline = Instant::now() + capabilities.limit(ready);
    loop {
        match device.read32(CSTS) {
            ALL_ONES => return Err(Stuck::Gone),
            status if ready && status & FATAL != 0 => return Err(Stuck::Fatal),
            status if (status & READY != 0) == ready => return Ok(()),
            _ if Instant::now() > deadline => return Err(Stuck::Late),
            _ => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}

/// Resets the controller: after `Ok` it has stopped, forgotten its queues and touches no memory.
pub(super) fn disable(device: &dyn Device, capabilities: Capabilities) -> Result<(), Stuck> {
    let configuration = device.read32(CC);
    if configuration == ALL_ONES {
        return Err(Stuck::Gone);
    }
    if configuration & ENABLE != 0 {
        if device.read32(CSTS) & READY == 0 {
            // It is on its way up and must not be stopped before it is there; where it never gets there, try.
            let _ = await_ready(device, capabilities, true);
        }
        device.write32(CC, configuration & !ENABLE);
    }
    await_ready(device, capabilities, false)
}

/// Stops a controller that was enabled; true if it was seen to stop. One that does not say that it is enabled
/// may have been reset, or it may be running unseen, with its memory space off: that is no answer.
pub(super) fn stop(device: &dyn Device, capabilities: Capabilities) -> bool {
    device.read32(CC) & ENABLE != 0 && disable(device, capabilities).is_ok()
}

/// Starts the controller on its admin queues, whose addresses and lengths have been written.
pub(super) fn enable(device: &dyn Device, capabilities: Capabilities) -> Result<(), Stuck> {
    const SUBMISSION_ENTRY_SHIFT: u32 = 6;
    const COMPLETION_ENTRY_SHIFT: u32 = 4;
    let command_set = capabilities.command_set().unwrap_or(0);
    device
        .write32(CC, ENABLE | command_set << 4 | SUBMISSION_ENTRY_SHIFT << 16 | COMPLETION_ENTRY_SHIFT << 20);
    await_ready(device, capabilities, true)
}

#[cfg(test)]
mod tests {
    use super::super::sim::{Behaviour, Sim};
    use super::*;

    #[test]
    fn a_controller_of_nvme_2_says_itself_how_long_its_media_take() {
        // The simulated controller's CAP.TO is one unit; CRIMT stands in the upper half of CRTO.
        for (crto, ready_ms) in [(None, 500), (Some(0x0001_0078), 60_000), (Some(0xffff_0000), 500)] {
            let sim = Sim::new(Behaviour { crto, ..Behaviour::default() }, Vec::new());
            let capabilities = require(&sim).unwrap();
            assert_eq!(capabilities.limit(true).as_millis(), ready_ms, "{crto:?}");
            assert_eq!(capabilities.limit(false).as_millis(), 500, "to stop, {crto:?}");
        }
    }
}
