//! Trials that were not steady, each with its reason, and the figures and winners without them.

use super::number::thousands;
use super::table::Table;
use super::text::{WIDTH, escape, path_name, wrap};
use iopj_analysis::Admission;
use iopj_analysis::grouping::{grouped, setup, unique};
use iopj_analysis::steady::{Flag, unsteady};
use iopj_analysis::winner::{Decision, WinnerMap, WinnerQuestion};
use iopj_analysis::without_unsteady::{
    CellDecision, MapWithoutUnsteady, OtherFirst, UnsteadyCell, tables_without_unsteady,
};
use iopj_analysis::workload_table::{CellRow, Times};
use iopj_record::{StudyRecord, Trial};

/// At most this many cells are listed.
const MOST: usize = 8;

/// What to know about steadiness; empty if all trials that compete were steady. A cell is one entry: each of
/// its trials with the reason, then its figures with them and without.
pub(super) fn remarks(study: &StudyRecord, trials: &[Trial], admission: Admission) -> String {
    let mut flags = unsteady(trials);
    flags.retain(|flag| admission.admit(&trials[flag.trial]).is_ok());
    if flags.is_empty() {
        return String::new();
    }
    let apart = tables_without_unsteady(study, trials, admission);
    let by_cell = grouped(flags.iter().map(|flag| {
        let trial = &trials[flag.trial];
        ((trial.path, setup(trial)), flag)
    }));
    let count = match unique(flags.iter().map(|flag| flag.trial)).len() {
        1 => "1 trial that competes was".to_owned(),
        count => format!("{count} trials that compete were"),
    };
    let mut text = format!("{count} not steady (docs/statistics.md):\n");
    for (_, flags) in by_cell.iter().take(MOST) {
        let trial = &trials[flags[0].trial];
        let of_cell = |cell: &&UnsteadyCell| is_of(cell, trial);
        let figures = apart.iter().flat_map(|apart| &apart.cells).find(of_cell);
        text += &wrap(&escape(&entry(trials, flags, figures)), WIDTH, "  ");
    }
    match by_cell.len().saturating_sub(MOST) {
        0 => {}
        1 => text += "  and those of 1 more cell\n",
        more => text += &format!("  and those of {more} more cells\n"),
    }
    let firsts = apart.iter().flat_map(|apart| &apart.firsts);
    text.extend(firsts.map(|first| wrap(&first_words(first), WIDTH, "  ")));
    text
}

/// The unsteady trials of a cell.
fn entry(trials: &[Trial], flags: &[&Flag], figures: Option<&UnsteadyCell>) -> String {
    let first = &trials[flags[0].trial];
    let name = path_name(first.path, first.generator, &first.settings);
    let reason = |flag: &&Flag| format!("replicate {}: {}", trials[flag.trial].replicate + 1, flag.reason);
    let reasons: Vec<String> = flags.iter().map(reason).collect();
    let figures = figures.map_or(String::new(), |cell| format!("; {}", with_and_without(cell)));
    format!("{name}, {}, {}{figures}", first.workload.title(), reasons.join("; "))
}

/// True if a trial is of this cell.
fn is_of(cell: &UnsteadyCell, trial: &Trial) -> bool {
    let CellRow { path, settings, generator, .. } = &cell.row;
    (*path, (&cell.workload, settings, *generator)) == (trial.path, setup(trial))
}

/// The figures of a cell with those of its trials whose rate changed, and without.
fn with_and_without(cell: &UnsteadyCell) -> String {
    let of = cell.competing;
    let (which, them) = match cell.unsteady {
        1 => (format!("the trial (of {of}) whose rate changed"), "it"),
        count => (format!("the {count} trials (of {of}) whose rate changed"), "them"),
    };
    let figures = |times: &Times| format!("{} IOPS, {:.2} us", thousands(times.iops), times.mean_ns / 1e3);
    match (cell.with(), &cell.without) {
        (Some(with), Some(without)) => {
            format!("{} without {which}, {} with {them}", figures(without), figures(with))
        }
        _ => format!("nothing is left without {which}"),
    }
}

/// A row's path with the settings, and the generator if that is fio.
pub(super) fn plain_name(row: &CellRow) -> String {
    path_name(row.path, row.generator, &row.settings)
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
