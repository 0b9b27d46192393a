//! An engine that chose its way on a drive that was taken: by interrupt, polling, or sleeping first.

use super::bypass::taken;
use super::{IOS, WINDOW_NS, assert_contains, disk, hybrid, interrupt, kind, poll, synchronous};
use iopj_core::evidence::{ControlRun, EngineEvidence, Evidence, PaceEvidence, VerdictKind};
use iopj_core::{Route, Routes, Way};
use iopj_probe::{HYBRID_SLEEPS, MIXED_SHARE, POLL_SLEEPS, STRAY_INTERRUPTS, assess};
use proptest::prelude::*;

/// What went by interrupt, and as much by sleeping first; the rest polled.
const INTERRUPTED: u64 = IOS / 4;
/// Sleeps before polls.
const SLEPT: u64 = IOS / 5;
/// Of all I/Os, and beyond.
const SLACK: u64 = (MIXED_SHARE * IOS as f64) as u64 + STRAY_INTERRUPTS;
/// What was in flight at the window's begin, and a pending interrupt.
const LATE: u64 = 2;

/// The same on a drive that was taken, done by an engine that chose its way.
fn chosen(evidence: Evidence, ways: &[(Way, u64)]) -> Evidence {
    let mut evidence = taken(evidence);
    let ways = ways.iter().map(|&(way, ios)| Route { way, ios, pass_ios: 0 }).collect();
    engine(&mut evidence).routes = Some(Box::new(Routes { ways, ..Routes::default() }));
    evidence
}

fn engine(evidence: &mut Evidence) -> &mut EngineEvidence {
    evidence.engine.as_mut().unwrap()
}

/// All three took turns, with so many interrupts and sleeps as the kernel counts them.
fn mixed(interrupts: u64, sleeps: u64) -> Evidence {
    let ways = [
        (Way::UserInterrupt, INTERRUPTED),
        (Way::UserPoll, IOS - 2 * INTERRUPTED),
        (Way::UserHybrid, INTERRUPTED),
    ];
    let mut evidence = chosen(synchronous(interrupts, 0.8, sleeps), &ways);
    engine(&mut evidence).system_calls = Some(INTERRUPTED + SLEPT);
    engine(&mut evidence).sleeps = Some(SLEPT);
    evidence
}

fn as_counted() -> Evidence {
    mixed(INTERRUPTED, INTERRUPTED + SLEPT)
}

/// The kinds and reasons, of which the last has the figures.
fn verdict(evidence: &Evidence) -> (VerdictKind, String) {
    let (_, verdict) = assess(&"auto".parse().unwrap(), evidence);
    (verdict.kind, verdict.reasons[..verdict.reasons.len() - 1].join("\n"))
}

#[track_caller]
fn assert_is(evidence: &Evidence, kind: VerdictKind, part: &str) {
    let (found, reasons) = verdict(evidence);
    assert_eq!(found, kind, "{reasons}");
    assert_contains(&reasons, part);
    assert_eq!(kind == VerdictKind::Unproven, reasons.contains(" (remedy: "), "{reasons}");
}

#[test]
fn each_way_has_a_line_and_poll_is_told_from_hybrid() {
    let (kind, reasons) = verdict(&as_counted());
    assert_eq!(kind, VerdictKind::Verified);
    let line = |way: &str, ios: u64, share: u64| {
        let name = format!("nvme-user/doorbell/{way}: {ios} I/Os ({share}.0 %)");
        format!("{name}: completion by {way} was seen, submission by doorbell was seen")
    };
    let lines = [line("interrupt", 25_000, 25), line("poll", 50_000, 50), line("hybrid", 25_000, 25)];
    assert_eq!(reasons, lines.join("\n"));
}

#[test]
fn a_way_that_interrupts_is_refuted_without_interrupts_and_open_with_too_few() {
    let part = "0 interrupts in the window, where the way that interrupts had 25000 I/Os";
    assert_is(&mixed(0, INTERRUPTED + SLEPT), VerdictKind::Refuted, part);
    let few = mixed(INTERRUPTED / 2 - 1, INTERRUPTED + SLEPT);
    assert_is(&few, VerdictKind::Unproven, "12499 interrupts in the window");
    let enough = mixed(INTERRUPTED / 2, INTERRUPTED + SLEPT);
    assert_is(&enough, VerdictKind::Verified, "completion by interrupt was seen");
}

