//! Predictions and their scores as text.

use iopj_core::IoPath;
use iopj_model::answers::{Group, Lead, Scores};
use iopj_model::{
    Basis, Case, Change, Kernel, Model, Prediction, Quantity, Score, Scored, Turn, by_quantity, score,
};
use iopj_report::{Table, WIDTH, escape, wrap};
use std::fmt::Write;

/// Fewest significant digits of a value.
const DIGITS: i32 = 4;
/// What the table has; the rest is in JSON.
const SHOWN: [Quantity; 7] = [
    Quantity::Iops,
    Quantity::LatencyMean,
    Quantity::LatencyP99,
    Quantity::CpuPerIo,
    Quantity::Instructions,
    Quantity::Watts,
    Quantity::IosPerJoule,
];
/// Turns that are shown of a lead.
const TURNS: usize = 2;
/// The least probability of a lead that is called one.
const LEAD: f64 = 0.6;

/// The predictions of each workload, with what they rest on.
pub(super) fn groups(model: &Model, groups: &[Group]) -> String {
    let fact = |name: &str| model.provenance.get(name).map_or("", String::as_str);
    let mut text = format!(
        "{} cells with {} quantities calibrate the model; data decide {:.1} of its {} parameters\n",
        model.cases.len(),
        model.data,
        model.decided(),
        model.parameters().count()
    );
    let kernel = match fact("kernel") {
        "" => String::new(),
        kernel => format!("Linux {kernel}"),
    };
    let machine = [fact("devices"), &kernel, fact("cpu_model")];
    let machine: Vec<&str> = machine.into_iter().filter(|one| !one.is_empty()).collect();
    if !machine.is_empty() {
        text += &wrap(&format!("calibrated on {}", escape(&machine.join(", "))), WIDTH, "");
    }
    text += &model.kernel().map_or(String::new(), kernel_changes);
    text += "\u{b1}: a measurement is that near with a probability of 90 %\n";
    for group in groups {
        text += &format!("\n{}\n", group.workload);
        text += &table(group);
        text.extend(group.leads.iter().map(lead));
        text += &behind(group);
        text += &bases(group);
        text += &without(group);
    }
    text
}

/// By how much the instructions of an I/O change.
fn kernel_changes(kernel: &Kernel) -> String {
    let change = |(path, change): (&IoPath, &Change)| {
        let [all, own] = [change.ratio, change.kernel_ratio].map(|ratio| (ratio - 1.0) * 100.0);
        format!("{path} {all:+.1} % (the kernel's own {own:+.1} %)")
    };
    let changes: Vec<String> = kernel.changes.iter().map(change).collect();
    let changes =
        if changes.is_empty() { "on no path that both have".to_owned() } else { changes.join(", ") };
    let text = format!(
        "the kernel is {}; with those of user space, which stay, those of an I/O change: {changes}",
        kernel.name
    );
    wrap(&escape(&text), WIDTH, "")
}

fn table(group: &Group) -> String {
    if group.rows.is_empty() {
        return String::new();
    }
    let mut table = Table::of(&group.rows).left("path", |row: &Vec<Prediction>| path(&row[0].case));
    for quantity in SHOWN {
        if group.rows.iter().flatten().any(|one| one.quantity == quantity) {
            table = table.right(quantity.shown().0, |row: &Vec<Prediction>| {
                let grows = group.grows && group.behind.iter().any(|(case, _)| *case == row[0].case);
                match row.iter().find(|one| one.quantity == quantity) {
                    None => "-".to_owned(),
                    Some(_) if grows && quantity.is_latency() => "grows".to_owned(),
                    Some(one) => with_interval(one),
                }
            });
        }
    }
    table.text()
}

fn path(case: &Case) -> String {
    case.path.to_string()
}

fn with_interval(one: &Prediction) -> String {
    let (_, factor) = one.quantity.shown();
    let reach = (one.interval[1] / one.value - 1.0) * 100.0;
    format!("{} \u{b1}{:.0} %", digits(one.value * factor), reach.ceil().min(999.0))
}

