//! `nvme-passthrough`: NVMe read and write commands by `IORING_OP_URING_CMD` on `/dev/ngXnY`.
//!
//! Sources: include/uapi/linux/nvme_ioctl.h (`struct nvme_uring_cmd`, `NVME_URING_CMD_IO`), NVM
//! Command Set specification (read 02h, write 01h). Needs Linux 5.19, polling 6.1.

use crate::control_blocks::ControlBlocks;
use crate::error::EngineError;
use crate::rare::{bytes, vectors};
use crate::request::{IoError, Op, Operation, Transfer};
use crate::ring::entry::{EntryBase, EntryFormat};
use crate::ring::io_uring::FIXED_FILE;
use crate::target::NvmeNamespace;
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

/// `NVME_URING_CMD_IO_VEC`: the same with vectors of user memory.
const NVME_URING_CMD_IO_VEC: u32 = NVME_URING_CMD_IO + 1;

const NVME_FLUSH: u8 = 0;
const NVME_WRITE: u8 = 1;
const NVME_READ: u8 = 2;
const NVME_WRITE_ZEROES: u8 = 8;
const NVME_DATASET_MANAGEMENT: u8 = 9;

/// `FUA` of a write (dword 12): its blocks are durable when it completes.
const FORCE_UNIT_ACCESS: u32 = 1 << 30;

/// Attribute "deallocate" of a Dataset Management command (dword 11).
const DEALLOCATE: u32 = 1 << 2;

/// Where the command lies in a 128-byte entry: `cmd` of `struct io_uring_sqe`.
const COMMAND_AT: usize = 48;

/// The most blocks of one command: their number is written in 16 bits, less one.
const MOST_BLOCKS: u32 = 1 << 16;

#[cold]
fn not_blocks(len: u64, offset: u64, lba_shift: u8) -> EngineError {
    EngineError::unsupported(format!(
        "{len} bytes at byte {offset} do not make an NVMe command: one takes 1 to {MOST_BLOCKS} whole \
         logical blocks of {} bytes; use a bs that is a multiple of them",
        1u32 << lba_shift,
    ))
}

/// The entries of [`NvmePassthrough`](crate::NvmePassthrough).
pub struct Passthrough {
    pub(crate) namespace: NvmeNamespace,
}

/// What a rare command reads while it is in flight: vectors, or the range of a Dataset Management command.
#[derive(Default)]
pub(crate) struct Extra {
    vectors: ControlBlocks<libc::iovec>,
    /// Context attributes and number of blocks, and the first block.
    range: ControlBlocks<u64>,
}

impl Passthrough {
    fn blocks(&self, offset: u64, len: u64) -> Result<u32, EngineError> {
        let shift = self.namespace.lba_shift;
        let beside = (offset | len) & ((1 << shift) - 1);
        let blocks = len >> shift;
        if beside == 0 && (1..=u64::from(MOST_BLOCKS)).contains(&blocks) {
            Ok(blocks as u32)
        } else {
            Err(not_blocks(len, offset, shift))
        }
    }

    fn at(&self, offset: u64) -> NvmeUringCmd {
        let lba = offset >> self.namespace.lba_shift;
        let (cdw10, cdw11) = (lba as u32, (lba >> 32) as u32);
        NvmeUringCmd { nsid: self.namespace.nsid, cdw10, cdw11, ..NvmeUringCmd::default() }
    }

    /// Bytes of the blocks that an operation names.
    fn extent(operation: &Operation) -> (u64, u64) {
        match operation {
            Operation::ReadVectored { offset, .. } | Operation::WriteVectored { offset, .. } => {
                (*offset, bytes(operation).into())
            }
            Operation::Discard { offset, len } | Operation::WriteZeroes { offset, len } => (*offset, *len),
            _ => (0, 0),
        }
    }
}

/// The command within an entry.
fn command_of(entry: NonNull<sys::io_uring_sqe>) -> NonNull<NvmeUringCmd> {
    // SAFETY: the entry has 128 bytes (SETUP has IORING_SETUP_SQE128), of which 80 follow `COMMAND_AT`,
    // aligned to 8.
    unsafe { entry.cast::<u8>().add(COMMAND_AT).cast() }
}

