//! Emulated drives, and QEMU's arguments for them (docs/system/devices/nvme.rst; qemu(1), -blockdev).

use std::path::PathBuf;

use serde_json::{Value, json};

use super::arguments::Arguments;

/// The serial number of a machine's first drive, which distinguishes it from a real one. The others append
/// their number, `iopjlab1`: NVMe controllers of one serial number are one to the kernel.
pub const SERIAL: &str = "iopjlab";

/// An emulated drive, behind a PCIe port of its own so it can be pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drive {
    /// An NVMe controller with one namespace.
    Nvme(Nvme),
    /// A virtio-blk drive, served by a thread of its own: its latency passes while the guest runs.
    VirtioBlk {
        /// Request queues.
        queues: u32,
        /// How long the thread polls for requests before it sleeps; 0 never polls.
        host_poll_ns: u64,
        /// Where its data is.
        backend: Backend,
    },
}

/// An NVMe controller with one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nvme {
    /// Pairs of I/O queues that the controller offers.
    pub max_ioqpairs: u32,
    /// The logical block that the namespace is formatted with: 512 or 4096 bytes.
    pub block_bytes: u32,
    /// It is the second function of the PCI device whose first function is the drive before it. No IOMMU
    /// distinguishes the two, so they are in one group.
    pub second_function: bool,
    /// Where its data is. A latency there becomes an artefact: use virtio for slow drives.
    pub backend: Backend,
}

impl Nvme {
    /// A controller behind a port of its own, with blocks of 512 bytes.
    pub fn new(max_ioqpairs: u32, backend: Backend) -> Nvme {
        Nvme { max_ioqpairs, block_bytes: 512, second_function: false, backend }
    }

    fn device(&self) -> String {
        let (pairs, block) = (self.max_ioqpairs, self.block_bytes);
        // One command moves up to 1 MiB: 2^8 pages of 4 KiB.
        format!("nvme,max_ioqpairs={pairs},mdts=8,logical_block_size={block},physical_block_size={block}")
    }
}

/// What answers a drive's reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    /// Stores nothing; reads return zeros.
    Null {
        /// The drive's size.
        size_bytes: u64,
        /// How long each request takes.
        latency_ns: u64,
    },
    /// A raw file.
    File {
        /// The file.
        path: PathBuf,
    },
    /// As [`Backend::Null`], but reads that contain one of these sectors of 512 bytes fail: with ENODATA
    /// through NVMe (its medium error), with EIO through virtio.
    BadSectors {
        /// The drive's size.
        size_bytes: u64,
        /// The sectors' numbers.
        sectors: Vec<u64>,
    },
    /// As [`Backend::Null`] until [`super::Qmp::fail`]; from then on every read fails, as
    /// [`Backend::BadSectors`] does.
    Failable {
        /// The drive's size.
        size_bytes: u64,
    },
    /// As [`Backend::Null`] until [`super::Qmp::stall`]; from then on requests go unanswered.
    Stallable {
        /// The drive's size.
        size_bytes: u64,
    },
}

impl Drive {
    /// Adds the drive with this index in [`super::MachineSpec::drives`]; `next` is the one after it.
    pub(super) fn arguments(&self, number: usize, next: Option<&Drive>, line: &mut Arguments) {
        let (device, backend) = match self {
            Drive::Nvme(nvme) => (nvme.device(), &nvme.backend),
            Drive::VirtioBlk { queues, host_poll_ns, backend } => {
                line.extend(["-object", &format!("iothread,id=thread{number},poll-max-ns={host_poll_ns}")]);
                (format!("virtio-blk-pci,num-queues={queues},iothread=thread{number}"), backend)
            }
        };
        backend.arguments(number, line);
        let (id, node) = (device_id(number), node(number));
        let serial = if number == 0 { SERIAL.to_owned() } else { format!("{SERIAL}{number}") };
        let place = if self.is_second_function() {
            format!("port{},addr=0.1", number.saturating_sub(1))
        } else {
            let slot = number + 1;
            line.extend(["-device", &format!("pcie-root-port,id=port{number},chassis={slot},slot={slot}")]);
            let more =
                if next.is_some_and(Drive::is_second_function) { ",addr=0.0,multifunction=on" } else { "" };
            format!("port{number}{more}")
        };
        line.extend(["-device", &format!("{device},id={id},bus={place},serial={serial},drive={node}")]);
    }

    fn is_second_function(&self) -> bool {
        matches!(self, Drive::Nvme(nvme) if nvme.second_function)
    }
}

/// QEMU's name of the drive with this index in [`super::MachineSpec::drives`].
pub(super) fn device_id(number: usize) -> String {
    format!("drive{number}")
}

pub(super) fn node(number: usize) -> String {
    format!("node{number}")
}

/// The throttle group of a stallable drive.
pub(super) fn throttle_group(number: usize) -> String {
    format!("stall{number}")
}

/// The node to which a failable drive switches.
pub(super) fn faulty_node(number: usize) -> String {
    format!("faulty{number}")
}

impl Backend {
    fn arguments(&self, number: usize, line: &mut Arguments) {
        let nothing = |size: &u64| json!({"driver": "null-co", "size": size, "read-zeroes": true});
        let mut node = match self {
            Backend::Null { size_bytes, latency_ns } => {
                let mut node = nothing(size_bytes);
                node["latency-ns"] = json!(latency_ns);
                node
            }
            Backend::File { path } => json!({"driver": "raw", "file": {"driver": "file", "filename": path}}),
            Backend::BadSectors { size_bytes, sectors } => {
                let rules = sectors.iter().map(|sector| json!({"sector": sector})).collect();
                blkdebug(nothing(size_bytes), rules)
            }
            Backend::Failable { size_bytes } => {
                let mut faulty = blkdebug(nothing(size_bytes), vec![json!({})]);
                faulty["node-name"] = json!(faulty_node(number));
                line.extend(["-blockdev", &faulty.to_string()]);
                json!({"driver": "raw", "file": nothing(size_bytes)})
            }
            Backend::Stallable { size_bytes } => {
                let group = throttle_group(number);
                line.extend(["-object", &format!("throttle-group,id={group}")]);
                json!({"driver": "throttle", "throttle-group": group, "file": nothing(size_bytes)})
            }
        };
        node["node-name"] = json!(self::node(number));
        line.extend(["-blockdev", &node.to_string()]);
    }
}

/// A node whose reads fail by these rules (QEMU's docs/devel/blkdebug.rst).
fn blkdebug(image: Value, mut rules: Vec<Value>) -> Value {
    for rule in &mut rules {
        // No request causes this event: the rule holds for every request of its type.
        rule["event"] = json!("none");
        rule["iotype"] = json!("read");
        rule["errno"] = json!(rustix::io::Errno::IO.raw_os_error());
    }
    json!({"driver": "blkdebug", "image": image, "inject-error": rules})
}
