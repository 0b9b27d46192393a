//! `nvme-passthrough`: NVMe read and write commands by `IORING_OP_URING_CMD` on `/dev/ngXnY`.
//!
//! Sources: include/uapi/linux/nvme_ioctl.h (`struct nvme_uring_cmd`, `NVME_URING_CMD_IO`), NVM
//! Command Set specification (read 02h, write 01h). Needs Linux 5.19, polling 6.1.

use crate::engine::{EngineError, IoError, Op, Request};
use crate::ring_engine::EntryFormat;
use crate::target::NvmeNamespace;
use iopj_core::path::Ring as Modes;
use linux_raw_sys::io_uring as sys;
use std::ptr::NonNull;

/// `struct nvme_uring_cmd`.
#[derive(Default)]
#[repr(C)]
struct NvmeUringCmd {
    opcode: u8,
    flags: u8,
    reserved1: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    reserved2: u32,
}

const _: () = assert!(size_of::<NvmeUringCmd>() == 72);

/// `NVME_URING_CMD_IO`: `_IOWR('N', 0x80, struct nvme_uring_cmd)`.
const NVME_URING_CMD_IO: u32 =
    (3 << 30) | ((size_of::<NvmeUringCmd>() as u32) << 16) | ((b'N' as u32) << 8) | 0x80;

const NVME_WRITE: u8 = 1;
const NVME_READ: u8 = 2;

/// Where the command lies in a 128-byte entry: `cmd` of `struct io_uring_sqe`.
const COMMAND_AT: usize = 48;

/// The most blocks of one command: their number is written in 16 bits, less one.
const MOST_BLOCKS: u32 = 1 << 16;

#[cold]
fn not_blocks(request: &Request, lba_shift: u8) -> EngineError {
    EngineError::unsupported(format!(
        "{} bytes at byte {} do not make an NVMe command: one takes 1 to {MOST_BLOCKS} whole logical \
         blocks of {} bytes; use a bs that is a multiple of them",
        request.len,
        request.offset,
        1u32 << lba_shift,
    ))
}

pub(crate) struct Passthrough {
    pub(crate) namespace: NvmeNamespace,
}

impl EntryFormat for Passthrough {
    const SETUP: u32 = sys::IORING_SETUP_SQE128 | sys::IORING_SETUP_CQE32;

    /// A command names blocks, not bytes: the drive would move whole blocks over the slot's end, or others
    /// than asked.
    #[inline]
    fn accepts(&self, request: &Request) -> Result<(), EngineError> {
        let shift = self.namespace.lba_shift;
        let beside = (request.offset | u64::from(request.len)) & ((1 << shift) - 1);
        let blocks = request.len >> shift;
        if beside == 0 && (1..=MOST_BLOCKS).contains(&blocks) {
            Ok(())
        } else {
            Err(not_blocks(request, shift))
        }
    }

    // SAFETY: by the trait's condition the entry is the ring's next one, zeroed and unpublished.
    #[inline]
    unsafe fn prepare(
        &self,
        entry: NonNull<sys::io_uring_sqe>,
        request: &Request,
        address: NonNull<u8>,
        modes: Modes,
        fd: i32,
    ) {
        let lba = request.offset >> self.namespace.lba_shift;
        // `accepts` has found at least one block.
        let last_block = (request.len >> self.namespace.lba_shift) - 1;
        let command = NvmeUringCmd {
            opcode: if request.op == Op::Read { NVME_READ } else { NVME_WRITE },
            nsid: self.namespace.nsid,
            addr: address.as_ptr() as u64,
            data_len: request.len,
            cdw10: lba as u32,
            cdw11: (lba >> 32) as u32,
            cdw12: last_block,
            ..NvmeUringCmd::default()
        };
        // SAFETY: by this function's conditions `entry` may be written through for 128 bytes (SETUP has
        // IORING_SETUP_SQE128), so 80 bytes follow `COMMAND_AT`, aligned to 8. The reference covers the first
        // 64 bytes and ends before the command is written through the pointer that it was made from.
        unsafe {
            let sqe = &mut *entry.as_ptr();
            sqe.opcode = sys::io_uring_op::IORING_OP_URING_CMD as u8;
            sqe.fd = fd;
            if modes.registered {
                sqe.flags = 1 << sys::io_uring_sqe_flags_bit::IOSQE_FIXED_FILE_BIT as u8;
                sqe.__bindgen_anon_3.uring_cmd_flags = sys::IORING_URING_CMD_FIXED;
            }
            // `cmd_op` shares its place with `off`, whose upper half must be zero.
            sqe.__bindgen_anon_1.off = NVME_URING_CMD_IO.into();
            entry.cast::<u8>().add(COMMAND_AT).cast::<NvmeUringCmd>().write(command);
        }
    }