impl EntryFormat for Passthrough {
    const SETUP: u32 = sys::IORING_SETUP_SQE128 | sys::IORING_SETUP_CQE32;

    /// The length: a result is the whole of it, or a status.
    type Kept = u32;
    type Extra = Extra;

    /// A command names blocks, not bytes: the drive would move whole blocks over the buffer's end, or others
    /// than asked.
    fn accepts(&self, transfer: &Transfer) -> Result<(), EngineError> {
        self.blocks(transfer.offset, transfer.len.into()).map(drop)
    }

    /// The offset and the length were seen to be whole blocks.
    #[inline]
    fn is_accepted(&self, transfer: &Transfer) -> bool {
        (transfer.len >> self.namespace.lba_shift).wrapping_sub(1) < MOST_BLOCKS
    }

    // SAFETY: by the trait's condition the entry is the ring's, zeroed and unpublished.
    unsafe fn prepare(&self, entry: NonNull<sys::io_uring_sqe>, base: EntryBase) {
        // SAFETY: by this function's condition `entry` may be written through for 128 bytes. The reference
        // covers the first 64 and ends before the command is written through the pointer that it was made
        // from.
        unsafe {
            let sqe = &mut *entry.as_ptr();
            sqe.opcode = sys::io_uring_op::IORING_OP_URING_CMD as u8;
            sqe.fd = base.fd;
            if base.registered {
                sqe.flags = FIXED_FILE;
                sqe.__bindgen_anon_3.uring_cmd_flags = sys::IORING_URING_CMD_FIXED;
            }
            // `cmd_op` shares its place with `off`, whose upper half must be zero.
            sqe.__bindgen_anon_1.off = NVME_URING_CMD_IO.into();
            command_of(entry).write(NvmeUringCmd { nsid: self.namespace.nsid, ..NvmeUringCmd::default() });
        }
    }

    // SAFETY: by the trait's condition the entry is the ring's next one, prepared and unpublished.
    #[inline]
    unsafe fn transfer(
        &self,
        entry: NonNull<sys::io_uring_sqe>,
        op: Op,
        transfer: &Transfer,
        address: NonNull<u8>,
        _: EntryBase,
    ) {
        let shift = self.namespace.lba_shift;
        let lba = transfer.offset >> shift;
        // SAFETY: by this function's condition only we use the entry, whose command `prepare` wrote.
        let command = unsafe { command_of(entry).as_mut() };
        command.opcode = if op == Op::Read { NVME_READ } else { NVME_WRITE };
        command.addr = address.as_ptr() as u64;
        command.data_len = transfer.len;
        (command.cdw10, command.cdw11) = (lba as u32, (lba >> 32) as u32);
        // `is_accepted` has found at least one block.
        command.cdw12 = ((transfer.len >> shift) - 1) | if op.is_durable() { FORCE_UNIT_ACCESS } else { 0 };
    }

    #[inline]
    fn kept(len: u32) -> u32 {
        len
    }

    /// 0 is success of the whole command; above 0 is an NVMe status.
    #[inline]
    fn result(&self, result: i32, len: u32) -> Result<u32, IoError> {
        match result {
            0 => Ok(len),
            status @ 1.. => Err(IoError::Nvme(status as u32 & 0x7ff)),
            errno => Err(IoError::Os(-errno)),
        }
    }

