//! How the target is reached: through the kernel, or, for kernel bypass, taken from its kernel driver.
//!
//! Paths of both kinds alternate in one study on one drive. Nothing that is open on one side outlives the
//! change to the other: a block device that is held open comes back under another name, and a device cannot
//! be given back while somebody still uses it.

use super::TargetSpec;
use super::bypass::{BypassDrive, Taking};
use crate::error::TrialError;
use crate::fabric::FabricSide;
use iopj_core::{FabricEvidence, IoPath, Setting, Transport};
use iopj_engine::nvme_user::{Controller, IoCounts, PriorState};
use iopj_engine::target::{TakeClaims, TargetKind, claim_for_taking};
use iopj_engine::{Isolation, PciAddress, Target};
use iopj_host::drive_facts;
use iopj_host::settings::{Change, DeviceLocks, Host, Restored, Settings, SettingsError};
use iopj_probe::{Probe, ProbeError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often, and how far apart, a block device that has come back is tried: the scan for partitions holds it
/// for a moment.
const TRIES: u32 = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// The target of a run, from whichever side it is reached, and the settings that were changed for it.
pub(crate) struct Access {
    /// Comes before `settings`, so it is dropped before these put a device back.
    reached: Option<Reached>,
    pub(crate) settings: Settings,
    pub(super) spec: TargetSpec,
    pub(super) extent: Extent,
    /// The drive behind it, if it may be taken.
    drive: Option<BypassDrive>,
    /// What keeps the device out of foreign memory, while it is taken.
    taken: Option<Isolation>,
    /// Claims on other block devices that show the namespaces of the device, for as long as it is taken.
    twins: Vec<File>,
    /// What our driver has read from the drive about itself.
    facts: BTreeMap<String, String>,
    /// The kernel does not count what the target's path passes through.
    asks_drive: bool,
    /// It serves a plan alone: no drive is taken.
    is_planned: bool,
    /// Changes of settings that have been handed out.
    pub(super) noted: usize,
    /// What both hosts saw over the last window.
    pub(super) seen: RefCell<Option<FabricEvidence>>,
    /// The other host, in a study over fabrics. Dropped last: the connection goes after what is open on it.
    pub(super) over: Option<Over>,
}

/// A study over fabrics, by its two hosts.
pub(super) enum Over {
    /// This host, which does the I/O.
    Host(Box<FabricSide>),
    /// A host that does the I/O itself; with its context switches when the window began.
    Alone(Transport, Cell<u64>),
}

/// The target as one side reaches it.
enum Reached {
    Kernel {
        target: Target,
        probe: Probe,
    },
    /// By our own driver, which holds the device.
    User {
        target: Target,
        probe: Probe,
    },
    /// The device is taken, and left for SPDK to open.
    Left {
        probe: Probe,
    },
    /// A program has it, and nothing is opened here.
    Program {
        devices: Vec<String>,
        probe: Probe,
    },
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Kernel,
    User,
    Left,
    Program,
}

/// The bytes of the target that may be touched, and in what units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) logical_block: u32,
    pub(crate) kind: TargetKind,
}

impl Extent {
    pub(crate) fn of(target: &Target) -> Extent {
        Extent {
            offset: target.data_offset(),
            len: target.data_len(),
            logical_block: target.logical_block(),
            kind: target.kind(),
        }
    }
}

impl Access {
    /// Over a target that is open through the kernel.
    pub(crate) fn new(
        host: &Host,
        locks: &Arc<DeviceLocks>,
        target: Target,
        spec: TargetSpec,
        taking: Option<Taking>,
    ) -> Result<Access, TrialError> {
        let drive = taking.map(|taking| BypassDrive::find(&target, taking)).transpose()?;
        let probe = Probe::new(target.devices())?;
        Ok(Access {
            settings: host.settings(target.devices(), locks),
            extent: Extent::of(&target),
            reached: Some(Reached::Kernel { target, probe }),
            spec,
            drive,
            taken: None,
            twins: Vec::new(),
            facts: BTreeMap::new(),
            asks_drive: false,
            is_planned: false,
            noted: 0,
            seen: RefCell::new(None),
            over: None,
        })
    }

