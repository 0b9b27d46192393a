//! Results without the trials whose rate changed: they stand beside the results with them, never in their place.

use super::admission::Admission;
use super::cells::{Row, Table, Times, tables};
use super::steady::is_unsteady;
use super::winner::{AxisValue, Cell, Decision, Question, WinnerMap, winner_maps};
use iopj_core::{IoPath, Workload};
use iopj_store::{StudyRecord, Trial};

/// What a store shows with its unsteady trials and without.
#[derive(Clone, Debug, PartialEq)]
pub struct Apart {
    /// The cells that have such trials.
    pub cells: Vec<ApartCell>,
    /// The workloads whose path of least mean latency is another without them.
    pub firsts: Vec<ApartFirst>,
}

/// A cell that has unsteady trials.
#[derive(Clone, Debug, PartialEq)]
pub struct ApartCell {
    /// Its workload.
    pub workload: Workload,
    /// Its path, settings and generator, with all of its trials' figures.
    pub row: Row,
    /// How many of its trials are unsteady.
    pub unsteady: usize,
    /// How many were measured.
    pub measured: usize,
    /// Its figures without them; absent where nothing is left.
    pub without: Option<Times>,
}

/// A workload whose first path depends on them.
#[derive(Clone, Debug, PartialEq)]
pub struct ApartFirst {
    /// The workload.
    pub workload: Workload,
    /// The row of least mean latency with them.
    pub with: Row,
    /// And without.
    pub without: Row,
}

/// A winner map without the unsteady trials.
#[derive(Clone, Debug, PartialEq)]
pub struct ApartMap {
    /// How many trials of the map are unsteady and compete.
    pub trials: usize,
    /// The cells that are decided otherwise without them.
    pub cells: Vec<Redecided>,
}

/// A cell that is decided otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Redecided {
    /// Its places down and across.
    pub at: (AxisValue, AxisValue),
    /// The decision and the first path with the unsteady trials.
    pub with: (Decision, Option<IoPath>),
    /// And without.
    pub without: (Decision, Option<IoPath>),
}

impl ApartCell {
    /// Its figures with them.
    pub fn with(&self) -> Option<&Times> {
        times(&self.row)
    }
}

/// The trials that stay where the unsteady ones are left out; absent where there are none of these, and where times mean nothing.
fn steady_ones(study: &StudyRecord, trials: &[Trial]) -> Option<Vec<Trial>> {
    if study.emulated.is_some() || !trials.iter().any(is_apart) {
        return None;
    }
    Some(trials.iter().filter(|trial| !is_apart(trial)).cloned().collect())
}

fn is_apart(trial: &Trial) -> bool {
    trial.outcome.measurement().is_some_and(is_unsteady)
}

/// The figures of each cell that has unsteady trials, with them and without, and where the first path is another; absent where all
/// trials were steady.
pub fn apart(study: &StudyRecord, trials: &[Trial], admission: Admission) -> Option<Apart> {
    let without = tables(study, &steady_ones(study, trials)?, admission);
    let mut apart = Apart { cells: Vec::new(), firsts: Vec::new() };
    for table in tables(study, trials, admission) {
        let other = without.iter().find(|other| other.workload == table.workload);
        let pair = first(&table).zip(other.and_then(first)).filter(|(with, without)| !is_same(with, without));
        apart.firsts.extend(pair.map(|(with, without)| ApartFirst {
            workload: table.workload.clone(),
            with: with.clone(),
            without: without.clone(),
        }));
        for row in table.rows {
            let unsteady = trials.iter().filter(|trial| is_apart(trial) && is_in(trial, &table.workload, &row)).count();
            if unsteady > 0 {
                let left = other.and_then(|other| other.rows.iter().find(|left| is_same(left, &row)));
                let measured = row.verdicts.iter().map(|(_, count)| count).sum();
                let without = left.and_then(times).cloned();
                apart.cells.push(ApartCell { workload: table.workload.clone(), row, unsteady, measured, without });
            }
        }
    }
    Some(apart)
}

/// What each of these maps, which are all of the question's, is without the unsteady trials; absent for one that has none of them.
pub fn apart_maps(
    study: &StudyRecord,
    trials: &[Trial],
    question: &Question,
    maps: &[WinnerMap],
) -> Vec<Option<ApartMap>> {
    let Some(steady) = steady_ones(study, trials) else { return vec![None; maps.len()] };
    let without = winner_maps(&steady, question);
    let of = |map: &WinnerMap| {
        let competes = |trial: &&Trial| is_apart(trial) && map.has(trial) && question.admission.admit(trial).is_ok();
        let count = trials.iter().filter(competes).count();
        let other = without.iter().find(|other| {
            other.workload == map.workload && other.settings == map.settings && other.generator == map.generator
        });
        let cells = map.cells.iter().filter_map(|(at, cell)| {
            let with = decided(cell);
            let without = other.and_then(|other| other.cells.get(at)).map_or((Decision::Empty, None), decided);
            (with != without).then_some(Redecided { at: *at, with, without })
        });
        (count > 0).then(|| ApartMap { trials: count, cells: cells.collect() })
    };
    maps.iter().map(of).collect()
}

fn decided(cell: &Cell) -> (Decision, Option<IoPath>) {
    let decision = cell.decision();
    // The first of a tie is so by chance.
    (decision, cell.ranking.first().filter(|_| decision != Decision::Tie).map(|place| place.path))
}

fn times(row: &Row) -> Option<&Times> {
    row.figures.as_ref()?.times.as_ref()
}

/// The path of least mean latency.
fn first(table: &Table) -> Option<&Row> {
    table.rows.first().filter(|row| row.competes)
}

fn is_same(a: &Row, b: &Row) -> bool {
    a.path == b.path && a.generator == b.generator && a.settings == b.settings
}

fn is_in(trial: &Trial, workload: &Workload, row: &Row) -> bool {
    trial.workload == *workload
        && trial.path == row.path
        && trial.generator == row.generator
        && trial.settings == row.settings
}
