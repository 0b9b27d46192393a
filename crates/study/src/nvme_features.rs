//! Features of an NVMe controller by the kernel's passthrough: one value of 32 bits each, asked for and set.
//!
//! Source: NVM Express Base Specification 2.0, Get Features (0Ah) and Set Features (09h); `include/uapi/linux/nvme_ioctl.h`.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// `struct nvme_admin_cmd`.
#[repr(C)]
#[derive(Default)]
struct NvmeAdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    cdw2_and_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10_to_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

impl NvmeAdminCommand {
    fn new(opcode: u8, [cdw10, cdw11]: [u32; 2], data: &mut [u8]) -> NvmeAdminCommand {
        NvmeAdminCommand {
            opcode,
            // The kernel maps nothing where there are no bytes.
            address: if data.is_empty() { 0 } else { data.as_mut_ptr() as u64 },
            data_len: data.len() as u32,
            cdw10_to_15: [cdw10, cdw11, 0, 0, 0, 0],
            // The kernel's own: when it is over the kernel resets the controller, which loses the features.
            timeout_ms: 0,
            ..NvmeAdminCommand::default()
        }
    }
}

/// `_IOWR('N', 0x41, struct nvme_admin_cmd)`; the size is part of the number.
const NVME_IOCTL_ADMIN_CMD: u64 = 0xC000_4E41 | ((size_of::<NvmeAdminCommand>() as u64) << 16);
const _: () = assert!(NVME_IOCTL_ADMIN_CMD == 0xC048_4E41);

/// Bytes that Get Features writes beside dword 0: the table of Autonomous Power State Transition. Without a place for them the drive
/// would write to address 0.
const fn data_len(feature: u8) -> usize {
    if feature == 0x0C { MOST_DATA } else { 0 }
}

/// The most that any feature here has.
const MOST_DATA: usize = 256;

/// The current value of a feature of the controller whose character device this is.
///
/// # Errors
/// No root, no controller, or one that does not have the feature.
pub(crate) fn get(controller: &Path, feature: u8) -> io::Result<u32> {
    let mut data = [0; MOST_DATA];
    execute(controller, 0x0A, [feature.into(), 0], &mut data[..data_len(feature)])
}

/// Gives a feature a value until the controller's next reset.
///
/// # Errors
/// As for [`get`], or the feature takes no such value.
pub(crate) fn set(controller: &Path, feature: u8, value: u32) -> io::Result<()> {
    execute(controller, 0x09, [feature.into(), value], &mut []).map(drop)
}

/// Makes a drive work, by one read of its namespace past the page cache: in a power state in which it rests it executes none.
///
/// # Errors
/// No root, no such device, or one that has nothing to read.
pub(crate) fn wake(namespace: &Path) -> io::Result<()> {
    /// As long as the longest block that Linux takes.
    #[repr(align(4096))]
    struct Place([u8; 65_536]);
    let mut place = Box::new(Place([0; 65_536]));
    let mut device = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(namespace)?;
    match device.read(&mut place.0)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// Executes an admin command, whose data goes to `data`; its dword 0.
fn execute(controller: &Path, opcode: u8, [cdw10, cdw11]: [u32; 2], data: &mut [u8]) -> io::Result<u32> {
    let device = File::open(controller)?;
    let mut command = NvmeAdminCommand::new(opcode, [cdw10, cdw11], data);
    // SAFETY: `command` has the layout of the kernel's structure, which the kernel reads and writes during the call
    // alone, as it does `data`, which is exclusively borrowed. Another kind of file refuses the request.
    match unsafe { libc::ioctl(device.as_raw_fd(), NVME_IOCTL_ADMIN_CMD as _, &raw mut command) } {
        0 => Ok(command.result),
        status if status < 0 => Err(io::Error::last_os_error()),
        status => Err(io::Error::other(format!("NVMe status {status:#x}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A feature whose data had no place made the drive write to address 0.
    #[test]
    fn the_table_of_power_state_transitions_has_a_place() {
        assert_eq!([0x02, 0x06, 0x08, 0x0C].map(data_len), [0, 0, 0, 32 * 8]);
    }

    /// A command that took longer than a second made the kernel reset the controller.
    #[test]
    fn a_command_has_the_kernels_own_time() {
        let command = NvmeAdminCommand::new(0x09, [0x08, 0x104], &mut []);
        assert_eq!((command.timeout_ms, command.cdw10_to_15), (0, [0x08, 0x104, 0, 0, 0, 0]));
    }

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
        assert_eq!(get(file.path(), 0x06).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        assert_eq!(set(Path::new("/dev/null"), 0x06, 1).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        assert_eq!(get(&file.path().join("gone"), 0x06).unwrap_err().raw_os_error(), Some(libc::ENOTDIR));
    }
}
