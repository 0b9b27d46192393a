//! What this machine can do and why not: tries a path by one read, and explains a failure.

use crate::engine::{Cause, Completion, EngineError, IoError, Op, Request};
use crate::pci::{NVME_CLASS, PciAddress};
use crate::pool::{Pool, Slot};
use crate::system::{attribute, is_root, kernel_version};
use crate::target::{Target, TargetKind};
use iopj_core::path::Completion as Mode;
use iopj_core::{CompletionMode, IoPath};
use std::path::Path;

/// Whether a path works on a target here.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Availability {
    /// One read was done on it.
    Available {
        /// What to know before trusting it, such as a kernel that is known to fall back.
        notes: Vec<String>,
    },
    /// It does not work.
    Unavailable {
        /// Why.
        reason: String,
        /// What would make it work.
        remedy: String,
    },
}

/// Tries `path` on `target` with one read of one logical block. Writes nothing and changes no setting.
pub fn check(path: IoPath, target: &Target) -> Availability {
    let unavailable = |(reason, remedy)| Availability::Unavailable { reason, remedy };
    if let Some(lack) = bypassed(path, target) {
        return unavailable(lack);
    }
    if let IoPath::PosixSio(CompletionMode::Hybrid(_)) = path
        && let Some(lack) = lacks_hybrid_sleep(target)
    {
        return unavailable(lack);
    }
    if target.controller().is_none() && matches!(path, IoPath::NvmePassthrough(_)) != target.nvme().is_some()
    {
        return unavailable(wrong_kind(path));
    }
    match read_one(path, target) {
        Ok(Completion { result: Ok(_), .. }) => Availability::Available { notes: notes(path, target) },
        Ok(Completion { result: Err(error), .. }) => unavailable(explain(path, target, error)),
        Err(error) => unavailable(match error.cause() {
            Cause::Call { call, errno, remedy } => {
                let reason = format!("{call} failed: {}", std::io::Error::from_raw_os_error(*errno));
                (reason, remedy.trim_start_matches([':', ' ']).to_owned())
            }
            other => (other.to_string(), String::new()),
        }),
    }
}

fn read_one(path: IoPath, target: &Target) -> Result<Completion, EngineError> {
    let slot_len = target.logical_block();
    let pool = if target.needs_huge_pages() { Pool::huge(1, slot_len)? } else { Pool::new(1, slot_len)? };
    let mut engine = crate::open(path, target, &pool, 1)?;
    let request = Request {
        op: Op::Read,
        slot: Slot(0),
        len: target.logical_block(),
        offset: target.data_offset(),
        tag: 0,
    };
    engine.push(&[request])?;
    let mut done = Vec::with_capacity(1);
    engine.wait(1, &mut done)?;
    done.pop().ok_or_else(|| EngineError::unsupported(format!("{path} returned without a completion")))
}

/// What kernel bypass lacks on a target of the kernel's, and every other path on a controller that was taken
/// from it.
fn bypassed(path: IoPath, target: &Target) -> Option<(String, String)> {
    match path {
        IoPath::Spdk => {
            let plugin = "SPDK is driven by fio's plugin: name it under [fio] as `spdk_plugin`, and allow \
                          it by --allow-exec";
            if target.controller().is_some() {
                return Some((
                    "SPDK opens the device itself, and this process has it".to_owned(),
                    plugin.to_owned(),
                ));
            }
            let (reason, remedy) = not_taken(target);
            Some((reason, format!("{remedy}; {plugin}")))
        }
        IoPath::NvmeUser(_) if target.controller().is_none() => Some(not_taken(target)),
        IoPath::NvmeUser(_) => None,
        _ if target.controller().is_some() => Some((
            target.taken(),
            "give the device back to the kernel's driver: leave --take-device out".to_owned(),
        )),
        _ => None,
    }
}

/// `nvme-user` on a target of the kernel's: why not, and which device to take.
pub(crate) fn not_taken(target: &Target) -> (String, String) {
    let is_nvme =
        |address: &PciAddress| address.class(Path::new("/sys")).is_some_and(|class| class == NVME_CLASS);
    let address =
        |device: &String| PciAddress::of_device(Path::new(&format!("/sys/block/{device}"))).filter(is_nvme);
    let mut addresses: Vec<PciAddress> = target.devices().iter().filter_map(address).collect();
    addresses.dedup();
    match addresses[..] {
        [address] => (
            format!("the device is not taken from the kernel's driver: {address} is its controller"),
            format!("take it by `--take-device {address}` (its namespaces must not be in use)"),
        ),
        _ => (
            "the target is on no NVMe controller of its own, and none is taken from the kernel's driver"
                .to_owned(),
            "name an NVMe namespace, and take its controller by `--take-device PCI-ADDRESS` (see `lspci -D`)"
                .to_owned(),
        ),
    }
}

