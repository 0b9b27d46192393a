//! The changes of one run: journalled, made, read back, and put back at its end.

use super::allowed::{self, Location, is_interface_name, is_plain_value};
use super::attribute::{Attribute, Places};
use super::dma_latency::DmaLatency;
use super::error::{NotRestored, SettingsError};
use super::fabric_item::{ABSENT, FabricItem};
use super::fabric_removal;
use super::files::{self, Locked};
use super::host::Host;
use super::item::Item;
use super::journal::{Change, Drive, Header, Journal, Undo};
use super::lock::{self, CPU_LOCK, DeviceLocks};
use super::made_file::MadeFile;
use super::restore::{Outcome, Restored, put_back};
use super::taken::TakenDrives;
use crate::sysfs;
use iopj_core::Setting;
use iopj_engine::target::{FileId, make_file_as};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The journalled changes of one run. Dropped, it puts everything back as far as it can.
#[derive(Debug)]
pub struct Settings {
    pub(super) host: Host,
    pub(super) locks: Arc<DeviceLocks>,
    pub(super) devices: Vec<String>,
    nics: Vec<String>,
    cpu_lock: Option<Locked>,
    nic_locks: BTreeMap<String, Locked>,
    pub(super) dma_latency: Option<DmaLatency>,
    pub(super) taken: TakenDrives,
    journal: Option<Journal>,
    pub(super) undo: Undo,
    pub(super) changes: Vec<Change>,
    warnings: Vec<String>,
}

