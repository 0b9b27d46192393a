//! The report of a lab's store in headless Chromium: counts as they were counted, under a banner, and no time.

use crate::devtools::{Browser, chromium};
use crate::reader::{self, figure};
use crate::records::{Cells, Records, half, is_near, mean, rows, tips, verdicts_are_drawn, with_interval};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Directories with a part of their own in a bar.
const TOP: usize = 8;

/// Demands that the page of a store of one workload with exact costs shows what was counted and no time.
#[track_caller]
pub(crate) fn shows_counts_and_no_time(folder: &Path, store: &str) {
    let Some(program) = chromium() else { return };
    let mut report = Command::new(env!("CARGO_BIN_EXE_iopj"));
    let output = report.current_dir(folder).args(["report", store, "--html", "lab.html"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = folder.join("lab.html");
    reader::is_valid(&page);
    let mut browser = Browser::start(program);
    let seen = reader::looks(&mut browser, &page);
    says_no_time(&mut browser);
    is_what_was_counted(&seen, &Records::of(folder, store));
    reader::walks(&mut browser, &page);
    assert_eq!(reader::downloads(&mut browser, &page), 2 * seen["figures"].as_array().unwrap().len());
}

/// The banner is seen without scrolling; outside the papers' claims, the provenance and what is missing no number has a
/// unit of time, rate or energy, tables and tips included.
#[track_caller]
fn says_no_time(browser: &mut Browser) {
    let banner = "document.querySelector('.banner')";
    let words = browser.text(&format!("{banner}.innerText"));
    assert!(words.starts_with("Emulated by QEMU TCG: times mean nothing and none is shown"), "{words}");
    let is_seen = format!("{banner}.checkVisibility() && {banner}.getBoundingClientRect().top > 0");
    assert!(browser.value(&is_seen) == true);
    let times = "(() => { const main = document.querySelector('main').cloneNode(true); \
                 for (const id of ['claims', 'provenance', 'missing']) main.querySelector('#' + id)?.remove(); \
                 return (document.querySelector('header').textContent + main.textContent)\
                 .match(/.{0,30}(IOPS|\u{b5}s|MB\\/s|IO\\/J|percentile|(?<![:\\d])\\d\\s*(ns|us|ms|s|W|J)\\b).{0,30}/gi); })()";
    assert_eq!(browser.value(times), Value::Null);
}

#[track_caller]
fn is_what_was_counted(seen: &Value, records: &Records) {
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
    own.map(|function| function["cost"][count].as_f64().unwrap()).sum::<f64>() / trial["ios"].as_f64().unwrap()
}

/// A count per I/O over one space or both.
fn costs(records: &Records, count: &str, space: Option<&str>) -> Cells {
    records.cells_of(|trial| Some(per_io(trial, count, |one| space.is_none_or(|space| one["space"] == space))))
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
        // Both values are told in three digits.
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

/// A part for each directory that a path's I/Os pass: the dearest, the rest, the unknown and programs; totals in the table.
#[track_caller]
fn directories_are_drawn(figure: &Value, records: &Records) {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    let mut parts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for function in records.standing().flat_map(functions).filter(|one| one["space"] == "kernel") {
        *sums.entry(function["directory"].as_str().unwrap_or("unknown")).or_default() +=
            function["cost"]["instructions"].as_f64().unwrap();
    }
    sums.remove("unknown");
    let mut dearest: Vec<(&str, f64)> = sums.into_iter().collect();
    dearest.sort_by(|a, b| b.1.total_cmp(&a.1));
    let dearest: Vec<&str> = dearest.into_iter().take(TOP).map(|(name, _)| name).collect();
    for trial in records.standing() {
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