    fn lacks(&self, op: Op, registered: bool) -> Option<&'static str> {
        (registered && matches!(op, Op::ReadVectored | Op::WriteVectored))
            .then_some(": registered buffers are read and written one by one")
    }

    fn extra(&self, operation: &Operation) -> Result<Extra, EngineError> {
        let (offset, len) = Passthrough::extent(operation);
        let lba = offset >> self.namespace.lba_shift;
        let blocks = match operation.op() {
            Op::Flush | Op::Fsync => 0,
            _ => self.blocks(offset, len)?,
        };
        let range: Box<[u64]> = Box::new([u64::from(blocks) << 32, lba]);
        Ok(Extra { vectors: vectors(operation).into(), range: range.into() })
    }

    // SAFETY: by the trait's condition the entry is the ring's next one, zeroed and unpublished.
    unsafe fn rare(
        &self,
        entry: NonNull<sys::io_uring_sqe>,
        operation: &Operation,
        extra: &Extra,
        base: EntryBase,
    ) {
        // The data of rare commands are never registered buffers, but the file is where it is registered.
        // SAFETY: as in `prepare`.
        unsafe { self.prepare(entry, base) };
        let (offset, len) = Passthrough::extent(operation);
        let last_block = ((len >> self.namespace.lba_shift) as u32).saturating_sub(1);
        let mut command = NvmeUringCmd { cdw12: last_block, ..self.at(offset) };
        command.opcode = match operation.op() {
            Op::ReadVectored => NVME_READ,
            Op::WriteVectored => NVME_WRITE,
            Op::Discard => NVME_DATASET_MANAGEMENT,
            Op::WriteZeroes => NVME_WRITE_ZEROES,
            _ => NVME_FLUSH,
        };
        let mut code = NVME_URING_CMD_IO;
        match operation.op() {
            Op::ReadVectored | Op::WriteVectored => {
                code = NVME_URING_CMD_IO_VEC;
                let (first, count) = extra.vectors.all();
                (command.addr, command.data_len) = (first as u64, count as u32);
            }
            Op::Discard => {
                let (first, words) = extra.range.all();
                (command.addr, command.data_len) = (first as u64, (8 * words) as u32);
                (command.cdw10, command.cdw11, command.cdw12) = (0, DEALLOCATE, 0);
            }
            _ => {}
        }
        // SAFETY: as in `prepare`.
        unsafe {
            let sqe = &mut *entry.as_ptr();
            sqe.__bindgen_anon_1.off = code.into();
            sqe.__bindgen_anon_3.uring_cmd_flags = 0;
            command_of(entry).write(command);
        }
    }

    fn name(polls: bool) -> &'static str {
        if polls { "nvme-passthrough with polled completion" } else { "nvme-passthrough" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;
    use crate::request::Request;

    const BASE: EntryBase = EntryBase { fd: 5, registered: false };

    fn with_blocks(lba_shift: u8, nsid: u32) -> Passthrough {
        Passthrough { namespace: NvmeNamespace { nsid, lba_shift } }
    }

    /// The bytes of an entry that `fill` writes to.
    fn entry(fill: impl FnOnce(NonNull<sys::io_uring_sqe>)) -> [u8; 128] {
        let mut entry = [0u64; 16];
        fill(NonNull::from(&mut entry).cast());
        // SAFETY: plain bytes.
        unsafe { std::mem::transmute(entry) }
    }

    fn u32_at(bytes: &[u8; 128], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn a_read_is_encoded_as_the_kernel_and_the_drive_expect() {
        assert_eq!(NVME_URING_CMD_IO, 0xc048_4e80);
        let pool = Pool::new(1, 4096).unwrap();
        let transfer = Transfer { buffer: pool.acquire().unwrap(), len: 4096, offset: (1 << 42) + 8192 };
        let address = NonNull::new(std::ptr::without_provenance_mut(0x1000)).unwrap();
        let command = with_blocks(9, 3);
        // SAFETY: the array is as long and as aligned as a 128-byte entry, and the pointer covers all of it.
        let bytes = entry(|entry| unsafe {
            command.prepare(entry, BASE);
            command.transfer(entry, Op::Read, &transfer, address, BASE);
        });
        assert_eq!(bytes[0], 46, "IORING_OP_URING_CMD");
        assert_eq!([4, 8, 12].map(|at| u32_at(&bytes, at)), [5, NVME_URING_CMD_IO, 0]);
        assert_eq!((bytes[48], u32_at(&bytes, 52)), (2, 3), "read, nsid 3");
        assert_eq!([72, 76, 84].map(|at| u32_at(&bytes, at)), [0x1000, 0, 4096], "address and length");
        let lba = ((1u64 << 42) + 8192) >> 9;
        assert_eq!([88, 92, 96].map(|at| u32_at(&bytes, at)), [lba as u32, (lba >> 32) as u32, 7]);
    }

    #[test]
    fn a_durable_write_has_force_unit_access_and_the_next_transfer_has_not() {
        let pool = Pool::new(1, 4096).unwrap();
        let transfer = Transfer { buffer: pool.acquire().unwrap(), len: 4096, offset: 0 };
        let address = NonNull::new(std::ptr::without_provenance_mut(0x1000)).unwrap();
        let command = with_blocks(9, 3);
        for (op, opcode, dword) in [
            (Op::Write, 1, 7),
            (Op::WriteDsync, 1, 7 | 1 << 30),
            (Op::WriteSync, 1, 7 | 1 << 30),
            (Op::Read, 2, 7),
        ] {
            // SAFETY: the array is as long and as aligned as a 128-byte entry, and the pointer covers it.
            let bytes = entry(|entry| unsafe {
                command.prepare(entry, BASE);
                command.transfer(entry, Op::WriteDsync, &transfer, address, BASE);
                command.transfer(entry, op, &transfer, address, BASE);
            });
            assert_eq!((bytes[48], u32_at(&bytes, 96)), (opcode, dword), "{op:?}");
        }
    }

    #[test]
    fn rare_commands_are_encoded_as_the_specification_has_them() {
        let pool = Pool::new(2, 4096).unwrap();
        let command = with_blocks(9, 3);
        let rare = |request: Request| {
            let extra = command.extra(&request.operation).unwrap();
            // SAFETY: as above.
            let bytes = entry(|entry| unsafe { command.rare(entry, &request.operation, &extra, BASE) });
            (bytes, extra)
        };
        let (flush, _) = rare(Request::flush());
        assert_eq!((flush[48], u32_at(&flush, 52), u32_at(&flush, 84)), (0, 3, 0));
        let (zeroes, _) = rare(Request::write_zeroes(1 << 20, 1 << 20));
        assert_eq!((zeroes[48], u32_at(&zeroes, 88), u32_at(&zeroes, 96)), (8, 2048, 2047));
        let (discard, extra) = rare(Request::discard(1 << 20, 4096));
        assert_eq!([discard[48].into(), u32_at(&discard, 84), u32_at(&discard, 88)], [9, 16, 0]);
        assert_eq!((u32_at(&discard, 92), u32_at(&discard, 96)), (4, 0), "deallocate one range");
        let (first, words) = extra.range.all();
        // SAFETY: nobody writes the words.
        let range = unsafe { std::slice::from_raw_parts(first, words) };
        assert_eq!(range, [8 << 32, 2048], "eight blocks from block 2048 on");
        let buffers: Vec<_> = std::iter::from_fn(|| pool.acquire()).collect();
        let (read, extra) = rare(Request::read_vectored(buffers, 0));
        assert_eq!([u32_at(&read, 8), u32_at(&read, 84), u32_at(&read, 96)], [NVME_URING_CMD_IO_VEC, 2, 15]);
        assert_eq!(extra.vectors.all().1, 2);
        let message = command.extra(&Operation::WriteZeroes { offset: 0, len: 1 << 40 }).err().unwrap();
        assert!(message.to_string().contains("1 to 65536 whole logical blocks"), "{message}");
    }

    #[test]
    fn only_whole_blocks_make_a_command() {
        for (lba_shift, len, offset) in
            [(9, 512, 0), (9, 4096, 512), (12, 4096, 1 << 45), (9, 65_536 * 512, 512), (12, 65_536 * 4096, 0)]
        {
            let blocks = with_blocks(lba_shift, 1).blocks(offset, len);
            assert_eq!(blocks.unwrap(), (len >> lba_shift) as u32);
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
            let message = with_blocks(lba_shift, 1).blocks(offset, len).unwrap_err().to_string();
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
        let command = with_blocks(9, 1);
        assert_eq!(command.result(0, 512), Ok(512));
        assert_eq!(command.result(0x4281, 512), Err(IoError::Nvme(0x281)));
        assert_eq!(command.result(-5, 512), Err(IoError::Os(5)));
    }
}
