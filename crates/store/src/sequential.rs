//! Studies whose number of blocks is decided while they run: what the record says of them, and how their plan
//! grows.

use crate::error::StoreError;
use crate::store::Store;
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

impl Store {
    /// Says how many trials the plan holds now.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn set_planned_trials(&mut self, planned: u64) -> Result<(), StoreError> {
        let set = "UPDATE study SET record = json_set(record, '$.planned_trials', ?1)";
        self.connection.execute(set, [planned as i64]).map(|_| ()).map_err(|error| self.sqlite(error))
    }
}
