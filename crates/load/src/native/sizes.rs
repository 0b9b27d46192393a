//! Sizes of a job's I/Os, the flushes between its writes, and whether these are durable.

use crate::trace::{Op, Piece};
use iopj_core::{BlockSizes, Workload, WriteSync};
use iopj_engine::{Operation, Transfer};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A write, durable or not.
#[inline]
pub(super) fn write(sync: WriteSync, transfer: Transfer) -> Operation {
    match sync {
        WriteSync::None => Operation::Write(transfer),
        WriteSync::Dsync => Operation::WriteDsync(transfer),
        WriteSync::Sync => Operation::WriteSync(transfer),
    }
}

/// What a job does besides reads and writes of one size.
pub(super) struct Sizes {
    /// Of reads and of writes: sizes in bytes, each with the sum of its share and of those before it, in
    /// 2^32.
    sizes: Option<[Vec<(u32, u64)>; 2]>,
    /// The largest, in which offsets are drawn.
    largest: u32,
    random: SplitMix64,
    /// After how many writes a flush (fdatasync) and an fsync follow, and how many came since the last; 0 is
    /// never.
    every: [u32; 2],
    writes: [u32; 2],
}

impl Sizes {
    pub(super) fn new(workload: &Workload, job: u32, seed: u64) -> Sizes {
        // The offsets are drawn from the same seed.
        let random = SplitMix64::seed_from_u64(seed.wrapping_add(u64::from(job)) ^ 0x7369_7a65_735f_6f66);
        let sizes = workload.sizes.as_ref().map(|BlockSizes { reads, writes }| {
            [reads, writes].map(|shares| {
                let mut sum = 0;
                let upto = |one: &iopj_core::sizes::SizeShare| {
                    sum += u64::from(one.percent);
                    (one.bytes, (sum << 32) / 100)
                };
                shares.iter().map(upto).collect()
            })
        });
        Sizes {
            sizes,
            largest: workload.bs,
            random,
            every: [workload.fdatasync, workload.fsync],
            writes: [0; 2],
        }
    }

    /// True if a workload needs it.
    pub(super) fn are_needed(workload: &Workload) -> bool {
        workload.sizes.is_some() || workload.fsync > 0 || workload.fdatasync > 0
    }

    /// The I/O at a drawn place: of a size by its share, somewhere in the place of the largest.
    #[inline]
    pub(super) fn piece(&mut self, write: bool, offset: u64) -> Piece {
        let op = if write { Op::Write } else { Op::Read };
        let whole = Piece { due_ns: 0, op, offset, len: self.largest };
        let Some(sizes) = &self.sizes else { return whole };
        let drawn = self.random.next_u64();
        let share = drawn >> 32;
        let found = sizes[usize::from(write)].iter().find(|(_, upto)| share < *upto);
        let len = found.map_or(self.largest, |(bytes, _)| *bytes);
        let places = u64::from(self.largest / len.max(1)).max(1);
        let place = ((drawn & 0xffff_ffff) * places) >> 32;
        Piece { offset: offset + place * u64::from(len), len, ..whole }
    }

    /// Counts a write that was issued.
    #[inline]
    pub(super) fn wrote(&mut self) {
        for writes in &mut self.writes {
            *writes += 1;
        }
    }

    /// The flush that is due after the writes so far.
    #[inline]
    pub(super) fn flush(&mut self) -> Option<Piece> {
        let due = |at: usize| self.every[at] > 0 && self.writes[at] >= self.every[at];
        let (at, op) = match [due(0), due(1)] {
            [true, _] => (0, Op::Flush),
            [_, true] => (1, Op::Fsync),
            _ => return None,
        };
        self.writes[at] = 0;
        Some(Piece { due_ns: 0, op, offset: 0, len: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_their_shares_and_stay_in_their_place() {
        let sizes: BlockSizes = "4k/60:16k/40,8k".parse().unwrap();
        let workload = Workload { bs: sizes.largest(), sizes: Some(sizes), ..Workload::default() };
        let mut sizes = Sizes::new(&workload, 0, 5);
        let (mut small, mut places) = (0u32, [0u32; 4]);
        for _ in 0..10_000 {
            let Piece { offset, len, op, .. } = sizes.piece(false, 1 << 20);
            let within = offset - (1 << 20);
            assert!(op == Op::Read && within + u64::from(len) <= 16_384 && within % u64::from(len) == 0);
            if len == 4096 {
                small += 1;
                places[(within / 4096) as usize] += 1;
            }
        }
        // Five standard deviations of a binomial count.
        assert!(small.abs_diff(6000) < 245, "{small}");
        assert!(places.iter().all(|hits| hits.abs_diff(small / 4) < 200), "{places:?}");
        let write = sizes.piece(true, 0);
        assert_eq!((write.op, write.len), (Op::Write, 8192));
    }

    #[test]
    fn flushes_come_after_their_number_of_writes() {
        let workload = Workload { fdatasync: 2, fsync: 3, ..Workload::default() };
        let mut sizes = Sizes::new(&workload, 0, 5);
        let mut seen = Vec::new();
        for write in 1..=6 {
            sizes.wrote();
            while let Some(piece) = sizes.flush() {
                seen.push((write, piece.op));
            }
        }
        let expected = [(2, Op::Flush), (3, Op::Fsync), (4, Op::Flush), (6, Op::Flush), (6, Op::Fsync)];
        assert_eq!(seen, expected);
        assert!(!Sizes::are_needed(&Workload::default()) && Sizes::are_needed(&workload));
    }
}