/// A number with four significant digits.
fn digits(value: f64) -> String {
    let whole = value.abs().max(1e-9).log10().floor() as i32 + 1;
    let decimals = (DIGITS - whole).clamp(0, 3);
    format!("{value:.*}", decimals as usize)
}

/// Which path is the best in a quantity, how sure that is, and what would change it.
fn lead(lead: &Lead) -> String {
    let [first, second] = lead.pair.map(|case| case.path);
    let sure = (lead.probability * 100.0).floor().min(99.0);
    let most = match lead.quantity {
        Quantity::Iops => "most IOPS",
        Quantity::IosPerJoule => "most I/Os per joule",
        Quantity::CpuPerIo => "least CPU time",
        _ => "least p99",
    };
    if lead.probability < LEAD {
        return wrap(&format!("{most}: {first} or {second}, too close to tell"), WIDTH, "  ");
    }
    let mut text = format!("{most}: {first}, ahead of {second} with a probability of {sure:.0} %");
    let turns = lead.turns.iter().flatten().take(TURNS).map(turn).collect::<Vec<String>>();
    match turns.split_last() {
        None if lead.turns.is_none() => {}
        None => text += "; no parameter within a factor of 16 changes that",
        Some((last, [])) => _ = write!(text, "; not so where {last}"),
        Some((last, rest)) => _ = write!(text, "; not so where {} or {last}", rest.join(", ")),
    }
    wrap(&text, WIDTH, "  ")
}

fn turn(turn: &Turn) -> String {
    let beyond = if turn.at > turn.now { "above" } else { "below" };
    let unit = match turn.parameter.unit() {
        "1" => String::new(),
        unit => format!(" {unit}"),
    };
    let [at, now] = [turn.at, turn.now].map(digits);
    format!("`{}` is {beyond} {at}{unit} (now {now})", turn.parameter)
}

/// Which paths fall behind an open load or a trace, and how sure that is.
fn behind(group: &Group) -> String {
    let line = |(case, share): &(Case, f64)| format!("{} ({:.0} %)", case.path, share * 100.0);
    let paths: Vec<String> = group.behind.iter().map(line).collect();
    if paths.is_empty() {
        return String::new();
    }
    let how = match group.grows {
        true => "with a latency that grows while the load lasts",
        false => "with a last I/O that is late by more than 1 % of the trace's time",
    };
    let text =
        format!("falls behind, {how} (in so many of the draws of the parameters): {}", paths.join(", "));
    wrap(&text, WIDTH, "  ")
}

/// What is extrapolated, and which paths are interpolated, said once for all paths of which it is true.
fn bases(group: &Group) -> String {
    let mut said: Vec<(&[String], Vec<String>)> = Vec::new();
    for row in &group.rows {
        let beyond = match &row[0].basis {
            Basis::Interpolated => &[],
            Basis::Extrapolated(beyond) => beyond.as_slice(),
        };
        match said.iter_mut().find(|(one, _)| *one == beyond) {
            Some((_, paths)) => paths.push(path(&row[0].case)),
            None => said.push((beyond, vec![path(&row[0].case)])),
        }
    }
    let whom = |paths: &[String]| match paths.len() == group.rows.len() {
        true => "all".to_owned(),
        false => paths.join(", "),
    };
    let line = |(beyond, paths): &(&[String], Vec<String>)| match beyond {
        [] => wrap(&format!("interpolated: {}", whom(paths)), WIDTH, "  "),
        _ => wrap(&format!("extrapolated ({}): {}", whom(paths), beyond.join("; ")), WIDTH, "  "),
    };
    said.iter().map(line).collect()
}

/// Paths without a prediction, those with one reason together.
fn without(group: &Group) -> String {
    let mut said: Vec<(&str, Vec<String>)> = Vec::new();
    for (case, why) in &group.without {
        match said.iter_mut().find(|(one, _)| one == why) {
            Some((_, paths)) => paths.push(path(case)),
            None => said.push((why, vec![path(case)])),
        }
    }
    let line = |(why, paths): &(&str, Vec<String>)| {
        wrap(&format!("not predicted ({}): {why}", paths.join(", ")), WIDTH, "  ")
    };
    said.iter().map(line).collect()
}

