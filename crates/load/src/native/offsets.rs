//! What a job does next: read or write, and where.

use iopj_core::{RandomDistribution, Workload};
use rand_distr::{Distribution, Zipf};
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

/// Exponents this close to 1, but not 1, are refused: the formula divides by their difference, and what is
/// left of its digits would draw other blocks than those asked for.
const NEAR_ONE: f64 = 1e-9;

/// Why the offsets of a workload cannot be drawn.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum OffsetsError {
    /// No such distribution.
    #[error("zipf:{0} does not exist: write a number above 0, such as zipf:1.2")]
    Zipf(f64),
    /// An exponent that cannot be computed with.
    #[error("zipf:{0} is too close to 1 to be computed: write zipf:1, or a number further from it")]
    NearOne(f64),
}

/// Checks that the offsets of a workload can be drawn, on any target that holds a block.
///
/// # Errors
/// [`OffsetsError`].
pub fn check_offsets(workload: &Workload) -> Result<(), OffsetsError> {
    match workload.random_distribution {
        RandomDistribution::Zipf(theta) if workload.rw.is_random() => zipf(1, theta).map(drop),
        _ => Ok(()),
    }
}

fn zipf(blocks: u64, theta: f64) -> Result<Zipf<f64>, OffsetsError> {
    if theta != 1.0 && (theta - 1.0).abs() < NEAR_ONE {
        return Err(OffsetsError::NearOne(theta));
    }
    let is_positive = theta.is_finite() && theta > 0.0;
    let made = is_positive.then(|| Zipf::new(blocks as f64, theta).ok()).flatten();
    made.ok_or(OffsetsError::Zipf(theta))
}

/// The blocks of a target that a job works on, in units of `bs`.
enum Pattern {
    /// From `next` up to `end`, then from `start` again; reads and writes each have a position of their own,
    /// as in fio.
    Sequential { start: u64, end: u64, next: [u64; 2] },
    /// Every block alike.
    Uniform { blocks: u64 },
    /// Ranks by Zipf, scattered by a step that is coprime to the number of blocks.
    Zipf { blocks: u64, step: u64, ranks: Zipf<f64> },
}

/// Which operations a job does.
enum Mix {
    Only {
        write: bool,
    },
    /// Reads among 2^32 operations.
    Reads(u64),
}

/// Operations that are drawn at once: one by one, each costs some 15 instructions more.
const DRAWN: usize = 64;

/// The endless sequence of a job's operations. The same seed gives the same sequence.
pub(crate) struct Offsets {
    /// Drawn, and not yet given from `next` on: offsets and, as these are even, whether each is a write.
    drawn: [u64; DRAWN],
    next: usize,
    random: SplitMix64,
    pattern: Pattern,
    bs: u64,
    base: u64,
    mix: Mix,
}

impl Offsets {
    /// For job number `job` on `len` bytes at `base`. Sequential jobs have a region each, as fio's
    /// `offset_increment` gives them; random ones share the whole target. `len` holds at least one
    /// block for each job.
    ///
    /// # Errors
    /// [`OffsetsError`].
    pub(crate) fn new(
        workload: &Workload,
        base: u64,
        len: u64,
        job: u32,
        seed: u64,
    ) -> Result<Offsets, OffsetsError> {
        let bs = u64::from(workload.bs);
        let blocks = len / bs;
        let pattern = if workload.rw.is_random() {
            match workload.random_distribution {
                RandomDistribution::Uniform => Pattern::Uniform { blocks },
                RandomDistribution::Zipf(theta) => {
                    Pattern::Zipf { blocks, step: coprime_step(blocks), ranks: zipf(blocks, theta)? }
                }
            }
        } else {
            let share = blocks / u64::from(workload.numjobs);
            let start = share * u64::from(job);
            Pattern::Sequential { start, end: start + share, next: [start; 2] }
        };
        let mix = match (workload.rw.reads(), workload.rw.writes()) {
            (true, true) => Mix::Reads((u64::from(workload.rwmixread) << 32) / 100),
            (reads, _) => Mix::Only { write: !reads },
        };
        // SplitMix64 is the cheapest that is good enough; hashed seeds keep the jobs' sequences apart.
        let mut seeds = Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_add(u64::from(job)));
        let random = SplitMix64::seed_from_u64(seeds.next_u64());
        Ok(Offsets { drawn: [0; DRAWN], next: DRAWN, random, pattern, bs, base, mix })
    }

    /// A sequence of the same kind at other offsets: other random ones, or from the middle of a sequential
    /// job's region on.
    ///
    /// # Errors
    /// As [`Offsets::new`].
    pub(crate) fn apart(
        workload: &Workload,
        base: u64,
        len: u64,
        job: u32,
        seed: u64,
    ) -> Result<Offsets, OffsetsError> {
        let mut apart = Offsets::new(workload, base, len, job, !seed)?;
        if let Pattern::Sequential { start, end, next } = &mut apart.pattern {
            *next = [*start + (*end - *start) / 2; 2];
        }
        Ok(apart)
    }

    /// The next operation: whether it is a write, and its offset in bytes.
    #[inline]
    pub(crate) fn next(&mut self) -> (bool, u64) {
        if self.next >= DRAWN {
            self.draw_more();
        }
        let drawn = self.drawn[self.next];
        self.next += 1;
        (drawn & 1 != 0, drawn & !1)
    }

    /// Out of line and, for the common case, without a decision in the loop.
    #[inline(never)]
    fn draw_more(&mut self) {
        let Offsets { drawn, random, pattern, bs, base, mix, .. } = self;
        if let (Pattern::Uniform { blocks }, Mix::Only { write }) = (&*pattern, &*mix) {
            // Copies stay in registers. The generator's state does not: vectors of two would cost more.
            let (blocks, bs, base, write) = (*blocks, *bs, *base, u64::from(*write));
            for place in drawn.iter_mut() {
                *place = (base + uniform_block(random, blocks) * bs) | write;
            }
        } else {
            for place in drawn.iter_mut() {
                let write = mix.draw(random);
                *place = (*base + pattern.draw(random, write) * *bs) | u64::from(write);
            }
        }
        debug_assert!(bs.is_multiple_of(2) && base.is_multiple_of(2), "offsets are whole blocks");
        self.next = 0;
    }
}

