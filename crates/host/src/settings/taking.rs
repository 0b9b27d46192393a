//! Taking a drive from its driver for user space, and giving it back, within one run.

use super::SettingsError;
use super::attribute::{Attribute, is_device_name, is_plain_value};
use super::binding::{self, Binding, GivenBack, NONE, VFIO, names_in};
use super::change::Settings;
use super::files::Locked;
use super::host::{self, Host};
use super::item::Item;
use super::journal::Change;
use super::kept::{self, Kept};
use super::lock;
use super::serial::Serial;
use iopj_core::Setting;
use iopj_engine::target::TakePlan;
use iopj_engine::{PciAddress, nvme_user};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

/// What a run holds of the drives that it takes.
#[derive(Debug, Default)]
pub(super) struct Hold {
    /// Locks beside those of the target: of the bindings, and of the drives' other block devices.
    locks: BTreeMap<String, Locked>,
    /// Locks that runs of every user can see, on what has come back: those from before went with the driver.
    claims: Vec<Locked>,
    taken: Vec<Taken>,
}

#[derive(Debug)]
struct Taken {
    binding: Binding,
    from: String,
    /// The drive's block devices.
    disks: Vec<String>,
    /// What stood in the queue files of the run's devices: the driver makes the queues anew.
    stood: Vec<(Attribute, String)>,
    /// What the drive itself loses, and its serial.
    kept: Vec<(Kept, String)>,
    serial: Option<String>,
}

impl Hold {
    /// The block devices of the drives that are taken.
    pub(super) fn disks(&self) -> impl Iterator<Item = &String> {
        self.taken.iter().flat_map(|taken| &taken.disks)
    }
}