    /// For a program that has the target, on these devices.
    pub(crate) fn of_program(
        host: &Host,
        locks: &Arc<DeviceLocks>,
        devices: Vec<String>,
        spec: TargetSpec,
    ) -> Result<Access, TrialError> {
        let probe = Probe::new(&devices)?;
        Ok(Access {
            settings: host.settings(&devices, locks),
            // Nothing of it is touched.
            extent: Extent { offset: 0, len: 0, logical_block: 1, kind: TargetKind::File },
            reached: Some(Reached::Program { devices, probe }),
            spec,
            drive: None,
            taken: None,
            twins: Vec::new(),
            facts: BTreeMap::new(),
            asks_drive: false,
            is_planned: false,
            noted: 0,
            seen: RefCell::new(None),
            over: None,
        })
    }

    /// For a plan: no drive is taken, and what stands in for a file counts as long as that file.
    pub(crate) fn planned(self, len: Option<u64>) -> Access {
        let extent = Extent { len: len.unwrap_or(self.extent.len), ..self.extent };
        Access { is_planned: true, extent, ..self }
    }

    pub(crate) fn is_planned(&self) -> bool {
        self.is_planned
    }

    /// The target's name.
    pub(crate) fn path(&self) -> &Path {
        self.spec.path()
    }

    /// The device that may be overwritten.
    pub(crate) fn overwritten(&self) -> Option<&Path> {
        self.spec.overwritten()
    }

    /// The changes of the drive's settings, and over fabrics of both hosts', since they were last handed out.
    pub(crate) fn new_changes(&mut self) -> Vec<Change> {
        let all = self.settings.changes();
        let new = all[self.noted..].to_vec();
        self.noted = all.len();
        let of_hosts = self.side_mut().map(FabricSide::new_changes).unwrap_or_default();
        new.into_iter().chain(of_hosts).collect()
    }

    /// What may be touched: the same from either side.
    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// The open target.
    ///
    /// # Errors
    /// SPDK has it, or it could not be reached.
    pub(crate) fn target(&self) -> Result<&Target, TrialError> {
        match &self.reached {
            Some(Reached::Kernel { target, .. } | Reached::User { target, .. }) => Ok(target),
            Some(Reached::Left { .. }) => Err(TrialError::LeftToSpdk),
            Some(Reached::Program { .. }) | None => Err(self.not_open()),
        }
    }

    /// What counts the target's interrupts.
    ///
    /// # Errors
    /// It could not be reached.
    pub(crate) fn probe(&self) -> Result<&Probe, TrialError> {
        match &self.reached {
            Some(
                Reached::Kernel { probe, .. }
                | Reached::User { probe, .. }
                | Reached::Left { probe }
                | Reached::Program { probe, .. },
            ) => Ok(probe),
            None => Err(self.not_open()),
        }
    }

    /// The block devices below the target: none while it is taken.
    pub(crate) fn devices(&self) -> &[String] {
        match &self.reached {
            Some(Reached::Program { devices, .. }) => devices,
            _ => self.target().map_or(&[], Target::devices),
        }
    }

    /// The device and the namespace, to open them without the kernel.
    pub(crate) fn namespace(&self) -> Option<(PciAddress, u32)> {
        self.drive.as_ref().map(|drive| (drive.address, drive.nsid))
    }

    /// True if the drive may be taken.
    pub(crate) fn may_take(&self) -> bool {
        self.drive.is_some()
    }

    /// True for a path that needs the drive taken: one that chooses its way does if the drive may be.
    pub(crate) fn takes(&self, path: &IoPath) -> bool {
        path.is_bypass_on(self.may_take())
    }

