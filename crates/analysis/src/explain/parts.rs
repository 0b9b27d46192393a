//! Costs by source directory, by the papers' groups, and by function.

use super::measure::{MeanSpread, Measure};
use super::trials::{CountedTrial, PathTrials, WorkloadTrials};
use crate::cost::{self, UNKNOWN};
use crate::published_costs::PublishedCosts;
use iopj_core::evidence::EngineEvidence;
use iopj_core::{CostKind, FunctionCost, Space};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The name of everything that programs executed.
pub const USER_SPACE: &str = "user space";

/// A name with a figure for each column of its block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostRow {
    /// What it is of.
    pub name: String,
    /// A figure per I/O for each column; absent if it was not counted.
    pub figures: Vec<Option<MeanSpread>>,
}

/// A function with a figure for each column of its block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FunctionRow {
    /// The kernel's symbol; empty for addresses that no symbol covers.
    pub function: String,
    /// The kernel module that holds it.
    pub module: Option<String>,
    /// Its source directory.
    pub directory: Option<String>,
    /// A figure per I/O for each column.
    pub figures: Vec<Option<MeanSpread>>,
}

/// One measure, per I/O, by place in the code.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parts {
    /// What was counted.
    pub measure: Measure,
    /// The kernel's source directories, the greatest first, `unknown` last.
    pub directories: Vec<CostRow>,
    /// The share of `unknown` in the kernel's part in per cent, for each column.
    pub unknown_percent: Vec<f64>,
    /// The groups of a published table, in its order; `other` holds everything else, user space
    /// included.
    pub groups: Vec<CostRow>,
    /// The kernel's functions with the greatest figures, without those that they call.
    pub functions: Vec<FunctionRow>,
}

/// The totals of each column: instructions, loads, stores and time by space as far as they were counted, then
/// the threads' events.
pub(super) fn totals(group: &WorkloadTrials<'_>) -> Vec<CostRow> {
    let kinds = group.kinds();
    let mut rows = Vec::new();
    for (space, word) in [(Space::User, "user"), (Space::Kernel, "kernel")] {
        for kind in kinds.iter().filter(|kind| **kind != CostKind::Calls) {
            let name = format!("{word}_{}", kind.as_str());
            rows.push(row(group, &name, &|run| Some(run.total(space, *kind))));
        }
    }
    rows.push(row(group, "context_switches", &|run| Some(run.measurement.context_switches_per_io)));
    rows.push(row(group, "interrupts", &|run| run.measurement.interrupts_per_io));
    rows.push(row(group, "sleeps", &|run| Some(run.sleeps())));
    if kinds.contains(&CostKind::Calls) {
        rows.push(row(group, "spins", &CountedTrial::spins));
    }
    rows.extend(bypass(group));
    rows
}

/// The counts of the engine of `nvme-user`, if a path has them. Doorbells of older stores, which have only
/// their sum, get a row of their own.
fn bypass(group: &WorkloadTrials<'_>) -> impl Iterator<Item = CostRow> {
    type Count = fn(&EngineEvidence) -> Option<u64>;
    const COUNTS: [(&str, Count); 4] = [
        ("submission_doorbells", EngineEvidence::submission_doorbells),
        ("completion_doorbells", |engine| engine.completion_doorbells),
        ("doorbells", |engine| engine.doorbells.filter(|_| engine.completion_doorbells.is_none())),
        ("empty_polls", |engine| engine.empty_polls),
    ];
    let counted = COUNTS.map(|(name, count)| row(group, name, &|run| run.by_engine(count)));
    counted.into_iter().filter(|row| row.figures.iter().any(Option::is_some))
}

fn row<'a>(
    group: &WorkloadTrials<'a>,
    name: &str,
    figure: &dyn Fn(&CountedTrial<'a>) -> Option<f64>,
) -> CostRow {
    CostRow { name: name.to_owned(), figures: group.cells.iter().map(|cell| cell.figure(figure)).collect() }
}

