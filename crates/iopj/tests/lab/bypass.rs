//! Kernel bypass and the kernel's own paths, in turn on the same drive of the same guest.

use crate::{are, interrupts_per_io, lab, lab_run, median, sleeps_per_io, trials};
use iopj_core::evidence::ThreadRole;
use iopj_core::{FunctionCost, Space, VerdictKind};
use iopj_record::{Measurement, Trial};

const PATHS: [&str; 5] = [
    "posix-sio/syscall/interrupt",
    "io_uring/syscall/poll",
    "nvme-user/doorbell/interrupt",
    "nvme-user/doorbell/poll",
    "nvme-user/doorbell/hybrid",
];

/// The median of a path's three trials at a depth, which one pause of the host does not change.
#[track_caller]
fn of(trials: &[Trial], path: &str, iodepth: u32, figure: impl Fn(&Measurement) -> f64) -> f64 {
    let is_it = |trial: &&Trial| trial.path.to_string() == path && trial.workload.iodepth == iodepth;
    let own: Vec<&Trial> = trials.iter().filter(is_it).collect();
    assert_eq!(own.len(), 3, "{path} at {iodepth}");
    median(own.into_iter().map(|trial| figure(trial.outcome.measurement().unwrap())))
}

/// True for a poller of the device whose time was partly the kernel's: if the host pauses the guest inside
/// its kernel, the pause counts as the kernel's time, and is not another path.
fn is_left_open(trial: &Trial, path: &str) -> bool {
    let verdict = &trial.outcome.measurement().unwrap().verdict;
    let is_kernels = |reason: &String| reason.contains("of the CPU time was the kernel's");
    path == "nvme-user/doorbell/poll"
        && trial.path.to_string() == path
        && verdict.kind == VerdictKind::Unproven
        && verdict.reasons.iter().any(is_kernels)
}

/// Instructions per I/O in a space.
fn instructions(measurement: &Measurement, space: Space) -> f64 {
    measurement.costs.as_ref().unwrap().total(space).instructions as f64 / measurement.ios as f64
}

/// Instructions per I/O in the kernel's I/O path: no tick, no scheduler, no handler of another interrupt.
fn of_the_io_path(measurement: &Measurement) -> f64 {
    let directories = ["block/", "io_uring/", "drivers/nvme/"];
    let functions = measurement.costs.as_ref().unwrap().functions.iter();
    let is_own = |one: &&FunctionCost| {
        let directory = one.directory.as_deref().unwrap_or_default();
        one.space == Space::Kernel && directories.iter().any(|own| directory.starts_with(own))
    };
    functions.filter(is_own).map(|one| one.cost.instructions).sum::<u64>() as f64 / measurement.ios as f64
}

/// Asserts that a hybrid trial's verdict agrees with its sleeps.
fn says_how_it_slept(trial: &Trial) {
    let measurement = trial.outcome.measurement().unwrap();
    let jobs = measurement.evidence.threads.iter().filter(|thread| thread.role == ThreadRole::Job);
    let sleeps: u64 = jobs.map(|thread| thread.voluntary_switches).sum();
    let sleeps = sleeps as f64 * f64::from(trial.workload.iodepth) / measurement.ios as f64;
    let verdict = &measurement.verdict;
    let is_seen_to_poll = verdict.reasons.iter().any(|reason| reason == "asked for hybrid, seen poll");
    match verdict.kind {
        VerdictKind::Verified => assert!(sleeps > 0.09, "{sleeps} sleeps per round: {verdict:?}"),
        VerdictKind::Refuted => {
            assert!(is_seen_to_poll && sleeps < 0.11, "{sleeps} sleeps per round: {verdict:?}")
        }
        VerdictKind::Unproven | VerdictKind::Seen => {}
    }
}

