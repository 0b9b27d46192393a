//! Blocks that are measured again: which they are, and which trials count meanwhile.
//!
//! A block is a replicate, which holds every cell once. Its repeat is a block with a number of its own. The
//! old block is in force until the repeat is whole, and the repeat from then on: each trial is one
//! transaction, so a kill leaves one or the other.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A block that is measured again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// The replicate of the trials that repeat it.
    pub block: u32,
    /// The replicate that they replace once all of them are there.
    pub replaces: u32,
    /// How many they are.
    pub trials: u64,
    /// How many of them are there.
    pub done: u64,
    /// Trials of the block that they replace.
    pub replaced: u64,
    /// The repeats that were planned at once with this one, counted from 0.
    pub batch: u32,
}

impl Repeat {
    /// True if all its trials are there.
    pub fn is_whole(&self) -> bool {
        self.done >= self.trials
    }
}

/// True if the trials of this replicate count.
pub fn is_in_force(repeats: &[Repeat], replicate: u32) -> bool {
    repeats.iter().all(|repeat| match repeat.is_whole() {
        true => repeat.replaces != replicate,
        false => repeat.block != replicate,
    })
}

/// How often blocks were measured again: those that were planned at once count once, as soon as one of them
/// counts.
pub(crate) fn batches(repeats: &[Repeat]) -> u32 {
    let whole = repeats.iter().filter(|repeat| repeat.is_whole());
    whole.map(|repeat| repeat.batch).collect::<BTreeSet<_>>().len() as u32
}
