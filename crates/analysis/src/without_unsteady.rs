//! Results without the trials whose rate changed, shown beside the results with them, never instead of them.

use super::admission::Admission;
use super::contrast::{Sample, TestPlan, in_blocks};
use super::grouping::setup;
use super::metric::Metric;
use super::stats::{LEVEL, Method, holm_over_tested};
use super::steady::is_unsteady;
use super::winner::{AxisValue, Decision, MapCell, WinnerMap, WinnerQuestion, maps_by};
use super::workload_table::{CellRow, Times, WorkloadTable, workload_tables};
use iopj_core::{IoPath, Workload};
use iopj_record::{StudyRecord, Trial};

/// The results of a store with its unsteady trials and without.
#[derive(Clone, Debug, PartialEq)]
pub struct WithoutUnsteady {
    /// The cells in which such trials compete.
    pub cells: Vec<UnsteadyCell>,
    /// The workloads whose path of least mean latency differs significantly from all others, both with these
    /// trials and without them, but is not the same path.
    pub firsts: Vec<OtherFirst>,
}

/// A cell that has unsteady trials.
#[derive(Clone, Debug, PartialEq)]
pub struct UnsteadyCell {
    /// Its workload.
    pub workload: Workload,
    /// Its path, settings and generator, with all of its trials' figures.
    pub row: CellRow,
    /// How many of its competing trials are unsteady.
    pub unsteady: usize,
    /// How many compete.
    pub competing: usize,
    /// Its figures without them; absent if no trial remains.
    pub without: Option<Times>,
}

/// A workload whose first path depends on them.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherFirst {
    /// The workload.
    pub workload: Workload,
    /// The row of least mean latency with them.
    pub with: CellRow,
    /// And without.
    pub without: CellRow,
}

/// A winner map without the unsteady trials.
#[derive(Clone, Debug, PartialEq)]
pub struct MapWithoutUnsteady {
    /// How many trials of the map are unsteady and compete.
    pub trials: usize,
    /// The cells whose decision changes without them.
    pub cells: Vec<Redecided>,
}

/// What a cell decides: the path that wins, or all that are equal or undecided.
pub type CellDecision = (Decision, Vec<IoPath>);

/// A cell whose decision changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Redecided {
    /// Its values down and across.
    pub at: (AxisValue, AxisValue),
    /// The decision with the unsteady trials.
    pub with: CellDecision,
    /// And without.
    pub without: CellDecision,
}

impl UnsteadyCell {
    /// Its figures with them.
    pub fn with(&self) -> Option<&Times> {
        times(&self.row)
    }
}

/// The trials without the unsteady ones; `None` if none is unsteady, or if times mean nothing.
fn steady_ones(study: &StudyRecord, trials: &[Trial]) -> Option<Vec<Trial>> {
    if study.emulated.is_some() || !trials.iter().any(is_apart) {
        return None;
    }
    Some(trials.iter().filter(|trial| !is_apart(trial)).cloned().collect())
}

fn is_apart(trial: &Trial) -> bool {
    trial.outcome.measurement().is_some_and(is_unsteady)
}

/// The figures of each cell in which unsteady trials compete, with them and without, and the workloads whose
/// first path changes; `None` if there is no such cell.
pub fn tables_without_unsteady(
    study: &StudyRecord,
    trials: &[Trial],
    admission: Admission,
) -> Option<WithoutUnsteady> {
    let steady = steady_ones(study, trials)?;
    let (with, without) =
        (workload_tables(study, trials, admission), workload_tables(study, &steady, admission));
    let firsts_with = firsts(study, &with, trials, admission);
    let firsts_without = firsts(study, &without, &steady, admission);
    let mut apart = WithoutUnsteady { cells: Vec::new(), firsts: Vec::new() };
    for (table, first) in with.iter().zip(firsts_with) {
        let at = without.iter().position(|other| other.workload == table.workload);
        let pair =
            first.zip(at.and_then(|at| firsts_without[at])).filter(|(with, without)| !is_same(with, without));
        apart.firsts.extend(pair.map(|(with, without)| OtherFirst {
            workload: table.workload.clone(),
            with: with.clone(),
            without: without.clone(),
        }));
        for row in table.rows.iter().filter(|row| row.competes) {
            let competing: Vec<&Trial> = competing(trials, &table.workload, row, admission).collect();
            let unsteady = competing.iter().filter(|trial| is_apart(trial)).count();
            if unsteady > 0 {
                let mut left = at.into_iter().flat_map(|at| &without[at].rows);
                let left = left.find(|left| left.competes && is_same(left, row));
                let (workload, without) = (table.workload.clone(), left.and_then(times).cloned());
                let (row, competing) = (row.clone(), competing.len());
                apart.cells.push(UnsteadyCell { workload, row, unsteady, competing, without });
            }
        }
    }
    (!apart.cells.is_empty()).then_some(apart)
}

