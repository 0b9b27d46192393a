//! Winner maps as text: a grid of letters, and which path each letter is.

use super::answer::open_words;
use super::energy::lacks_text;
use super::number::or_dash;
use super::table::Table;
use super::text::{WIDTH, escape, letter, wrap};
use super::unsteady;
use iopj_analysis::admission::{LEGEND, MARK};
use iopj_analysis::figure::{self, FigureName};
use iopj_analysis::grouping::{ascending, list};
use iopj_analysis::metric::Metric;
use iopj_analysis::sequential;
use iopj_analysis::stats::{LEVEL, Method, p_text};
use iopj_analysis::winner::{
    Axis, AxisValue, Decision, LeftOut, MapCell, RankedPath, WinnerMap, WinnerQuestion, winner_maps,
};
use iopj_analysis::without_unsteady::{MapWithoutUnsteady, maps_without_unsteady};
use iopj_core::{IoPath, Workload, format_duration};
use iopj_record::{EnergySource, Sequential, StudyRecord, Trial};
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
    if question.metric.is_energy() {
        text += &energy_text(trials, maps.first().and_then(|map| map.source.as_ref()));
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

/// Which trials lack joules, or that no meter took part.
fn energy_text(trials: &[Trial], source: Option<&EnergySource>) -> String {
    let lacks = lacks_text(trials, source, WIDTH);
    if source.is_some() || !lacks.is_empty() {
        return lacks;
    }
    "no competing trial measured energy: name a meter under [meters] in the study (`iopj meter list` shows \
     those of this machine); a model's estimates rank nothing\n"
        .to_owned()
}

/// The number of blocks, the reason for it, and the decisions that they were for.
fn blocks_text(study: &StudyRecord, trials: &[Trial], Sequential { min, max, .. }: &Sequential) -> String {
    let blocks = trials.iter().map(|trial| trial.replicate).collect::<BTreeSet<_>>().len();
    let (_, says) = sequential::look(study, trials);
    let name = FigureName::of(trials);
    let title = |metric: &Metric| figure::title(*metric, name.as_ref());
    let by = list(&sequential::metrics(trials).iter().map(title).collect::<Vec<_>>());
    format!(
        "Blocks were added while a decision by {} was open, {min} to {max}: after {blocks}, {says}. Each \
         p-value is for all {} looks.",
        by,
        study.looks()
    )
}

fn map_text(map: &WinnerMap) -> String {
    let WinnerQuestion { metric, x, y, .. } = map.question;
    let better = if metric.more_is_better() { "more" } else { "less" };
    let figure = map.figure.as_ref();
    let (title, unit) = (figure::title(metric, figure), escape(&figure::unit(metric, figure)));
    let of = map.source.as_ref().map_or(String::new(), |source| format!(", {}", escape(&source.to_string())));
    let mut text = format!("{title} ({unit}){of}, {better} is better: {}\n", fixed(map));
    let paths = ascending(map.cells.values().flat_map(|cell| cell.ranking.iter().map(|p| p.path)));
    if paths.is_empty() {
        let _ = writeln!(text, "  no winner: no competing trial measured {title}");
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
    text += &decided(map, paths);
    text += &undecided(map, paths);
    let rule = rule(map);
    if !rule.is_empty() {
        text += &wrap(&rule, WIDTH, "  ");
    }
    text + &left_out(map.left_out())
}

/// A path's letter on its map.
fn name(place: &RankedPath, paths: &[IoPath]) -> String {
    letter(paths.iter().position(|other| *other == place.path).unwrap_or_default())
}

/// A cell: the winner and its lead over the next path, the paths that are equal (`=`) or undecided (`?`), or
/// why there is neither.
fn cell_text(cell: &MapCell, paths: &[IoPath]) -> String {
    let joined = |sign: &str| {
        cell.best().into_iter().map(|place| name(place, paths)).collect::<Vec<String>>().join(sign)
    };
    match cell.decision() {
        Decision::Wins => format!("{} {}", joined(""), lead(cell)),
        Decision::Equal => joined(" = "),
        Decision::Undecided => joined(" ? "),
        Decision::Alone => format!("{} alone", joined("")),
        Decision::Empty => "none".to_owned(),
    }
}

/// The best path's lead over the next: in per cent of the next, or in the metric's unit if that is zero.
fn lead(cell: &MapCell) -> String {
    let ratio = cell.lead().and_then(|lead| lead.ratio).map(|ratio| ratio.ratio - 1.0);
    let distance = cell.distance();
    match ratio.or_else(|| distance?.relative) {
        Some(share) => format!("{:+.1} %", 100.0 * share),
        None => or_dash(distance, |distance| format!("{:+}", distance.absolute)),
    }
}

/// The interval of each lead in the cells that are decided, and how certain the decision is.
fn decided(map: &WinnerMap, paths: &[IoPath]) -> String {
    let WinnerQuestion { x, y, .. } = map.question;
    let is_decided =
        |cell: &(&Place, &MapCell)| matches!(cell.1.decision(), Decision::Wins | Decision::Equal);
    let rows: Vec<(&Place, &MapCell)> = map.cells.iter().filter(is_decided).collect();
    if rows.is_empty() {
        return String::new();
    }
    let decision = |(_, cell): &(&Place, &MapCell)| match cell.decision() {
        Decision::Wins => format!("{} wins", name(&cell.ranking[0], paths)),
        _ => format!("equal: {}", cell_text(cell, paths)),
    };
    let interval = |(_, cell): &(&Place, &MapCell)| {
        let ratio = cell.lead().and_then(|lead| lead.ratio);
        let bound = |bound: f64| format!("{:+.1} %", 100.0 * (bound - 1.0));
        or_dash(ratio, |ratio| format!("{} to {}", bound(ratio.low), bound(ratio.high)))
    };
    Table::of(&rows)
        .right(y.as_str(), |((y, _), _)| y.to_string())
        .right(x.as_str(), |((_, x), _)| x.to_string())
        .left("decision", decision)
        .left("next", |(_, cell)| name(&cell.ranking[1], paths))
        .right("lead", |(_, cell)| lead(cell))
        .right("95 % interval", interval)
        .right("p", |(_, cell)| {
            let p = if cell.decision() == Decision::Wins { cell.p } else { cell.equal };
            or_dash(p, |p| p_text(p, 3))
        })
        .text()
}

/// A cell's values down and across.
type Place = (AxisValue, AxisValue);

/// What is known of each cell that is undecided, and what would decide it.
fn undecided(map: &WinnerMap, paths: &[IoPath]) -> String {
    let WinnerQuestion { x, y, .. } = map.question;
    let mut untested = 0;
    let mut text = String::new();
    for ((down, across), cell) in &map.cells {
        let Some((place, open)) = cell.open() else { continue };
        if cell.p.is_none() {
            untested += 1;
            continue;
        }
        let pair = match cell.best().len() {
            2 => String::new(),
            _ => format!("{} over {}: ", name(&cell.ranking[0], paths), name(place, paths)),
        };
        let at = format!("{} {down}, {} {across}", y.as_str(), x.as_str());
        let line = format!("{at}, undecided: {}; {pair}{}", cell_text(cell, paths), open_words(&open));
        text += &wrap(&line, WIDTH, "  ");
    }
    if untested > 0 {
        let needs = match map.question.method {
            Method::Paired => "every path needs two replicates in blocks that the best one shares",
            _ => "every path needs two replicates",
        };
        let cells = if untested == 1 { "1 cell".to_owned() } else { format!("{untested} cells") };
        text += &wrap(&format!("no test in {cells}, so undecided: {needs}"), WIDTH, "  ");
    }
    text
}

/// What does not vary over the map.
fn fixed(map: &WinnerMap) -> String {
    let (WinnerQuestion { x, y, .. }, workload, plain) = (map.question, &map.workload, Workload::default());
    let fixed = |axis: &Axis| *axis != x && *axis != y;
    let is_told = |key: &str| workload.told.iter().all(|told| told.iter().any(|one| one == key));
    let is_set = |axis: &Axis| !axis.value(workload).is_none() && is_told(axis.as_str());
    let axes = Axis::ALL.into_iter().filter(fixed).filter(is_set);
    let mut parts: Vec<String> =
        axes.map(|axis| format!("{} {}", axis.as_str(), axis.value(workload))).collect();
    let mut add = |differs: bool, part: String| parts.extend(differs.then_some(part));
    add(workload.rwmixread != plain.rwmixread, format!("rwmixread {}", workload.rwmixread));
    let (submit, complete) = (workload.iodepth_batch_submit, workload.iodepth_batch_complete_min);
    add(submit != plain.iodepth_batch_submit, format!("iodepth_batch_submit {submit}"));
    add(complete != plain.iodepth_batch_complete_min, format!("iodepth_batch_complete_min {complete}"));
    if let Some(open) = workload.open {
        add(true, open.rate_process.to_string());
        add(
            open.rate_iops_end.is_some(),
            format!("rate_iops_end {}", open.rate_iops_end.unwrap_or_default()),
        );
        add(open.burst.is_some(), "in bursts".to_owned());
    }
    if let Some(corunner) = &workload.corunner {
        add(!corunner.cpus.is_empty(), format!("corunner_cpus {:?}", corunner.cpus));
        add(true, format!("corunner_nice {}", corunner.nice));
    }
    add(workload.random_distribution != plain.random_distribution, workload.random_distribution.to_string());
    let others = ["bssplit", "fsync", "fdatasync", "sync", "read_iolog", "beside"];
    for (key, value) in workload.keys().into_iter().filter(|(key, _)| others.contains(key)) {
        add(value != "none", format!("{key} {}", escape(&value)));
    }
    add(!workload.cpus_allowed.is_empty(), format!("cpus_allowed {:?}", workload.cpus_allowed));
    add(!workload.ramp_time.is_zero(), format!("ramp_time {}", format_duration(workload.ramp_time)));
    add(true, format!("{} measured", workload.length_text()));
    add(true, format!("generator {}", map.generator.as_str()));
    parts.extend(map.settings.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))));
    parts.join(", ")
}

