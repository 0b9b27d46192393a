//! Seeded draws.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::f64::consts::TAU;

/// A stream of draws: the same seed and the same stream give the same.
#[derive(Clone, Debug)]
pub(super) struct Chance(Xoshiro256PlusPlus);

impl Chance {
    /// One stream of those that a seed has.
    pub(super) fn new(seed: u64, stream: u64) -> Chance {
        Chance(Xoshiro256PlusPlus::seed_from_u64(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Any number: a seed.
    pub(super) fn seed(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// From 0 to below 1.
    pub(super) fn share(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Each number between two equally likely.
    pub(super) fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.share()
    }

    /// Each order of magnitude between two equally likely.
    pub(super) fn over(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.share())
    }

    /// One of some.
    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.index(all.len())]
    }

    /// A place in a list of `len`.
    pub(super) fn index(&mut self, len: usize) -> usize {
        (((self.0.next_u64() >> 32) * len as u64) >> 32) as usize
    }

    /// Of the normal distribution with mean 0 and deviation 1 (Box and Muller 1958).
    pub(super) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.share()).ln()).sqrt();
        radius * (TAU * self.share()).cos()
    }
}
