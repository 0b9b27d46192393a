//! What a drive loses when it changes hands, beside the files of its queues: features of its controller, which a reset gives their default
//! values, and what the kernel was told of its cache.
//!
//! Sources: NVM Express Base Specification 2.0, Set Features; Documentation/ABI/stable/sysfs-block (`write_cache`);
//! drivers/nvme/host/core.c (`nvme_configure_apst`). The kernel sets the power state transitions by itself, and neither of the two others.

use super::attribute::{NotAllowed, is_device_name};
use super::binding::{Binding, names_in};
use super::files;
use super::host::Host;
use iopj_engine::PciAddress;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One thing of a drive that is read before the drive is taken, and put back after.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kept {
    Feature(PciAddress, Feature),
    /// `queue/write_cache` of a block device: whether the kernel flushes it.
    Cache(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Feature {
    WriteCache,
    Coalescing,
    Apst,
}

/// How features are asked for and set, by the controller's character device.
#[derive(Clone, Copy, Debug)]
pub(super) struct FeatureAccess {
    pub(super) get: fn(&Path, u8) -> io::Result<u32>,
    pub(super) set: fn(&Path, u8, u32) -> io::Result<()>,
}

impl Feature {
    const ALL: [Feature; 3] = [Feature::WriteCache, Feature::Coalescing, Feature::Apst];

    fn id(self) -> u8 {
        match self {
            Feature::WriteCache => 0x06,
            Feature::Coalescing => 0x08,
            Feature::Apst => 0x0C,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Feature::WriteCache => "volatile write cache",
            Feature::Coalescing => "interrupt coalescing",
            Feature::Apst => "autonomous power state transitions",
        }
    }
}

impl Kept {
    /// What is kept of a drive and of those of its block devices that the run may change, with the values that stand. What a drive
    /// does not have is absent.
    pub(super) fn stands(host: &Host, address: PciAddress, devices: &[String]) -> Vec<(Kept, String)> {
        let features = Feature::ALL.into_iter().map(|feature| Kept::Feature(address, feature));
        let caches = devices.iter().cloned().map(Kept::Cache);
        let standing = features.chain(caches).filter_map(|kept| {
            let value = kept.read(host).ok().filter(|value| kept.accepts(value))?;
            Some((kept, value))
        });
        standing.collect()
    }

    /// The block device that it belongs to.
    pub(super) fn device(&self) -> Option<&str> {
        match self {
            Kept::Feature(..) => None,
            Kept::Cache(device) => Some(device),
        }
    }

    /// The lock under which it is changed.
    pub(super) fn lock_name(&self) -> String {
        match self {
            Kept::Feature(address, _) => Binding(*address).lock_name(),
            Kept::Cache(device) => device.clone(),
        }
    }

    /// True for an old value that can be put back.
    pub(super) fn accepts(&self, old: &str) -> bool {
        match self {
            Kept::Feature(..) => parse(old).is_some(),
            Kept::Cache(_) => matches!(old, "write back" | "write through"),
        }
    }

    /// Gives it the value `old` again where it has another; that one, or `None` where nothing was to be done.
    ///
    /// # Errors
    /// `NotFound` where the drive is gone; else what was lost, why, and how it is put back by hand.
    pub(super) fn put_back(&self, host: &Host, old: &str) -> io::Result<Option<String>> {
        let now = self.read(host)?;
        if now == old {
            return Ok(None);
        }
        let why = match self.write(host, old) {
            Ok(()) if self.read(host)? == old => return Ok(Some(now)),
            Ok(()) => "it did not take the old value again".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(io::Error::other(match self {
            Kept::Feature(address, feature @ Feature::Apst) => format!(
                "{address}: {} (feature {:02X}h) was {old} before the drive was taken and is {now} now: {why}; look at \
                 power/pm_qos_latency_tolerance_us of the controller",
                feature.name(),
                feature.id()
            ),
            Kept::Feature(address, feature) => format!(
                "{address}: {} (feature {:02X}h) was {old} before the drive was taken and is {now} now, for a reset of the controller \
                 loses it and putting it back failed ({why}): `nvme set-feature {} --feature-id={} --value={old}` sets it",
                feature.name(),
                feature.id(),
                controller(host, *address)?.display(),
                feature.id(),
            ),
            Kept::Cache(device) => format!(
                "{device}: the kernel took its cache for `{old}` before the drive was taken and takes it for `{now}` now ({why}): write \
                 `{old}` to {}",
                self.file(host, device).display()
            ),
        }))
    }

    fn read(&self, host: &Host) -> io::Result<String> {
        match self {
            Kept::Feature(address, feature) => {
                (host.features.get)(&controller(host, *address)?, feature.id()).map(|value| format!("{value:#x}"))
            }
            Kept::Cache(device) => fs::read_to_string(self.file(host, device)).map(|text| text.trim().to_owned()),
        }
    }

    fn write(&self, host: &Host, value: &str) -> io::Result<()> {
        match self {
            Kept::Feature(_, Feature::Apst) => {
                Err(io::Error::other("the kernel sets it when it takes the drive, with a table of its own"))
            }
            Kept::Feature(address, feature) => {
                let value = parse(value).ok_or(ErrorKind::InvalidInput)?;
                (host.features.set)(&controller(host, *address)?, feature.id(), value)
            }
            Kept::Cache(device) => files::write(&self.file(host, device), value),
        }
    }

    fn file(&self, host: &Host, device: &str) -> PathBuf {
        host.sys.join("block").join(device).join("queue/write_cache")
    }
}

/// The character device of the controller that the kernel drives at an address.
fn controller(host: &Host, address: PciAddress) -> io::Result<PathBuf> {
    let folder = host.sys.join("bus/pci/devices").join(address.to_string()).join("nvme");
    let is_controller = |name: &String| name.strip_prefix("nvme").is_some_and(|number| number.parse::<u32>().is_ok());
    let name = names_in(&folder).find(is_controller).ok_or(ErrorKind::NotFound)?;
    Ok(host.dev.join(name))
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
            Kept::Cache(device) => write!(f, "block/{device}/queue/write_cache"),
        }
    }
}

impl FromStr for Kept {
    type Err = NotAllowed;

    fn from_str(text: &str) -> Result<Kept, NotAllowed> {
        let kept = match text.split('/').collect::<Vec<_>>()[..] {
            ["block", device, "queue", "write_cache"] if is_device_name(device) => Kept::Cache(device.to_owned()),
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
