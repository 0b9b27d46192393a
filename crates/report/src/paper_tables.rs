//! The papers' tables as text.

use super::emulated::banner;
use super::number::{or_dash, thousands};
use super::table::Table;
use super::text::{WIDTH, escape, settings, wrap};
use iopj_analysis::Admission;
use iopj_analysis::efficiency::{EfficiencyCell, EfficiencyRow, EfficiencyTable, efficiency_tables};
use iopj_analysis::published_costs::PublishedLoadsStores;
use iopj_core::{CompletionMode, IoPath};
use iopj_papers::layouts::{self, CompletionTable, DesignRow, LatencyRow, LatencyTable, TrialSetup};
use iopj_papers::loads_stores::{LoadsStoresTable, loads_stores_tables};
use iopj_papers::published::{self, COSTS};
use iopj_record::{EnergySource, StudyRecord, Trial};

/// All tables of a store; slowdowns are relative to `reference`, or to the path of least median read. An
/// emulated store has no tables of times.
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
    let completion = layouts::completion_modes(trials, admission);
    text += &times(emulated, completion.iter().map(completion_text), "two completion modes of one interface");
    text += "\nLatency of reads and of writes in us (percentiles are means over those of the replicates)\n";
    let latency: Vec<LatencyTable> = layouts::latencies(trials, reference, admission)
        .into_iter()
        .filter(|table| table.reference.is_some())
        .collect();
    text +=
        &times(emulated, latency.iter().map(latency_text), "reads and writes of one path under one workload");
    let source = EnergySource::measured(&[trials]).filter(|_| emulated.is_none());
    let of = source.as_ref().map_or(String::new(), |source| format!(" ({source})"));
    let words = format!("Performance, power and efficiency{of}; the papers show theirs only as figures");
    text += &format!("\n{}", wrap(&escape(&words), WIDTH, ""));
    let efficiency = source.map_or(Vec::new(), |source| efficiency_tables(trials, &source, admission));
    text += &times(emulated, efficiency.iter().map(efficiency_text), "energy over depth or over threads");
    text += "\nDesign space (trials whose path was verified)\n";
    text += &design_text(&layouts::design_space(trials));
    text += "\nLoads and stores by kernel source directory\n";
    let costs: Vec<String> = loads_stores_tables(trials, admission).iter().map(loads_stores_text).collect();
    text += &or_not_measured(costs.into_iter(), "loads and stores by kernel function");
    text += &published_text();
    text
}

/// Tables of times, which an emulated store does not have.
fn times(emulated: Option<&str>, tables: impl Iterator<Item = String>, need: &str) -> String {
    match emulated {
        Some(_) => format!("  not measured: {}\n", iopj_papers::claims::EMULATED),
        None => or_not_measured(tables, need),
    }
}

fn or_not_measured(tables: impl Iterator<Item = String>, need: &str) -> String {
    let tables: Vec<String> = tables.collect();
    if tables.is_empty() { format!("  not measured: the store lacks {need}\n") } else { tables.join("\n") }
}

/// The heading of a table: what its cells share.
fn heading(setting: &TrialSetup, words: &str) -> String {
    let TrialSetup { workload, settings: values, generator } = setting;
    let (length, generator) = (workload.length_text(), generator.as_str());
    escape(&format!("  {words}, {length}, {generator}{}", settings(values))) + "\n"
}

fn completion_text(table: &CompletionTable) -> String {
    let mut grid = Table::of(&table.rows).left("path", |row| row.path.to_string());
    for (at, numjobs) in table.numjobs.iter().enumerate() {
        grid = grid
            .right(format!("us, numjobs {numjobs}"), move |row| {
                or_dash(row.cells[at], |cell| us(cell.latency_ns))
            })
            .right("IOPS", move |row| or_dash(row.cells[at], |cell| thousands(cell.iops)));
    }
    let workload = &table.setting.workload;
    let words = workload.title().replace(" numjobs 1", "");
    heading(&table.setting, &words) + &grid.text()
}

fn latency_text(table: &LatencyTable) -> String {
    let reference = table.reference.map_or_else(String::new, |path| path.to_string());
    let slower = |row: &LatencyRow| {
        let slower = row.slower.filter(|_| Some(row.path) != table.reference);
        or_dash(slower, |slower| format!("{:.2} %", 100.0 * slower))
    };
    let grid = Table::of(&table.rows)
        .left("path", |row| row.path.to_string())
        .right("read p50", |row| or_dash(row.read, |one| us(one.p50_ns)))
        .right("p99", |row| or_dash(row.read, |one| us(one.p99_ns)))
        .right("write p50", |row| or_dash(row.write, |one| us(one.p50_ns)))
        .right("p99", |row| or_dash(row.write, |one| us(one.p99_ns)))
        .right("slower", slower);
    let words = format!("{} and writes, slower than {reference} on average", table.setting.workload.title());
    heading(&table.setting, &words) + &grid.text()
}

