//! An engine that chose its way: each way by what was seen of it, and how many went which way against what
//! was counted.

use super::{
    IOS, PASS, PASSED, WINDOW_NS, assert_contains, counted, disk, hybrid, interrupt, kind, poll, synchronous,
    thread,
};
use iopj_core::evidence::{Completions, Evidence, Finding, ThreadEvidence, ThreadRole, VerdictKind};
use iopj_core::path::Submission;
use iopj_core::{Route, Routes, Way};
use iopj_probe::{MIXED_SHARE, STRAY_INTERRUPTS, assess, observe};
use proptest::prelude::*;

const HARD: Completions =
    Completions { hard_interrupt: PASS, sleeps: PASS, interrupts: Some(PASS), ..PASSED };

/// The same, done by an engine that chose its way: I/Os of the window and of the pass by way.
fn chosen(mut evidence: Evidence, ways: &[(Way, u64, u64)]) -> Evidence {
    let ways = ways.iter().map(|&(way, ios, pass_ios)| Route { way, ios, pass_ios }).collect();
    let engine = evidence.engine.as_mut().unwrap();
    engine.routes = Some(Box::new(Routes { ways, ..Routes::default() }));
    evidence
}

fn routes(evidence: &mut Evidence) -> &mut Routes {
    evidence.engine.as_mut().unwrap().routes.as_mut().unwrap()
}

/// Three of five I/Os by system call, the others by a submission poller; all interrupt.
fn interrupting() -> Evidence {
    let ways = [(Way::Interrupt, IOS / 5 * 3, PASS), (Way::Sqpoll, IOS / 5 * 2, 0)];
    let mut evidence = chosen(counted(interrupt(), HARD), &ways);
    evidence.threads.push(thread(ThreadRole::Sqpoll, 0.4, 20));
    evidence.engine.as_mut().unwrap().submit_calls = IOS / 5 * 3;
    evidence
}

/// A quarter by interrupt and the rest polled, in the pass and in the window.
fn mixed() -> Evidence {
    let counts =
        Completions { hard_interrupt: PASS / 4, waiting: PASS / 4 * 3, interrupts: Some(PASS / 4), ..PASSED };
    let ways = [(Way::Interrupt, IOS / 4, PASS / 4), (Way::Poll, IOS / 4 * 3, PASS / 4 * 3)];
    chosen(counted(synchronous(IOS / 4, 0.8, IOS / 4), counts), &ways)
}

#[test]
fn a_ring_that_is_closed_leaves_a_poller_that_is_no_doubt_unless_it_runs() {
    // 2 pollers of one job were there: one ran for 24 ms of a second, and the other's ring had been closed.
    let mut evidence = interrupting();
    evidence.threads.push(thread(ThreadRole::Sqpoll, 0.0, 0));
    assert_eq!(kind("auto", &evidence), VerdictKind::Verified);
    evidence.threads[2] = thread(ThreadRole::Sqpoll, 0.011, 0);
    assert_unproven(&evidence, "2 were there where the trial has 1");
}

