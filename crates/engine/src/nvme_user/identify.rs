//! What a controller and its namespaces say about themselves.
//!
//! Sources: NVM Express Base Specification 2.0, figure 275 (Identify Controller) and figure 207 (SMART /
//! Health Information); NVM Command Set Specification 1.0, figure 97 (Identify Namespace).

use super::admin::PageData;
use super::device::PAGE;

/// A namespace of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceInfo {
    /// Namespace identifier.
    pub nsid: u32,
    /// Size in logical blocks.
    pub blocks: u64,
    /// Logarithm to base 2 of the logical block in bytes.
    pub lba_shift: u8,
    /// Why no engine can use it; absent where one can.
    pub unusable: Option<NamespaceFault>,
}

/// Why no engine can use a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceFault {
    /// It has no blocks.
    #[error("it has no capacity")]
    NoCapacity,
    /// Bytes of metadata beside each block.
    #[error("its blocks carry {0} bytes of metadata each: format it without")]
    Metadata(u16),
    /// A type of protection information.
    #[error("its blocks carry protection information of type {0}: format it without")]
    Protection(u8),
    /// Logarithm to base 2 of the logical block in bytes.
    #[error("its logical block of 2^{0} bytes is not between 512 bytes and 64 KiB")]
    LogicalBlock(u8),
}

/// Commands that a controller counts since it was made (SMART / Health Information log).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoCounts {
    /// Read commands that hosts sent.
    pub host_reads: u64,
    /// Write commands that hosts sent.
    pub host_writes: u64,
}

/// Blocks of the largest command: their number is written in 16 bits, less one.
const MOST_BLOCKS: u32 = 1 << 16;

/// The parts of Identify Controller that a driver needs.
pub(super) struct ControllerData<'a>(pub(super) &'a PageData);

impl ControllerData<'_> {
    pub(super) fn serial(&self) -> String {
        text(&self.0[4..24])
    }

    pub(super) fn model(&self) -> String {
        text(&self.0[24..64])
    }

    pub(super) fn firmware(&self) -> String {
        text(&self.0[64..72])
    }

    /// The largest transfer in bytes: `MDTS`, in units of the smallest page; without it, what the largest
    /// number of blocks allows.
    pub(super) fn max_transfer_bytes(&self, smallest_page: u64) -> u32 {
        let most = u64::from(MOST_BLOCKS) * 512;
        let limit = match self.0[77] {
            0 => most,
            shift => smallest_page.checked_shl(shift.into()).unwrap_or(most),
        };
        limit.min(most) as u32
    }

    /// `CNTRLTYPE`: false for a discovery or administrative controller. Controllers before NVMe 1.4 do not
    /// say.
    pub(super) fn does_io(&self) -> bool {
        matches!(self.0[111], 0 | 1)
    }

    /// `OACS` bit 8: Doorbell Buffer Config.
    pub(super) fn has_doorbell_buffers(&self) -> bool {
        self.0[257] & 1 != 0
    }

    /// `SQES` and `CQES`: the smallest entries are those of this driver.
    pub(super) fn has_usual_entries(&self) -> bool {
        self.0[512] & 0xf == 6 && self.0[513] & 0xf == 4
    }
}

/// A power state, as far as transitions need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PowerState {
    /// No I/O is done in it.
    pub(super) non_operational: bool,
    /// Time to enter and to leave it, in us.
    pub(super) entry_us: u32,
    pub(super) exit_us: u32,
}

impl ControllerData<'_> {
    fn dword(&self, at: usize) -> u32 {
        little_endian(&self.0[at..at + 4]) as u32
    }

    /// `HMPRE` in bytes: the host memory that it would like, 0 for none.
    pub(super) fn host_memory_preferred(&self) -> u64 {
        u64::from(self.dword(272)) * PAGE as u64
    }

    /// `HMMIN` in bytes: with less it can do nothing.
    pub(super) fn host_memory_least(&self) -> u64 {
        u64::from(self.dword(276)) * PAGE as u64
    }

    /// `HMMINDS` in pages: the least length of a part.
    pub(super) fn host_memory_least_part(&self) -> usize {
        self.dword(332) as usize
    }

    /// `HMMAXD`: the most parts, 0 for no limit.
    pub(super) fn host_memory_parts(&self) -> usize {
        usize::from(u16::from_le_bytes([self.0[336], self.0[337]]))
    }

    /// `APSTA` bit 0: it can enter power states by itself.
    pub(super) fn has_apst(&self) -> bool {
        self.0[265] & 1 != 0 && self.0[263] < 32
    }

    /// Its power states by number: `NPSS` plus one of them.
    pub(super) fn power_states(&self) -> Vec<PowerState> {
        let states = self.0[2048..].chunks_exact(32).take(usize::from(self.0[263]) + 1);
        let read = |state: &[u8]| PowerState {
            non_operational: state[3] & 1 << 1 != 0,
            entry_us: little_endian(&state[4..8]) as u32,
            exit_us: little_endian(&state[8..12]) as u32,
        };
        states.map(read).collect()
    }
}

