//! What a program reported of itself, and what was seen of it.

use iopj_core::watch::{SeenPath, WatchEvidence};
use serde::{Deserialize, Serialize};

/// The window of a program that did its own I/O: its life.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramWindow {
    /// The figure that it printed.
    pub figure: f64,
    /// The figure's name.
    pub name: String,
    /// The figure's unit. One that ends in `/s` is of a rate.
    pub unit: String,
    /// The paths that its I/O took.
    pub paths: Vec<SeenPath>,
    /// What could not be read, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,
    /// Raw counts of the program and its servers.
    pub watch: WatchEvidence,
}

impl ProgramWindow {
    /// True for a figure per second.
    pub fn is_rate(&self) -> bool {
        self.unit.ends_with("/s")
    }

    /// What the figure came to in this many seconds: a rate is of each of them.
    pub fn total(&self, seconds: f64) -> f64 {
        if self.is_rate() { self.figure * seconds } else { self.figure }
    }
}
