//! The page of an emulated store must show counts exactly.

use crate::records::{Cells, Records, half, is_near, mean, rows, tips, verdicts_are_drawn, with_interval};
use iopj_harness::browser::reader::figure;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Directories with their own part in a bar.
const TOP: usize = 8;

/// The figures of one workload with exact costs.
#[track_caller]
pub(crate) fn are_what_was_counted(seen: &Value, records: &Records) {
    verdicts_are_drawn(figure(seen, "verdicts-by-path"), records);
    let counts = [
        ("context-switches", records.cells("/context_switches_per_io")),
        ("interrupts", records.cells("/interrupts_per_io")),
        ("instructions", costs(records, "instructions", None)),
        ("kernel-instructions", costs(records, "instructions", Some("kernel"))),
        ("loads", costs(records, "loads", None)),
        ("stores", costs(records, "stores", None)),
    ];
    for (name, cells) in &counts {
        bars_are_drawn(figure(seen, &format!("{name}-by-path-randread-4k-iodepth-1-numjobs-1")), cells);
    }
    directories_are_drawn(
        figure(seen, "instructions-per-i-o-by-kernel-directory-randread-4k-iodepth-1-numjobs-1"),
        records,
    );
    assert_eq!(seen["figures"].as_array().unwrap().len(), 1 + counts.len() + 1);
}

/// The functions of a trial.
fn functions(trial: &Value) -> &[Value] {
    trial["costs"]["functions"].as_array().unwrap()
}

/// A count of the functions that fit, over the trial's I/Os.
fn per_io(trial: &Value, count: &str, fits: impl Fn(&Value) -> bool) -> f64 {
    let own = functions(trial).iter().filter(|function| fits(function));
    own.map(|function| function["cost"][count].as_f64().unwrap()).sum::<f64>()
        / trial["ios"].as_f64().unwrap()
}

/// A count per I/O over one space or both.
fn costs(records: &Records, count: &str, space: Option<&str>) -> Cells {
    records
        .cells_of(|trial| Some(per_io(trial, count, |one| space.is_none_or(|space| one["space"] == space))))
}

/// A bar for each path, as long as its mean, with its interval; the table holds both.
#[track_caller]
fn bars_are_drawn(figure: &Value, cells: &Cells) {
    let id = figure["id"].as_str().unwrap();
    assert_eq!(figure["marks"], cells.len(), "{id}");
    assert_eq!(figure["errors"], with_interval(cells), "{id}");
    let bars = tips(figure);
    let (greatest, longest) = bars.iter().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    for (value, bar) in &bars {
        let longest_px = longest["width"].as_f64().unwrap();
        let expected = longest_px * value / greatest;
        // Both values have three digits.
        let off = (bar["width"].as_f64().unwrap() - expected).abs();
        assert!(off < 1.5 + 0.01 * longest_px, "{id}: {bar}, not {expected} wide");
    }
    for row in rows(figure) {
        let path = row[0].as_str().unwrap().split(' ').next().unwrap();
        let values = &cells[&(path.to_owned(), 1)];
        is_near(&row[3], mean(values), path);
        is_near(&row[4], half(values), path);
    }
}

/// A part for each directory that a path's I/Os pass: the most expensive, the rest, the unknown and programs;
/// totals in the table.
#[track_caller]
fn directories_are_drawn(figure: &Value, records: &Records) {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    let mut parts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for function in records.usable().flat_map(functions).filter(|one| one["space"] == "kernel") {
        *sums.entry(function["directory"].as_str().unwrap_or("unknown")).or_default() +=
            function["cost"]["instructions"].as_f64().unwrap();
    }
    sums.remove("unknown");
    let mut dearest: Vec<(&str, f64)> = sums.into_iter().collect();
    dearest.sort_by(|a, b| b.1.total_cmp(&a.1));
    let dearest: Vec<&str> = dearest.into_iter().take(TOP).map(|(name, _)| name).collect();
    for trial in records.usable() {
        for function in functions(trial).iter().filter(|one| one["cost"]["instructions"] != 0) {
            let part = match function["directory"].as_str() {
                _ if function["space"] == "user" => "user space",
                None => "unknown",
                Some(name) if dearest.contains(&name) => name,
                Some(_) => "other",
            };
            parts.entry(trial["path"].as_str().unwrap()).or_default().insert(part);
        }
    }
    assert_eq!(figure["marks"], parts.values().map(BTreeSet::len).sum::<usize>());
    let totals = costs(records, "instructions", None);
    for row in rows(figure) {
        let path = row[0].as_str().unwrap().split(' ').next().unwrap();
        is_near(row.as_array().unwrap().last().unwrap(), mean(&totals[&(path.to_owned(), 1)]), path);
    }
}
