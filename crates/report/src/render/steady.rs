//! Trials that were not steady, each with its reason, and what the figures are without them.

use super::grid::wrap;
use super::number::thousands;
use super::report::WIDTH;
use crate::analysis::Admission;
use crate::analysis::cells::{Row, Table, Times, tables};
use crate::analysis::steady::{Flag, is_unsteady, unsteady};
use iopj_core::Workload;
use iopj_store::{StudyRecord, Trial};

/// The trials that are listed at the most.
const MOST: usize = 8;

/// What to know about steadiness; nothing where all was steady.
pub(super) fn remarks(study: &StudyRecord, trials: &[Trial], admission: Admission) -> String {
    let flags = unsteady(trials);
    let line = |flag: &Flag| {
        let trial = &trials[flag.trial];
        let what =
            format!("{}, {}, replicate {}: {}", trial.path, trial.workload.title(), trial.replicate, flag.reason);
        wrap(&what, WIDTH, "  ")
    };
    let mut text = String::new();
    if !flags.is_empty() {
        text += &format!("not steady, to be read with care (docs/statistics.md): {}\n", flags.len());
        text.extend(flags.iter().take(MOST).map(line));
    }
    if flags.len() > MOST {
        text += &format!("  and {} more\n", flags.len() - MOST);
    }
    text + &with_and_without(study, trials, admission)
}

/// The figures of each cell that has unsteady trials, with them and without, and where the first path is another.
fn with_and_without(study: &StudyRecord, trials: &[Trial], admission: Admission) -> String {
    let is_of = |trial: &Trial| trial.outcome.measurement().is_some_and(is_unsteady);
    let (apart, steady): (Vec<Trial>, Vec<Trial>) = trials.iter().cloned().partition(is_of);
    if apart.is_empty() {
        return String::new();
    }
    let without = tables(study, &steady, admission);
    let mut text = "without the trials whose rate changed:\n".to_owned();
    for table in tables(study, trials, admission) {
        let other = without.iter().find(|other| other.workload == table.workload);
        for row in &table.rows {
            let count = apart.iter().filter(|trial| is_in(trial, &table.workload, row)).count();
            if count > 0 {
                let left = other.and_then(|other| other.rows.iter().find(|left| is_same(left, row)));
                text += &wrap(&line(&table.workload, row, left, count), WIDTH, "  ");
            }
        }
        if let Some((now, then)) = first(&table).zip(other.and_then(first)).filter(|(now, then)| !is_same(now, then)) {
            let title = table.workload.title();
            let what =
                format!("{title}: {} has the least mean latency without them, {} with them", then.path, now.path);
            text += &wrap(&what, WIDTH, "  ");
        }
    }
    text
}

fn line(workload: &Workload, row: &Row, left: Option<&Row>, count: usize) -> String {
    let measured: usize = row.verdicts.iter().map(|(_, count)| count).sum();
    let cell = format!("{}, {}: {count} of {measured} trials", row.path, workload.title());
    let figures = |times: &Times| format!("{} IOPS, {:.2} us", thousands(times.iops), times.mean_ns / 1e3);
    match (times(row), left.and_then(times)) {
        (Some(with), Some(without)) => format!("{cell}; {} with them, {} without", figures(with), figures(without)),
        _ => format!("{cell}; nothing is left without them"),
    }
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
