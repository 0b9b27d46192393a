//! The report of a store as text: a table a workload, and what to know beside it.

use super::emulated::{self, banner};
use super::energy;
use super::grid::{Align, Grid, escape, wrap};
use super::number::thousands;
use super::steady;
use crate::analysis::Admission;
use crate::analysis::admission::{LEGEND, MARK};
use crate::analysis::cost::{Costs, PerIo, any_sampled};
use crate::analysis::{CellMeans, CellRow, WorkloadTable, workload_tables};
use iopj_core::VerdictKind;
use iopj_store::{Generator, Measurement, StudyRecord, Trial, Unavailable};
use std::fmt::Write;

/// Columns of running text.
pub(super) const WIDTH: usize = 120;

/// The whole report; ranked are the trials that compete.
pub fn report(study: &StudyRecord, trials: &[Trial], admission: Admission) -> String {
    let mut text = String::new();
    let fact = |name: &str| study.provenance.get(name).map(|value| escape(value));
    if let Some(emulator) = &study.emulated {
        text += &wrap(&escape(&banner(emulator)), WIDTH, "");
    }
    // Writing into a string cannot fail.
    let _ =
        writeln!(text, "study {}: {} of {} trials", escape(&study.name), trials.len(), study.planned_trials);
    let place = [
        fact("devices").filter(|d| !d.is_empty()),
        fact("kernel").map(|k| format!("Linux {k}")),
        fact("cpu_model"),
    ];
    let _ = writeln!(
        text,
        "target {}",
        [Some(escape(&study.target))].into_iter().chain(place).flatten().collect::<Vec<_>>().join(", ")
    );
    for warning in &study.warnings {
        let _ = writeln!(text, "warning: {}", escape(warning));
    }
    let tables = workload_tables(study, trials, admission);
    for table in &tables {
        text.push('\n');
        text += &table_text(table);
        if table.emulated.is_some() {
            text.extend(
                emulated::lines(trials, &table.workload, admission)
                    .iter()
                    .map(|line| wrap(&escape(line), WIDTH, "  ")),
            );
        }
    }
    text.push('\n');
    text += &footer(study, trials, &tables, admission);
    text
}

fn table_text(table: &WorkloadTable) -> String {
    let several_generators = table.rows.iter().any(|row| row.generator != table.rows[0].generator);
    let with_costs =
        table.rows.iter().any(|row| row.figures.as_ref().is_some_and(|figures| figures.costs.is_some()));
    let mut columns = vec![("path", Align::Left), ("verdict", Align::Left)];
    let figures: &[&str] = if table.emulated.is_some() { &COUNTS } else { &TIMES };
    columns
        .extend(figures.iter().chain(COSTS.iter().filter(|_| with_costs)).map(|name| (*name, Align::Right)));
    let energy = energy::columns(table);
    columns.extend(energy.iter().flat_map(|energy| energy.headings()).map(|name| (name, Align::Right)));
    let mut grid = Grid::new(&columns);
    for row in &table.rows {
        let mut cells =
            vec![name(row, several_generators) + if row.marked { MARK } else { "" }, verdict(row)];
        if let Some(figures) = &row.figures {
            cells.extend(if table.emulated.is_some() {
                count_cells(figures)
            } else {
                time_cells(figures, row.slower)
            });
            let without = || vec![String::new(); if with_costs { COSTS.len() } else { 0 }];
            cells.extend(figures.costs.as_ref().map_or_else(without, cost_cells));
            cells.extend(energy.iter().flat_map(|energy| energy.cells(figures)));
        }
        grid.row(cells);
    }
    let replicates =
        table.rows.iter().map(|row| row.verdicts.iter().map(|(_, n)| n).sum::<usize>() + row.failed).max();
    let mut text = format!(
        "{}, {}, {}{}\n",
        table.workload.title(),
        table.workload.length_text(),
        plural(replicates.unwrap_or(0), "replicate"),
        energy.as_ref().map_or(String::new(), |energy| escape(&energy.heading()))
    );
    text += &grid.render();
    for row in &table.rows {
        for reason in &row.reasons {
            text += &wrap(&format!("* {}: {}", name(row, several_generators), escape(reason)), WIDTH, "  ");
        }
        if row.short_ios > 0 {
            let _ = writeln!(
                text,
                "  * {}: {} I/Os moved fewer bytes than asked for",
                name(row, several_generators),
                row.short_ios
            );
        }
    }
    if let Some(words) = table.rows.iter().find_map(|row| row.preconditioning.as_ref()) {
        let _ = writeln!(text, "  * target: {}", escape(words));
    }
    text
}

