//! The entries of submission and completion queues.
//!
//! Sources: NVM Express Base Specification 2.0, figures 87 (common command format), 90 and 93 (completion),
//! sections 5 (admin commands) and 7.1 (flush); NVM Command Set Specification 1.0, sections 3.2.4 (read),
//! 3.2.6 (write) and 3.2.8 (write zeroes).

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// Opcode in bits 0 to 7, PRPs chosen in bits 14 and 15 by zero, the command's identifier from bit 16.
    pub(super) dword0: u32,
    pub(super) nsid: u32,
    pub(super) dwords_2_3: [u32; 2],
    pub(super) metadata: u64,
    pub(super) prp1: u64,
    pub(super) prp2: u64,
    pub(super) dwords_10_15: [u32; 6],
}

/// Bytes of a [`Command`] and of a [`CompletionEntry`] in their queues.
pub(super) const COMMAND_LEN: usize = 64;
pub(super) const COMPLETION_LEN: usize = 16;

const _: () = assert!(size_of::<Command>() == COMMAND_LEN);

const FLUSH: u32 = 0x00;
const WRITE: u32 = 0x01;
const READ: u32 = 0x02;
const WRITE_ZEROES: u32 = 0x08;

/// Force Unit Access, in dword 12.
const FUA: u32 = 1 << 30;

/// The part of a read or a write that differs from one to the next; the rest is in its entry already.
#[derive(Clone, Copy)]
pub(super) struct Transfer {
    pub(super) write: bool,
    /// A write that is durable when it completes.
    pub(super) fua: bool,
    pub(super) id: u16,
    pub(super) lba: u64,
    /// 1 to 65536.
    pub(super) blocks: u32,
    pub(super) prps: (u64, u64),
}

const EVERY_NAMESPACE: u32 = u32::MAX;

impl Command {
    pub(super) fn admin(opcode: u32, nsid: u32, prp1: u64, dwords_10_11: [u32; 2]) -> Command {
        let [ten, eleven] = dwords_10_11;
        Command { dword0: opcode, nsid, prp1, dwords_10_15: [ten, eleven, 0, 0, 0, 0], ..Command::default() }
    }

    /// The part that all reads and writes of a namespace share; the rest is a [`Transfer`].
    pub(super) fn transfers(nsid: u32) -> Command {
        Command { nsid, ..Command::default() }
    }

    /// Turns an entry that began as [`Command::transfers`], and may have held other transfers since, into
    /// this transfer.
    #[inline]
    pub(super) fn become_transfer(&mut self, transfer: Transfer) {
        let Transfer { write, fua, id, lba, blocks, prps } = transfer;
        self.dword0 = if write { WRITE } else { READ } | u32::from(id) << 16;
        (self.prp1, self.prp2) = prps;
        (self.dwords_10_15[0], self.dwords_10_15[1]) = (lba as u32, (lba >> 32) as u32);
        self.dwords_10_15[2] = (blocks - 1) | if fua { FUA } else { 0 };
    }

    /// Makes everything that was written to a namespace durable.
    pub(super) fn flush(nsid: u32) -> Command {
        Command { dword0: FLUSH, nsid, ..Command::default() }
    }

    /// Makes blocks read as zeros; 1 to 65536 of them.
    pub(super) fn write_zeroes(nsid: u32, lba: u64, blocks: u32) -> Command {
        let dwords_10_15 = [lba as u32, (lba >> 32) as u32, blocks - 1, 0, 0, 0];
        Command { dword0: WRITE_ZEROES, nsid, dwords_10_15, ..Command::default() }
    }

    /// Identify: `cns` chooses the structure, which goes to the page at `data`.
    pub(super) fn identify(cns: u32, nsid: u32, data: u64) -> Command {
        Command::admin(0x06, nsid, data, [cns, 0])
    }

    /// Get Log Page: the first `len` bytes of a log of the whole controller.
    pub(super) fn log_page(log: u32, len: u32, data: u64) -> Command {
        Command::admin(0x02, EVERY_NAMESPACE, data, [log | (len / 4 - 1) << 16, 0])
    }

    /// Set Features, Number of Queues: asks for the most pairs that it can name.
    pub(super) fn number_of_queues() -> Command {
        const MOST: u32 = 0xfffe;
        Command::admin(0x09, 0, 0, [0x07, MOST | MOST << 16])
    }

    /// Create I/O Completion Queue, contiguous; it interrupts if it has a vector.
    pub(super) fn create_completion_queue(
        id: u16,
        entries: u32,
        address: u64,
        vector: Option<u16>,
    ) -> Command {
        let interrupt = vector.map_or(0, |vector| u32::from(vector) << 16 | 1 << 1);
        Command::admin(0x05, 0, address, [u32::from(id) | (entries - 1) << 16, interrupt | 1])
    }

    /// Create I/O Submission Queue, contiguous; its completions go to the completion queue of the same
    /// number.
    pub(super) fn create_submission_queue(id: u16, entries: u32, address: u64) -> Command {
        Command::admin(0x01, 0, address, [u32::from(id) | (entries - 1) << 16, u32::from(id) << 16 | 1])
    }

    /// Delete I/O Submission Queue: what is in flight on it has ended when this completes.
    pub(super) fn delete_submission_queue(id: u16) -> Command {
        Command::admin(0x00, 0, 0, [id.into(), 0])
    }

    pub(super) fn delete_completion_queue(id: u16) -> Command {
        Command::admin(0x04, 0, 0, [id.into(), 0])
    }

    /// Abort of one command.
    pub(super) fn abort(queue: u16, command: u16) -> Command {
        Command::admin(0x08, 0, 0, [u32::from(queue) | u32::from(command) << 16, 0])
    }

