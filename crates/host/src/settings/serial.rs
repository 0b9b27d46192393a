//! Which drive stood at an address when it was taken. Another one may be in its slot when it is given back,
//! and its settings are its own.

use super::attribute::NotAllowed;
use super::item::Item;
use super::journal::Undo;
use super::kept;
use iopj_engine::PciAddress;
use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

/// The serial of the controller at an address. It is journalled and never written; its text form is
/// `bus/pci/devices/ADDRESS/nvme/serial`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Serial(pub(super) PciAddress);

impl Serial {
    /// What the kernel shows; `None` where it drives no controller there, or shows none, or what is no
    /// serial.
    pub(super) fn read(self, sys: &Path) -> Option<String> {
        let text = fs::read_to_string(kept::controller(sys, self.0).ok()?.join("serial")).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty() && is_serial(text))
    }

    /// That another drive is there than the one of which `undo` tells.
    pub(super) fn changed(self, sys: &Path, undo: &Undo) -> Option<String> {
        let (old, now) = (undo.old(&Item::Serial(self))?, self.read(sys)?);
        (now != old).then(|| format!("another drive now (serial {now}, it was {old} when it was taken)"))
    }
}

/// True for a serial: visible ASCII and spaces (NVM Express Base Specification 2.0, Identify Controller: 20
/// bytes).
pub(super) fn is_serial(text: &str) -> bool {
    text.len() <= 20 && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
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