impl Settings<'_> {
    /// Takes a drive from its driver and binds it to vfio-pci: locked (`pci:ADDRESS`, and its block devices),
    /// journalled and synced, then done, within a limit of 10 s. A drive that vfio-pci has already is only
    /// locked. Whatever the caller has open on the drive must be closed before, or its block devices may come
    /// back under other names.
    ///
    /// # Errors
    /// [`SettingsError::NeedsRoot`], [`SettingsError::Locked`], a failed file operation, or
    /// [`SettingsError::NotTaken`], which says whether the drive is back with its driver; if it is not,
    /// [`Settings::restore`] tries again.
    pub fn take(&mut self, plan: &TakePlan) -> Result<(), SettingsError> {
        let binding = Binding(plan.address);
        let not_taken = |reason: String| SettingsError::NotTaken { address: plan.address, reason };
        if !self.locks.is_effective() {
            return Err(SettingsError::NeedsRoot {
                what: format!("taking {} from its driver", plan.address),
            });
        }
        let sys = self.host.sys.clone();
        let disks = disks(&sys, plan);
        self.lock_drive(binding, &disks)?;
        let from = binding
            .read(&sys)
            .map_err(|error| not_taken(format!("{error}; check that the drive is there")))?;
        if from != plan.driver.as_deref().unwrap_or(NONE) {
            return Err(not_taken(format!(
                "its driver has become `{from}` since it was looked at; try again"
            )));
        }
        if from == VFIO {
            return Ok(());
        }
        let own = self.own(&disks);
        let (stood, kept) = (self.stood(&own), Kept::stands(self.host, plan.address, &own));
        let serial = Serial(plan.address).read(&sys);
        // Put back newest first, so in the order of `stood` and of `kept`, after the driver.
        let attributes = stood.iter().map(|(attribute, value)| (Item::Attribute(attribute.clone()), value));
        let items = attributes.chain(kept.iter().map(|(kept, value)| (Item::Kept(kept.clone()), value)));
        let journalled = serial.iter().map(|value| (Item::Serial(Serial(plan.address)), value));
        for (item, value) in journalled.chain(items.rev()) {
            if self.undo.old(&item).is_none() {
                self.journal(item, value.clone(), value.clone())?;
            }
        }
        self.journal(Item::Driver(binding), from.clone(), VFIO.to_owned())?;
        self.hold.claims.clear();
        self.hold.taken.push(Taken { binding, from: from.clone(), disks, stood, kept, serial });
        match binding.take(self.host, &from) {
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

    /// Gives a drive back that [`Settings::take`] took: its old driver, no `driver_override`, its block
    /// devices there within 20 s, their queue files and the features of its controller as they stood when it
    /// was taken; what it has lost for good is a warning ([`Settings::warnings`]). Nothing is done for a
    /// drive that this run did not take. The drive must not be open through VFIO any more: drop its
    /// controller first.
    ///
    /// # Errors
    /// [`SettingsError::NotGivenBack`]: the drive is gone, another one is in its place, a living process has it open (it is named), the
    /// old driver does not take it, or its block devices do not come; the journal is kept and the call may be
    /// repeated. [`SettingsError::Locked`] if another run was quicker to claim a block device.
    pub fn give_back(&mut self, address: PciAddress) -> Result<(), SettingsError> {
        let Some(position) = self.hold.taken.iter().position(|taken| taken.binding.0 == address) else {
            return Ok(());
        };
        let not_back = |reason: String| SettingsError::NotGivenBack { address, reason };
        let sys = &self.host.sys;
        let Taken { binding, from, disks, stood, kept, .. } = &self.hold.taken[position];
        let gone: Vec<String> = binding::absent(sys, disks).into_iter().map(str::to_owned).collect();
        match binding.give_back(self.host, from).map_err(|error| not_back(error.to_string()))? {
            GivenBack::Already => {}
            GivenBack::From(now) => {
                self.changes.push(Change { file: binding.to_string(), old: now, new: from.clone() });
            }
            GivenBack::Foreign(now) => {
                return Err(not_back(format!("somebody has bound it to `{now}`; it is left there")));
            }
        }
        let missing = binding::wait_for_disks(self.host, &gone);
        if !missing.is_empty() {
            return Err(not_back(missing_disks(self.host, &missing)));
        }
        let is_other = |disk: &&String| {
            PciAddress::of_device(&sys.join("block").join(disk)).is_some_and(|found| found != address)
        };
        if let Some(disk) = disks.iter().find(is_other) {
            return Err(not_back(format!(
                "its driver has it again, but {disk} is a block device of another drive now"
            )));
        }
        if let Some(now) = Serial(address).changed(sys, &self.undo) {
            return Err(not_back(format!(
                "its driver has it again, but it is {now}: its settings are left alone; start a new run"
            )));
        }
        for (attribute, value) in stood {
            if attribute.read(sys).is_ok_and(|now| now != *value) {
                attribute.write(sys, value).map_err(SettingsError::io("write to", &attribute.file(sys)))?;
            }
        }
        let failed = kept.iter().filter_map(|(kept, value)| kept.put_back(self.host, value).err());
        // What is gone took its values with it.
        let lost = failed
            .filter(|error| error.kind() != ErrorKind::NotFound)
            .map(|error| error.to_string())
            .collect();
        for disk in gone.iter().filter(|disk| self.devices.contains(disk)) {
            self.hold.claims.extend(host::claim(&sys.join("block"), disk)?);
        }
        self.hold.taken.remove(position);
        self.warn(lost);
        Ok(())
    }

    /// What a drive that [`Settings::take`] took had under its driver; nothing of another.
    pub fn kept(&self, address: PciAddress) -> nvme_user::Kept {
        let taken = self.hold.taken.iter().find(|taken| taken.binding.0 == address);
        taken.map(|taken| kept::for_our_driver(taken.serial.clone(), &taken.kept)).unwrap_or_default()
    }

    fn lock_drive(&mut self, binding: Binding, disks: &[String]) -> Result<(), SettingsError> {
        for name in std::iter::once(binding.lock_name()).chain(disks.iter().cloned()) {
            if !self.locks.holds(&name) && !self.hold.locks.contains_key(&name) {
                let lock = lock::take(&self.host.run, &name)?;
                self.hold.locks.insert(name, lock);
            }
        }
        Ok(())
    }

    /// Those of the run's devices that are among `disks`.
    fn own(&self, disks: &[String]) -> Vec<String> {
        self.devices.iter().filter(|device| disks.contains(device)).cloned().collect()
    }

    /// What stands in the queue files of these devices, in the order to set it in.
    fn stood(&self, own: &[String]) -> Vec<(Attribute, String)> {
        let settings = Setting::all().into_iter().filter(|setting| setting.is_of_queue());
        let attributes =
            settings.flat_map(|setting| Attribute::of(setting, &self.host.sys, own).unwrap_or_default());
        let standing = attributes.filter_map(|attribute| {
            let value = attribute.read(&self.host.sys).ok().filter(|value| is_plain_value(value))?;
            Some((attribute, value))
        });
        standing.collect()
    }
}

/// Why block devices that did not come back are no small thing.
pub(super) fn missing_disks(host: &Host, missing: &[&str]) -> String {
    format!(
        "its driver has it again, but {} did not come back within {} s; `dmesg` tells why, and whatever \
         still has the drive open lets it come back under another name",
        missing.join(", "),
        host.disks_limit.as_secs()
    )
}

/// The block devices of a drive: those of the plan, and under multipath the hidden ones that carry the I/O.
fn disks(sys: &Path, plan: &TakePlan) -> Vec<String> {
    let controllers = sys.join("bus/pci/devices").join(plan.address.to_string()).join("nvme");
    let shown = names_in(&controllers).flat_map(|controller| names_in(&controllers.join(controller)));
    let is_disk = |name: &String| is_device_name(name) && sys.join("block").join(name).exists();
    let mut disks: Vec<String> = shown.chain(plan.namespaces.iter().cloned()).filter(is_disk).collect();
    disks.sort();
    disks.dedup();
    disks
}