    /// Reads and writes that the drive has counted, where the kernel counts none: while it is taken, and of
    /// what is passed through.
    ///
    /// # Errors
    /// The drive does not answer.
    pub(crate) fn counted(&self) -> Result<Option<[u64; 2]>, TrialError> {
        let of = |counts: IoCounts| Some([counts.host_reads, counts.host_writes]);
        let counts = |controller: &Controller| controller.io_counts().map(of).map_err(TrialError::from);
        match (&self.reached, &self.drive, self.taken) {
            // A drive that does not answer leaves the verdicts unproven.
            (Some(Reached::Kernel { target, .. }), ..) if self.asks_drive => {
                Ok(target.io_counts().ok().and_then(of))
            }
            (Some(Reached::User { target, .. }), ..) => {
                target.controller().map_or(Ok(None), |controller| counts(controller))
            }
            (Some(Reached::Left { .. }), Some(drive), Some(isolation)) => {
                // The reset that follows loses the features again.
                let prior = PriorState { features: Vec::new(), ..self.prior_state(drive) };
                counts(&*Controller::open(drive.address, isolation, &prior)?)
            }
            _ => Ok(None),
        }
    }

    /// How our driver has set the drive up, in place of a block device's settings; empty unless it has the
    /// drive.
    pub(crate) fn set_up(&self) -> BTreeMap<String, String> {
        let Some(Reached::User { target, .. }) = &self.reached else { return BTreeMap::new() };
        target.controller().map(|controller| drive_facts::set_up(controller.identity())).unwrap_or_default()
    }

    /// Facts about the drive as our driver found it; none before it was first taken.
    pub(crate) fn provenance(&self) -> &BTreeMap<String, String> {
        &self.facts
    }

    /// Brings the target to the side that a path needs.
    ///
    /// # Errors
    /// The device may not be taken, does not come back, or came back as another; then it is on no side, and
    /// the next call tries again.
    pub(crate) fn reach(&mut self, path: IoPath) -> Result<(), TrialError> {
        let side = match path {
            IoPath::Spdk => Side::Left,
            _ if self.takes(&path) => Side::User,
            IoPath::Program(_) if self.on_side() == Some(Side::Program) => return Ok(()),
            _ => return self.reach_kernel().map(drop),
        };
        if self.on_side() == Some(side) {
            return Ok(());
        }
        let drive = self.drive.clone().ok_or(TrialError::NotAllowed(path))?;
        self.let_go();
        let isolation = self.take(&drive)?;
        self.reached = Some(match side {
            Side::User => self.by_our_driver(&drive, isolation)?,
            _ => Reached::Left { probe: probe_of(&drive)? },
        });
        Ok(())
    }

    /// Brings the target to the kernel's side.
    ///
    /// # Errors
    /// As for [`Access::reach`].
    pub(crate) fn reach_kernel(&mut self) -> Result<&Target, TrialError> {
        if self.on_side() != Some(Side::Kernel) {
            self.let_go();
            self.reached = Some(self.through_the_kernel()?);
        }
        self.target()
    }

    /// Makes the target ready for trials, on the kernel's side. Passed-through commands are counted from now
    /// on, even after the drive has changed sides.
    ///
    /// # Errors
    /// As for [`Access::reach`].
    pub(crate) fn begin(&mut self) -> Result<(), TrialError> {
        if self.on_side() == Some(Side::Program) {
            return Ok(());
        }
        self.reach_kernel()?;
        if let Some(Reached::Kernel { target, .. }) = &self.reached {
            self.asks_drive = target.nvme().is_some() && !count_passthrough(&mut self.settings);
        }
        Ok(())
    }

    /// Closes the target and puts every setting back, the driver first of all.
    ///
    /// # Errors
    /// The device did not come back, or a setting cannot be put back; whatever can be is back.
    pub(crate) fn leave(&mut self) -> Result<Vec<Restored>, SettingsError> {
        self.let_go();
        let given_back = self.drive.as_ref().map_or(Ok(()), |drive| self.settings.give_back(drive.address));
        self.twins.clear();
        let mut restored = given_back.and(self.settings.restore());
        if let Some(Over::Host(side)) = &mut self.over {
            let left = side.leave();
            self.settings.warn(side.losses().to_vec());
            restored = restored.and_then(|before| Ok([before, left?].concat()));
        }
        restored
    }

    /// Closes what is open. What was written past the kernel is flushed before the drive changes sides; if
    /// that fails, the trial has failed already.
    pub(super) fn let_go(&mut self) {
        if let (Some(Reached::User { target, .. }), Some(drive), true) =
            (&self.reached, &self.drive, self.spec.is_written())
            && let Some(controller) = target.controller()
        {
            let _ = controller.flush(drive.nsid);
        }
        self.reached = None;
    }

