//! Why a target is refused, in words for the user. What is checked stands in the other files.

use super::sys;
use crate::pci::PciAddress;
use std::io;
use std::path::{Path, PathBuf};

/// Why a target was not opened or not made. Every message names the thing, the cause and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// Nothing stands at the path.
    #[error(
        "there is no target `{}`: name a file, a block device or an NVMe namespace that exists",
        shown(.path)
    )]
    NotFound {
        /// The path asked for.
        path: PathBuf,
    },
    /// The path is a folder.
    #[error("`{}` is a directory: name a file in it, a block device or an NVMe namespace", shown(.path))]
    Directory {
        /// The path asked for.
        path: PathBuf,
    },
    /// A fifo, a socket, or a character device that is no NVMe namespace.
    #[error("`{}` is a {what}: name a file, a block device or an NVMe namespace (/dev/ngXnY)", shown(.path))]
    WrongKind {
        /// The path asked for.
        path: PathBuf,
        /// What stands there.
        what: &'static str,
    },
    /// Nothing to read or write.
    #[error("`{}` holds no byte: {remedy}", shown(.path))]
    Empty {
        /// The path asked for.
        path: PathBuf,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A length that direct I/O cannot cover.
    #[error(
        "`{}` has {bytes} bytes, which is no multiple of the logical block of {logical_block}: name a file \
         whose length is one",
        shown(.path)
    )]
    NotMultiple {
        /// The path asked for.
        path: PathBuf,
        /// Length in bytes.
        bytes: u64,
        /// Logical block in bytes.
        logical_block: u32,
    },
    /// The user lacks a permission.
    #[error("you may not {access} `{}`: {remedy}", shown(.path))]
    Permission {
        /// The path asked for.
        path: PathBuf,
        /// `open for reading` or the like.
        access: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A file whose reads would not all reach the device.
    #[error("`{}` {fault}: {}", shown(.path), .fault.remedy())]
    NotReal {
        /// The path asked for.
        path: PathBuf,
        /// What is wrong with it.
        fault: Fault,
    },
    /// The file system cannot bypass the page cache.
    #[error(
        "`{}` lies on {file_system}, which has no direct I/O (O_DIRECT) for it: name a file on a disk's \
         file system",
        shown(.path)
    )]
    NoDirectIo {
        /// The path asked for.
        path: PathBuf,
        /// The file system's type, such as `tmpfs`.
        file_system: String,
    },
    /// An NVMe namespace that the commands of passthrough cannot serve.
    #[error(
        "`{}` cannot be used by passthrough: {reason}; use its block device, `/dev/{block_device}`",
        shown(.path)
    )]
    NoPassthrough {
        /// The path asked for.
        path: PathBuf,
        /// What forbids it.
        reason: PassthroughFault,
        /// Kernel name of the block device of the same namespace.
        block_device: String,
    },
    /// A controller that was taken from the kernel's driver has no such namespace.
    #[error(
        "`{}` is namespace {nsid}, which its controller {controller} does not have: it has {has}",
        shown(.path)
    )]
    NoNamespace {
        /// The path asked for.
        path: PathBuf,
        /// Namespace identifier.
        nsid: u32,
        /// PCI address of the controller.
        controller: PciAddress,
        /// Its namespaces, by identifier.
        has: String,
    },
    /// A namespace that the driver in user space cannot serve.
    #[error(
        "`{}` (namespace {nsid} of {controller}) cannot be used by nvme-user: {reason}; or use another \
         path",
        shown(.path)
    )]
    UnusableNamespace {
        /// The path asked for.
        path: PathBuf,
        /// Namespace identifier.
        nsid: u32,
        /// PCI address of the controller.
        controller: PciAddress,
        /// What forbids it.
        reason: String,
    },
    /// The kernel's driver does not have the device.
    #[error("`{}` cannot be opened: {controller}; give it back first", shown(.path))]
    Taken {
        /// The path asked for.
        path: PathBuf,
        /// Which controller was taken.
        controller: String,
    },
    /// A file to be written that carries no mark of iopj, or another one.
    #[error(
        "`{}` was not made by iopj: {reason}; writing needs a file that iopj made, or a whole device with \
         --destroy-data",
        shown(.path)
    )]
    NotOurs {
        /// The path asked for.
        path: PathBuf,
        /// What tells.
        reason: String,
    },
    /// `--destroy-data` and the target differ.
    #[error(
        "--destroy-data names `{}` but the target is `{}`: name the same device in both",
        shown(.named),
        shown(.target)
    )]
    OtherDevice {
        /// What `--destroy-data` named.
        named: PathBuf,
        /// The target.
        target: PathBuf,
    },
    /// `--destroy-data` with a file.
    #[error(
        "`{}` is a file: --destroy-data is for whole devices, and of files only those that iopj made are \
         written",
        shown(.path)
    )]
    FileToDestroy {
        /// The path asked for.
        path: PathBuf,
    },
    /// A partition is to be written.
    #[error("`{}` is a partition: name the whole device `/dev/{whole}`", shown(.path))]
    Partition {
        /// The path asked for.
        path: PathBuf,
        /// Kernel name of the whole device.
        whole: String,
    },
    /// The device, or something on it, is mounted.
    #[error(
        "`{}` cannot be written: {device} is mounted on {}; unmount it, or name another target",
        shown(.path),
        shown(.mount_point)
    )]
    Mounted {
        /// The path asked for.
        path: PathBuf,
        /// Kernel name of what is mounted.
        device: String,
        /// Where.
        mount_point: PathBuf,
    },
    /// The device, or something on it, is swap.
    #[error(
        "`{}` cannot be written: {device} is used as swap; `swapoff /dev/{device}`, or name another target",
        shown(.path)
    )]
    Swap {
        /// The path asked for.
        path: PathBuf,
        /// Kernel name of the swap device.
        device: String,
    },
    /// Device mapper, md, loop or the like stands on the device.
    #[error(
        "`{}` cannot be written: {holder} stands on {device}; take {holder} down, or name another target",
        shown(.path)
    )]
    Held {
        /// The path asked for.
        path: PathBuf,
        /// Kernel name of what is held.
        device: String,
        /// Kernel name of the holder.
        holder: String,
    },
    /// Somebody else holds the device exclusively.
    #[error(
        "`{}` is in use: something (a mount in another namespace, RAID, LVM or a program) holds {device}; \
         end that, or name another target",
        shown(.path)
    )]
    Busy {
        /// The path asked for.
        path: PathBuf,
        /// Kernel name of the device that could not be claimed.
        device: String,
    },
    /// The device carries data of a known kind.
    #[error("`{}` carries {signature}: wipe it (`wipefs -a`), or say --i-know to overwrite it", shown(.path))]
    Signature {
        /// The path asked for.
        path: PathBuf,
        /// What it carries.
        signature: &'static str,
    },
    /// The device or the file system forbids writing.
    #[error(
        "`{}` is read-only: lift that (`blockdev --setrw`, `mount -o remount,rw`), or name another target",
        shown(.path)
    )]
    ReadOnly {
        /// The path asked for.
        path: PathBuf,
    },
    /// A file to be made exists.
    #[error("`{}` exists: name a path where nothing stands", shown(.path))]
    Exists {
        /// The path asked for.
        path: PathBuf,
    },
    /// A file to be made would not fit.
    #[error(
        "`{}` needs {needed} bytes and its file system has {free} free: make room, or ask for a smaller \
         file",
        shown(.path)
    )]
    NoSpace {
        /// The path asked for.
        path: PathBuf,
        /// Bytes of the whole file.
        needed: u64,
        /// Bytes that this user may still write there.
        free: u64,
    },
    /// The caller's `progress` said stop.
    #[error("making `{}` was interrupted: it was removed, ask again to make it", shown(.path))]
    Interrupted {
        /// The path asked for.
        path: PathBuf,
    },
    /// No more descriptors.
    #[error(
        "`{}` cannot be opened once more: RLIMIT_NOFILE ({limit}) is reached; lower iodepth or numjobs, or \
         raise it by `ulimit -n`",
        shown(.path)
    )]
    TooManyFiles {
        /// The path asked for.
        path: PathBuf,
        /// The limit in files.
        limit: u64,
    },
    /// A drive that is not taken from its driver.
    #[error(transparent)]
    NotTaken(#[from] TakeRefusal),
    /// A system call failed in a way that has no remedy of its own.
    #[error(
        "`{}` cannot be used: {action} failed: {source}; the kernel log may say more, else name another \
         target",
        shown(.path)
    )]
    System {
        /// The path asked for.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

/// Why reads of a file would be answered without the device, or not where the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A range with no block.
    #[error("has a hole at byte {0}, which is read without the device")]
    Hole(u64),
    /// A range allocated (fallocate) and never written.
    #[error("was never written at byte {0} (fallocate), which is read without the device")]
    Unwritten(u64),
    /// Compressed or encrypted: the device moves other bytes than were asked for.
    #[error(
        "is compressed or encrypted by its file system at byte {0}, so that the device moves other bytes"
    )]
    Encoded(u64),
    /// Data within metadata.
    #[error("has data inside the inode or a shared block at byte {0}, which has no block of its own")]
    Inline(u64),
    /// Data that has no place on the device yet.
    #[error("has data at byte {0} that has no place on the device yet")]
    Delayed(u64),
    /// Blocks that other files (or other ranges) use too.
    #[error("shares blocks with another file at byte {0} (reflink, snapshot or deduplication)")]
    Shared(u64),
}

