//! The system calls that targets need. The callers interpret their answers.

use crate::nvme_user::PageData;
use linux_raw_sys::ioctl::{
    BLKGETSIZE64, FIEMAP_FLAG_SYNC, FS_IOC_FIEMAP, NVME_IOCTL_ADMIN_CMD, NVME_IOCTL_ID,
};
use rustix::fs::{self, AtFlags, SeekFrom, StatxFlags};
use rustix::io::retry_on_intr;
use rustix::process::{Resource, getrlimit};
use rustix::rand::{GetRandomFlags, getrandom};
use std::ffi::{c_int, c_ulong};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// `RLIMIT_NOFILE`, the most descriptors of this process.
pub(super) fn open_files_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Extents fetched by one FIEMAP call.
pub(super) const EXTENT_BATCH: usize = 512;

/// One extent as FIEMAP gives it (`struct fiemap_extent`, include/uapi/linux/fiemap.h).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    pub(super) logical: u64,
    pub(super) physical: u64,
    pub(super) length: u64,
    reserved64: [u64; 2],
    pub(super) flags: u32,
    reserved: [u32; 3],
}

#[cfg(test)]
impl Extent {
    pub(super) fn new(logical: u64, length: u64, flags: u32) -> Extent {
        Extent { logical, length, flags, ..Extent::default() }
    }
}

/// `struct fiemap` with its flexible array made fixed.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [Extent; EXTENT_BATCH],
}

/// A descriptor that only names an inode (`O_PATH`): opening it disturbs neither fifo nor device.
pub(super) fn open_path(path: &Path, follow: bool) -> io::Result<File> {
    let nofollow = if follow { 0 } else { libc::O_NOFOLLOW };
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | nofollow).open(path)
}

/// Opens the inode behind a descriptor again (proc(5), `/proc/self/fd`): a rename cannot substitute another.
/// `O_NONBLOCK` is not needed: only files, block devices and NVMe namespaces reach here, and none of them
/// blocks.
pub(super) fn reopen(node: &impl AsFd, write: bool, flags: c_int) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", node.as_fd().as_raw_fd());
    OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)
}

/// As [`reopen`], for writing only if the descriptor is.
pub(super) fn reopen_alike(node: &impl AsFd, flags: c_int) -> io::Result<File> {
    let mode = fs::fcntl_getfl(node)? & fs::OFlags::RWMODE;
    reopen(node, mode == fs::OFlags::RDWR, flags)
}