#[test]
fn each_job_has_a_vector_of_its_own_however_few_the_cores() {
    let with = |interrupts| {
        let mut evidence = mixed(interrupts, INTERRUPTED + SLEPT);
        evidence.numjobs = 4;
        evidence.cpu.cores = 2;
        evidence.devices[0].vectors = (36..40).map(|irq| format!("{irq} masked")).collect();
        evidence
    };
    let part =
        "12499 interrupts in the window, where the way that interrupts had 25000 I/Os, with up to 1 of";
    assert_is(&with(INTERRUPTED / 2 - 1), VerdictKind::Unproven, part);
    assert_is(&with(INTERRUPTED / 2), VerdictKind::Verified, "completion by interrupt was seen");
}

#[test]
fn more_interrupts_than_the_ways_explain_refute_those_that_poll() {
    let most = INTERRUPTED + LATE + SLACK;
    let with = |interrupts, switches, explored| {
        let mut evidence = mixed(interrupts, INTERRUPTED + SLEPT);
        let routes = engine(&mut evidence).routes.as_mut().unwrap();
        (routes.switches, routes.explored) = (switches, explored);
        evidence
    };
    assert_is(&with(most, 0, 0), VerdictKind::Verified, "completion by poll was seen");
    let part = "hybrid: 25000 I/Os (25.0 %): 26005 interrupts in the window, where the way that interrupts";
    assert_is(&with(most + 1, 0, 0), VerdictKind::Refuted, part);
    // What is in flight when the way changes may complete in the other way.
    assert_is(&with(most + LATE, 1, 0), VerdictKind::Verified, "completion by poll was seen");
    assert_is(&with(most + 2 * LATE, 0, 32), VerdictKind::Verified, "completion by poll was seen");
    assert_is(&with(most + 2 * LATE + 1, 0, 32), VerdictKind::Refuted, "26009 interrupts");
}

#[test]
fn flushes_have_no_route_and_interrupt_beside_the_ways() {
    let most = INTERRUPTED + LATE + SLACK;
    let mut evidence = mixed(most + 500, INTERRUPTED + SLEPT);
    assert_is(&evidence, VerdictKind::Refuted, "26504 interrupts");
    (evidence.syncs, evidence.discards) = (400, 100);
    engine(&mut evidence).system_calls = Some(INTERRUPTED + SLEPT + 500);
    assert_is(&evidence, VerdictKind::Verified, "completion by poll was seen");
}

#[test]
fn under_an_open_load_a_wait_ends_with_each_arrival() {
    let mut evidence = as_counted();
    let looks = WINDOW_NS / 1_000_000;
    engine(&mut evidence).system_calls = Some(SLEPT + INTERRUPTED + LATE + looks + SLACK);
    assert_is(&evidence, VerdictKind::Unproven, "waits for interrupts");
    evidence.pace = Some(PaceEvidence::default());
    assert_is(&evidence, VerdictKind::Verified, "completion by poll was seen");
}

#[test]
fn sleeps_must_be_those_of_the_ways() {
    // One for a change of the way, and those that a poller may have.
    let most = INTERRUPTED + SLEPT + 1 + (POLL_SLEEPS * (IOS - INTERRUPTED) as f64) as u64 - 1;
    assert_is(&mixed(INTERRUPTED, most), VerdictKind::Verified, "completion by poll was seen");
    let part = "sleeps, where the engine waited 25000 times for an interrupt and slept 20000 times";
    assert_is(&mixed(INTERRUPTED, most + 2), VerdictKind::Unproven, part);
    let mut waits = as_counted();
    let looks = WINDOW_NS / 100_000_000;
    engine(&mut waits).system_calls = Some(SLEPT + INTERRUPTED + LATE + looks + SLACK);
    assert_is(&waits, VerdictKind::Verified, "completion by poll was seen");
    engine(&mut waits).system_calls = Some(SLEPT + INTERRUPTED + LATE + looks + SLACK + 1);
    assert_is(&waits, VerdictKind::Unproven, "26025 waits for interrupts, where the way that interrupts had");
    let mut uncounted = as_counted();
    engine(&mut uncounted).sleeps = None;
    assert_is(&uncounted, VerdictKind::Unproven, "the engine did not count its sleeps");
}

