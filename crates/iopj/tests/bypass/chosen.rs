//! An engine that chooses its way on a drive that was taken: which of the driver's modes it took, what shows
//! that, and what is refused.

use crate::common::believes;
use crate::host::Left;
use iopj_core::{IoPath, Verdict, VerdictKind, Way};
use iopj_record::{Measurement, Trial};
use iopj_store::Store;
use std::collections::BTreeSet;

/// A policy that believes in polling has these.
const POLLS: [&str; 2] = ["nvme-user/doorbell/poll", "nvme-user/doorbell/interrupt"];
const REPLICATES: usize = 3;

/// What the guest does with its only drive, `$drive`.
pub(crate) fn script() -> String {
    let bound = ["interrupt", "poll", "hybrid"].map(|mode| format!("auto:nvme-user/doorbell/{mode}"));
    let named = format!("auto,auto:taken.toml,auto:io_uring/syscall/interrupt,{}", bound.join(","));
    let policy = believes(POLLS);
    let blocks = format!("--replicates {REPLICATES}");
    [
        format!("printf '{policy}' >/tmp/taken.toml"),
        format!("attempt bound $drive --path {named} --iodepth 1 --ios 500 {blocks}"),
        format!("attempt chance $drive --path auto:random --iodepth 4 --ios 8000 --seed 7 {blocks}"),
        "cd /tmp; target=$(node $drive); take=\"--take-device $drive\"".to_owned(),
        "iopj report chance.iopj >/out/report".to_owned(),
        "iopj policy check taken.toml --json --target $target $take >/out/policy.taken".to_owned(),
        "iopj policy check taken.toml --json --target $target >/out/policy.kernel".to_owned(),
        "run=\"iopj run --target $target --meters none\"".to_owned(),
        "$run --dry-run $take --path auto --store plan.iopj >/out/plan".to_owned(),
        "driver $drive >/out/checked.driver".to_owned(),
        "iopj run --resume chance.iopj >/out/other 2>&1; echo $? >/out/other.status".to_owned(),
        "only=auto:nvme-user/doorbell/poll".to_owned(),
        "$run --path $only --store none.iopj >/out/untaken 2>&1".to_owned(),
        "echo $? >/out/untaken.status\n".to_owned(),
    ]
    .join("\n")
}

/// The trials of an attempt.
fn trials(left: &Left, name: &str) -> Vec<Trial> {
    let messages = left.text(&format!("{name}.messages"));
    assert_eq!(left.text(&format!("{name}.status")), "0", "{messages}");
    Store::open(&left.path(&format!("{name}.iopj"))).unwrap().trials().unwrap()
}

fn measurement(trial: &Trial) -> &Measurement {
    trial.outcome.measurement().unwrap_or_else(|| panic!("{:?}", trial.outcome))
}

/// The ways that a trial's I/Os went, which are all that were done.
#[track_caller]
fn ways(trial: &Trial) -> Vec<Way> {
    let measurement = measurement(trial);
    let routes = measurement.evidence.engine.as_ref().unwrap().routes.as_ref().unwrap();
    eprintln!("{}: {}: {:?}", trial.path, routes.text(), measurement.verdict);
    assert_eq!((routes.ios(), routes.failures, routes.redone), (measurement.ios, 0, 0), "{routes:?}");
    routes.ways.iter().filter(|route| route.ios > 0).map(|route| route.way).collect()
}

/// Asserts what the guest left.
pub(crate) fn check(left: &Left) {
    bound(&trials(left, "bound"));
    by_chance(&trials(left, "chance"));
    for mode in ["interrupt", "poll", "hybrid"] {
        let way = format!("nvme-user/doorbell/{mode}");
        assert!(left.text("report").contains(&way), "{}", left.text("report"));
    }
    let policy = |name: &str| -> serde_json::Value { serde_json::from_str(&left.text(name)).unwrap() };
    let (taken, kernel) = (policy("policy.taken"), policy("policy.kernel"));
    assert_eq!(taken["missing"], serde_json::json!([]));
    assert_eq!(taken["cells"][0]["takes"]["way"], "nvme-user/doorbell/poll");
    assert_eq!(kernel["missing"].as_array().unwrap().len(), 2, "{kernel}");
    assert!(kernel["missing"][0]["remedy"].as_str().unwrap().contains("--take-device"), "{kernel}");
    assert_eq!(kernel["cells"][0]["takes"], serde_json::Value::Null);
    assert!(left.text("plan").contains("is taken from nvme and given back"), "{}", left.text("plan"));
    assert_eq!(left.text("checked.driver"), "nvme");
    assert_eq!((left.text("other.status"), left.text("untaken.status")), ("2".into(), "2".into()));
    assert!(left.text("other").contains("name the drive by --take-device again"), "{}", left.text("other"));
    assert!(left.text("untaken").contains("not taken from the kernel's driver"));
}

/// Bound to one way, none went another; the host may pause a trial, but not make another path of it.
fn bound(trials: &[Trial]) {
    let paths: BTreeSet<IoPath> = trials.iter().map(|trial| trial.path).collect();
    assert_eq!((paths.len(), trials.len()), (6, 6 * REPLICATES));
    for path in paths {
        let own: Vec<&Trial> = trials.iter().filter(|trial| trial.path == path).collect();
        for trial in &own {
            let (expected, on_drive) = match path.to_string().as_str() {
                "auto" => (Way::UserInterrupt, true),
                "auto:taken.toml" => (Way::UserPoll, true),
                _ => (path.auto().unwrap().pinned().unwrap(), path.is_bypass()),
            };
            let taken = ways(trial);
            assert!(taken.iter().all(|way| way.is_bypass() == on_drive), "{path}: {taken:?}");
            assert_eq!(taken[..], [expected], "{path}");
            let drive = &measurement(trial).evidence.devices[0];
            let driver = on_drive.then_some("vfio-pci");
            assert_eq!((drive.taken_by.as_deref(), drive.reads), (driver, 500), "{path}");
        }
        let verdicts: Vec<&Verdict> = own.iter().map(|trial| &measurement(trial).verdict).collect();
        assert!(verdicts.iter().any(|verdict| verdict.kind == VerdictKind::Verified), "{path}: {verdicts:?}");
        assert!(verdicts.iter().all(|verdict| verdict.kind != VerdictKind::Refuted), "{path}: {verdicts:?}");
    }
}

/// By chance the modes take turns within a trial, and each shows.
fn by_chance(trials: &[Trial]) {
    assert_eq!(trials.len(), REPLICATES);
    let mut all = BTreeSet::new();
    for trial in trials {
        let taken = ways(trial);
        assert!(taken.len() > 1 && taken.iter().all(|way| way.is_bypass()), "{taken:?}");
        all.extend(taken);
        let engine = measurement(trial).evidence.engine.as_ref().unwrap();
        assert!(engine.sleeps <= engine.system_calls, "{engine:?}");
        assert_ne!(measurement(trial).verdict.kind, VerdictKind::Refuted);
    }
    assert_eq!(all, BTreeSet::from([Way::UserInterrupt, Way::UserPoll, Way::UserHybrid]));
    let is_verified = |trial: &Trial| measurement(trial).verdict.kind == VerdictKind::Verified;
    assert!(trials.iter().any(is_verified), "no trial of three is verified");
}
