//! Boots each fetched kernel once for all tests that can share a guest: every path by the native generator
//! (on 6.18 by fio, too; in the soak on 5.10 and 6.1 as well), on the block device and through the node of
//! passthrough (who completed the I/Os, and that no verdict says otherwise), and the verdicts of this
//! repository's studies.

use crate::{are, changed, completions, lab, lab_run_text, new_series, trials_kept};
use iopj_core::VerdictKind;
use iopj_core::path::CompletionMode;
use iopj_record::{Generator, Trial};
use std::collections::BTreeSet;
use std::path::Path;

/// Submission pollers get few I/Os: a poller, a spinning job and the drive share two processors, and emulated
/// ones are slow.
const BLOCK: (&str, &str) = (
    "every-path",
    r#"
name = "every-path"
generator = ["native", "fio"]
seed = 31
meters = "none"
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
meters = "none"
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

/// Far more pollers than processors, which take turns. A time instead of a number of I/Os: each gets some,
/// although jobs sleep where they meet: 64 of them 64 to 112 times (seen), which must be few per I/O.
const POLLERS: (&str, &str) = (
    "pollers",
    r#"
name = "pollers"
replicates = 3
seed = 33
meters = "none"
paths = "io_uring/syscall/poll"

[[workload]]
rw = "randread"
bs = "4k"
numjobs = 64
ramp_time = "100ms"
runtime = "10s"
"#,
);

/// Fewer, which prove the same in less time.
const FEWER: [(&str, &str); 2] =
    [("numjobs = 64", "numjobs = 16"), ("runtime = \"10s\"", "runtime = \"3s\"")];

/// fio's trials take three times as long: only one path, which it polls.
const FIO: (&str, &str) = (
    "fio",
    r#"
name = "fio"
generator = "fio"
replicates = 3
seed = 34
meters = "none"
paths = "io_uring/syscall/poll"

[[workload]]
rw = "randread"
bs = "4k"
ramp_time = "300ms"
ios = 8000
"#,
);

/// The engine that chooses, bound to each way of polling, and taking ways by chance.
const CHOSEN: (&str, &str) = (
    "chosen",
    r#"
name = "chosen"
replicates = 3
seed = 35
meters = "none"
paths = ["auto:io_uring/syscall/poll", "auto:io_uring/syscall/hybrid", "auto:io_uring/syscall/poll+sleep"]

[settings]
scheduler = "none"

[[workload]]
rw = "randread"
bs = "4k"
ramp_time = "300ms"
ios = 1000

[[workload]]
paths = "auto:random"
rw = "randread"
bs = "4k"
iodepth = 4
ramp_time = "300ms"
ios = 6000
"#,
);

/// A study that cannot start: no drive has such blocks.
const FAILING: (&str, &str) = (
    "failing",
    "name = \"failing\"\npaths = \"posix-sio/syscall/interrupt\"\nmeters = \"none\"\n[[workload]]\nrw = \
     \"randread\"\nbs = \"1000\"\nios = 100\n",
);

/// How often the native generator measures each path: at least once without the host stopping a thread.
const REPLICATES: usize = 3;

/// A study that runs once with both generators, to be run again for the other replicates without fio.
fn again((name, text): (&str, &str)) -> (String, String) {
    let name_again = format!("{name}-again");
    let text = natively(text, REPLICATES - 1);
    (name_again.clone(), text.replace(&format!("\"{name}\""), &format!("\"{name_again}\"")))
}

/// A study by both generators, without fio and with this many replicates.
fn natively(text: &str, replicates: usize) -> String {
    changed(text, &[("generator = [\"native\", \"fio\"]", &format!("replicates = {replicates}"))])
}

/// The trials of a study, with those of its repetition.
fn with_again(folder: &Path, (name, _): (&str, &str), words: &str) -> Vec<Trial> {
    let again = trials_kept(folder, &format!("{name}-again"), words);
    trials_kept(folder, name, words).into_iter().chain(again).collect()
}

/// Boots a kernel once for these studies, each of which announces its start; returns the messages and the
/// exit status.
pub(crate) fn boot(
    folder: &Path,
    kernel: &str,
    studies: &[(&str, &str)],
    options: &str,
) -> (String, Option<i32>) {
    for (name, text) in &studies[1..] {
        std::fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    }
    let others: String = studies[1..].iter().map(|(name, _)| format!("{name}.toml ")).collect();
    let (first, text) = studies[0];
    // Time for several studies beside a build.
    let options = format!("{others} --kernel {kernel} --time-limit 40m {options}");
    let output = lab_run_text(folder, first, text, &options);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    eprintln!("{words}");
    let begins =
        |(number, (name, _)): (usize, &(&str, &str))| format!("study {name}, {number} of {}", studies.len());
    // A guest that ran stale code starts again.
    let last = words.rsplit("start again").next().unwrap();
    let said: Vec<String> =
        last.lines().filter(|line| line.starts_with("study ")).map(str::to_owned).collect();
    assert_eq!(said, (1..).zip(studies).map(begins).collect::<Vec<String>>(), "{words}");
    assert_eq!(words.matches("guest: up after").count(), 1, "{words}");
    (words, output.status.code())
}

/// Asserts that all I/Os of this many paths by each generator were completed as this kernel does it, and that
/// the native generator's trials prove it. `sio_polls` if it polls synchronous reads (before Linux 5.19).
#[track_caller]
fn completed_as_asked(trials: &[Trial], [native, fio]: [usize; 2], sio_polls: bool) {
    let taken: BTreeSet<(String, Generator)> =
        trials.iter().map(|trial| (trial.path.to_string(), trial.generator)).collect();
    assert_eq!((taken.len(), trials.len()), (native + fio, REPLICATES * native + fio), "{taken:?}");
    for (path, generator) in taken {
        let is_own = |trial: &&Trial| trial.path.to_string() == path && trial.generator == generator;
        let own: Vec<Trial> = trials.iter().filter(is_own).cloned().collect();
        let asked = own[0].path.completion();
        let done = if own[0].path.is_synchronous() && !sio_polls { CompletionMode::Interrupt } else { asked };
        own.iter().for_each(|trial| completions::are(trial, done));
        let kind = if done == asked { VerdictKind::Verified } else { VerdictKind::Refuted };
        let kinds: Vec<VerdictKind> =
            own.iter().map(|trial| trial.outcome.measurement().unwrap().verdict.kind).collect();
        eprintln!("{path} by {generator:?}: {kinds:?}");
        let is_no_contrary = |one: &VerdictKind| [kind, VerdictKind::Unproven].contains(one);
        assert!(kinds.iter().all(is_no_contrary), "{path} by {generator:?}: {kinds:?}");
        // fio has one trial per path, with so few I/Os that sleeps at its start and end may look like those
        // before polls.
        if generator == Generator::Native {
            are(&own, &path, kind);
        }
    }
}

/// Asserts that the ring's polled path, the only one of these trials, is verified.
#[track_caller]
fn polled(trials: &[Trial]) {
    trials.iter().for_each(|trial| completions::are(trial, CompletionMode::Poll));
    are(trials, "io_uring/syscall/poll", VerdictKind::Verified);
}

/// Asserts that the engine that chooses went these ways where it was bound to one, and that the waiting
/// thread completed the I/Os there, and several where chance took them, which nothing contradicts.
#[track_caller]
fn chosen(trials: &[Trial], ways: [&str; 2]) {
    let paths: BTreeSet<String> = trials.iter().map(|trial| trial.path.to_string()).collect();
    let bound = ways.map(|way| format!("auto:{way}"));
    let all: BTreeSet<String> = bound.iter().cloned().chain(["auto:random".to_owned()]).collect();
    assert_eq!(paths, all);
    for trial in trials {
        let measurement = trial.outcome.measurement().unwrap();
        let routes = measurement.evidence.engine.as_ref().unwrap().routes.as_ref().unwrap();
        let taken: Vec<String> = routes.ways.iter().map(|route| route.way.to_string()).collect();
        eprintln!("{}: {:?}, {taken:?}", trial.path, measurement.verdict);
        assert_eq!((routes.ios(), routes.failures), (measurement.ios, 0), "{}", trial.path);
        if trial.path.to_string() == "auto:random" {
            assert!(taken.len() > 1 && routes.switches > 0, "{routes:?}");
            assert_ne!(measurement.verdict.kind, VerdictKind::Refuted, "{:?}", measurement.verdict);
        } else {
            assert_eq!(vec![trial.path.to_string()], [format!("auto:{}", taken[0])]);
            completions::are_by_waiting(trial);
        }
    }
    are(trials, &bound[0], VerdictKind::Verified);
}

/// Passthrough on a kernel: each I/O is seen, by the kernel's own count if it has one, else by the drive's.
#[track_caller]
fn passed_through(trials: &[Trial], paths: [usize; 2], by_log: bool) {
    completed_as_asked(trials, paths, false);
    for trial in trials {
        let measurement = trial.outcome.measurement().unwrap();
        let device = &measurement.evidence.devices[0];
        assert_eq!(
            (device.reads, device.by_log),
            (measurement.ios, by_log),
            "{} by {:?}",
            trial.path,
            trial.generator
        );
    }
}

#[test]
fn every_path_and_io_poll_delay_on_5_10() {
    let Some((_alone, folder)) = lab(&["5.10"]) else { return };
    let fio = FIO.1.replace("meters = \"none\"\n", "");
    let fio = fio.replace("[[workload]]", &crate::with_named_programs(&folder));
    let (block, delay) = (natively(BLOCK.1, REPLICATES), crate::study_text("delay-lab", &[]));
    let studies = [(BLOCK.0, &*block), (FIO.0, &fio), CHOSEN, ("delay-lab", &delay)];
    let words = all_succeed(&folder, "5.10", &studies, "--allow-exec");
    // All but io_uring's hybrid polling.
    completed_as_asked(&trials_kept(&folder, BLOCK.0, &words), [10, 0], true);
    let by_fio = trials_kept(&folder, FIO.0, &words);
    polled(&by_fio);
    crate::named_programs_ran(&folder, FIO.0, &by_fio);
    // This kernel does not sleep before it polls a ring: the process does, if an emulated timer ends before
    // an emulated read does.
    let ways = ["io_uring/syscall/poll", "io_uring/syscall/poll+sleep"];
    chosen(&trials_kept(&folder, CHOSEN.0, &words), ways);
    crate::io_poll_delay_rules_the_ring(&trials_kept(&folder, "delay-lab", &words));
}

#[test]
#[ignore = "a soak: cargo xtask soak"]
fn soak_every_path_by_both_generators_on_5_10() {
    let Some((_alone, folder)) = lab(&["5.10"]) else { return };
    let (name, text) = again(BLOCK);
    let words = all_succeed(&folder, "5.10", &[BLOCK, (&name, &text)], "");
    completed_as_asked(&with_again(&folder, BLOCK, &words), [10, 10], true);
}

/// Boots a kernel for these studies, all of which succeed; returns the messages.
fn all_succeed(folder: &Path, kernel: &str, studies: &[(&str, &str)], options: &str) -> String {
    let (words, code) = boot(folder, kernel, studies, options);
    assert_eq!(code, Some(0), "{words}");
    words
}

/// A study that fails does not prevent the others.
#[test]
fn every_path_on_6_1_beside_a_study_that_fails() {
    let Some((_alone, folder)) = lab(&["6.1"]) else { return };
    let (block, passthrough) = (natively(BLOCK.1, REPLICATES), natively(PASSTHROUGH.1, REPLICATES));
    let studies = [(BLOCK.0, &*block), FAILING, (PASSTHROUGH.0, &*passthrough)];
    let words = beside_a_failing_study(&folder, &studies);
    completed_as_asked(&trials_kept(&folder, BLOCK.0, &words), [10, 0], false);
    passed_through(&trials_kept(&folder, PASSTHROUGH.0, &words), [4, 0], true);
}

#[test]
#[ignore = "a soak: cargo xtask soak"]
fn soak_every_path_by_both_generators_on_6_1() {
    let Some((_alone, folder)) = lab(&["6.1"]) else { return };
    let (block, passthrough) = (again(BLOCK), again(PASSTHROUGH));
    let studies = [BLOCK, FAILING, PASSTHROUGH, (&block.0, &block.1), (&passthrough.0, &passthrough.1), FIO];
    let words = beside_a_failing_study(&folder, &studies);
    polled(&trials_kept(&folder, FIO.0, &words));
    completed_as_asked(&with_again(&folder, BLOCK, &words), [10, 10], false);
    passed_through(&with_again(&folder, PASSTHROUGH, &words), [4, 4], true);
}

/// Boots 6.1 for these studies, of which [`FAILING`] is one; returns the messages. The kernel has no
/// `queue/iostats_passthrough`, and no hybrid polling of rings.
fn beside_a_failing_study(folder: &Path, studies: &[(&str, &str)]) -> String {
    let (words, code) = boot(folder, "6.1", studies, "");
    assert_eq!(code, Some(2), "{words}");
    assert!(words.contains("bs 1000 is not a multiple"), "{words}");
    let messages: Vec<&str> = words.lines().filter(|line| line.starts_with("iopj: the run of ")).collect();
    let message = "iopj: the run of `failing` in the guest ended with status 2 and left no store: its \
                   output is above";
    assert_eq!(messages, [message], "{words}");
    assert!(!folder.join("failing.iopj").exists());
    words
}

#[test]
fn every_path_by_both_generators_on_6_18() {
    let Some((_alone, folder)) = lab(&["6.18"]) else { return };
    let (block, passthrough) = (again(BLOCK), again(PASSTHROUGH));
    let studies = [BLOCK, PASSTHROUGH, (&block.0, &block.1), (&passthrough.0, &passthrough.1), CHOSEN];
    let words = all_succeed(&folder, "6.18", &studies, "");
    // fio cannot ask for hybrid polling of rings, and no `io_poll_delay` can be set for that of synchronous
    // reads.
    completed_as_asked(&with_again(&folder, BLOCK, &words), [10, 8], false);
    let ways = ["io_uring/syscall/poll", "io_uring/syscall/hybrid"];
    chosen(&trials_kept(&folder, CHOSEN.0, &words), ways);
    passed_through(&with_again(&folder, PASSTHROUGH, &words), [6, 4], false);
}

#[test]
#[ignore = "a soak: cargo xtask soak"]
fn soak_polling_by_fio_is_proven_on_6_18() {
    let Some((_alone, folder)) = lab(&["6.18"]) else { return };
    let words = all_succeed(&folder, "6.18", &[FIO], "");
    polled(&trials_kept(&folder, FIO.0, &words));
}

#[test]
fn every_path_and_more_pollers_than_processors_on_7_2() {
    let Some(series) = new_series() else { return };
    let Some((_alone, folder)) = lab(&[&series]) else { return };
    let (block, passthrough) = (natively(BLOCK.1, REPLICATES), natively(PASSTHROUGH.1, REPLICATES));
    let pollers = changed(POLLERS.1, &FEWER);
    let studies = [(BLOCK.0, &*block), (PASSTHROUGH.0, &*passthrough), (POLLERS.0, &*pollers)];
    let words = all_succeed(&folder, &series, &studies, "");
    completed_as_asked(&trials_kept(&folder, BLOCK.0, &words), [10, 0], false);
    passed_through(&trials_kept(&folder, PASSTHROUGH.0, &words), [6, 0], false);
    polled(&trials_kept(&folder, POLLERS.0, &words));
}

#[test]
#[ignore = "a soak: cargo xtask soak"]
fn soak_64_pollers_on_7_2() {
    let Some(series) = new_series() else { return };
    let Some((_alone, folder)) = lab(&[&series]) else { return };
    let words = all_succeed(&folder, &series, &[POLLERS], "");
    polled(&trials_kept(&folder, POLLERS.0, &words));
}