#[test]
fn a_poller_of_an_earlier_ring_is_a_doubt_if_it_ran_or_may_have_until_it_ended() {
    let mut evidence = interrupting();
    let share = |evidence: &mut Evidence, of_ended: f64| {
        let known: u64 = evidence.threads.iter().map(|thread| thread.cpu_ns).sum();
        evidence.process.system_ns = known + (of_ended * WINDOW_NS as f64) as u64;
    };
    // Its CPU time is in the totals of the process alone.
    let (before_jobs, ended) = (true, true);
    evidence.threads.push(ThreadEvidence { before_jobs, ended, ..thread(ThreadRole::Sqpoll, 0.0, 0) });
    share(&mut evidence, 0.01);
    assert_eq!(kind("auto", &evidence), VerdictKind::Verified);
    share(&mut evidence, 0.011);
    assert_unproven(&evidence, "2 were there where the trial has 1");
    // One that slept throughout used nothing.
    evidence.threads[2].ended = false;
    assert_eq!(kind("auto", &evidence), VerdictKind::Verified);
    // Of a ring that the engine opened and closed itself, it is the trial's own.
    (evidence.threads[2].before_jobs, evidence.threads[2].ended) = (false, true);
    assert_eq!(kind("auto", &evidence), VerdictKind::Verified);
    // Kernel threads are in no such totals.
    evidence.threads[2] =
        ThreadEvidence { before_jobs: true, name: "io_uring-sq".into(), ..evidence.threads[2].clone() };
    share(&mut evidence, 0.0);
    assert_unproven(&evidence, "2 were there where the trial has 1");
    evidence.threads[2].ended = false;
    assert_eq!(kind("auto", &evidence), VerdictKind::Verified);
    // No ring of the trial's has it, though it may have as many.
    let mut alone = chosen(counted(interrupt(), HARD), &[(Way::Interrupt, IOS, PASS)]);
    alone.threads.push(ThreadEvidence { before_jobs: true, ..thread(ThreadRole::Sqpoll, 0.4, 0) });
    assert_unproven(&alone, "1 were there where the trial has 0");
}

fn reasons(path: &str, evidence: &Evidence) -> (VerdictKind, Vec<String>) {
    let (_, verdict) = assess(&path.parse().unwrap(), evidence);
    (verdict.kind, verdict.reasons)
}

/// Demands an unproven verdict with this part in a reason that names a remedy; a way of which all was seen
/// has a line without one.
#[track_caller]
fn assert_unproven(evidence: &Evidence, part: &str) {
    let (kind, reasons) = reasons("auto", evidence);
    assert_eq!(kind, VerdictKind::Unproven, "{reasons:?}");
    let says = |reason: &String| reason.contains(part) && reason.contains(" (remedy: ");
    assert!(reasons.iter().any(says), "`{part}` is not in {reasons:?}");
}

#[test]
fn ways_that_interrupt_are_verified_with_a_line_each() {
    let evidence = interrupting();
    let (kind, reasons) = reasons("auto", &evidence);
    assert_eq!(kind, VerdictKind::Verified, "{reasons:?}");
    assert_eq!(
        reasons[..2],
        [
            "io_uring/syscall/interrupt: 60000 I/Os (60.0 %): completion by interrupt was seen, submission \
             by syscall was seen",
            "io_uring/sqpoll/interrupt: 40000 I/Os (40.0 %): completion by interrupt was seen, submission by \
             sqpoll was seen"
        ]
    );
    assert_eq!(reasons.len(), 3, "the figures come last: {reasons:?}");
    assert!(matches!(observe(&evidence).submission, Finding::Mixed(_)));
}

#[test]
fn a_way_with_a_submission_poller_must_show_it() {
    let mut evidence = interrupting();
    evidence.threads.pop();
    assert_unproven(&evidence, "40000 I/Os (40.0 %): no submission poller was seen to run");
    let mut evidence = interrupting();
    evidence.engine.as_mut().unwrap().submit_calls = IOS;
    assert_unproven(&evidence, "100000 system calls submitted I/O, where other ways had 60000 I/Os");
    let mut evidence = interrupting();
    evidence.engine.as_mut().unwrap().wakeups = IOS / 5;
    assert_unproven(&evidence, "had to be woken 0.50 times per I/O");
    let mut evidence = interrupting();
    evidence.engine.as_mut().unwrap().submit_calls = 0;
    assert_unproven(&evidence, "60000 I/Os (60.0 %): no submitting system call was seen");
    assert_eq!(observe(&evidence).submission, Finding::Seen(Submission::Sqpoll));
}

#[test]
fn a_way_that_interrupts_is_refuted_by_completions_of_waiting_threads() {
    let polled =
        chosen(counted(poll(), Completions { waiting: PASS, ..PASSED }), &[(Way::Interrupt, IOS, PASS)]);
    let (kind, reasons) = reasons("auto", &polled);
    assert_eq!(kind, VerdictKind::Refuted);
    assert_contains(&reasons[0], "100000 I/Os (100.0 %): asked for interrupt, seen poll");
}

