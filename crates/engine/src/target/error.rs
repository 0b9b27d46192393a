//! Why a target is refused, or a drive not taken, in words for the user. The checks are in the other files.

use super::sys;
use crate::error::EngineError;
use crate::nvme_user::NamespaceFault;
use crate::pci::PciAddress;
use std::io;
use std::path::{Path, PathBuf};

/// Why a target was not opened, not made or not taken. Every message names the thing, the cause and the
/// remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// A file or a device that cannot be the target.
    #[error("`{}` {fault}", shown(.path))]
    Unfit {
        /// The path asked for.
        path: PathBuf,
        /// What is wrong with it.
        fault: TargetFault,
    },
    /// A drive that is not taken from its driver.
    #[error(transparent)]
    NotTaken(#[from] TakeRefusal),
}

/// What is wrong with a target. The text follows its path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetFault {
    /// The path names nothing.
    #[error("does not exist: name a file, a block device or an NVMe namespace")]
    NotFound,
    /// The path is a folder.
    #[error("is a directory: name a file in it, a block device or an NVMe namespace")]
    Directory,
    /// A fifo, a socket, or a character device that is not an NVMe namespace: which of them.
    #[error("is a {0}: name a file, a block device or an NVMe namespace (/dev/ngXnY)")]
    WrongKind(&'static str),
    /// Nothing to read or write, and what to do about it.
    #[error("is empty: {0}")]
    Empty(&'static str),
    /// A length that direct I/O cannot cover.
    #[error(
        "has {bytes} bytes, which is not a multiple of the logical block of {logical_block}: name a file \
         whose length is one"
    )]
    NotMultiple {
        /// Length in bytes.
        bytes: u64,
        /// Logical block in bytes.
        logical_block: u32,
    },
    /// The user lacks a permission.
    #[error("cannot be {access}: permission denied; {remedy}")]
    Permission {
        /// `opened for reading` or the like.
        access: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A file whose reads would not all reach the device.
    #[error("{fault}: {remedy}", fault = .0, remedy = .0.remedy())]
    NotReal(DataFault),
    /// The file system, by its type such as `tmpfs`, cannot bypass the page cache.
    #[error("is on {0}, which has no direct I/O (O_DIRECT) for it: name a file on a disk's file system")]
    NoDirectIo(String),
    /// An NVMe namespace that the commands of passthrough cannot serve.
    #[error("cannot be used by passthrough: {fault}; use its block device, `/dev/{block_device}`")]
    NoPassthrough {
        /// What forbids it.
        fault: PassthroughFault,
        /// Kernel name of the block device of the same namespace.
        block_device: String,
    },
    /// A controller that was taken from the kernel's driver has no such namespace.
    #[error("is namespace {nsid}, which its controller {controller} does not have: it has {has}")]
    NoNamespace {
        /// Namespace identifier.
        nsid: u32,
        /// PCI address of the controller.
        controller: PciAddress,
        /// Its namespaces, by identifier.
        has: String,
    },
    /// A namespace that the driver in user space cannot serve.
    #[error("(namespace {nsid} of {controller}) cannot be used by nvme-user: {reason}; or use another path")]
    UnusableNamespace {
        /// Namespace identifier.
        nsid: u32,
        /// PCI address of the controller.
        controller: PciAddress,
        /// What forbids it.
        reason: NamespaceFault,
    },
    /// The kernel's driver does not have the device: which controller was taken.
    #[error("cannot be opened: {0}; give it back first")]
    Taken(String),
    /// A file to be written that does not carry iopj's mark for it: why.
    #[error(
        "was not made by iopj: {0}; writing needs a file that iopj made, or a whole device with \
         --destroy-data"
    )]
    NotOurs(String),
    /// `--destroy-data` names another device.
    #[error("is not `{}`, which --destroy-data names: name the same device in both", shown(.0))]
    OtherDevice(PathBuf),
    /// `--destroy-data` with a file.
    #[error(
        "is a file: --destroy-data is for whole devices; iopj overwrites only those files that iopj made"
    )]
    FileToDestroy,
    /// A partition of this disk is to be written.
    #[error("is a partition: name the whole device `/dev/{0}`")]
    Partition(String),
    /// The device, or something on it, is in use.
    #[error("cannot be written: {0}, or name another target")]
    InUse(DiskUse),
    /// The device carries data of a known kind.
    #[error("carries {0}: wipe it (`wipefs -a`), or say --i-know to overwrite it")]
    Signature(String),
    /// The device or the file system forbids writing.
    #[error(
        "is read-only: make it writable (`blockdev --setrw`, `mount -o remount,rw`), or name another target"
    )]
    ReadOnly,
    /// A file to be made exists.
    #[error("already exists: name a path that does not")]
    Exists,
    /// A file to be made would not fit.
    #[error("needs {needed} bytes and its file system has {free} free: make room, or ask for a smaller file")]
    NoSpace {
        /// Bytes of the whole file.
        needed: u64,
        /// Bytes that this user may still write there.
        free: u64,
    },
    /// The caller's `progress` said stop.
    #[error("was not made: it was interrupted, and what was written is removed; ask again")]
    Interrupted,
    /// No descriptors are left: the limit in files.
    #[error(
        "cannot be opened again: RLIMIT_NOFILE ({0}) is reached; lower iodepth or numjobs, or raise it by \
         `ulimit -n`"
    )]
    TooManyFiles(u64),
    /// A system call failed in a way that has no remedy of its own.
    #[error(
        "cannot be used: {action} failed: {source}; the kernel log may say more, else name another target"
    )]
    System {
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

/// What uses a disk, and how to end that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskUse {
    /// Kernel name of what is mounted, and where.
    #[error("{device} is mounted on {place}; unmount it", device = .0, place = shown(.1))]
    Mounted(String, PathBuf),
    /// Kernel name of the swap device.
    #[error("{0} is used as swap; `swapoff /dev/{0}`")]
    Swap(String),
    /// Kernel names of what is held, and of its holder: device mapper, md, loop or the like.
    #[error("{1} is built on {0}; take {1} down")]
    Held(String, String),
    /// Kernel name of what a process has open for writing, with the process and its program.
    #[error("the program `{program}` (process {pid}) has {device} open for writing; end it")]
    Written {
        /// The kernel name.
        device: String,
        /// The process.
        pid: u32,
        /// Its program, as `/proc/PID/comm` has it.
        program: String,
    },
    /// Kernel name of what somebody else has open exclusively.
    #[error("something (a mount in another namespace, RAID, LVM or a program) holds {0}; make it let go")]
    Busy(String),
}

