//! Features of an NVMe controller by the kernel's passthrough: one value of 32 bits each, asked for and set.
//!
//! Source: NVM Express Base Specification 2.0, Get Features (0Ah) and Set Features (09h); `include/uapi/linux/nvme_ioctl.h`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
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

/// Executes an admin command, whose data goes to `data`; its dword 0.
fn execute(controller: &Path, opcode: u8, [cdw10, cdw11]: [u32; 2], data: &mut [u8]) -> io::Result<u32> {
    let device = File::open(controller)?;
    let mut command = NvmeAdminCommand {
        opcode,
        // The kernel maps nothing where there are no bytes.
        address: if data.is_empty() { 0 } else { data.as_mut_ptr() as u64 },
        data_len: data.len() as u32,
        cdw10_to_15: [cdw10, cdw11, 0, 0, 0, 0],
        timeout_ms: 1_000,
        ..NvmeAdminCommand::default()
    };
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

    #[test]
    fn what_is_no_controller_has_no_features() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(get(file.path(), 0x06).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        assert_eq!(set(Path::new("/dev/null"), 0x06, 1).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        assert_eq!(get(&file.path().join("gone"), 0x06).unwrap_err().raw_os_error(), Some(libc::ENOTDIR));
    }
}
