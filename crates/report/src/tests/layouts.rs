//! The papers' tables: a store with the papers' figures yields the papers' tables.

use crate::paper_tables;
use iopj_analysis::admission::Admission;
use iopj_core::VerdictKind;
use iopj_core::{CompletionMode, IoPath, Rw, Submission};
use iopj_papers::layouts::*;
use iopj_papers::published::{self, COMPLETION_MODES, DESIGN, LATENCY};
use iopj_record::Trial;
use iopj_record::testing::cells::{Measured, cell, judge, workload};
use iopj_record::testing::pairs::study;

/// Replicates whose mean is the printed figure.
const SPREAD: [f64; 3] = [-0.02, 0.0, 0.02];

fn poll22() -> Vec<Trial> {
    let row = |row: &published::PublishedMode| {
        let measured = Measured { mean_us: row.latency_us, iops: row.iops, ..Measured::default() };
        cell(row.path, &workload(Rw::Randread, row.numjobs), measured, &SPREAD)
    };
    COMPLETION_MODES.iter().flat_map(row).collect()
}

fn iface23() -> Vec<Trial> {
    let mut trials = Vec::new();
    for row in &LATENCY {
        for (rw, at) in [(Rw::Randread, 0), (Rw::Randwrite, 2)] {
            let measured = Measured { p50_us: row.us[at], p99_us: row.us[at + 1], ..Measured::default() };
            trials.extend(cell(row.path, &workload(rw, 1), measured, &SPREAD));
        }
    }
    trials
}

#[test]
fn the_slowdown_formula_gives_all_eight_published_percentages() {
    let bypass = LATENCY[0].us;
    let mut published = 0;
    for row in &LATENCY[1..] {
        let slower = 100.0 * average_slowdown(row.us, bypass).unwrap();
        assert!((slower - row.slower_pct.unwrap()).abs() <= 0.01, "{}: {slower}", row.path);
        published += 1;
    }
    assert_eq!(published, 8);
    assert_eq!(average_slowdown(bypass, bypass), Some(0.0));
    assert_eq!(average_slowdown(bypass, [0.0, 1.0, 1.0, 1.0]), None);
    assert_eq!(average_slowdown([f64::NAN; 4], bypass), None);
}

#[test]
fn completion_modes_come_out_as_poll22_prints_them() {
    let tables = completion_modes(&poll22(), Admission::default());
    let [table] = &tables[..] else { panic!("{tables:?}") };
    assert_eq!(table.numjobs, [1, 8]);
    // The paper's order is that of latency.
    let rows: Vec<String> = table.rows.iter().map(|row| row.path.to_string()).collect();
    assert_eq!(rows, ["posix-sio/syscall/poll", "posix-sio/syscall/hybrid", "posix-sio/syscall/interrupt"]);
    for (row, printed) in table.rows.iter().zip(COMPLETION_MODES.chunks(2)) {
        for (cell, printed) in row.cells.iter().zip(printed) {
            let cell = cell.unwrap();
            assert_eq!(cell.replicates, 3);
            assert!((cell.latency_ns / 1e3 - printed.latency_us).abs() < 0.05, "{cell:?} {printed:?}");
            assert!((cell.iops - printed.iops).abs() <= 1.0, "{cell:?} {printed:?}");
        }
    }
    let text = paper_tables(&study("6.1"), &poll22(), None, Admission::default());
    for printed in ["120,470", "571,659", "113,846", "546,968", "96,722", "511,895"] {
        assert!(text.contains(printed), "{printed} in {text}");
    }
}

#[test]
fn latencies_come_out_as_iface23_prints_them() {
    let tables = latencies(&iface23(), Some(IoPath::Spdk), Admission::default());
    let [table] = &tables[..] else { panic!("{tables:?}") };
    for (row, printed) in table.rows.iter().zip(&LATENCY) {
        let path = printed.path;
        assert_eq!(row.path.to_string(), path, "the paper sorts by slowdown too");
        for (ns, us) in row.four().unwrap().into_iter().zip(printed.us) {
            assert!((ns / 1e3 - us).abs() < 0.005, "{path}: {ns} {us}");
        }
        let slower = 100.0 * row.slower.unwrap();
        assert!((slower - printed.slower_pct.unwrap_or(0.0)).abs() <= 0.01, "{path}: {slower}");
    }
    // Without a named reference it is the path of least median read, here the same one.
    assert_eq!(latencies(&iface23(), None, Admission::default()), tables);
    // If the store lacks the named reference, there is no slowdown.
    let without =
        latencies(&iface23(), Some("nvme-passthrough/syscall/poll".parse().unwrap()), Admission::default());
    assert!(without[0].reference.is_none() && without[0].rows.iter().all(|row| row.slower.is_none()));
}

#[test]
fn paths_offer_what_iface23_prints() {
    let rows = design_space(&poll22());
    for printed in &DESIGN {
        let row = rows.iter().find(|row| row.design.interface == printed.interface).unwrap();
        assert_eq!(row.design, *printed);
    }
    let sio = rows.iter().find(|row| row.design.interface == "posix-sio").unwrap();
    let expected = [CompletionMode::Interrupt, CompletionMode::Poll, CompletionMode::Hybrid];
    assert_eq!(sio.verified, expected.map(|completion| (Submission::Syscall, completion, 6)));
}

#[test]
fn refuted_trials_stay_out_and_a_missing_cell_is_absent() {
    let mut trials = poll22();
    judge(&mut trials[0..3], VerdictKind::Refuted);
    let table = &completion_modes(&trials, Admission::default())[0];
    let poll = table.rows.iter().find(|row| row.path.completion() == CompletionMode::Poll).unwrap();
    assert!(poll.cells[0].is_none() && poll.cells[1].is_some());
    assert!(design_space(&trials)[0].verified.contains(&(Submission::Syscall, CompletionMode::Poll, 3)));
}

#[test]
fn a_store_without_the_data_says_what_is_missing() {
    let text = paper_tables(&study("6.1"), &[], None, Admission::default());
    assert!(text.contains("not measured: the store lacks two completion modes of one interface"));
    assert!(text.contains("not measured: the store lacks reads and writes of one path under one workload"));
    assert!(text.contains("not measured: the store lacks loads and stores by kernel function"));
    assert!(!text.contains("NaN"));
}
