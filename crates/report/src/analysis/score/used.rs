//! What of a path counts in a cell, and what was left out: if the worse trials of a path are left out, the
//! rest of them looks better than the path is.

use super::cell::{Blocks, Cell};
use crate::analysis::admission::BarredCounts;
use crate::analysis::metric::Metric;
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
    pub(super) fn of(cell: &Cell<'_>, path: IoPath, metric: Metric) -> Used {
        let [choosing, testing] =
            [Blocks::Choosing, Blocks::Testing].map(|half| cell.logs(path, metric, half).len());
        let (mut left_out, mut all) = (BarredCounts::default(), 0);
        for trial in cell.of_path(path) {
            all += 1;
            cell.question.admission.admit(trial).err().into_iter().for_each(|why| left_out.add(why));
        }
        let unmeasured = all - left_out.total() - choosing - testing;
        Used { path, choosing, testing, left_out, unmeasured }
    }

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
