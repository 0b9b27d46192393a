//! How the target is reached: through the kernel, or, for kernel bypass, taken from its kernel driver.
//!
//! Paths of both kinds alternate in one study on one drive. Nothing that was opened on one side outlives the
//! change to the other: a block device that somebody holds open comes back under another name, and a device
//! is not given back before its owner has let go of it.

use crate::runner::{Options, RunError};
use crate::setup;
use iopj_core::IoPath;
use iopj_core::Setting;
use iopj_engine::Target;
use iopj_engine::check::{Availability, check};
use iopj_engine::nvme_user::{Controller, IoCounts, Kept};
use iopj_engine::target::{FileId, TakeClaims, TargetKind, claim_for_taking};
use iopj_engine::{Isolation, PciAddress};
use iopj_host::settings::{DeviceLocks, Host, Restored, Settings, SettingsError};
use iopj_host::taken_drive;
use iopj_load::fio::Fio;
use iopj_probe::Probe;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often, and how far apart, a block device that has come back is tried: who looks for partitions holds
/// it for a moment.
const TRIES: u32 = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// The target of a run, from whichever side it is reached, and the settings that were changed for it.
pub(crate) struct Access<'a> {
    /// Stands before `settings`, so that it is dropped before these put a device back.
    reached: Option<Reached>,
    pub(crate) settings: Settings<'a>,
    named: Named<'a>,
    extent: Extent,
    bypass: Option<Bypass>,
    /// What keeps the device out of foreign memory, while it is taken.
    taken: Option<Isolation>,
    /// Claims on other block devices that show the namespaces of the device, for as long as it is taken.
    twins: Vec<File>,
    /// What the drive has told our driver of itself.
    told: BTreeMap<String, String>,
    /// The kernel does not count what the target's path passes through.
    asks_drive: bool,
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
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Kernel,
    User,
    Left,
}

/// What is needed to open the target through the kernel once more.
pub(crate) struct Named<'a> {
    pub(crate) path: PathBuf,
    /// Why it is written, where it is.
    pub(crate) writes: Option<&'static str>,
    pub(crate) options: &'a Options,
    pub(crate) id: Option<FileId>,
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

/// The device behind the target, which may be taken from its driver.
#[derive(Clone, Debug, PartialEq)]
struct Bypass {
    address: PciAddress,
    /// The block device below the target.
    device: String,
    nsid: u32,
    /// The serial number that the kernel shows; another drive in the same slot has another.
    serial: Option<String>,
}

impl Bypass {
    /// The device that the user lets us take, found to be the target's.
    fn find(target: &Target, options: &Options) -> Result<Option<Bypass>, RunError> {
        let Some(address) = options.take_device else { return Ok(None) };
        let usage = |message: String| Err(RunError::Usage(message));
        let shown = target.path().display();
        let [device] = target.devices() else {
            return usage(format!(
                "{shown} does not lie on one block device, so that {address} cannot be taken for it: name \
                 the block device of one of its namespaces by --target"
            ));
        };
        let folder = Path::new("/sys/block").join(device);
        if PciAddress::of_device(&folder) != Some(address) {
            return usage(format!(
                "{shown} is not on {address}, the device to take: name one of that device's namespaces by \
                 --target, or the device of the target by --take-device"
            ));
        }
        let is_whole = target.kind() != TargetKind::File && !is_partition(target.path());
        let nsid = fs::read_to_string(folder.join("nsid")).ok().and_then(|text| text.trim().parse().ok());
        let (Some(nsid), true) = (nsid, is_whole) else {
            return usage(format!(
                "{shown} is no whole namespace of {address}, and without the kernel there are no files and \
                 no partitions: name /dev/{device} by --target"
            ));
        };
        let serial = fs::read_to_string(folder.join("device/serial")).ok().map(|text| text.trim().to_owned());
        Ok(Some(Bypass { address, device: device.clone(), nsid, serial }))
    }
}

fn is_partition(path: &Path) -> bool {
    let name = path.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_owned()));
    name.is_some_and(|name| Path::new("/sys/class/block").join(name).join("partition").exists())
}

