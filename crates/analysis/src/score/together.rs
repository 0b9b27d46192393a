//! What choosing brings over all cells: a path that chooses against the one static path that is best over
//! them.

use super::cell::{Blocks, Cell, Compared};
use super::{ScoreQuestion, word};
use crate::contrast::{Sample, joined};
use crate::grouping::unique;
use crate::metric::Metric;
use crate::stats::{Ratio, holm_over_tested, mean};
use iopj_core::IoPath;
use serde::Serialize;

/// A path that chooses, over all of its cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Together {
    /// The path.
    pub path: IoPath,
    /// What it chooses for.
    #[serde(serialize_with = "word")]
    pub metric: Metric,
    /// Its cells.
    pub cells: usize,
    /// The static path that is best over all of them, by the blocks that choose; absent if none was measured
    /// in each.
    pub against: Option<IoPath>,
    /// Blocks that test and have both paths in every cell.
    pub blocks: usize,
    /// The geometric mean over the cells of the path over that one, above 1 if the path is better, with the
    /// two one-sided limits.
    pub ratio: Option<Ratio>,
    /// p-values, corrected over the paths that choose: of its being better, and of its being worse.
    pub p: Option<[f64; 2]>,
    /// The answer; absent without a test.
    pub answer: Option<More>,
}

/// Whether a path is better than the one static path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum More {
    /// It is shown to be better.
    Better,
    /// It is shown to be worse.
    Worse,
    /// Neither is shown.
    Undecided,
}

/// Every path that chooses and has two cells or more, over these.
pub(super) fn together(cells: &[Cell<'_>], question: &ScoreQuestion<'_>, looks: u32) -> Vec<Together> {
    let mut paths = unique(cells.iter().flat_map(Cell::chooses));
    paths.sort_by_key(|(path, _)| *path);
    let of = |(path, metric)| {
        let is_own = |cell: &&Cell<'_>| cell.chooses().any(|(own, _)| own == path);
        let own: Vec<&Cell<'_>> = cells.iter().filter(is_own).collect();
        (own.len() > 1).then(|| over_cells((path, metric), &own, question.level, looks))
    };
    let mut all: Vec<Together> = paths.into_iter().filter_map(of).collect();
    let corrected = |side: usize| {
        holm_over_tested(&all.iter().map(|one| one.p.map(|p| p[side])).collect::<Vec<Option<f64>>>())
    };
    let both = [corrected(0), corrected(1)];
    for (at, one) in all.iter_mut().enumerate() {
        one.p = both[0][at].zip(both[1][at]).map(|(better, worse)| [better, worse]);
        one.answer = one.p.map(|[better, worse]| match 1.0 - question.level {
            // Where nothing varies and both are the same, both p-values are 0.
            alpha if better < alpha && better < worse => More::Better,
            alpha if worse < alpha && worse < better => More::Worse,
            _ => More::Undecided,
        });
    }
    all
}

fn over_cells((path, metric): (IoPath, Metric), cells: &[&Cell<'_>], level: f64, looks: u32) -> Together {
    let means = |path: IoPath, blocks: Blocks| means(path, metric, cells, blocks);
    let worth = |path: IoPath| {
        let logs: Vec<f64> = means(path, Blocks::Choosing).into_iter().map(|(_, log)| log).collect();
        (!logs.is_empty()).then(|| (path, mean(&logs)))
    };
    let everywhere = |path: &IoPath| cells.iter().all(|cell| cell.statics().any(|own| own == *path));
    let statics = unique(cells.iter().flat_map(|cell| cell.statics())).into_iter().filter(everywhere);
    let best = statics.filter_map(worth).max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(path, _)| path);
    let compared =
        best.map(|best| Compared::of(&means(path, Blocks::Testing), &means(best, Blocks::Testing)));
    Together {
        path,
        metric,
        cells: cells.len(),
        against: best,
        blocks: compared.as_ref().map_or(0, Compared::blocks),
        ratio: compared.as_ref().and_then(|one| one.ratio(level)),
        p: compared.as_ref().and_then(|one| Some(one.against(1.0, looks)?.p)),
        answer: None,
    }
}

/// The mean over the cells of a path's logarithms, in each block in which every cell has one.
fn means(path: IoPath, metric: Metric, cells: &[&Cell<'_>], blocks: Blocks) -> Sample {
    let samples: Vec<Sample> = cells.iter().map(|cell| cell.logs(path, metric, blocks)).collect();
    joined(&samples).into_iter().map(|(block, logs)| (block, mean(&logs))).collect()
}
