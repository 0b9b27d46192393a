//! fio seen from outside: its jobs, its rings, and who handed the I/O to the kernel.

use super::{IOS, PASS, PASSED, WINDOW_NS, assert_unproven, counted, interrupt, kind, poll, sqpoll};
use iopj_core::evidence::{Completions, Evidence, Finding, RingEvidence, ThreadRole, VerdictKind};
use iopj_core::path::{CompletionMode, Submission};
use iopj_probe::observe;

/// Evidence from looks at fio: each job, and its rings.
fn watched(mut evidence: Evidence, rings: &[(Option<i32>, u64)]) -> Evidence {
    evidence.engine = None;
    evidence.rings = Some(
        rings
            .iter()
            .map(|&(poller, entries)| RingEvidence {
                poller,
                entries: Some(entries),
                over_ns: Some(WINDOW_NS),
            })
            .collect(),
    );
    for thread in &mut evidence.threads {
        thread.over_ns = Some(WINDOW_NS);
    }
    evidence
}

/// Bytes that the first thread of a role handed to the block layer.
fn handed(mut evidence: Evidence, role: ThreadRole, ios: u64) -> Evidence {
    let thread = evidence.threads.iter_mut().find(|thread| thread.role == role).unwrap();
    thread.block_bytes = Some(ios * 4096);
    evidence
}

const POLLER: Option<i32> = Some(1);

#[test]
fn sqpoll_is_seen_where_a_poller_took_the_entries() {
    let evidence = watched(sqpoll(IOS), &[(POLLER, IOS - 300)]);
    assert_eq!(observe(&evidence).submission, Finding::Seen(Submission::Sqpoll));
    assert_eq!(kind("io_uring/sqpoll/interrupt", &evidence), VerdictKind::Verified);
    assert_eq!(kind("io_uring/syscall/interrupt", &evidence), VerdictKind::Refuted);
    assert_eq!(kind("io_uring/sqpoll/poll", &watched(sqpoll(0), &[(POLLER, IOS)])), VerdictKind::Verified);
    // Before 5.16 the kernel does not show the entries: then the bytes that the poller handed on count.
    let evidence = handed(watched(sqpoll(IOS), &[(POLLER, 0)]), ThreadRole::Sqpoll, IOS);
    assert_eq!(kind("io_uring/sqpoll/interrupt", &evidence), VerdictKind::Verified);
    let evidence = handed(watched(sqpoll(IOS), &[(POLLER, 0)]), ThreadRole::Sqpoll, IOS / 3);
    assert_unproven("io_uring/sqpoll/interrupt", &evidence, "submitted only 33 % of the I/Os");
}

/// Half of the I/Os could go another way, but fio's submission pollers counted as having submitted all.
#[test]
fn nearly_all_entries_must_be_the_pollers() {
    let path = "io_uring/sqpoll/interrupt";
    assert_eq!(kind(path, &watched(sqpoll(IOS), &[(POLLER, 95_001)])), VerdictKind::Verified);
    assert_unproven(path, &watched(sqpoll(IOS), &[(POLLER, 95_000)]), "submitted only 95 % of the I/Os");
    // A last look at nine tenths of the window, after which I/Os came up to twice as often. Half is the
    // least.
    let looked = |over_ns: u64, entries: u64| {
        let mut evidence = watched(sqpoll(IOS), &[(POLLER, entries)]);
        evidence.rings.as_mut().unwrap()[0].over_ns = Some(over_ns);
        evidence
    };
    assert_eq!(kind(path, &looked(WINDOW_NS / 10 * 9, 75_001)), VerdictKind::Verified);
    assert_unproven(path, &looked(WINDOW_NS / 10 * 9, 74_999), "only 75 % of the I/Os");
    assert_eq!(kind(path, &looked(WINDOW_NS / 3, 50_001)), VerdictKind::Verified);
    assert_unproven(path, &looked(WINDOW_NS / 3, 50_000), "only 50 % of the I/Os");
}

#[test]
fn what_jobs_hand_over_beside_their_pollers_is_no_sqpoll() {
    let beside = |ios: u64| handed(watched(sqpoll(IOS), &[(POLLER, IOS - ios)]), ThreadRole::Job, ios);
    // A MiB may be pages of the program that were read.
    assert_eq!(kind("io_uring/sqpoll/interrupt", &beside(256)), VerdictKind::Verified);
    let mut beside = beside(5_300);
    beside.rings.as_mut().unwrap()[0].entries = Some(IOS);
    assert_unproven(
        "io_uring/sqpoll/interrupt",
        &beside,
        "5 % of the bytes were handed over by system calls",
    );
}

