//! The papers' tables as text.

use super::emulated::banner;
use super::grid::{Align, Grid, escape, wrap};
use super::number::thousands;
use crate::analysis::Admission;
use crate::analysis::efficiency::{EfficiencyCell, EfficiencyTable, efficiency_tables};
use crate::analysis::loads_stores::{LoadsStoresTable, loads_stores_tables};
use crate::analysis::paper_layouts::{
    self, CompletionTable, DesignRow, LatencyTable, Percentiles, TrialSetup,
};
use crate::analysis::published::{self, LOADS_STORES, LOADS_STORES_TOTAL};
use iopj_core::{Completion, IoPath};
use iopj_store::{EnergySource, StudyRecord, Trial};
use std::fmt::Write;

/// Columns of running text.
const WIDTH: usize = 120;

/// All tables of a store; slowdowns are against `reference`, or against the path of least median read. Of an
/// emulated store those of times are left out.
pub fn paper_tables(
    study: &StudyRecord,
    trials: &[Trial],
    reference: Option<IoPath>,
    admission: Admission,
) -> String {
    let emulated = study.emulated.as_deref();
    let mut text =
        emulated.map_or(String::new(), |emulator| wrap(&escape(&banner(emulator)), WIDTH, "") + "\n");
    text += "Completion modes side by side (mean latency in us, IOPS; means over replicates)\n";
    let completion = paper_layouts::completion_modes(trials, admission);
    text += &times(emulated, completion.iter().map(completion_text), "two completion modes of one interface");
    text += "\nLatency of reads and of writes in us (percentiles are means over those of the replicates)\n";
    let latency: Vec<LatencyTable> = paper_layouts::latencies(trials, reference, admission)
        .into_iter()
        .filter(|table| table.reference.is_some())
        .collect();
    text +=
        &times(emulated, latency.iter().map(latency_text), "reads and writes of one path under one workload");
    let source = EnergySource::measured(&[trials]).filter(|_| emulated.is_none());
    let of = source.as_ref().map_or(String::new(), |source| format!(" ({source})"));
    let words = format!("Performance, power and efficiency{of}; the papers draw theirs and print none");
    text += &format!("\n{}", wrap(&escape(&words), WIDTH, ""));
    let efficiency = source.map_or(Vec::new(), |source| efficiency_tables(trials, &source, admission));
    text += &times(emulated, efficiency.iter().map(efficiency_text), "energy over depth or over threads");
    text += "\nDesign space (trials whose path was verified)\n";
    text += &design_text(&paper_layouts::design_space(trials));
    text += "\nLoads and stores by kernel source directory\n";
    let costs: Vec<String> = loads_stores_tables(trials, admission).iter().map(loads_stores_text).collect();
    text += &or_not_measured(costs.into_iter(), "loads and stores by kernel function");
    text += &published_text();
    text
}

/// Tables of times, which an emulated store has none of.
fn times(emulated: Option<&str>, tables: impl Iterator<Item = String>, need: &str) -> String {
    match emulated {
        Some(_) => format!("  not measured: {}\n", crate::analysis::claims::EMULATED),
        None => or_not_measured(tables, need),
    }
}

fn or_not_measured(tables: impl Iterator<Item = String>, need: &str) -> String {
    let tables: Vec<String> = tables.collect();
    if tables.is_empty() { format!("  not measured: the store lacks {need}\n") } else { tables.join("\n") }
}

/// The heading of a table: what its cells share.
fn heading(setting: &TrialSetup, words: &str) -> String {
    let mut text = format!("  {words}, {}, {}", setting.workload.length_text(), setting.generator.as_str());
    for (name, value) in &setting.settings {
        let _ = write!(text, " {name}={value}");
    }
    escape(&text) + "\n"
}

fn completion_text(table: &CompletionTable) -> String {
    let headings: Vec<[String; 2]> =
        table.numjobs.iter().map(|numjobs| [format!("us, numjobs {numjobs}"), "IOPS".to_owned()]).collect();
    let mut columns = vec![("path", Align::Left)];
    columns.extend(headings.iter().flatten().map(|heading| (heading.as_str(), Align::Right)));
    let mut grid = Grid::new(&columns);
    for row in &table.rows {
        let cells = row.cells.iter().flat_map(|cell| match cell {
            Some(cell) => [us(cell.latency_ns), thousands(cell.iops)],
            None => ["-".to_owned(), "-".to_owned()],
        });
        grid.row(std::iter::once(row.path.to_string()).chain(cells).collect());
    }
    let workload = &table.setting.workload;
    let words = workload.title().replace(" numjobs 1", "");
    heading(&table.setting, &words) + &grid.render()
}

fn latency_text(table: &LatencyTable) -> String {
    let reference = table.reference.map_or_else(String::new, |path| path.to_string());
    let mut grid = Grid::new(&[
        ("path", Align::Left),
        ("read p50", Align::Right),
        ("p99", Align::Right),
        ("write p50", Align::Right),
        ("p99", Align::Right),
        ("slower", Align::Right),
    ]);
    let pair = |percentiles: Option<Percentiles>| match percentiles {
        Some(percentiles) => [us(percentiles.p50_ns), us(percentiles.p99_ns)],
        None => ["-".to_owned(), "-".to_owned()],
    };
    for row in &table.rows {
        let slower = match row.slower {
            Some(slower) if Some(row.path) != table.reference => format!("{:.2} %", 100.0 * slower),
            _ => "-".to_owned(),
        };
        let cells =
            [row.path.to_string()].into_iter().chain(pair(row.read)).chain(pair(row.write)).chain([slower]);
        grid.row(cells.collect());
    }
    let words = format!("{} and writes, slower than {reference} on average", table.setting.workload.title());
    heading(&table.setting, &words) + &grid.render()
}

