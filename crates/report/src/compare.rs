//! A comparison of two stores, or of two sides of one, as text: what differs between them, then every change.

use super::number::{or_dash, percent};
use super::table::Table;
use super::text::{WIDTH, escape, path_name, wrap};
use iopj_analysis::admission::{LEGEND, MARK};
use iopj_analysis::answer::MOST_MORE;
use iopj_analysis::compare::{
    Change, ChangeOutcome, ComparedCell, Comparison, Gate, NearCells, SampleMean, Side, SideDifference,
    SplitBy,
};
use iopj_analysis::figure::{self, FigureName};
use iopj_analysis::grouping::{grouped, list};
use iopj_analysis::metric::Metric;
use iopj_analysis::stats::{LEVEL, p_text};
use iopj_analysis::winner::Axis;
use std::fmt::Write;

/// The whole comparison.
pub fn comparison(comparison: &Comparison) -> String {
    let by = comparison.by.as_ref();
    let mut text = side("before", by.map(|by| (by, &by.before)), &comparison.before);
    text += &side("after", by.map(|by| (by, &by.after)), &comparison.after);
    if let Some(by) = by.filter(|by| by.others > 0) {
        text += &format!("neither: {} trials of another {}\n", by.others, escape(&by.key));
    }
    text += &emulated(comparison);
    text += &differences(comparison);
    if !comparison.ignored.is_empty() {
        text += &format!("keys ignored when cells are matched: {}\n", escape(&comparison.ignored.join(", ")));
    }
    text.push('\n');
    if !comparison.changes.is_empty() {
        text += &changes(comparison);
        text += &not_measured(comparison);
        if comparison.nothing().is_none() {
            text.push('\n');
            text += &summary(comparison);
        }
    }
    text += &near(&comparison.near);
    let is_near =
        |cell: &&ComparedCell| comparison.near.iter().any(|one| [&one.before, &one.after].contains(cell));
    text += &only("before", comparison.only_before.iter().filter(|cell| !is_near(cell)));
    text += &only("after", comparison.only_after.iter().filter(|cell| !is_near(cell)));
    text
}

/// What a gate with this limit in per cent found, and whether it could have found it.
pub fn gate(gate: &Gate<'_>, percent: f64) -> String {
    let Gate { worse, cells, not_compared, blind, .. } = gate;
    let of = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let found = match gate.worst() {
        None => "nothing got worse".to_owned(),
        Some(one) => format!("{} got worse{}", of(worse.len(), "figure"), worst(one, worse.len())),
    };
    let words = format!("gate of {percent} %: {found}; {} compared, {not_compared} not", of(*cells, "cell"));
    let mut text = wrap(&escape(&words), WIDTH, "");
    if *blind > 0 {
        let least = match gate.least {
            Some(least) => format!("a change of {} would be seen in all of them", seen(least)),
            None => "in at least one of them no change would be seen".to_owned(),
        };
        let words = format!(
            "the gate is blind in {blind} of these cells: a change of {percent} % would have been seen less \
             than four times out of five; {least}"
        );
        text += &wrap(&words, WIDTH, "");
    }
    text
}

/// Which figure of these many changed most, and by how much.
fn worst(change: &Change, of: usize) -> String {
    let (metric, cell) = (change.metric.title(), &change.cell);
    let most = if of > 1 { "most of all " } else { "" };
    let by = or_dash(change.ratio, change_percent);
    format!(" ({most}{metric} of {}, {}: {by})", name(cell), cell.workload.title())
}

/// The line of a side: its value of what distinguishes the sides of one store, its study and its trials.
fn side(name: &str, value: Option<(&SplitBy, &String)>, side: &Side) -> String {
    let Side { study, trials, left_out, .. } = side;
    let value = value.map_or(String::new(), |(by, value)| escape(&format!("{} {value}, ", by.key)));
    let study = escape(study);
    let left_out =
        if left_out.total() > 0 { format!(" ({} left out)", left_out.text()) } else { String::new() };
    let nobody = side.nobody.as_ref().map_or(String::new(), |why| wrap(&escape(why), WIDTH, "  "));
    format!("{name}: {value}study {study}, {trials} trials{left_out}\n{nobody}")
}

/// What is not compared if a store is emulated.
fn emulated(comparison: &Comparison) -> String {
    let which = match (&comparison.before.emulated, &comparison.after.emulated) {
        (None, None) => return String::new(),
        (Some(emulator), None) => format!("the store before was emulated by {emulator}"),
        (None, Some(emulator)) => format!("the store after was emulated by {emulator}"),
        (Some(emulator), Some(_)) if comparison.by.is_some() => {
            format!("the store was emulated by {emulator}")
        }
        (Some(before), Some(after)) if before == after => format!("both stores were emulated by {before}"),
        (Some(before), Some(after)) => format!("the stores were emulated by {before} and by {after}"),
    };
    let words = format!("{which}: times mean nothing there and are not compared; only counts per I/O are");
    wrap(&escape(&words), WIDTH, "")
}

