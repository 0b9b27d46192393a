//! What keeps a path from working, in words.

use crate::pci::{NVME_CLASS, PciAddress};
use crate::target::Target;
use std::path::Path;

/// What keeps a path from working, and what would make it work.
pub(crate) struct Obstacle {
    pub(crate) reason: String,
    pub(crate) remedy: String,
}

impl Obstacle {
    pub(crate) fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Obstacle {
        Obstacle { reason: reason.into(), remedy: remedy.into() }
    }
}

/// Why `nvme-user` cannot work on a target that the kernel drives, and which device to take.
pub(crate) fn not_taken(target: &Target) -> Obstacle {
    let is_nvme =
        |address: &PciAddress| address.class(Path::new("/sys")).is_some_and(|class| class == NVME_CLASS);
    let address =
        |device: &String| PciAddress::of_device(Path::new(&format!("/sys/block/{device}"))).filter(is_nvme);
    let mut addresses: Vec<PciAddress> = target.devices().iter().filter_map(address).collect();
    addresses.dedup();
    match addresses[..] {
        [address] => Obstacle::new(
            format!("the device is not taken from the kernel's driver: {address} is its controller"),
            format!("take it by `--take-device {address}` (its namespaces must not be in use)"),
        ),
        _ => Obstacle::new(
            "the target has no NVMe controller of its own, and none is taken from the kernel's driver",
            "name an NVMe namespace, and take its controller by `--take-device PCI-ADDRESS` (see `lspci -D`)",
        ),
    }
}