/// Errors and coverage by quantity, and every prediction beside its measurement.
pub(super) fn scores(scores: &Scores) -> String {
    let mut text = wrap(&scores.held_back, WIDTH, "");
    let by_quantity: Vec<(Quantity, Score)> = by_quantity(&scores.scored).into_iter().collect();
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let all = Table::of(&by_quantity)
        .left("quantity", |(quantity, _)| quantity.to_string())
        .right("n", |(_, score)| score.n.to_string())
        .right("median error", |(_, score)| percent(score.median))
        .right("90th percentile", |(_, score)| percent(score.p90))
        .right("within the 90 % interval", |(_, score)| coverage(score))
        .right("mean width", |(_, score)| percent(score.width));
    text += &all.text();
    if let Some(whole) = score(scores.scored.iter()) {
        text += &format!(
            "all: median error {}, within the interval {}\n",
            percent(whole.median),
            coverage(&whole)
        );
    }
    if scores.lacking > 0 {
        text += &format!("{} measurements are not predicted: the model lacks a parameter\n", scores.lacking);
    }
    text += "\n";
    text += &scored(&scores.scored);
    text
}

fn coverage(score: &Score) -> String {
    let [low, high] = score.coverage.map(|share| share * 100.0);
    let share = score.covered as f64 / score.n as f64 * 100.0;
    format!("{} of {} = {share:.0} % ({low:.0} to {high:.0})", score.covered, score.n)
}

/// Every prediction beside its measurement.
pub(super) fn scored(scored: &[Scored]) -> String {
    let shown = |value: f64, one: &Scored| digits(value * one.observation.quantity.shown().1);
    Table::of(scored)
        .left("path", |one: &Scored| path(&one.observation.case))
        .left("workload", |one: &Scored| one.observation.case.workload())
        .left("quantity", |one: &Scored| one.observation.quantity.shown().0.to_owned())
        .right("measured", |one: &Scored| shown(one.observation.value, one))
        .right("predicted", |one: &Scored| with_interval(&one.prediction))
        .right("error", |one: &Scored| format!("{:+.1} %", one.error() * 100.0))
        .left("", |one: &Scored| if one.is_covered() { String::new() } else { "outside".to_owned() })
        .text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::Rw;

    #[test]
    fn a_latency_is_said_to_grow_only_where_it_has_no_end() {
        let path = "libaio/syscall/interrupt".parse().unwrap();
        let rw = Rw::Randread;
        let case = Case { path, rw, rwmixread: 50, bs: 4096, iodepth: 8, numjobs: 1, batch: 1, cores: 2 };
        let one = |quantity, value: f64| Prediction {
            case,
            quantity,
            value,
            interval: [value / 1.25, value * 1.25],
            spread: 0.1,
            basis: Basis::Interpolated,
        };
        let rows = vec![vec![one(Quantity::Iops, 20_000.0), one(Quantity::LatencyP99, 3.5e6)]];
        let of = |grows, behind| Group {
            workload: String::new(),
            rows: rows.clone(),
            leads: Vec::new(),
            behind,
            grows,
            without: Vec::new(),
        };
        let row = |group: &Group| {
            table(group).lines().last().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let figures = "libaio/syscall/interrupt 20000 \u{b1}25 % 3500 \u{b1}25 %";
        let [endless, whole] = [true, false].map(|grows| of(grows, vec![(case, 0.75)]));
        assert_eq!(row(&endless), "libaio/syscall/interrupt 20000 \u{b1}25 % grows");
        assert!(behind(&endless).contains("grows while the load lasts"));
        assert_eq!(row(&whole), figures);
        assert!(!behind(&whole).contains("grows") && behind(&whole).contains("(75 %)"));
        assert_eq!(row(&of(true, Vec::new())), figures, "it keeps up");
        assert_eq!(bases(&whole).trim(), "interpolated: all");
    }
}
