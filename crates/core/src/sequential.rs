//! Studies whose number of blocks is decided while they run.

use serde::{Deserialize, Serialize};

/// Blocks are added while a decision is open.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sequential {
    /// Blocks before the first look at the decisions.
    pub min: u32,
    /// The most blocks.
    pub max: u32,
    /// Paths whose means differ by less than this share of the lesser one are equivalent.
    pub until: f64,
}

impl Sequential {
    /// How often the decisions are looked at, at most: after `min` blocks, and after each further one.
    pub fn looks(&self) -> u32 {
        self.max.saturating_sub(self.min) + 1
    }
}
