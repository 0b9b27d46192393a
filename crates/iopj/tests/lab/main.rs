//! Studies in real guests: polled paths are verified on the kernels that have them, and drives fail.

mod arm;
#[path = "../bypass/host.rs"]
#[allow(dead_code, reason = "a part of it serves tests of other binaries")]
mod bench;
mod bypass;
#[path = "../common/mod.rs"]
mod common;
mod completions;
mod depth;
mod every_path;
mod failures;
mod faults;
mod page;
mod pair;
mod pair_faults;
#[path = "../page/records.rs"]
mod records;
mod refusals;
mod walk_through;
mod watched;

use common::{Alone, TestFolder, alone_with_guests, folder, have, iopj_of_guests, kernel};
use iopj_core::{CostSource, FunctionCost, IoPath, Space, Verdict, VerdictKind};
use iopj_lab::Arch;
use iopj_lab::cache::Cache;
use iopj_lab::kernels;
use iopj_record::{Generator, Measurement, Trial};
use iopj_store::Store;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

/// Programs and the kernels of these series are there, or this is CI and the test fails.
fn have_lab(series: &[&str]) -> bool {
    let missing = iopj_lab::missing_tools(Arch::HOST);
    have(missing.is_empty(), &format!("{missing:?}")) && series.iter().all(|series| kernel(series).is_some())
}

/// As [`have_lab`], for two guests: each needs a network namespace, which not every user may make.
fn have_pair(series: &[&str]) -> bool {
    let can = |kinds: &[&str]| {
        let output = Command::new("unshare").args(kinds).arg("true").output();
        output.is_ok_and(|output| output.status.success())
    };
    let can = can(&["--net"]) || can(&["--user", "--net"]);
    have(can, "a user who may make network namespaces (`unshare --user --net`)") && have_lab(series)
}

/// A folder for studies, and the machine, if [`have_lab`].
fn lab(series: &[&str]) -> Option<(Alone, TestFolder)> {
    have_lab(series).then(|| (alone_with_guests(), folder()))
}

/// The machine and a folder, if two guests can be joined here.
fn lab_of_two(series: &[&str]) -> Option<(Alone, TestFolder)> {
    have_pair(series).then(|| (alone_with_guests(), folder()))
}

/// `iopj lab run` of a study of this repository in `folder`, with `change` made to its text.
fn lab_run(folder: &Path, study: &str, change: &[(&str, &str)], options: &str) -> Output {
    lab_run_text(folder, study, &study_text(study, change), options)
}

/// A study of this repository with `change` made to its text.
fn study_text(study: &str, change: &[(&str, &str)]) -> String {
    let file = format!("{}/../../studies/{study}.toml", env!("CARGO_MANIFEST_DIR"));
    changed(&std::fs::read_to_string(file).unwrap(), change)
}

/// A study's text with `change` made to it.
fn changed(text: &str, change: &[(&str, &str)]) -> String {
    change.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

/// `iopj lab run` in `folder` of a study with this name and text.
fn lab_run_text(folder: &Path, study: &str, text: &str, options: &str) -> Output {
    lab_run_by(&iopj_of_guests(), folder, study, text, options)
}

/// The same by this iopj.
fn lab_run_by(iopj: &Path, folder: &Path, study: &str, text: &str, options: &str) -> Output {
    std::fs::write(folder.join(format!("{study}.toml")), text).unwrap();
    let mut command = Command::new(iopj);
    command
        .current_dir(folder)
        .args(["lab", "run", &format!("{study}.toml")])
        .args(options.split_whitespace());
    command.output().unwrap()
}

/// The trials of a run that succeeded.
fn trials(folder: &Path, study: &str, output: &Output) -> Vec<Trial> {
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}");
    trials_kept(folder, study, &words)
}

