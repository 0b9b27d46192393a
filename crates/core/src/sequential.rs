//! A study whose number of blocks is decided while it runs.

use serde::{Deserialize, Serialize};

/// Blocks are added while a decision is open.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sequential {
    /// Blocks before the first look at the decisions.
    pub min: u32,
    /// Blocks at the most.
    pub max: u32,
    /// Paths whose means differ by less than this share of the lesser one are equivalent.
    pub until: f64,
}

impl Sequential {
    /// How often the decisions are looked at, at the most: after `min` blocks, and after each further one.
    pub fn looks(&self) -> u32 {
        self.max.saturating_sub(self.min) + 1
    }
}
