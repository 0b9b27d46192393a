//! A controller that this process drives: opened, identified, its queue pairs handed out, and stopped at the
//! end.

use super::admin::{Admin, AdminFailure};
use super::command::Command;
use super::device::{Device, HugePages, PAGE};
use super::features::{self, Apst, HostMemory, Rules};
use super::identify::{self, ControllerData, IoCounts, NamespaceInfo};
use super::prior_state::{self, FeatureState, PriorState};
use super::queue::ShadowPages;
use super::registers::{self, Capabilities, ControllerEnd, DOORBELLS, Stuck, health};
use super::vfio::Vfio;
use crate::drain::Leaky;
use crate::error::EngineError;
use crate::pci::{Isolation, PciAddress};
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long to wait for each kind of command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// For every command; a late I/O may be noticed a tenth later.
    pub(super) command: Duration,
    /// For a command to come back after its abort, and for the abort itself.
    pub(super) abort: Duration,
    /// For a feature to be set or read: a write cache that is switched off is written out first. As long as
    /// Linux waits.
    pub(super) feature: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            command: Duration::from_secs(10),
            abort: Duration::from_secs(1),
            feature: Duration::from_secs(60),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Setup {
    pub(super) limits: Limits,
    pub(super) rules: Rules,
    /// The drive as it was before the reset.
    pub(super) prior: PriorState,
}

/// A controller as it identifies itself, and as it was set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Model number.
    pub model: String,
    /// Serial number.
    pub serial: String,
    /// Firmware revision.
    pub firmware: String,
    /// I/O queue pairs that the controller granted: engines that it can have at once.
    pub queue_pairs: u32,
    /// The most bytes of one command.
    pub max_transfer_bytes: u32,
    /// Interrupt vectors of the device.
    pub vectors: u32,
    /// True if doorbells have shadows in memory (Doorbell Buffer Config): the drive is emulated.
    pub shadow_doorbells: bool,
    /// Its buffer in the host's memory.
    pub host_memory: HostMemory,
    /// The power states that it enters by itself.
    pub apst: Apst,
    /// Features that a reset loses, and whether they are as under the kernel.
    pub features: Vec<FeatureState>,
    /// How memory is mapped: `type1`, `iommufd` or `no-iommu`.
    pub vfio: &'static str,
}

/// An NVMe controller that is bound to vfio-pci and driven by this process.
///
/// Threads and engines share it by `Arc`. The last one to drop it resets the controller (sets `CC.EN` = 0 and
/// waits for `CSTS.RDY` = 0), unmaps its memory and gives the device back to VFIO, in this order. If the
/// controller is not seen to stop, the memory stays mapped for the life of the process.
pub struct Controller {
    address: PciAddress,
    identity: Identity,
    namespaces: Vec<NamespaceInfo>,
    pub(super) limits: Limits,
    pub(super) capabilities: Capabilities,
    device: Arc<dyn Device>,
    /// Number of the [`ControllerEnd`], or 0.
    end: AtomicU8,
    /// The controller was seen to have stopped: it touches no memory any more.
    stopped: AtomicBool,
    admin: Leaky<Mutex<Admin>>,
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Controller { address, identity, namespaces, .. } = self;
        f.debug_struct("Controller")
            .field("address", address)
            .field("identity", identity)
            .field("namespaces", namespaces)
            .finish_non_exhaustive()
    }
}

impl Controller {
    /// Opens the controller at `address`, which is bound to vfio-pci already: resets it, enables it, asks
    /// what it and its namespaces are, and sets it up as it was under the kernel's driver.
    ///
    /// # Errors
    /// VFIO refuses the device; it is not an NVMe controller of version 1.2 or newer; it is not the drive
    /// of `prior`, nothing of which is then set on it; or it fails. The message says what to do.
    pub fn open(
        address: PciAddress,
        isolation: Isolation,
        prior: &PriorState,
    ) -> Result<Arc<Controller>, EngineError> {
        let rules = Rules::of_kernel(Path::new("/sys"), prior);
        let setup = Setup { rules, prior: prior.clone(), ..Setup::default() };
        Controller::start(address, Arc::new(Vfio::open(address, isolation)?), &setup)
    }