#[test]
fn a_way_that_sleeps_first_must_have_slept() {
    let with = |before_polls: u64, seen: u64| {
        let mut evidence = mixed(INTERRUPTED, seen);
        engine(&mut evidence).system_calls = Some(INTERRUPTED + before_polls);
        engine(&mut evidence).sleeps = Some(before_polls);
        evidence
    };
    let least = (HYBRID_SLEEPS * INTERRUPTED as f64) as u64;
    assert_is(&with(least, IOS), VerdictKind::Unproven, "sleeps, where the engine waited");
    assert_is(&with(least, INTERRUPTED + least), VerdictKind::Verified, "completion by hybrid was seen");
    let part = "of this way: as if it polled, for it found something complete at most looks";
    assert_is(&with(least - 1, INTERRUPTED + least), VerdictKind::Unproven, part);
    assert_is(&with(SLEPT, least - 1), VerdictKind::Unproven, part);
}

#[test]
fn ways_that_poll_alone_need_a_drive_that_interrupts_otherwise() {
    let ways = [(Way::UserPoll, IOS / 2), (Way::UserHybrid, IOS / 2)];
    let mut evidence = chosen(synchronous(0, 0.8, SLEPT), &ways);
    engine(&mut evidence).system_calls = Some(SLEPT);
    engine(&mut evidence).sleeps = Some(SLEPT);
    assert_is(&evidence, VerdictKind::Verified, "completion by hybrid was seen");
    let control = ControlRun { ios: 64, interrupts: Some(0), device_reads: 64, completions: None };
    let silent = Evidence { control: Some(control), ..evidence.clone() };
    assert_is(&silent, VerdictKind::Unproven, "the device did not interrupt in the control run either");
    let mut lost = evidence;
    lost.devices[0].interrupts = None;
    assert_is(&lost, VerdictKind::Unproven, "were not counted throughout the window");
}

#[test]
fn one_way_alone_is_judged_as_its_path() {
    let cases = [(Way::UserInterrupt, interrupt()), (Way::UserPoll, poll()), (Way::UserHybrid, hybrid())];
    for (happened, evidence) in &cases {
        for (asked, _) in &cases {
            let expected = if asked == happened { VerdictKind::Verified } else { VerdictKind::Refuted };
            let alone = chosen(evidence.clone(), &[(*asked, IOS)]);
            assert_eq!(kind(&format!("auto:{asked}"), &alone), expected, "{asked}, {happened}");
            assert_eq!(kind("auto", &alone), expected, "{asked}, {happened}");
        }
    }
    assert_eq!(kind("auto:nvme-user/doorbell/poll", &as_counted()), VerdictKind::Refuted);
    let mut calls = chosen(poll(), &[(Way::UserPoll, IOS)]);
    engine(&mut calls).system_calls = Some(3);
    assert_is(&calls, VerdictKind::Unproven, "3 system calls were made in the window");
}

#[test]
fn ways_of_the_side_that_the_drive_is_not_on_are_refuted() {
    let evidence = chosen(interrupt(), &[(Way::Interrupt, IOS)]);
    assert_is(&evidence, VerdictKind::Refuted, "asked for syscall, seen doorbell");
    let mut of_the_kernel = chosen(interrupt(), &[(Way::UserInterrupt, IOS)]);
    of_the_kernel.devices = vec![disk("nvme0n1", IOS, Some(IOS))];
    engine(&mut of_the_kernel).submit_calls = IOS;
    assert_is(&of_the_kernel, VerdictKind::Refuted, "asked for doorbell, seen syscall");
    // Its driver changed in the window.
    let mut changed = as_counted();
    changed.devices[0].taken_by = None;
    assert_ne!(kind("auto", &changed), VerdictKind::Verified);
}

proptest! {
    /// However the I/Os are spread: interrupts that the ways do not explain are never verified.
    #[test]
    fn unexplained_interrupts_are_never_verified(by_interrupt in 0..=IOS, interrupts in 0..=IOS) {
        let ways = [(Way::UserInterrupt, by_interrupt), (Way::UserPoll, IOS - by_interrupt)];
        let mut evidence = chosen(synchronous(interrupts, 0.9, by_interrupt), &ways);
        engine(&mut evidence).system_calls = Some(by_interrupt);
        engine(&mut evidence).sleeps = Some(0);
        let is_explained = 2 * interrupts >= by_interrupt && interrupts <= by_interrupt + LATE + SLACK;
        let is_few = |ios: u64| ios as f64 <= MIXED_SHARE * IOS as f64;
        if !is_explained && !is_few(by_interrupt) && !is_few(IOS - by_interrupt) {
            prop_assert_ne!(kind("auto", &evidence), VerdictKind::Verified);
        }
    }
}
