//! The trials that were not steady, and the figures without those whose rate changed.

use super::figure::Note;
use super::model::Model;
use super::text::{capital, escape, readable};
use crate::table::Table;
use crate::unsteady::{decision, first_words, map_words, plain_name};
use iopj_analysis::Admission;
use iopj_analysis::steady::{Flag, unsteady};
use iopj_analysis::winner::{WinnerMap, WinnerQuestion};
use iopj_analysis::without_unsteady::{MapWithoutUnsteady, Redecided, tables_without_unsteady};
use iopj_analysis::workload_table::Times;
use iopj_record::{StudyRecord, Trial};

/// A table with more rows scrolls in a frame of its own.
const TALL_ROWS: usize = 24;

/// A table of the trials that were not steady: which, when and why; empty if all were steady.
pub(super) fn listed(model: &Model<'_>) -> String {
    let flags = if model.emulated.is_none() { unsteady(model.trials) } else { Vec::new() };
    if flags.is_empty() {
        return String::new();
    }
    let begin_ns = model.trials.iter().map(|trial| trial.started_unix_ns).min().unwrap_or_default();
    let trial = |flag: &Flag| &model.trials[flag.trial];
    let name =
        |trial: &Trial| model.series_of(trial).map_or_else(String::new, |at| model.series[at].name.clone());
    let title = "Trials that were not steady";
    let table = Table::of(&flags)
        .name("path", |flag| escape(&name(trial(flag))))
        .name("workload", |flag| escape(&model.title(&trial(flag).workload, &[])))
        .right("replicate", |flag| (trial(flag).replicate + 1).to_string())
        .right("started after", |flag| elapsed(trial(flag).started_unix_ns - begin_ns))
        .left("why", |flag| escape(&capital(&flag.reason.to_string())));
    format!(
        "<h3>{title}</h3><p class=\"note\">They count like all others; read them with care.</p>{}",
        table.html(title, flags.len() <= TALL_ROWS)
    )
}

/// A time since the study began: `3 min 20 s`.
fn elapsed(ns: u64) -> String {
    match ns / 1_000_000_000 {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

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