fn differences(comparison: &Comparison) -> String {
    if comparison.differences.is_empty() {
        return "the stores record no difference in machine, kernel, drive, versions or settings\n"
            .to_owned();
    }
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    Table::of(&comparison.differences)
        .left("what differs", |one| one.name.clone())
        .left("before", |one| value(&one.before))
        .left("after", |one| value(&one.after))
        .text()
}

fn changes(comparison: &Comparison) -> String {
    let workload = |change: &Change| change.cell.workload.title();
    let several =
        comparison.changes.iter().any(|change| workload(change) != workload(&comparison.changes[0]));
    // A cell shows the earlier side's value of what distinguishes the sides.
    let is_by = |keys: &[&str]| comparison.by.as_ref().is_some_and(|by| keys.contains(&by.key.as_str()));
    let path_heading = if is_by(&["path", "generator"]) { "path before" } else { "path" };
    let workload_heading = if is_by(&Axis::ALL.map(Axis::as_str)) { "workload before" } else { "workload" };
    let mean = |metric, mean: Option<SampleMean>| or_dash(mean, |mean| value(metric, mean.mean));
    let measured: Vec<&Change> =
        comparison.changes.iter().filter(|change| change.outcome != ChangeOutcome::NotMeasured).collect();
    let mut table = Table::of(&measured)
        .left(path_heading, |change| name(&change.cell) + if change.marked { MARK } else { "" });
    if several {
        table = table.left(workload_heading, |change| workload(change));
    }
    let interval = |(low, high)| format!("{} to {}", change_percent(low), change_percent(high));
    let table = table
        .left("metric", |change| title(change.metric, comparison.figure.as_ref()))
        .right("before", |change| mean(change.metric, change.before))
        .right("after", |change| mean(change.metric, change.after))
        .right("change", |change| or_dash(change.ratio, change_percent))
        .right("95 % interval", |change| or_dash(change.interval, interval))
        .right("could see", |change| or_dash(change.least, seen))
        .right("p", |change| or_dash(change.p_holm, probability))
        .left("result", |change| result(change));
    let heading = match several {
        true => String::new(),
        false if workload_heading == "workload" => workload(&comparison.changes[0]) + "\n",
        false => format!("{workload_heading}: {}\n", workload(&comparison.changes[0])),
    };
    if measured.is_empty() { String::new() } else { heading + &table.text() }
}

/// The outcome, and what would decide it.
fn result(change: &Change) -> String {
    let word = change.outcome.as_str();
    match (change.outcome, change.more) {
        (ChangeOutcome::Undecided, Some(1)) => format!("{word}: about 1 more replicate"),
        (ChangeOutcome::Undecided, Some(more)) => format!("{word}: about {more} more replicates"),
        (ChangeOutcome::Undecided, None) if change.p.is_some() => {
            format!("{word}: more than {MOST_MORE} more replicates")
        }
        (ChangeOutcome::Undecided, None) => format!("{word}: one replicate"),
        _ => word.to_owned(),
    }
}

/// The cells in common that have nothing to compare.
fn not_measured(comparison: &Comparison) -> String {
    let lacking = |change: &&Change| change.outcome == ChangeOutcome::NotMeasured;
    let mut text = String::new();
    for (cell, metrics) in
        grouped(comparison.changes.iter().filter(lacking).map(|change| (&change.cell, change.metric)))
    {
        let what = if metrics.len() == comparison.metrics.len() {
            "no trial competes on both sides".to_owned()
        } else {
            let figure = comparison.figure.as_ref();
            list(&metrics.iter().map(|metric| figure::title(*metric, figure)).collect::<Vec<_>>())
        };
        text += &format!("  {}\n", escape(&format!("{}, {}: {what}", name(cell), cell.workload.title())));
    }
    if text.is_empty() { text } else { format!("not measured on both sides, and so not compared:\n{text}") }
}

fn name(cell: &ComparedCell) -> String {
    path_name(cell.path, cell.generator, &cell.settings)
}

fn title(metric: Metric, figure: Option<&FigureName>) -> String {
    match metric.unit() {
        _ if metric.is_figure() => {
            escape(&format!("{}, {}", figure::title(metric, figure), figure::unit(metric, figure)))
        }
        "ns" => format!("{}, us", metric.title()),
        "per I/O" | "% of one core" => format!("{}, {}", metric.title(), metric.unit()),
        "W" | "IO/J" => format!("{}, {}", metric.title(), metric.unit()),
        _ => metric.title().to_owned(),
    }
}

/// Four significant digits; latencies in us.
fn value(metric: Metric, mean: f64) -> String {
    let mean = if metric.unit() == "ns" { mean / 1000.0 } else { mean };
    match mean.abs() {
        n if n >= 1000.0 => format!("{mean:.0}"),
        n if n >= 100.0 => format!("{mean:.1}"),
        n if n >= 10.0 => format!("{mean:.2}"),
        _ => format!("{mean:.3}"),
    }
}

