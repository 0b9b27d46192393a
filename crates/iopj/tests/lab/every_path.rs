//! Every path on each kernel that the tests fetch, by both generators, in one boot a kernel for the block device and one for the node
//! of passthrough: who completed the I/Os, and that no verdict says otherwise.

use crate::common::{alone, folder};
use crate::{are, completions, have_lab, lab_run_text, new_series, trials};
use iopj_core::VerdictKind;
use iopj_core::path::Completion;
use iopj_store::{Generator, Trial};
use std::collections::BTreeSet;

/// Submission pollers have few I/Os: two processors are few for a poller, a job that spins and the drive, and an emulated one is slow.
const BLOCK: (&str, &str) = (
    "every-path",
    r#"
name = "every-path"
generator = ["native", "fio"]
seed = 31
paths = [
    "posix-sio/syscall/interrupt",
    "posix-sio/syscall/poll",
    "posix-sio/syscall/hybrid",
    "posix-sio/syscall/hybrid:50us",
    "posix-aio/syscall/interrupt",
    "libaio/syscall/interrupt",
    "io_uring/syscall/interrupt",
    "io_uring/syscall/poll",
    "io_uring/syscall/hybrid",
]

[settings]
scheduler = "none"

[[workload]]
rw = "randread"
bs = "4k"
ramp_time = "300ms"
ios = 1000

[[workload]]
paths = ["io_uring/sqpoll/interrupt", "io_uring/sqpoll/poll", "io_uring/sqpoll/hybrid"]
rw = "randread"
bs = "4k"
ramp_time = "100ms"
ios = 100
"#,
);

/// The same through the namespace's generic node.
const PASSTHROUGH: (&str, &str) = (
    "passthrough",
    r#"
name = "passthrough"
generator = ["native", "fio"]
seed = 32
paths = ["nvme-passthrough/syscall/interrupt", "nvme-passthrough/syscall/poll", "nvme-passthrough/syscall/hybrid"]

[[workload]]
rw = "randread"
bs = "4k"
ramp_time = "100ms"
ios = 1000

[[workload]]
paths = ["nvme-passthrough/sqpoll/interrupt", "nvme-passthrough/sqpoll/poll", "nvme-passthrough/sqpoll/hybrid"]
rw = "randread"
bs = "4k"
ramp_time = "100ms"
ios = 100
"#,
);

/// Cells on a kernel that has io_uring's hybrid polling, which the native generator alone can ask for, and no `io_poll_delay` to be set
/// for that of synchronous reads: eight paths by both, two by one.
const NEW: usize = 2 * 8 + 2;

/// Boots the kernel for a study, and demands that all I/Os of so many cells were completed as it does it: the trials. `sio_polls` where
/// it polls synchronous reads (before Linux 5.19).
fn boot((name, study): (&str, &str), series: &str, cells: usize, sio_polls: bool) -> Vec<Trial> {
    let (_alone, folder) = (alone(), folder());
    let trials = trials(folder.path(), name, &lab_run_text(folder.path(), name, study, &format!("--kernel {series}")));
    let taken: BTreeSet<(String, Generator)> =
        trials.iter().map(|trial| (trial.path.to_string(), trial.generator)).collect();
    assert_eq!((taken.len(), trials.len()), (cells, cells), "{taken:?}");
    for trial in &trials {
        let asked = trial.path.completion();
        let done = if trial.path.is_synchronous() && !sio_polls { Completion::Interrupt } else { asked };
        completions::are(trial, done);
        let verdict = &trial.outcome.measurement().unwrap().verdict;
        let contrary = if done == asked { VerdictKind::Refuted } else { VerdictKind::Verified };
        assert_ne!(verdict.kind, contrary, "{} by {:?}: {:?}", trial.path, trial.generator, verdict.reasons);
    }
    trials
}

#[test]
fn every_path_is_completed_as_it_asks_on_5_10() {
    if have_lab(&["5.10"]) {
        // All but io_uring's hybrid polling, by both.
        boot(BLOCK, "5.10", 2 * 10, true);
    }
}

#[test]
fn every_path_is_completed_as_it_asks_on_6_1() {
    if have_lab(&["6.1"]) {
        boot(BLOCK, "6.1", 2 * 10, false);
    }
}

#[test]
fn every_path_is_completed_as_it_asks_on_6_18() {
    if have_lab(&["6.18"]) {
        boot(BLOCK, "6.18", NEW, false);
    }
}

#[test]
fn every_path_is_completed_as_it_asks_on_7_2() {
    if let Some(series) = new_series().filter(|series| have_lab(&[series])) {
        boot(BLOCK, &series, NEW, false);
    }
}

/// Passthrough on a kernel: each I/O is seen, by the kernel's own count where it has one, else by the drive's.
fn passthrough(series: &str, cells: usize, by_log: bool) {
    let trials = boot(PASSTHROUGH, series, cells, false);
    are(&trials, "nvme-passthrough/syscall/interrupt", VerdictKind::Verified);
    for trial in trials {
        let measurement = trial.outcome.measurement().unwrap();
        let device = &measurement.evidence.devices[0];
        assert_eq!((device.reads, device.by_log), (measurement.ios, by_log), "{} by {:?}", trial.path, trial.generator);
    }
}

#[test]
fn passthrough_is_seen_by_the_drives_own_count_on_6_1() {
    if have_lab(&["6.1"]) {
        // It has no `queue/iostats_passthrough`, and no hybrid polling of rings.
        passthrough("6.1", 2 * 4, true);
    }
}

#[test]
fn passthrough_is_seen_by_the_kernels_count_on_6_18() {
    if have_lab(&["6.18"]) {
        passthrough("6.18", 2 * 4 + 2, false);
    }
}

#[test]
fn passthrough_is_seen_by_the_kernels_count_on_7_2() {
    if let Some(series) = new_series().filter(|series| have_lab(&[series])) {
        passthrough(&series, 2 * 4 + 2, false);
    }
}
