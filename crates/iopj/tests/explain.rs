//! `iopj explain` of stores whose costs are made of known parts.

mod common;

use common::{folder, run, says};
use iopj_record::Trial;
use iopj_record::testing::counted as costs;
use iopj_store::Store;
use serde_json::Value;
use std::path::Path;

fn store(path: &Path, trials: Vec<Trial>) {
    let mut store = Store::create(path, &costs::study(true)).unwrap();
    for (mut trial, position) in trials.into_iter().zip(0..) {
        trial.position = position;
        store.add(&trial).unwrap();
    }
}

#[test]
fn a_store_is_explained() {
    let folder = &*folder();
    store(&folder.join("s.iopj"), costs::three(&costs::workload(1, 1000)));
    let (code, text, messages) = run(folder, "explain s.iopj");
    assert_eq!((code, messages.as_str()), (0, ""));
    says(
        &text,
        &[
            "what an I/O costs: study known",
            "randread 4k iodepth 1 numjobs 1, 1000 I/Os per job, native",
            "  kernel instructions  2,265 ± 229  3,320 ± 47   3,650 ± 47\n",
            "  kernel/sched/                725             0         1,450\n",
            "(2,990 - 1,520) / 30.0",
            "interrupt < hybrid < poll",
        ],
    );
    let (code, few, _) =
        run(folder, "explain s.iopj --top 1 --path posix-sio/syscall/poll,posix-sio/syscall/interrupt");
    assert_eq!(code, 0);
    assert!(few.contains("A  posix-sio/syscall/poll") && few.contains("blk_poll"), "{few}");
    assert!(!few.contains("hybrid") && !few.contains("nvme_poll ["), "{few}");
    let (code, json, _) = run(folder, "explain --json s.iopj");
    let json: Value = serde_json::from_str(&json).unwrap();
    let block = &json["blocks"][0];
    assert_eq!((code, &json["emulated"], &block["source"]), (0, &"QEMU TCG".into(), &"exact".into()));
    assert_eq!(block["measures"], serde_json::json!(["instructions", "loads_plus_stores"]));
    assert_eq!(block["columns"][2]["path"], "posix-sio/syscall/hybrid");
    let fixed = &block["fits"][2]["outcome"]["parts"]["fixed"][0]["estimate"];
    assert!((fixed.as_f64().unwrap() - 3530.0).abs() < 1e-6, "{fixed}");
    assert_eq!(block["completions"]["orders"][0]["answer"], "emulated", "spins mean nothing");
    let spins = &block["completions"]["crossings"][0]["outcome"]["at"]["spins"];
    assert!((spins.as_f64().unwrap() - 49.0).abs() < 1e-6, "{spins}");
}

#[test]
fn what_cannot_be_explained_is_refused() {
    let folder = &*folder();
    let mut trials = costs::three(&costs::workload(1, 1000));
    store(&folder.join("s.iopj"), trials.clone());
    trials.iter_mut().for_each(|trial| costs::measurement(trial).costs = None);
    store(&folder.join("bare.iopj"), trials);
    for (line, part) in [
        ("explain none.iopj", "there is no store"),
        (
            "explain bare.iopj",
            "bare.iopj: the store holds no costs by function: count them exactly with `iopj lab run STUDY \
             --exact`",
        ),
        ("explain s.iopj --path posix-sio", "`posix-sio` is not an I/O path"),
        (
            "explain s.iopj --path libaio/syscall/interrupt",
            "s.iopj: the store holds no costs of libaio/syscall/interrupt",
        ),
    ] {
        let (code, output, messages) = run(folder, line);
        assert_eq!((code, output.as_str(), messages.lines().count()), (2, "", 1), "{line}: {messages}");
        assert!(messages.contains(part), "{line}: {messages}");
    }
    assert_eq!(run(folder, "explain s.iopj --top 0").0, 2);
}