/// Columns of a table whose times mean something.
const TIMES: [&str; 10] =
    ["IOPS", "spread", "mean us", "p50", "p99", "p99.9", "CPU %", "ctx/IO", "irq/IO", "slower"];

/// Columns of an emulated table.
const COUNTS: [&str; 4] = ["ctx/IO", "irq/IO", "sys/IO", "slept/IO"];

/// Columns beside either where there are costs.
const COSTS: [&str; 6] = ["kernel instr", "loads", "stores", "user instr", "loads", "stores"];

fn time_cells(figures: &CellMeans, slower: Option<f64>) -> Vec<String> {
    let Some(times) = &figures.times else { return vec!["-".to_owned(); TIMES.len()] };
    let us = |ns: f64| decimal(ns / 1000.0);
    vec![
        thousands(times.iops),
        times.iops_spread.map_or("-".to_owned(), |spread| format!("{:.1} %", 100.0 * spread)),
        us(times.mean_ns),
        us(times.p50_ns),
        us(times.p99_ns),
        us(times.p99_9_ns),
        format!("{:.0}", times.cpu_percent),
        per_io(Some(figures.context_switches_per_io)),
        per_io(figures.interrupts_per_io),
        slower.map_or("-".to_owned(), |slower| {
            if slower == 0.0 { "0".to_owned() } else { format!("+{:.1} %", 100.0 * slower) }
        }),
    ]
}

fn count_cells(figures: &CellMeans) -> Vec<String> {
    let counts = [
        Some(figures.context_switches_per_io),
        figures.interrupts_per_io,
        figures.system_calls_per_io,
        figures.sleeps_per_io,
    ];
    counts.map(per_io).into()
}

fn per_io(count: Option<f64>) -> String {
    count.map_or("-".to_owned(), |count| format!("{count:.2}"))
}

/// Whole numbers; samples are marked.
fn cost_cells(costs: &Costs) -> Vec<String> {
    let mark = if costs.sampled { "~" } else { "" };
    let cell =
        |count: Option<f64>| count.map_or("-".to_owned(), |count| format!("{mark}{}", thousands(count)));
    let of = |PerIo { instructions, loads, stores }: PerIo| [instructions, loads, stores].map(cell);
    [of(costs.kernel), of(costs.user)].concat()
}

pub(super) fn name(row: &CellRow, several_generators: bool) -> String {
    let mut name = row.path.to_string();
    if several_generators || row.generator == Generator::Fio {
        name += &format!(" ({})", row.generator.as_str());
    }
    for (setting, value) in &row.settings {
        name += &format!(" {setting}={value}");
    }
    name
}

fn verdict(row: &CellRow) -> String {
    let mut words: Vec<String> = match &row.verdicts[..] {
        [(kind, _)] => vec![kind.as_str().to_owned()],
        several => several.iter().map(|(kind, count)| format!("{count} {}", kind.as_str())).collect(),
    };
    if row.failed > 0 {
        words.push(format!("{} failed", row.failed));
    }
    words.join(", ")
}

