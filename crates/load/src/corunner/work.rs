//! What a co-runner's thread does, in rounds of a fixed amount. All of it is the same on every machine and in
//! every trial: the numbers are seeded.

use super::cache;
use super::error::CorunnerError;
use iopj_core::CorunnerKind;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

/// Steps of the generator in a round of `spin`.
pub const SPIN_STEPS: u32 = 16_384;
/// Cache lines that a round of `memory` loads, each at a place that the one before it decides.
pub const MEMORY_LOADS: u32 = 256;
/// Branches in a round of `branch`, each taken or not by a random bit.
pub const BRANCHES: u32 = 4_096;

/// Words of 64 bits in a cache line.
const LINE_WORDS: usize = 8;
/// The least buffer of `memory` in bytes, also where no cache is known.
const LEAST_BUFFER: u64 = 64 << 20;

/// The work of one thread.
pub(super) enum Work {
    Spin { state: u64 },
    Memory { buffer: Arc<[u64]>, state: u64 },
    Branch { state: u64, sums: [u64; 2] },
}

/// The work of each of `threads` threads. Those of `memory` share one buffer, twice as large as the largest
/// cache of `cpus`.
///
/// # Errors
/// There is no memory for the buffer.
pub(super) fn of(kind: CorunnerKind, cpus: &[u32]) -> Result<Vec<Work>, CorunnerError> {
    let buffer = match kind {
        CorunnerKind::Memory => Some(buffer(cache::largest(Path::new("/sys"), cpus))?),
        CorunnerKind::Spin | CorunnerKind::Branch => None,
    };
    let work = |number: usize| {
        // Never zero, from which xorshift does not move.
        let state = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(number as u64 + 1) | 1;
        match (kind, &buffer) {
            (CorunnerKind::Branch, _) => Work::Branch { state, sums: [0; 2] },
            (_, Some(buffer)) => Work::Memory { buffer: Arc::clone(buffer), state },
            (_, None) => Work::Spin { state },
        }
    };
    Ok((0..cpus.len()).map(work).collect())
}

/// A buffer of twice a cache's size that is in memory as a whole, filled by the generator.
fn buffer(cache: Option<u64>) -> Result<Arc<[u64]>, CorunnerError> {
    let bytes = cache.unwrap_or(0).saturating_mul(2).max(LEAST_BUFFER);
    let words = usize::try_from(bytes / 8).unwrap_or(usize::MAX) / LINE_WORDS * LINE_WORDS;
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(words).map_err(|_| CorunnerError::Memory(bytes))?;
    let mut state = 1;
    buffer.extend((0..words).map(|_| xorshift(&mut state)));
    Ok(buffer.into())
}

impl Work {
    /// One round.
    pub(super) fn round(&mut self) {
        match self {
            Work::Spin { state } => {
                for _ in 0..SPIN_STEPS {
                    xorshift(state);
                }
                black_box(*state);
            }
            Work::Memory { buffer, state } => {
                let lines = (buffer.len() / LINE_WORDS) as u128;
                for _ in 0..MEMORY_LOADS {
                    // The high half of a product is below its factor, without a division.
                    let line = (u128::from(xorshift(state)) * lines) >> 64;
                    *state ^= buffer[line as usize * LINE_WORDS] | 1;
                }
                black_box(*state);
            }
            Work::Branch { state, sums } => {
                for _ in 0..BRANCHES {
                    // `black_box` keeps a compiler from doing both and choosing.
                    match xorshift(state) & 1 {
                        0 => sums[0] = black_box(sums[0].wrapping_add(*state)),
                        _ => sums[1] = black_box(sums[1] ^ *state),
                    }
                }
            }
        }
    }
}

/// The generator xorshift64 (Marsaglia 2003, Journal of Statistical Software 8:14), of period 2^64 - 1.
fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_equal_work_do_the_same() {
        for kind in CorunnerKind::ALL {
            let end = || {
                let mut work = of(kind, &[0, 1]).unwrap();
                work.iter_mut().for_each(|work| (0..3).for_each(|_| work.round()));
                work.iter().map(state).collect::<Vec<_>>()
            };
            let first = end();
            assert_eq!(first, end(), "{kind}");
            // Two threads do not walk the same way.
            assert_ne!(first[0], first[1], "{kind}");
        }
    }

    fn state(work: &Work) -> u64 {
        match work {
            Work::Spin { state } | Work::Memory { state, .. } | Work::Branch { state, .. } => *state,
        }
    }

    #[test]
    fn a_buffer_exceeds_the_cache_and_is_whole_lines() {
        assert_eq!(buffer(None).unwrap().len() as u64 * 8, LEAST_BUFFER);
        let cache = 40 << 20;
        let buffer = buffer(Some(cache + 4)).unwrap();
        assert_eq!((buffer.len() as u64 * 8, buffer.len() % LINE_WORDS), (2 * cache, 0));
        let error = super::buffer(Some(u64::MAX / 2)).unwrap_err().to_string();
        assert!(error.contains("more than there is: choose spin"), "{error}");
    }

    #[test]
    fn half_of_the_branches_go_each_way() {
        let mut state = 1;
        let odd = (0..BRANCHES).filter(|_| xorshift(&mut state) & 1 == 1).count();
        assert!((1_900..2_200).contains(&odd), "{odd}");
    }
}
