//! What may be rolled out: a path that is verified on nearly every host and in nearly every trial.

use crate::small::{only, reported, with};
use iopj_core::VerdictKind;
use iopj_fleet::report::KindReport;
use iopj_record::Trial;

const REGISTERED: &str = "io_uring/syscall/interrupt+registered";

/// Three hosts whose first machine has no meter, each trial four times.
fn kind(verdict: impl Fn(&Trial, u32) -> VerdictKind) -> KindReport {
    let four = |trial: &Trial| {
        let one = |replicate| {
            let changed = with(trial, |one| {
                one.energy.clear();
                one.verdict.kind = verdict(trial, replicate);
            });
            Trial { replicate, ..changed }
        };
        (0..4).map(one).collect()
    };
    only(reported(3, |_, trial| four(trial)))
}

fn is_modelled(kind: &KindReport, path: &str) -> bool {
    kind.observations.iter().any(|one| one.case.path.to_string() == path)
}

/// Hosts with one verified trial of four were enough, and a policy asked for no verdict at all.
#[test]
fn a_path_that_one_trial_in_four_does_not_prove_is_neither_advised_nor_in_a_policy() {
    let proven = kind(|_, _| VerdictKind::Verified);
    let depth_1 = |kind: &KindReport| kind.workloads.iter().position(|one| one.setup.contains(" iodepth 1 "));
    let at = depth_1(&proven).unwrap();
    assert_eq!(proven.workloads[at].advice.as_ref().unwrap().path, REGISTERED);
    assert!(is_modelled(&proven, REGISTERED));

    let is_unproven = |trial: &Trial, replicate: u32| {
        replicate == 3 && trial.path.to_string() == REGISTERED && trial.workload.iodepth == 1
    };
    let kind = kind(|trial, replicate| match is_unproven(trial, replicate) {
        true => VerdictKind::Unproven,
        false => VerdictKind::Verified,
    });
    let one = &kind.workloads[depth_1(&kind).unwrap()];
    let path = one.paths.iter().find(|path| path.path == REGISTERED).unwrap();
    assert_eq!((path.trials, path.verified_trials, path.verified_hosts), (12, 9, 3));
    assert_eq!(one.advice.as_ref().unwrap().path, "io_uring/syscall/interrupt");
    assert!(!is_modelled(&kind, REGISTERED) && is_modelled(&kind, "io_uring/syscall/interrupt"));
}

/// Their figures are the scheduler's: the model of one store leaves them out, that of a fleet had them.
#[test]
fn paths_whose_threads_spin_and_outnumber_the_cores_calibrate_no_policy() {
    let crowded = |trial: &Trial| {
        let mut trial = with(trial, |one| one.evidence.cpu.cores = 1);
        trial.workload.numjobs = 2;
        vec![trial]
    };
    let kind = only(reported(2, |_, trial| crowded(trial)));
    assert!(is_modelled(&kind, "io_uring/syscall/interrupt"));
    assert!(!is_modelled(&kind, "io_uring/syscall/poll") && !is_modelled(&kind, "io_uring/sqpoll/poll"));
}