fn footer(study: &StudyRecord, trials: &[Trial], tables: &[WorkloadTable], admission: Admission) -> String {
    let mut text = String::from(if study.emulated.is_some() {
        "Counts are means over replicates, per I/O; context switches are of all threads that do or serve the \
         I/O, slept/IO of\nthe jobs alone: with one I/O in flight the share of I/Os that slept.\n"
    } else {
        "IOPS and mean latency are means over replicates, percentiles those of all their I/Os; spread is the \
         relative standard\ndeviation of the replicates' IOPS. Latency runs from just before an I/O is \
         pushed until it is seen to be complete.\nCPU % is of one core, over all threads that do or serve \
         the I/O, as are context switches.\n"
    });
    let measured: Vec<_> = trials.iter().filter_map(|trial| trial.outcome.measurement()).collect();
    if Costs::of(&measured).is_some() {
        text += "instr, loads and stores are per I/O, of all that ran in the window on any core\n";
    }
    if any_sampled(trials) {
        text += "~ sampled: a count is samples by their period, not exact\n";
    }
    let energy = tables.iter().find_map(energy::columns);
    text.extend(energy.iter().map(|energy| wrap(&energy.words(), WIDTH, "")));
    if study.emulated.is_some() {
        text += &wrap(emulated::CAVEAT, WIDTH, "");
    }
    let count = |kind| measured.iter().filter(|measurement| measurement.verdict.kind == kind).count();
    let _ = writeln!(
        text,
        "verdicts: {} verified, {} refuted, {} unproven ({} left out of the ranking); {} failed",
        count(VerdictKind::Verified),
        count(VerdictKind::Refuted),
        count(VerdictKind::Unproven),
        if admission.with_unproven { "refuted ones" } else { "both" },
        trials.len() - measured.len()
    );
    let disturbed = measured.iter().filter(|measurement| admission.is_disturbed(measurement)).count();
    if disturbed > 0 {
        let ranked = if admission.with_unproven { "ranked with a mark" } else { "left out of the ranking" };
        let _ =
            writeln!(text, "conditions: {disturbed} of {} trials were disturbed ({ranked})", measured.len());
    }
    if tables.iter().flat_map(|table| &table.rows).any(|row| row.marked) {
        text += &wrap(LEGEND, WIDTH, "");
    }
    text.extend(admission.why_none_competes(trials).map(|why| wrap(&escape(&why), WIDTH, "")));
    text.extend(energy.iter().map(|energy| energy::incomplete_text(trials, energy.source, WIDTH)));
    text += &remarks(study, trials, admission);
    if !study.unavailable.is_empty() {
        text += "not available here:\n";
        text += &unavailable(&study.unavailable);
    }
    text
}

/// What to know about the figures of this store.
fn remarks(study: &StudyRecord, trials: &[Trial], admission: Admission) -> String {
    let by_fio = || trials.iter().filter(|trial| trial.generator == Generator::Fio);
    let mut text = String::new();
    if study.emulated.is_none() {
        text += &steady::remarks(study, trials, admission);
        let sampled = |trial: &Trial| trial.outcome.measurement().and_then(|m| m.evidence.irq_time_sampled);
        if trials.iter().any(|trial| sampled(trial) == Some(true)) {
            text += "this kernel only samples irq time: short interrupts are missing from CPU time by kind\n";
        }
    }
    if by_fio().next().is_some() {
        text += "fio submits and waits in separate system calls, as `+split` does, and asks aio_error \
                 before it sleeps for posix-aio;\n";
    }
    // Imported figures are fio's own, which leave its start out.
    let has_start = |m: &Measurement| m.evidence.rings.is_none() && m.window_raw_ns.is_some();
    let with_start =
        by_fio().filter_map(|trial| trial.outcome.measurement()).filter(|m| has_start(m)).count();
    if with_start > 0 {
        let what = if study.emulated.is_none() {
            "CPU time (some 0.15 s) and context switches (200)"
        } else {
            "context switches (some 200)"
        };
        let (trials, hold) = if with_start == 1 { ("trial", "holds") } else { ("trials", "hold") };
        text += &format!(
            "{with_start} {trials} of fio {hold} {what} of its start: the begin of its jobs was not seen\n"
        );
    }
    text
}

/// The reasons, each with all the paths that it keeps away.
pub(super) fn by_reason(paths: &[Unavailable]) -> Vec<(&Unavailable, Vec<String>)> {
    let mut reasons: Vec<(&Unavailable, Vec<String>)> = Vec::new();
    for path in paths {
        match reasons.iter_mut().find(|(other, _)| other.reason == path.reason && other.remedy == path.remedy)
        {
            Some((_, paths)) => paths.push(path.path.to_string()),
            None => reasons.push((path, vec![path.path.to_string()])),
        }
    }
    reasons
}

/// A line for each reason, with all the paths that it keeps away.
pub fn unavailable(paths: &[Unavailable]) -> String {
    let line = |(why, paths): (&Unavailable, Vec<String>)| {
        let remedy =
            if why.remedy.is_empty() { String::new() } else { format!(" (remedy: {})", escape(&why.remedy)) };
        wrap(&paths.join(", "), WIDTH, "  ")
            + &wrap(&format!("{}{remedy}", escape(&why.reason)), WIDTH, "    ")
    };
    by_reason(paths).into_iter().map(line).collect()
}

fn plural(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A number with three or more significant digits.
fn decimal(number: f64) -> String {
    match number {
        n if n >= 1000.0 => thousands(n),
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod emulated_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!([0.5, 12.34, 123.4, 12345.0].map(decimal), ["0.50", "12.3", "123", "12,345"]);
    }
}
