//! Winner maps as text: a grid of letters, and which path each letter is.

use super::energy::incomplete_text;
use super::number::{or_dash, percent};
use super::table::Table;
use super::text::{WIDTH, escape, letter, wrap};
use super::unsteady;
use crate::analysis::admission::{LEGEND, MARK};
use crate::analysis::contrast::Contrast;
use crate::analysis::grouping::ascending;
use crate::analysis::sequential;
use crate::analysis::stats::{Method, p_text};
use crate::analysis::winner::{
    Axis, AxisValue, Decision, LeftOut, MapCell, RankedPath, WinnerMap, WinnerQuestion, winner_maps,
};
use crate::analysis::without_unsteady::{MapWithoutUnsteady, maps_without_unsteady};
use iopj_core::{IoPath, Workload, format_duration};
use iopj_store::{Sequential, StudyRecord, Trial};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The winner maps of a store, or a sentence that says what is missing.
pub fn winners(study: &StudyRecord, trials: &[Trial], question: &WinnerQuestion) -> String {
    if trials.is_empty() {
        return "no winner map: the store holds no trial; `iopj run --resume STORE` runs the missing ones\n"
            .into();
    }
    let maps = winner_maps(trials, question);
    let apart = maps_without_unsteady(study, trials, question, &maps);
    let with_apart = |(map, apart): (&WinnerMap, &Option<MapWithoutUnsteady>)| {
        map_text(map) + &apart.as_ref().map_or_else(String::new, |apart| unsteady::of_map(map, apart))
    };
    let mut text = maps.iter().zip(&apart).map(with_apart).collect::<Vec<_>>().join("\n");
    let places =
        |map: &WinnerMap| map.cells.values().any(|cell| cell.ranking.iter().any(|place| place.marked));
    if maps.iter().any(places) {
        text += &wrap(LEGEND, WIDTH, "");
    }
    text.extend(question.admission.why_none_competes(trials).map(|why| wrap(&escape(&why), WIDTH, "")));
    let source = maps.iter().find_map(|map| map.source.as_ref());
    text.extend(source.map(|source| incomplete_text(trials, source, WIDTH)));
    if question.metric.is_energy() && source.is_none() {
        text += "no competing trial measured energy: name a meter under [meters] in the study (`iopj meter \
                 list` shows those of this machine); a model's estimates rank nothing\n";
    }
    if let Some(sequential) = &study.sequential {
        text += &wrap(&blocks_text(study, trials, sequential), WIDTH, "");
    }
    let absent = study.planned_trials.saturating_sub(trials.len() as u64);
    if absent > 0 {
        let _ = writeln!(text, "\n{absent} of {} planned trials are not in the store", study.planned_trials);
    }
    text
}

/// The number of blocks, the reason for it, and the decisions that they were for.
fn blocks_text(study: &StudyRecord, trials: &[Trial], Sequential { min, max, .. }: &Sequential) -> String {
    let blocks = trials.iter().map(|trial| trial.replicate).collect::<BTreeSet<_>>().len();
    let (_, says) = sequential::look(study, trials);
    format!(
        "Blocks were added while a decision by {} was open, {min} to {max}: after {blocks}, {says}. Each \
         p-value is for all {} looks.",
        sequential::METRIC.title(),
        study.looks()
    )
}

fn map_text(map: &WinnerMap) -> String {
    let WinnerQuestion { metric, x, y, .. } = map.question;
    let better = if metric.more_is_better() { "more" } else { "less" };
    let of = map.source.as_ref().map_or(String::new(), |source| format!(", {}", escape(&source.to_string())));
    let mut text =
        format!("{} ({}){of}, {better} is better: {}\n", metric.title(), metric.unit(), fixed(map));
    let paths = ascending(map.cells.values().flat_map(|cell| cell.ranking.iter().map(|p| p.path)));
    if paths.is_empty() {
        let _ = writeln!(text, "  no winner: no competing trial measured {}", metric.title());
        return text + &left_out(map.left_out());
    }
    let across = ascending(map.cells.keys().map(|(_, x)| *x));
    let down = ascending(map.cells.keys().map(|(y, _)| *y));
    let mut grid = Table::of(&down).right(y.as_str(), AxisValue::to_string);
    let paths = &paths;
    for at in across {
        let cell = move |y: &AxisValue| or_dash(map.cells.get(&(*y, at)), |cell| cell_text(cell, paths));
        grid = grid.left(format!("{} {at}", x.as_str()), cell);
    }
    text += &grid.text();
    for (place, path) in paths.iter().enumerate() {
        let marked = |cell: &MapCell| cell.ranking.iter().any(|place| place.path == *path && place.marked);
        let mark = if map.cells.values().any(marked) { MARK } else { "" };
        let _ = writeln!(text, "  {} {path}{mark}", letter(place));
    }
    text += &effects(map, paths);
    text += &wrap(&rule(map), WIDTH, "  ");
    text + &left_out(map.left_out())
}

