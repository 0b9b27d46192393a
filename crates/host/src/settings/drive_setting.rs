//! What a drive loses when its driver changes, beside the files of its queues: features of its controller,
//! which a reset sets to their defaults, and how the kernel treats its cache. Which of them a study changes
//! is left to `controller_setting`.
//!
//! Sources: NVM Express Base Specification 2.0, Set Features; Documentation/ABI/stable/sysfs-block
//! (`write_cache`); Documentation/ABI/testing/sysfs-devices-power (`pm_qos_latency_tolerance_us`);
//! drivers/nvme/host/core.c (`nvme_configure_apst`, `nvme_set_latency_tolerance`). The kernel sets the power
//! state transitions by itself, by that tolerance, and none of the others.

use super::allowed::{NotAllowed, is_device_name};
use super::binding::Binding;
use super::controller::{self, Serial};
use super::host::Host;
use crate::sysfs;
use iopj_engine::PciAddress;
use iopj_engine::nvme_user::{FeatureValue, PriorState};
use iopj_engine::target::visible_namespace;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::str::FromStr;

/// One thing of a drive that is read before the drive is taken, and put back afterwards.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DriveSetting {
    Feature(PciAddress, Feature),
    /// `power/pm_qos_latency_tolerance_us` of the controller: how long leaving a power state that it enters
    /// by itself may take.
    Tolerance(PciAddress),
    /// `queue/write_cache` of a block device: whether the kernel flushes it.
    Cache(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Feature {
    PowerState,
    WriteCache,
    Coalescing,
    Apst,
}

impl Feature {
    const ALL: [Feature; 4] = [Feature::PowerState, Feature::WriteCache, Feature::Coalescing, Feature::Apst];

    pub(super) fn id(self) -> u8 {
        match self {
            Feature::PowerState => 0x02,
            Feature::WriteCache => 0x06,
            Feature::Coalescing => 0x08,
            Feature::Apst => 0x0C,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Feature::PowerState => "power state",
            Feature::WriteCache => "volatile write cache",
            Feature::Coalescing => "interrupt coalescing",
            Feature::Apst => "autonomous power state transitions",
        }
    }

    /// The bits that are its value.
    fn mask(self) -> u32 {
        match self {
            // Power State and Workload Hint.
            Feature::PowerState => 0xFF,
            Feature::WriteCache | Feature::Coalescing | Feature::Apst => u32::MAX,
        }
    }
}

impl DriveSetting {
    /// The settings of a drive, and of those of its block devices that the run may change, with their current
    /// values. What a drive lacks is absent. So are all features of a drive without a serial: they could be
    /// put on another drive.
    pub(super) fn current(
        host: &Host,
        address: PciAddress,
        devices: &[String],
    ) -> Vec<(DriveSetting, String)> {
        let features = Feature::ALL.map(|feature| DriveSetting::Feature(address, feature));
        // The tolerance comes back first, for the kernel makes the power state transitions by it.
        let own = std::iter::once(DriveSetting::Tolerance(address)).chain(features);
        let has_serial = Serial(address).read(&host.sys).is_some();
        let caches = devices.iter().cloned().map(DriveSetting::Cache);
        let current = own.filter(|_| has_serial).chain(caches).filter_map(|setting| {
            let value = setting.read(host).ok().filter(|value| setting.accepts(value))?;
            Some((setting, value))
        });
        current.collect()
    }

    /// The block device that it belongs to.
    pub(super) fn device(&self) -> Option<&str> {
        match self {
            DriveSetting::Feature(..) | DriveSetting::Tolerance(_) => None,
            DriveSetting::Cache(device) => Some(device),
        }
    }

    /// The lock under which it is changed.
    pub(super) fn lock_name(&self) -> String {
        match self {
            DriveSetting::Feature(address, _) | DriveSetting::Tolerance(address) => {
                Binding(*address).lock_name()
            }
            DriveSetting::Cache(device) => device.clone(),
        }
    }

    /// True for an old value that can be put back.
    pub(super) fn accepts(&self, old: &str) -> bool {
        match self {
            DriveSetting::Feature(..) => parse(old).is_some(),
            DriveSetting::Tolerance(_) => tolerance_us(old).is_some(),
            DriveSetting::Cache(_) => matches!(old, "write back" | "write through"),
        }
    }

    /// Gives it the value `old` again. Returns the value that it had instead, or `None` if it was `old`
    /// already.
    ///
    /// # Errors
    /// `NotFound` if the drive is gone; otherwise what was lost, why, and how to put it back by hand.
    pub(super) fn put_back(&self, host: &Host, old: &str) -> io::Result<Option<String>> {
        let unreadable = |error: io::Error| self.lost(host, old, &format!("cannot be read now: {error}"));
        let now = self.read(host).map_err(unreadable)?;
        if now == old {
            return Ok(None);
        }
        let why = match self.write(host, old) {
            Ok(()) if self.read(host).map_err(unreadable)? == old => return Ok(Some(now)),
            Ok(()) => "it did not take the old value again".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(self.lost(host, old, &format!("is {now} now, because putting it back failed ({why})")))
    }

    /// What was lost (`what` says how), and how to put it back by hand; `NotFound` if the drive is gone.
    fn lost(&self, host: &Host, old: &str, what: &str) -> io::Error {
        match self {
            DriveSetting::Feature(address, feature) => {
                let Ok(node) = node(host, *address) else { return ErrorKind::NotFound.into() };
                let (name, id) = (feature.name(), feature.id());
                let remedy = match feature {
                    Feature::Apst => "look at power/pm_qos_latency_tolerance_us of the controller".to_owned(),
                    _ => format!(
                        "a reset of the controller loses it, and `nvme set-feature {} --feature-id={id} \
                         --value={old}` sets it",
                        node.display()
                    ),
                };
                io::Error::other(format!(
                    "{address}: {name} (feature {id:02X}h) was {old} before the run and {what}; \
                     {remedy}"
                ))
            }
            DriveSetting::Tolerance(address) => {
                let Ok(file) = tolerance_file(host, *address) else { return ErrorKind::NotFound.into() };
                io::Error::other(format!(
                    "{address}: the latency that its power states may take was {old} us before the run \
                     and {what}; write `{old}` to {}",
                    file.display()
                ))
            }
            DriveSetting::Cache(device) => {
                let file = cache_file(host, device);
                if !file.exists() {
                    return ErrorKind::NotFound.into();
                }
                io::Error::other(format!(
                    "{device}: the kernel treated its cache as {old} before the run, and this {what}; \
                     write `{old}` to {}",
                    file.display()
                ))
            }
        }
    }

    pub(super) fn read(&self, host: &Host) -> io::Result<String> {
        match self {
            DriveSetting::Feature(address, feature) => {
                if *feature == Feature::PowerState {
                    wake(host, *address)?;
                }
                let value = (host.features.get)(&node(host, *address)?, feature.id())?;
                Ok(format!("{:#x}", value & feature.mask()))
            }
            DriveSetting::Tolerance(address) => sysfs::read(&tolerance_file(host, *address)?),
            DriveSetting::Cache(device) => sysfs::read(&cache_file(host, device)),
        }
    }

    pub(super) fn write(&self, host: &Host, value: &str) -> io::Result<()> {
        match self {
            DriveSetting::Feature(_, Feature::Apst) => {
                Err(io::Error::other("the kernel sets it when it takes the drive, with a table of its own"))
            }
            DriveSetting::Feature(address, feature) => {
                let value = parse(value).ok_or(ErrorKind::InvalidInput)?;
                (host.features.set)(&node(host, *address)?, feature.id(), value)
            }
            DriveSetting::Tolerance(address) => sysfs::write(&tolerance_file(host, *address)?, value),
            DriveSetting::Cache(device) => sysfs::write(&cache_file(host, device), value),
        }
    }
}

/// The settings of the drive of this serial, for our driver to set it up by.
pub(super) fn for_our_driver(serial: Option<String>, settings: &[(DriveSetting, String)]) -> PriorState {
    let mut prior = PriorState { serial, ..PriorState::default() };
    for (setting, old) in settings {
        match setting {
            DriveSetting::Feature(_, Feature::Apst) => {
                prior.apst_off = parse(old).is_some_and(|value| value & 1 == 0)
            }
            DriveSetting::Feature(_, feature) => prior.features.extend(parse(old).map(|value| {
                FeatureValue { name: feature.name(), id: feature.id(), value, mask: feature.mask() }
            })),
            DriveSetting::Tolerance(_) => prior.latency_tolerance_us = tolerance_us(old),
            DriveSetting::Cache(_) => {}
        }
    }
    prior
}

fn cache_file(host: &Host, device: &str) -> PathBuf {
    host.sys.join("block").join(device).join("queue/write_cache")
}

fn tolerance_file(host: &Host, address: PciAddress) -> io::Result<PathBuf> {
    controller::folder(&host.sys, address).map(|folder| folder.join("power/pm_qos_latency_tolerance_us"))
}

/// A latency tolerance in us; the greatest number if it is without a limit. The kernel reads an `s32` that is
/// not negative.
fn tolerance_us(text: &str) -> Option<u64> {
    match text {
        "auto" | "any" => Some(u64::MAX),
        text => {
            let us = text.parse::<i32>().ok().filter(|us| us.to_string() == text)?;
            u64::try_from(us).ok()
        }
    }
}

/// The controller's character device.
fn node(host: &Host, address: PciAddress) -> io::Result<PathBuf> {
    let folder = controller::folder(&host.sys, address)?;
    Ok(host.dev.join(folder.file_name().ok_or(ErrorKind::NotFound)?))
}

/// Brings the drive to the power state in which it works: an idle drive may enter a resting state by itself,
/// and then reports that one.
fn wake(host: &Host, address: PciAddress) -> io::Result<()> {
    let mut disks =
        sysfs::names_in(&controller::folder(&host.sys, address)?).filter_map(|name| visible_namespace(&name));
    let disk = disks.find(|disk| host.sys.join("block").join(disk).exists());
    let disk = disk
        .ok_or_else(|| io::Error::other("the drive has no namespace to read from, so it may be resting"))?;
    (host.features.wake)(&host.dev.join(disk))
}

/// A feature's value, in the form that [`DriveSetting`] writes.
pub(super) fn parse(text: &str) -> Option<u32> {
    let value = u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
    (format!("{value:#x}") == text).then_some(value)
}

impl fmt::Display for DriveSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DriveSetting::Feature(address, feature) => {
                write!(f, "bus/pci/devices/{address}/nvme/feature/{:02X}h", feature.id())
            }
            DriveSetting::Tolerance(address) => {
                write!(f, "bus/pci/devices/{address}/nvme/power/pm_qos_latency_tolerance_us")
            }
            DriveSetting::Cache(device) => write!(f, "block/{device}/queue/write_cache"),
        }
    }
}

impl FromStr for DriveSetting {
    type Err = NotAllowed;

    fn from_str(text: &str) -> Result<DriveSetting, NotAllowed> {
        let setting = match text.split('/').collect::<Vec<_>>()[..] {
            ["block", device, "queue", "write_cache"] if is_device_name(device) => {
                DriveSetting::Cache(device.to_owned())
            }
            ["bus", "pci", "devices", address, "nvme", "power", "pm_qos_latency_tolerance_us"] => {
                DriveSetting::Tolerance(address.parse().map_err(|_| NotAllowed)?)
            }
            ["bus", "pci", "devices", address, "nvme", "feature", id] => {
                let address = address.parse().map_err(|_| NotAllowed)?;
                let feature = Feature::ALL.into_iter().find(|feature| id == format!("{:02X}h", feature.id()));
                DriveSetting::Feature(address, feature.ok_or(NotAllowed)?)
            }
            _ => return Err(NotAllowed),
        };
        Ok(setting)
    }
}