impl<'a> Access<'a> {
    /// Over a target that is open through the kernel.
    pub(crate) fn new(
        host: &'a Host,
        locks: &'a DeviceLocks,
        target: Target,
        named: Named<'a>,
    ) -> Result<Access<'a>, RunError> {
        let bypass = Bypass::find(&target, named.options)?;
        let probe = Probe::new(target.devices())?;
        Ok(Access {
            settings: host.settings(target.devices(), locks),
            extent: Extent::of(&target),
            reached: Some(Reached::Kernel { target, probe }),
            named,
            bypass,
            taken: None,
            twins: Vec::new(),
            told: BTreeMap::new(),
            asks_drive: false,
        })
    }

    /// The target's name.
    pub(crate) fn path(&self) -> &Path {
        &self.named.path
    }

    /// What may be touched: the same from either side.
    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// The open target.
    ///
    /// # Errors
    /// SPDK has it, or it could not be reached.
    pub(crate) fn target(&self) -> Result<&Target, String> {
        match &self.reached {
            Some(Reached::Kernel { target, .. } | Reached::User { target, .. }) => Ok(target),
            Some(Reached::Left { .. }) => Err("the device was left to SPDK".to_owned()),
            None => Err(format!("{} is not open", self.named.path.display())),
        }
    }

    /// What counts the target's interrupts.
    ///
    /// # Errors
    /// It could not be reached.
    pub(crate) fn probe(&self) -> Result<&Probe, String> {
        match &self.reached {
            Some(Reached::Kernel { probe, .. } | Reached::User { probe, .. } | Reached::Left { probe }) => {
                Ok(probe)
            }
            None => Err(format!("{} is not open", self.named.path.display())),
        }
    }

    /// The block devices below the target: none while it is taken.
    pub(crate) fn devices(&self) -> &[String] {
        self.target().map_or(&[], Target::devices)
    }

    /// The device and the namespace, for who opens them without the kernel.
    pub(crate) fn namespace(&self) -> Option<(PciAddress, u32)> {
        self.bypass.as_ref().map(|bypass| (bypass.address, bypass.nsid))
    }

    /// Reads and writes that the drive has counted, where the kernel counts none: while it is taken, and of
    /// what is passed through.
    ///
    /// # Errors
    /// The drive does not answer.
    pub(crate) fn counted(&self) -> Result<Option<[u64; 2]>, String> {
        let of = |counts: IoCounts| Some([counts.host_reads, counts.host_writes]);
        let counts =
            |controller: &Controller| controller.io_counts().map(of).map_err(|error| error.to_string());
        match (&self.reached, &self.bypass, self.taken) {
            // A drive that does not tell leaves the verdicts unproven.
            (Some(Reached::Kernel { target, .. }), ..) if self.asks_drive => {
                Ok(target.io_counts().ok().and_then(of))
            }
            (Some(Reached::User { target, .. }), ..) => {
                target.controller().map_or(Ok(None), |controller| counts(controller))
            }
            (Some(Reached::Left { .. }), Some(bypass), Some(isolation)) => {
                // The reset that follows loses the features again.
                let kept = Kept { features: Vec::new(), ..self.kept(bypass) };
                counts(&*open_controller(bypass, isolation, &kept)?)
            }
            _ => Ok(None),
        }
    }

    /// How our driver has set the drive up, in the place of a block device's settings; nothing unless it has
    /// it.
    pub(crate) fn set_up(&self) -> BTreeMap<String, String> {
        let Some(Reached::User { target, .. }) = &self.reached else { return BTreeMap::new() };
        target.controller().map(|controller| taken_drive::set_up(controller.identity())).unwrap_or_default()
    }

    /// Facts about the drive as our driver has found it; none before it was taken once.
    pub(crate) fn provenance(&self) -> &BTreeMap<String, String> {
        &self.told
    }

    /// Brings the target to the side that a path needs.
    ///
    /// # Errors
    /// The device may not be taken, does not come back, or came back as another; then it is on no side, and
    /// the next call tries again.
    pub(crate) fn reach(&mut self, path: IoPath) -> Result<(), String> {
        let side = match path {
            IoPath::NvmeUser(_) => Side::User,
            IoPath::Spdk => Side::Left,
            _ => return self.reach_kernel().map(drop),
        };
        if self.side() == Some(side) {
            return Ok(());
        }
        let needs = || format!("{path} needs the device to itself: allow it by --take-device PCI-ADDRESS");
        let bypass = self.bypass.clone().ok_or_else(needs)?;
        self.let_go();
        let isolation = self.take(&bypass)?;
        self.reached = Some(match side {
            Side::User => self.by_our_driver(&bypass, isolation)?,
            _ => Reached::Left { probe: probe_of(&bypass)? },
        });
        Ok(())
    }

    /// Brings the target to the kernel's side.
    ///
    /// # Errors
    /// As for [`Access::reach`].
    pub(crate) fn reach_kernel(&mut self) -> Result<&Target, String> {
        if self.side() != Some(Side::Kernel) {
            self.let_go();
            self.reached = Some(self.through_the_kernel()?);
        }
        self.target()
    }

    /// Makes the target ready for trials, on the kernel's side: passed-through commands are counted from now
    /// on, also after the drive has changed hands.
    ///
    /// # Errors
    /// As for [`Access::reach`].
    pub(crate) fn begin(&mut self) -> Result<(), String> {
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
        let given_back =
            self.bypass.as_ref().map_or(Ok(()), |bypass| self.settings.give_back(bypass.address));
        self.twins.clear();
        let restored = self.settings.restore();
        given_back.and(restored)
    }

    /// Closes what is open. What was written past the kernel is made to last before the drive changes hands;
    /// a drive that fails in that has failed the trial already.
    fn let_go(&mut self) {
        if let (Some(Reached::User { target, .. }), Some(bypass), true) =
            (&self.reached, &self.bypass, self.named.writes.is_some())
            && let Some(controller) = target.controller()
        {
            let _ = controller.flush(bypass.nsid);
        }
        self.reached = None;
    }

    fn side(&self) -> Option<Side> {
        self.reached.as_ref().map(|reached| match reached {
            Reached::Kernel { .. } => Side::Kernel,
            Reached::User { .. } => Side::User,
            Reached::Left { .. } => Side::Left,
        })
    }

    fn take(&mut self, bypass: &Bypass) -> Result<Isolation, String> {
        if let Some(isolation) = self.taken {
            return Ok(isolation);
        }
        let claimed = claim_for_taking(bypass.address, self.named.options.i_know_no_iommu);
        let (plan, TakeClaims { own, twins }) = claimed.map_err(|error| error.to_string())?;
        self.settings.take(&plan).map_err(|error| error.to_string())?;
        drop(own);
        (self.taken, self.twins) = (Some(plan.isolation), twins);
        Ok(plan.isolation)
    }

    /// The drive as it stood under the kernel: the target's, whatever has been put in its place.
    fn kept(&self, bypass: &Bypass) -> Kept {
        let kept = self.settings.kept(bypass.address);
        Kept { serial: bypass.serial.clone().or(kept.serial), ..kept }
    }

    fn by_our_driver(&mut self, bypass: &Bypass, isolation: Isolation) -> Result<Reached, String> {
        let controller = open_controller(bypass, isolation, &self.kept(bypass))?;
        self.told = taken_drive::facts(&controller);
        self.settings.warn(taken_drive::not_as_kept(bypass.address, controller.identity()));
        let (path, writes) = (&self.named.path, self.named.writes.is_some());
        let target =
            Target::open_bypass(path, &controller, bypass.nsid, writes).map_err(|error| error.to_string())?;
        if target.data_len() != self.extent.len || target.logical_block() != self.extent.logical_block {
            return Err(format!(
                "namespace {} of {} has {} bytes in blocks of {}, where the kernel saw {} in blocks of {}: \
                 it was formatted anew meanwhile, so start a new run",
                bypass.nsid,
                bypass.address,
                target.data_len(),
                target.logical_block(),
                self.extent.len,
                self.extent.logical_block
            ));
        }
        Ok(Reached::User { target, probe: probe_of(bypass)? })
    }

    fn through_the_kernel(&mut self) -> Result<Reached, String> {
        if let Some(bypass) = &self.bypass {
            self.settings.give_back(bypass.address).map_err(|error| error.to_string())?;
            self.taken = None;
            self.twins.clear();
        }
        let target = self.open_again()?;
        if Extent::of(&target) != self.extent {
            return Err(format!(
                "{} came back with another size, so it is not the same target any more: start a new run",
                target.path().display()
            ));
        }
        let now = Bypass::find(&target, self.named.options).map_err(|error| error.to_string())?;
        if now != self.bypass {
            return Err(format!(
                "{} is not the same drive any more, or came back under another name because something holds \
                 the old device open (a monitor, a meter): end that, and start anew",
                target.path().display()
            ));
        }
        let probe = Probe::new(target.devices()).map_err(|error| error.to_string())?;
        Ok(Reached::Kernel { target, probe })
    }

    fn open_again(&self) -> Result<Target, String> {
        let Named { path, writes, options, id } = &self.named;
        let mut tries = 0;
        loop {
            match setup::open_target(path, *writes, options, id.as_ref()) {
                Err(_) if tries < TRIES => std::thread::sleep(BETWEEN_TRIES),
                Err(error) => return Err(error.to_string()),
                Ok(target) => return Ok(target),
            }
            tries += 1;
        }
    }
}