/// Why reads of a file would not be reads of the same bytes on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DataFault {
    /// A range with no block.
    #[error("has a hole at byte {0}, which is read without the device")]
    Hole(u64),
    /// A range allocated (fallocate) and never written.
    #[error("was never written at byte {0} (fallocate), which is read without the device")]
    Unwritten(u64),
    /// Compressed or encrypted: the device moves other bytes than were asked for.
    #[error("is compressed or encrypted by its file system at byte {0}, so the device moves other bytes")]
    Encoded(u64),
    /// Data within metadata.
    #[error("has data inside the inode or a shared block at byte {0}, which has no block of its own")]
    Inline(u64),
    /// Data that is not on the device yet.
    #[error("has data at byte {0} that is not on the device yet")]
    Delayed(u64),
    /// Blocks that other files (or other ranges) use too.
    #[error("shares blocks with another file at byte {0} (reflink, snapshot or deduplication)")]
    Shared(u64),
}

impl DataFault {
    fn remedy(self) -> &'static str {
        match self {
            DataFault::Encoded(_) => {
                "name a file in a folder without compression and encryption, or let iopj make one"
            }
            DataFault::Delayed(_) => "`sync` and try again, or let iopj make a file",
            _ => "copy it with `cp --sparse=never --reflink=never`, or let iopj make a file",
        }
    }
}