/// All costs in one measure, by place in the code; of the functions the first `top`.
pub(super) fn parts(
    group: &WorkloadTrials<'_>,
    measure: Measure,
    top: usize,
    published: &PublishedCosts,
) -> Parts {
    let unknown_percent = group.cells.iter().map(|cell| {
        let (kernel, unknown) = (
            cell.mean(&|run| run.kernel(measure)),
            cell.mean(&|run| run.sum(measure, |function| is_in(function, UNKNOWN))),
        );
        if kernel > 0.0 { 100.0 * unknown / kernel } else { 0.0 }
    });
    let of_group = |source: &str| {
        row(group, source, &|run| Some(run.sum(measure, |function| is_in_group(published, function, source))))
    };
    Parts {
        measure,
        directories: directories(group, measure),
        unknown_percent: unknown_percent.collect(),
        groups: published.groups().map(|row| of_group(row.source)).collect(),
        functions: functions(group, measure, top),
    }
}

/// The directory of a kernel function, `unknown` if it has none; user space has its own.
fn directory(function: &FunctionCost) -> &str {
    cost::directory(function).unwrap_or(USER_SPACE)
}

pub(super) fn is_in(function: &FunctionCost, name: &str) -> bool {
    directory(function) == name
}

/// The names of the directories that appear in the cells, always including `unknown`.
pub(super) fn directory_names<'a>(cells: &[&PathTrials<'a>]) -> BTreeSet<&'a str> {
    let functions = cells.iter().flat_map(|cell| &cell.runs).flat_map(|run| &run.costs.functions);
    functions.filter(|function| function.space == Space::Kernel).map(directory).chain([UNKNOWN]).collect()
}

fn directories(group: &WorkloadTrials<'_>, measure: Measure) -> Vec<CostRow> {
    let cells: Vec<&PathTrials<'_>> = group.cells.iter().collect();
    let of = |name: &str| row(group, name, &|run| Some(run.sum(measure, |function| is_in(function, name))));
    let mut rows: Vec<CostRow> = directory_names(&cells).into_iter().map(of).collect();
    rows.sort_by(|a, b| {
        let last = |row: &CostRow| row.name == UNKNOWN;
        last(a)
            .cmp(&last(b))
            .then_with(|| greatest(group, &b.figures).total_cmp(&greatest(group, &a.figures)))
    });
    rows.retain(|row| row.name == UNKNOWN || greatest(group, &row.figures) > 0.0);
    rows
}

/// The greatest mean of a row; refuted cells count only if there are no others.
fn greatest(group: &WorkloadTrials<'_>, figures: &[Option<MeanSpread>]) -> f64 {
    let all_refuted = group.cells.iter().all(|cell| cell.refuted);
    let counting = group.cells.iter().zip(figures).filter(|(cell, _)| all_refuted || !cell.refuted);
    counting.filter_map(|(_, figure)| figure.map(|figure| figure.mean)).fold(0.0, f64::max)
}

/// A function's identity: symbol, module, directory.
type Key<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

fn functions(group: &WorkloadTrials<'_>, measure: Measure, top: usize) -> Vec<FunctionRow> {
    let mut per_io: BTreeMap<Key<'_>, Vec<Vec<f64>>> = BTreeMap::new();
    let empty: Vec<Vec<f64>> = group.cells.iter().map(|cell| vec![0.0; cell.runs.len()]).collect();
    for (column, cell) in group.cells.iter().enumerate() {
        for (at, run) in cell.runs.iter().enumerate() {
            for function in run.costs.functions.iter().filter(|function| function.space == Space::Kernel) {
                let key =
                    (function.function.as_str(), function.module.as_deref(), function.directory.as_deref());
                let values = per_io.entry(key).or_insert_with(|| empty.clone());
                values[column][at] += measure.of(&function.cost) as f64 / run.ios();
            }
        }
    }
    let mut rows: Vec<FunctionRow> = per_io
        .into_iter()
        .map(|((function, module, directory), values)| FunctionRow {
            function: function.to_owned(),
            module: module.map(str::to_owned),
            directory: directory.map(str::to_owned),
            figures: values.iter().map(|values| MeanSpread::of(values)).collect(),
        })
        .collect();
    rows.sort_by(|a, b| greatest(group, &b.figures).total_cmp(&greatest(group, &a.figures)));
    rows.retain(|row| greatest(group, &row.figures) > 0.0);
    rows.truncate(top);
    rows
}

/// True if the published row would include the function.
pub fn is_in_group(published: &PublishedCosts, function: &FunctionCost, source: &str) -> bool {
    // A suffix that the compiler appended is not part of the symbol.
    let name = function.function.split('.').next().unwrap_or_default();
    published.holds(source, name, |directory| is_in(function, directory))
}