impl Fault {
    fn remedy(self) -> &'static str {
        match self {
            Fault::Encoded(_) => {
                "name a file in a folder without compression and encryption, or let iopj make one"
            }
            Fault::Delayed(_) => "`sync` and try again, or let iopj make a file",
            _ => "copy it with `cp --sparse=never --reflink=never`, or let iopj make a file",
        }
    }
}

/// Why passthrough cannot serve a namespace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassthroughFault {
    /// A logical block that a shift cannot express.
    #[error("its logical block of {0} bytes (queue/logical_block_size) is no power of two from 512 on")]
    BlockSize(u32),
    /// sysfs lacks the attribute.
    #[error("sysfs does not tell its logical block (queue/logical_block_size)")]
    UnknownBlockSize,
    /// Metadata needs a second buffer.
    #[error("its blocks carry {0} bytes of metadata each")]
    Metadata(u16),
    /// Neither sysfs nor the controller could be asked for the metadata's size.
    #[error("only Linux 6.8 or newer, or root, can tell whether its blocks carry metadata ({0})")]
    UnknownMetadata(io::Error),
}

/// Why a controller is not taken. Every message names the thing, the cause and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TakeRefusal {
    /// No such function on the bus.
    #[error("there is no PCI device {0}: `lspci -D -d ::0108` lists the NVMe controllers")]
    NoDevice(PciAddress),
    /// Its class is another one.
    #[error(
        "{address} is no NVMe controller (its class is {class}, not 0x010802): `lspci -D -d ::0108` lists \
         them"
    )]
    NoController {
        /// The device.
        address: PciAddress,
        /// Its class as sysfs has it.
        class: String,
    },
    /// A namespace, or something on it, is mounted.
    #[error(
        "{address} cannot be taken: {device} on it is mounted on {}; unmount it, or name another drive",
        shown(.mount_point)
    )]
    Mounted {
        /// The controller.
        address: PciAddress,
        /// Kernel name of what is mounted.
        device: String,
        /// Where.
        mount_point: PathBuf,
    },
    /// A namespace, or something on it, is swap.
    #[error(
        "{address} cannot be taken: {device} on it is used as swap; `swapoff /dev/{device}`, or name \
         another drive"
    )]
    Swap {
        /// The controller.
        address: PciAddress,
        /// Kernel name of the swap device.
        device: String,
    },
    /// Device mapper, md, loop or the like stands on a namespace.
    #[error(
        "{address} cannot be taken: {holder} stands on its {device}; take {holder} down, or name another \
         drive"
    )]
    Held {
        /// The controller.
        address: PciAddress,
        /// Kernel name of what is held.
        device: String,
        /// Kernel name of the holder.
        holder: String,
    },
    /// Somebody else holds a namespace exclusively.
    #[error(
        "{address} cannot be taken: something (a mount in another namespace, RAID, LVM or a program) holds \
         its {device}; end that, or name another drive"
    )]
    Busy {
        /// The controller.
        address: PciAddress,
        /// Kernel name of what could not be claimed.
        device: String,
    },
    /// The IOMMU cannot tell the controller from others.
    #[error(
        "{address} cannot be taken: its IOMMU group {group} holds {} as well, which it could reach; put the \
         drive into another slot, or name another drive",
        .others.join(", ")
    )]
    SharedGroup {
        /// The controller.
        address: PciAddress,
        /// Its group.
        group: u32,
        /// The other devices of the group, each with its driver.
        others: Vec<String>,
    },
    /// Nothing keeps the drive out of foreign memory.
    #[error(
        "{0} has no IOMMU, so that a fault could overwrite any memory: switch it on (VT-d or AMD-Vi in the \
         firmware, for Intel also intel_iommu=on on the kernel command line), or say --i-know-no-iommu"
    )]
    NoIommu(PciAddress),
    /// VFIO would refuse a device without an IOMMU.
    #[error("{address} has no IOMMU, and VFIO takes no such device now: {remedy}")]
    NoIommuMode {
        /// The controller.
        address: PciAddress,
        /// What allows it.
        remedy: &'static str,
    },
    /// The kernel's pages are not those of the drive, and no IOMMU translates.
    #[error("{0}")]
    Pages(String),
    /// The driver that would take it is not there.
    #[error("{0} cannot be taken: the driver vfio-pci is not there; `modprobe vfio-pci`, as root")]
    NoVfioPci(PciAddress),
    /// Somebody has pinned it to a driver.
    #[error(
        "{address} cannot be taken: it is pinned to the driver `{driver}`; unpin it by `echo > \
         /sys/bus/pci/devices/{address}/driver_override`, as root"
    )]
    Pinned {
        /// The controller.
        address: PciAddress,
        /// What its `driver_override` says.
        driver: String,
    },
}