/// The trials of a study, all that were planned, even if other studies failed.
fn trials_kept(folder: &Path, study: &str, words: &str) -> Vec<Trial> {
    let store = Store::open(&folder.join(format!("{study}.iopj"))).unwrap();
    assert_eq!(store.study().unwrap().emulated.as_deref(), Some("QEMU TCG"), "{words}");
    let trials = store.trials().unwrap();
    assert_eq!(trials.len() as u64, store.study().unwrap().planned_trials, "{words}");
    trials
}

/// Measurements by path.
fn by_path(trials: &[Trial]) -> BTreeMap<String, Vec<&Measurement>> {
    let mut all: BTreeMap<String, Vec<&Measurement>> = BTreeMap::new();
    for trial in trials {
        let measurement = trial.outcome.measurement().unwrap_or_else(|| panic!("{:?}", trial.outcome));
        all.entry(trial.path.to_string()).or_default().push(measurement);
    }
    all
}

/// Asserts that a path has, at each depth and setting, a trial of this verdict and none of the opposite. A
/// replicate that the host paused may be unproven.
#[track_caller]
fn are(trials: &[Trial], path: &str, kind: VerdictKind) {
    let path: IoPath = path.parse().unwrap();
    let mut cells: BTreeMap<_, Vec<&Verdict>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.path == path) {
        let measurement = trial.outcome.measurement().unwrap_or_else(|| panic!("{:?}", trial.outcome));
        cells.entry((trial.workload.iodepth, &trial.settings)).or_default().push(&measurement.verdict);
    }
    assert!(!cells.is_empty(), "no trial of {path}");
    for (cell, verdicts) in cells {
        assert!(verdicts.iter().any(|verdict| verdict.kind == kind), "{path} {cell:?}: {verdicts:?}");
        let is_no_contrary =
            |verdict: &&Verdict| verdict.kind == kind || verdict.kind == VerdictKind::Unproven;
        assert!(verdicts.iter().all(is_no_contrary), "{path} {cell:?}: {verdicts:?}");
    }
}

/// The median, which one pause of the host does not change.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn interrupts_per_io(measurement: &Measurement) -> f64 {
    measurement.interrupts_per_io.unwrap()
}

fn sleeps_per_io(measurement: &Measurement) -> f64 {
    measurement.evidence.process.voluntary_switches as f64 / measurement.ios as f64
}

/// Asserts that every trial has exact costs, of which less than a twentieth is of unknown directories.
#[track_caller]
fn costs_are_known(trials: &[Trial]) {
    for trial in trials {
        let measurement = trial.outcome.measurement().unwrap();
        let costs = measurement.costs.as_ref().unwrap_or_else(|| panic!("{} has no costs", trial.path));
        assert_eq!(costs.source, CostSource::Exact);
        let kernel = costs.total(Space::Kernel).instructions;
        assert!(kernel / measurement.ios > 1000, "{}: {kernel} instructions", trial.path);
        let is_unknown = |one: &&FunctionCost| one.space == Space::Kernel && one.directory.is_none();
        let unknown: u64 = costs.functions.iter().filter(is_unknown).map(|one| one.cost.instructions).sum();
        assert!(unknown * 20 < kernel, "{}: {unknown} of {kernel} are unknown", trial.path);
    }
}

/// Executions of a kernel function's first instruction.
fn calls(measurement: &Measurement, function: &str) -> u64 {
    let costs = measurement.costs.as_ref().unwrap();
    costs.functions.iter().filter(|one| one.function == function).map(|one| one.cost.calls).sum()
}