fn change_percent(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    // A change that rounds to zero has no sign.
    if percent.abs() < 0.05 { "0.0 %".to_owned() } else { format!("{percent:+.1} %") }
}

/// The least change that would have been seen.
fn seen(least: f64) -> String {
    if least > 10.0 { "> 1000 %".to_owned() } else { percent(least) }
}

fn probability(p: f64) -> String {
    p_text(p, 4)
}

fn summary(comparison: &Comparison) -> String {
    let count = |outcome| comparison.changes.iter().filter(|change| change.outcome == outcome).count();
    let tests = comparison.changes.iter().filter(|change| change.p.is_some()).count();
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = writeln!(
        text,
        "{} cells, {} metrics each: {} worse, {} better, {} equal, {} undecided, {} not measured",
        comparison.changes.len() / comparison.metrics.len(),
        comparison.metrics.len(),
        count(ChangeOutcome::Worse),
        count(ChangeOutcome::Better),
        count(ChangeOutcome::Equal),
        count(ChangeOutcome::Undecided),
        count(ChangeOutcome::NotMeasured),
    );
    let test =
        if comparison.in_blocks { "the t-test of the differences within blocks" } else { "Welch's test" };
    let looks = match comparison.looks {
        1 => String::new(),
        looks => format!(", times the {looks} looks of a number of replicates that was decided while it ran"),
    };
    let words = format!(
        "change is the mean after over the mean before, its interval after Fieller; of percentiles both are \
         of logarithms; p is of {test}{looks}, corrected after Holm over the {tests} tests of this table; \
         worse and better: p is below {LEVEL}; equal: no such difference, and the two are equivalent within \
         {} % by two one-sided tests with the same corrections; undecided: neither, and more replicates of \
         both would decide; could see: the smallest change that would have been seen four times out of five",
        100.0 * comparison.tolerance
    );
    text += &wrap(&words, WIDTH, "");
    if comparison.changes.iter().any(|change| change.marked) {
        text += &wrap(LEGEND, WIDTH, "");
    }
    if comparison.unpaired > 0 {
        text += &format!(
            "{} trials are left out because their block lacks the other side's\n",
            comparison.unpaired
        );
    }
    if comparison.changes.iter().any(|one| one.outcome == ChangeOutcome::Undecided && one.p.is_none()) {
        let what = if comparison.by.is_some() { "the study" } else { "both studies" };
        text +=
            &format!("one replicate shows no noise: run {what} with `--replicates 5` or more to decide\n");
    }
    text += &energy(comparison);
    text
}

/// The source of the energy, or why energy is not compared.
fn energy(comparison: &Comparison) -> String {
    let words = match (&comparison.energy, &comparison.before.energy, &comparison.after.energy) {
        (Some(source), ..) => {
            format!(
                "energy (W, IO/J): {source}; a gain that its meter has in both stores cancels in the change"
            )
        }
        (None, Some(before), Some(after)) => format!(
            "energy (W, IO/J, B/J): not compared because the stores have no meter and scope in common: \
             {before} before, {after} after"
        ),
        (None, Some(before), None) => format!("energy (W, IO/J, B/J): {before} before, not measured after"),
        (None, None, Some(after)) => format!("energy (W, IO/J, B/J): not measured before, {after} after"),
        (None, None, None) => "energy (W, IO/J, B/J): not measured".to_owned(),
    };
    wrap(&escape(&words), WIDTH, "")
}

/// The cells that would be compared but for a few keys, under the keys in which they differ.
fn near(pairs: &[NearCells]) -> String {
    let mut text = String::new();
    for (differences, alike) in grouped(pairs.iter().map(|near| (&near.differences, near))) {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        let one = |difference: &SideDifference| {
            let SideDifference { name, before, after } = difference;
            format!("{name} ({} before, {} after)", value(before), value(after))
        };
        let differences: Vec<String> = differences.iter().map(one).collect();
        text += &wrap(&escape(&format!("not compared, because of {}:", list(&differences))), WIDTH, "");
        for NearCells { before, .. } in alike {
            text += &format!("  {}\n", escape(&format!("{}, {}", name(before), before.workload.title())));
        }
    }
    text
}

fn only<'a>(side: &str, cells: impl Iterator<Item = &'a ComparedCell>) -> String {
    let line = |cell: &ComparedCell| {
        let (title, length) = (cell.workload.title(), cell.workload.length_text());
        format!("  {}\n", escape(&format!("{}, {title}, {length}", name(cell))))
    };
    let lines: String = cells.map(line).collect();
    if lines.is_empty() { lines } else { format!("only {side}, and so not compared:\n{lines}") }
}

#[cfg(test)]
mod tests;