/// Printable ASCII, without the blanks that pad it.
fn text(bytes: &[u8]) -> String {
    let printable = bytes.iter().filter(|byte| (0x20..0x7f).contains(*byte)).map(|byte| char::from(*byte));
    printable.collect::<String>().trim().to_owned()
}

/// The active namespaces of a list (CNS 02h), which ends with a zero or its page.
pub(super) fn active(list: &PageData) -> impl Iterator<Item = u32> {
    let numbers =
        list.chunks_exact(4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    numbers.take_while(|nsid| *nsid != 0)
}

/// Offset of the format in use: FLBAS (byte 26) has the format's index in bits 0 to 3 and, as its upper bits,
/// 5 and 6. The formats begin at byte 128 and have 4 bytes each.
fn format_at(data: &PageData) -> usize {
    128 + 4 * usize::from(data[26] & 0xf | (data[26] >> 1 & 0x30))
}

/// Metadata (MS) of each block in bytes, from a namespace's Identify data.
pub(crate) fn metadata_bytes(data: &PageData) -> u16 {
    let format = format_at(data);
    u16::from_le_bytes([data[format], data[format + 1]])
}

/// A namespace by its Identify data (CNS 00h).
pub(super) fn namespace(nsid: u32, data: &PageData) -> NamespaceInfo {
    let lba_shift = data[format_at(data) + 2];
    let metadata = metadata_bytes(data);
    let protection = data[29] & 0x7;
    let blocks = little_endian(&data[0..8]);
    let unusable = if blocks == 0 {
        Some(NamespaceFault::NoCapacity)
    } else if metadata != 0 {
        Some(NamespaceFault::Metadata(metadata))
    } else if protection != 0 {
        Some(NamespaceFault::Protection(protection))
    } else if !(9..=16).contains(&lba_shift) {
        Some(NamespaceFault::LogicalBlock(lba_shift))
    } else {
        None
    };
    NamespaceInfo { nsid, blocks, lba_shift, unusable }
}

/// The counts of a SMART / Health Information log; each has 16 bytes.
pub(crate) fn io_counts(log: &PageData) -> IoCounts {
    let count = |at: usize| {
        if log[at + 8..at + 16].iter().any(|byte| *byte != 0) {
            u64::MAX
        } else {
            little_endian(&log[at..at + 8])
        }
    };
    IoCounts { host_reads: count(64), host_writes: count(80) }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_described_in_words_and_limits() {
        let mut data = [0; PAGE];
        data[4..24].copy_from_slice(b"S/N 1               ");
        data[24..64].copy_from_slice(b"A \x1b[drive                               ");
        data[64..72].copy_from_slice(b"1.0     ");
        let controller = ControllerData(&data);
        assert_eq!(
            (controller.serial(), controller.model(), controller.firmware()),
            ("S/N 1".into(), "A [drive".into(), "1.0".into())
        );
        assert_eq!(controller.max_transfer_bytes(4096), 32 << 20);
        for (mdts, bytes) in [(7, 512 << 10), (5, 128 << 10), (13, 32 << 20), (255, 32 << 20)] {
            data[77] = mdts;
            assert_eq!(ControllerData(&data).max_transfer_bytes(4096), bytes, "{mdts}");
        }
        data[111] = 2;
        assert!(!ControllerData(&data).does_io(), "a discovery controller");
    }

    #[test]
    fn a_namespace_says_why_it_cannot_be_used() {
        let mut data = [0; PAGE];
        data[0..8].copy_from_slice(&1000u64.to_le_bytes());
        data[130] = 12;
        assert_eq!(
            namespace(2, &data),
            NamespaceInfo { nsid: 2, blocks: 1000, lba_shift: 12, unusable: None }
        );
        let reason = |data: &PageData| namespace(1, data).unusable.unwrap().to_string();
        data[29] = 1;
        assert!(reason(&data).contains("protection information of type 1"));
        data[128] = 8;
        assert!(reason(&data).contains("8 bytes of metadata"));
        (data[26], data[29]) = (1, 0);
        assert!(reason(&data).contains("2^0 bytes"), "{}", reason(&data));
        data[0..8].fill(0);
        assert!(reason(&data).contains("no capacity"));
    }

    #[test]
    fn lists_end_at_zero_and_counts_saturate() {
        let mut data = [0; PAGE];
        data[0] = 1;
        data[4] = 7;
        data[12] = 9;
        assert_eq!(active(&data).collect::<Vec<_>>(), [1, 7]);
        let mut log = [0; PAGE];
        log[64] = 5;
        log[80..96].fill(1);
        assert_eq!(io_counts(&log), IoCounts { host_reads: 5, host_writes: u64::MAX });
    }

    #[test]
    fn the_format_in_use_has_six_bits_of_index() {
        let mut data = [0u8; PAGE];
        for format in 0..64u16 {
            data[128 + 4 * usize::from(format)] = format as u8 + 100;
        }
        // Bit 4 says where the metadata are, not which format it is.
        for (flbas, format) in [(0, 0), (0x1f, 15), (0x20, 16), (0x6f, 63)] {
            assert_eq!(metadata_bytes(&data), 100);
            data[26] = flbas;
            assert_eq!(metadata_bytes(&data), format + 100);
            data[26] = 0;
        }
    }
}
