//! The trials whose rate changed, and what the figures are without them.

use super::figures::Note;
use super::text::{capital, escape, readable};
use crate::analysis::Admission;
use crate::analysis::winner::{WinnerMap, WinnerQuestion};
use crate::analysis::without_unsteady::{
    MapWithoutUnsteady, Redecided, UnsteadyCell, tables_without_unsteady,
};
use crate::analysis::workload_table::Times;
use crate::render::steady::{decision, first_words, map_words, plain_name};
use iopj_store::{StudyRecord, Trial};

/// A table of the cells that have such trials; nothing where all were steady.
pub(super) fn without(study: &StudyRecord, trials: &[Trial], admission: Admission) -> String {
    let Some(apart) = tables_without_unsteady(study, trials, admission) else { return String::new() };
    let rows: String = apart.cells.iter().map(row).collect();
    let firsts: String =
        apart.firsts.iter().map(|first| format!("<li>{}</li>", escape(&first_words(first)))).collect();
    let firsts = if firsts.is_empty() { firsts } else { format!("<ul class=\"plain\">{firsts}</ul>") };
    let title = "Without the trials whose rate changed";
    let columns = ["IOPS", "IOPS without", "mean latency, \u{b5}s", "without"];
    let columns = columns.map(|name| format!("<th scope=\"col\" class=\"n\">{name}</th>")).concat();
    format!(
        "<h3>{title}</h3><p class=\"note\">Trials that compete and had not settled when their window began, \
         or whose rate rose or fell over it, count as all do. Here is what is left without them.</p><div \
         class=\"scroll tall\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\"><table><thead><tr><th \
         scope=\"col\">workload</th><th scope=\"col\">path</th><th scope=\"col\">such \
         trials</th>{columns}</tr></thead><tbody>{rows}</tbody></table></div>{firsts}"
    )
}

/// What stands under a winner map that has such trials: the cells that are decided otherwise without them.
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

fn row(cell: &UnsteadyCell) -> String {
    let figure = |times: Option<&Times>, of: fn(&Times) -> f64| {
        times.map_or_else(|| "\u{2013}".to_owned(), |times| readable(of(times)))
    };
    let both = [cell.with(), cell.without.as_ref()];
    let [iops, iops_without] = both.map(|times| figure(times, |times| times.iops));
    let [mean_us, mean_us_without] = both.map(|times| figure(times, |times| times.mean_ns / 1e3));
    let figures = [iops, iops_without, mean_us, mean_us_without];
    format!(
        "<tr><th scope=\"row\" class=\"w\">{}</th><td class=\"w\">{}</td><td>{} of {}</td>{}</tr>",
        escape(&cell.workload.title()),
        escape(&plain_name(&cell.row)),
        cell.unsteady,
        cell.competing,
        figures.map(|figure| format!("<td class=\"n\">{figure}</td>")).concat()
    )
}
