//! Kernel bypass beside the kernel's own paths, in turns on the same drive of the same guest.

use crate::common::{alone, folder};
use crate::{are, have_lab, interrupts_per_io, lab_run, median, sleeps_per_io, trials};
use iopj_core::{Space, VerdictKind};
use iopj_store::{Measurement, Trial};

const PATHS: [&str; 5] = [
    "posix-sio/syscall/interrupt",
    "io_uring/syscall/poll",
    "nvme-user/doorbell/interrupt",
    "nvme-user/doorbell/poll",
    "nvme-user/doorbell/hybrid",
];

/// The middle figure of a path's three trials at a depth, which one stop of the host does not move.
#[track_caller]
fn of(trials: &[Trial], path: &str, iodepth: u32, figure: impl Fn(&Measurement) -> f64) -> f64 {
    let is_it = |trial: &&Trial| trial.path.to_string() == path && trial.workload.iodepth == iodepth;
    let own: Vec<&Trial> = trials.iter().filter(is_it).collect();
    assert_eq!(own.len(), 3, "{path} at {iodepth}");
    median(own.into_iter().map(|trial| figure(trial.outcome.measurement().unwrap())))
}

/// True of a poller of the device that was alone with it, yet whose time was the kernel's in part: a stop by the host
/// that meets the guest's kernel counts as the kernel's time, and is no other path.
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

#[test]
fn bypass_is_proven_and_leaves_the_kernel_out_on_6_18() {
    if !have_lab(&["6.18"]) {
        return;
    }
    let (_alone, folder) = (alone(), folder());
    let output = lab_run(folder.path(), "bypass-lab", &[("replicates = 5", "replicates = 3")], "--kernel 6.18 --exact");
    let trials = trials(folder.path(), "bypass-lab", &output);
    assert_eq!(trials.len(), 27);
    // Who finds something complete whenever it looks, as at depth 32 it may, never sleeps, and is seen to poll.
    let may_be_awake = |trial: &Trial| trial.path.to_string().ends_with("hybrid") && trial.workload.iodepth > 1;
    let (awake, others): (Vec<Trial>, Vec<Trial>) = trials.iter().cloned().partition(may_be_awake);
    assert_eq!((awake.len(), others.len()), (3, 24));
    for measurement in awake.iter().map(|trial| trial.outcome.measurement().unwrap()) {
        let (verdict, sleeps) = (&measurement.verdict, sleeps_per_io(measurement));
        let is_seen_to_poll = verdict.reasons.iter().any(|reason| reason == "asked for hybrid, seen poll");
        match verdict.kind {
            VerdictKind::Refuted => assert!(is_seen_to_poll && sleeps < 0.01, "{sleeps} sleeps: {verdict:?}"),
            VerdictKind::Verified => assert!(sleeps > 0.001, "{sleeps} sleeps: {verdict:?}"),
            VerdictKind::Unproven => {}
        }
    }
    // A poller that the host stops for a moment sleeps more often in a round of 32 than a verdict allows; that is no other path.
    let polls_deep = |trial: &Trial| trial.path.to_string().ends_with("poll") && trial.workload.iodepth > 1;
    let (deep, others): (Vec<Trial>, Vec<Trial>) = others.into_iter().partition(polls_deep);
    assert_eq!((deep.len(), others.len()), (6, 18));
    for trial in &deep {
        let verdict = &trial.outcome.measurement().unwrap().verdict;
        assert_ne!(verdict.kind, VerdictKind::Refuted, "{}: {:?}", trial.path, verdict.reasons);
    }
    for path in PATHS {
        if !others.iter().any(|trial| is_left_open(trial, path)) {
            are(&others, path, VerdictKind::Verified);
        }
    }
    for trial in &trials {
        let [kernel, user] =
            [Space::Kernel, Space::User].map(|space| instructions(trial.outcome.measurement().unwrap(), space));
        eprintln!(
            "{} depth {}: {kernel:.0} in the kernel, {user:.0} in user space",
            trial.path, trial.workload.iodepth
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
        let [poll, hybrid] = ["poll", "hybrid"].map(|completion| own(completion, sleeps_per_io));
        assert!(poll < 0.01, "{poll} sleeps per I/O of poll");
        assert!(iodepth > 1 || hybrid > 0.1, "{hybrid} sleeps per I/O of hybrid");
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
        // Who polls, and a hybrid that is awake, spins in user space.
        let (own, of_ring) = (all(&bypass, 32), all(ring, 32));
        assert!(completion != "interrupt" || own < of_ring, "{completion}: {own} {of_ring}");
    }
}