fn open_controller(bypass: &Bypass, isolation: Isolation, kept: &Kept) -> Result<Arc<Controller>, String> {
    Controller::open(bypass.address, isolation, kept).map_err(|error| error.to_string())
}

fn probe_of(bypass: &Bypass) -> Result<Probe, String> {
    Probe::taken(&bypass.address.to_string()).map_err(|error| error.to_string())
}

/// Has the kernel count passed-through commands, which it leaves out by default: they are the evidence that
/// the drive did the I/O. False where that cannot be set: on older kernels, and without root.
fn count_passthrough(settings: &mut Settings<'_>) -> bool {
    settings.set(Setting::IostatsPassthrough, "1").is_ok()
}

/// Whether each of these paths works on the target, the kernel's paths tried before those that need the
/// device taken.
pub(crate) fn availabilities(
    access: &mut Access<'_>,
    fio: Option<&Fio>,
    paths: impl IntoIterator<Item = IoPath>,
    stop: &AtomicBool,
) -> Result<BTreeMap<IoPath, Availability>, RunError> {
    let mut paths: Vec<IoPath> = paths.into_iter().collect();
    paths.sort_by_key(|path| (path.is_bypass(), *path));
    paths.dedup();
    let mut found = BTreeMap::new();
    for path in paths {
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        let state = match (path, access.bypass.is_some()) {
            (IoPath::Spdk, true) => of_spdk(fio),
            (IoPath::NvmeUser(_), true) => {
                match access.reach(path).and_then(|()| access.target().map(|target| check(path, target))) {
                    Ok(state) => state,
                    Err(reason) => Availability::Unavailable { reason, remedy: String::new() },
                }
            }
            _ => check(path, access.reach_kernel().map_err(RunError::Usage)?),
        };
        found.insert(path, state);
    }
    access.reach_kernel().map_err(RunError::Usage)?;
    Ok(found)
}

