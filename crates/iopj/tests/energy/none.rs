//! A study on a machine without meters; those that there are are hidden.

use crate::common::{alone, apart, folder, have, iopj, is_busy, is_root, output};
use crate::{OPTIONS, succeeded, trials};
use std::path::Path;
use std::process::Output;

/// Hides the meters of this machine below the empty folders `none` and `others`.
const HIDE_METERS: &str = "\
for class in powercap hwmon nvme; do
    [ ! -d /sys/class/$class ] || mount --bind none /sys/class/$class
done
devices=/sys/bus/event_source/devices
[ ! -d $devices ] || {
    mount -t tmpfs tmpfs others
    cp -RP $devices/* others
    rm -rf others/power*
    mount --bind others $devices
}";

/// Whether a meter of this machine can be read.
fn has_meters(folder: &Path) -> bool {
    let list = iopj(folder, "meter list --json").output().unwrap();
    let found: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    found.as_array().unwrap().iter().any(|meter| meter["why_not"].is_null())
}

/// Runs the program where no meter of this machine is seen.
fn without_meters(folder: &Path, line: &str) -> Output {
    if !is_root() {
        return output(&mut iopj(folder, line)).0;
    }
    for name in ["none", "others"] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    let program = env!("CARGO_BIN_EXE_iopj");
    let script = format!("cd {}\n{HIDE_METERS}\nexec {program} {line}", folder.display());
    loop {
        let output = apart(folder, &script);
        if !is_busy(&String::from_utf8_lossy(&output.stderr)) {
            return output;
        }
    }
}

#[test]
fn without_a_meter_a_study_runs_and_says_once_how_to_get_watts() {
    let _alone = alone();
    let folder = folder().with_data(4 << 20);
    if !have(is_root() || !has_meters(&folder), "root, to hide the meters of this machine") {
        return;
    }
    let line = format!("run --meters local {OPTIONS} --iodepth 1 --ios 200 --replicates 2");
    let output = without_meters(&folder, &line);
    let messages = succeeded(&output);
    assert_eq!(messages.matches("`iopj meter list`").count(), 1, "{messages}");
    let trials = trials(&folder);
    assert!(trials.iter().all(|trial| trial.outcome.measurement().unwrap().energy.is_empty()));
    for trial in &trials {
        let measurement = trial.outcome.measurement().unwrap();
        let [begin_ns, end_ns] = measurement.window_raw_ns.unwrap();
        // The clocks drift by at most 500 ppm, and are read one after the other.
        assert!(
            (end_ns - begin_ns).abs_diff(measurement.window_ns) < 1_000_000 + measurement.window_ns / 1000
        );
    }
    assert!(!String::from_utf8_lossy(&output.stdout).contains(" W"));
}