impl Host {
    /// The settings that one run changes, on these devices; nothing is written before the first change.
    pub fn settings(&self, devices: &[String], locks: &Arc<DeviceLocks>) -> Settings {
        Settings {
            host: self.clone(),
            locks: Arc::clone(locks),
            devices: devices.to_vec(),
            nics: Vec::new(),
            cpu_lock: None,
            nic_locks: BTreeMap::new(),
            dma_latency: None,
            taken: TakenDrives::default(),
            journal: None,
            undo: Undo::default(),
            changes: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

impl Settings {
    /// The network cards whose settings may be changed. Names that no interface can have are left out.
    pub fn may_change_nics(&mut self, nics: &[String]) {
        self.nics = nics.iter().filter(|nic| is_interface_name(nic)).cloned().collect();
    }

    /// Gives `setting` the value `value` in each of its files, or each drive's feature: journalled and
    /// synced, written, read back. What already has the value is neither journalled nor written. A request to
    /// the kernel that ends with the process is only made and read back.
    ///
    /// # Errors
    /// [`SettingsError::Bad`], [`SettingsError::NotHere`], [`SettingsError::NeedsRoot`],
    /// [`SettingsError::NotLocked`], [`SettingsError::Locked`] (another run changes the CPUs' settings),
    /// [`SettingsError::OutOfRange`], [`SettingsError::Refused`] by the kernel,
    /// [`SettingsError::DidNotTake`], the same two of a drive, or a failed file operation.
    /// What was changed before the error stays changed until [`Settings::restore`].
    pub fn set(&mut self, setting: Setting, value: &str) -> Result<(), SettingsError> {
        setting.check(value)?;
        match allowed::location(setting) {
            Location::Controller => return self.set_of_controllers(setting, value),
            Location::Process => return self.hold_dma_latency(value),
            _ => {}
        }
        for (attribute, now, wanted) in self.due(setting, value)? {
            self.change(&attribute, now, &wanted)?;
        }
        Ok(())
    }

    /// What [`Settings::set`] would change now. Nothing is changed, and no lock is needed.
    ///
    /// # Errors
    /// [`SettingsError::Bad`], [`SettingsError::NotHere`], or a failed read.
    pub fn foresee(&self, setting: Setting, value: &str) -> Result<Vec<Change>, SettingsError> {
        setting.check(value)?;
        match allowed::location(setting) {
            Location::Controller => return self.foresee_of_controllers(setting, value),
            Location::Process => return self.foresee_dma_latency(value),
            _ => {}
        }
        let change = |(attribute, old, new): (Attribute, String, String)| Change {
            file: attribute.to_string(),
            old,
            new,
        };
        Ok(self.due(setting, value)?.into_iter().map(change).collect())
    }

    /// The files that do not have the value yet, each with its value and the one that it gets.
    fn due(&self, setting: Setting, value: &str) -> Result<Vec<(Attribute, String, String)>, SettingsError> {
        let current = self.values(setting)?;
        if let Some((_, reading)) =
            current.iter().find(|(_, now)| setting == Setting::Smt && !is_switchable(now))
        {
            return Err(SettingsError::NotHere { setting, reason: format!("SMT reads `{reading}`") });
        }
        let cores = self.cores().len();
        if setting == Setting::CpusOnline && value.parse().is_ok_and(|wanted: usize| wanted > cores) {
            return Err(SettingsError::NotHere { setting, reason: format!("this host has {cores} cores") });
        }
        if setting == Setting::ScalingMaxFreq {
            current.iter().try_for_each(|(attribute, _)| within_policy(&self.host.sys, attribute, value))?;
        }
        let due = current.into_iter().map(|(attribute, now)| {
            let wanted = self.wanted(&attribute, &now, value);
            (attribute, now, wanted)
        });
        Ok(due.filter(|(_, now, wanted)| now != wanted).collect())
    }

    /// Each file of `setting` with its value.
    ///
    /// # Errors
    /// [`SettingsError::NotHere`] if a file is missing or has no value, or a failed read.
    pub fn current(&self, setting: Setting) -> Result<Vec<(PathBuf, String)>, SettingsError> {
        let current = self.values(setting)?;
        Ok(current.into_iter().map(|(attribute, now)| (attribute.file(&self.host.sys), now)).collect())
    }

    /// The changes made so far, for the store; putting back does not shorten them.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// What a drive that was taken lost and did not get back, under its driver or under ours, and what
    /// [`Settings::restore`] left as it is because its drive is gone or another one; one line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Notes warnings, each once however often the drive changes its driver.
    pub fn warn(&mut self, lines: Vec<String>) {
        for line in lines {
            if !self.warnings.contains(&line) {
                self.warnings.push(line);
            }
        }
    }

    /// Puts back all that was changed, newest first, and removes the journal. Files that already have their
    /// old value are not written; files that are gone (a drive unplugged) took the setting with them, which
    /// is a warning. A drive that was taken goes back to its driver: drop its controller first.
    ///
    /// # Errors
    /// [`SettingsError::NotRestored`] with every file that could not be put back: the rest is back, the
    /// journal is kept, and the call may be repeated.
    pub fn restore(&mut self) -> Result<Vec<Restored>, SettingsError> {
        let disks: Vec<String> = self.devices.iter().chain(self.taken.disks()).cloned().collect();
        let Outcome { restored, notes, failed, lost } = put_back(&self.host, &self.undo, &disks);
        self.warn(lost);
        self.warn(notes);
        if !failed.is_empty() {
            return Err(SettingsError::NotRestored(failed));
        }
        self.undo = Undo::default();
        if let Some(journal) = self.journal.take() {
            journal.remove()?;
        }
        self.cpu_lock = None;
        self.nic_locks.clear();
        self.dma_latency = None;
        self.taken = TakenDrives::default();
        Ok(restored)
    }

    /// Makes a file of `data_len` bytes of data in a folder, as [`make_file_as`] does, under a name of its
    /// own; journalled before, and removed by [`Settings::restore`]. `progress` gets the bytes written so
    /// far, and returns false to stop.
    ///
    /// # Errors
    /// [`SettingsError::NeedsRoot`], without which nothing can be journalled; the folder is not there, or the
    /// file cannot be made in it.
    pub fn make_file(
        &mut self,
        folder: &Path,
        data_len: u64,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(PathBuf, FileId), SettingsError> {
        if !self.locks.is_effective() {
            return Err(SettingsError::NeedsRoot("making a file to measure on".to_owned()));
        }
        let failed = |source| SettingsError::io("make a file in", folder)(source);
        let place = fs::canonicalize(folder).map_err(failed)?;
        let Some(file) = MadeFile::new(&place).map_err(failed)? else {
            return Err(failed(io::Error::other("its name is not plain text: name another folder")));
        };
        let (path, id) = (file.path().to_owned(), file.id());
        self.journal(Item::MadeFile(file), ABSENT.to_owned(), "present".to_owned())?;
        make_file_as(id, &path, data_len, progress)?;
        Ok((path, id))
    }

    /// Removes the entries of NVMe over fabrics that are chosen, newest first; a failure does not stop the
    /// others. They stay in the journal, which is put back as a whole.
    pub(super) fn remove_items(&mut self, chosen: impl Fn(&FabricItem) -> bool) -> Result<(), SettingsError> {
        let mut failed = Vec::new();
        for (item, _) in self.undo.newest_first() {
            if let Item::Fabric(entry) = item
                && chosen(entry)
                && let Err(error) = fabric_removal::remove(entry, &self.host)
            {
                failed.push(NotRestored { file: item.file(&self.host.sys), reason: error.to_string() });
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(SettingsError::NotRestored(failed)) }
    }

    fn attributes(&self, setting: Setting) -> io::Result<Vec<Attribute>> {
        let functions = self.functions();
        let places = Places { devices: &self.devices, nics: &self.nics, functions: &functions };
        Attribute::of(setting, &self.host.sys, places)
    }

    fn values(&self, setting: Setting) -> Result<Vec<(Attribute, String)>, SettingsError> {
        let sys = &self.host.sys;
        let not_here = |reason| SettingsError::NotHere { setting, reason };
        let attributes = self.attributes(setting).map_err(SettingsError::io("list", sys))?;
        if attributes.is_empty() {
            return Err(not_here(nothing_to_change(allowed::location(setting)).to_owned()));
        }
        let mut values = Vec::new();
        for attribute in attributes {
            let file = attribute.file(sys);
            let now = attribute.read(sys).map_err(|source| match (source.kind(), source.raw_os_error()) {
                (ErrorKind::NotFound, _) => not_here(missing(&attribute, sys)),
                (_, Some(error)) if error == Errno::OPNOTSUPP.raw_os_error() => {
                    not_here(format!("the driver of {} does not have it", attribute.nic().unwrap_or("it")))
                }
                (_, Some(error)) if error == Errno::INVAL.raw_os_error() => {
                    not_here(format!("{} has no value", file.display()))
                }
                _ => SettingsError::io("read", &file)(source),
            })?;
            if !is_plain_value(&now) {
                return Err(not_here(format!("{} reads `{}`", file.display(), now.escape_default())));
            }
            values.push((attribute, now));
        }
        Ok(values)
    }

    /// The value that this one file gets when its setting gets `value`.
    fn wanted(&self, attribute: &Attribute, now: &str, value: &str) -> String {
        if let Some(core) = attribute.core() {
            // `value` was validated as a number, of cores from the lowest on.
            let stays = value.parse().is_ok_and(|online: u32| self.rank(core) < online);
            return if stays { "1" } else { "0" }.to_owned();
        }
        match attribute.idle_state() {
            // `value` was validated as a number; a state that it leaves in use is as it was before the run.
            Some(state) if value.parse().is_ok_and(|deepest: u32| state > deepest) => "1".to_owned(),
            Some(_) => self.undo.old(&Item::Attribute(attribute.clone())).unwrap_or(now).to_owned(),
            None => value.to_owned(),
        }
    }

    /// How many present cores have a lower number.
    fn rank(&self, core: u32) -> u32 {
        self.cores().iter().filter(|other| **other < core).count() as u32
    }

    /// The cores that are present, online or not.
    fn cores(&self) -> Vec<u32> {
        let all = sysfs::numbered(&self.host.sys.join("devices/system/cpu"), "cpu").unwrap_or_default();
        all.into_keys().collect()
    }

    fn change(&mut self, attribute: &Attribute, old: String, wanted: &str) -> Result<(), SettingsError> {
        self.may_change(attribute)?;
        let host = self.host.clone();
        let sys = &host.sys;
        let moved = allowed::moved_by(attribute.setting).iter();
        let moved: Vec<_> = moved.flat_map(|setting| self.attributes(*setting).unwrap_or_default()).collect();
        for beside in attribute.resets().chain(moved) {
            if let Some(value) = beside.read(sys).ok().filter(|value| is_plain_value(value)) {
                self.journal(Item::Attribute(beside), value.clone(), value)?;
            }
        }
        self.journal(Item::Attribute(attribute.clone()), old.clone(), wanted.to_owned())?;
        attribute.write(sys, wanted).map_err(|source| refused(sys, attribute, wanted, source))?;
        let file = attribute.file(sys);
        let read = attribute.read(sys).map_err(SettingsError::io("read", &file))?;
        if read != old {
            self.changes.push(Change { file: attribute.to_string(), old, new: read.clone() });
        }
        if read == wanted {
            return Ok(());
        }
        Err(SettingsError::DidNotTake {
            file,
            why: why_not_taken(attribute.setting, &read),
            wanted: wanted.into(),
            read,
        })
    }

    fn may_change(&mut self, attribute: &Attribute) -> Result<(), SettingsError> {
        if !self.locks.is_effective() {
            return Err(SettingsError::NeedsRoot(format!("changing `{}`", attribute.setting)));
        }
        if let Some(address) = attribute.link() {
            return self.hold_drive(address);
        }
        match attribute.device() {
            Some(device) if !self.locks.holds(device) => Err(SettingsError::NotLocked(device.to_owned())),
            None if attribute.nic().is_some_and(|nic| !self.nic_locks.contains_key(nic)) => {
                let name = attribute.lock_name();
                let lock = lock::take(&self.host.run, &name)?;
                self.nic_locks.insert(attribute.nic().unwrap_or_default().to_owned(), lock);
                Ok(())
            }
            None if attribute.nic().is_none() => self.hold_cpus(),
            _ => Ok(()),
        }
    }

    /// Takes the lock of all CPUs' settings, if the run does not have it yet.
    pub(super) fn hold_cpus(&mut self) -> Result<(), SettingsError> {
        if self.cpu_lock.is_none() {
            self.cpu_lock = Some(lock::take(&self.host.run, CPU_LOCK)?);
        }
        Ok(())
    }

    pub(super) fn journal(&mut self, item: Item, old: String, new: String) -> Result<(), SettingsError> {
        let journal = match &mut self.journal {
            Some(journal) => journal,
            none => {
                let drives = self.devices.iter().map(|device| Drive::read(&self.host.sys, device)).collect();
                let header = Header::new(self.host.boot_id()?, drives);
                none.insert(Journal::create(&self.host.run, &header)?)
            }
        };
        journal.append(&Change { file: item.to_string(), old: old.clone(), new })?;
        self.undo.note(item, old);
        Ok(())
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // There is nobody to report to: what fails here stays in the journal for `iopj restore`.
        if self.journal.is_some() {
            let _ = self.restore();
        }
    }
}

/// Refuses a highest frequency that a policy's processors do not have.
fn within_policy(sys: &Path, attribute: &Attribute, value: &str) -> Result<(), SettingsError> {
    let file = attribute.file(sys);
    let limit = |name: &str| sysfs::read(&file.with_file_name(name)).ok()?.parse::<u64>().ok();
    let limits = limit("cpuinfo_min_freq").zip(limit("cpuinfo_max_freq")).zip(value.parse::<u64>().ok());
    match limits {
        Some(((lowest, highest), khz)) if !(lowest..=highest).contains(&khz) => {
            let owner = file.parent().and_then(Path::file_name).unwrap_or_default();
            Err(SettingsError::OutOfRange {
                setting: attribute.setting,
                value: format!("{value} kHz"),
                owner: owner.to_string_lossy().into_owned(),
                lowest,
                highest,
            })
        }
        _ => Ok(()),
    }
}

/// True if the kernel takes `on` and `off`. It also shows `forceoff`, `notsupported` and `notimplemented`,
/// and a number of threads if only some are on.
fn is_switchable(smt: &str) -> bool {
    matches!(smt, "on" | "off") || smt.parse::<u32>().is_ok()
}

fn nothing_to_change(location: Location) -> &'static str {
    match location {
        Location::Queue => "the target lies on no block device",
        Location::Policy => {
            "the CPUs have no cpufreq policy (in a virtual machine the host sets the frequency)"
        }
        Location::IdleState => "the CPUs show no idle states",
        Location::Cpu => "the CPUs do not have it",
        Location::Core => "no core can go offline here",
        Location::NetCore | Location::NvmetTcp => "the kernel does not have it",
        Location::Nic => "no network card leads to the other host",
        Location::NicIrq => "no network card with interrupts of its own leads to the other host",
        Location::Link => "the target lies on no drive with a PCI link",
        Location::Controller => "the target lies on no NVMe drive on a PCI link",
        Location::Process => "it has no file",
    }
}

fn missing(attribute: &Attribute, sys: &Path) -> String {
    let file = attribute.file(sys);
    let other = match attribute.setting {
        Setting::Boost => Some(Setting::NoTurbo),
        Setting::NoTurbo => Some(Setting::Boost),
        _ => None,
    };
    if attribute.link().is_some() {
        return format!(
            "there is no {}: the link cannot, the firmware keeps power management of links to itself, or the \
             kernel is older than 5.6",
            file.display()
        );
    }
    match other.filter(|&setting| Attribute { setting, owner: attribute.owner.clone() }.file(sys).exists()) {
        Some(setting) => format!("there is no {}, this host has `{setting}` instead", file.display()),
        None => format!("there is no {}", file.display()),
    }
}

fn why_not_taken(setting: Setting, read: &str) -> &'static str {
    match (setting, read) {
        (Setting::IoPollDelay, "-1") => {
            "this kernel ignores io_poll_delay: synchronous hybrid polling was removed in Linux 6.4 (commit \
             54bdd67d0f88), so use an older kernel or leave such paths out"
        }
        (Setting::L0sAspm | Setting::L1Aspm | Setting::L11Aspm | Setting::L12Aspm, "0") => {
            "the policy of the host forbids it, so boot with `pcie_aspm.policy=powersupersave`, or leave it \
             out of the study"
        }
        _ => {
            "the kernel rounded or ignored it, so ask for the value that it reads or leave it out of the \
             study"
        }
    }
}

fn refused(sys: &Path, attribute: &Attribute, value: &str, source: io::Error) -> SettingsError {
    let file = attribute.file(sys);
    let setting = attribute.setting;
    if source.kind() == ErrorKind::PermissionDenied && !files::is_root() {
        return SettingsError::NeedsRoot(format!("changing `{setting}`"));
    }
    let advice = match (source.kind(), setting) {
        (_, Setting::NicIrqAffinity) => match Errno::from_io_error(&source) {
            Some(Errno::IO | Errno::PERM) => {
                "the kernel places this interrupt itself and lets nobody move it, so leave \
                 `nic_irq_affinity` out of the study"
            }
            _ => "name CPUs that are online",
        }
        .to_owned(),
        (ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem, _) => {
            "a container or a locked-down kernel forbids it even to root, so run iopj on the host itself"
                .to_owned()
        }
        (_, Setting::IoPollDelay) => "the device's driver cannot poll; NVMe can with `nvme.poll_queues=4` \
                                      on the kernel command line"
            .to_owned(),
        (ErrorKind::ResourceBusy, Setting::EnergyPerformancePreference) => {
            "under the governor `performance` it is fixed, so set another governor first".to_owned()
        }
        _ => match choices(&file, setting) {
            Some(choices) => format!("it offers {choices}"),
            None => format!("ask for a value that it takes, or leave `{setting}` out of the study"),
        },
    };
    SettingsError::Refused { file, value: value.to_owned(), source, advice }
}

/// What the kernel lists as possible for a setting that takes a name.
fn choices(file: &Path, setting: Setting) -> Option<String> {
    let list = match setting {
        Setting::Scheduler => file.to_owned(),
        Setting::Governor => file.with_file_name("scaling_available_governors"),
        Setting::EnergyPerformancePreference => {
            file.with_file_name("energy_performance_available_preferences")
        }
        _ => return None,
    };
    let text = sysfs::read(&list).ok()?.replace(['[', ']'], "");
    Some(text.split_whitespace().collect::<Vec<_>>().join(", "))
}