/// SPDK is fio's to open, when a trial runs.
fn of_spdk(fio: Option<&Fio>) -> Availability {
    let supports = fio.map_or_else(
        || Err("fio, which drives SPDK, was not found or is no generator of the study".to_owned()),
        |fio| fio.supports(&IoPath::Spdk).map_err(|error| error.to_string()),
    );
    match supports {
        Ok(()) => Availability::Available { notes: Vec::new() },
        Err(reason) => {
            let remedy =
                "name fio's SPDK plugin by `spdk_plugin` under [fio] and say generator = \"fio\"".to_owned();
            Availability::Unavailable { reason, remedy }
        }
    }
}

/// What [`check_paths`] found.
pub struct Checked {
    /// Every path, and whether it works.
    pub paths: Vec<(IoPath, Availability)>,
    /// What the device has lost by being taken and could not be given again, a line each.
    pub lost: Vec<String>,
}

/// Whether each path works on a target, kernel bypass included where `options` lets a device be taken: it is
/// tried there, and given back. The target is for reading.
///
/// # Errors
/// The target cannot be opened, the device is not the target's, another run holds it, it was not given back,
/// or `stop` became true.
pub fn check_paths(options: &Options, fio: Option<&Fio>, stop: &AtomicBool) -> Result<Checked, RunError> {
    let Some(path) = &options.target else {
        return Err(RunError::Usage("--take-device needs the device's namespace as --target".to_owned()));
    };
    let host = Host::new();
    let target = Target::open(path)?;
    let locks = host.lock(target.devices())?;
    let named = Named { path: path.clone(), writes: None, options, id: None };
    let mut access = Access::new(&host, &locks, target, named)?;
    let states = availabilities(&mut access, fio, IoPath::all(), stop);
    access.leave()?;
    let mut states = states?;
    let paths = IoPath::all().into_iter().filter_map(|path| Some((path, states.remove(&path)?))).collect();
    Ok(Checked { paths, lost: access.settings.warnings().to_vec() })
}
