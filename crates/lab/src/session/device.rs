//! The drives that a guest can have: their names, their nodes in the guest, the modules and QEMU drives
//! behind them.

use super::FaultKind;
use crate::image::ModuleWish;
use crate::vm::{Backend, Drive, Nvme};

/// Pairs of I/O queues of the emulated controller: enough for a guest of eight processors.
const MAX_IOQPAIRS: u32 = 24;
/// Bytes of an emulated drive. It stores nothing.
const DRIVE_BYTES: u64 = 8 << 30;
/// How long the virtio drive takes per request.
const VIRTIO_LATENCY_NS: u64 = 100_000;

/// The drive that a guest has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// An emulated NVMe drive with a poll queue per processor; it answers at once.
    Nvme,
    /// A virtio-blk drive with a poll queue that answers after 100 us, on a thread of its own.
    Virtio,
    /// The kernel's null_blk with poll queues: no drive at all, the block layer alone.
    NullBlk,
}

impl Device {
    /// Every device.
    pub const ALL: [Device; 3] = [Device::Nvme, Device::Virtio, Device::NullBlk];

    /// The device's name, as `--device` takes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Device::Nvme => "nvme",
            Device::Virtio => "virtio",
            Device::NullBlk => "null_blk",
        }
    }

    /// A description for users.
    pub fn about(self) -> &'static str {
        match self {
            Device::Nvme => "Emulated NVMe with poll queues; it answers at once",
            Device::Virtio => "virtio-blk with a poll queue; it answers after 100 us",
            Device::NullBlk => "The kernel's null_blk with poll queues",
        }
    }

    /// Its node in the guest.
    pub(super) fn node(self, passthrough: bool) -> &'static str {
        match (self, passthrough) {
            (Device::Nvme, false) => "/dev/nvme0n1",
            (Device::Nvme, true) => "/dev/ng0n1",
            (Device::Virtio, _) => "/dev/vda",
            (Device::NullBlk, _) => "/dev/nullb0",
        }
    }

    /// QEMU's drive, for a guest with this many processors; `None` if the guest's kernel makes it.
    pub(super) fn drive(self, vcpus: u32, fault: Option<FaultKind>) -> Option<Drive> {
        let backend = |latency_ns| match fault {
            Some(FaultKind::ReadErrors) => Backend::Failable { size_bytes: DRIVE_BYTES },
            _ => Backend::Null { size_bytes: DRIVE_BYTES, latency_ns },
        };
        match self {
            Device::Nvme => Some(Drive::Nvme(Nvme::new(MAX_IOQPAIRS, backend(0)))),
            Device::Virtio => {
                let backend = backend(VIRTIO_LATENCY_NS);
                Some(Drive::VirtioBlk { queues: vcpus + 1, host_poll_ns: 0, backend })
            }
            Device::NullBlk => None,
        }
    }

    /// The modules that drive it, with their options.
    pub(super) fn modules(self, vcpus: u32, fault: Option<FaultKind>) -> Vec<ModuleWish> {
        let with =
            |name: &str, options: &[String]| ModuleWish { name: name.to_owned(), options: options.to_vec() };
        let polls = format!("poll_queues={vcpus}");
        match self {
            Device::Nvme => {
                // The kernel gives a command 30 s, and after a reset another try, five times.
                let impatient = ["io_timeout=3", "admin_timeout=3", "max_retries=0"].map(str::to_owned);
                let silence = fault == Some(FaultKind::Silence);
                vec![with("nvme_core", if silence { &impatient } else { &[] }), with("nvme", &[polls])]
            }
            Device::Virtio => vec![with("virtio_blk", &["poll_queues=1".to_owned()])],
            Device::NullBlk => {
                let queues = format!("submit_queues={vcpus}");
                vec![with("null_blk", &["queue_mode=2".to_owned(), "gb=8".to_owned(), queues, polls])]
            }
        }
    }
}