#[test]
fn exact_counts_repeat_from_boot_to_boot() {
    let Some((_alone, folder)) = lab(&["6.18"]) else { return };
    let study = "name = \"repeat\"\npaths = [\"posix-sio/syscall/interrupt\", \
                 \"io_uring/syscall/poll\"]\nseed = 3\nmeters = \"none\"\n[[workload]]\nrw = \
                 \"randread\"\nbs = \"4k\"\nios = 2000\n";
    std::fs::write(folder.join("repeat.toml"), study).unwrap();
    let boot = |name: &str| {
        let mut command = Command::new(iopj_of_guests());
        let line = format!(
            "lab run repeat.toml --kernel 6.18 --exact --device null_blk --vcpus 1 --store {name}.iopj"
        );
        let output = command.current_dir(&*folder).args(line.split_whitespace()).output().unwrap();
        let trials = trials(&folder, name, &output);
        costs_are_known(&trials);
        let per_io = |measurement: &&Measurement| {
            let costs = measurement.costs.as_ref().unwrap();
            let all = costs.total(Space::Kernel).instructions + costs.total(Space::User).instructions;
            all as f64 / measurement.ios as f64
        };
        by_path(&trials).values().map(|measurements| per_io(&measurements[0])).collect::<Vec<f64>>()
    };
    let (first, second) = (boot("a"), boot("b"));
    assert_eq!(first.len(), 2);
    for (a, b) in first.iter().zip(&second) {
        assert!((a - b).abs() < 0.01 * a, "{first:?} and {second:?} instructions per I/O");
    }
}

#[test]
fn synchronous_completions_are_what_was_asked_for_on_5_10() {
    let Some((_alone, folder)) = lab(&["5.10"]) else { return };
    // A timer of 50 us may fire before its thread sleeps.
    let change = [
        ("replicates = 8", "replicates = 3"),
        ("ios = 4000", "ios = 1000"),
        ("hybrid:50us", "hybrid:1000us"),
    ];
    let output = lab_run(&folder, "poll22-lab", &change, "--kernel 5.10 --exact");
    let trials = trials(&folder, "poll22-lab", &output);
    costs_are_known(&trials);
    let paths = by_path(&trials);
    assert_eq!(paths.len(), 4);
    for (path, measurements) in paths {
        are(&trials, &path, VerdictKind::Verified);
        let interrupts = if path.ends_with("interrupt") { 1.0 } else { 0.0 };
        let seen = median(measurements.iter().map(|one| interrupts_per_io(one)));
        assert!((seen - interrupts).abs() < 0.01, "{path}: {seen} interrupts per I/O");
        let sleeps = median(measurements.iter().map(|one| sleeps_per_io(one)));
        assert!(!path.ends_with("poll") || sleeps < 0.01, "{path}: {sleeps} sleeps per I/O");
        assert!(!path.contains("hybrid") || sleeps > 0.5, "{path}: {sleeps} sleeps per I/O");
        for measurement in measurements {
            // The plugin and the kernel count the same reads.
            assert_eq!(calls(measurement, "nvme_queue_rq"), measurement.ios, "{path}");
            assert_eq!(calls(measurement, "nvme_poll") > 0, !path.ends_with("interrupt"), "{path}");
        }
    }
    page::shows_counts_and_no_time(&folder, "poll22-lab.iopj");
}

/// Asserts that in `delay-lab` on a kernel before 6.4 the device's `io_poll_delay` decides how a ring polls.
#[track_caller]
fn io_poll_delay_rules_the_ring(trials: &[Trial]) {
    assert_eq!(trials.len(), 9);
    for (delay, kind, sleeping) in [
        ("-1", VerdictKind::Verified, false),
        ("0", VerdictKind::Refuted, true),
        ("50", VerdictKind::Refuted, true),
    ] {
        let is_it = |trial: &&Trial| trial.settings["io_poll_delay"] == delay;
        let own: Vec<Trial> = trials.iter().filter(is_it).cloned().collect();
        are(&own, "io_uring/syscall/poll", kind);
        let measurements = &by_path(&own)["io_uring/syscall/poll"];
        let sleeps = median(measurements.iter().map(|one| sleeps_per_io(one)));
        assert_eq!(sleeps > 0.5, sleeping, "{delay}: {sleeps} sleeps per I/O");
        assert!(median(measurements.iter().map(|one| interrupts_per_io(one))) < 0.01);
    }
}

