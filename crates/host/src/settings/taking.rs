//! Taking a drive from its driver for user space, and giving it back, within one run.

use super::allowed::{is_device_name, is_plain_value};
use super::attribute::{Attribute, Places};
use super::binding::{self, Binding, GivenBack, NONE, VFIO, missing_disks};
use super::change::Settings;
use super::controller::Serial;
use super::drive_setting::{self, DriveSetting};
use super::error::SettingsError;
use super::item::Item;
use super::journal::Change;
use super::lock;
use super::taken::TakenDrive;
use crate::sysfs::names_in;
use iopj_core::Setting;
use iopj_engine::PciAddress;
use iopj_engine::nvme_user::PriorState;
use iopj_engine::target::TakePlan;
use std::io::ErrorKind;
use std::path::Path;

impl Settings {
    /// Takes a drive from its driver and binds it to vfio-pci within 10 s, after it is locked (`pci:ADDRESS`,
    /// and its block devices), journalled and synced. A drive that vfio-pci has already is only locked. The
    /// caller must first close what it has open on the drive, or its block devices may come back under other
    /// names.
    ///
    /// # Errors
    /// [`SettingsError::NeedsRoot`], [`SettingsError::Locked`], a failed file operation, or
    /// [`SettingsError::NotTaken`], which says whether the drive is back with its driver; if it is not,
    /// [`Settings::restore`] tries again.
    pub fn take(&mut self, plan: &TakePlan) -> Result<(), SettingsError> {
        let binding = Binding(plan.address);
        let not_taken = |reason: String| SettingsError::NotTaken { address: plan.address, reason };
        if !self.locks.is_effective() {
            return Err(SettingsError::NeedsRoot(format!("taking {} from its driver", plan.address)));
        }
        let sys = self.host.sys.clone();
        let disks = disks(&sys, plan);
        self.lock_drive(binding, &disks)?;
        let from = binding
            .read(&sys)
            .map_err(|error| not_taken(format!("{error}; check that the drive is there")))?;
        if from != plan.driver.as_deref().unwrap_or(NONE) {
            return Err(not_taken(format!(
                "its driver changed to `{from}` after iopj looked at it; try again"
            )));
        }
        if from == VFIO {
            return Ok(());
        }
        let own = self.own(&disks);
        let (queue, settings) =
            (self.queue_values(&own), DriveSetting::current(&self.host, plan.address, &own));
        let serial = Serial(plan.address).read(&sys);
        // Put back newest first, so in the order of `queue` and of `settings`, after the driver.
        let attributes = queue.iter().map(|(attribute, value)| (Item::Attribute(attribute.clone()), value));
        let of_drive = settings.iter().map(|(setting, value)| (Item::DriveSetting(setting.clone()), value));
        let items = attributes.chain(of_drive);
        let journalled = serial.iter().map(|value| (Item::Serial(Serial(plan.address)), value));
        for (item, value) in journalled.chain(items.rev()) {
            if self.undo.old(&item).is_none() {
                self.journal(item, value.clone(), value.clone())?;
            }
        }
        self.journal(Item::Driver(binding), from.clone(), VFIO.to_owned())?;
        self.taken.claims.clear();
        self.taken.drives.push(TakenDrive { binding, from: from.clone(), disks, queue, settings, serial });
        match binding.take(&self.host, &from) {
            Ok(()) => {
                self.changes.push(Change { file: binding.to_string(), old: from, new: VFIO.to_owned() });
                Ok(())
            }
            Err(error) => Err(not_taken(match self.give_back(plan.address) {
                Ok(()) => format!("{error}; it is back with its driver"),
                Err(again) => format!("{error}; {again}"),
            })),
        }
    }