    /// Set Features, Host Memory Buffer: on, with `pages` pages in `parts` parts, which `list` names.
    pub(super) fn host_memory(pages: u32, list: u64, parts: u32) -> Command {
        let dwords_10_15 = [0x0d, 1, pages, list as u32, (list >> 32) as u32, parts];
        Command { dwords_10_15, ..Command::admin(0x09, 0, 0, [0, 0]) }
    }

    /// The same, off.
    pub(super) fn no_host_memory() -> Command {
        Command::admin(0x09, 0, 0, [0x0d, 0])
    }

    /// Set Features, Autonomous Power State Transition: on or off, by the table at `data`.
    pub(super) fn apst(on: bool, data: u64) -> Command {
        Command::admin(0x09, 0, data, [0x0c, on.into()])
    }

    /// Set Features for a feature whose value is dword 11; not saved.
    pub(super) fn set_feature(id: u8, value: u32) -> Command {
        Command::admin(0x09, 0, 0, [id.into(), value])
    }

    /// Get Features: the current value.
    pub(super) fn get_feature(id: u8) -> Command {
        Command::admin(0x0a, 0, 0, [id.into(), 0])
    }

    /// Doorbell Buffer Config: the pages of shadow doorbells and of event indices.
    pub(super) fn doorbell_buffers(shadows: u64, events: u64) -> Command {
        Command { prp2: events, ..Command::admin(0x7c, 0, shadows, [0, 0]) }
    }

    #[inline]
    pub(super) fn with_id(self, id: u16) -> Command {
        Command { dword0: self.dword0 | u32::from(id) << 16, ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CompletionEntry {
    /// Dword 0, which some admin commands use.
    pub(super) result: u32,
    pub(super) id: u16,
    /// Status code in bits 0 to 7, its type in bits 8 to 10; 0 is success.
    pub(super) status: u16,
}

impl CompletionEntry {
    /// The last dword of the entry at `at`: identifier, phase (bit 16) and status.
    ///
    /// # Safety
    /// `at` points to the 16 bytes of an entry, aligned, alive, and written by the device only.
    #[inline]
    pub(super) unsafe fn last_dword(at: NonNull<u8>) -> u32 {
        // SAFETY: by this function's condition; the device writes the dword as a whole.
        unsafe { AtomicU32::from_ptr(at.as_ptr().add(12).cast()) }.load(Ordering::Acquire)
    }

    /// The entry at `at`, whose last dword was read before.
    ///
    /// # Safety
    /// As for [`CompletionEntry::last_dword`], and the phase in `last` said that the entry is complete.
    #[inline]
    pub(super) unsafe fn read(at: NonNull<u8>, last: u32) -> CompletionEntry {
        // SAFETY: by this function's condition; the device has finished with the entry.
        let result = unsafe { at.cast::<u32>().read() };
        CompletionEntry { result, id: last as u16, status: (last >> 17) as u16 & 0x7ff }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_encoded_as_the_specification_has_them() {
        let mut read = Command::transfers(3);
        let plain = Transfer { write: false, fua: false, id: 0xabcd, lba: 0, blocks: 8, prps: (0, 0) };
        for (fua, blocks) in [(false, 0xffff), (true, 0xffff | 1 << 30)] {
            let prps = (u64::MAX, u64::MAX);
            let all = Transfer { write: true, id: 0xffff, lba: u64::MAX, blocks: 1 << 16, prps, fua };
            read.become_transfer(all);
            assert_eq!(read.dword0, 0xffff_0001);
            assert_eq!(read.dwords_10_15, [u32::MAX, u32::MAX, blocks, 0, 0, 0]);
        }
        read.become_transfer(Transfer { lba: (1 << 40) + 7, prps: (0x1000, 0x2000), ..plain });
        assert_eq!(read.dword0, 0xabcd_0002);
        assert_eq!((read.nsid, read.prp1, read.prp2), (3, 0x1000, 0x2000));
        assert_eq!(read.dwords_10_15, [7, 1 << 8, 7, 0, 0, 0]);
        let queue = Command::create_completion_queue(2, 64, 0x5000, Some(1));
        assert_eq!(
            (queue.dword0, queue.prp1, &queue.dwords_10_15[..2]),
            (5, 0x5000, &[2 | 63 << 16, 1 << 16 | 3][..])
        );
        assert_eq!(Command::create_completion_queue(2, 64, 0x5000, None).dwords_10_15[1], 1);
        assert_eq!(Command::create_submission_queue(2, 64, 0).dwords_10_15[..2], [2 | 63 << 16, 2 << 16 | 1]);
        assert_eq!(Command::log_page(2, 512, 0).dwords_10_15[0], 2 | 127 << 16);
        assert_eq!(Command::abort(3, 9).dwords_10_15[0], 3 | 9 << 16);
        let zeroes = Command::write_zeroes(4, (1 << 40) + 7, 1 << 16);
        assert_eq!((zeroes.dword0, zeroes.nsid), (8, 4));
        assert_eq!(zeroes.dwords_10_15, [7, 1 << 8, 0xffff, 0, 0, 0]);
        assert_eq!(Command::flush(4), Command { nsid: 4, ..Command::default() });
    }

    #[test]
    fn an_entry_gives_identifier_and_status_without_its_phase() {
        let mut words = [7u32, 0, 0, 0x1234 | 1 << 16 | 0x281 << 17 | 1 << 31];
        let at = NonNull::from(&mut words).cast();
        // SAFETY: four aligned dwords that nobody writes.
        let entry = unsafe { CompletionEntry::read(at, CompletionEntry::last_dword(at)) };
        assert_eq!(entry, CompletionEntry { result: 7, id: 0x1234, status: 0x281 });
    }
}