    pub(super) fn start(
        address: PciAddress,
        device: Arc<dyn Device>,
        setup: &Setup,
    ) -> Result<Arc<Controller>, EngineError> {
        let capabilities = registers::require(&*device)
            .map_err(|why| EngineError::controller(format!("{address} {why}")))?;
        registers::disable(&*device, capabilities).map_err(|stuck| stuck_error(address, "stop", stuck))?;
        device.admit()?;
        let admin = Leaky::new(Mutex::new(Admin::new(&device, capabilities)?));
        let identity = Identity { vectors: device.vectors(), vfio: device.vfio(), ..Identity::default() };
        // From here on dropping the controller stops it before its memory goes.
        let mut controller = Controller {
            address,
            identity,
            namespaces: Vec::new(),
            limits: setup.limits,
            capabilities,
            device,
            end: AtomicU8::new(0),
            stopped: AtomicBool::new(false),
            admin,
        };
        registers::enable(&*controller.device, capabilities)
            .map_err(|stuck| stuck_error(address, "start", stuck))?;
        controller.set_up(setup)?;
        Ok(Arc::new(controller))
    }

    /// Its PCI address.
    pub fn address(&self) -> PciAddress {
        self.address
    }

    /// What it says about itself, and how it was set up.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Its active namespaces, usable or not, by identifier.
    pub fn namespaces(&self) -> &[NamespaceInfo] {
        &self.namespaces
    }

    /// The commands that it has counted.
    ///
    /// # Errors
    /// It refuses its SMART / Health Information log, or has ended.
    pub fn io_counts(&self) -> Result<IoCounts, EngineError> {
        const SMART: u32 = 0x02;
        let mut admin = self.serving()?;
        let log = admin.receive_page(|data| Command::log_page(SMART, 512, data), self.limits.command);
        Ok(identify::io_counts(&*log.map_err(|failure| self.failed("its SMART log", failure, &mut admin))?))
    }

    /// Why it ended, if it did.
    #[inline]
    pub(super) fn end(&self) -> Option<ControllerEnd> {
        ControllerEnd::from_number(self.end.load(Ordering::Acquire))
    }

    /// True if it was seen to have stopped: it touches no memory any more.
    pub(super) fn has_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// True if it reaches memory by physical addresses: the memory must be in huge pages.
    pub(crate) fn needs_huge_pages(&self) -> bool {
        self.device.huge_pages() == HugePages::Required
    }

    pub(super) fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Looks at its status; resets one that has failed or is gone.
    pub(super) fn look(&self) -> Option<ControllerEnd> {
        if self.end().is_none()
            && let Some(end) = health(&*self.device)
        {
            self.reset(end);
        }
        self.end()
    }

    /// Ends it for everybody: resets it, or takes its access to memory away if that fails. The first caller's
    /// reason counts.
    pub(super) fn reset(&self, why: ControllerEnd) {
        let _admin = self.admin();
        self.stop(why);
    }