impl TargetError {
    /// The error of opening `path` for `access`; `device` says whether the device's remedy applies.
    pub(super) fn opening(path: &Path, access: &'static str, device: bool, source: io::Error) -> TargetError {
        let path = path.to_owned();
        let remedy = match (sys::effective_user(), device) {
            (0, _) => {
                "the system forbids it to root too (a container, a security module); name another target"
            }
            (_, true) => "join the group that owns it (`disk` on most systems), or run as root",
            (_, false) => "change its owner or mode, or run as root",
        };
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => TargetError::NotFound { path },
            Some(libc::EACCES | libc::EPERM) => TargetError::Permission { path, access, remedy },
            Some(libc::EROFS) => TargetError::ReadOnly { path },
            Some(libc::EMFILE) => TargetError::TooManyFiles { path, limit: sys::open_files_limit() },
            _ => TargetError::System { path, action: access, source },
        }
    }

    /// The error of a system call on `path`.
    pub(super) fn system(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> TargetError {
        move |source| TargetError::System { path: path.to_owned(), action, source }
    }
}

/// A path as a message shows it: no control character of a foreign name reaches a terminal.
pub(super) fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let error = TargetError::NotFound { path: "a\u{1b}[2Jä b".into() };
        assert!(error.to_string().starts_with("there is no target `a\\u{1b}[2Jä b`: name"), "{error}");
    }
}
