//! The table of costs: what a trial took by function, on the host and on the target host.

use super::column::Cell::{Count, Text};
use super::column::Column;
use super::contents::Contents;
use super::{Row, measured};
use iopj_core::{CostKind, CostProfile, CostSource, FunctionCost, Space};

/// A function in the profile of a trial.
pub(super) struct CostRow<'a> {
    row: Row<'a>,
    side: &'static str,
    profile: &'a CostProfile,
    function: &'a FunctionCost,
}

pub(super) fn rows(contents: &Contents) -> Vec<CostRow<'_>> {
    let mut costs = Vec::new();
    for row in measured(contents) {
        let profiles =
            row.measured().map(|one| [("host", one.costs.as_ref()), ("target", one.target_costs.as_ref())]);
        for (side, profile) in profiles.into_iter().flatten() {
            let functions = profile.into_iter().flat_map(|one| one.functions.iter().map(move |of| (one, of)));
            costs.extend(functions.map(|(profile, function)| CostRow {
                row: Row { contents, trial: row.trial },
                side,
                profile,
                function,
            }));
        }
    }
    costs
}

pub(super) fn columns<'a>() -> Vec<Column<CostRow<'a>>> {
    vec![
        Column::key("store", Text(|c: &CostRow<'_>| Some(c.row.store()))),
        Column::key("position", Count(|c| Some(c.row.trial.position))),
        Column::new("path", Text(|c| Some(c.row.trial.path.to_string()))),
        Column::new("side", Text(|c| Some(c.side.to_owned()))),
        Column::new("source", Text(|c| Some(source(&c.profile.source)))),
        Column::new("space", Text(|c| Some(space(c.function.space).to_owned()))),
        Column::new("function", Text(|c| Some(c.function.function.clone()))),
        Column::new("module", Text(|c| c.function.module.clone())),
        Column::new("directory", Text(|c| c.function.directory.clone())),
        Column::new("calls", Count(|c| counted(c, CostKind::Calls))),
        Column::new("instructions", Count(|c| counted(c, CostKind::Instructions))),
        Column::new("loads", Count(|c| counted(c, CostKind::Loads))),
        Column::new("stores", Count(|c| counted(c, CostKind::Stores))),
        Column::new("cpu_ns", Count(|c| counted(c, CostKind::CpuTime))),
    ]
}

fn counted(row: &CostRow<'_>, kind: CostKind) -> Option<u64> {
    row.profile.has(kind).then(|| row.function.cost.get(kind))
}

fn space(space: Space) -> &'static str {
    match space {
        Space::Kernel => "kernel",
        Space::User => "user",
    }
}

/// How the costs were counted: `exact`, or `sampled` and the events.
fn source(source: &CostSource) -> String {
    match source {
        CostSource::Exact => "exact".to_owned(),
        CostSource::Sampled(events) => format!("sampled {}", events.join(" ")),
    }
}
