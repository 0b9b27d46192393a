//! The report of a store as text: a table a workload, and what to know beside it.

use super::grid::{Align, Grid, escape, wrap};
use super::number::thousands;
use crate::analysis::steady::unsteady;
use crate::analysis::{Row, Table, tables};
use iopj_core::VerdictKind;
use iopj_store::{Generator, StudyRecord, Trial, Unavailable};
use std::fmt::Write;

/// Columns of running text.
const WIDTH: usize = 120;

/// The whole report.
pub fn report(study: &StudyRecord, trials: &[Trial]) -> String {
    let mut text = String::new();
    let fact = |name: &str| study.provenance.get(name).map(|value| escape(value));
    // Writing into a string cannot fail.
    let _ = writeln!(text, "study {}: {} of {} trials", escape(&study.name), trials.len(), study.planned_trials);
    let place =
        [fact("devices").filter(|d| !d.is_empty()), fact("kernel").map(|k| format!("Linux {k}")), fact("cpu_model")];
    let _ = writeln!(
        text,
        "target {}",
        [Some(escape(&study.target))].into_iter().chain(place).flatten().collect::<Vec<_>>().join(", ")
    );
    for warning in &study.warnings {
        let _ = writeln!(text, "warning: {}", escape(warning));
    }
    let tables = tables(trials);
    for table in &tables {
        text.push('\n');
        text += &table_text(table);
    }
    text.push('\n');
    text += &footer(study, trials);
    text
}

fn table_text(table: &Table) -> String {
    let several_generators = table.rows.iter().any(|row| row.generator != table.rows[0].generator);
    let mut grid = Grid::new(&[
        ("path", Align::Left),
        ("verdict", Align::Left),
        ("IOPS", Align::Right),
        ("spread", Align::Right),
        ("mean us", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("p99.9", Align::Right),
        ("CPU %", Align::Right),
        ("ctx/IO", Align::Right),
        ("irq/IO", Align::Right),
        ("slower", Align::Right),
    ]);
    for row in &table.rows {
        grid.row(cells(row, several_generators));
    }
    let replicates = table.rows.iter().map(|row| row.verdicts.iter().map(|(_, n)| n).sum::<usize>() + row.failed).max();
    let mut text = format!(
        "{}, {}, {}\n",
        table.workload.title(),
        table.workload.length_text(),
        plural(replicates.unwrap_or(0), "replicate")
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

fn cells(row: &Row, several_generators: bool) -> Vec<String> {
    let mut cells = vec![name(row, several_generators), verdict(row)];
    let Some(figures) = &row.figures else { return cells };
    let us = |ns: f64| decimal(ns / 1000.0);
    cells.extend([
        thousands(figures.iops),
        figures.iops_spread.map_or("-".to_owned(), |spread| format!("{:.1} %", 100.0 * spread)),
        us(figures.mean_ns),
        us(figures.p50_ns),
        us(figures.p99_ns),
        us(figures.p99_9_ns),
        format!("{:.0}", figures.cpu_percent),
        format!("{:.2}", figures.context_switches_per_io),
        figures.interrupts_per_io.map_or("-".to_owned(), |interrupts| format!("{interrupts:.2}")),
        row.slower.map_or("-".to_owned(), |slower| {
            if slower == 0.0 { "0".to_owned() } else { format!("+{:.1} %", 100.0 * slower) }
        }),
    ]);
    cells
}

fn name(row: &Row, several_generators: bool) -> String {
    let mut name = row.path.to_string();
    if several_generators || row.generator == Generator::Fio {
        name += &format!(" ({})", row.generator.as_str());
    }
    for (setting, value) in &row.settings {
        name += &format!(" {setting}={value}");
    }
    name
}

fn verdict(row: &Row) -> String {
    let mut words: Vec<String> = match &row.verdicts[..] {
        [(kind, _)] => vec![kind.as_str().to_owned()],
        several => several.iter().map(|(kind, count)| format!("{count} {}", kind.as_str())).collect(),
    };
    if row.failed > 0 {
        words.push(format!("{} failed", row.failed));
    }
    words.join(", ")
}

fn footer(study: &StudyRecord, trials: &[Trial]) -> String {
    let mut text = String::from(
        "IOPS and mean latency are means over replicates, percentiles those of all their I/Os; spread is the relative standard\n\
         deviation of the replicates' IOPS. Latency runs from just before an I/O is pushed until it is seen to be complete.\n\
         CPU % is of one core, over all threads that do or serve the I/O, as are context switches.\n",
    );
    let measured: Vec<_> = trials.iter().filter_map(|trial| trial.outcome.measurement()).collect();
    let count = |kind| measured.iter().filter(|measurement| measurement.verdict.kind == kind).count();
    let _ = writeln!(
        text,
        "verdicts: {} verified, {} refuted (left out of the ranking), {} unproven; {} failed",
        count(VerdictKind::Verified),
        count(VerdictKind::Refuted),
        count(VerdictKind::Unproven),
        trials.len() - measured.len()
    );
    text += &unsteady_text(trials);
    if measured.iter().any(|measurement| measurement.evidence.irq_time_sampled == Some(true)) {
        text += "this kernel only samples irq time: short interrupts are missing from CPU time by kind\n";
    }
    if trials.iter().any(|trial| trial.generator == Generator::Fio) {
        text += "fio submits and waits in separate system calls, as `+split` does, and asks aio_error before it sleeps for posix-aio;\n\
                 its CPU time and context switches include its start, some 0.15 s and 200 switches\n";
    }
    if !study.unavailable.is_empty() {
        text += "not available here:\n";
        text += &unavailable(&study.unavailable);
    }
    text
}

/// Trials whose figures are to be read with care. They count like all others.
fn unsteady_text(trials: &[Trial]) -> String {
    const MOST: usize = 8;
    let flags = unsteady(trials);
    let line = |flag: &crate::analysis::steady::Flag| {
        let trial = &trials[flag.trial];
        let what =
            format!("{}, {}, replicate {}: {}", trial.path, trial.workload.title(), trial.replicate, flag.reason);
        wrap(&what, WIDTH, "  ")
    };
    let mut text = String::new();
    if !flags.is_empty() {
        text += &format!("not steady, to be read with care (docs/statistics.md): {}\n", flags.len());
        text.extend(flags.iter().take(MOST).map(line));
    }
    if flags.len() > MOST {
        text += &format!("  and {} more\n", flags.len() - MOST);
    }
    text
}

/// The reasons, each with all the paths that it keeps away.
pub(super) fn by_reason(paths: &[Unavailable]) -> Vec<(&Unavailable, Vec<String>)> {
    let mut reasons: Vec<(&Unavailable, Vec<String>)> = Vec::new();
    for path in paths {
        match reasons.iter_mut().find(|(other, _)| other.reason == path.reason && other.remedy == path.remedy) {
            Some((_, paths)) => paths.push(path.path.to_string()),
            None => reasons.push((path, vec![path.path.to_string()])),
        }
    }
    reasons
}

/// A line for each reason, with all the paths that it keeps away.
pub fn unavailable(paths: &[Unavailable]) -> String {
    let line = |(why, paths): (&Unavailable, Vec<String>)| {
        let remedy = if why.remedy.is_empty() { String::new() } else { format!(" (remedy: {})", escape(&why.remedy)) };
        wrap(&paths.join(", "), WIDTH, "  ") + &wrap(&format!("{}{remedy}", escape(&why.reason)), WIDTH, "    ")
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
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!([0.5, 12.34, 123.4, 12345.0].map(decimal), ["0.50", "12.3", "123", "12,345"]);
    }
}