/// IOPS, W and IO/J of a path beneath each other.
fn efficiency_text(table: &EfficiencyTable) -> String {
    let headings: Vec<String> = table.values.iter().map(|value| format!("{} {value}", table.axis)).collect();
    let mut columns = vec![("path", Align::Left), ("figure", Align::Left)];
    columns.extend(headings.iter().map(|heading| (heading.as_str(), Align::Right)));
    let mut grid = Grid::new(&columns);
    type Text = fn(&EfficiencyCell) -> String;
    let figures: [(&str, Text); 3] = [
        ("IOPS", |cell| thousands(cell.iops)),
        ("W", |cell| format!("{:.2}", cell.watts)),
        ("IO/J", |cell| thousands(cell.ios_per_joule)),
    ];
    for row in &table.rows {
        for (name, of) in figures {
            let cells = row.cells.iter().map(|cell| cell.as_ref().map_or_else(|| "-".to_owned(), of));
            grid.row([row.path.to_string(), name.to_owned()].into_iter().chain(cells).collect());
        }
    }
    let words = table.setting.workload.title().replace(&format!(" {} 1", table.axis), "");
    heading(&table.setting, &words) + &grid.render()
}

fn us(ns: f64) -> String {
    format!("{:.2}", ns / 1e3)
}

fn design_text(rows: &[DesignRow]) -> String {
    let mut grid = Grid::new(&[
        ("interface", Align::Left),
        ("executes in", Align::Left),
        ("behaviour", Align::Left),
        ("submission", Align::Left),
        ("completion", Align::Left),
        ("verified trials", Align::Left),
    ]);
    for row in rows {
        let design = row.design;
        let bypass = !design.kernel;
        let verified: Vec<String> = row
            .verified
            .iter()
            .map(|(submission, completion, count)| format!("{submission}/{completion} {count}"))
            .collect();
        grid.row(vec![
            design.interface.to_owned(),
            offered([(design.kernel, "kernel"), (design.user, "user space")]),
            offered([(design.sync, "sync"), (design.r#async, "async")]),
            offered([
                (design.submit_syscall, "syscall"),
                (design.submit_poll, "sqpoll"),
                (bypass, "doorbell"),
            ]),
            offered([
                (design.complete_interrupt, "interrupt"),
                (design.complete_poll, "poll"),
                (row.complete_hybrid, "hybrid"),
            ]),
            if verified.is_empty() { "none".to_owned() } else { verified.join(", ") },
        ]);
    }
    grid.render()
}

fn offered<const N: usize>(choices: [(bool, &str); N]) -> String {
    choices.iter().filter(|(offers, _)| *offers).map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
}

/// Measured per I/O; beside the paths that the paper has, about what it has per I/O.
fn loads_stores_text(table: &LoadsStoresTable) -> String {
    let paper = |path: &IoPath| path.interface() == "posix-sio";
    let names: Vec<String> = table.paths.iter().map(ToString::to_string).collect();
    let mut columns = vec![("source", Align::Left)];
    for (path, name) in table.paths.iter().zip(&names) {
        columns.push((name, Align::Right));
        columns.extend(paper(path).then_some(("paper, about", Align::Right)));
    }
    let mut grid = Grid::new(&columns);
    for row in &table.rows {
        let mut cells = vec![row.source.to_owned()];
        for (path, per_io) in table.paths.iter().zip(&row.per_io) {
            cells.push(format!("{}{}", if table.sampled { "~" } else { "" }, thousands(*per_io)));
            let about = || published::loads_stores(row.source)?.approximate_per_io(path.completion());
            cells.extend(paper(path).then(|| about().map_or("-".to_owned(), thousands)));
        }
        grid.row(cells);
    }
    let workload = &table.setting.workload;
    let how = if table.sampled {
        "loads plus stores per I/O, ~ sampled"
    } else {
        "loads plus stores per I/O, exact"
    };
    heading(&table.setting, &format!("{}, {how}", workload.title())) + &grid.render()
}

fn published_text() -> String {
    let mut grid = Grid::new(&[
        ("source", Align::Left),
        ("interrupt", Align::Right),
        ("poll", Align::Right),
        ("hybrid", Align::Right),
    ]);
    for row in LOADS_STORES.iter().chain([&LOADS_STORES_TOTAL]) {
        let figures =
            [Completion::Interrupt, Completion::Poll, Completion::Hybrid].map(|mode| thousands(row.of(mode)));
        grid.row(std::iter::once(row.source.to_owned()).chain(figures).collect());
    }
    format!(
        "  published by Harris and Altiparmak (2022, Table 2), millions a second, 4 KiB random reads, 32 \
         threads; `paper, about` is\n  these over the IOPS of its Table 1 at 8 threads, for it prints none \
         at 32:\n{}",
        grid.render()
    )
}
