//! The address of a PCI function, and what sysfs says of it.

use crate::system::attribute;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A PCI function as Linux writes it: `0000:01:00.0`, domain, bus, device and function in hexadecimal.
///
/// `FromStr` takes only this form, so no other text can become part of a path in sysfs. The domain has four
/// digits or more (behind a VMD it is above ffff), the device five bits, the function three
/// (drivers/pci/probe.c, `pci_setup_device`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PciAddress {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

/// What protects the host's memory from a drive that a program drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// An IOMMU: the drive reaches only the memory that was mapped for it.
    Iommu,
    /// Nothing (VFIO's no-IOMMU mode): a wrong address makes the drive overwrite any memory.
    None,
}

/// A text that is not a PCI address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a PCI address: write it in full as 0000:01:00.0, as `lspci -D` and /sys/bus/pci/devices \
     show it"
)]
pub struct ParsePciAddressError(String);

/// Class, subclass and programming interface of an NVMe controller (PCI Code and ID Assignment, 01h 08h 02h).
pub(crate) const NVME_CLASS: &str = "0x010802";

impl PciAddress {
    /// The folder of the function below `sysfs`.
    pub(crate) fn folder(&self, sysfs: &Path) -> PathBuf {
        sysfs.join("bus/pci/devices").join(self.to_string())
    }

    /// Its class as sysfs writes it; `None` if there is no such function.
    pub(crate) fn class(&self, sysfs: &Path) -> Option<String> {
        attribute(&self.folder(sysfs), "class")
    }

    /// The function that carries a block device or an NVMe controller, by the device's folder in sysfs;
    /// `None` for a device that is not on a PCI bus.
    pub fn of_device(folder: &Path) -> Option<PciAddress> {
        let whole = folder.canonicalize().ok()?;
        // The innermost: above it are the bridges that lead to it.
        whole.ancestors().find_map(|folder| folder.file_name()?.to_str()?.parse().ok())
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

impl FromStr for PciAddress {
    type Err = ParsePciAddressError;

    fn from_str(text: &str) -> Result<PciAddress, ParsePciAddressError> {
        let parse = || {
            let (domain, rest) = text.split_once(':')?;
            let (bus, rest) = rest.split_once(':')?;
            let (device, function) = rest.split_once('.')?;
            let number = |digits: &str| u32::from_str_radix(digits, 16).ok();
            Some(PciAddress {
                domain: number(domain)?,
                bus: number(bus)?.try_into().ok()?,
                device: number(device)?.try_into().ok().filter(|device| *device < 32)?,
                function: number(function)?.try_into().ok().filter(|function| *function < 8)?,
            })
        };
        // Only the form that is written back: no sign, no capitals, no missing or needless zeros.
        parse()
            .filter(|address| address.to_string() == text)
            .ok_or_else(|| ParsePciAddressError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_form_of_linux_is_an_address() {
        for text in ["0000:01:00.0", "0000:ff:1f.7", "10000:e1:00.0"] {
            assert_eq!(text.parse::<PciAddress>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "01:00.0",
            "0000:01:00",
            "0000:01:20.0",
            "0000:01:00.8",
            "0000:1:00.0",
            "+000:01:00.0",
            "0000:0A:00.0",
        ] {
            let message = text.parse::<PciAddress>().unwrap_err().to_string();
            assert!(message.contains(&format!("`{text}` is not a PCI address")), "{message}");
        }
    }

    #[test]
    fn a_device_is_on_its_innermost_function() {
        let tree = tempfile::tempdir().unwrap();
        let disk = tree.path().join("devices/pci0000:00/0000:00:04.0/0000:01:00.0/nvme/nvme0/nvme0n1");
        std::fs::create_dir_all(&disk).unwrap();
        assert_eq!(PciAddress::of_device(&disk), Some("0000:01:00.0".parse().unwrap()));
        assert_eq!(PciAddress::of_device(&tree.path().join("devices")), None);
        assert_eq!(PciAddress::of_device(&tree.path().join("gone")), None);
    }

    proptest! {
        #[test]
        fn no_text_leads_out_of_a_folder(text in "\\PC{0,30}") {
            if let Ok(address) = text.parse::<PciAddress>() {
                prop_assert_eq!(address.to_string(), text.clone());
                prop_assert!(!text.contains('/'));
            }
        }
    }
}
