//! What commands to an NVMe namespace need to know, and whether passthrough can serve the namespace: blocks
//! with metadata need a second buffer, which iopj does not have. The engine writes the commands.

use super::error::{PassthroughFault, TargetError, TargetFault};
use super::topology::name_of;
use super::{Target, sys};
use crate::nvme_user::{self, IoCounts, PageData, io_counts};
use crate::system::attribute;
use std::fs::File;
use std::io;
use std::path::Path;

/// What a command to an NVMe namespace needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvmeNamespace {
    /// Namespace identifier.
    pub nsid: u32,
    /// Logarithm to base 2 of the logical block in bytes, 9 to 31.
    pub lba_shift: u8,
}

impl NvmeNamespace {
    /// The namespace whose character device is `file` and whose block device's sysfs directory is `block`.
    ///
    /// # Errors
    /// Its logical block or its metadata cannot be learned, or its blocks carry metadata.
    pub(super) fn of(path: &Path, file: &File, block: &Path) -> Result<NvmeNamespace, TargetError> {
        let refuse = |fault| TargetFault::NoPassthrough { fault, block_device: name_of(block) }.of(path);
        let nsid = sys::nvme_nsid(file)
            .map_err(TargetError::system(path, "asking its namespace (NVME_IOCTL_ID)"))?;
        let lba_shift = lba_shift(block).map_err(refuse)?;
        let metadata = metadata_bytes(block, || sys::nvme_identify_namespace(file, nsid));
        match metadata {
            Ok(0) => Ok(NvmeNamespace { nsid, lba_shift }),
            Ok(bytes) => Err(refuse(PassthroughFault::Metadata(bytes))),
            Err(e) => Err(refuse(PassthroughFault::UnknownMetadata(e))),
        }
    }

    /// The logical block in bytes.
    pub(super) fn logical_block(self) -> u32 {
        1 << self.lba_shift
    }
}

impl Target {
    /// The commands that the drive itself counts, from every process and from the kernel.
    ///
    /// # Errors
    /// Only root may ask; the target is not an NVMe generic device.
    pub fn io_counts(&self) -> io::Result<IoCounts> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        sys::nvme_smart_log(file).map(|log| io_counts(&log))
    }
}

fn lba_shift(block: &Path) -> Result<u8, PassthroughFault> {
    match attribute::<u32>(block, "queue/logical_block_size") {
        Some(bytes) if bytes.is_power_of_two() && bytes >= 512 => Ok(bytes.trailing_zeros() as u8),
        Some(bytes) => Err(PassthroughFault::BlockSize(bytes)),
        None => Err(PassthroughFault::UnknownBlockSize),
    }
}

/// Metadata of a block in bytes, by sysfs since Linux 6.8, else by the controller.
fn metadata_bytes(block: &Path, identify: impl FnOnce() -> io::Result<Box<PageData>>) -> io::Result<u16> {
    match attribute::<u16>(block, "metadata_bytes") {
        Some(bytes) => Ok(bytes),
        None => identify().map(|data| nvme_user::metadata_bytes(&data)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::SysfsTree;
    use super::*;
    use std::fs;

    fn unasked() -> io::Result<Box<PageData>> {
        panic!("sysfs tells")
    }

    #[test]
    fn the_logical_block_must_be_known() {
        let disk = SysfsTree::new().disk("nvme0n1", "259:0");
        assert_eq!(
            lba_shift(&disk).map_err(|fault| fault.to_string()),
            Err("sysfs does not show its logical block (queue/logical_block_size)".to_owned())
        );
        let tree = SysfsTree::new();
        let disk = tree.disk("nvme0n1", "259:0");
        fs::create_dir(disk.join("queue")).unwrap();
        for (text, expected) in
            [("512\n", Some(9)), ("4096\n", Some(12)), ("0\n", None), ("520\n", None), ("1\n", None)]
        {
            fs::write(disk.join("queue/logical_block_size"), text).unwrap();
            assert_eq!(lba_shift(&disk).ok(), expected, "{text}");
        }
    }

    #[test]
    fn metadata_is_read_from_sysfs_else_from_the_controller() {
        let tree = SysfsTree::new();
        let disk = tree.disk("nvme0n1", "259:0");
        let refused = metadata_bytes(&disk, || Err(io::Error::from_raw_os_error(libc::EACCES)));
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EACCES));
        let mut data = Box::new([0u8; 4096]);
        data[128..132].copy_from_slice(&[64, 0, 12, 0]);
        assert_eq!(metadata_bytes(&disk, || Ok(data)).unwrap(), 64);
        for bytes in [0, 8] {
            fs::write(disk.join("metadata_bytes"), format!("{bytes}\n")).unwrap();
            assert_eq!(metadata_bytes(&disk, unasked).unwrap(), bytes);
        }
    }
}
