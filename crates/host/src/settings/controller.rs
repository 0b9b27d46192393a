//! The NVMe controller at a PCI address: its folder in sysfs, and the serial by which its drive is known.
//! Another drive may be in the slot when a drive is given back, and that drive's settings are its own.

use super::allowed::{NotAllowed, is_serial};
use crate::sysfs;
use iopj_engine::PciAddress;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The folder of the controller that the kernel drives at an address.
///
/// # Errors
/// `NotFound` if there is none, or a failed read of the folder.
pub(super) fn folder(sys: &Path, address: PciAddress) -> io::Result<PathBuf> {
    let folder = sys.join("bus/pci/devices").join(address.to_string()).join("nvme");
    sysfs::numbered(&folder, "nvme")?.into_values().next().ok_or(ErrorKind::NotFound.into())
}

/// The serial of the controller at an address. It is journalled and never written; its text form is
/// `bus/pci/devices/ADDRESS/nvme/serial`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Serial(pub(super) PciAddress);

impl Serial {
    /// The serial that the kernel shows; `None` if it drives no controller there, or shows no valid serial.
    pub(super) fn read(self, sys: &Path) -> Option<String> {
        let text = sysfs::read(&folder(sys, self.0).ok()?.join("serial")).ok()?;
        Some(text).filter(|text| !text.is_empty() && is_serial(text))
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bus/pci/devices/{}/nvme/serial", self.0)
    }
}

impl FromStr for Serial {
    type Err = NotAllowed;

    fn from_str(text: &str) -> Result<Serial, NotAllowed> {
        let address =
            text.strip_prefix("bus/pci/devices/").and_then(|rest| rest.strip_suffix("/nvme/serial"));
        address.and_then(|address| address.parse().ok()).map(Serial).ok_or(NotAllowed)
    }
}
