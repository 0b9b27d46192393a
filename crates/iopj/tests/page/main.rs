//! Reports in headless Chromium: everything shown of stores with fixed numbers, the structure for a real run,
//! and hostile names that come from a command line or from fio's files.

#[path = "../common/mod.rs"]
mod common;
mod counts;
mod records;

use common::{alone, folder, have, output, written};
use iopj_core::VerdictKind;
use iopj_harness::browser::devtools::{Browser, chromium, fonts};
use iopj_harness::browser::reader::figure;
use iopj_record::testing::counted as costs;
use iopj_record::testing::pages::{judge, study, trials, workloads};
use iopj_record::{Outcome, StudyRecord, Trial, histogram};
use iopj_store::Store;
use records::{Cells, Records, half, is_near, mean, rows, tips, verdicts_are_drawn, with_interval};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const EVIL: &str = "<img src=x onerror=alert(1)>";

/// Runs the program, which must succeed.
#[track_caller]
fn iopj(folder: &Path, arguments: &[&str]) {
    let (output, messages) =
        output(Command::new(env!("CARGO_BIN_EXE_iopj")).current_dir(folder).args(arguments));
    assert!(output.status.success(), "{arguments:?}: {messages}");
}

/// The page of a store.
fn page(folder: &Path, store: &str) -> PathBuf {
    iopj(folder, &["report", store, "--html", "page.html"]);
    folder.join("page.html")
}

/// A store of these trials.
fn stored(folder: &Path, name: &str, study: &StudyRecord, trials: &[Trial]) {
    let mut store = Store::create(&folder.join(name), study).unwrap();
    for (position, trial) in trials.iter().enumerate() {
        store.add(&Trial { position: position as u64, ..trial.clone() }).unwrap();
    }
}

/// Six paths at two depths, three times each, of fixed numbers that differ by path, depth and replicate; one
/// path refuted, one unproven.
fn quick() -> Vec<Trial> {
    let paths = [
        "posix-sio/syscall/interrupt",
        "posix-sio/syscall/poll",
        "posix-aio/syscall/interrupt",
        "libaio/syscall/interrupt",
        "io_uring/syscall/interrupt",
        "io_uring/sqpoll/interrupt",
    ];
    let mut all = trials(&paths, &workloads(&[1, 32], &[1], &[4096]), 3);
    judge(&mut all, paths[1], VerdictKind::Refuted);
    judge(&mut all, paths[2], VerdictKind::Unproven);
    for trial in &mut all {
        let rank = paths.iter().position(|path| *path == trial.path.to_string()).unwrap() as u64;
        let Outcome::Measured(one) = &mut trial.outcome else { panic!("all are measured") };
        let mut latencies = histogram::new();
        for step in 0..one.ios {
            let slower = 7 * rank + u64::from(trial.replicate) + u64::from(trial.workload.iodepth);
            latencies.record(15_000 + 500 * slower + step % 4000).unwrap();
        }
        one.latency = histogram::summary(&latencies);
        one.interrupts_per_io = Some(1.0 / (1.0 + rank as f64));
        one.system_calls_per_io = Some(if rank == 5 { 0.0 } else { 1.0 + rank as f64 / 10.0 });
    }
    all
}

#[test]
fn a_store_is_drawn_as_it_was_measured() {
    let Some(program) = chromium() else { return };
    let folder = &*folder();
    stored(folder, "quick.iopj", &study("quick"), &quick());
    let page = page(folder, "quick.iopj");
    iopj_harness::browser::reader::is_valid(&page);
    let records = Records::of(folder, "quick.iopj");
    for fonts in fonts() {
        let mut browser = Browser::with(fonts, program);
        let seen = iopj_harness::browser::reader::looks(&mut browser, &page);
        is_what_was_measured(&seen, &records);
        assert_eq!(
            browser.value("document.querySelector('.banner')"),
            Value::Null,
            "it was measured on a real machine"
        );
        iopj_harness::browser::reader::scrolls(&mut browser, &page, "#time .plot");
    }
}

#[test]
fn counts_of_an_emulated_store_are_drawn_as_they_were_counted() {
    let Some(program) = chromium() else { return };
    let folder = &*folder();
    let workload = costs::workload(1, 1000);
    let trials: Vec<Trial> =
        costs::three(&workload).into_iter().filter(|trial| trial.replicate < 3).collect();
    stored(folder, "lab.iopj", &costs::study(true), &trials);
    let page = page(folder, "lab.iopj");
    iopj_harness::browser::reader::is_valid(&page);
    let records = Records::of(folder, "lab.iopj");
    for fonts in fonts() {
        counts::are_what_was_counted(
            &iopj_harness::browser::reader::looks(&mut Browser::with(fonts, program), &page),
            &records,
        );
    }
}