impl Mix {
    /// Whether the next operation is a write.
    fn draw(&self, random: &mut SplitMix64) -> bool {
        match self {
            Mix::Only { write } => *write,
            Mix::Reads(share) => random.next_u64() >> 32 >= *share,
        }
    }
}

impl Pattern {
    /// The next block of a read or a write.
    fn draw(&mut self, random: &mut SplitMix64, write: bool) -> u64 {
        match self {
            Pattern::Sequential { start, end, next } => {
                let next = &mut next[usize::from(write)];
                let block = *next;
                *next = if block + 1 == *end { *start } else { block + 1 };
                block
            }
            Pattern::Uniform { blocks } => uniform_block(random, *blocks),
            Pattern::Zipf { blocks, step, ranks } => zipf_block(random, *blocks, *step, ranks),
        }
    }
}

#[inline]
fn uniform_block(random: &mut SplitMix64, blocks: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(blocks)) >> 64) as u64
}

fn zipf_block(random: &mut SplitMix64, blocks: u64, step: u64, ranks: &Zipf<f64>) -> u64 {
    let rank = (ranks.sample(random) as u64).clamp(1, blocks) - 1;
    (u128::from(rank) * u128::from(step) % u128::from(blocks)) as u64
}

/// A step near the golden section of `blocks` that visits every block.
fn coprime_step(blocks: u64) -> u64 {
    let gcd = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let first = (blocks as f64 * 0.618_033_988_749_895) as u64;
    (first.max(1)..).find(|step| gcd(*step, blocks) == 1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::Rw;
    use proptest::prelude::*;

    fn workload(rw: Rw) -> Workload {
        Workload { rw, ..Workload::default() }
    }

    proptest! {
        #[test]
        fn offsets_stay_within_the_target(
            blocks in 8u64..5000, jobs in 1u32..8, job in 0u32..8, base in 0u64..10, seed: u64,
            which in 0usize..4,
        ) {
            let rw = [Rw::Read, Rw::Randread, Rw::Randrw, Rw::Rw][which];
            let mut workload = workload(rw);
            workload.numjobs = jobs;
            if seed % 2 == 0 {
                workload.random_distribution = RandomDistribution::Zipf(1.2);
            }
            let (base, len) = (base << 20, blocks * 4096 + 100);
            let mut offsets = Offsets::new(&workload, base, len, job % jobs, seed).unwrap();
            for _ in 0..200 {
                let (_, offset) = offsets.next();
                prop_assert!(offset >= base && offset + 4096 <= base + len && (offset - base) % 4096 == 0);
            }
        }

        #[test]
        fn a_step_visits_every_block(blocks in 1u64..3000) {
            let step = coprime_step(blocks);
            let mut seen = vec![false; blocks as usize];
            (0..blocks).for_each(|rank| seen[(rank * step % blocks) as usize] = true);
            prop_assert!(seen.iter().all(|seen| *seen));
        }
    }

    #[test]
    fn sequential_jobs_share_the_target_without_overlap() {
        let mut workload = workload(Rw::Read);
        workload.numjobs = 2;
        let mut first = Offsets::new(&workload, 0, 4 * 4096, 0, 1).unwrap();
        let mut second = Offsets::new(&workload, 0, 4 * 4096, 1, 1).unwrap();
        let offsets: Vec<u64> =
            (0..3).map(|_| first.next().1).chain((0..3).map(|_| second.next().1)).collect();
        assert_eq!(offsets, [0, 4096, 0, 8192, 12288, 8192]);
    }

    #[test]
    fn a_pass_draws_other_places() {
        let mut sequential = workload(Rw::Read);
        sequential.numjobs = 2;
        let mut apart = Offsets::apart(&sequential, 0, 8 * 4096, 1, 1).unwrap();
        let offsets: Vec<u64> = (0..4).map(|_| apart.next().1 / 4096).collect();
        assert_eq!(offsets, [6, 7, 4, 5], "from the middle of the second job's region");
        let random = workload(Rw::Randread);
        let list = |mut offsets: Offsets| (0..8).map(|_| offsets.next().1).collect::<Vec<_>>();
        assert_ne!(
            list(Offsets::apart(&random, 0, 1 << 30, 0, 1).unwrap()),
            list(Offsets::new(&random, 0, 1 << 30, 0, 1).unwrap())
        );
    }

    #[test]
    fn sequential_reads_and_writes_have_a_place_each() {
        let mut offsets = Offsets::new(&workload(Rw::Rw), 0, 1 << 30, 0, 1).unwrap();
        let mut next = [0; 2];
        for _ in 0..100 {
            let (write, offset) = offsets.next();
            let place = &mut next[usize::from(write)];
            assert_eq!(offset, *place);
            *place += 4096;
        }
        assert!(next.iter().all(|place| *place > 30 * 4096), "{next:?}");
    }

    #[test]
    fn uniform_covers_all_and_mixes_by_share() {
        let mut workload = workload(Rw::Randrw);
        workload.rwmixread = 70;
        let mut offsets = Offsets::new(&workload, 0, 16 * 4096, 0, 5).unwrap();
        let mut hits = [0u32; 16];
        let mut reads = 0;
        for _ in 0..16_000 {
            let (write, offset) = offsets.next();
            hits[(offset / 4096) as usize] += 1;
            reads += u32::from(!write);
        }
        // Five standard deviations of a binomial count.
        assert!(hits.iter().all(|hits| hits.abs_diff(1000) < 155), "{hits:?}");
        assert!(reads.abs_diff(11_200) < 290, "{reads}");
    }

    #[test]
    fn a_zipf_that_cannot_be_made_is_refused_and_not_uniform() {
        let refused = |theta: f64| {
            let random_distribution = RandomDistribution::Zipf(theta);
            let random = Workload { random_distribution, ..workload(Rw::Randread) };
            let error = check_offsets(&random).unwrap_err();
            assert!(Offsets::new(&random, 0, 4096, 0, 1).is_err());
            // Sequential offsets do not use it.
            assert_eq!(check_offsets(&Workload { random_distribution, ..workload(Rw::Read) }), Ok(()));
            error.to_string()
        };
        let text = "zipf:-1 does not exist: write a number above 0, such as zipf:1.2";
        assert_eq!(refused(-1.0), text);
        refused(f64::NAN);
        refused(f64::INFINITY);
        let text = "zipf:1.0000000000000002 is too close to 1 to be computed: write zipf:1, or";
        assert!(refused(1.0 + f64::EPSILON).starts_with(text));
        for theta in [1e-6, 1.0, 1.000_001, 1e300] {
            zipf(1 << 40, theta).unwrap();
        }
    }

    #[test]
    fn zipf_prefers_few_blocks_and_seeds_differ() {
        let mut workload = workload(Rw::Randread);
        workload.random_distribution = RandomDistribution::Zipf(1.5);
        let mut offsets = Offsets::new(&workload, 0, 1000 * 4096, 0, 5).unwrap();
        let first = offsets.next().1;
        let hot = (0..10_000).filter(|_| offsets.next().1 == 0).count();
        // The first of 1,000 ranks at exponent 1.5 has a share of 1 / 2.5485.
        assert!((3600..4300).contains(&hot), "{hot} of 10,000 (the first was {first})");
        workload.random_distribution = RandomDistribution::Uniform;
        let list = |seed| {
            (0..8)
                .scan(Offsets::new(&workload, 0, 1 << 30, 0, seed).unwrap(), |o, _| Some(o.next().1))
                .collect::<Vec<_>>()
        };
        assert_eq!(list(1), list(1));
        assert_ne!(list(1), list(2));
    }
}
