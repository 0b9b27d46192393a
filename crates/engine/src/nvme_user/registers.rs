//! The registers of an NVMe controller: where they are, what they say, and how it is started and stopped.
//!
//! Source: NVM Express Base Specification 2.0, section 3.1 (controller properties); PCIe Transport
//! Specification 1.0, section 3.1 (doorbells).

use super::device::{Device, PAGE};
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
/// What a device reads as once it is gone.
const ALL_ONES: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum ControllerEnd {
    /// It was reset at the end of its use, or because its queues could not be deleted.
    Closed = 1,
    /// A command did not end.
    Late,
    /// It reported its own failure (`CSTS.CFS`).
    Fatal,
    /// It is no longer ready (`CSTS.RDY`), though this process has not stopped it.
    Stopped,
    /// It reads as all ones: it was pulled, or its link is down.
    Gone,
}

impl ControllerEnd {
    pub(super) fn from_number(number: u8) -> Option<ControllerEnd> {
        use ControllerEnd::{Closed, Fatal, Gone, Late, Stopped};
        [Closed, Late, Fatal, Stopped, Gone].into_iter().find(|end| *end as u8 == number)
    }

    /// The errno of the commands that are then in flight.
    pub(super) fn errno(self) -> i32 {
        match self {
            ControllerEnd::Closed => libc::ECANCELED,
            ControllerEnd::Late => libc::ETIMEDOUT,
            ControllerEnd::Fatal | ControllerEnd::Stopped => libc::EIO,
            ControllerEnd::Gone => libc::ENODEV,
        }
    }
}

/// Why an enabled controller has ended, by CSTS; `None` if it has not.
pub(super) fn health(device: &dyn Device) -> Option<ControllerEnd> {
    match device.read32(CSTS) {
        ALL_ONES => Some(ControllerEnd::Gone),
        status if status & FATAL != 0 => Some(ControllerEnd::Fatal),
        status if status & READY == 0 => Some(ControllerEnd::Stopped),
        _ => None,
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

/// Why this driver cannot drive a controller. The text follows the controller's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unsuitable {
    #[error("does not answer (all ones): it is powered down or was pulled; plug it in again")]
    NoAnswer,
    #[error("implements NVMe {major}.{minor}, and this driver needs 1.2 or newer: use another path")]
    Version { major: u32, minor: u32 },
    #[error("takes memory pages of {0} bytes or more, and this driver has {PAGE}: use another path")]
    Pages(u64),
    #[error("has no NVM command set: use another drive")]
    CommandSet,
}

/// What this driver needs of a controller.
pub(super) fn require(device: &dyn Device) -> Result<Capabilities, Unsuitable> {
    let version = device.read32(VS);
    let capabilities = Capabilities::read(device);
    match capabilities.smallest_page() {
        _ if version == ALL_ONES => Err(Unsuitable::NoAnswer),
        _ if version < 0x1_0200 => {
            Err(Unsuitable::Version { major: version >> 16, minor: version >> 8 & 0xff })
        }
        page if page > PAGE as u64 => Err(Unsuitable::Pages(page)),
        _ if capabilities.command_set().is_none() => Err(Unsuitable::CommandSet),
        _ => Ok(capabilities),
    }
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
            // It is starting, and must not be stopped before it is ready; if it never becomes ready, try
            // anyway.
            let _ = await_ready(device, capabilities, true);
        }
        device.write32(CC, configuration & !ENABLE);
    }
    await_ready(device, capabilities, false)
}

/// Stops a controller that was enabled; true if it was seen to stop. One that does not read as enabled may
/// have been reset, or may be running with its memory space off; that does not count as stopped.
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
    use super::super::sim::{Behaviour, SimController};
    use super::*;

    #[test]
    fn a_controller_of_nvme_2_says_how_long_its_media_take() {
        // The simulated controller's CAP.TO is one unit; CRIMT is in the upper half of CRTO.
        for (crto, ready_ms) in [(None, 500), (Some(0x0001_0078), 60_000), (Some(0xffff_0000), 500)] {
            let sim = SimController::new(Behaviour { crto, ..Behaviour::default() }, Vec::new());
            let capabilities = require(&sim).unwrap();
            assert_eq!(capabilities.limit(true).as_millis(), ready_ms, "{crto:?}");
            assert_eq!(capabilities.limit(false).as_millis(), 500, "to stop, {crto:?}");
        }
    }
}