#[test]
fn a_real_run_has_its_page() {
    let Some(program) = chromium() else { return };
    let folder = &*folder().with_data(64 << 20);
    {
        let _alone = alone();
        let line = "run --target data --meters none --ramp-time 50ms --runtime 300ms --store quick.iopj";
        iopj(folder, &line.split(' ').collect::<Vec<_>>());
    }
    let page = page(folder, "quick.iopj");
    iopj_harness::browser::reader::is_valid(&page);
    let mut browser = Browser::start(program);
    let seen = iopj_harness::browser::reader::looks(&mut browser, &page);
    verdicts_are_drawn(figure(&seen, "verdicts-by-path"), &Records::of(folder, "quick.iopj"));
    iopj_harness::browser::reader::walks(&mut browser, &page);
    assert_eq!(
        iopj_harness::browser::reader::downloads(&mut browser, &page),
        2 * seen["figures"].as_array().unwrap().len()
    );
}

/// The figures of one reading workload over two depths.
#[track_caller]
fn is_what_was_measured(seen: &Value, records: &Records) {
    let iops = records.cells("/iops");
    let depths: BTreeSet<u64> = iops.keys().map(|(_, depth)| *depth).collect();
    assert_eq!(depths, BTreeSet::from([1, 32]), "a path at each depth");
    verdicts_are_drawn(figure(seen, "verdicts-by-path"), records);
    let latency = records.cells_of(|trial| Some(trial["latency_ns"]["mean"].as_f64()? / 1000.0));
    let lines = [
        ("iops", &iops),
        ("mean-latency", &latency),
        ("cpu-use", &records.cells("/cpu_percent")),
        ("context-switches", &records.cells("/context_switches_per_io")),
    ];
    for (name, cells) in lines {
        line_is_drawn(figure(seen, &format!("{name}-over-iodepth-randread-4k-numjobs-1")), cells);
    }
    let other = ["most-i-os-per-second-of-cpu-time", "least-p99-latency", "least-p99-9-latency"];
    for name in other {
        let map = figure(seen, &format!("{name}-randread-4k"));
        assert_eq!((map["marks"].as_u64(), rows(map).len()), (Some(2), 2), "{name}");
    }
    let count = |field| records.cells(field);
    let maps = [
        ("least-mean-latency", latency.clone()),
        ("fewest-context-switches-per-i-o", count("/context_switches_per_io")),
        ("fewest-interrupts-per-i-o", count("/interrupts_per_io")),
        ("fewest-system-calls-per-i-o", count("/system_calls_per_io")),
    ];
    for (name, cells) in &maps {
        least_is_named(figure(seen, &format!("{name}-randread-4k")), cells);
    }
    let ios = records.cells("/latency_ns/count");
    for depth in &depths {
        let expected = ios.keys().filter(|(_, own)| own == depth).count();
        let at = format!("randread-4k-iodepth-{depth}-numjobs-1");
        for name in ["latency-percentiles", "latency-distribution"] {
            let curves = figure(seen, &format!("{name}-{at}"));
            assert_eq!((curves["marks"].as_u64(), rows(curves).len()), (Some(expected as u64), expected));
            for row in rows(curves) {
                let path = row[0].as_str().unwrap();
                is_near(&row[1], ios[&(path.to_owned(), *depth)].iter().sum(), path);
            }
        }
        // An unproven path is drawn, and is no choice.
        let front = figure(seen, &format!("latency-against-cost-{at}"));
        assert_eq!((front["marks"].as_u64(), rows(front).len()), (Some(expected as u64 - 1), expected - 1));
    }
    let time = figure(seen, "iops-over-time");
    let usable = records.usable().count();
    assert_eq!((time["marks"].as_u64(), rows(time).len()), (Some(usable as u64), usable));
    assert_eq!(
        seen["figures"].as_array().unwrap().len(),
        1 + lines.len() + other.len() + maps.len() + 3 * depths.len() + 1
    );
}

/// A mark for each cell at the height of its value, with an error bar if there are replicates; the table
/// holds mean and interval.
#[track_caller]
fn line_is_drawn(figure: &Value, cells: &Cells) {
    let id = figure["id"].as_str().unwrap();
    assert_eq!(
        (figure["marks"].as_u64(), figure["errors"].as_u64()),
        (Some(cells.len() as u64), Some(with_interval(cells) as u64)),
        "{id}"
    );
    lies_at_its_value(id, &tips(figure), cells);
    for ((path, depth), values) in cells {
        let heading = figure["table"][0].as_array().unwrap();
        let column = heading.iter().position(|name| name == &format!("iodepth {depth}")).unwrap();
        let row = rows(figure).iter().find(|row| row[0] == path.as_str()).unwrap();
        is_near(&row[column], mean(values), id);
        if values.len() > 1 {
            is_near(&row[column + 1], half(values), id);
        }
    }
}