/// A cell: the winner and its lead over the next path, the paths of a tie, or why there is neither.
fn cell_text(cell: &MapCell, paths: &[IoPath]) -> String {
    let name = |path: &IoPath| letter(paths.iter().position(|other| other == path).unwrap_or_default());
    let best = cell.ranking.first().map(|place| name(&place.path)).unwrap_or_default();
    match (cell.decision(), cell.distance()) {
        (Decision::Winner, Some(distance)) => match distance.relative {
            Some(relative) => format!("{best} {:+.1} %", relative * 100.0),
            None => format!("{best} {:+}", distance.absolute),
        },
        (Decision::Tie, _) => {
            cell.tied().iter().map(|place| name(&place.path)).collect::<Vec<_>>().join(" = ")
        }
        (Decision::Alone, _) => format!("{best} alone"),
        (Decision::Undecided, _) => format!("{best}?"),
        _ => "none".into(),
    }
}

/// How far the best path of each cell is from the next, how certain that is, and the least difference that
/// could have been seen.
fn effects(map: &WinnerMap, paths: &[IoPath]) -> String {
    let WinnerQuestion { x, y, .. } = map.question;
    let name =
        |place: &RankedPath| letter(paths.iter().position(|path| *path == place.path).unwrap_or_default());
    let lead = |(at, cell): (&'_ (AxisValue, AxisValue), &'_ MapCell)| match &cell.ranking[..] {
        [best, next, ..] => Some((*at, format!("{} / {}", name(best), name(next)), cell.p, cell.lead?)),
        _ => None,
    };
    let rows: Vec<Effect> = map.cells.iter().filter_map(lead).collect();
    if rows.is_empty() {
        return String::new();
    }
    Table::of(&rows)
        .right(y.as_str(), |((y, _), ..)| y.to_string())
        .right(x.as_str(), |((_, x), ..)| x.to_string())
        .right("best over next", |(_, over, ..)| over.clone())
        .right("ratio", |(.., lead)| or_dash(lead.ratio.as_ref(), |one| format!("{:.3}", one.ratio)))
        .right("95 % interval", |(.., lead)| {
            or_dash(lead.ratio.as_ref(), |one| format!("{:.3} to {:.3}", one.low, one.high))
        })
        .right("p", |(_, _, p, _)| or_dash(*p, |p| p_text(p, 3)))
        .right("could see", |(.., lead)| or_dash(lead.least(), percent))
        .text()
}

/// A cell's values on the axes, its two best paths, their p-value and their ratio.
type Effect = ((AxisValue, AxisValue), String, Option<f64>, Contrast);

/// What does not vary over the map.
fn fixed(map: &WinnerMap) -> String {
    let (WinnerQuestion { x, y, .. }, workload, plain) = (map.question, &map.workload, Workload::default());
    let fixed = |axis: &Axis| *axis != x && *axis != y;
    let axes = Axis::ALL.into_iter().filter(fixed);
    let mut parts: Vec<String> =
        axes.map(|axis| format!("{} {}", axis.as_str(), axis.value(workload))).collect();
    let mut add = |differs: bool, part: String| parts.extend(differs.then_some(part));
    add(workload.rwmixread != plain.rwmixread, format!("rwmixread {}", workload.rwmixread));
    let (submit, complete) = (workload.iodepth_batch_submit, workload.iodepth_batch_complete_min);
    add(submit != plain.iodepth_batch_submit, format!("iodepth_batch_submit {submit}"));
    add(complete != plain.iodepth_batch_complete_min, format!("iodepth_batch_complete_min {complete}"));
    add(workload.random_distribution != plain.random_distribution, workload.random_distribution.to_string());
    add(!workload.cpus_allowed.is_empty(), format!("cpus_allowed {:?}", workload.cpus_allowed));
    add(!workload.ramp_time.is_zero(), format!("ramp_time {}", format_duration(workload.ramp_time)));
    add(true, format!("{} measured", workload.length_text()));
    add(true, format!("generator {}", map.generator.as_str()));
    parts.extend(map.settings.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))));
    parts.join(", ")
}

/// How the cells were decided, and how to read the decisions that occur.
fn rule(map: &WinnerMap) -> String {
    let logs = if map.question.metric.is_percentile() { " of logarithms" } else { "" };
    let test = match map.question.method {
        Method::Student => {
            format!("Student's t-test{logs} of the two best, not corrected (the papers' rule)")
        }
        Method::Welch => {
            format!("Welch's t-test{logs} of the best against each other path, after Holm over all cells")
        }
        Method::Paired => {
            format!(
                "the t-test{logs} within blocks of the best against each other path, after Holm over all \
                 cells"
            )
        }
    };
    let has = |decision| map.cells.values().any(|cell| cell.decision() == decision);
    let mut text = format!(
        "A winner is shown with its distance to the next best path; `=` is a tie: p > 0.05 by {test}. `could \
         see` is the least difference that would have been seen four times out of five."
    );
    if has(Decision::Undecided) {
        text += " `?` is the best mean without a test: every path needs two replicates in blocks that the \
                 best one shares.";
    }
    if has(Decision::Alone) {
        text += " `alone` is the only path measured.";
    }
    if has(Decision::Empty) {
        text += " `none`: no trial counts.";
    }
    text
}

fn left_out(left_out: LeftOut) -> String {
    if left_out.total() == 0 {
        return String::new();
    }
    let counts = [
        (left_out.unmeasured, "without this metric"),
        (left_out.energy_incomplete, "energy incomplete"),
        (left_out.unpaired, "without a partner in their block"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    let parts = left_out.barred.words().into_iter().chain(counts);
    let verb = if left_out.total() == 1 { "trial is left" } else { "trials are left" };
    format!("  {} {verb} out: {}\n", left_out.total(), parts.collect::<Vec<_>>().join(", "))
}
