//! What the score of adaptive paths is asked, and what it answers: the types.

use super::super::admission::{Admission, BarredCounts};
use super::super::grouping::TrialSetup;
use super::super::metric::Metric;
use super::super::stats::Ratio;
use super::MoreBlocks;
use super::used::Used;
use iopj_core::{AutoPath, IoPath, PolicyName};
use serde::Serialize;
use std::fmt;

/// What a path is in the evaluation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A static path: every I/O takes the same way.
    Static,
    /// A path that chooses its way for this metric.
    Chooses(Metric),
    /// A path that takes ways by chance.
    Random,
    /// An engine that could choose, bound to the way of this path.
    Pinned(Option<IoPath>),
}

/// The question: what share of the best static path's figure is to be reached, how surely, by which trials.
#[derive(Clone, Copy)]
pub struct ScoreQuestion<'a> {
    /// The share of the best static path's figure that is to be reached.
    pub margin: f64,
    /// The confidence of each limit.
    pub level: f64,
    /// True if the study states both.
    pub frozen: bool,
    /// Which trials compete.
    pub admission: Admission,
    /// What the path of each policy file chooses for.
    pub aim: &'a dyn Fn(&PolicyName) -> Metric,
}

impl ScoreQuestion<'_> {
    /// What a path is.
    pub(super) fn role(&self, path: IoPath) -> Role {
        match path.auto() {
            None => Role::Static,
            Some(AutoPath::Latency) => Role::Chooses(Metric::LatencyMean),
            Some(AutoPath::Cpu) => Role::Chooses(Metric::IopsPerCpu),
            Some(AutoPath::IosPerJoule) => Role::Chooses(Metric::IosPerJoule),
            Some(AutoPath::Policy(name)) => Role::Chooses((self.aim)(&name)),
            Some(AutoPath::Random) => Role::Random,
            // Not every way is a path that a study can ask for.
            Some(AutoPath::Pinned(way)) => {
                Role::Pinned(Some(way.path()).filter(|path| path.to_string() == way.to_string()))
            }
        }
    }
}

/// The answer for one cell and one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScoredCell {
    /// Workload, settings and generator.
    #[serde(flatten)]
    pub setup: TrialSetup,
    /// What its paths are chosen for.
    #[serde(serialize_with = "word")]
    pub metric: Metric,
    /// The best static path of the blocks that choose.
    pub best: Option<IoPath>,
    /// Blocks that choose, and blocks that test, with any trial of the cell.
    pub blocks: [usize; 2],
    /// The paths that choose, then the baselines.
    pub rows: Vec<Row>,
    /// What of each of its paths counts.
    pub used: Vec<Used>,
    /// Trials of the cell that do not compete.
    pub left_out: BarredCounts,
}

/// What a row of a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A path that chooses, against the best static one.
    Chooses,
    /// One that takes ways by chance, against the best static one.
    Random,
    /// One that is bound to a way, against the static path of that way.
    Pinned,
    /// The worst static path of the blocks that choose, against the best one.
    Worst,
}

/// One path, compared with another of its cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The path.
    pub path: IoPath,
    /// What it is.
    pub is: Kind,
    /// The static path that it is compared with; absent if there is none.
    pub against: Option<IoPath>,
    /// Blocks that have both, of those that are compared.
    pub blocks: usize,
    /// Those that are compared: the cell's blocks that test, or all.
    pub of_blocks: usize,
    /// Means of the cell's metric in these blocks: of the path, and of the other.
    pub means: Option<[f64; 2]>,
    /// The path over the other in the cell's metric, above 1 if the path is better: of geometric means, with
    /// the two one-sided limits. Absent for fewer than two blocks.
    pub ratio: Option<Ratio>,
    /// The same if unproven and disturbed trials of the two counted too; absent if none was left out.
    pub with_left_out: Option<Ratio>,
    /// The same as `ratio` in I/Os per second.
    pub iops: Option<Ratio>,
    /// p-values, corrected: of the path reaching the margin, and of its not reaching it. Of paths that choose
    /// only.
    pub p: Option<[f64; 2]>,
    /// The answer; of paths that choose only.
    pub answer: Option<Answer>,
    /// About how many more blocks would decide what is undecided; absent of other answers.
    #[serde(rename = "more_blocks")]
    pub more: Option<MoreBlocks>,
    /// By how many standard errors it is above the margin.
    #[serde(skip)]
    pub(super) above: Option<f64>,
    /// True if an unproven or disturbed trial of the two competes.
    pub marked: bool,
}

/// Whether a path reaches the margin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "is", content = "why", rename_all = "snake_case")]
pub enum Answer {
    /// The whole interval lies at the margin or above.
    Holds,
    /// The whole interval lies below the margin.
    Fails,
    /// Neither is shown.
    Undecided,
    /// There is no test; why.
    NotTested(String),
}

impl Answer {
    /// The answer in words, without the reason.
    pub fn as_str(&self) -> &'static str {
        match self {
            Answer::Holds => "holds",
            Answer::Fails => "fails",
            Answer::Undecided => "undecided",
            Answer::NotTested(_) => "not tested",
        }
    }

    /// By p-values of reaching the margin and of not reaching it, after the correction.
    pub(super) fn of([holds, fails]: [f64; 2], level: f64) -> Answer {
        match 1.0 - level {
            alpha if holds < alpha => Answer::Holds,
            alpha if fails < alpha => Answer::Fails,
            _ => Answer::Undecided,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A metric as its word.
pub(super) fn word<S: serde::Serializer>(metric: &Metric, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(metric.as_str())
}
