//! The report of a store as text: a table for each workload, and what to know about it.

use super::choice;
use super::emulated::{self, banner};
use super::energy::{self, TableEnergy};
use super::kinds;
use super::network::{self, Network};
use super::open_load;
use super::repeats;
use super::results::{NUMBERS, row_name};
use super::table::Table;
use super::text::{WIDTH, escape, wrap};
use super::two_hosts::{self, Lines};
use super::unsteady;
use iopj_analysis::Admission;
use iopj_analysis::admission::{LEGEND, MARK};
use iopj_analysis::cost::{Costs, any_sampled};
use iopj_analysis::figure::FigureName;
use iopj_analysis::grouping::grouped;
use iopj_analysis::noise::Noise;
use iopj_analysis::{CellRow, WorkloadTable, workload_tables};
use iopj_core::VerdictKind;
use iopj_record::{Generator, Measurement, StudyRecord, Trial, Unavailable};
use std::fmt::Write;

/// The whole report; only trials that compete are ranked.
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
        [Some(escape(if study.target.is_empty() { "the program's own" } else { &study.target }))]
            .into_iter()
            .chain(place)
            .flatten()
            .collect::<Vec<_>>()
            .join(", ")
    );
    text += &format!("\n{}", choice::text(&choice::decided(study, trials, admission)));
    for sentence in repeats::sentences(study) {
        text += &wrap(&sentence, WIDTH, "");
    }
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
    if let Some(network) = Network::of(study) {
        let _ = writeln!(text, "\n{}; {}", network::TITLE, network.words());
        text += &network.table(str::to_owned).text();
    }
    text.push('\n');
    text += &footer(study, trials, &tables, admission);
    text
}

fn table_text(table: &WorkloadTable) -> String {
    let several_generators = table.rows.iter().any(|row| row.generator != table.rows[0].generator);
    let name = |row: &CellRow| row_name(row, several_generators);
    let mut grid = Table::of(&table.rows)
        .left("path", |row| name(row) + if row.marked { MARK } else { "" })
        .left("verdict", verdicts);
    let (figures, others): (Vec<_>, Vec<_>) = NUMBERS.iter().partition(|number| number.is_figure());
    for number in figures.into_iter().chain(others).filter(|number| number.is_on_terminal(table)) {
        grid = grid.right(number.terminal_heading(table), |row| number.terminal_cell(row));
    }
    let replicates =
        table.rows.iter().map(|row| row.verdicts.iter().map(|(_, n)| n).sum::<usize>() + row.failed).max();
    let mut text = format!(
        "{}, {}, {}{}\n",
        table.workload.title(),
        table.workload.length_text(),
        plural(replicates.unwrap_or(0), "replicate"),
        TableEnergy::of(table).map_or(String::new(), |energy| escape(&energy.heading()))
    );
    text += &grid.text();
    text.extend(open_load::table(table, &name));
    let kinds = kinds::lines(table, &name);
    if !kinds.is_empty() {
        text += &kinds::table(&kinds).text();
    }
    for row in &table.rows {
        for reason in &row.reasons {
            text += &wrap(&format!("* {}: {}", name(row), escape(reason)), WIDTH, "  ");
        }
        if row.short_ios > 0 {
            let short = row.short_ios;
            let _ = writeln!(text, "  * {}: {short} I/Os moved fewer bytes than asked for", name(row));
        }
    }
    if let Some(words) = table.rows.iter().find_map(|row| row.preconditioning.as_ref()) {
        let _ = writeln!(text, "  * target: {}", escape(words));
    }
    if let Some(lines) = Lines::of(table) {
        for (title, hosts) in lines.tables(&name) {
            let _ = write!(text, "  {title}:\n{}", hosts.text());
        }
    }
    text
}

