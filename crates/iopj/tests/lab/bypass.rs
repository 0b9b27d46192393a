//! Kernel bypass beside the kernel's own paths, in turns on the same drive of the same guest.

use crate::common::{alone, folder};
use crate::{are, have_lab, lab_run, trials};
use iopj_core::{Space, VerdictKind};
use iopj_store::{Measurement, Trial};

const PATHS: [&str; 5] = [
    "posix-sio/syscall/interrupt",
    "io_uring/syscall/poll",
    "nvme-user/doorbell/interrupt",
    "nvme-user/doorbell/poll",
    "nvme-user/doorbell/hybrid",
];

/// The measurement of a path at a depth.
#[track_caller]
fn of<'a>(trials: &'a [Trial], path: &str, iodepth: u32) -> &'a Measurement {
    let is_it = |trial: &&Trial| trial.path.to_string() == path && trial.workload.iodepth == iodepth;
    trials.iter().find(is_it).unwrap_or_else(|| panic!("{path} at {iodepth}")).outcome.measurement().unwrap()
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

/// Instructions per I/O: in the kernel, and in user space.
fn instructions(measurement: &Measurement) -> [f64; 2] {
    let costs = measurement.costs.as_ref().unwrap();
    [Space::Kernel, Space::User].map(|space| costs.total(space).instructions as f64 / measurement.ios as f64)
}

#[test]
fn bypass_is_proven_and_leaves_the_kernel_out_on_6_18() {
    if !have_lab(&["6.18"]) {
        return;
    }
    let (_alone, folder) = (alone(), folder());
    let output = lab_run(folder.path(), "bypass-lab", &[("replicates = 5", "replicates = 1")], "--kernel 6.18 --exact");
    let trials = trials(folder.path(), "bypass-lab", &output);
    assert_eq!(trials.len(), 9);
    // A slow build finds something complete whenever it looks, at depth 32, and never sleeps: hybrid is no hybrid then.
    let may_be_awake = |trial: &Trial| trial.path.to_string().ends_with("hybrid") && trial.workload.iodepth > 1;
    let (awake, others): (Vec<Trial>, Vec<Trial>) = trials.iter().cloned().partition(may_be_awake);
    assert_eq!((awake.len(), others.len()), (1, 8));
    // A poller that the host stops for a moment sleeps more often in a round of 32 than a verdict allows; that is no other path.
    let polls_deep = |trial: &Trial| trial.path.to_string().ends_with("poll") && trial.workload.iodepth > 1;
    let (deep, others): (Vec<Trial>, Vec<Trial>) = others.into_iter().partition(polls_deep);
    assert_eq!((deep.len(), others.len()), (2, 6));
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
        let [kernel, user] = instructions(trial.outcome.measurement().unwrap());
        eprintln!(
            "{} depth {}: {kernel:.0} in the kernel, {user:.0} in user space",
            trial.path, trial.workload.iodepth
        );
    }
    for iodepth in [1, 32] {
        let [interrupt, poll, hybrid] = ["interrupt", "poll", "hybrid"]
            .map(|completion| of(&trials, &format!("nvme-user/doorbell/{completion}"), iodepth));
        let sleeps = |measurement: &Measurement| measurement.evidence.process.voluntary_switches;
        assert!(interrupt.interrupts_per_io.unwrap() > 0.0);
        for quiet in [poll, hybrid] {
            assert!(quiet.interrupts_per_io.unwrap() < 0.01, "{:?}", quiet.interrupts_per_io);
        }
        assert!(sleeps(poll) * 100 < poll.ios, "{} sleeps of poll", sleeps(poll));
        assert!(iodepth > 1 || sleeps(hybrid) * 10 > hybrid.ios, "{} sleeps of hybrid", sleeps(hybrid));
    }
    // The timer's ticks and the other processor's idle loop remain.
    let sync = instructions(of(&trials, "posix-sio/syscall/interrupt", 1));
    let alone = instructions(of(&trials, "nvme-user/doorbell/poll", 1));
    assert!(alone[0] * 2.0 < sync[0], "{alone:?} {sync:?}");
    let ring = instructions(of(&trials, "io_uring/syscall/poll", 32));
    for completion in ["interrupt", "poll", "hybrid"] {
        let bypass = instructions(of(&trials, &format!("nvme-user/doorbell/{completion}"), 32));
        assert!(bypass[0] * 5.0 < ring[0], "{completion}: {bypass:?} {ring:?}");
        // Who polls spins in user space.
        assert!(completion == "poll" || bypass[0] + bypass[1] < ring[0] + ring[1], "{completion}: {bypass:?} {ring:?}");
    }
}
