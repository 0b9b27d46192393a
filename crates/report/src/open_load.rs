//! An open load in the report: what was due, and how late it was issued.

use super::number::{decimal, thousands};
use super::table::Table;
use super::text::{WIDTH, escape, wrap};
use iopj_analysis::grouping::unique;
use iopj_analysis::open_load::LoadMeans;
use iopj_analysis::{CellRow, WorkloadTable};
use iopj_record::LatencyFrom;

/// Where the latencies of an open load begin, for the report's foot.
const FROM_DUE: &str = "Under an open load latency runs from when an I/O was due, so nothing that waited is \
                        left out; lag is the time from then until it was issued, pacer the CPU time that \
                        pacing takes for an I/O with an engine that does nothing.";
const OVERLOAD: &str = "overload: the path was behind by more than 1 % of the window at its end; its latency \
                        grows with the window, and its IOPS are its limit.";

fn load(row: &CellRow) -> Option<&LoadMeans> {
    row.figures.as_ref()?.load.as_ref()
}

/// A column: its heading, its value, and how that is written.
type Column = (&'static str, fn(&LoadMeans) -> Option<f64>, fn(f64) -> String);

/// The columns, of which those are shown that have a value.
const COLUMNS: [Column; 8] = [
    ("due/s", |load| load.offered_iops, thousands),
    ("lag us", |load| load.lag_ns.map(|[mean, _]| mean), us),
    ("lag max", |load| load.lag_ns.map(|[_, longest]| longest), us),
    ("issued us", |load| load.from_submission_ns.map(|[mean, _]| mean), us),
    ("issued p99", |load| load.from_submission_ns.map(|[_, p99]| p99), us),
    ("sync us", |load| load.sync_ns.map(|[mean, _]| mean), us),
    ("sync p99", |load| load.sync_ns.map(|[_, p99]| p99), us),
    ("pacer us", |load| load.pacer_cpu_ns_per_io, us),
];

fn us(ns: f64) -> String {
    decimal(ns / 1e3)
}

/// The table of a workload with an open load, below that of its results; `name` names a row.
pub(super) fn table(table: &WorkloadTable, name: &dyn Fn(&CellRow) -> String) -> Option<String> {
    let rows: Vec<&CellRow> = table.rows.iter().filter(|row| load(row).is_some()).collect();
    if rows.is_empty() || table.emulated.is_some() {
        return None;
    }
    let achieved = |row: &CellRow| row.figures.as_ref()?.times.as_ref().map(|times| times.iops);
    let mut grid = Table::of(&rows)
        .left("load", |row| name(row))
        .right("done/s", |row| achieved(row).map_or("-".to_owned(), thousands));
    for (heading, value, text) in COLUMNS {
        let values: Vec<Option<f64>> = rows.iter().map(|row| load(row).and_then(value)).collect();
        if values.iter().any(Option::is_some) {
            grid = grid.right(heading, |row| load(row).and_then(value).map_or("-".to_owned(), text));
        }
    }
    if rows.iter().any(|row| load(row).is_some_and(|load| load.overloaded > 0)) {
        grid = grid.left("", |row| load(row).map_or(String::new(), overload));
    }
    let mut text = grid.text();
    let traces = rows.iter().filter_map(|row| load(row)?.trace.as_ref());
    let lines: Vec<String> = traces.flat_map(|trace| trace.lines()).map(str::to_owned).collect();
    for line in unique(lines) {
        text += &wrap(&format!("* trace: {}", escape(&line)), WIDTH, "  ");
    }
    Some(text)
}

fn overload(load: &LoadMeans) -> String {
    match load.overloaded {
        0 => String::new(),
        all if all == load.replicates => "overload".to_owned(),
        some => format!("overload in {some} of {}", load.replicates),
    }
}

/// What to know about open loads, if a table has one.
pub(super) fn words(tables: &[WorkloadTable]) -> String {
    let all: Vec<&LoadMeans> = tables.iter().flat_map(|table| &table.rows).filter_map(load).collect();
    let mut text = String::new();
    if all.iter().any(|load| load.latency_from == LatencyFrom::Due) {
        text += &wrap(FROM_DUE, WIDTH, "");
        text += &wrap("`issued` is latency from submission, as fio counts it.", WIDTH, "");
    }
    // A closed loop has no other latency, and is here for its flushes.
    let is_open = |table: &&WorkloadTable| table.workload.open.is_some() || table.workload.trace.is_some();
    let mut open = tables.iter().filter(is_open).flat_map(|table| &table.rows).filter_map(load);
    if open.any(|load| load.latency_from == LatencyFrom::Submission) {
        let words = "fio's latency runs from submission under an open load, so it hides what waited to be \
                     issued: compare it with `issued`.";
        text += &wrap(words, WIDTH, "");
    }
    if all.iter().any(|load| load.overloaded > 0) {
        text += &wrap(OVERLOAD, WIDTH, "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_analysis::testing::row;
    use iopj_core::{OpenLoad, Workload};

    #[test]
    fn a_load_has_a_line_for_each_path_and_overload_is_said() {
        let load = LoadMeans {
            replicates: 3,
            overloaded: 2,
            offered_iops: Some(40_000.0),
            lag_ns: Some([1500.0, 2_000_000.0]),
            latency_from: LatencyFrom::Due,
            from_submission_ns: Some([80_000.0, 300_000.0]),
            sync_ns: None,
            trace: Some("6 of 6 I/Os from msr".to_owned()),
            pacer_cpu_ns_per_io: Some(2500.0),
        };
        let mut open = row("libaio/syscall/interrupt", 38_000.0);
        open.figures.as_mut().unwrap().load = Some(load);
        let closed = row("io_uring/syscall/interrupt", 1.0);
        let workload = Workload { open: Some(OpenLoad::at(40_000)), ..Workload::default() };
        let tables = [WorkloadTable { workload, emulated: None, rows: vec![open, closed.clone()] }];
        let text = table(&tables[0], &|row| row.path.to_string()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(lines[2], "  * trace: 6 of 6 I/Os from msr");
        let cells: Vec<&str> = lines[1].split_whitespace().collect();
        let expected =
            ["libaio/syscall/interrupt", "38,000", "40,000", "1.50", "2,000", "80.0", "300", "2.50"];
        assert_eq!(cells[..8], expected);
        assert!(lines[1].ends_with("overload in 2 of 3"), "{text}");
        assert!(words(&tables).contains("overload: ") && words(&tables).contains("was due"));
        let tables = [WorkloadTable { rows: vec![closed], ..tables[0].clone() }];
        assert_eq!((table(&tables[0], &|_| String::new()), words(&tables)), (None, String::new()));
    }
}
