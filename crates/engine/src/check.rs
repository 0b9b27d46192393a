//! Which paths work on this machine, and why others do not: tries a path by one read, and explains a failure.

use crate::engine::Engine;
use crate::error::{Cause, EngineError};
use crate::obstacle::{Obstacle, not_taken};
use crate::pool::Pool;
use crate::request::{IoError, Request};
use crate::ring::require_ring_for_callers;
use crate::system::{attribute, is_root, kernel_version};
use crate::target::{Target, TargetKind};
use iopj_path::{CompletionMode, IoPath, SioCompletion};
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

impl Availability {
    /// True if the path works.
    pub fn is_available(&self) -> bool {
        matches!(self, Availability::Available { .. })
    }
}

/// Tries `path` on `target` with one read of one logical block. Writes nothing and changes no setting. On a
/// descriptor of the caller's ([`Target::of_callers`]) nothing is read either, and no engine is opened.
pub fn check(path: IoPath, target: &Target) -> Availability {
    match obstacle(path, target) {
        None => Availability::Available { notes: notes(path, target) },
        Some(Obstacle { reason, remedy }) => Availability::Unavailable { reason, remedy },
    }
}

fn obstacle(path: IoPath, target: &Target) -> Option<Obstacle> {
    if let Some(obstacle) = wrong_driver(path, target) {
        return Some(obstacle);
    }
    if let IoPath::PosixSio(SioCompletion::Hybrid(_)) = path
        && let Some(obstacle) = lacks_hybrid_sleep(target)
    {
        return Some(obstacle);
    }
    if target.controller().is_none() && matches!(path, IoPath::NvmePassthrough(_)) != target.nvme().is_some()
    {
        return Some(wrong_kind(path));
    }
    if target.is_callers() {
        return obstacle_for_callers(path, target);
    }
    match read_one(path, target) {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(explain(path, target, error)),
        Err(error) => Some(unopened(&error)),
    }
}

/// Why an engine could not be opened.
fn unopened(error: &EngineError) -> Obstacle {
    match error.cause() {
        Cause::Call { call, errno, remedy } => {
            let reason = format!("{call} failed: {}", std::io::Error::from_raw_os_error(*errno));
            Obstacle::new(reason, remedy.trim_start_matches([':', ' ']))
        }
        other => Obstacle::new(other.to_string(), ""),
    }
}

/// On a descriptor of the caller's nothing is tried: the queue is asked whether it polls. A ring that was
/// opened and closed again would interrupt its thread some time later (the kernel's `io_tctx_exit_cb`), in
/// the middle of a call of the caller's.
fn obstacle_for_callers(path: IoPath, target: &Target) -> Option<Obstacle> {
    if path.completion() != CompletionMode::Interrupt && !has_poll_queues(target) {
        return Some(no_poll_queues(target));
    }
    match path {
        IoPath::IoUring(modes) => require_ring_for_callers(modes).err().map(|error| unopened(&error)),
        _ => None,
    }
}

fn read_one(path: IoPath, target: &Target) -> Result<Result<u32, IoError>, EngineError> {
    let len = target.logical_block();
    let pool = if target.needs_huge_pages() { Pool::huge(1, len)? } else { Pool::new(1, len)? };
    let nothing = || EngineError::unsupported(format!("{path} returned without a completion"));
    let buffer = pool.acquire().ok_or_else(nothing)?;
    let mut engine = crate::open(path, target, &pool, 1)?;
    engine.push(Request::read(buffer, len, target.data_offset()))?;
    let mut result = None;
    engine.wait(1, None, |completion| result = Some(completion.result))?;
    result.ok_or_else(nothing)
}

