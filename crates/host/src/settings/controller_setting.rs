//! What a study sets on an NVMe controller: its power state, interrupt coalescing, and whether it rests by
//! itself. They are features of the controller, changed by Set Features and read back by Get Features.
//!
//! The last one is different. The kernel makes the table of power state transitions (feature 0Ch) itself,
//! from how long leaving a state may take (`power/pm_qos_latency_tolerance_us` of the controller), and sets
//! it again at each reset (drivers/nvme/host/core.c, `nvme_configure_apst`). A table set past the kernel
//! would be lost there, so the tolerance is changed: 0 is off.

use super::binding::Binding;
use super::change::Settings;
use super::controller::{self, Serial};
use super::drive_setting::{DriveSetting, Feature, parse};
use super::error::SettingsError;
use super::files;
use super::item::Item;
use super::journal::Change;
use super::taking::shown_disks;
use crate::sysfs;
use iopj_core::Setting;
use iopj_engine::PciAddress;
use std::io::{self, ErrorKind};
use std::path::Path;

const DEFAULT_TOLERANCE: &str = "module/nvme_core/parameters/default_ps_max_latency_us";

/// What one drive gets: what is written, its value now, and the wanted one, both as they are journalled.
struct Due {
    item: DriveSetting,
    old: String,
    new: String,
}

/// The bits of a feature that are a setting's, and how they count.
struct Field {
    feature: Feature,
    shift: u32,
    mask: u32,
    /// What one step of the bits is worth, and the value of no step.
    step: u32,
    first: u32,
}

/// NVM Express Base Specification 2.0: Power Management (bits 4:0 of 02h), Interrupt Coalescing (08h: the
/// threshold in bits 7:0 counts from 0, the time in bits 15:8 has steps of 100 us).
fn field(setting: Setting) -> Option<Field> {
    let field = |feature, shift, mask, (step, first)| Some(Field { feature, shift, mask, step, first });
    match setting {
        Setting::NvmePowerState => field(Feature::PowerState, 0, 0x1F, (1, 0)),
        Setting::NvmeCoalescingEntries => field(Feature::Coalescing, 0, 0xFF, (1, 1)),
        Setting::NvmeCoalescingUsecs => field(Feature::Coalescing, 8, 0xFF, (100, 0)),
        _ => None,
    }
}

impl Field {
    /// The value that these bits have.
    fn of(&self, register: u32) -> u32 {
        (register >> self.shift & self.mask) * self.step + self.first
    }

    /// The register with another value in these bits.
    fn with(&self, register: u32, value: u32) -> u32 {
        let bits = (value.saturating_sub(self.first) / self.step) & self.mask;
        register & !(self.mask << self.shift) | bits << self.shift
    }
}

/// The threshold and the time of Interrupt Coalescing (08h), in completions and in us.
pub(crate) fn coalescing(register: u32) -> (u32, u32) {
    let of = |setting| field(setting).map_or(0, |field| field.of(register));
    (of(Setting::NvmeCoalescingEntries), of(Setting::NvmeCoalescingUsecs))
}

impl Settings {
    /// Gives a setting of NVMe controllers a value on each drive of the run.
    ///
    /// # Errors
    /// As for [`Settings::set`].
    pub(super) fn set_of_controllers(&mut self, setting: Setting, value: &str) -> Result<(), SettingsError> {
        for address in self.controllers(setting)? {
            if let Some(due) = self.due_of(setting, value, address)? {
                self.change_of(setting, value, address, due)?;
            }
        }
        Ok(())
    }

    /// What [`Settings::set_of_controllers`] would change now.
    ///
    /// # Errors
    /// [`SettingsError::NotHere`], or [`SettingsError::NeedsRoot`].
    pub(super) fn foresee_of_controllers(
        &self,
        setting: Setting,
        value: &str,
    ) -> Result<Vec<Change>, SettingsError> {
        let mut changes = Vec::new();
        for address in self.controllers(setting)? {
            let due = self.due_of(setting, value, address)?;
            changes.extend(due.map(|Due { item, old, new }| Change { file: item.to_string(), old, new }));
        }
        Ok(changes)
    }

    /// The PCI functions of the run's devices; with multipath those of all paths to a drive.
    pub(super) fn functions(&self) -> Vec<PciAddress> {
        let paths = |folder: &Path| sysfs::numbered(folder, "nvme").unwrap_or_default().into_values();
        let of_device = |device: &String| {
            let folder = self.host.sys.join("block").join(device);
            let own = PciAddress::of_device(&folder);
            let through = paths(&folder.join("device")).filter_map(|path| PciAddress::of_device(&path));
            own.map_or_else(|| through.collect(), |own| vec![own])
        };
        let mut functions: Vec<PciAddress> = self.devices.iter().flat_map(of_device).collect();
        let is_own = |disks: &[String]| self.devices.iter().any(|device| disks.contains(device));
        let taken = self.taken.drives.iter().filter(|drive| is_own(&drive.disks));
        functions.extend(taken.map(|drive| drive.binding.0));
        functions.sort();
        functions.dedup();
        functions
    }

