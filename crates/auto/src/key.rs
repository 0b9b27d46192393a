//! What a way is chosen by: operation, size and how many requests are in flight.

use iopj_engine::Op;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Classes of size: up to 512 bytes, 1, 2, ... 128 KiB, and above.
const SIZES: usize = 10;
/// Kinds: the classes of reads, then those of writes.
pub(crate) const KINDS: usize = 2 * SIZES;
/// Bands of requests in flight: 1, 2 to 3, 4 to 7, ... 128 and above.
pub(crate) const BANDS: usize = 8;

/// The direction of a transfer. Everything else, such as a flush, goes by the fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Reads of one buffer.
    Read,
    /// Writes of one buffer, durable ones too.
    Write,
}

/// An operation and a class of size: what has one route at a time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind(u8);

impl Kind {
    /// Of a transfer of `len` bytes.
    #[inline]
    pub fn of(op: Op, len: u32) -> Kind {
        // 0 for the first 512 bytes, 1 for the next 512, 2 for the 1024 after them, and so on.
        let size = (len.saturating_sub(1) >> 8 | 1).ilog2().min(SIZES as u32 - 1);
        Kind(size as u8 + if op == Op::Read { 0 } else { SIZES as u8 })
    }

    /// Of transfers in this direction of up to `len` bytes.
    pub fn new(direction: Direction, len: u32) -> Kind {
        Kind::of(if direction == Direction::Read { Op::Read } else { Op::Write }, len)
    }

    /// Every kind.
    pub fn all() -> impl Iterator<Item = Kind> {
        (0..KINDS as u8).map(Kind)
    }

    /// Reads or writes.
    pub fn direction(self) -> Direction {
        if usize::from(self.0) < SIZES { Direction::Read } else { Direction::Write }
    }

    /// The most bytes of its class; of the last class, which has no end, twice those of the one before.
    pub fn most_bytes(self) -> u32 {
        512 << (usize::from(self.0) % SIZES)
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.direction() == Direction::Read { "read" } else { "write" };
        let bytes = self.most_bytes();
        match usize::from(self.0) % SIZES {
            last if last == SIZES - 1 => write!(f, "{direction} above 128k"),
            0 => write!(f, "{direction} 512"),
            _ => write!(f, "{direction} {}k", bytes / 1024),
        }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Some kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds(u32);

impl Kinds {
    pub(crate) const ALL: Kinds = Kinds(u32::MAX);

    pub(crate) fn has(self, kind: Kind) -> bool {
        self.0 >> kind.0 & 1 == 1
    }
}

impl FromIterator<Kind> for Kinds {
    fn from_iter<I: IntoIterator<Item = Kind>>(kinds: I) -> Kinds {
        Kinds(kinds.into_iter().fold(0, |all, kind| all | 1 << kind.0))
    }
}

/// How many requests are in flight, as a power of two: 1, 2 to 3, 4 to 7 and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Band(u8);

impl Band {
    /// One request in flight.
    pub const ONE: Band = Band(0);

    /// The band of so many; of none, that of one.
    pub fn of(in_flight: u32) -> Band {
        Band(in_flight.max(1).ilog2().min(BANDS as u32 - 1) as u8)
    }

    /// The fewest in flight that it holds.
    pub fn least(self) -> u32 {
        1 << self.0
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_of_the_class_that_it_fills() {
        for (len, most) in [(0, 512), (1, 512), (512, 512), (513, 1024), (4096, 4096), (4097, 8192)] {
            assert_eq!(Kind::of(Op::Read, len).most_bytes(), most, "{len}");
        }
        assert_eq!(Kind::of(Op::Write, 128 << 10).to_string(), "write 128k");
        assert_eq!(Kind::of(Op::WriteDsync, u32::MAX).to_string(), "write above 128k");
        assert_eq!(Kind::of(Op::Read, 512).to_string(), "read 512");
        for (number, kind) in Kind::all().enumerate() {
            assert_eq!((kind, kind.index()), (Kind::new(kind.direction(), kind.most_bytes()), number));
        }
    }

    #[test]
    fn requests_in_flight_are_counted_by_powers_of_two() {
        for (in_flight, least) in [(0, 1), (1, 1), (3, 2), (4, 4), (127, 64), (128, 128), (5000, 128)] {
            assert_eq!(Band::of(in_flight).least(), least, "{in_flight}");
        }
    }
}
