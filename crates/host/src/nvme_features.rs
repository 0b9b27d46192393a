//! Features of an NVMe controller, by the path of its character device.

use iopj_engine::target::{nvme_feature, set_nvme_feature};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How features are asked for and set, by the controller's character device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FeatureAccess {
    pub(crate) get: fn(&Path, u8) -> io::Result<u32>,
    pub(crate) set: fn(&Path, u8, u32) -> io::Result<()>,
    /// Brings a resting drive back to its last operational power state, by one of its namespaces.
    pub(crate) wake: fn(&Path) -> io::Result<()>,
}

impl FeatureAccess {
    /// By the commands that the kernel passes on.
    pub(crate) fn of_kernel() -> FeatureAccess {
        FeatureAccess { get, set, wake }
    }
}

/// The current value of a feature.
///
/// # Errors
/// The device cannot be opened, and those of [`nvme_feature`].
fn get(controller: &Path, feature: u8) -> io::Result<u32> {
    nvme_feature(&File::open(controller)?, feature)
}

/// Gives a feature a value until the controller's next reset.
///
/// # Errors
/// The device cannot be opened, and those of [`set_nvme_feature`].
fn set(controller: &Path, feature: u8, value: u32) -> io::Result<()> {
    set_nvme_feature(&File::open(controller)?, feature, value)
}

/// Makes a drive work, by one read of its namespace past the page cache: a drive executes no read in a power
/// state in which it rests.
///
/// # Errors
/// No root, no such device, or an empty one.
fn wake(namespace: &Path) -> io::Result<()> {
    /// As long as the longest block that Linux takes.
    #[repr(align(4096))]
    struct Block([u8; 65_536]);
    let mut block = Box::new(Block([0; 65_536]));
    let direct = OFlags::DIRECT.bits().cast_signed();
    let mut device = OpenOptions::new().read(true).custom_flags(direct).open(namespace)?;
    match device.read(&mut block.0)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_drive_is_woken_by_what_it_reads() {
        // On the disk of the build, not on tmpfs, which has no O_DIRECT everywhere.
        let folder = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let namespace = folder.path().join("namespace");
        std::fs::write(&namespace, [7; 8192]).unwrap();
        wake(&namespace).unwrap();
        std::fs::write(&namespace, []).unwrap();
        assert_eq!(wake(&namespace).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(wake(&folder.path().join("gone")).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn what_is_no_controller_has_no_features() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(get(file.path(), 0x06).unwrap_err().raw_os_error(), Some(Errno::NOTTY.raw_os_error()));
        assert_eq!(
            set(Path::new("/dev/null"), 0x06, 1).unwrap_err().raw_os_error(),
            Some(Errno::NOTTY.raw_os_error())
        );
        assert_eq!(
            get(&file.path().join("gone"), 0x06).unwrap_err().raw_os_error(),
            Some(Errno::NOTDIR.raw_os_error())
        );
    }
}