/// The path of least mean latency of each table, if it competes alone or differs significantly from every
/// other one after Holm's correction over the tables.
fn firsts<'t>(
    study: &StudyRecord,
    tables: &'t [WorkloadTable],
    trials: &[Trial],
    admission: Admission,
) -> Vec<Option<&'t CellRow>> {
    let method = if in_blocks(study) { Method::Paired } else { Method::Welch };
    let plan = TestPlan { looks: study.looks(), ..TestPlan::of(Metric::LatencyMean, method, tables.len()) };
    let p_of = |table: &WorkloadTable| {
        let sample = |row: &CellRow| -> Sample {
            let trials = competing(trials, &table.workload, row, admission);
            trials
                .filter_map(|trial| Some((trial.replicate, trial.outcome.measurement()?.latency.mean)))
                .collect()
        };
        let mut samples = table.rows.iter().filter(|row| row.competes).map(sample);
        let first = samples.next()?;
        // A path that cannot be tested does not differ significantly; nor does one that the blocks rank
        // ahead.
        let p =
            |other: Sample| plan.test(&first, &other).filter(|(_, sign)| *sign < 0.0).map_or(1.0, |(p, _)| p);
        Some(samples.map(p).fold(0.0, f64::max))
    };
    let p: Vec<Option<f64>> = tables.iter().map(p_of).collect();
    let first = |(table, p): (&'t WorkloadTable, Option<f64>)| {
        table.rows.first().filter(|_| p.is_some_and(|p| p < LEVEL))
    };
    tables.iter().zip(holm_over_tested(&p)).map(first).collect()
}

/// What each of these maps, all of one question, becomes without the unsteady trials; `None` for a map
/// without any.
pub fn maps_without_unsteady(
    study: &StudyRecord,
    trials: &[Trial],
    question: &WinnerQuestion,
    maps: &[WinnerMap],
) -> Vec<Option<MapWithoutUnsteady>> {
    let Some(steady) = steady_ones(study, trials) else { return vec![None; maps.len()] };
    // By the same meter, whichever meter measured the remaining trials.
    let source = maps.first().and_then(|map| map.source.as_ref());
    let without = maps_by(&steady, question, source);
    let of = |map: &WinnerMap| {
        let competes = |trial: &&Trial| {
            let admitted = question.admission.admit(trial);
            let has_value = |measurement| question.metric.value(measurement, source).is_some();
            is_apart(trial) && map.has(trial) && admitted.is_ok_and(has_value)
        };
        let count = trials.iter().filter(competes).count();
        let other = without.iter().find(|other| {
            other.workload == map.workload
                && other.settings == map.settings
                && other.generator == map.generator
        });
        let cells = map.cells.iter().filter_map(|(at, cell)| {
            let with = decided(cell);
            let without =
                other.and_then(|other| other.cells.get(at)).map_or((Decision::Empty, Vec::new()), decided);
            (with != without).then_some(Redecided { at: *at, with, without })
        });
        (count > 0).then(|| MapWithoutUnsteady { trials: count, cells: cells.collect() })
    };
    maps.iter().map(of).collect()
}

fn decided(cell: &MapCell) -> CellDecision {
    // The first of several is first by chance.
    let mut paths: Vec<IoPath> = cell.best().into_iter().map(|place| place.path).collect();
    paths.sort_unstable();
    (cell.decision(), paths)
}

fn times(row: &CellRow) -> Option<&Times> {
    row.figures.as_ref()?.times.as_ref()
}

fn is_same(a: &CellRow, b: &CellRow) -> bool {
    (a.path, a.generator, &a.settings) == (b.path, b.generator, &b.settings)
}

/// The trials of a row that compete.
fn competing<'t>(
    trials: &'t [Trial],
    workload: &Workload,
    row: &CellRow,
    admission: Admission,
) -> impl Iterator<Item = &'t Trial> {
    let is_of_row = move |trial: &&Trial| {
        (trial.path, setup(trial)) == (row.path, (workload, &row.settings, row.generator))
    };
    trials.iter().filter(is_of_row).filter(move |trial| admission.admit(trial).is_ok())
}
