//! The ring in which the kernel leaves the samples of one core (perf_event_open(2), "MMAP layout").

use crate::perf::Counter;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes for records: with the page in front as much as `kernel.perf_event_mlock_kb` allows everybody by
/// default; room for some seconds of samples.
pub(super) const RING_BYTES: usize = 512 << 10;
/// Offsets of `data_head` and `data_tail` in `struct perf_event_mmap_page`.
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;

/// A record of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Sample {
        /// Who executed: the kernel, a program, or neither (a guest).
        mode: Mode,
        /// The counter's identity.
        id: u64,
        address: u64,
        /// Zero for the idle task, and for tasks that this PID namespace does not see.
        pid: u32,
    },
    /// Samples for which the ring had no room.
    Lost(u64),
    /// The ring had no room left when it was read: samples may be lost of which no record says so yet.
    Full,
    /// The kernel stopped a counter until its next tick because it sampled too often.
    Throttled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Kernel,
    User,
    Other,
}

/// The mapped ring; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    page: usize,
    /// What was read last, in one piece.
    bytes: Vec<u8>,
}

impl Ring {
    /// Maps the ring of a counter.
    pub(crate) fn map(counter: &Counter) -> io::Result<Ring> {
        let page = rustix::param::page_size();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (flags, fd) = (libc::MAP_SHARED, counter.as_raw_fd());
        // SAFETY: a new mapping where the kernel likes, of a descriptor that is open.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), page + RING_BYTES, protection, flags, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring { base, page, bytes: Vec::new() })
    }

    /// Hands out all records that are there, in their order, and makes room.
    pub(super) fn drain(&mut self, mut visit: impl FnMut(Record)) {
        let is_full = self.take();
        each(&self.bytes, &mut visit);
        if is_full {
            visit(Record::Full);
        }
    }

    /// The bytes of all records that are there, in their order; makes room. True if there was none left.
    pub(crate) fn take_bytes(&mut self) -> (&[u8], bool) {
        let is_full = self.take();
        (&self.bytes, is_full)
    }

    fn take(&mut self) -> bool {
        // The kernel's writes to the records come before its write to `data_head`.
        let head = self.position(HEAD_AT).load(Ordering::Acquire);
        let tail = self.position(TAIL_AT).load(Ordering::Relaxed);
        let used = usize::try_from(head.wrapping_sub(tail)).unwrap_or(RING_BYTES).min(RING_BYTES);
        let from = tail as usize % RING_BYTES;
        let first = used.min(RING_BYTES - from);
        self.bytes.clear();
        for (at, len) in [(from, first), (0, used - first)] {
            // SAFETY: `at + len` is at most RING_BYTES, so within the mapping behind its first page; the
            // kernel writes nothing between `data_tail` and this `data_head` until the store below.
            let records = unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(self.page + at), len) };
            self.bytes.extend_from_slice(records);
        }
        // The records are read before the kernel may overwrite them.
        self.position(TAIL_AT).store(head, Ordering::Release);
        is_full(used)
    }

    /// `data_head` or `data_tail`.
    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: within the first page of a mapping that lives as long as `self`, aligned to eight bytes,
        // and only ever read and written whole by both sides.
        unsafe { &*self.base.as_ptr().add(at).cast::<AtomicU64>() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this length, and no reference into it is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.page + RING_BYTES) };
    }
}

/// Bytes of the records that are read here.
const SAMPLE_BYTES: usize = 32;
const LOST_BYTES: usize = 24;

/// True if the next sample and the record of lost ones would not fit.
fn is_full(used: usize) -> bool {
    used + SAMPLE_BYTES + LOST_BYTES > RING_BYTES
}

/// Passes on the records in `bytes` one after the other; skips what is cut off or of another type.
fn each(mut bytes: &[u8], visit: &mut impl FnMut(Record)) {
    while let Some((kind, misc, len)) = header(bytes) {
        let Some((body, rest)) = bytes[8..].split_at_checked(len - 8) else { return };
        if let Some(record) = record(kind, misc, body) {
            visit(record);
        }
        bytes = rest;
    }
}