#[test]
fn bypass_is_proven_and_leaves_the_kernel_out_on_6_18() {
    let Some((_alone, folder)) = lab(&["6.18"]) else { return };
    let output =
        lab_run(&folder, "bypass-lab", &[("replicates = 5", "replicates = 3")], "--kernel 6.18 --exact");
    let trials = trials(&folder, "bypass-lab", &output);
    assert_eq!(trials.len(), 27);
    // A job that finds something complete at every look never sleeps, and is seen to poll; that depends on
    // the host. The tests of `bypass` have one that must wait.
    let is_hybrid = |trial: &Trial| trial.path.to_string().ends_with("hybrid");
    let (hybrid, others): (Vec<Trial>, Vec<Trial>) = trials.iter().cloned().partition(is_hybrid);
    assert_eq!((hybrid.len(), others.len()), (6, 21));
    hybrid.iter().for_each(says_how_it_slept);
    // A poller that the host pauses sleeps more often in a round of 32 than a verdict allows; that is not
    // another path.
    let polls_deep = |trial: &Trial| trial.path.to_string().ends_with("poll") && trial.workload.iodepth > 1;
    let (deep, others): (Vec<Trial>, Vec<Trial>) = others.into_iter().partition(polls_deep);
    assert_eq!((deep.len(), others.len()), (6, 15));
    for trial in &deep {
        let verdict = &trial.outcome.measurement().unwrap().verdict;
        assert_ne!(verdict.kind, VerdictKind::Refuted, "{}: {:?}", trial.path, verdict.reasons);
    }
    for path in PATHS.into_iter().filter(|path| !path.ends_with("hybrid")) {
        if !others.iter().any(|trial| is_left_open(trial, path)) {
            are(&others, path, VerdictKind::Verified);
        }
    }
    for trial in &trials {
        let measurement = trial.outcome.measurement().unwrap();
        let [kernel, user] = [Space::Kernel, Space::User].map(|space| instructions(measurement, space));
        eprintln!(
            "{} depth {}: {kernel:.0} in the kernel, {user:.0} in user space, {:.4} interrupts, {:.4} sleeps",
            trial.path,
            trial.workload.iodepth,
            interrupts_per_io(measurement),
            sleeps_per_io(measurement)
        );
    }
    for iodepth in [1, 32] {
        let own = |completion: &str, figure: fn(&Measurement) -> f64| {
            of(&trials, &format!("nvme-user/doorbell/{completion}"), iodepth, figure)
        };
        assert!(own("interrupt", interrupts_per_io) > 0.0);
        for quiet in ["poll", "hybrid"] {
            let interrupts = own(quiet, interrupts_per_io);
            assert!(interrupts < 0.01, "{quiet}: {interrupts} interrupts per I/O");
        }
        let poll = own("poll", sleeps_per_io);
        assert!(poll < 0.01, "{poll} sleeps per I/O of poll");
        let path_of_the_kernel = of(&trials, "io_uring/syscall/poll", iodepth, of_the_io_path);
        assert!(path_of_the_kernel > 100.0, "{path_of_the_kernel} instructions");
        for completion in ["interrupt", "poll", "hybrid"] {
            let left = own(completion, of_the_io_path);
            assert!(
                left < 0.01 * path_of_the_kernel,
                "{completion} at {iodepth}: {left} of {path_of_the_kernel}"
            );
        }
    }
    // The timer's ticks and the other processor's idle loop remain.
    let kernel = |path: &str, iodepth| of(&trials, path, iodepth, |one| instructions(one, Space::Kernel));
    let all = |path: &str, iodepth| {
        of(&trials, path, iodepth, |one| instructions(one, Space::Kernel) + instructions(one, Space::User))
    };
    let (alone, sync) = (kernel("nvme-user/doorbell/poll", 1), kernel("posix-sio/syscall/interrupt", 1));
    assert!(alone * 2.0 < sync, "{alone} {sync}");
    let ring = "io_uring/syscall/poll";
    for completion in ["interrupt", "poll", "hybrid"] {
        let bypass = format!("nvme-user/doorbell/{completion}");
        let (own, of_ring) = (kernel(&bypass, 32), kernel(ring, 32));
        assert!(own * 5.0 < of_ring, "{completion}: {own} {of_ring}");
        // A polling job spins in user space.
        let (own, of_ring) = (all(&bypass, 32), all(ring, 32));
        assert!(completion == "poll" || own < of_ring, "{completion}: {own} {of_ring}");
    }
}
