//! The trials whose rate changed, and the figures without them.

use super::figure::Note;
use super::text::{capital, escape, readable};
use crate::analysis::Admission;
use crate::analysis::winner::{WinnerMap, WinnerQuestion};
use crate::analysis::without_unsteady::{MapWithoutUnsteady, Redecided, tables_without_unsteady};
use crate::analysis::workload_table::Times;
use crate::render::table::Table;
use crate::render::unsteady::{decision, first_words, map_words, plain_name};
use iopj_store::{StudyRecord, Trial};

/// A table of the cells with such trials; empty if all were steady.
pub(super) fn without(study: &StudyRecord, trials: &[Trial], admission: Admission) -> String {
    let Some(apart) = tables_without_unsteady(study, trials, admission) else { return String::new() };
    let firsts: String =
        apart.firsts.iter().map(|first| format!("<li>{}</li>", escape(&first_words(first)))).collect();
    let firsts = if firsts.is_empty() { firsts } else { format!("<ul class=\"plain\">{firsts}</ul>") };
    let title = "Without the trials whose rate changed";
    let figure = |times: Option<&Times>, of: fn(&Times) -> f64| {
        times.map_or_else(|| "\u{2013}".to_owned(), |times| readable(of(times)))
    };
    let table = Table::of(&apart.cells)
        .name("workload", |cell| escape(&cell.workload.title()))
        .name("path", |cell| escape(&plain_name(&cell.row)))
        .left("such trials", |cell| format!("{} of {}", cell.unsteady, cell.competing))
        .right("IOPS", |cell| figure(cell.with(), |times| times.iops))
        .right("IOPS without", |cell| figure(cell.without.as_ref(), |times| times.iops))
        .right("mean latency, \u{b5}s", |cell| figure(cell.with(), |times| times.mean_ns / 1e3))
        .right("without", |cell| figure(cell.without.as_ref(), |times| times.mean_ns / 1e3));
    format!(
        "<h3>{title}</h3><p class=\"note\">Trials that compete but had not settled when their window began, \
         or whose rate rose or fell during it, count like all others. This is what is left without \
         them.</p>{}{firsts}",
        table.html(title, true)
    )
}

/// The note under a winner map with such trials: the cells that are decided differently without them.
pub(super) fn note(map: &WinnerMap, apart: &MapWithoutUnsteady) -> Note {
    let WinnerQuestion { x, y, .. } = map.question;
    let item = |Redecided { at: (down, across), with, without }: &Redecided| {
        let [with, without] = [with, without].map(decision);
        format!("{} {across}, {} {down}: {with} with them, {without} without", x.as_str(), y.as_str())
    };
    let end = if apart.cells.is_empty() { '.' } else { ':' };
    Note {
        words: format!("{}{end}", capital(&map_words(map, apart))),
        items: apart.cells.iter().map(item).collect(),
    }
}