    /// Gives back a drive that [`Settings::take`] took: to its old driver, without `driver_override`, with
    /// its block devices there within 20 s, and with their queue files and its controller's features as they
    /// were. What it lost for good is a warning ([`Settings::warnings`]). Nothing is done for a drive that
    /// this run did not take. Drop the drive's controller first: it must not be open through VFIO.
    ///
    /// # Errors
    /// [`SettingsError::NotGivenBack`]: the drive is gone, another one is in its place, a living process has
    /// it open (it is named), the old driver does not take it, or its block devices do not come; the journal
    /// is kept and the call may be repeated. [`SettingsError::Locked`] if another run was quicker to claim a
    /// block device.
    pub fn give_back(&mut self, address: PciAddress) -> Result<(), SettingsError> {
        let Some(position) = self.taken.drives.iter().position(|drive| drive.binding.0 == address) else {
            return Ok(());
        };
        let not_back = |reason: String| SettingsError::NotGivenBack { address, reason };
        let sys = &self.host.sys;
        let TakenDrive { binding, from, disks, queue, settings, .. } = &self.taken.drives[position];
        let gone: Vec<String> = binding::absent(&self.host, disks).into_iter().map(str::to_owned).collect();
        match binding.give_back(&self.host, from).map_err(|error| not_back(error.to_string()))? {
            GivenBack::Already => {}
            GivenBack::From(now) => {
                self.changes.push(Change { file: binding.to_string(), old: now, new: from.clone() });
            }
            GivenBack::Foreign(now) => {
                return Err(not_back(format!("somebody bound it to `{now}`; it is left there")));
            }
        }
        let missing = binding::wait_for_disks(&self.host, &gone, self.host.disks_limit);
        if !missing.is_empty() {
            return Err(not_back(missing_disks(&self.host, &missing)));
        }
        // At once: a run that waits for the drive without root sees no other lock.
        let own = gone.iter().filter(|disk| self.devices.contains(disk));
        let claims: Result<Vec<_>, _> = own.map(|disk| lock::claim(&self.host, disk)).collect();
        let is_other = |disk: &&String| {
            PciAddress::of_device(&sys.join("block").join(disk)).is_some_and(|found| found != address)
        };
        if let Some(disk) = disks.iter().find(is_other) {
            return Err(not_back(format!(
                "its driver has it again, but {disk} is now a block device of another drive"
            )));
        }
        if let Some(now) = self.undo.other_drive(sys, address) {
            return Err(not_back(format!(
                "its driver has it again, but it is {now}: its settings are left alone; start a new run"
            )));
        }
        for (attribute, value) in queue {
            if attribute.read(sys).is_ok_and(|now| now != *value) {
                attribute.write(sys, value).map_err(SettingsError::io("write to", &attribute.file(sys)))?;
            }
        }
        let failed = settings.iter().filter_map(|(setting, value)| setting.put_back(&self.host, value).err());
        // A device that is gone took its values with it.
        let lost = failed
            .filter(|error| error.kind() != ErrorKind::NotFound)
            .map(|error| error.to_string())
            .collect();
        self.taken.claims.extend(claims?.into_iter().flatten());
        self.taken.drives.remove(position);
        self.warn(lost);
        Ok(())
    }

    /// The settings that a drive which [`Settings::take`] took had under its driver; none of any other drive.
    pub fn drive_settings(&self, address: PciAddress) -> PriorState {
        let taken = self.taken.drives.iter().find(|drive| drive.binding.0 == address);
        taken
            .map(|drive| drive_setting::for_our_driver(drive.serial.clone(), &drive.settings))
            .unwrap_or_default()
    }

    /// Locks a drive's binding and these of its block devices, as far as the run has not done so.
    pub(super) fn lock_drive(&mut self, binding: Binding, disks: &[String]) -> Result<(), SettingsError> {
        for name in std::iter::once(binding.lock_name()).chain(disks.iter().cloned()) {
            if !self.locks.holds(&name) && !self.taken.locks.contains_key(&name) {
                let lock = lock::take(&self.host.run, &name)?;
                self.taken.locks.insert(name, lock);
            }
        }
        Ok(())
    }

    /// The run's devices among `disks`.
    fn own(&self, disks: &[String]) -> Vec<String> {
        self.devices.iter().filter(|device| disks.contains(device)).cloned().collect()
    }

    /// The values of the queue files of these devices, in the order to set them.
    fn queue_values(&self, own: &[String]) -> Vec<(Attribute, String)> {
        let settings = Setting::all().into_iter().filter(|setting| setting.is_of_queue());
        let places = Places { devices: own, ..Places::default() };
        let attributes =
            settings.flat_map(|setting| Attribute::of(setting, &self.host.sys, places).unwrap_or_default());
        let values = attributes.filter_map(|attribute| {
            let value = attribute.read(&self.host.sys).ok().filter(|value| is_plain_value(value))?;
            Some((attribute, value))
        });
        values.collect()
    }
}

/// The block devices of a drive: those of the plan, and under multipath the hidden ones that carry the I/O.
fn disks(sys: &Path, plan: &TakePlan) -> Vec<String> {
    let mut disks = shown_disks(sys, plan.address);
    let is_disk = |name: &&String| is_device_name(name) && sys.join("block").join(name).exists();
    disks.extend(plan.namespaces.iter().filter(is_disk).cloned());
    disks.sort();
    disks.dedup();
    disks
}

/// The block devices that the controller at an address shows; under multipath the hidden ones.
pub(super) fn shown_disks(sys: &Path, address: PciAddress) -> Vec<String> {
    let controllers = sys.join("bus/pci/devices").join(address.to_string()).join("nvme");
    let shown = names_in(&controllers).flat_map(|controller| names_in(&controllers.join(controller)));
    shown.filter(|name| is_device_name(name) && sys.join("block").join(name).exists()).collect()
}