#[test]
fn a_poller_of_fio_that_sleeps_between_ios_is_none() {
    let slept = |sleeps: u64| {
        let mut evidence = watched(sqpoll(IOS), &[(POLLER, IOS)]);
        evidence.threads[1].voluntary_switches = sleeps;
        evidence
    };
    assert_eq!(kind("io_uring/sqpoll/interrupt", &slept(IOS / 10)), VerdictKind::Verified);
    assert_unproven("io_uring/sqpoll/interrupt", &slept(IOS / 10 + 1), "slept 0.10 times per I/O");
    // One that sleeps before it looks for completions does it for them.
    let mut hybrid = slept(IOS);
    hybrid.devices[0].interrupts = Some(0);
    let hybrid = counted(hybrid, Completions { waiting: PASS, timers: PASS, sleeps: PASS, ..PASSED });
    assert_eq!(kind("io_uring/sqpoll/hybrid", &hybrid), VerdictKind::Verified);
}

#[test]
fn a_poller_that_did_not_run_and_rings_of_both_kinds_prove_nothing() {
    let mut idle = watched(sqpoll(IOS), &[(POLLER, IOS)]);
    idle.threads[1].cpu_ns = 0;
    assert_unproven("io_uring/sqpoll/interrupt", &idle, "none was seen to run");
    let mixed = watched(sqpoll(IOS), &[(POLLER, IOS), (None, IOS)]);
    for path in ["io_uring/sqpoll/interrupt", "io_uring/syscall/interrupt"] {
        assert_unproven(path, &mixed, "1 of the rings have a submission poller, and 1 have none");
    }
    let unseen = watched(sqpoll(IOS), &[]);
    assert_unproven("io_uring/sqpoll/interrupt", &unseen, "but none of its rings was seen");
}

/// On 6.1 a ring that polls for completions was locked at every look, and sqpoll was refuted.
#[test]
fn a_ring_that_never_names_its_poller_is_not_taken_for_one_without() {
    let unnamed = watched(sqpoll(IOS), &[(None, IOS)]);
    assert_eq!(kind("io_uring/sqpoll/interrupt", &unnamed), VerdictKind::Verified);
    assert_eq!(kind("io_uring/syscall/interrupt", &unnamed), VerdictKind::Refuted);
}

#[test]
fn syscall_is_seen_where_no_ring_has_a_poller() {
    let ring = watched(interrupt(), &[(None, IOS)]);
    assert_eq!(observe(&ring).submission, Finding::Seen(Submission::Syscall));
    assert_eq!(kind("io_uring/syscall/interrupt", &ring), VerdictKind::Verified);
    assert_eq!(kind("io_uring/sqpoll/interrupt", &ring), VerdictKind::Refuted);
    let none = handed(watched(interrupt(), &[]), ThreadRole::Job, IOS);
    assert_eq!(kind("posix-sio/syscall/interrupt", &none), VerdictKind::Verified);
    // The word of a generator that was watched is not taken.
    assert_unproven(
        "posix-sio/syscall/interrupt",
        &watched(interrupt(), &[]),
        "submitted only 0 % of the I/Os",
    );
}

#[test]
fn jobs_that_are_watched_are_judged_without_fios_own_sleeps() {
    // 600 sleeps in 100,000 I/Os: too many for the process' start, none of them a job's.
    let mut evidence = watched(poll(), &[(None, IOS)]);
    assert_eq!(kind("io_uring/syscall/poll", &evidence), VerdictKind::Verified);
    evidence.threads[0].voluntary_switches = IOS / 2;
    assert_unproven("io_uring/syscall/poll", &evidence, "0.50 sleeps per round");
    let evidence = counted(evidence, Completions { waiting: PASS, timers: PASS / 2, ..PASSED });
    assert_eq!(observe(&evidence).completion, Finding::Seen(CompletionMode::Hybrid));
    // A last look at nine tenths of the window represents all of it; at a third it does not.
    let mut evidence = watched(poll(), &[(None, IOS)]);
    (evidence.threads[0].cpu_ns, evidence.threads[0].over_ns) =
        (WINDOW_NS / 10 * 8, Some(WINDOW_NS / 10 * 9));
    assert_eq!(kind("io_uring/syscall/poll", &evidence), VerdictKind::Verified);
    evidence.threads[0].over_ns = Some(WINDOW_NS / 3);
    assert_unproven("io_uring/syscall/poll", &evidence, "only 80 % of the window");
}