/// A queue attribute of each disk under the target.
fn queue_attribute(target: &Target, name: &str) -> Vec<Option<String>> {
    let queue = |device: &String| Path::new("/sys/block").join(device).join("queue");
    target.devices().iter().map(|device| attribute(&queue(device), name)).collect()
}

fn has_poll_queues(target: &Target) -> bool {
    let values = queue_attribute(target, "io_poll");
    !values.is_empty() && values.iter().all(|value| value.as_deref() == Some("1"))
}

fn lacks_hybrid_sleep(target: &Target) -> Option<(String, String)> {
    if kernel_version() >= (6, 4) {
        let reason = "Linux 6.4 removed hybrid polling for synchronous I/O".to_owned();
        return Some((
            reason,
            "a kernel from 4.10 to 6.3, or io_uring/syscall/hybrid from 6.13 on".to_owned(),
        ));
    }
    if !has_poll_queues(target) {
        return Some(no_poll_queues(target));
    }
    if queue_attribute(target, "io_poll_delay").iter().any(Option::is_none) {
        return Some((
            "the device has no io_poll_delay".to_owned(),
            "a blk-mq device and a kernel from 4.10 to 6.3".to_owned(),
        ));
    }
    if !is_root() {
        return Some(("only root may set queue/io_poll_delay".to_owned(), "run iopj as root".to_owned()));
    }
    None
}

fn no_poll_queues(target: &Target) -> (String, String) {
    let devices = target.devices().join(", ");
    let reason = format!("{} has no poll queues", if devices.is_empty() { "the target" } else { &devices });
    let remedy = if devices.starts_with("nvme") || target.nvme().is_some() {
        "nvme.poll_queues=4 on the kernel command line, or `options nvme poll_queues=4` in /etc/modprobe.d \
         and reload the driver"
    } else if devices.starts_with("vd") {
        "virtio_blk.poll_queues=1 on the guest's kernel command line (Linux 5.18 or newer), and as many more \
         queues of the virtual disk"
    } else {
        "an NVMe drive whose driver is loaded with nvme.poll_queues=4"
    };
    (reason, remedy.to_owned())
}

/// The disks below have poll queues, so what stands between does not use them.
fn does_not_poll(kind: TargetKind) -> (String, String) {
    let (reason, remedy) = match kind {
        TargetKind::File => ("the file system does not poll", "use ext4 or XFS, or the device itself"),
        TargetKind::BlockDevice => {
            ("the device does not poll, though the disks below it do", "name one of those disks")
        }
        TargetKind::NvmeGeneric | TargetKind::NvmeUser => {
            ("this kernel does not poll NVMe passthrough", "Linux 6.1 or newer")
        }
    };
    (reason.to_owned(), remedy.to_owned())
}

fn explain(path: IoPath, target: &Target, error: IoError) -> (String, String) {
    match error {
        IoError::Os(libc::EOPNOTSUPP) if path.completion() != Mode::Interrupt => {
            if has_poll_queues(target) {
                does_not_poll(target.kind())
            } else {
                no_poll_queues(target)
            }
        }
        IoError::Os(libc::EOPNOTSUPP) if matches!(path, IoPath::NvmePassthrough(_)) => {
            (error.to_string(), "Linux 5.19 or newer with NVMe passthrough by io_uring".to_owned())
        }
        IoError::Os(libc::EACCES | libc::EPERM) => {
            (error.to_string(), "run iopj as root, or give this user access to the device".to_owned())
        }
        other => (format!("a read failed: {other}"), "see the kernel's log for the device".to_owned()),
    }
}

/// Passthrough needs the character device of a namespace, all else a file or a block device.
fn wrong_kind(path: IoPath) -> (String, String) {
    let (reason, remedy) = match path {
        IoPath::NvmePassthrough(_) => (
            "the target is no character device of an NVMe namespace",
            "name the namespace as /dev/ngXnY (Linux 5.19 or newer)",
        ),
        _ => {
            ("the target is the character device of an NVMe namespace", "name the namespace as /dev/nvmeXnY")
        }
    };
    (reason.to_owned(), remedy.to_owned())
}

fn notes(path: IoPath, target: &Target) -> Vec<String> {
    let mut notes = Vec::new();
    if path == IoPath::PosixSio(CompletionMode::Poll) {
        if !has_poll_queues(target) {
            notes.push(
                "accepted, but without poll queues the kernel falls back to interrupts: expect `refuted`"
                    .to_owned(),
            );
        } else if kernel_version() >= (5, 19) {
            notes.push(
                "accepted, but since Linux 5.19 RWF_HIPRI is ignored for synchronous I/O: expect `refuted`"
                    .to_owned(),
            );
        }
    }
    notes
}