#[test]
fn a_way_that_polls_must_be_seen_to() {
    let polled = |way| {
        let polled = counted(poll(), Completions { waiting: PASS, ..PASSED });
        kind("auto", &chosen(polled, &[(way, IOS, PASS)]))
    };
    assert_eq!([polled(Way::Poll), polled(Way::Hybrid)], [VerdictKind::Verified, VerdictKind::Refuted]);
    let slept = |way| kind("auto", &chosen(hybrid(), &[(way, IOS, PASS)]));
    let verdicts = [slept(Way::Hybrid), slept(Way::SleepPoll), slept(Way::Poll)];
    assert_eq!(verdicts, [VerdictKind::Verified, VerdictKind::Verified, VerdictKind::Refuted]);
    let interrupted = chosen(counted(interrupt(), HARD), &[(Way::Poll, IOS, PASS)]);
    assert_eq!(kind("auto", &interrupted), VerdictKind::Refuted);
}

#[test]
fn several_kinds_of_completion_are_verified_where_the_ways_explain_the_counts() {
    let (kind, reasons) = reasons("auto", &mixed());
    assert_eq!(kind, VerdictKind::Verified, "{reasons:?}");
    assert_contains(&reasons[0], "25000 I/Os (25.0 %): completion by interrupt was seen, submission by");
    assert_contains(&reasons[1], "75000 I/Os (75.0 %): completion by the threads that wait was seen");
    let with = |hard: u64| {
        let counts =
            Completions { hard_interrupt: hard, waiting: PASS - hard, interrupts: Some(hard), ..PASSED };
        assess(&"auto".parse().unwrap(), &counted(mixed(), counts)).1
    };
    let slack = (MIXED_SHARE * PASS as f64) as u64 + STRAY_INTERRUPTS;
    assert_eq!(with(PASS / 4 + slack).kind, VerdictKind::Verified);
    let verdict = with(PASS / 4 + slack + 1);
    assert_eq!(verdict.kind, VerdictKind::Refuted);
    assert_contains(
        &verdict.reasons[0],
        "1043 in hard interrupts, 2957 by threads that wait, where ways that",
    );
    assert_contains(&verdict.reasons[0], "interrupt had 1000");
    let verdict = with(PASS / 4 - slack - 1);
    assert_eq!(verdict.kind, VerdictKind::Refuted);
    assert_contains(&verdict.reasons[0], "where ways that poll had 3000");
    // What a way that polls refused went by the fallback.
    let mut again = counted(
        mixed(),
        Completions { hard_interrupt: 1500, waiting: 2500, interrupts: Some(1500), ..PASSED },
    );
    assert_eq!(self::kind("auto", &again), VerdictKind::Refuted);
    routes(&mut again).pass_redone = 500;
    assert_unproven(&again, "ways refused 500 I/Os, which the fallback did");
    let mut again = mixed();
    routes(&mut again).pass_redone = slack;
    routes(&mut again).redone = (MIXED_SHARE * IOS as f64) as u64 + STRAY_INTERRUPTS;
    assert_eq!(self::kind("auto", &again), VerdictKind::Verified);
    routes(&mut again).redone += 1;
    assert_unproven(&again, "which the fallback did");
}

#[test]
fn several_kinds_of_completion_must_be_counted_and_the_window_must_agree() {
    let uncounted = Evidence { completions: Some(Finding::Unclear("no root".to_owned())), ..mixed() };
    assert_unproven(&uncounted, "who completed each I/O was not counted (remedy: let completions");
    let with = |interrupts| Evidence { devices: vec![disk("nvme0n1", IOS, interrupts)], ..mixed() };
    assert_unproven(&with(Some(IOS / 2)), "50000 interrupts in the window, where ways that interrupt");
    assert_unproven(&with(Some(IOS / 10)), "10000 interrupts in the window: with up to 1 I/Os in");
    assert_unproven(&with(None), "the interrupts of nvme0n1 cannot be told from those of other");
    // Polled in the window alone: nothing was counted of it.
    let counts = Completions { hard_interrupt: PASS, interrupts: Some(PASS), ..PASSED };
    let ways = [(Way::Interrupt, IOS / 4, PASS), (Way::Poll, IOS / 4 * 3, 0)];
    let late = chosen(counted(synchronous(IOS / 4, 0.8, IOS / 4), counts), &ways);
    assert_unproven(&late, "ways that poll were hardly taken in it");
}