    /// As [`Controller::reset`], with the lock held.
    pub(super) fn stop(&self, why: ControllerEnd) {
        if self.has_stopped() {
            return;
        }
        let stopped = registers::stop(&*self.device, self.capabilities) || self.device.cut_off();
        self.stopped.store(stopped, Ordering::Release);
        // After `stopped`, so a thread that sees the end knows whether memory is free again.
        let _ = self.end.compare_exchange(0, why as u8, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Why an engine on it is finished, in words.
    pub(super) fn end_error(&self, end: ControllerEnd) -> EngineError {
        let address = self.address;
        let (command, abort) = (self.limits.command.as_secs(), self.limits.abort.as_secs());
        EngineError::controller(match end {
            ControllerEnd::Closed => {
                format!("{address} was reset, and with it all engines on it: open the controller again")
            }
            ControllerEnd::Late => format!(
                "{address} was reset: a command did not come back within {command} s, nor within {abort} s \
                 of an abort; see the drive's health, then open the controller again"
            ),
            ControllerEnd::Fatal => format!(
                "{address} reported a fatal error of its own (CSTS.CFS) and was reset: open it again, or \
                 power it off and on"
            ),
            ControllerEnd::Stopped => format!(
                "{address} is no longer ready (CSTS.RDY): it lost its power, or something else reset it \
                 or switched its memory space off; open it again"
            ),
            ControllerEnd::Gone => {
                format!(
                    "{address} no longer answers (all ones): it was pulled or its link is down; plug \
                     it in again"
                )
            }
        })
    }

    #[cold]
    pub(super) fn asked_back_error(&self) -> EngineError {
        EngineError::controller(format!(
            "the kernel asks for {} back (it is being removed, or its link failed): close it, and open it \
             again when it is back",
            self.address
        ))
    }

    pub(super) fn admin(&self) -> MutexGuard<'_, Admin> {
        self.admin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The admin queue of a controller that has not ended.
    pub(super) fn serving(&self) -> Result<MutexGuard<'_, Admin>, EngineError> {
        let admin = self.admin();
        match self.end() {
            None => Ok(admin),
            Some(end) => Err(self.end_error(end)),
        }
    }

    /// The error of an admin command; a controller that did not answer is stopped.
    pub(super) fn failed(&self, what: &str, failure: AdminFailure, _admin: &mut Admin) -> EngineError {
        let end = match failure {
            AdminFailure::Status(status) => return self.refused(what, status),
            AdminFailure::Ended(end) => end,
        };
        self.stop(end);
        self.end_error(self.end().unwrap_or(end))
    }

    pub(super) fn refused(&self, what: &str, status: u16) -> EngineError {
        let (kind, code) = (status >> 8, status & 0xff);
        EngineError::controller(format!(
            "{} refuses {what} (NVMe status type {kind}, code {code:#x}): see the drive's health and \
             firmware",
            self.address
        ))
    }

    /// Identifies the controller and its namespaces, and sets it up.
    fn set_up(&mut self, setup: &Setup) -> Result<(), EngineError> {
        let limit = self.limits.command;
        let mut admin = self.admin();
        let data = admin.receive_page(|data| Command::identify(1, 0, data), limit);
        let data = data.map_err(|failure| self.failed("Identify Controller", failure, &mut admin))?;
        let says = ControllerData(&data);
        let lacks = |what: &str| EngineError::unsupported(format!("{} {what}", self.address));
        if !says.does_io() {
            return Err(lacks("is a discovery or administrative controller: name one that does I/O"));
        }
        if !says.has_usual_entries() {
            return Err(lacks("needs larger queue entries than 64 and 16 bytes: use another path"));
        }
        let serial = says.serial();
        if let Some(known) = setup.prior.serial.as_ref().filter(|known| **known != serial) {
            return Err(EngineError::controller(format!(
                "{} has another drive now (serial {serial}, it was {known} under the kernel): nothing was \
                 set on it; start a new run",
                self.address
            )));
        }
        let shadow = if says.has_doorbell_buffers() { self.shadow_doorbells(&mut admin)? } else { None };
        let granted = admin.execute(Command::number_of_queues(), limit);
        let granted = granted.map_err(|failure| self.failed("I/O queues", failure, &mut admin))?;
        let queue_pairs = self.pairs(granted, shadow.is_some());
        admin.free_pairs = (1..=queue_pairs as u16).rev().collect();
        let list = admin.receive_page(|data| Command::identify(2, 0, data), limit);
        let list = list.map_err(|failure| self.failed("its list of namespaces", failure, &mut admin))?;
        let mut namespaces = Vec::new();
        for nsid in identify::active(&list) {
            let data = admin.receive_page(|data| Command::identify(0, nsid, data), limit);
            let data = data.map_err(|failure| self.failed("Identify Namespace", failure, &mut admin))?;
            namespaces.push(identify::namespace(nsid, &data));
        }
        let shadow_doorbells = shadow.is_some();
        admin.shadow = shadow;
        let Setup { rules, prior, .. } = setup;
        let apst = features::set_apst(&mut admin, &says, rules.apst, limit);
        let apst = apst.map_err(|failure| self.failed("autonomous power states", failure, &mut admin))?;
        let host_memory =
            features::give_host_memory(&self.device, &mut admin, &says, rules.host_memory_bytes, limit);
        let host_memory =
            host_memory.map_err(|failure| self.failed("a host memory buffer", failure, &mut admin))?;
        let features = self.set_features(&mut admin, prior)?;
        drop(admin);
        self.identity = Identity {
            model: says.model(),
            serial,
            firmware: says.firmware(),
            queue_pairs,
            max_transfer_bytes: says.max_transfer_bytes(self.capabilities.smallest_page()),
            shadow_doorbells,
            host_memory,
            apst,
            features,
            ..self.identity.clone()
        };
        self.namespaces = namespaces;
        Ok(())
    }

    /// Gives the controller's features the values that they had.
    fn set_features(&self, admin: &mut Admin, prior: &PriorState) -> Result<Vec<FeatureState>, EngineError> {
        let limit = self.limits.feature;
        prior_state::set_features(admin, &prior.features, limit).map_err(|(name, failure)| {
            if failure != AdminFailure::Ended(ControllerEnd::Late) {
                return self.failed(name, failure, admin);
            }
            self.stop(ControllerEnd::Late);
            EngineError::controller(format!(
                "{} was reset: it did not answer within {} s when its {name} was set as under the kernel; \
                 see the drive's health, then open the controller again",
                self.address,
                limit.as_secs_f64()
            ))
        })
    }

    /// Gives the controller pages of shadow doorbells; `None` if it refuses them after all.
    fn shadow_doorbells(&self, admin: &mut Admin) -> Result<Option<ShadowPages>, EngineError> {
        let pages = ManuallyDrop::new(ShadowPages::new(&self.device)?);
        let (shadows, events) = pages.addresses();
        match admin.execute(Command::doorbell_buffers(shadows, events), self.limits.command) {
            Ok(_) => Ok(Some(ManuallyDrop::into_inner(pages))),
            Err(AdminFailure::Status(_)) => {
                drop(ManuallyDrop::into_inner(pages));
                Ok(None)
            }
            // The controller may have the pages: they stay.
            Err(failure) => Err(self.failed("Doorbell Buffer Config", failure, admin)),
        }
    }

    /// Pairs that were granted (dword 0 of Number of Queues) and have their doorbells in the registers and
    /// the shadows.
    fn pairs(&self, granted: u32, shadow: bool) -> u32 {
        let granted = (granted & 0xffff).min(granted >> 16) + 1;
        let stride = self.capabilities.stride();
        let registers = self.device.registers_len().saturating_sub(DOORBELLS) / (2 * stride);
        let shadows = if shadow { PAGE / (2 * stride) } else { usize::MAX };
        // The first pair of doorbells is the admin queues'.
        granted.min(registers.min(shadows).saturating_sub(1) as u32)
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if self.admin.is_parents() {
            return;
        }
        if self.end().is_none() {
            // It gives its buffer up before the memory goes; a reset would end its use too.
            features::take_host_memory(&mut self.admin(), self.limits.abort);
        }
        self.reset(ControllerEnd::Closed);
        if self.has_stopped() {
            self.admin.release(); // it no longer uses any of the memory
        }
    }
}

fn stuck_error(address: PciAddress, what: &str, stuck: Stuck) -> EngineError {
    EngineError::controller(match stuck {
        Stuck::Late => format!(
            "{address} does not {what} within the time that it asks for (CAP.TO): power it off and on, or \
             name another drive"
        ),
        Stuck::Fatal => {
            format!("{address} reports a fatal error (CSTS.CFS) and does not {what}: power it off and on")
        }
        Stuck::Gone => {
            format!(
                "{address} no longer answers (all ones): it was pulled or its link is down; plug it \
                 in again"
            )
        }
    })
}