    /// 0 is success of the whole command; above 0 is an NVMe status.
    #[inline]
    fn result(&self, result: i32, len: u32) -> Result<u32, IoError> {
        match result {
            0 => Ok(len),
            status @ 1.. => Err(IoError::Nvme(status as u16 & 0x7ff)),
            errno => Err(IoError::Os(-errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Slot;
    use iopj_core::path::{RingCompletion, RingSubmission};

    const MODES: Modes = Modes {
        submission: RingSubmission::Syscall { split: false },
        completion: RingCompletion::Poll,
        registered: false,
    };

    #[test]
    fn a_read_is_encoded_as_the_kernel_and_the_drive_expect() {
        assert_eq!(NVME_URING_CMD_IO, 0xc048_4e80);
        let mut entry = [0u64; 16];
        let request = Request { op: Op::Read, slot: Slot(0), len: 4096, offset: (1 << 42) + 8192, tag: 0 };
        let address = NonNull::new(std::ptr::without_provenance_mut(0x1000)).unwrap();
        let command = Passthrough { namespace: NvmeNamespace { nsid: 3, lba_shift: 9 } };
        // SAFETY: the array is as long and as aligned as a 128-byte entry, and the pointer covers all of it.
        unsafe { command.prepare(NonNull::from(&mut entry).cast(), &request, address, MODES, 5) };
        // SAFETY: plain bytes.
        let bytes: [u8; 128] = unsafe { std::mem::transmute(entry) };
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(bytes[0], 46, "IORING_OP_URING_CMD");
        assert_eq!((u32_at(4), u32_at(8), u32_at(12)), (5, NVME_URING_CMD_IO, 0));
        assert_eq!((bytes[48], u32_at(52)), (2, 3), "read, nsid 3");
        assert_eq!((u32_at(72), u32_at(76), u32_at(84)), (0x1000, 0, 4096), "address and length");
        let lba = ((1u64 << 42) + 8192) >> 9;
        assert_eq!((u32_at(88), u32_at(92), u32_at(96)), (lba as u32, (lba >> 32) as u32, 7));
    }

    #[test]
    fn only_whole_blocks_make_a_command() {
        let command = |lba_shift| Passthrough { namespace: NvmeNamespace { nsid: 1, lba_shift } };
        let request = |len, offset| Request { op: Op::Write, slot: Slot(0), len, offset, tag: 0 };
        for (lba_shift, len, offset) in
            [(9, 512, 0), (9, 4096, 512), (12, 4096, 1 << 45), (9, 65_536 * 512, 512), (12, 65_536 * 4096, 0)]
        {
            assert!(command(lba_shift).accepts(&request(len, offset)).is_ok(), "{lba_shift} {len} {offset}");
        }
        for (lba_shift, len, offset) in [
            (9, 0, 0),
            (9, 511, 0),
            (9, 513, 0),
            (12, 512, 0),
            (9, 512, 1),
            (12, 4096, 512),
            (9, 65_537 * 512, 0),
            (31, 4096, 0),
        ] {
            let message = command(lba_shift).accepts(&request(len, offset)).unwrap_err().to_string();
            let expected = format!("1 to 65536 whole logical blocks of {} bytes", 1u64 << lba_shift);
            assert!(
                message.contains(&format!("{len} bytes at byte {offset} do not make an NVMe command")),
                "{message}"
            );
            assert!(message.contains(&expected), "{message}");
        }
    }

    #[test]
    fn results_are_bytes_status_or_errno() {
        let command = Passthrough { namespace: NvmeNamespace { nsid: 1, lba_shift: 9 } };
        assert_eq!(command.result(0, 512), Ok(512));
        assert_eq!(command.result(0x4281, 512), Err(IoError::Nvme(0x281)));
        assert_eq!(command.result(-5, 512), Err(IoError::Os(5)));
    }
}