    /// Locks a drive with all its block devices, and notes which drive it is, so that its values are not
    /// written to another one in its place.
    pub(super) fn hold_drive(&mut self, address: PciAddress) -> Result<(), SettingsError> {
        self.lock_drive(Binding(address), &shown_disks(&self.host.sys, address))?;
        let (serial, item) = (Serial(address).read(&self.host.sys), Item::Serial(Serial(address)));
        match serial.filter(|_| self.undo.old(&item).is_none()) {
            Some(serial) => self.journal(item, serial.clone(), serial),
            None => Ok(()),
        }
    }

    /// The NVMe controllers of the run's drives.
    fn controllers(&self, setting: Setting) -> Result<Vec<PciAddress>, SettingsError> {
        let not_here = |reason: String| Err(SettingsError::NotHere { setting, reason });
        let sys = &self.host.sys;
        if let Some(taken) =
            self.taken.drives.iter().find(|drive| controller::folder(sys, drive.binding.0).is_err())
        {
            return not_here(format!(
                "the kernel does not drive {} while a path of kernel bypass has it, and only the kernel \
                 passes commands on",
                taken.binding.0
            ));
        }
        let is_nvme = |address: &PciAddress| controller::folder(sys, *address).is_ok();
        let controllers: Vec<PciAddress> = self.functions().into_iter().filter(is_nvme).collect();
        if controllers.is_empty() {
            return not_here("the target lies on no NVMe drive on a PCI link".to_owned());
        }
        match controllers.iter().find(|address| Serial(**address).read(sys).is_none()) {
            Some(address) => not_here(format!(
                "{address} shows no serial, by which the drive would be known when its value is put back"
            )),
            None => Ok(controllers),
        }
    }

    /// What a drive gets for its setting to have this value; `None` if it has it.
    fn due_of(
        &self,
        setting: Setting,
        value: &str,
        address: PciAddress,
    ) -> Result<Option<Due>, SettingsError> {
        let Some(field) = field(setting) else { return self.due_tolerance(setting, value, address) };
        let item = DriveSetting::Feature(address, field.feature);
        let old = self.read_of(setting, &item)?;
        let register = parse(&old).unwrap_or_default();
        // `value` was validated as a number.
        let new = format!("{:#x}", field.with(register, value.parse().unwrap_or_default()));
        Ok((old != new).then_some(Due { item, old, new }))
    }

    /// As [`Settings::due_of`], for autonomous power state transitions: 0 for off; for on, the tolerance that
    /// the drive has or had before the run, else the module's.
    fn due_tolerance(
        &self,
        setting: Setting,
        value: &str,
        address: PciAddress,
    ) -> Result<Option<Due>, SettingsError> {
        let not_here = |reason: String| SettingsError::NotHere { setting, reason };
        let item = DriveSetting::Tolerance(address);
        let old = item.read(&self.host).map_err(|error| match error.kind() {
            ErrorKind::NotFound => not_here(format!(
                "the kernel shows no power/pm_qos_latency_tolerance_us for {address}: the drive has no \
                 autonomous power state transitions"
            )),
            _ => SettingsError::io("read", &Item::DriveSetting(item.clone()).file(&self.host.sys))(error),
        })?;
        if !item.accepts(&old) {
            return Err(not_here(format!(
                "the latency tolerance of {address} reads `{}`",
                old.escape_default()
            )));
        }
        if value == "0" {
            return Ok((old != "0").then(|| Due { item, old, new: "0".to_owned() }));
        }
        if old != "0" {
            return match self.is_apst_on(setting, address)? {
                true => Ok(None),
                false => Err(not_here(format!(
                    "the kernel keeps it off on {address}, though the latency tolerance is {old} us"
                ))),
            };
        }
        let before = self.undo.old(&Item::DriveSetting(item.clone())).map(str::to_owned);
        let of_module = || sysfs::read(&self.host.sys.join(DEFAULT_TOLERANCE)).ok();
        let is_on = |text: &String| text != "0" && item.accepts(text);
        let Some(new) = before.filter(is_on).or_else(of_module).filter(is_on) else {
            return Err(not_here(format!(
                "the latency tolerance of {address} was 0 before the run and the module's default is none, \
                 so nothing says which states the drive may enter; boot without \
                 `nvme_core.default_ps_max_latency_us=0`, or write one to power/pm_qos_latency_tolerance_us"
            )));
        };
        Ok(Some(Due { item, old, new }))
    }