/// Each mark shows a value and is at its height: on one axis, linear or logarithmic, from the least to the
/// greatest.
#[track_caller]
fn lies_at_its_value(id: &str, marks: &[(f64, &Value)], cells: &Cells) {
    let sorted = |values: Vec<f64>| {
        let mut values = values;
        values.sort_by(f64::total_cmp);
        values
    };
    let values = sorted(cells.values().map(|values| mean(values)).collect());
    let shown = sorted(marks.iter().map(|(value, _)| *value).collect());
    for (value, shown) in values.iter().zip(shown) {
        assert!((value - shown).abs() <= 5e-3 * value + 5e-4, "{id}: {shown} for {value}");
    }
    let heights = sorted(marks.iter().map(|(_, mark)| -mark["y"].as_f64().unwrap()).collect());
    let (least, most) = (values[0], values[values.len() - 1]);
    let (low, high) = (heights[0], heights[heights.len() - 1]);
    // An interval stretches the axis by half at most.
    assert!(most < 2.0 * least || high - low > 20.0, "{id}: from {least} to {most} are {} px", high - low);
    let scales: [fn(f64) -> f64; 2] = [|value| value, f64::ln];
    let is_along = |scale: fn(f64) -> f64| {
        let share = |value: f64| (scale(value) - scale(least)) / (scale(most) - scale(least));
        let place = |value: f64| if most > least { low + share(value) * (high - low) } else { low };
        // The middle of a mark's box is not always the mark's own.
        values.iter().zip(&heights).all(|(value, height)| (place(*value) - height).abs() < 2.0)
    };
    assert!(scales.into_iter().any(is_along), "{id}: {values:?} at {heights:?}");
}

/// The map has a mark for each depth, and names a path with the least mean.
#[track_caller]
fn least_is_named(map: &Value, cells: &Cells) {
    let depths: BTreeSet<u64> = cells.keys().map(|(_, depth)| *depth).collect();
    assert_eq!((map["marks"].as_u64(), rows(map).len()), (Some(depths.len() as u64), depths.len()));
    for row in rows(map) {
        let depth: u64 = row[0].as_str().unwrap().parse().unwrap();
        let here = cells.iter().filter(|((_, own), _)| *own == depth);
        let least = here.map(|(_, values)| mean(values)).fold(f64::MAX, f64::min);
        let path = row[2].as_str().unwrap();
        assert_eq!(
            mean(&cells[&(path.to_owned(), depth)]),
            least,
            "{}: {path} at iodepth {depth}",
            map["id"]
        );
        is_near(&row[4], least, path);
    }
}

#[test]
fn foreign_names_are_text_from_end_to_end() {
    let Some(program) = chromium() else { return };
    let folder = &*folder();
    written(&folder.join(EVIL), 8 << 20);
    {
        let _alone = alone();
        let paths = ["--path", "libaio/syscall/interrupt,io_uring/syscall/interrupt"];
        let short = ["--ramp-time", "0s", "--ios", "300", "--iodepth", "1,4", "--store", "s.iopj"];
        iopj(folder, &[&["run", "--target", EVIL, "--meters", "none"], &paths[..], &short].concat());
    }
    // A study of this name would be refused, but a store that somebody else made is not.
    let store = rusqlite::Connection::open(folder.join("s.iopj")).unwrap();
    let named = store.execute("UPDATE study SET record = json_set(record, '$.name', ?1)", [EVIL]).unwrap();
    assert_eq!(named, 1);
    store.execute_batch("DELETE FROM checksum WHERE kind IN ('study', 'trial')").unwrap();
    drop(store);
    shows_as_text(program, &page(folder, "s.iopj"), &["title", "h1", ".place code", "#provenance"]);
    let fio = ["--ioengine=libaio", "--direct=1", "--rw=randread", "--bs=4k", "--iodepth=4", "--size=8m"];
    let (name, file) = (format!("--name={EVIL}"), format!("--filename={EVIL}"));
    let output = format!("--output={EVIL}.json");
    let mut command = Command::new("fio");
    let command =
        command.current_dir(folder).args(fio).args([&name, &file, &output, "--output-format=json+"]);
    if !have(command.output().is_ok_and(|done| done.status.success()), "fio") {
        return;
    }
    let json = format!("{EVIL}.json");
    assert!(
        std::fs::read_to_string(folder.join(&json)).unwrap().contains(&format!("\"jobname\" : \"{EVIL}\""))
    );
    iopj(folder, &["import", "fio", &json, "--store", "f.iopj"]);
    shows_as_text(program, &page(folder, "f.iopj"), &["#provenance"]);
}

/// The page is sound, and these parts of it show the name.
#[track_caller]
fn shows_as_text(program: &str, page: &Path, parts: &[&str]) {
    iopj_harness::browser::reader::is_valid(page);
    for fonts in fonts() {
        let mut browser = Browser::with(fonts, program);
        iopj_harness::browser::reader::looks(&mut browser, page);
        for part in parts {
            let text = browser.text(&format!("document.querySelector('{part}').textContent"));
            assert!(text.contains(EVIL), "{part}: {text}");
        }
    }
}