fn verdicts(row: &CellRow) -> String {
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
    } else if FigureName::of(trials).is_some() {
        "Figures are means over replicates; the window of a program is its life. IOPS and latencies are \
         those of the disks that\nit uses, whoever did the I/O; latencies are sampled from issue to \
         completion. CPU % is of one core, over the program and\nthe servers that are watched, as are \
         context switches.\n"
    } else {
        "IOPS and mean latency are means over replicates, percentiles those of all their I/Os; spread is the \
         relative standard\ndeviation of the replicates' IOPS. Latency runs from just before an I/O is \
         pushed until it is seen to be complete.\nCPU % is of one core, over all threads that do or serve \
         the I/O, as are context switches.\n"
    });
    let measured: Vec<_> = trials.iter().filter_map(|trial| trial.outcome.measurement()).collect();
    if Costs::of(&measured).is_some() {
        text += "instr, loads and stores are per I/O, of everything that ran in the window on any core\n";
    }
    if any_sampled(trials) {
        text += "~ sampled: a count is samples by their period, not exact\n";
    }
    if study.emulated.is_none() {
        text += &open_load::words(tables);
        text.extend(kinds::words(tables).map(|words| wrap(words, WIDTH, "")));
    }
    text.extend(two_hosts::words(tables).iter().map(|words| wrap(words, WIDTH, "")));
    let energy = tables.iter().find_map(TableEnergy::of);
    text.extend(energy.iter().map(|energy| wrap(&energy.words(), WIDTH, "")));
    if study.emulated.is_some() {
        text += &wrap(emulated::CAVEAT, WIDTH, "");
    }
    let count = |kind| measured.iter().filter(|measurement| measurement.verdict.kind == kind).count();
    let failed = trials.len() - measured.len();
    if FigureName::of(trials).is_some() {
        let seen = count(VerdictKind::Seen);
        let _ = writeln!(text, "nothing was asked of the program: {seen} trials seen, {failed} failed");
        return text + &noise_and_remarks(study, trials, tables, admission);
    }
    let _ = writeln!(
        text,
        "verdicts: {} verified, {} refuted, {} unproven ({} left out of the ranking); {} failed",
        count(VerdictKind::Verified),
        count(VerdictKind::Refuted),
        count(VerdictKind::Unproven),
        if admission.with_unproven { "refuted ones" } else { "both" },
        failed
    );
    text + &noise_and_remarks(study, trials, tables, admission)
}

/// What disturbed the trials, and what else to know about the store.
fn noise_and_remarks(
    study: &StudyRecord,
    trials: &[Trial],
    tables: &[WorkloadTable],
    admission: Admission,
) -> String {
    let mut text = String::new();
    let noise = Noise::of(trials, admission).map(|noise| format!("conditions: {noise}"));
    text.extend(noise.map(|noise| wrap(&escape(&noise), WIDTH, "")));
    if tables.iter().flat_map(|table| &table.rows).any(|row| row.marked) {
        text += &wrap(LEGEND, WIDTH, "");
    }
    if study.emulated.is_none() {
        text += &energy::lacks_text(trials, None, WIDTH);
    }
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
        text += &unsteady::remarks(study, trials, admission);
        let sampled = |trial: &Trial| trial.outcome.measurement().and_then(|m| m.evidence.irq_time_sampled);
        if trials.iter().any(|trial| sampled(trial) == Some(true)) {
            text += "this kernel only samples irq time: short interrupts are missing from CPU time by kind\n";
        }
    }
    if by_fio().next().is_some() {
        text += "fio submits and waits in separate system calls, as `+split` does, and asks aio_error \
                 before it sleeps for posix-aio;\n";
    }
    // Imported figures are fio's own, which exclude its start.
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
            "{with_start} {trials} of fio {hold} {what} of its start: the start of its jobs was not seen\n"
        );
    }
    text
}

/// The reasons, each with all the paths that it makes unavailable.
pub(super) fn by_reason(paths: &[Unavailable]) -> Vec<(&Unavailable, Vec<String>)> {
    let reasons = grouped(paths.iter().map(|path| ((&path.reason, &path.remedy), path)));
    let names = |alike: &[&Unavailable]| alike.iter().map(|one| one.path.to_string()).collect();
    reasons.into_iter().map(|(_, alike)| (alike[0], names(&alike))).collect()
}

/// A line for each reason, with all the paths that it makes unavailable.
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

#[cfg(test)]
mod tests;
