//! The table of energy: the joules of a trial by meter and scope, or why there are none.

use super::column::Cell::{Count, Flag, Number, Text};
use super::column::Column;
use super::contents::{Contents, host};
use super::{Row, measured};
use iopj_core::{AboveIdle, Joules, TrialEnergy};
use iopj_record::Measurement;

/// The energy of a trial by one meter over one scope.
pub(super) struct EnergyRow<'a> {
    row: Row<'a>,
    measured: &'a Measurement,
    energy: &'a TrialEnergy,
}

/// Energy is power over a time: an emulated study has none.
pub(super) fn rows(contents: &Contents) -> Vec<EnergyRow<'_>> {
    let timed = measured(contents).into_iter().filter_map(|row| Some((row, row.timed()?)));
    timed
        .flat_map(|(row, measured)| {
            measured.energy.iter().map(move |energy| EnergyRow { row, measured, energy })
        })
        .collect()
}

pub(super) fn columns<'a>() -> Vec<Column<EnergyRow<'a>>> {
    vec![
        Column::key("store", Text(|e: &EnergyRow<'_>| Some(e.row.store()))),
        Column::key("position", Count(|e| Some(e.row.trial.position))),
        Column::new("host", Text(|e| host(&e.row.contents.study))),
        Column::new("path", Text(|e| Some(e.row.trial.path.to_string()))),
        Column::new("workload", Text(|e| Some(e.row.trial.workload.title()))),
        Column::new("setup", Text(|e| Some(e.row.setup()))),
        Column::new("verdict", Text(|e| e.row.verdict())),
        Column::new("competes", Flag(|e| Some(e.row.competes()))),
        Column::new("meter", Text(|e| Some(e.energy.meter.clone()))),
        Column::new("scope", Text(|e| Some(e.energy.scope.to_string()))),
        Column::new("channels", Text(|e| Some(e.energy.channels.join(", ")))),
        Column::new("estimated", Flag(|e| Some(e.energy.estimated))),
        Column::new("incomplete", Text(incomplete)),
        Column::new("ios", Count(|e| Some(e.measured.ios))),
        Column::new("seconds", Number(|e| Some(joules(e)?.seconds))),
        Column::new("joules", Number(|e| Some(joules(e)?.joules))),
        Column::new("joules_random_low", Number(|e| Some(joules(e)?.random_interval[0]))),
        Column::new("joules_random_high", Number(|e| Some(joules(e)?.random_interval[1]))),
        Column::new("joules_low", Number(|e| Some(joules(e)?.interval?[0]))),
        Column::new("joules_high", Number(|e| Some(joules(e)?.interval?[1]))),
        Column::new("watts", Number(|e| Some(joules(e)?.watts()))),
        Column::new("joules_per_io", Number(joules_per_io)),
        Column::new("idle_watts", Number(|e| Some(above_idle(e)?.idle_watts))),
        Column::new("joules_above_idle", Number(|e| Some(above_idle(e)?.joules))),
    ]
}

fn joules<'a>(row: &EnergyRow<'a>) -> Option<&'a Joules> {
    row.energy.joules()
}

fn above_idle<'a>(row: &EnergyRow<'a>) -> Option<&'a AboveIdle> {
    joules(row)?.above_idle.as_ref()
}

fn joules_per_io(row: &EnergyRow<'_>) -> Option<f64> {
    let joules = joules(row)?.joules;
    (row.measured.ios > 0).then(|| joules / row.measured.ios as f64)
}

fn incomplete(row: &EnergyRow<'_>) -> Option<String> {
    row.energy.lack().map(str::to_owned)
}