#[test]
fn few_ios_of_a_way_are_within_what_counts_leave_open() {
    let polled = counted(synchronous(IOS / 200, 0.99, 40), Completions { waiting: PASS, ..PASSED });
    let ways = [(Way::Interrupt, IOS / 200, 0), (Way::Poll, IOS - IOS / 200, PASS)];
    let (kind, reasons) = reasons("auto", &chosen(polled, &ways));
    assert_eq!(kind, VerdictKind::Verified, "{reasons:?}");
    assert_contains(&reasons[0], "500 I/Os (0.5 %): too few to tell");
}

#[test]
fn a_pinned_engine_is_refuted_by_any_other_way() {
    let evidence = interrupting();
    let (kind, reasons) = reasons("auto:io_uring/syscall/interrupt", &evidence);
    assert_eq!(kind, VerdictKind::Refuted);
    assert_contains(&reasons[0], "40000 I/Os (40.0 %): asked for io_uring/syscall/interrupt alone");
    let alone = chosen(counted(interrupt(), HARD), &[(Way::Interrupt, IOS, PASS)]);
    assert_eq!(self::kind("auto:io_uring/syscall/interrupt", &alone), VerdictKind::Verified);
    assert_eq!(self::kind("auto:posix-sio/syscall/interrupt", &alone), VerdictKind::Refuted);
}

#[test]
fn ways_that_do_not_account_for_the_ios_prove_nothing() {
    let mut evidence = interrupting();
    routes(&mut evidence).ways[0].ios -= IOS / 1000 + 1;
    assert_unproven(&evidence, "the ways account for 99899 I/Os where 100000 were issued");
    routes(&mut evidence).ways[0].ios += 1;
    assert_eq!(kind("auto", &evidence), VerdictKind::Verified);
    evidence.engine.as_mut().unwrap().routes = None;
    assert_unproven(&counted(interrupt(), HARD), "nothing tells which ways the I/Os went");
}

#[test]
fn doubt_and_pollers_of_others_leave_a_verdict_open() {
    let foreign = Evidence { devices: vec![disk("nvme0n1", IOS * 2, Some(IOS * 2))], ..interrupting() };
    assert_unproven(&foreign, "others used the disk meanwhile");
    let mut evidence = interrupting();
    evidence.threads.push(thread(ThreadRole::Sqpoll, 0.4, 20));
    assert_unproven(&evidence, "2 were there where the trial has 1");
}

proptest! {
    /// However the I/Os are spread: completions that the ways do not explain are never verified.
    #[test]
    fn unexplained_completions_are_never_verified(polled in 0..=PASS, waiting in 0..=PASS) {
        let counts = Completions {
            hard_interrupt: PASS - waiting,
            waiting,
            interrupts: Some(PASS - waiting),
            ..PASSED
        };
        let scale = IOS / PASS;
        let ways = [
            (Way::Interrupt, (PASS - polled) * scale, PASS - polled),
            (Way::Poll, polled * scale, polled),
        ];
        let evidence = chosen(counted(synchronous((PASS - polled) * scale, 0.9, 0), counts), &ways);
        let slack = MIXED_SHARE * PASS as f64 + STRAY_INTERRUPTS as f64;
        if polled.abs_diff(waiting) as f64 > slack {
            prop_assert_ne!(kind("auto", &evidence), VerdictKind::Verified);
        }
    }
}
