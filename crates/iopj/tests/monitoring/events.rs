//! `--log-format json`: each line of standard error is an event, whatever the command does.

use crate::common;
use serde_json::Value;
use std::path::Path;

/// The exit code of a command, and its events.
fn events(folder: &Path, line: &str) -> (i32, Vec<Value>) {
    let (code, _, words) = common::run(folder, line);
    let event = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for key in ["time", "level", "event"] {
            assert!(event[key].is_string(), "{key} is missing in: {line}");
        }
        event
    };
    (code, words.lines().map(event).collect())
}

fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == name).collect()
}

#[test]
fn a_run_says_each_step() {
    let folder = common::folder();
    let (code, all) = events(
        &folder,
        "run --log-format json --path posix-sio/syscall/interrupt,nvme-passthrough/syscall/poll --ios 50 \
         --replicates 2 --size 1m --meters none --name steps",
    );
    assert_eq!(code, 0, "{all:?}");
    let [unavailable] = named(&all, "unavailable")[..] else { panic!("{all:?}") };
    assert_eq!(unavailable["paths"][0]["path"], "nvme-passthrough/syscall/poll");
    let file = *named(&all, "file").last().unwrap();
    assert_eq!((&file["done_bytes"], &file["bytes"]), (&Value::from(1 << 20), &Value::from(1 << 20)));
    let (trials, ended) = (named(&all, "trial"), named(&all, "ended"));
    assert_eq!((trials.len(), ended.len()), (2, 2), "{all:?}");
    for (index, (trial, ended)) in trials.into_iter().zip(ended).enumerate() {
        for event in [trial, ended] {
            assert_eq!((&event["number"], &event["of"]), (&Value::from(index + 1), &Value::from(2)));
            assert_eq!(event["path"], "posix-sio/syscall/interrupt");
            common::says(event["workload"].as_str().unwrap(), &["randread 4k", "iodepth 1"]);
        }
        assert!(trial.get("left_s").is_some());
        assert_eq!(ended["outcome"], "measured");
        assert!(ended["iops"].as_f64().unwrap() > 0.0 && ended["verdict"].is_string(), "{ended}");
    }
    let done = all.last().unwrap();
    assert_eq!((&done["event"], &done["failed"], &done["missing"]), (&"done".into(), &0.into(), &0.into()));
    assert_eq!(done["store"], "steps.iopj");
}

#[test]
fn what_is_refused_is_an_event_too() {
    let folder = common::folder();
    for (line, part) in [
        ("report --log-format json none.iopj", "none.iopj"),
        ("--log-format=json run --meters none --nonsense", "unexpected argument '--nonsense'"),
    ] {
        let (code, all) = events(&folder, line);
        assert_eq!((code, all.len()), (2, 1), "{line}: {all:?}");
        assert_eq!((&all[0]["event"], &all[0]["level"]), (&"error".into(), &"error".into()));
        common::says(all[0]["message"].as_str().unwrap(), &[part]);
    }
}

#[test]
fn a_watch_says_its_intervals_and_how_it_ended() {
    let folder = common::folder();
    let (code, all) = events(&folder, "watch --log-format json --interval 100ms -- sleep 0.35");
    assert_eq!(code, 0, "{all:?}");
    let intervals = named(&all, "interval");
    assert!(!intervals.is_empty() && intervals.iter().all(|one| one["figures"]["seconds"].is_number()));
    let done = all.last().unwrap();
    assert_eq!((&done["event"], &done["end"]["exited"]), (&"done".into(), &0.into()));
}
