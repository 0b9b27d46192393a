//! What loop devices lie on, whatever that is called by now.

use super::sys;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// What a loop device lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoopBacking {
    /// The block device with this number.
    Device(u64),
    /// The regular file with this inode on the file system with this device number.
    File {
        /// The device number, as `st_dev`.
        device: u64,
        /// The inode.
        inode: u64,
    },
}

impl LoopBacking {
    /// What the device lies on whose directory in sysfs this is; `None` if it is no loop device that lies on
    /// anything, or nobody can tell.
    pub fn of(dir: &Path) -> Option<LoopBacking> {
        if !dir.join("loop").is_dir() {
            return None;
        }
        // The kernel knows it also where its name is another's by now, or nobody's.
        let node = Path::new("/dev").join(dir.file_name().unwrap_or_default());
        let known = dir.starts_with("/sys").then(|| sys::loop_backing(&node).ok()).flatten();
        known.and_then(LoopBacking::known).or_else(|| LoopBacking::named(dir))
    }

    /// Of the file system's device number, the inode and the device number of `LOOP_GET_STATUS64`. Kernels
    /// before 5.12 say the file system's number twice where they have none for the device.
    fn known([device, inode, of_device]: [u64; 3]) -> Option<LoopBacking> {
        match of_device {
            0 if inode == 0 => None,
            0 => Some(LoopBacking::File { device, inode }),
            same if same == device => None,
            number => Some(LoopBacking::Device(number)),
        }
    }

    /// By the name that sysfs has of it.
    fn named(dir: &Path) -> Option<LoopBacking> {
        let text = fs::read(dir.join("loop/backing_file")).ok()?;
        let name = text.strip_suffix(b"\n").unwrap_or(&text);
        let found = fs::metadata(OsStr::from_bytes(name)).ok()?;
        match found.file_type() {
            kind if kind.is_block_device() => Some(LoopBacking::Device(found.rdev())),
            _ => Some(LoopBacking::File { device: found.dev(), inode: found.ino() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_a_loop_device_is_a_device_or_a_file() {
        let file = LoopBacking::File { device: 0x801, inode: 7 };
        assert_eq!(LoopBacking::known([0x801, 7, 0]), Some(file));
        assert_eq!(LoopBacking::known([6, 7, 0x700]), Some(LoopBacking::Device(0x700)));
        assert_eq!([LoopBacking::known([6, 7, 6]), LoopBacking::known([0, 0, 0])], [None, None]);
    }

    /// A name that ends in a blank was cut, and such a file had no lock.
    #[test]
    fn a_backing_file_is_found_by_its_whole_name() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, image) = (folder.path().join("loop9"), folder.path().join("image "));
        assert_eq!(LoopBacking::of(&dir), None);
        fs::create_dir_all(dir.join("loop")).unwrap();
        fs::write(&image, "").unwrap();
        fs::write(dir.join("loop/backing_file"), format!("{}\n", image.display())).unwrap();
        let found = fs::metadata(&image).unwrap();
        let file = LoopBacking::File { device: found.dev(), inode: found.ino() };
        assert_eq!(LoopBacking::of(&dir), Some(file));
        fs::remove_file(&image).unwrap();
        assert_eq!(LoopBacking::of(&dir), None);
    }
}