/// Kernel bypass needs a controller that this process took from the kernel's driver; every other path needs
/// the kernel's driver.
fn wrong_driver(path: IoPath, target: &Target) -> Option<Obstacle> {
    match (path, target.controller()) {
        (IoPath::Spdk, controller) => {
            let plugin = "fio's plugin drives SPDK: name it under [fio] as `spdk_plugin`, and allow it by \
                          --allow exec";
            Some(match controller {
                Some(_) => Obstacle::new("SPDK opens the device itself, and this process has it", plugin),
                None => {
                    let Obstacle { reason, remedy } = not_taken(target);
                    Obstacle::new(reason, format!("{remedy}; {plugin}"))
                }
            })
        }
        (IoPath::NvmeUser(_), None) => Some(not_taken(target)),
        (IoPath::NvmeUser(_), Some(_)) | (_, None) => None,
        (_, Some(_)) => Some(Obstacle::new(
            target.taken(),
            "give the device back to the kernel's driver: leave --take-device out",
        )),
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

fn lacks_hybrid_sleep(target: &Target) -> Option<Obstacle> {
    if kernel_version() >= (6, 4) {
        Some(Obstacle::new(
            "Linux 6.4 removed hybrid polling for synchronous I/O",
            "a kernel from 4.10 to 6.3, or io_uring/syscall/hybrid from 6.13 on",
        ))
    } else if !has_poll_queues(target) {
        Some(no_poll_queues(target))
    } else if queue_attribute(target, "io_poll_delay").iter().any(Option::is_none) {
        Some(Obstacle::new(
            "the device has no io_poll_delay",
            "a blk-mq device and a kernel from 4.10 to 6.3",
        ))
    } else if !is_root() {
        Some(Obstacle::new("only root may set queue/io_poll_delay", "run iopj as root"))
    } else {
        None
    }
}

fn no_poll_queues(target: &Target) -> Obstacle {
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
    Obstacle::new(reason, remedy)
}

/// The disks below have poll queues, so a layer between them and the target does not use them.
fn does_not_poll(kind: TargetKind) -> Obstacle {
    match kind {
        TargetKind::File => {
            Obstacle::new("the file system does not poll", "use ext4 or XFS, or the device itself")
        }
        TargetKind::BlockDevice => {
            Obstacle::new("the device does not poll, though the disks below it do", "name one of those disks")
        }
        TargetKind::NvmeGeneric | TargetKind::NvmeUser => {
            Obstacle::new("this kernel does not poll NVMe passthrough", "Linux 6.1 or newer")
        }
    }
}

fn explain(path: IoPath, target: &Target, error: IoError) -> Obstacle {
    match error {
        IoError::Os(libc::EOPNOTSUPP) if path.completion() != CompletionMode::Interrupt => {
            if has_poll_queues(target) { does_not_poll(target.kind()) } else { no_poll_queues(target) }
        }
        IoError::Os(libc::EOPNOTSUPP) if matches!(path, IoPath::NvmePassthrough(_)) => {
            Obstacle::new(error.to_string(), "Linux 5.19 or newer with NVMe passthrough by io_uring")
        }
        IoError::Os(libc::EACCES | libc::EPERM) => {
            Obstacle::new(error.to_string(), "run iopj as root, or give this user access to the device")
        }
        other => Obstacle::new(format!("a read failed: {other}"), "see the kernel's log for the device"),
    }
}

/// Passthrough needs the character device of a namespace; every other path needs a file or a block device.
fn wrong_kind(path: IoPath) -> Obstacle {
    match path {
        IoPath::NvmePassthrough(_) => Obstacle::new(
            "the target is not the character device of an NVMe namespace",
            "name the namespace as /dev/ngXnY (Linux 5.19 or newer)",
        ),
        _ => Obstacle::new(
            "the target is the character device of an NVMe namespace",
            "name the namespace as /dev/nvmeXnY",
        ),
    }
}

/// What to know before trusting a path that works.
fn notes(path: IoPath, target: &Target) -> Vec<String> {
    let note = match path {
        IoPath::PosixSio(SioCompletion::Poll) if !has_poll_queues(target) => {
            "accepted, but without poll queues the kernel falls back to interrupts: expect `refuted`"
        }
        IoPath::PosixSio(SioCompletion::Poll) if kernel_version() >= (5, 19) => {
            "accepted, but since Linux 5.19 RWF_HIPRI is ignored for synchronous I/O: expect `refuted`"
        }
        _ => return Vec::new(),
    };
    vec![note.to_owned()]
}
