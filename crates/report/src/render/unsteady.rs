//! Trials that were not steady, each with its reason, and the figures and winners without them.

use super::number::thousands;
use super::results::row_name;
use super::table::Table;
use super::text::{WIDTH, wrap};
use crate::analysis::Admission;
use crate::analysis::steady::{Flag, unsteady};
use crate::analysis::winner::{Decision, WinnerMap, WinnerQuestion};
use crate::analysis::without_unsteady::{
    CellDecision, MapWithoutUnsteady, OtherFirst, UnsteadyCell, tables_without_unsteady,
};
use crate::analysis::workload_table::{CellRow, Times};
use iopj_store::{Generator, StudyRecord, Trial};

/// At most this many trials are listed.
const MOST: usize = 8;

/// What to know about steadiness; empty if all trials were steady.
pub(super) fn remarks(study: &StudyRecord, trials: &[Trial], admission: Admission) -> String {
    let flags = unsteady(trials);
    let line = |flag: &Flag| {
        let trial = &trials[flag.trial];
        let by = if trial.generator == Generator::Fio { " (fio)" } else { "" };
        let (path, title) = (trial.path, trial.workload.title());
        let what = format!("{path}{by}, {title}, replicate {}: {}", trial.replicate + 1, flag.reason);
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

/// The figures of each cell that has unsteady trials, with and without them, and the workloads where another
/// path comes first.
fn with_and_without(study: &StudyRecord, trials: &[Trial], admission: Admission) -> String {
    let Some(apart) = tables_without_unsteady(study, trials, admission) else { return String::new() };
    let mut text = "without the trials whose rate changed:\n".to_owned();
    text.extend(apart.cells.iter().map(|cell| wrap(&line(cell), WIDTH, "  ")));
    text.extend(apart.firsts.iter().map(|first| wrap(&first_words(first), WIDTH, "  ")));
    text
}

fn line(cell: &UnsteadyCell) -> String {
    let of = format!(
        "{}, {}: {} of {} trials",
        plain_name(&cell.row),
        cell.workload.title(),
        cell.unsteady,
        cell.competing
    );
    let figures = |times: &Times| format!("{} IOPS, {:.2} us", thousands(times.iops), times.mean_ns / 1e3);
    match (cell.with(), &cell.without) {
        (Some(with), Some(without)) => {
            format!("{of}; {} with them, {} without", figures(with), figures(without))
        }
        _ => format!("{of}; nothing is left without them"),
    }
}

/// A row's path with the settings, and the generator if that is fio.
pub(super) fn plain_name(row: &CellRow) -> String {
    row_name(row, false)
}

/// Which path is the first, with the unsteady trials and without.
pub(super) fn first_words(first: &OtherFirst) -> String {
    let title = first.workload.title();
    let [with, without] = [&first.with, &first.without].map(plain_name);
    format!("{title}: {without} has the least mean latency without them, {with} with them")
}

/// A winner map without its unsteady trials: a line, and the cells that are decided differently.
pub(super) fn of_map(map: &WinnerMap, apart: &MapWithoutUnsteady) -> String {
    let WinnerQuestion { x, y, .. } = map.question;
    let words = format!("  {}\n", map_words(map, apart));
    if apart.cells.is_empty() {
        return words;
    }
    words
        + &Table::of(&apart.cells)
            .right(y.as_str(), |cell| cell.at.0.to_string())
            .right(x.as_str(), |cell| cell.at.1.to_string())
            .left("with", |cell| decision(&cell.with))
            .left("without", |cell| decision(&cell.without))
            .text()
}

/// How many cells of a map are decided differently without its unsteady trials.
pub(super) fn map_words(map: &WinnerMap, apart: &MapWithoutUnsteady) -> String {
    let without = without_words(apart);
    match (apart.cells.len(), map.cells.len()) {
        (0, _) => format!("{without}: every cell is decided the same way"),
        (1, all) => format!("{without}, 1 of {all} cells is decided differently"),
        (count, all) => format!("{without}, {count} of {all} cells are decided differently"),
    }
}

/// Which trials are left out.
pub(super) fn without_words(apart: &MapWithoutUnsteady) -> String {
    match apart.trials {
        1 => "without the trial whose rate changed".to_owned(),
        count => format!("without the {count} trials whose rate changed"),
    }
}

/// What a cell decides, in words.
pub(super) fn decision((decision, paths): &CellDecision) -> String {
    let path = paths.iter().map(|path| path.to_string()).collect::<Vec<String>>().join(", ");
    match decision {
        Decision::Wins => format!("{path} wins"),
        Decision::Equal => format!("equal: {path}"),
        Decision::Alone => format!("{path} alone"),
        Decision::Undecided => format!("undecided: {path}"),
        Decision::Empty => "none".to_owned(),
    }
}