/// Why passthrough cannot serve a namespace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassthroughFault {
    /// A logical block that a shift cannot express.
    #[error(
        "its logical block of {0} bytes (queue/logical_block_size) is not a power of two of at least 512"
    )]
    BlockSize(u32),
    /// sysfs lacks the attribute.
    #[error("sysfs does not show its logical block (queue/logical_block_size)")]
    UnknownBlockSize,
    /// Metadata needs a second buffer.
    #[error("its blocks carry {0} bytes of metadata each")]
    Metadata(u16),
    /// Neither sysfs nor the controller could be asked for the metadata's size.
    #[error("only Linux 6.8 or newer, or root, can tell whether its blocks carry metadata ({0})")]
    UnknownMetadata(io::Error),
}

/// Why a controller is not taken from its driver.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TakeRefusal {
    /// No such function on the bus.
    #[error("there is no PCI device {0}: `lspci -D -d ::0108` lists the NVMe controllers")]
    NoDevice(PciAddress),
    /// It has another class: the one that sysfs shows.
    #[error(
        "{0} is not an NVMe controller (its class is {1}, not 0x010802): `lspci -D -d ::0108` lists the NVMe \
         controllers"
    )]
    NoController(PciAddress, String),
    /// A namespace, or something on it, is in use.
    #[error("{0} cannot be taken: {1}, or name another drive")]
    InUse(PciAddress, DiskUse),
    /// The IOMMU cannot tell the controller from others.
    #[error(
        "{address} cannot be taken: its IOMMU group {group} also holds {}, which the drive could reach; put \
         the drive into another slot, or name another drive",
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
        "{0} has no IOMMU, so a fault could overwrite any memory: switch it on (VT-d or AMD-Vi in the \
         firmware, for Intel also intel_iommu=on on the kernel command line), or say --i-know-no-iommu"
    )]
    NoIommu(PciAddress),
    /// VFIO would refuse a device without an IOMMU: how to allow it.
    #[error("{0} has no IOMMU, and VFIO does not take such a device now: {1}")]
    NoIommuMode(PciAddress, &'static str),
    /// The kernel's pages are not as large as the drive's, and no IOMMU translates.
    #[error(transparent)]
    Pages(EngineError),
    /// The driver that would take it is not there.
    #[error("{0} cannot be taken: the driver vfio-pci is not there; `modprobe vfio-pci`, as root")]
    NoVfioPci(PciAddress),
    /// Somebody has pinned it to a driver, by its `driver_override`.
    #[error(
        "{0} cannot be taken: it is pinned to the driver `{1}`; unpin it by `echo > \
         /sys/bus/pci/devices/{0}/driver_override`, as root"
    )]
    Pinned(PciAddress, String),
}

impl TargetFault {
    pub(super) fn of(self, path: &Path) -> TargetError {
        TargetError::Unfit { path: path.to_owned(), fault: self }
    }
}

impl TargetError {
    /// True for a file that iopj did not make, or not under the identity that was asked for.
    pub fn is_not_ours(&self) -> bool {
        matches!(self, TargetError::Unfit { fault: TargetFault::NotOurs(_), .. })
    }

    /// The error of opening `path`, or of what `access` says; with `device` the remedy is one for a device.
    pub(super) fn opening(path: &Path, access: &'static str, device: bool, source: io::Error) -> TargetError {
        let remedy = match (sys::effective_user(), device) {
            (0, _) => {
                "the system forbids it even to root (a container, a security module); name another target"
            }
            (_, true) => "join the group that owns it (`disk` on most systems), or run as root",
            (_, false) => "change its owner or mode, or run as root",
        };
        let fault = match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => TargetFault::NotFound,
            Some(libc::EACCES | libc::EPERM) => TargetFault::Permission { access, remedy },
            Some(libc::EROFS) => TargetFault::ReadOnly,
            Some(libc::EMFILE) => TargetFault::TooManyFiles(sys::open_files_limit()),
            _ => TargetFault::System { action: "opening, making or claiming it", source },
        };
        fault.of(path)
    }

    /// The error of a system call on `path`.
    pub(super) fn system(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> TargetError {
        move |source| TargetFault::System { action, source }.of(path)
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
        let error = TargetFault::NotFound.of("a\u{1b}[2Jä b".as_ref());
        assert!(error.to_string().starts_with("`a\\u{1b}[2Jä b` does not exist: name"), "{error}");
    }
}
