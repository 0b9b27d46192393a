//! Which interrupts are a disk's, or a network interface's, own: from its place in `/sys/devices` and the
//! names in `/proc/interrupts`. Counting them is left to `interrupts`.
//!
//! Sources: Documentation/ABI/testing/sysfs-bus-pci (`msi_irqs`, `irq`); the names that
//! drivers/nvme/host/pci.c, drivers/block/virtio_blk.c, drivers/virtio/virtio_pci_common.c and
//! drivers/virtio/virtio_mmio.c give to their vectors.

use crate::interrupts::InterruptTable;
use crate::root::{is_numbered, names, text};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The interrupts of one disk.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Vectors {
    /// Number and name of each.
    pub(crate) list: Vec<(u32, String)>,
    /// The device in `/sys/devices` that raises them, and those of everything else below it.
    pub(crate) owner: PathBuf,
}

/// The vectors that carry the I/O of the disk at `place`; `None` if they cannot be told apart.
pub(crate) fn find(place: &Path, interrupts: &InterruptTable<'_>) -> Option<Vectors> {
    for directory in place.ancestors() {
        let name = directory.file_name()?.to_str()?;
        // A USB host's interrupts are those of every device on the bus, keyboards included.
        if name == "devices" || is_numbered(name, "usb") {
            return None;
        }
        let is_virtio = is_numbered(name, "virtio");
        if is_virtio && let Some(list) = by_name(name, interrupts) {
            return Some(Vectors { list, owner: directory.to_owned() });
        }
        // The first device with an interrupt is the disk's controller; those above are bridges.
        let signalled = names(&directory.join("msi_irqs"));
        if !signalled.is_empty() {
            let list = by_number(&signalled, interrupts)?;
            return Some(Vectors { list, owner: directory.to_owned() });
        }
        if directory.join("irq").exists() {
            let list = by_line(directory, interrupts)?;
            return Some(Vectors { list, owner: directory.to_owned() });
        }
    }
    None
}

/// Message-signalled interrupts: never shared between devices, but some are not for I/O.
fn by_number(signalled: &[String], interrupts: &InterruptTable<'_>) -> Option<Vec<(u32, String)>> {
    let numbers: BTreeSet<u32> = signalled.iter().filter_map(|number| number.parse().ok()).collect();
    let lines = interrupts.lines().filter(|line| numbers.contains(&line.irq));
    let found: Vec<_> = lines
        .filter(|line| line.actions().iter().any(|action| carries_io(action)))
        .map(|line| (line.irq, line.actions().join(", ")))
        .collect();
    (!found.is_empty()).then_some(found)
}

/// The interrupt line of the `irq` file, if it has only one handler.
fn by_line(directory: &Path, interrupts: &InterruptTable<'_>) -> Option<Vec<(u32, String)>> {
    let irq: u32 = text(&directory.join("irq")).ok()?.trim().parse().ok()?;
    let line = interrupts.lines().find(|line| line.irq == irq)?;
    match line.actions()[..] {
        [action] => Some(vec![(irq, action.to_owned())]),
        _ => None,
    }
}

/// virtio over MMIO has one interrupt, named after the device; over PCI they are named after
/// device and queue.
fn by_name(device: &str, interrupts: &InterruptTable<'_>) -> Option<Vec<(u32, String)>> {
    let found: Vec<_> = interrupts
        .lines()
        .filter_map(|line| match line.actions()[..] {
            [action] if action == device || (is_queue_of(action, device) && carries_io(action)) => {
                Some((line.irq, action.to_owned()))
            }
            _ => None,
        })
        .collect();
    (!found.is_empty()).then_some(found)
}

fn is_queue_of(action: &str, device: &str) -> bool {
    action.strip_prefix(device).is_some_and(|rest| rest.starts_with('-'))
}

/// False for vectors of configuration changes, NVMe's admin queue and virtio's control queues.
fn carries_io(action: &str) -> bool {
    let (device, queue) = action.split_once('-').unwrap_or((action, ""));
    if is_numbered(device, "virtio") && !queue.is_empty() {
        // `virtqueues` is the one vector for all queues where the device has too few.
        return !["config", "control", "event"].contains(&queue);
    }
    let is_admin = action.strip_suffix("q0").is_some_and(|controller| is_numbered(controller, "nvme"));
    !is_admin && !action.ends_with("-config")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_vectors_of_io_count() {
        for action in [
            "nvme0q1",
            "nvme12q128",
            "virtio1-req.0",
            "virtio3-request",
            "virtio0-virtqueues",
            "virtio2-input.0",
            "virtio2-output.1",
            "virtio0",
            "ahci0",
        ] {
            assert!(carries_io(action), "{action}");
        }
        for action in
            ["nvme0q0", "nvme12q0", "virtio1-config", "virtio3-control", "virtio3-event", "mpt-config"]
        {
            assert!(!carries_io(action), "{action}");
        }
    }

    #[test]
    fn a_queue_is_of_its_device_alone() {
        assert!(is_queue_of("virtio1-req.0", "virtio1"));
        assert!(!is_queue_of("virtio10-req.0", "virtio1"));
        assert!(!is_queue_of("virtio1", "virtio1"));
    }
}
