//! Winner maps as text: a grid of letters, and which path each letter is.

use super::energy::incomplete_text;
use super::grid::{Align, Grid, escape, wrap};
use super::steady;
use crate::analysis::admission::{LEGEND, MARK};
use crate::analysis::contrast::Contrast;
use crate::analysis::sequential;
use crate::analysis::stats::Method;
use crate::analysis::winner::{
    Axis, AxisValue, Decision, LeftOut, MapCell, WinnerMap, WinnerQuestion, winner_maps,
};
use crate::analysis::without_unsteady::{MapWithoutUnsteady, maps_without_unsteady};
use iopj_core::{IoPath, Workload, format_duration};
use iopj_store::{Sequential, StudyRecord, Trial};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Columns of running text.
const WIDTH: usize = 120;

/// The winner maps of a store, or a sentence that says what is missing.
pub fn winners(study: &StudyRecord, trials: &[Trial], question: &WinnerQuestion) -> String {
    if trials.is_empty() {
        return "no winner map: the store holds no trial; `iopj run` on the study goes on where it ended\n"
            .into();
    }
    let maps = winner_maps(trials, question);
    let apart = maps_without_unsteady(study, trials, question, &maps);
    let with_apart = |(map, apart): (&WinnerMap, &Option<MapWithoutUnsteady>)| {
        map_text(map) + &apart.as_ref().map_or_else(String::new, |apart| steady::of_map(map, apart))
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
        text += "energy was measured in no trial that counts: name a meter under [meters] in the study, \
                 `iopj meter list` tells those of this machine; what a model estimates ranks nothing\n";
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

/// How the number of blocks came about, and what the decisions that it was for are.
fn blocks_text(study: &StudyRecord, trials: &[Trial], Sequential { min, max, .. }: &Sequential) -> String {
    let blocks = trials.iter().map(|trial| trial.replicate + 1).max().unwrap_or(0);
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
    let paths: BTreeSet<IoPath> =
        map.cells.values().flat_map(|cell| cell.ranking.iter().map(|p| p.path)).collect();
    let paths: Vec<IoPath> = paths.into_iter().collect();
    if paths.is_empty() {
        let _ = writeln!(text, "  no winner: {} was measured in no trial that counts", metric.title());
        return text + &left_out(map.left_out());
    }
    let across: BTreeSet<AxisValue> = map.cells.keys().map(|(_, x)| *x).collect();
    let down: BTreeSet<AxisValue> = map.cells.keys().map(|(y, _)| *y).collect();
    let headings: Vec<String> = across.iter().map(|value| format!("{} {value}", x.as_str())).collect();
    let mut columns = vec![(y.as_str(), Align::Right)];
    columns.extend(headings.iter().map(|heading| (heading.as_str(), Align::Left)));
    let mut grid = Grid::new(&columns);
    for y in down {
        let cell = |x: &AxisValue| map.cells.get(&(y, *x)).map_or("-".into(), |cell| cell_text(cell, &paths));
        grid.row([y.to_string()].into_iter().chain(across.iter().map(cell)).collect());
    }
    text += &grid.render();
    for (place, path) in paths.iter().enumerate() {
        let marked = |cell: &MapCell| cell.ranking.iter().any(|place| place.path == *path && place.marked);
        let mark = if map.cells.values().any(marked) { MARK } else { "" };
        let _ = writeln!(text, "  {} {path}{mark}", letter(place));
    }
    text += &effects(map, &paths);
    text += &wrap(&rule(map), WIDTH, "  ");
    text + &left_out(map.left_out())
}

/// A cell: the winner and its distance to the next, the paths of a tie, or why there is none.
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

/// How far the best path of each cell is from the next, how sure that is, and what could have been seen at
/// all.
fn effects(map: &WinnerMap, paths: &[IoPath]) -> String {
    let WinnerQuestion { x, y, .. } = map.question;
    let names = ["best over next", "ratio", "95 % interval", "p", "could see"];
    let columns = [y.as_str(), x.as_str()].into_iter().chain(names);
    let mut grid = Grid::new(&columns.map(|name| (name, Align::Right)).collect::<Vec<_>>());
    let name = |path: &IoPath| letter(paths.iter().position(|other| other == path).unwrap_or_default());
    let mut has_rows = false;
    for ((down, across), cell) in &map.cells {
        let [best, next, ..] = cell.ranking.as_slice() else { continue };
        let Some(lead) = &cell.lead else { continue };
        let [ratio, interval, least] = effect(lead);
        let over = format!("{} / {}", name(&best.path), name(&next.path));
        let p = cell.p.map_or_else(
            || "-".to_owned(),
            |p| if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") },
        );
        grid.row(vec![down.to_string(), across.to_string(), over, ratio, interval, p, least]);
        has_rows = true;
    }
    if has_rows { grid.render() } else { String::new() }
}

/// The ratio, its interval, and the least difference that would have been seen.
fn effect(contrast: &Contrast) -> [String; 3] {
    let absent = || "-".to_owned();
    let ratio = contrast.ratio.as_ref();
    [
        ratio.map_or_else(absent, |ratio| format!("{:.3}", ratio.ratio)),
        ratio.map_or_else(absent, |ratio| format!("{:.3} to {:.3}", ratio.low, ratio.high)),
        contrast.least().map_or_else(absent, |least| format!("{:.1} %", 100.0 * least)),
    ]
}

/// A, B, … Z, A1, B1, …
fn letter(place: usize) -> String {
    let letter = char::from(b'A' + (place % 26) as u8);
    if place < 26 { letter.to_string() } else { format!("{letter}{}", place / 26) }
}

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

/// How the cells were decided and how to read them, for the decisions that occur.
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
        "A winner stands with its distance to the next best path; `=` is a tie: p > 0.05 by {test}. `could \
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
    let verb = if left_out.total() == 1 { "trial stays" } else { "trials stay" };
    format!("  {} {verb} out: {}\n", left_out.total(), parts.collect::<Vec<_>>().join(", "))
}
