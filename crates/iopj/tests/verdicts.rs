//! What this machine shows of the paths it was asked for: on a file on a disk, and where no vector can be told.

mod common;

use common::{alone, folder, have, iopj, is_root, written};
use serde_json::Value;
use std::path::Path;

/// One run, as JSON.
fn run(folder: &Path, line: &str) -> Value {
    let output = iopj(folder, &format!("run --json {line}")).output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {messages}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Path, verdict and reasons of each trial.
fn verdicts(report: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let trial = |t: &Value| (text(&t["path"]), text(&t["verdict"]), t["verdict_reasons"].to_string());
    report["trials"].as_array().unwrap().iter().map(trial).collect()
}

/// The paths that `iopj check` calls available.
fn available(folder: &Path, target: &str) -> Vec<String> {
    let output = iopj(folder, &format!("check --json {target}")).output().unwrap();
    let check: Value = serde_json::from_slice(&output.stdout).unwrap();
    let paths = check["paths"].as_array().unwrap().iter().filter(|path| path["state"] == "available");
    paths.map(|path| path["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn on_a_disk_every_path_is_verified_but_the_one_that_linux_fakes() {
    let _alone = alone();
    let folder = folder();
    written(&folder.path().join("data"), 32 << 20);
    let expected = available(folder.path(), "data");
    assert!(expected.len() >= 5, "{expected:?}");
    // Others may use the disk meanwhile, which iopj notices; a quiet moment comes.
    let mut last = Vec::new();
    for attempt in 0..20 {
        let line = format!(
            "--target data --path available --iodepth 1 --ios 3000 --ramp-time 50ms --replicates 1 --store {attempt}.iopj"
        );
        last = verdicts(&run(folder.path(), &line));
        let mut ran: Vec<String> = last.iter().map(|(path, ..)| path.clone()).collect();
        ran.sort();
        let mut sorted = expected.clone();
        sorted.sort();
        assert_eq!(ran, sorted, "every path that check calls available runs");
        if last.iter().all(|(_, verdict, _)| verdict != "unproven") {
            break;
        }
    }
    for (path, verdict, reasons) in last {
        let wanted = match path.as_str() {
            "posix-sio/syscall/poll" if fakes_polling(folder.path()) => "refuted",
            _ => "verified",
        };
        assert_eq!(verdict, wanted, "{path}: {reasons}");
        if wanted == "refuted" {
            assert!(reasons.contains("asked for poll, seen interrupt"), "{reasons}");
        }
    }
}

/// True where the kernel takes RWF_HIPRI and ignores it: without poll queues, or since 5.19.
fn fakes_polling(folder: &Path) -> bool {
    let output = iopj(folder, "check --json data").output().unwrap();
    let check: Value = serde_json::from_slice(&output.stdout).unwrap();
    let poll = check["paths"].as_array().unwrap().iter().find(|path| path["path"] == "posix-sio/syscall/poll").unwrap();
    poll["notes"].as_array().is_some_and(|notes| !notes.is_empty())
}

#[test]
fn where_no_vector_can_be_told_nothing_is_proven() {
    let disksize = Path::new("/sys/block/zram0/disksize");
    let unused = std::fs::read_to_string(disksize).is_ok_and(|size| size.trim() == "0");
    if !have(is_root() && unused, "root and an unused /dev/zram0") {
        return;
    }
    let _alone = alone();
    std::fs::write(disksize, "64M").unwrap();
    let _reset = Reset;
    let folder = folder();
    written(Path::new("/dev/zram0"), 64 << 20);
    let line =
        "--target /dev/zram0 --path available --iodepth 1 --ios 2000 --ramp-time 0s --replicates 1 --store z.iopj";
    let verdicts = verdicts(&run(folder.path(), line));
    assert_eq!(verdicts.len(), available(folder.path(), "/dev/zram0").len());
    for (path, verdict, reasons) in verdicts {
        assert_eq!(verdict, "unproven", "{path}: {reasons}");
        assert!(reasons.contains("zram0"), "{path}: {reasons}");
    }
}

/// Gives zram0 back as it was: without a size.
struct Reset;

impl Drop for Reset {
    fn drop(&mut self) {
        let _ = std::fs::write("/sys/block/zram0/reset", "1");
    }
}