/// `struct perf_event_header`: type, mode, and length with the header.
pub(crate) fn header(bytes: &[u8]) -> Option<(u32, u16, usize)> {
    let kind = u32::from_ne_bytes(*bytes.first_chunk()?);
    let misc = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let len = usize::from(u16::from_ne_bytes(*bytes.get(6..)?.first_chunk()?));
    (len >= 8).then_some((kind, misc, len))
}

/// The record of a header and its body.
fn record(kind: u32, misc: u16, body: &[u8]) -> Option<Record> {
    const LOST: u32 = 2;
    const THROTTLE: u32 = 5;
    const SAMPLE: u32 = 9;
    const LOST_SAMPLES: u32 = 13;
    let word = |at: usize| body.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes));
    match kind {
        SAMPLE => {
            let pid = u32::from_ne_bytes(*body.get(16..)?.first_chunk()?);
            Some(Record::Sample { mode: mode(misc), id: word(0)?, address: word(8)?, pid })
        }
        LOST => word(8).map(Record::Lost),
        LOST_SAMPLES => word(0).map(Record::Lost),
        THROTTLE => Some(Record::Throttled),
        _ => None,
    }
}

/// `PERF_RECORD_MISC_CPUMODE_MASK`.
fn mode(misc: u16) -> Mode {
    match misc & 7 {
        1 => Mode::Kernel,
        2 => Mode::User,
        _ => Mode::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn raw(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(misc.to_ne_bytes());
        bytes.extend((8 + 8 * words.len() as u16).to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    fn records(bytes: &[u8]) -> Vec<Record> {
        let mut records = Vec::new();
        each(bytes, &mut |record| records.push(record));
        records
    }

    #[test]
    fn records_are_those_of_the_manual() {
        let mut ids = 700u32.to_ne_bytes().to_vec();
        ids.extend(701u32.to_ne_bytes());
        let ids = u64::from_ne_bytes(ids.try_into().unwrap());
        let kernel = raw(9, 1, &[5, 0xffffffff81000000, ids]);
        assert_eq!(kernel.len(), SAMPLE_BYTES);
        let lost = raw(2, 0, &[5, 12]);
        assert_eq!(lost.len(), LOST_BYTES);
        let all =
            [kernel, raw(9, 0x4002, &[6, 0x1000, 0]), raw(1, 0, &[1, 2, 3]), lost, raw(5, 0, &[1, 2, 3])];
        let expected = [
            Record::Sample { mode: Mode::Kernel, id: 5, address: 0xffffffff81000000, pid: 700 },
            Record::Sample { mode: Mode::User, id: 6, address: 0x1000, pid: 0 },
            Record::Lost(12),
            Record::Throttled,
        ];
        assert_eq!(records(&all.concat()), expected);
        assert_eq!(records(&raw(13, 0, &[4])), [Record::Lost(4)]);
        let guest = raw(9, 5, &[6, 0x1000, 0]);
        assert!(matches!(records(&guest)[..], [Record::Sample { mode: Mode::Other, .. }]));
    }

    #[test]
    fn what_is_cut_off_is_passed_over() {
        let sample = raw(9, 1, &[5, 0x10, 0]);
        for len in 0..sample.len() {
            assert_eq!(records(&sample[..len]), []);
        }
        assert_eq!(records(&raw(9, 1, &[5])), []);
        assert_eq!(records(&[0; 64]), [], "a length of zero ends the walk");
    }

    #[test]
    fn a_ring_without_room_is_full() {
        assert!(!is_full(RING_BYTES - SAMPLE_BYTES - LOST_BYTES));
        assert!(is_full(RING_BYTES - SAMPLE_BYTES));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            records(&bytes);
        }

        #[test]
        fn as_many_samples_come_out_as_went_in(words in proptest::collection::vec(any::<[u64; 3]>(), 0..20)) {
            let bytes: Vec<u8> = words.iter().flat_map(|words| raw(9, 1, words)).collect();
            prop_assert_eq!(records(&bytes).len(), words.len());
        }
    }
}
