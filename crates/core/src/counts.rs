//! Counts of a whole disk and of all cores over a window, on whichever host they are.

use crate::shared::Shared;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts of one whole disk, from `/sys/block/X/stat` and `/proc/interrupts`; of a device that was taken from
/// its kernel driver (`taken_by`), the commands that it counts itself (`reads`, `writes`) and the interrupts
/// that the kernel passes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceEvidence {
    /// Kernel name, such as `nvme0n1`; the PCI address of a device that was taken.
    pub name: String,
    /// Reads completed.
    pub reads: u64,
    /// Reads merged into another before they reached the device.
    pub read_merges: u64,
    /// 512-byte sectors read.
    pub read_sectors: u64,
    /// Writes completed.
    pub writes: u64,
    /// Writes merged into another.
    pub write_merges: u64,
    /// 512-byte sectors written.
    pub write_sectors: u64,
    /// Discards completed; 0 before Linux 4.18, which does not count them.
    pub discards: u64,
    /// Flushes completed; 0 before Linux 5.5, which does not count them.
    pub flushes: u64,
    /// Sum of the times that I/Os spent in the queue, in ms.
    pub in_queue_ms: u64,
    /// Interrupts on the device's own vectors; absent where they cannot be told apart, or where a
    /// vector or a core came or went in the window.
    pub interrupts: Option<u64>,
    /// The vectors that were counted: interrupt number and name. One of a device that was taken may be masked
    /// at both ends of the window, and has no name then.
    pub vectors: Vec<String>,
    /// Queue settings at the window's end: `io_poll`, `io_poll_delay`, `scheduler`, …; of a device that
    /// `nvme-user` drove, how it was set up: `host_memory_buffer`, `apst`, `volatile_write_cache`, ….
    pub settings: Shared<BTreeMap<String, String>>,
    /// The driver of a device without a block layer, where it was the same at both ends of the window:
    /// `vfio-pci` lends the device to a program, and then no kernel code can reach it. The drive's SMART log
    /// counts its I/Os; sectors are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_by: Option<String>,
    /// True if the reads and writes are those of the drive's SMART log. It counts I/Os that the kernel does
    /// not, because the drive was taken from it or (before Linux 6.12) because they were passed through.
    /// Their sectors are not counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_log: bool,
}

/// CPU time of all cores by kind in ns, from `/proc/stat` (so in steps of a clock tick).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTimes {
    /// User space, niced included.
    pub user_ns: u64,
    /// Kernel.
    pub system_ns: u64,
    /// Idle.
    pub idle_ns: u64,
    /// Idle while an I/O of this core was outstanding.
    pub iowait_ns: u64,
    /// Hardware interrupts.
    pub irq_ns: u64,
    /// Soft interrupts.
    pub softirq_ns: u64,
    /// Taken by the hypervisor.
    pub steal_ns: u64,
    /// Online cores.
    pub cores: u32,
}

impl CpuTimes {
    /// The sum of all kinds in ns.
    pub fn total_ns(&self) -> u64 {
        let kinds =
            [self.system_ns, self.idle_ns, self.iowait_ns, self.irq_ns, self.softirq_ns, self.steal_ns];
        kinds.into_iter().fold(self.user_ns, u64::saturating_add)
    }
}