/// Names a file that was opened without a name (open(2), `O_TMPFILE`); never replaces an existing file.
pub(super) fn link(file: &impl AsFd, path: &Path) -> io::Result<()> {
    let node = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    Ok(fs::linkat(fs::CWD, node, fs::CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// The alignment of offsets for direct I/O (statx(2), `STATX_DIOALIGN`, Linux 6.1): absent where the file
/// system does not say, 0 where direct I/O is not possible.
pub(super) fn dio_offset_align(node: &impl AsFd) -> io::Result<Option<u32>> {
    let answer = fs::statx(node, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)?;
    let says = answer.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    Ok(says.then_some(answer.stx_dio_offset_align))
}

/// File systems whose inodes keep their numbers (`include/uapi/linux/magic.h`, and OpenZFS's and bcachefs's
/// own): ext, XFS, btrfs, F2FS, ZFS, bcachefs. Those of FAT, or of FUSE, get new ones at will.
const KEEP_NUMBERS: [u64; 6] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x2fc1_2fc1, 0xca45_1a4e];
/// Overlays keep the numbers, and not the times at which files were made: one that is written is a copy.
const OVERLAY: u64 = 0x794c_7630;

/// An inode's number, and when it was made where the file system says (statx(2), `STATX_BTIME`); `None` where
/// the same file may have another number tomorrow.
pub(super) fn inode(node: &impl AsFd) -> io::Result<Option<String>> {
    let answer = fs::statx(node, "", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME)?;
    let (number, made) = (answer.stx_ino, answer.stx_btime);
    let says = answer.stx_mask & StatxFlags::BTIME.bits() != 0;
    Ok(match file_system_magic(node)? {
        OVERLAY => Some(number.to_string()),
        magic if !KEEP_NUMBERS.contains(&magic) => None,
        _ if says => Some(format!("{number} of {}.{:09}", made.tv_sec, made.tv_nsec)),
        _ => Some(number.to_string()),
    })
}

/// The file system's magic number (statfs(2)).
pub(super) fn file_system_magic(node: &impl AsFd) -> io::Result<u64> {
    Ok(fs::fstatfs(node)?.f_type as u64)
}

/// Bytes that this user may still write to the file system (statvfs(3)).
pub(super) fn free_bytes(node: &impl AsFd) -> io::Result<u64> {
    let answer = fs::fstatvfs(node)?;
    Ok(answer.f_bavail.saturating_mul(answer.f_frsize))
}

/// At most [`EXTENT_BATCH`] extents of the `length` bytes from `start` on, after dirty data were written out
/// (FIEMAP, Documentation/filesystems/fiemap.rst).
pub(super) fn extents(file: &impl AsFd, start: u64, length: u64) -> io::Result<Vec<Extent>> {
    let mut map = Box::new(Fiemap {
        start,
        length,
        flags: FIEMAP_FLAG_SYNC,
        mapped_extents: 0,
        extent_count: EXTENT_BATCH as u32,
        reserved: 0,
        extents: [Extent::default(); EXTENT_BATCH],
    });
    // SAFETY: FIEMAP writes the header and at most `extent_count` extents, which is what `map` holds.
    check(unsafe { libc::ioctl(file.as_fd().as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut *map) })?;
    let mapped = (map.mapped_extents as usize).min(EXTENT_BATCH);
    Ok(map.extents[..mapped].to_vec())
}

/// The first hole's offset, or the file's length where there is none (lseek(2), `SEEK_HOLE`).
pub(super) fn first_hole(file: &impl AsFd) -> io::Result<u64> {
    Ok(fs::seek(file, SeekFrom::Hole(0))?)
}

/// A block device's size in bytes (`BLKGETSIZE64`, include/uapi/linux/fs.h).
pub(super) fn block_device_size(device: &impl AsFd) -> io::Result<u64> {
    let mut bytes = 0u64;
    // SAFETY: BLKGETSIZE64 writes one u64.
    check(unsafe { libc::ioctl(device.as_fd().as_raw_fd(), BLKGETSIZE64 as _, &raw mut bytes) })?;
    Ok(bytes)
}

/// `LOOP_GET_STATUS64` (include/uapi/linux/loop.h).
const LOOP_GET_STATUS64: u32 = 0x4c05;

/// Of what a loop device lies on: the number of the file system, the inode, and the number of the device that
/// it is, or 0 (`LOOP_GET_STATUS64`, include/uapi/linux/loop.h).
pub(super) fn loop_backing(device: &Path) -> io::Result<[u64; 3]> {
    let node = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(device)?;
    // struct loop_info64: lo_device, lo_inode and lo_rdevice are its first three words.
    let mut info = [0u64; 29];
    // SAFETY: LOOP_GET_STATUS64 writes a struct loop_info64, which has 232 bytes.
    check(unsafe { libc::ioctl(node.as_raw_fd(), LOOP_GET_STATUS64 as _, info.as_mut_ptr()) })?;
    Ok([info[0], info[1], info[2]])
}

/// A block device's logical block in bytes (`BLKSSZGET`, include/uapi/linux/fs.h).
pub(super) fn logical_block_size(device: &impl AsFd) -> io::Result<u32> {
    Ok(fs::ioctl_blksszget(device)?)
}

/// The namespace identifier of an NVMe device (`NVME_IOCTL_ID`, include/uapi/linux/nvme_ioctl.h).
pub(super) fn nvme_nsid(device: &impl AsFd) -> io::Result<u32> {
    // SAFETY: NVME_IOCTL_ID takes no argument and returns the identifier.
    let nsid = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), NVME_IOCTL_ID as _, 0 as c_ulong) };
    check(nsid)?;
    Ok(nsid as u32)
}

/// `struct nvme_admin_cmd` (include/uapi/linux/nvme_ioctl.h).
#[repr(C)]
#[derive(Default)]
struct NvmeAdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    nsid: u32,
    cdw2_and_3: [u32; 2],
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10_to_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

const _: () = assert!(size_of::<NvmeAdminCommand>() == 72);

/// Identify (06h) with CNS 00h, Identify Namespace. The kernel allows it to root, and since Linux 6.2 to
/// everyone who could open the device.
pub(super) fn nvme_identify_namespace(device: &impl AsFd, nsid: u32) -> io::Result<Box<PageData>> {
    let command = NvmeAdminCommand { opcode: 6, nsid, ..NvmeAdminCommand::default() };
    nvme_admin(device, size_of::<PageData>() as u32, command).map(|(_, data)| data)
}

/// Get Log Page (02h): the SMART / Health Information log (02h) of the whole controller. The kernel grants it
/// to root.
pub(super) fn nvme_smart_log(device: &impl AsFd) -> io::Result<Box<PageData>> {
    const SMART: u32 = 0x02;
    const LEN: u32 = 512;
    const EVERY_NAMESPACE: u32 = u32::MAX;
    // The number of 32-bit words, less one, is in the bits above the log's identifier.
    let cdw10_to_15 = [SMART | (LEN / 4 - 1) << 16, 0, 0, 0, 0, 0];
    let command =
        NvmeAdminCommand { opcode: 2, nsid: EVERY_NAMESPACE, cdw10_to_15, ..NvmeAdminCommand::default() };
    nvme_admin(device, LEN, command).map(|(_, data)| data)
}

