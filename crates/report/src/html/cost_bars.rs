//! What an I/O costs by kernel directory: one stacked bar per path, with all directories in the table behind
//! it.

use super::figure::{Figure, Group, Section};
use super::model::{Model, SeriesCell};
use super::svg::bars::{self, BarPart};
use super::text::{exact, readable};
use crate::table::Table;
use iopj_analysis::cost::{UNKNOWN, directory, per_io, per_io_of};
use iopj_core::{CostKind, Space};
use iopj_record::Measurement;
use std::collections::BTreeMap;

/// The number of directories with a part of their own: the costliest ones of the store.
const TOP: usize = 8;

/// The section's id and heading.
const NAME: (&str, &str) = ("costs", "Cost by kernel directory");

/// The name of programs.
const USER: &str = "user space";

/// A figure for each workload that was profiled.
pub(super) fn section(model: &Model<'_>) -> Section {
    let Some(kind) = kind(model) else { return Section::new(NAME, "", None) };
    let directories = directories(model, kind);
    let figure = |workload| figure(model, workload, kind, &directories);
    let figures = (0..model.workloads.len()).filter_map(figure).collect();
    let how = if model.sampled { "samples by their period, not exact" } else { "counted one by one" };
    let words = format!(
        "{} per I/O by the source directory of the kernel\u{2019}s functions, {how}; means over replicates. \
         Functions of no known directory are {UNKNOWN}.",
        what(kind)
    );
    Section::new(NAME, words, Group::new("", figures))
}

fn what(kind: CostKind) -> &'static str {
    if kind == CostKind::CpuTime { "Time on a core in ns" } else { "Instructions" }
}

fn unit(kind: CostKind) -> &'static str {
    if kind == CostKind::CpuTime { "ns on a core per I/O" } else { "instructions per I/O" }
}

/// Instructions if any trusted trial has them, else time on a core if that means something.
fn kind(model: &Model<'_>) -> Option<CostKind> {
    let has = |kind: &CostKind| measured(model).any(|one| per_io(one, *kind, None).is_some());
    let timed = model.emulated.is_none();
    [CostKind::Instructions, CostKind::CpuTime]
        .into_iter()
        .filter(|kind| timed || *kind != CostKind::CpuTime)
        .find(has)
}

fn measured<'m>(model: &'m Model<'_>) -> impl Iterator<Item = &'m Measurement> {
    model.cells.iter().flat_map(|cell| cell.trusted.iter().copied())
}

/// All known directories of the store, the costliest first: each has one colour in all figures.
fn directories(model: &Model<'_>, kind: CostKind) -> Vec<String> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for profile in measured(model).filter_map(|one| one.costs.as_ref()) {
        for function in &profile.functions {
            if let Some(name) = directory(function).filter(|name| *name != UNKNOWN) {
                *sums.entry(name).or_default() += function.cost.get(kind);
            }
        }
    }
    let mut directories: Vec<(&str, u64)> = sums.into_iter().filter(|(_, sum)| *sum > 0).collect();
    directories.sort_by_key(|(name, sum)| (std::cmp::Reverse(*sum), *name));
    directories.into_iter().map(|(name, _)| name.to_owned()).collect()
}

/// A cell's counts per I/O.
struct Counts {
    /// In the order of the directories.
    directories: Vec<f64>,
    unknown: f64,
    user: f64,
    trials: usize,
}

fn counts(cell: &SeriesCell<'_>, kind: CostKind, directories: &[String]) -> Option<Counts> {
    let profiled: Vec<&Measurement> =
        cell.trusted.iter().copied().filter(|one| per_io(one, kind, None).is_some()).collect();
    let mean = |of: &dyn Fn(&Measurement) -> Option<f64>| {
        profiled.iter().filter_map(|one| of(one)).sum::<f64>() / profiled.len() as f64
    };
    let of = |name: &str| mean(&|one| per_io_of(one, kind, |function| directory(function) == Some(name)));
    (!profiled.is_empty()).then(|| Counts {
        directories: directories.iter().map(|name| of(name)).collect(),
        unknown: of(UNKNOWN),
        user: mean(&|one| per_io(one, kind, Some(Space::User))),
        trials: profiled.len(),
    })
}

fn figure(model: &Model<'_>, workload: usize, kind: CostKind, directories: &[String]) -> Option<Figure> {
    let cells: Vec<(&SeriesCell<'_>, Counts)> =
        model.cells_of(workload).filter_map(|cell| Some((cell, counts(cell, kind, directories)?))).collect();
    let bars: Vec<(String, Vec<BarPart>)> = cells
        .iter()
        .map(|(cell, counts)| (model.series[cell.series].label.clone(), parts(counts, directories)))
        .collect();
    let mut table = Table::of(&cells)
        .left("path", |(cell, _)| model.series[cell.series].name.clone())
        .left("trials", |(_, counts)| counts.trials.to_string())
        .left("verified", |(cell, _)| cell.verified.to_string());
    for (at, directory) in directories.iter().enumerate() {
        table = table.left(directory, move |(_, counts)| exact(counts.directories[at]));
    }
    let table = table
        .left(UNKNOWN, |(_, counts)| exact(counts.unknown))
        .left(USER, |(_, counts)| exact(counts.user))
        .left("total", |(_, counts)| {
            exact(counts.directories.iter().chain([&counts.unknown, &counts.user]).sum())
        });
    let caption = model.title(model.workloads[workload], &[]);
    let title = format!("{} per I/O by kernel directory: {caption}", what(kind));
    Figure::new(caption, bars::stacked(&title, unit(kind), &bars), table.data())
}

/// The costliest directories, the others together, what is unknown, and programs.
fn parts(counts: &Counts, directories: &[String]) -> Vec<BarPart> {
    let part = |class: String, what: &str, value: f64| BarPart {
        class,
        what: what.to_owned(),
        value,
        text: readable(value),
    };
    let named = directories.iter().zip(&counts.directories).take(TOP).enumerate();
    let mut parts: Vec<BarPart> =
        named.map(|(place, (name, count))| part(format!("d{place}"), name, *count)).collect();
    let others: f64 = counts.directories.iter().skip(TOP).sum();
    if directories.len() > TOP {
        parts.push(part("rest".to_owned(), "other", others));
    }
    parts.push(part("unknown".to_owned(), UNKNOWN, counts.unknown));
    parts.push(part("user".to_owned(), USER, counts.user));
    parts
}