/// IOPS, W and IO/J of a path, one below the other.
fn efficiency_text(table: &EfficiencyTable) -> String {
    type Figure = (&'static str, fn(&EfficiencyCell) -> String);
    let figures: [Figure; 3] = [
        ("IOPS", |cell| thousands(cell.iops)),
        ("W", |cell| format!("{:.2}", cell.watts)),
        ("IO/J", |cell| thousands(cell.ios_per_joule)),
    ];
    let rows: Vec<(&EfficiencyRow, Figure)> =
        table.rows.iter().flat_map(|row| figures.map(|figure| (row, figure))).collect();
    let mut grid = Table::of(&rows)
        .left("path", |(row, _)| row.path.to_string())
        .left("figure", |(_, (name, _))| (*name).to_owned());
    for (at, value) in table.values.iter().enumerate() {
        let cell = move |(row, (_, of)): &(&EfficiencyRow, Figure)| or_dash(row.cells[at].as_ref(), of);
        grid = grid.right(format!("{} {value}", table.axis), cell);
    }
    let words = table.setting.workload.title().replace(&format!(" {} 1", table.axis), "");
    heading(&table.setting, &words) + &grid.text()
}

fn us(ns: f64) -> String {
    format!("{:.2}", ns / 1e3)
}

fn design_text(rows: &[DesignRow]) -> String {
    let verified = |row: &DesignRow| {
        let count = |(submission, completion, count): &_| format!("{submission}/{completion} {count}");
        let counts: Vec<String> = row.verified.iter().map(count).collect();
        if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
    };
    Table::of(rows)
        .left("interface", |row| row.design.interface.to_owned())
        .left("executes in", |DesignRow { design, .. }| {
            offered([(design.kernel, "kernel"), (design.user, "user space")])
        })
        .left("behaviour", |DesignRow { design, .. }| {
            offered([(design.sync, "sync"), (design.r#async, "async")])
        })
        .left("submission", |DesignRow { design, .. }| {
            let doorbell = (!design.kernel, "doorbell");
            offered([(design.submit_syscall, "syscall"), (design.submit_poll, "sqpoll"), doorbell])
        })
        .left("completion", |DesignRow { design, complete_hybrid, .. }| {
            let hybrid = (*complete_hybrid, "hybrid");
            offered([(design.complete_interrupt, "interrupt"), (design.complete_poll, "poll"), hybrid])
        })
        .left("verified trials", verified)
        .text()
}

fn offered<const N: usize>(choices: [(bool, &str); N]) -> String {
    choices.iter().filter(|(offers, _)| *offers).map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
}

/// Measured per I/O; beside the paper's paths, roughly its figures per I/O.
fn loads_stores_text(table: &LoadsStoresTable) -> String {
    let mark = if table.sampled { "~" } else { "" };
    let mut grid = Table::of(&table.rows).left("source", |row| row.source.to_owned());
    for (at, path) in table.paths.iter().enumerate() {
        grid = grid.right(path.to_string(), move |row| format!("{mark}{}", thousands(row.per_io[at])));
        if path.interface() == "posix-sio" {
            grid = grid.right("paper, about", |row| {
                let published = published::loads_stores(row.source);
                or_dash(published.map(|one| COSTS.approximate_per_io(one, path.completion())), thousands)
            });
        }
    }
    let workload = &table.setting.workload;
    let how = if table.sampled {
        "loads plus stores per I/O, ~ sampled"
    } else {
        "loads plus stores per I/O, exact"
    };
    heading(&table.setting, &format!("{}, {how}", workload.title())) + &grid.text()
}

fn published_text() -> String {
    let rows: Vec<&PublishedLoadsStores> = COSTS.groups().collect();
    let mut grid = Table::of(&rows).left("source", |row| row.source.to_owned());
    for mode in [CompletionMode::Interrupt, CompletionMode::Poll, CompletionMode::Hybrid] {
        grid = grid.right(mode.to_string(), move |row| thousands(row.of(mode)));
    }
    format!(
        "  published by Harris and Altiparmak (2022, Table 2), millions a second, 4 KiB random reads, 32 \
         threads; `paper, about` is\n  these over the IOPS of its Table 1 at 8 threads, because it prints \
         none at 32:\n{}",
        grid.text()
    )
}
