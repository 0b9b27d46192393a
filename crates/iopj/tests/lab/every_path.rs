//! Each kernel that the tests fetch is booted once for what needs no other guest: every path by both generators, on the block device and
//! through the node of passthrough (who completed the I/Os, and that no verdict says otherwise), and what studies of this repository prove.

use crate::common::{alone, folder};
use crate::{are, completions, have_lab, lab_run_text, new_series, trials_kept};
use iopj_core::VerdictKind;
use iopj_core::path::Completion;
use iopj_store::{Generator, Trial};
use std::collections::BTreeSet;
use std::path::Path;

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

/// A study that cannot start: no drive has such blocks.
const FAILING: (&str, &str) = (
    "failing",
    "name = \"failing\"\npaths = \"posix-sio/syscall/interrupt\"\n\
     [[workload]]\nrw = \"randread\"\nbs = \"1000\"\nios = 100\n",
);

/// Cells on a kernel that has io_uring's hybrid polling, which the native generator alone can ask for, and no `io_poll_delay` to be set
/// for that of synchronous reads: eight paths by both, two by one.
const NEW: usize = 2 * 8 + 2;

/// Boots a kernel once for these studies, each of which says when it begins: what was printed, and the exit status.
fn boot(folder: &Path, kernel: &str, studies: &[(&str, &str)], options: &str) -> (String, Option<i32>) {
    for (name, text) in &studies[1..] {
        std::fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    }
    let others: String = studies[1..].iter().map(|(name, _)| format!("{name}.toml ")).collect();
    let (first, text) = studies[0];
    // Several studies, and patience where a build runs beside.
    let options = format!("{others} --kernel {kernel} --time-limit 40m {options}");
    let output = lab_run_text(folder, first, text, &options);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    eprintln!("{words}");
    let begins = |(number, (name, _)): (usize, &(&str, &str))| format!("study {name}, {number} of {}", studies.len());
    // A guest that ran stale code begins again.
    let last = words.rsplit("begins again").next().unwrap();
    let said: Vec<String> = last.lines().filter(|line| line.starts_with("study ")).map(str::to_owned).collect();
    assert_eq!(said, (1..).zip(studies).map(begins).collect::<Vec<String>>(), "{words}");
    assert_eq!(words.matches("guest: up after").count(), 1, "{words}");
    (words, output.status.code())
}

/// Demands of a study's store that all I/Os of so many cells were completed as this kernel does it: the trials. `sio_polls` where it polls
/// synchronous reads (before Linux 5.19).
#[track_caller]
fn completed_as_asked(trials: &[Trial], cells: usize, sio_polls: bool) {
    let taken: BTreeSet<(String, Generator)> =
        trials.iter().map(|trial| (trial.path.to_string(), trial.generator)).collect();
    assert_eq!((taken.len(), trials.len()), (cells, cells), "{taken:?}");
    for trial in trials {
        let asked = trial.path.completion();
        let done = if trial.path.is_synchronous() && !sio_polls { Completion::Interrupt } else { asked };
        completions::are(trial, done);
        let verdict = &trial.outcome.measurement().unwrap().verdict;
        let contrary = if done == asked { VerdictKind::Refuted } else { VerdictKind::Verified };
        assert_ne!(verdict.kind, contrary, "{} by {:?}: {:?}", trial.path, trial.generator, verdict.reasons);
    }
}

/// Passthrough on a kernel: each I/O is seen, by the kernel's own count where it has one, else by the drive's.
#[track_caller]
fn passed_through(trials: &[Trial], cells: usize, by_log: bool) {
    completed_as_asked(trials, cells, false);
    are(trials, "nvme-passthrough/syscall/interrupt", VerdictKind::Verified);
    for trial in trials {
        let measurement = trial.outcome.measurement().unwrap();
        let device = &measurement.evidence.devices[0];
        assert_eq!((device.reads, device.by_log), (measurement.ios, by_log), "{} by {:?}", trial.path, trial.generator);
    }
}

#[test]
fn every_path_and_io_poll_delay_on_5_10() {
    if !have_lab(&["5.10"]) {
        return;
    }
    let (_alone, folder) = (alone(), folder());
    let delay = crate::delay_lab(folder.path());
    let (words, code) = boot(folder.path(), "5.10", &[BLOCK, ("delay-lab", &delay)], "--allow-exec");
    assert_eq!(code, Some(0), "{words}");
    let trials = |name| trials_kept(folder.path(), name, &words);
    // All but io_uring's hybrid polling, by both.
    completed_as_asked(&trials(BLOCK.0), 2 * 10, true);
    crate::io_poll_delay_rules_the_ring(folder.path(), trials("delay-lab"));
}

/// A study that fails among them keeps none of the others.
#[test]
fn every_path_on_6_1_beside_a_study_that_fails() {
    if !have_lab(&["6.1"]) {
        return;
    }
    let (_alone, folder) = (alone(), folder());
    let (words, code) = boot(folder.path(), "6.1", &[BLOCK, FAILING, PASSTHROUGH], "");
    assert_eq!(code, Some(2), "{words}");
    assert!(words.contains("bs 1000 is not a multiple"), "{words}");
    let messages: Vec<&str> = words.lines().filter(|line| line.starts_with("iopj: the run of ")).collect();
    let message =
        "iopj: the run of `failing` in the guest ended with status 2 and left no store: what it said stands above";
    assert_eq!(messages, [message], "{words}");
    assert!(!folder.path().join("failing.iopj").exists());
    let trials = |name| trials_kept(folder.path(), name, &words);
    completed_as_asked(&trials(BLOCK.0), 2 * 10, false);
    // It has no `queue/iostats_passthrough`, and no hybrid polling of rings.
    passed_through(&trials(PASSTHROUGH.0), 2 * 4, true);
}

#[test]
fn every_path_on_6_18() {
    if have_lab(&["6.18"]) {
        every_path_of_new("6.18");
    }
}

#[test]
fn every_path_on_7_2() {
    if let Some(series) = new_series().filter(|series| have_lab(&[series])) {
        every_path_of_new(&series);
    }
}

/// Every path on a kernel that has all that the newest have.
fn every_path_of_new(series: &str) {
    let (_alone, folder) = (alone(), folder());
    let (words, code) = boot(folder.path(), series, &[BLOCK, PASSTHROUGH], "");
    assert_eq!(code, Some(0), "{words}");
    let trials = |name| trials_kept(folder.path(), name, &words);
    completed_as_asked(&trials(BLOCK.0), NEW, false);
    passed_through(&trials(PASSTHROUGH.0), 2 * 4 + 2, false);
}

/// A boot of its own: with the others it would be the longest test of all.
#[test]
fn rings_and_passthrough_are_proven_at_depth_on_6_18() {
    if !have_lab(&["6.18"]) {
        return;
    }
    let (_alone, folder) = (alone(), folder());
    let (ring, passthrough) = (crate::ring_lab(), crate::passthrough_lab());
    let studies: [(&str, &str); 2] = [("ring-lab", &ring), ("passthrough-lab", &passthrough)];
    let (words, code) = boot(folder.path(), "6.18", &studies, "");
    assert_eq!(code, Some(0), "{words}");
    let trials = |name| trials_kept(folder.path(), name, &words);
    crate::every_combination_of_the_ring_is_proven(&trials("ring-lab"));
    crate::passthrough_is_proven(&trials("passthrough-lab"));
}