/// Names fio and a meter, each by its absolute path, before a study's workload; the meter is a script made
/// here.
fn with_named_programs(folder: &Path) -> String {
    let script = folder.join("meter");
    std::fs::write(&script, "#!/bin/sh\nwhile :; do echo 5.25; sleep 0.1; done\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let mut files = std::env::split_paths(&path).map(|folder| folder.join("fio"));
    let fio = files.find(|file| file.is_file()).expect("fio, which `cargo xtask test` installs");
    format!(
        "[fio]\nprogram = {fio:?}\n[meters.own]\nkind = \"command\"\ncommand = [{script:?}]\nscope = \
         \"system\"\ninterval = \"100ms\"\n[[workload]]"
    )
}

/// Asserts that fio did the trials of a study and that the meter was read: programs that the study names run
/// in the guest.
#[track_caller]
fn named_programs_ran(folder: &Path, study: &str, trials: &[Trial]) {
    for trial in trials {
        assert_eq!(trial.generator, Generator::Fio);
        let measurement = trial.outcome.measurement().unwrap_or_else(|| panic!("{:?}", trial.outcome));
        assert!(measurement.fio.is_some() && measurement.ios > 0, "{} I/Os", measurement.ios);
    }
    let store = Store::open(&folder.join(format!("{study}.iopj"))).unwrap();
    let meters = store.meters().unwrap();
    assert_eq!(meters.len(), 1);
    let readings = store.readings(meters[0].id).unwrap();
    assert!(readings.len() > 10, "{} readings", readings.len());
}

#[test]
fn synchronous_polling_is_refuted_on_6_1() {
    let Some((_alone, folder)) = lab(&["6.1"]) else { return };
    let change = [
        ("replicates = 8", "replicates = 2"),
        ("ios = 4000", "ios = 1000"),
        ("    \"posix-sio/syscall/hybrid\",\n", ""),
    ];
    let output = lab_run(&folder, "poll22-lab", &change, "--kernel 6.1 --exact");
    let trials = trials(&folder, "poll22-lab", &output);
    costs_are_known(&trials);
    are(&trials, "posix-sio/syscall/interrupt", VerdictKind::Verified);
    are(&trials, "posix-sio/syscall/poll", VerdictKind::Refuted);
    are(&trials, "posix-sio/syscall/hybrid:50us", VerdictKind::Refuted);
    let poll = by_path(&trials)["posix-sio/syscall/poll"][0];
    assert!((poll.interrupts_per_io.unwrap() - 1.0).abs() < 0.01);
    let queue = &poll.evidence.devices[0].settings;
    assert_eq!(queue.get("io_poll").map(String::as_str), Some("1"), "sysfs says that it polls: {queue:?}");
}

/// The oldest series from 7.2 on that is cached or on offer, which `cargo xtask test` fetches.
fn new_series() -> Option<String> {
    let numbers = |series: &str| -> Option<(u32, u32)> {
        let (major, minor) = series.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    let offers = Cache::open()
        .map_err(Into::into)
        .and_then(|cache| kernels::list(&cache, Arch::HOST, &mut |_| {}))
        .unwrap_or_default();
    let new = offers.into_iter().map(|offer| offer.series).find(|series| numbers(series) >= Some((7, 2)));
    if !have(new.is_some(), "a kernel from 7.2 on") {
        return None;
    }
    new
}

#[test]
fn a_slow_virtio_drive_is_polled_on_7_2() {
    let Some(series) = new_series().filter(|series| have_lab(&[series])) else { return };
    let (_alone, folder) = (alone_with_guests(), folder());
    let options = format!("--kernel {series} --device virtio");
    let output = lab_run(&folder, "virtio-lab", &[("replicates = 8", "replicates = 3")], &options);
    let trials = trials(&folder, "virtio-lab", &output);
    assert_eq!(trials.len(), 9);
    for trial in &trials {
        completions::are(trial, trial.path.completion());
        are(&trials, &trial.path.to_string(), VerdictKind::Verified);
    }
}
