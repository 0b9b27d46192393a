//! What a drive loses when it changes hands, beside the files of its queues: features of its controller,
//! which a reset gives their default values, and what the kernel was told of its cache.
//!
//! Sources: NVM Express Base Specification 2.0, Set Features; Documentation/ABI/stable/sysfs-block
//! (`write_cache`); Documentation/ABI/testing/sysfs-devices-power (`pm_qos_latency_tolerance_us`);
//! drivers/nvme/host/core.c (`nvme_configure_apst`, `nvme_set_latency_tolerance`). The kernel sets the power
//! state transitions by itself, by that tolerance, and none of the others.

use super::attribute::{NotAllowed, is_device_name};
use super::binding::{Binding, names_in};
use super::files;
use super::host::Host;
use super::serial::Serial;
use iopj_engine::target::head_of;
use iopj_engine::{PciAddress, nvme_user};
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One thing of a drive that is read before the drive is taken, and put back after.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kept {
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

/// How features are asked for and set, by the controller's character device.
#[derive(Clone, Copy, Debug)]
pub(super) struct FeatureAccess {
    pub(super) get: fn(&Path, u8) -> io::Result<u32>,
    pub(super) set: fn(&Path, u8, u32) -> io::Result<()>,
    /// Brings a drive that rests back to its last operational power state, by a namespace of it.
    pub(super) wake: fn(&Path) -> io::Result<()>,
}

impl Feature {
    const ALL: [Feature; 4] = [Feature::PowerState, Feature::WriteCache, Feature::Coalescing, Feature::Apst];

    fn id(self) -> u8 {
        match self {
            Feature::PowerState => 0x02,
            Feature::WriteCache => 0x06,
            Feature::Coalescing => 0x08,
            Feature::Apst => 0x0C,
        }
    }

    fn name(self) -> &'static str {
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

impl Kept {
    /// What is kept of a drive and of those of its block devices that the run may change, with the values
    /// that stand. What a drive does not have is absent; so are features of one that shows no serial, which
    /// could be put on another drive.
    pub(super) fn stands(host: &Host, address: PciAddress, devices: &[String]) -> Vec<(Kept, String)> {
        let features = Feature::ALL.map(|feature| Kept::Feature(address, feature));
        // The tolerance comes back first, for the kernel makes the power state transitions by it.
        let own = std::iter::once(Kept::Tolerance(address)).chain(features);
        let has_serial = Serial(address).read(&host.sys).is_some();
        let caches = devices.iter().cloned().map(Kept::Cache);
        let standing = own.filter(|_| has_serial).chain(caches).filter_map(|kept| {
            let value = kept.read(host).ok().filter(|value| kept.accepts(value))?;
            Some((kept, value))
        });
        standing.collect()
    }

    /// The block device that it belongs to.
    pub(super) fn device(&self) -> Option<&str> {
        match self {
            Kept::Feature(..) | Kept::Tolerance(_) => None,
            Kept::Cache(device) => Some(device),
        }
    }

    /// The lock under which it is changed.
    pub(super) fn lock_name(&self) -> String {
        match self {
            Kept::Feature(address, _) | Kept::Tolerance(address) => Binding(*address).lock_name(),
            Kept::Cache(device) => device.clone(),
        }
    }

    /// True for an old value that can be put back.
    pub(super) fn accepts(&self, old: &str) -> bool {
        match self {
            Kept::Feature(..) => parse(old).is_some(),
            Kept::Tolerance(_) => tolerance_us(old).is_some(),
            Kept::Cache(_) => matches!(old, "write back" | "write through"),
        }
    }

    /// Gives it the value `old` again where it has another; that one, or `None` where nothing was to be done.
    ///
    /// # Errors
    /// `NotFound` where the drive is gone; else what was lost, why, and how it is put back by hand.
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
        Err(self.lost(host, old, &format!("is {now} now, for putting it back failed ({why})")))
    }

    /// What was lost, and how it is put back by hand; `NotFound` where the drive is gone. `what` became of
    /// it.
    fn lost(&self, host: &Host, old: &str, what: &str) -> io::Error {
        match self {
            Kept::Feature(address, feature) => {
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
                    "{address}: {name} (feature {id:02X}h) was {old} before the drive was taken and {what}; \
                     {remedy}"
                ))
            }
            Kept::Tolerance(address) => {
                let Ok(file) = tolerance_file(host, *address) else { return ErrorKind::NotFound.into() };
                io::Error::other(format!(
                    "{address}: the latency that its power states may take was {old} us before the drive \
                     was taken and {what}; write `{old}` to {}",
                    file.display()
                ))
            }
            Kept::Cache(device) => {
                let file = cache_file(host, device);
                if !file.exists() {
                    return ErrorKind::NotFound.into();
                }
                io::Error::other(format!(
                    "{device}: what the kernel takes its cache for was {old} before the drive was taken and \
                     {what}; write `{old}` to {}",
                    file.display()
                ))
            }
        }
    }

    fn read(&self, host: &Host) -> io::Result<String> {
        match self {
            Kept::Feature(address, feature) => {
                if *feature == Feature::PowerState {
                    wake(host, *address)?;
                }
                let value = (host.features.get)(&node(host, *address)?, feature.id())?;
                Ok(format!("{:#x}", value & feature.mask()))
            }
            Kept::Tolerance(address) => read_line(&tolerance_file(host, *address)?),
            Kept::Cache(device) => read_line(&cache_file(host, device)),
        }
    }

    fn write(&self, host: &Host, value: &str) -> io::Result<()> {
        match self {
            Kept::Feature(_, Feature::Apst) => {
                Err(io::Error::other("the kernel sets it when it takes the drive, with a table of its own"))
            }
            Kept::Feature(address, feature) => {
                let value = parse(value).ok_or(ErrorKind::InvalidInput)?;
                (host.features.set)(&node(host, *address)?, feature.id(), value)
            }
            Kept::Tolerance(address) => files::write(&tolerance_file(host, *address)?, value),
            Kept::Cache(device) => files::write(&cache_file(host, device), value),
        }
    }
}

