//! What of a path counts in a cell, and what was left out: if the worse trials of a path are left out, the
//! rest of them looks better than the path is.

use crate::admission::BarredCounts;
use iopj_core::IoPath;
use serde::Serialize;

/// The blocks of a path that count, and its trials that do not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Used {
    /// The path.
    pub path: IoPath,
    /// Blocks that choose, and have a figure of it.
    pub choosing: usize,
    /// Blocks that test, and have one.
    pub testing: usize,
    /// Its trials that do not compete, by reason.
    pub left_out: BarredCounts,
    /// Those that compete and lack the metric.
    pub unmeasured: usize,
}

impl Used {
    /// True if every trial of it counts.
    pub fn is_whole(&self) -> bool {
        self.left_out.total() + self.unmeasured == 0
    }

    /// Why trials of it do not count, each reason with their number.
    pub fn reasons(&self) -> Vec<String> {
        let unmeasured = (self.unmeasured > 0).then(|| format!("{} without the figure", self.unmeasured));
        self.left_out.words().into_iter().chain(unmeasured).collect()
    }
}
