//! A store keeps trials whole, in order and once, and says clearly what it refuses.

use iopj_core::evidence::Finding;
use iopj_core::{Evidence, Observed, Verdict, VerdictKind, Workload};
use iopj_store::record::{Generator, Measurement, Outcome, Slice, StudyRecord, Trial};
use iopj_store::{Store, StoreError, export, histogram};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn study() -> StudyRecord {
    StudyRecord {
        name: "test".into(),
        text: "name = \"test\"".into(),
        seed: 7,
        planned_trials: 3,
        target: "data".into(),
        file_id: None,
        provenance: BTreeMap::from([("kernel".into(), "6.1".into())]),
        warnings: vec![],
        unavailable: vec![],
    }
}

fn trial(replicate: u32, outcome: Outcome) -> Trial {
    Trial {
        path: "io_uring/syscall/interrupt".parse().unwrap(),
        workload: Workload::default(),
        settings: BTreeMap::from([("nomerges".into(), "2".into())]),
        generator: Generator::Native,
        replicate,
        position: u64::from(replicate),
        started_unix_ns: 5,
        gap_ns: (replicate > 0).then_some(9),
        outcome,
    }
}

fn measured() -> Outcome {
    let mut latencies = histogram::new();
    for value in [1000, 2000, 3000] {
        latencies.record(value).unwrap();
    }
    let unclear = || "none".to_owned();
    Outcome::Measured(Box::new(Measurement {
        window_ns: 2_000_000_000,
        ios: 3,
        bytes: 3 * 4096,
        reads: 3,
        writes: 0,
        short_ios: 1,
        latency: histogram::summary(&latencies),
        read_latency: None,
        write_latency: None,
        series: vec![Slice { end_ns: 1, ios: 2 }, Slice { end_ns: 2, ios: 1 }],
        cpu_percent: 12.5,
        context_switches_per_io: 1.0,
        interrupts_per_io: None,
        system_calls_per_io: Some(1.0),
        achieved_depth: 0.9,
        preconditioning: None,
        evidence: Evidence::default(),
        observed: Observed {
            completion: Finding::Unclear(unclear()),
            submission: Finding::Unclear(unclear()),
            doubt: None,
        },
        verdict: Verdict { kind: VerdictKind::Unproven, reasons: vec!["none".into()] },
        power_state: [serde_json::json!({"governor": "none"}), serde_json::Value::Null],
        fio: None,
    }))
}

fn fresh() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.iopj");
    (folder, path)
}

#[test]
fn what_was_added_is_read_back() {
    let (_folder, path) = fresh();
    let trials = [trial(0, measured()), trial(1, Outcome::Failed("it broke".into()))];
    let mut store = Store::create(&path, &study()).unwrap();
    for trial in &trials {
        store.add(trial).unwrap();
    }
    store.add_event(1, "control", "{}").unwrap();
    drop(store);
    let store = Store::open(&path).unwrap();
    assert_eq!(store.study().unwrap(), study());
    assert_eq!(store.trials().unwrap(), trials);
    assert_eq!(store.events().unwrap(), [(1, "control".to_owned(), "{}".to_owned())]);
    drop(store);
    let left: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["test.iopj"], "a closed store is one file");
}

#[test]
fn a_trial_cannot_be_added_twice() {
    let (_folder, path) = fresh();
    let mut store = Store::create(&path, &study()).unwrap();
    store.add(&trial(0, measured())).unwrap();
    assert!(matches!(store.add(&trial(0, measured())), Err(StoreError::Sqlite { .. })));
    assert_eq!(store.trials().unwrap().len(), 1);
}

#[test]
fn a_live_run_locks_writers_out_and_lets_readers_in() {
    let (_folder, path) = fresh();
    let mut store = Store::create(&path, &study()).unwrap();
    store.add(&trial(0, measured())).unwrap();
    assert!(matches!(Store::open_for_run(&path), Err(StoreError::Locked(_))));
    assert!(matches!(Store::create(&path, &study()), Err(StoreError::Exists(_))));
    drop(store);
    assert_eq!(Store::open_for_run(&path).unwrap().trials().unwrap().len(), 1);
}

#[test]
fn what_is_no_store_is_refused_by_name() {
    let (folder, path) = fresh();
    let says = |path: &PathBuf, part: &str| {
        let message = Store::open(path).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    };
    says(&path, "there is no store");
    std::fs::write(&path, "text, and long enough for a header").unwrap();
    says(&path, "not an SQLite file");
    let other = folder.path().join("other.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    says(&other, "of another program");
    let newer = folder.path().join("newer.iopj");
    drop(Store::create(&newer, &study()).unwrap());
    rusqlite::Connection::open(&newer).unwrap().pragma_update(None, "user_version", 99).unwrap();
    says(&newer, "has schema 99");
    let cut = folder.path().join("cut.iopj");
    let mut store = Store::create(&cut, &study()).unwrap();
    store.add(&trial(0, measured())).unwrap();
    drop(store);
    let whole = std::fs::read(&cut).unwrap();
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let cut = Store::open(&cut).and_then(|store| store.study().and_then(|_| store.trials()));
    assert!(cut.unwrap_err().to_string().contains("damaged or cut short"));
}

#[test]
fn exports_hold_every_figure_under_its_name() {
    let trials = [trial(0, measured()), trial(1, Outcome::Failed("it, broke".into()))];
    let value = export::json(&study(), &trials, &[], export::Detail::Full);
    let first = &value["trials"][0];
    assert_eq!(first["path"], "io_uring/syscall/interrupt");
    assert_eq!(first["verdict"], "unproven");
    assert_eq!(first["latency_ns"]["p50"], 2000);
    assert_eq!(first["latency_ns"]["histogram"], serde_json::json!([[1000, 1], [2000, 1], [3001, 1]]));
    assert_eq!(first["iops"], 1.5);
    assert_eq!(first["series"][0]["ios"], 2);
    assert_eq!(first["interrupts_per_io"], serde_json::Value::Null);
    assert_eq!(value["trials"][1]["error"], "it, broke");
    let mut csv = Vec::new();
    export::csv(&trials, &mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let lines: Vec<_> = csv.split("\r\n").collect();
    let columns = lines[0].split(',').count();
    assert!(lines[1].starts_with("io_uring/syscall/interrupt,io_uring,syscall,interrupt,randread,50,4096,1,"));
    assert_eq!(lines[1].split(',').count(), columns);
    assert!(lines[2].contains("\"it, broke\""));
}