    /// Keeps a target that is open through the kernel.
    pub(super) fn hold(&mut self, target: Target, probe: Probe) {
        self.reached = Some(Reached::Kernel { target, probe });
    }

    fn on_side(&self) -> Option<Side> {
        self.reached.as_ref().map(|reached| match reached {
            Reached::Kernel { .. } => Side::Kernel,
            Reached::User { .. } => Side::User,
            Reached::Left { .. } => Side::Left,
            Reached::Program { .. } => Side::Program,
        })
    }

    fn take(&mut self, drive: &BypassDrive) -> Result<Isolation, TrialError> {
        if let Some(isolation) = self.taken {
            return Ok(isolation);
        }
        let (plan, TakeClaims { own, twins }) =
            claim_for_taking(drive.address, drive.taking.i_know_no_iommu)?;
        self.settings.take(&plan)?;
        drop(own);
        (self.taken, self.twins) = (Some(plan.isolation), twins);
        Ok(plan.isolation)
    }

    /// The drive as it was under the kernel: the target's, whatever has been put in its place.
    fn prior_state(&self, drive: &BypassDrive) -> PriorState {
        let prior = self.settings.drive_settings(drive.address);
        PriorState { serial: drive.serial.clone().or(prior.serial), ..prior }
    }

    fn by_our_driver(&mut self, drive: &BypassDrive, isolation: Isolation) -> Result<Reached, TrialError> {
        let controller = Controller::open(drive.address, isolation, &self.prior_state(drive))?;
        self.facts = drive_facts::facts(&controller);
        self.settings.warn(drive_facts::not_as_before(drive.address, controller.identity()));
        let (path, writes) = (self.spec.path(), self.spec.is_written());
        let target = Target::open_bypass(path, &controller, drive.nsid, writes)?;
        if target.data_len() != self.extent.len || target.logical_block() != self.extent.logical_block {
            return Err(TrialError::Changed(format!(
                "namespace {} of {} has {} bytes in blocks of {}, where the kernel saw {} in blocks of {}: \
                 it was formatted anew meanwhile, so start a new run",
                drive.nsid,
                drive.address,
                target.data_len(),
                target.logical_block(),
                self.extent.len,
                self.extent.logical_block
            )));
        }
        Ok(Reached::User { target, probe: probe_of(drive)? })
    }

    fn through_the_kernel(&mut self) -> Result<Reached, TrialError> {
        if let Some(drive) = &self.drive {
            self.settings.give_back(drive.address)?;
            self.taken = None;
            self.twins.clear();
        }
        let target = self.open_again()?;
        if Extent::of(&target) != self.extent {
            return Err(TrialError::Changed(format!(
                "{} came back with another size, so it is not the same target any more: start a new run",
                target.path().display()
            )));
        }
        let found = self.drive.as_ref().map(|drive| BypassDrive::find(&target, drive.taking)).transpose()?;
        if found != self.drive {
            return Err(TrialError::Changed(format!(
                "{} is not the same drive any more, or came back under another name because something holds \
                 the old device open (a monitor, a meter): end that, and start anew",
                target.path().display()
            )));
        }
        let probe = Probe::new(target.devices())?;
        Ok(Reached::Kernel { target, probe })
    }

    pub(super) fn open_again(&self) -> Result<Target, TrialError> {
        let mut tries = 0;
        loop {
            match self.spec.open_again() {
                Err(_) if tries < TRIES => std::thread::sleep(BETWEEN_TRIES),
                opened => return opened,
            }
            tries += 1;
        }
    }

    fn not_open(&self) -> TrialError {
        TrialError::NotOpen(self.path().to_owned())
    }
}

fn probe_of(drive: &BypassDrive) -> Result<Probe, ProbeError> {
    Probe::taken(&drive.address.to_string())
}

/// Makes the kernel count passed-through commands, which it leaves out by default: they are the evidence that
/// the drive did the I/O. False if that cannot be set: on older kernels, and without root.
fn count_passthrough(settings: &mut Settings) -> bool {
    settings.set(Setting::IostatsPassthrough, "1").is_ok()
}
