//! What an I/O costs on two or more paths: where the cost arises, what differs, and what parts it consists
//! of. All figures are per I/O issued in the window.
//!
//! Counts are of all cores, so they include everything else that ran in the window.

mod completions;
mod difference;
mod fit;
mod fixed;
mod hosts;
mod lengths;
mod measure;
mod ols;
mod parts;
mod trials;

pub use completions::{Completions, Crossing, CrossingOutcome, OrderAnswer, OrderCheck, PaperRow};
pub use difference::{CheapestRing, CostChange, PathDifference};
pub use fit::{Fit, FitOutcome, Fitted, LEAST_DF, MOST_CORRELATION, Regressor, Term, Unvaried};
pub use fixed::{FixedPartLack, FixedParts, FixedPartsTest, fixed_parts, is_counted};
pub use hosts::{AtDepth, BothHosts, HostsDirectories, HostsRow, OverDepth, PerInterrupt};
pub use lengths::{ByLength, Marginal};
pub use measure::{MeanSpread, Measure};
pub use parts::{CostRow, FunctionRow, Parts, USER_SPACE, is_in_group};
pub use trials::POLL_FUNCTIONS;

use super::hosts::Processors;
use super::published_costs::PublishedCosts;
use iopj_core::{CostSource, IoPath, VerdictKind, Workload};
use iopj_record::{Generator, StudyRecord, Trial};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use trials::{WorkloadTrials, groups, runs};

/// What to explain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainOptions {
    /// The paths, in the order of the columns; empty for all that have costs. The others are then compared
    /// with the first.
    pub paths: Vec<IoPath>,
    /// Functions to show of each measure.
    pub top: usize,
}

/// Why a store explains nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// No trial has costs.
    #[error(
        "the store holds no costs by function: count them exactly with `iopj lab run STUDY --exact` (any \
         machine with QEMU), or sample them with `iopj run STUDY --profile` (perf events, as root)"
    )]
    NoCosts,
    /// A path that was asked for has none.
    #[error("the store holds no costs of {path}: name paths of {}", known.join(", "))]
    UnknownPath {
        /// The path.
        path: String,
        /// Those that have costs.
        known: Vec<String>,
    },
}

/// A store, explained.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The study's name.
    pub study: String,
    /// What emulated the processor, if it was emulated.
    pub emulated: Option<String>,
    /// Measured trials without costs, which are left out.
    pub trials_without_costs: usize,
    /// A block for each workload, generator and way to count.
    pub blocks: Vec<WorkloadCosts>,
    /// The processors of the two hosts, in a study over fabrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processors: Option<Processors>,
    /// The target host's part over depth, for each path whose target host was counted at two depths or more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub over_depth: Vec<OverDepth>,
    /// Costs by the difference of two lengths of one workload.
    pub by_length: Vec<ByLength>,
}

/// Paths under one workload by one generator, counted in one way. Columns are named by their index.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkloadCosts {
    /// The workload.
    pub workload: Workload,
    /// What issued the I/O.
    pub generator: Generator,
    /// How the costs were counted.
    pub source: CostSource,
    /// The measures of the tables; rows are sorted by the first.
    pub measures: Vec<Measure>,
    /// The columns.
    pub columns: Vec<Column>,
    /// `user_instructions`, `user_loads`, …, `kernel_instructions`, …, `context_switches`, `interrupts`,
    /// `sleeps` (voluntary switches) and `spins` (calls of the driver's poll function), as far as they were
    /// counted.
    pub totals: Vec<CostRow>,
    /// Where the cost arises, for each measure.
    pub parts: Vec<Parts>,
    /// Host and target host side by side, if the target host of any column was watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<BothHosts>,
    /// The differences between the paths, in the first measure.
    pub differences: Vec<PathDifference>,
    /// Fixed part, part per spin and part per sleep in the kernel, for exact counts.
    pub fits: Vec<Fitted>,
    /// The three completions of `posix-sio`, if all are present.
    pub completions: Option<Completions>,
    /// The io_uring path that costs the kernel least.
    pub fewest: Option<CheapestRing>,
}

/// A path with its trials; refuted ones are a column of their own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// The path that was asked for.
    pub path: IoPath,
    /// Settings of the study.
    pub settings: BTreeMap<String, String>,
    /// Trials.
    pub trials: usize,
    /// Of these, unproven ones.
    pub unproven: usize,
    /// True if another path was taken: shown, but in no comparison.
    pub refuted: bool,
}

/// Explains the trials of a store, beside published figures of loads and stores, whose sources are groups.
pub fn explain(
    study: &StudyRecord,
    trials: &[Trial],
    question: &ExplainOptions,
    published: &PublishedCosts,
) -> Result<Explanation, ExplainError> {
    let (runs, trials_without_costs) = runs(trials);
    if runs.is_empty() {
        return Err(ExplainError::NoCosts);
    }
    let known: BTreeSet<IoPath> = runs.iter().map(|(trial, _)| trial.path).collect();
    if let Some(path) = question.paths.iter().find(|path| !known.contains(path)) {
        let known = known.iter().map(IoPath::to_string).collect();
        return Err(ExplainError::UnknownPath { path: path.to_string(), known });
    }
    Ok(Explanation {
        study: study.name.clone(),
        emulated: study.emulated.clone(),
        trials_without_costs,
        blocks: groups(&runs, &question.paths, study.looks())
            .iter()
            .map(|group| block(group, question, published, study.emulated.is_some()))
            .collect(),
        processors: Processors::of(study),
        over_depth: hosts::over_depth(&runs, &question.paths),
        by_length: lengths::by_length(&runs, &question.paths),
    })
}

fn block(
    group: &WorkloadTrials<'_>,
    question: &ExplainOptions,
    published: &PublishedCosts,
    emulated: bool,
) -> WorkloadCosts {
    let mut measures = Measure::available(&group.kinds());
    // Under emulation no time means anything.
    measures.retain(|measure| !emulated || *measure != Measure::CpuNs);
    let first = measures.first().copied();
    let fits = fit::fits(group, &measures);
    let unproven = |cell: &trials::PathTrials<'_>| {
        cell.runs.iter().filter(|run| run.measurement.verdict.kind == VerdictKind::Unproven).count()
    };
    let columns = group.cells.iter().map(|cell| Column {
        path: cell.path,
        settings: cell.settings.clone(),
        trials: cell.runs.len(),
        unproven: unproven(cell),
        refuted: cell.refuted,
    });
    let mut totals = parts::totals(group);
    totals.retain(|row| !emulated || !row.name.ends_with("cpu_ns"));
    WorkloadCosts {
        workload: group.workload.clone(),
        generator: group.generator,
        source: group.source.clone(),
        columns: columns.collect(),
        totals,
        hosts: hosts::both_hosts(group, &measures, emulated),
        parts: measures
            .iter()
            .map(|measure| parts::parts(group, *measure, question.top, published))
            .collect(),
        differences: first
            .map_or_else(Vec::new, |first| difference::differences(group, first, !question.paths.is_empty())),
        completions: completions::completions(group, &measures, &fits, (published, emulated)),
        fewest: first.and_then(|first| difference::fewest(group, first)),
        fits,
        measures,
    }
}
