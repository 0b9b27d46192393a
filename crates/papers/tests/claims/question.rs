//! Which trials decide, what a family is corrected for, and that parts reported separately affect neither.

use super::energy::{LARGE, Made, decided, efficiency, trials};
use super::{NOISY, QUIET};
use iopj_core::Scope;
use iopj_core::VerdictKind;
use iopj_papers::claims::*;
use iopj_record::Generator;
use iopj_record::testing::cells::judge;

const MODES: [&str; 6] = [
    "posix-sio/syscall/interrupt",
    "posix-sio/syscall/poll",
    "io_uring/syscall/interrupt",
    "io_uring/syscall/poll",
    "io_uring/sqpoll/interrupt",
    "io_uring/sqpoll/poll",
];

/// The first few of the paths at 128 KiB with some threads; poll does the given I/Os per joule, interrupt 20.
fn large(paths: usize, numjobs: u32, poll: f64) -> Vec<Made<'static>> {
    let cells: Vec<(&str, f64)> = MODES
        .iter()
        .take(paths)
        .map(|path| (*path, if path.ends_with("poll") { poll } else { 20.0 }))
        .collect();
    efficiency(&cells, LARGE, 1, numjobs)
}

#[test]
fn parts_reported_apart_do_not_choose_the_trials_that_decide() {
    let mut all = trials(&large(6, 1, 15.0), &QUIET, Scope::System);
    let mut fio = trials(&large(2, 8, 25.0), &QUIET, Scope::System);
    fio.iter_mut().for_each(|trial| trial.generator = Generator::Fio);
    all.extend(fio);
    let claim = decided(&all, "iface23-9");
    assert_eq!(claim.answer, Answer::DoesNotHold, "{:?}", claim.parts);
    // Nor do they make a set of trials complete, or incomplete.
    assert!(claim.parts.iter().all(|part| !part.apart), "fio has no single thread");
}

#[test]
fn parts_reported_apart_mark_no_claim_and_leave_out_no_trial_of_it() {
    let of = |numjobs: u32| {
        let mut all = trials(&[large(6, 1, 15.0), large(6, 8, 15.0)].concat(), &QUIET, Scope::System);
        let at = all.iter().position(|trial| trial.workload.numjobs == numjobs).unwrap();
        judge(&mut all[at..=at], VerdictKind::Unproven);
        judge(&mut all[at + 1..=at + 1], VerdictKind::Refuted);
        let machine = ClaimContext {
            cores: 8,
            admission: iopj_analysis::Admission { with_unproven: true, ..Default::default() },
            ..ClaimContext::default()
        };
        let claim = decide(&all, &machine).into_iter().find(|claim| claim.id == "iface23-9").unwrap();
        (claim.marked, claim.left_out.total())
    };
    assert_eq!((of(8), of(1)), ((true, 1), (false, 0)));
}

#[test]
fn no_word_of_a_claim_holds_two_spaces_together() {
    for claim in decide(&[], &ClaimContext::default()) {
        let words = claim.needs.iter().copied().chain([claim.id, claim.text]).chain(claim.note);
        let parts = claim.parts.iter().map(|part| part.text.as_str());
        let all: Vec<&str> = words.chain(parts).chain(claim.run.as_deref()).collect();
        assert!(all.iter().all(|one| !one.contains("  ")), "{all:?}");
    }
}

#[test]
fn what_could_have_been_seen_is_corrected_for_the_family() {
    let least = |numjobs: &[u32]| {
        let made: Vec<Made> = numjobs.iter().flat_map(|numjobs| large(6, *numjobs, 19.0)).collect();
        let claim = decided(&trials(&made, &NOISY, Scope::System), "iface23-9");
        claim.parts[0].effect.unwrap().least.unwrap()
    };
    let (three, six) = (least(&[8]), least(&[8, 16]));
    assert!(six > 1.05 * three, "{three} {six}");
    assert!((least(&[1, 8]) - three).abs() < 1e-12, "what is reported separately is no part of the family");
}