/// How the cells were decided, and how to read the decisions that occur.
fn rule(map: &WinnerMap) -> String {
    let WinnerQuestion { metric, method, tolerance, .. } = map.question;
    let logs = if metric.is_percentile() { " of logarithms" } else { "" };
    let (from, test) = match method {
        Method::Student => ("the next", format!("Student's t-test{logs}, not corrected (the papers' rule)")),
        Method::Welch => ("every other path", format!("Welch's t-test{logs}, after Holm over all cells")),
        Method::Paired => {
            ("every other path", format!("the t-test{logs} within blocks, after Holm over all cells"))
        }
    };
    let has = |decision| map.cells.values().any(|cell| cell.decision() == decision);
    let is_tested = |cell: &&MapCell| cell.p.is_some();
    let tested: Vec<Decision> = map.cells.values().filter(is_tested).map(MapCell::decision).collect();
    let undecided = tested.contains(&Decision::Undecided);
    let differs = format!("differs from {from} (p < {LEVEL} by {test})");
    let near = format!(
        "each path that does not differ in this way from the best is within {} % of it (p < {LEVEL} by two \
         one-sided tests of the same kind)",
        sequential::percent(tolerance)
    );
    let parts = [
        (!tested.is_empty(), format!("`wins`: {differs}; its lead is over the next path.")),
        (tested.contains(&Decision::Equal) || undecided, format!("`=`: equal, {near}.")),
        (undecided, "`?`: undecided, neither could be shown.".to_owned()),
        (has(Decision::Alone), "`alone`: only one path competes.".to_owned()),
        (has(Decision::Empty), "`none`: no trial competes.".to_owned()),
    ];
    let parts = parts.into_iter().filter(|(occurs, _)| *occurs).map(|(_, words)| words);
    parts.collect::<Vec<String>>().join(" ")
}

fn left_out(left_out: LeftOut) -> String {
    if left_out.total() == 0 {
        return String::new();
    }
    let counts = [
        (left_out.unmeasured, "without this metric"),
        (left_out.energy_incomplete, "energy incomplete"),
        (left_out.unpaired, "without a partner in their block"),
        (left_out.baselines, "of auto:random and auto:WAY, which only show what choosing is worth"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    let parts = left_out.barred.words().into_iter().chain(counts);
    let verb = if left_out.total() == 1 { "trial is left" } else { "trials are left" };
    format!("  {} {verb} out: {}\n", left_out.total(), parts.collect::<Vec<_>>().join(", "))
}