/// The current value of a feature of a controller, dword 0 of Get Features (0Ah; NVM Express Base
/// Specification 2.0). `device` is its character device.
///
/// # Errors
/// The user is not root; `device` is not a controller, or does not have the feature.
pub fn nvme_feature(device: &impl AsFd, feature: u8) -> io::Result<u32> {
    let cdw10_to_15 = [feature.into(), 0, 0, 0, 0, 0];
    let command = NvmeAdminCommand { opcode: 0x0A, cdw10_to_15, ..NvmeAdminCommand::default() };
    nvme_admin(device, FEATURE_LEN, command).map(|(value, _)| value)
}

/// As [`nvme_feature`], of a feature without data of one of its namespaces. The kernel's own target refuses a
/// command that brings memory for none (drivers/nvme/target/core.c, `nvmet_check_transfer_len`).
///
/// # Errors
/// As for [`nvme_feature`].
pub fn nvme_namespace_feature(device: &impl AsFd, nsid: u32, feature: u8) -> io::Result<u32> {
    let cdw10_to_15 = [feature.into(), 0, 0, 0, 0, 0];
    let command = NvmeAdminCommand { opcode: 0x0A, nsid, cdw10_to_15, ..NvmeAdminCommand::default() };
    nvme_admin(device, 0, command).map(|(value, _)| value)
}

/// Some features have data besides dword 0 (0Ch: a table of 256 bytes). Without memory for it a drive would
/// write to address 0.
const FEATURE_LEN: u32 = size_of::<PageData>() as u32;

/// Gives a feature without data a value until the controller's next reset (Set Features, 09h).
///
/// # Errors
/// As for [`nvme_feature`], or the feature does not take the value.
pub fn set_nvme_feature(device: &impl AsFd, feature: u8, value: u32) -> io::Result<()> {
    set_nvme_namespace_feature(device, 0, feature, value)
}

/// As [`set_nvme_feature`], of one of its namespaces.
///
/// # Errors
/// As for [`set_nvme_feature`].
pub fn set_nvme_namespace_feature(device: &impl AsFd, nsid: u32, feature: u8, value: u32) -> io::Result<()> {
    let cdw10_to_15 = [feature.into(), value, 0, 0, 0, 0];
    let command = NvmeAdminCommand { opcode: 0x09, nsid, cdw10_to_15, ..NvmeAdminCommand::default() };
    nvme_admin(device, 0, command).map(drop)
}

/// Sends a command to the controller by `NVME_IOCTL_ADMIN_CMD`. Returns dword 0 of its completion, and the
/// data, of which the controller writes at most the first `len` bytes.
fn nvme_admin(device: &impl AsFd, len: u32, command: NvmeAdminCommand) -> io::Result<(u32, Box<PageData>)> {
    let mut data = Box::new([0; size_of::<PageData>()]);
    let mut command = command.with_data(&mut data, len);
    // SAFETY: the kernel reads and writes one command, and writes `data_len` bytes to `addr`, where `data`
    // has that many.
    let status =
        unsafe { libc::ioctl(device.as_fd().as_raw_fd(), NVME_IOCTL_ADMIN_CMD as _, &raw mut command) };
    check(status)?;
    match status {
        0 => Ok((command.result, data)),
        status => Err(io::Error::other(format!("NVMe status {status:#x}"))),
    }
}

impl NvmeAdminCommand {
    /// The command with at most `len` bytes of `data` for its answer, and with the kernel's own time limit:
    /// after a shorter one the kernel resets the controller, which then loses its features.
    fn with_data(self, data: &mut PageData, len: u32) -> NvmeAdminCommand {
        let data_len = len.min(size_of::<PageData>() as u32);
        NvmeAdminCommand { addr: data.as_mut_ptr() as u64, data_len, timeout_ms: 0, ..self }
    }
}

/// Random bytes from the kernel (getrandom(2)).
pub(super) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += retry_on_intr(|| getrandom(&mut bytes[filled..], GetRandomFlags::empty()))?;
    }
    Ok(bytes)
}

pub(super) fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Memory that direct I/O can use: aligned to the page.
pub(super) struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    const ALIGNMENT: usize = 4096;

    /// `length` bytes of zeros.
    pub(super) fn new(length: usize) -> AlignedBuffer {
        let memory = vec![0u8; length + AlignedBuffer::ALIGNMENT];
        let start = memory.as_ptr().align_offset(AlignedBuffer::ALIGNMENT);
        AlignedBuffer { memory, start, length }
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Get Features without memory for its data made a drive write to address 0; a command with a time limit
    /// of one second made the kernel reset the controller.
    #[test]
    fn an_admin_command_has_a_place_for_its_data_and_the_kernels_time() {
        let mut data = [0; size_of::<PageData>()];
        let at = data.as_ptr() as u64;
        let command = NvmeAdminCommand { timeout_ms: 1_000, ..NvmeAdminCommand::default() };
        let command = command.with_data(&mut data, FEATURE_LEN);
        assert_eq!((command.addr, command.data_len, command.timeout_ms), (at, 4096, 0));
        assert_eq!(NvmeAdminCommand::default().with_data(&mut data, u32::MAX).data_len, 4096);
    }
}