/// What is kept of the drive of this serial, for our driver to set it up by.
pub(super) fn for_our_driver(serial: Option<String>, kept: &[(Kept, String)]) -> nvme_user::Kept {
    let mut given = nvme_user::Kept { serial, ..nvme_user::Kept::default() };
    for (kept, old) in kept {
        match kept {
            Kept::Feature(_, Feature::Apst) => {
                given.apst_off = parse(old).is_some_and(|value| value & 1 == 0)
            }
            Kept::Feature(_, feature) => given.features.extend(parse(old).map(|value| {
                nvme_user::KeptFeature { name: feature.name(), id: feature.id(), value, mask: feature.mask() }
            })),
            Kept::Tolerance(_) => given.latency_tolerance_us = tolerance_us(old),
            Kept::Cache(_) => {}
        }
    }
    given
}

fn cache_file(host: &Host, device: &str) -> PathBuf {
    host.sys.join("block").join(device).join("queue/write_cache")
}

fn tolerance_file(host: &Host, address: PciAddress) -> io::Result<PathBuf> {
    controller(&host.sys, address).map(|folder| folder.join("power/pm_qos_latency_tolerance_us"))
}

fn read_line(file: &Path) -> io::Result<String> {
    fs::read_to_string(file).map(|text| text.trim().to_owned())
}

/// What a latency tolerance comes to: without a limit as much as there is. The kernel reads an `s32` that is
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

/// The folder of the controller that the kernel drives at an address.
pub(super) fn controller(sys: &Path, address: PciAddress) -> io::Result<PathBuf> {
    let folder = sys.join("bus/pci/devices").join(address.to_string()).join("nvme");
    let is_controller =
        |name: &String| name.strip_prefix("nvme").is_some_and(|number| number.parse::<u32>().is_ok());
    let name = names_in(&folder).find(is_controller).ok_or(ErrorKind::NotFound)?;
    Ok(folder.join(name))
}

/// Its character device.
fn node(host: &Host, address: PciAddress) -> io::Result<PathBuf> {
    let folder = controller(&host.sys, address)?;
    Ok(host.dev.join(folder.file_name().ok_or(ErrorKind::NotFound)?))
}

/// Brings the drive to the power state in which it works: one that has nothing to do may go to one that rests
/// by itself, and tells that one then.
fn wake(host: &Host, address: PciAddress) -> io::Result<()> {
    let mut disks = names_in(&controller(&host.sys, address)?).filter_map(|name| head_of(&name));
    let disk = disks.find(|disk| host.sys.join("block").join(disk).exists());
    let disk = disk
        .ok_or_else(|| io::Error::other("the drive has no namespace to read from, so it may be resting"))?;
    (host.features.wake)(&host.dev.join(disk))
}

/// A feature's value, in the form that [`Kept`] writes.
fn parse(text: &str) -> Option<u32> {
    let value = u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
    (format!("{value:#x}") == text).then_some(value)
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kept::Feature(address, feature) => {
                write!(f, "bus/pci/devices/{address}/nvme/feature/{:02X}h", feature.id())
            }
            Kept::Tolerance(address) => {
                write!(f, "bus/pci/devices/{address}/nvme/power/pm_qos_latency_tolerance_us")
            }
            Kept::Cache(device) => write!(f, "block/{device}/queue/write_cache"),
        }
    }
}

impl FromStr for Kept {
    type Err = NotAllowed;

    fn from_str(text: &str) -> Result<Kept, NotAllowed> {
        let kept = match text.split('/').collect::<Vec<_>>()[..] {
            ["block", device, "queue", "write_cache"] if is_device_name(device) => {
                Kept::Cache(device.to_owned())
            }
            ["bus", "pci", "devices", address, "nvme", "power", "pm_qos_latency_tolerance_us"] => {
                Kept::Tolerance(address.parse().map_err(|_| NotAllowed)?)
            }
            ["bus", "pci", "devices", address, "nvme", "feature", id] => {
                let address = address.parse().map_err(|_| NotAllowed)?;
                let feature = Feature::ALL.into_iter().find(|feature| id == format!("{:02X}h", feature.id()));
                Kept::Feature(address, feature.ok_or(NotAllowed)?)
            }
            _ => return Err(NotAllowed),
        };
        Ok(kept)
    }
}