    fn change_of(
        &mut self,
        setting: Setting,
        value: &str,
        address: PciAddress,
        Due { item, old, new }: Due,
    ) -> Result<(), SettingsError> {
        if !self.locks.is_effective() {
            return Err(SettingsError::NeedsRoot(format!("changing `{setting}`")));
        }
        self.hold_drive(address)?;
        self.journal(Item::DriveSetting(item.clone()), old.clone(), new.clone())?;
        item.write(&self.host, &new).map_err(|source| match source.kind() {
            ErrorKind::PermissionDenied if !files::is_root() => {
                SettingsError::NeedsRoot(format!("changing `{setting}`"))
            }
            _ => {
                let (value, advice) = (value.to_owned(), advice(setting, &source));
                SettingsError::RefusedByDrive { drive: address, setting, value, source, advice }
            }
        })?;
        let now = self.read_of(setting, &item)?;
        if now != old {
            self.changes.push(Change { file: item.to_string(), old, new: now.clone() });
        }
        let (wanted, read) = match field(setting) {
            Some(field) => (value.to_owned(), field.of(parse(&now).unwrap_or_default()).to_string()),
            None if now != new => (format!("{new} us"), format!("{now} us")),
            None => (value.to_owned(), u8::from(self.is_apst_on(setting, address)?).to_string()),
        };
        if wanted == read {
            return Ok(());
        }
        Err(SettingsError::NotTakenByDrive {
            drive: address,
            setting,
            wanted,
            read,
            why: why_not_taken(setting),
        })
    }

    fn is_apst_on(&self, setting: Setting, address: PciAddress) -> Result<bool, SettingsError> {
        let now = self.read_of(setting, &DriveSetting::Feature(address, Feature::Apst))?;
        Ok(parse(&now).is_some_and(|register| register & 1 == 1))
    }

    /// The value of what a setting is kept in, as it is journalled.
    fn read_of(&self, setting: Setting, item: &DriveSetting) -> Result<String, SettingsError> {
        item.read(&self.host).map_err(|error| match (error.kind(), item) {
            (ErrorKind::PermissionDenied, _) if !files::is_root() => {
                SettingsError::NeedsRoot(format!("reading `{setting}`"))
            }
            (_, DriveSetting::Feature(address, feature)) => SettingsError::NotHere {
                setting,
                reason: format!(
                    "{address} does not say its {} (feature {:02X}h): {error}",
                    feature.name(),
                    feature.id()
                ),
            },
            _ => SettingsError::io("read", &Item::DriveSetting(item.clone()).file(&self.host.sys))(error),
        })
    }
}

fn advice(setting: Setting, error: &io::Error) -> &'static str {
    // Status code 0Eh of the command-specific ones, with or without Do Not Retry.
    let is_fixed = ["0x10e", "0x410e"].iter().any(|status| error.to_string().ends_with(status));
    match setting {
        _ if is_fixed => "this drive lets nobody change it, so leave it out of the study",
        Setting::NvmePowerState => "ask for a state that it has (`nvme id-ctrl` lists them as ps)",
        _ => "ask for a value that it takes, or leave it out of the study",
    }
}

fn why_not_taken(setting: Setting) -> &'static str {
    match setting {
        Setting::NvmePowerState => {
            "a drive works in no state that is for resting (`non-operational` in `nvme id-ctrl`), so ask for \
             one in which it works"
        }
        Setting::NvmeApst => {
            "the kernel did not set it, so look at the kernel's log, or leave it out of the study"
        }
        _ => {
            "the drive rounded or ignored it, so ask for the value that it reads or leave it out of the study"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bits_are_those_of_the_specification() {
        let field = |setting| field(setting).unwrap();
        let entries = field(Setting::NvmeCoalescingEntries);
        let usecs = field(Setting::NvmeCoalescingUsecs);
        assert_eq!([entries.with(0, 1), entries.with(0, 8), entries.with(0, 256)], [0x00, 0x07, 0xFF]);
        assert_eq!(
            [usecs.with(0x07, 0), usecs.with(0x07, 300), usecs.with(0, 25_500)],
            [0x07, 0x307, 0xFF00]
        );
        assert_eq!(coalescing(0x0307), (8, 300));
        assert_eq!(coalescing(0), (1, 0));
        // The workload hint stays.
        assert_eq!(field(Setting::NvmePowerState).with(0x41, 3), 0x43);
    }

    proptest! {
        #[test]
        fn a_field_leaves_the_other_bits_alone(register: u32, steps in 0u32..=0xFF) {
            for setting in [Setting::NvmeCoalescingEntries, Setting::NvmeCoalescingUsecs] {
                let field = field(setting).unwrap();
                let value = steps * field.step + field.first;
                let with = field.with(register, value);
                prop_assert_eq!(field.of(with), value);
                prop_assert_eq!((with ^ register) & !(field.mask << field.shift), 0);
            }
        }
    }
}
