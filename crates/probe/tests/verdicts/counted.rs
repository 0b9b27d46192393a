//! Who completed each I/O of the pass before the window, and the window that must agree with it.

use super::{
    IOS, PASS, PASSED, WINDOW_NS, assert_contains, assert_distinguished, assert_unproven, counted, disk,
    hybrid, interrupt, kind, of_fio, poll, seen, sqpoll, synchronous, thread,
};
use iopj_core::evidence::{
    Completions, ControlRun, Evidence, Finding, ProcessEvidence, ThreadRole, VerdictKind,
};
use iopj_core::path::{CompletionMode, IoPath};
use iopj_probe::{MIXED_SHARE, assess, observe, summary};
use proptest::prelude::*;

const HARD: Completions =
    Completions { hard_interrupt: PASS, sleeps: PASS, interrupts: Some(PASS), ..PASSED };
const SOFT: Completions = Completions { hard_interrupt: 0, soft_interrupt: PASS, ..HARD };
const WORKER: Completions = Completions { worker: PASS, sleeps: PASS, interrupts: None, ..PASSED };
const POLLED: Completions = Completions { waiting: PASS, ..PASSED };
const SLEPT: Completions = Completions { timers: PASS / 3, sleeps: PASS / 3, ..POLLED };

#[test]
fn each_completion_is_seen_by_who_completed_it() {
    let cases = [
        ("interrupt", counted(interrupt(), HARD)),
        ("interrupt", counted(interrupt(), SOFT)),
        ("interrupt", counted(interrupt(), WORKER)),
        ("poll", counted(poll(), POLLED)),
        ("hybrid", counted(hybrid(), SLEPT)),
    ];
    assert_distinguished("posix-sio/syscall", &cases);
}

#[test]
fn both_kinds_refute_every_path() {
    let both = Completions {
        hard_interrupt: PASS / 10,
        waiting: PASS - PASS / 10,
        interrupts: Some(PASS / 10),
        ..PASSED
    };
    for evidence in
        [counted(interrupt(), both), counted(poll(), both), counted(synchronous(IOS / 10, 0.9, 0), both)]
    {
        for asked in ["interrupt", "poll", "hybrid"] {
            let (observed, verdict) =
                assess(&format!("io_uring/syscall/{asked}").parse().unwrap(), &evidence);
            assert_eq!(verdict.kind, VerdictKind::Refuted, "{asked}");
            assert!(matches!(observed.completion, Finding::Mixed(_)), "{observed:?}");
            assert_contains(&verdict.reasons[0], &format!("asked for {asked}, seen several"));
            assert_contains(&verdict.reasons[0], "400 in hard interrupts, 3600 by threads that wait");
        }
    }
}

#[test]
fn a_small_share_of_another_kind_is_none() {
    let with =
        |hard: u64| counted(poll(), Completions { hard_interrupt: hard, waiting: PASS - hard, ..PASSED });
    assert_eq!(seen(&with(PASS / 100)), Some(CompletionMode::Poll));
    assert!(matches!(observe(&with(PASS / 100 + 1)).completion, Finding::Mixed(_)));
    let with = |waiting: u64| {
        counted(
            interrupt(),
            Completions { hard_interrupt: PASS - waiting, waiting, interrupts: Some(PASS), ..PASSED },
        )
    };
    assert_eq!(seen(&with(PASS / 100)), Some(CompletionMode::Interrupt));
    assert!(matches!(observe(&with(PASS / 100 + 1)).completion, Finding::Mixed(_)));
    // One I/O in a hundred exceeds the share, and yet shows nothing.
    let few = Completions { ios: 50, hard_interrupt: 1, waiting: 49, ..PASSED };
    assert_unproven("io_uring/syscall/poll", &counted(poll(), few), "may come from other I/O");
}

#[test]
fn what_others_may_have_done_in_the_pass_is_held_against_nobody() {
    let foreign = Completions { hard_interrupt: 300, waiting: PASS, ..PASSED };
    let evidence = counted(poll(), foreign);
    assert_unproven("posix-sio/syscall/poll", &evidence, "may come from other I/O");
    assert_unproven("posix-sio/syscall/interrupt", &evidence, "may come from other I/O");
    // Others did as many again, each with its interrupt: the trial's own are as many as in the window.
    let beside = Completions { hard_interrupt: 9 * PASS, interrupts: Some(9 * PASS), ..HARD };
    assert_eq!(kind("posix-sio/syscall/interrupt", &counted(interrupt(), beside)), VerdictKind::Verified);
    let stranger = Completions { waiting: PASS / 2, other: PASS / 2, ..PASSED };
    assert_unproven("posix-sio/syscall/poll", &counted(poll(), stranger), "neither wait for the trial's");
}

#[test]
fn a_change_after_the_pass_leaves_the_trial_unproven() {
    let cases = [
        ("poll", counted(interrupt(), POLLED), "in it there were 1.00 per I/O: something changed"),
        (
            "poll",
            counted(synchronous(0, 0.9, IOS / 2), POLLED),
            "0.50 sleeps per round are too many for poll",
        ),
        ("poll", counted(synchronous(0, 0.4, 0), POLLED), "only 40 % of the window"),
        (
            "hybrid",
            counted(poll(), SLEPT),
            "the pass before it had 0.33 and set 0.33 timers: something changed",
        ),
        ("hybrid", counted(interrupt(), SLEPT), "something changed"),
        ("interrupt", counted(poll(), HARD), "where the pass before it had 1.00 and 1.00: something changed"),
        (
            "interrupt",
            counted(hybrid(), HARD),
            "where the pass before it had 1.00 and 1.00: something changed",
        ),
    ];
    for (asked, evidence, part) in cases {
        assert_unproven(&format!("posix-sio/syscall/{asked}"), &evidence, part);
    }
}

#[test]
fn devices_without_vectors_are_proven_by_the_counts() {
    let remote = |mut evidence: Evidence, counts: Completions, control: Completions| {
        evidence.devices = vec![disk("nvme0c0n1", IOS, None)];
        evidence.control =
            Some(ControlRun { interrupts: None, completions: Some(control), ..evidence.control.unwrap() });
        counted(evidence, Completions { interrupts: None, ..counts })
    };
    let control = Completions { ios: 64, worker: 64, ..PASSED };
    let cases = [
        ("interrupt", remote(interrupt(), WORKER, control)),
        ("poll", remote(poll(), POLLED, control)),
        ("hybrid", remote(hybrid(), SLEPT, control)),
    ];
    assert_distinguished("posix-sio/syscall", &cases);
    // The window slept more or less than the pass.
    let changed = "1.00: something changed";
    let few = remote(interrupt(), Completions { sleeps: PASS / 5, ..WORKER }, control);
    assert_unproven(
        "libaio/syscall/interrupt",
        &few,
        "1.00 sleeps per round where the pass before it had 0.20",
    );
    let awake = |sleeps: u64| remote(synchronous(0, 0.9, sleeps), WORKER, control);
    assert_unproven("libaio/syscall/interrupt", &awake(IOS / 50), changed);
    assert_unproven("libaio/syscall/interrupt", &awake(IOS / 4 - 1), changed);
    assert_eq!(kind("libaio/syscall/interrupt", &awake(IOS / 4)), VerdictKind::Verified);
    // Threads that hardly sleep, such as a submission poller, are not compared.
    let spinning = |pass: u64, window: u64| {
        remote(synchronous(0, 0.9, window), Completions { sleeps: pass, ..WORKER }, control)
    };
    for evidence in [spinning(0, 0), spinning(PASS / 11, IOS / 4), spinning(PASS / 5, IOS / 11)] {
        assert_unproven(
            "libaio/syscall/interrupt",
            &evidence,
            "too few to show that the window behaved like the pass",
        );
    }
    assert_eq!(kind("libaio/syscall/interrupt", &spinning(PASS / 10, IOS / 10)), VerdictKind::Verified);
    // A round of a deep queue is one sleep, or few.
    let deep = |sleeps: u64| Evidence { iodepth: 32, ..spinning(PASS / 32, sleeps) };
    assert_eq!(kind("libaio/syscall/interrupt", &deep(IOS / 32)), VerdictKind::Verified);
    assert_unproven("libaio/syscall/interrupt", &deep(IOS / 32 / 5), changed);
    // A device that answers within the submission never polls, in whatever context it completes.
    let inline = Completions { ios: 64, waiting: 64, ..PASSED };
    assert_unproven(
        "posix-sio/syscall/poll",
        &remote(poll(), POLLED, inline),
        "no interrupt completed the control run's reads either",
    );
}

#[test]
fn requests_that_never_were_say_nothing() {
    let third = Completions { waiting: PASS / 3, ..PASSED };
    assert_unproven("posix-sio/syscall/poll", &counted(poll(), third), "kept the others from the disk");
    // A driver without requests: the vectors decide, as if nothing were counted.
    assert_eq!(kind("posix-sio/syscall/interrupt", &counted(interrupt(), PASSED)), VerdictKind::Verified);
    let mut zram = counted(interrupt(), PASSED);
    zram.devices = vec![disk("zram0", IOS, None)];
    assert_unproven("posix-sio/syscall/interrupt", &zram, "it has no interrupt vector of its own");
}

/// Half of a pass's I/Os were not counted, and the others decided.
#[test]
fn nearly_all_of_the_pass_is_counted() {
    let seen_of = |counted_ios: u64, merges: u64| {
        seen(&counted(poll(), Completions { waiting: counted_ios, merges, ..PASSED }))
    };
    assert_eq!(seen_of(PASS / 100 * 99, 0), Some(CompletionMode::Poll));
    assert_eq!(seen_of(PASS / 100 * 99 - 1, 0), None);
    // A merged I/O completes with the one it was merged into.
    assert_eq!(seen_of(PASS / 4, PASS / 4 * 3), Some(CompletionMode::Poll));
    assert_eq!(seen_of(PASS / 4, PASS / 2), None);
}

/// A window with an interrupt for every fourth I/O was verified after a pass with one for each.
#[test]
fn a_window_of_which_a_part_interrupted_is_no_longer_the_pass() {
    let window = |iodepth: u32, pass: u64, interrupts: u64| {
        let mut evidence =
            counted(synchronous(interrupts, 0.3, IOS), Completions { interrupts: Some(pass), ..HARD });
        evidence.iodepth = iodepth;
        evidence
    };
    for (interrupts, expected) in [(IOS, true), (95_001, true), (95_000, false), (IOS / 4, false)] {
        let found = seen(&window(1, PASS, interrupts));
        assert_eq!(found == Some(CompletionMode::Interrupt), expected, "{interrupts}");
    }
    assert_unproven(
        "libaio/syscall/interrupt",
        &window(1, PASS, IOS / 4),
        "0.25 interrupts per I/O, 0.25 of its own, where the pass before it had 1.00 and 1.00: something \
         changed",
    );
    // Others' flushes need not have caused interrupts of their own (seen: 0.11 of them per I/O, 1.00
    // interrupts).
    let mut flushed = window(1, PASS, IOS);
    flushed.devices[0].flushes = IOS / 9;
    assert_eq!(seen(&flushed), Some(CompletionMode::Interrupt));
    flushed.devices[0].flushes = IOS / 4 * 3 + 1;
    assert_eq!(seen(&flushed), None);
    // In a deep queue more or fewer I/Os share an interrupt, up to all in flight.
    assert_eq!(seen(&window(8, PASS, IOS / 4)), Some(CompletionMode::Interrupt));
    assert_eq!(seen(&window(8, PASS, IOS / 4 - 1)), None);
    assert_eq!(seen(&window(8, PASS / 8, IOS / 8)), Some(CompletionMode::Interrupt));
    assert_unproven(
        "libaio/syscall/interrupt",
        &window(8, PASS / 8, IOS / 10),
        "with up to 8 I/Os in flight on a vector, fewer than if all had completed by interrupt",
    );
    // A handler that also takes what completes meanwhile completes more than were in flight, in the window as
    // in the pass.
    assert_eq!(seen(&window(8, PASS / 16, IOS / 16)), Some(CompletionMode::Interrupt));
    assert_eq!(seen(&window(8, PASS / 16, IOS / 20)), None);
    // Jobs may meet on a vector, however many there are.
    let mut spread = window(1, PASS, IOS / 2);
    (spread.numjobs, spread.cpu.cores) = (4, 4);
    spread.devices[0].vectors = (0..4).map(|queue| format!("{} nvme0q{}", 40 + queue, queue + 1)).collect();
    assert_eq!(seen(&spread), Some(CompletionMode::Interrupt));
    spread.devices[0].interrupts = Some(IOS / 2 - 1);
    assert_eq!(seen(&spread), None);
}

/// A window with a tenth of the sleeps was verified as hybrid after a pass with a timer in each round.
#[test]
fn a_window_that_slept_much_less_than_the_pass_is_no_hybrid() {
    let with = |sleeps: u64, pass: u64| {
        counted(synchronous(0, 0.7, sleeps), Completions { timers: PASS + 3, sleeps: pass, ..POLLED })
    };
    assert_eq!(seen(&with(IOS / 3 + 1, PASS)), Some(CompletionMode::Hybrid));
    assert_unproven(
        "posix-sio/syscall/hybrid",
        &with(IOS / 3, PASS),
        "0.33 sleeps per round where the pass before it had 1.00 and set 1.00 timers: something changed",
    );
    assert_eq!(seen(&with(IOS / 10, PASS)), None);
    // Timers so short that the pass's threads did not sleep for most of them either.
    assert_eq!(seen(&with(IOS / 10, PASS / 4)), Some(CompletionMode::Hybrid));
}

#[test]
fn timers_per_round_tell_hybrid_from_poll() {
    let with = |timers: u64| counted(synchronous(0, 0.99, IOS / 2), Completions { timers, ..POLLED });
    // Three that are set for other purposes in 80 ms.
    assert_eq!(seen(&with(PASS / 10 + 3)), Some(CompletionMode::Hybrid));
    assert_unproven(
        "posix-sio/syscall/hybrid",
        &with(PASS / 10 + 2),
        "too many for poll and too few for hybrid",
    );
    let awake = |timers: u64| counted(synchronous(0, 0.99, 0), Completions { timers, ..POLLED });
    assert_eq!(seen(&awake(PASS / 50 + 2)), Some(CompletionMode::Poll));
    assert_eq!(seen(&awake(PASS / 50 + 3)), None);
    // At depth 32 a round is 32 I/Os.
    let mut deep = counted(synchronous(0, 0.9, IOS / 32), Completions { timers: PASS / 32, ..POLLED });
    deep.iodepth = 32;
    assert_eq!(seen(&deep), Some(CompletionMode::Hybrid));
}

/// Two timers in a pass of five I/Os, on a disk that took 50 ms for each, were called hybrid.
#[test]
fn two_timers_of_a_few_rounds_are_not_hybrid() {
    let with = |ios: u64, timers: u64, sleeps: u64| {
        let mut evidence =
            counted(synchronous(0, 0.99, sleeps), Completions { ios, waiting: ios, timers, ..PASSED });
        evidence.iodepth = 2;
        evidence
    };
    assert_unproven(
        "io_uring/syscall/poll",
        &with(10, 2, IOS),
        "2 timers in a pass of 5 rounds before the window: telling poll from hybrid takes 50 rounds",
    );
    assert_eq!(seen(&with(99, 40, IOS)), None);
    assert_eq!(seen(&with(100, 40, IOS)), Some(CompletionMode::Hybrid));
    // Two do not make it hybrid even then, and none at all is poll if the window agrees.
    assert_eq!(seen(&with(100, 2, IOS)), None);
    assert_eq!(seen(&with(10, 0, 0)), Some(CompletionMode::Poll));
    assert_eq!(seen(&with(10, 0, IOS)), None);
}

/// Seen in a guest on a busy machine, by a path that polled: 20 timers and 29 sleeps in 77 rounds, which took
/// 1.8 s.
#[test]
fn timers_of_slow_rounds_are_not_hybrid() {
    let with = |timers: u64, pass_ns: u64| {
        let counts = Completions { ios: 77, waiting: 77, timers, pass_ns, sleeps: 29, ..PASSED };
        counted(synchronous(0, 0.99, IOS / 3), counts)
    };
    let slow_ns = 1_822_598_854;
    assert_unproven("io_uring/syscall/poll", &with(20, slow_ns), "too many for poll and too few for hybrid");
    assert_eq!(seen(&with(77, slow_ns)), Some(CompletionMode::Hybrid), "one a round is");
    assert_eq!(seen(&with(20, slow_ns / 100)), Some(CompletionMode::Hybrid), "so many in 18 ms are");
}

/// Seen over RDMA in two guests, by a path that polled: 1 to 4 timers in 50 rounds, which took 1.6 s.
#[test]
fn few_timers_of_slow_rounds_leave_it_to_the_window() {
    let with = |timers: u64, sleeps: u64| {
        let counts =
            Completions { ios: 50, waiting: 50, timers, pass_ns: 1_618_488_996, sleeps: 1, ..PASSED };
        counted(synchronous(0, 0.98, sleeps), counts)
    };
    assert_eq!(seen(&with(1, 1)), Some(CompletionMode::Poll));
    assert_eq!(seen(&with(4, 1)), Some(CompletionMode::Poll));
    // A tenth of the rounds may be those of hybrid, and in the window nothing may have slept.
    assert_unproven("io_uring/syscall/poll", &with(5, 1), "too many for poll and too few for hybrid");
    assert_unproven("io_uring/syscall/poll", &with(4, IOS / 50), "sleeps per round are too many for poll");
}

#[test]
fn a_sleep_whatever_for_is_not_hybrid() {
    let mut evidence = hybrid();
    for completions in [None, Some(Finding::Unclear("no tracefs".to_owned()))] {
        evidence.completions = completions;
        for asked in ["poll", "hybrid"] {
            assert_unproven(
                &format!("posix-sio/syscall/{asked}"),
                &evidence,
                "only a count of completions shows whether",
            );
        }
    }
    assert_contains(&summary(&evidence).join("; "), "who completed each I/O was not counted: no tracefs");
}

#[test]
fn one_vector_completes_no_more_than_it_serves() {
    // Every 16,384th I/O of 64 jobs interrupted: that was called completion by interrupt.
    let mut evidence = synchronous(7, 0.99, 0);
    (evidence.iodepth, evidence.numjobs, evidence.cpu.cores) = (256, 64, 8);
    evidence.devices[0].vectors = (0..8).map(|queue| format!("{} nvme0q{}", 40 + queue, queue + 1)).collect();
    assert_unproven(
        "io_uring/syscall/interrupt",
        &evidence,
        "with up to 2048 I/Os in flight on a vector, more than if none had completed by interrupt and fewer",
    );
    evidence.devices[0].settings.insert("nr_requests".into(), "1023".into());
    assert_unproven("io_uring/syscall/interrupt", &evidence, "with up to 1023 I/Os in flight");
    evidence.devices[0].interrupts = Some(IOS / 2 / 1023 + 1);
    assert_eq!(seen(&evidence), Some(CompletionMode::Interrupt));
    // Two cores reach two vectors.
    evidence.allowed_cpus = Some(2);
    evidence.devices[0].settings.clear();
    evidence.devices[0].interrupts = Some(7);
    assert_eq!(seen(&evidence), Some(CompletionMode::Interrupt), "32 jobs of depth 256 share one");
}

/// 64 pollers on this many cores, each busy for this share of a core.
fn pollers(cores: u32, busy: f64) -> Evidence {
    let mut evidence = counted(poll(), POLLED);
    evidence.threads = (0..64).map(|_| thread(ThreadRole::Job, busy, 0)).collect();
    (evidence.numjobs, evidence.cpu.cores) = (64, cores);
    evidence
}

#[test]
fn more_pollers_than_cores_are_asked_for_what_the_cores_allow() {
    assert_eq!(kind("io_uring/syscall/poll", &pollers(2, 0.03)), VerdictKind::Verified);
    assert_unproven(
        "io_uring/syscall/poll",
        &pollers(2, 0.02),
        "2 % of the window where the cores allow 3 %",
    );
    assert_unproven("io_uring/syscall/poll", &pollers(64, 0.03), "where the cores allow 100 %");
    let mut bound = pollers(64, 0.03);
    bound.allowed_cpus = Some(2);
    assert_eq!(kind("io_uring/syscall/poll", &bound), VerdictKind::Verified);
    // A process of its own is counted as a whole: 0.03 of a core for each of 64 is 1.92 cores.
    let mut fio = of_fio(pollers(2, 0.03));
    fio.process = ProcessEvidence { system_ns: WINDOW_NS * 192 / 100, ..ProcessEvidence::default() };
    assert_eq!(kind("io_uring/syscall/poll", &fio), VerdictKind::Verified);
    fio.process.system_ns = WINDOW_NS;
    assert_unproven("io_uring/syscall/poll", &fio, "2 % of the window where the cores allow 3 %");
    // And they must not sleep.
    let mut asleep = pollers(2, 0.03);
    asleep.threads[0].voluntary_switches = IOS / 50;
    assert_unproven("io_uring/syscall/poll", &asleep, "0.0200 sleeps per round are too many for poll");
}

#[test]
fn submission_pollers_share_the_cores_with_their_jobs() {
    let on = |cores: u32, poller: f64, job: f64| {
        let mut evidence = counted(sqpoll(0), POLLED);
        evidence.threads = vec![thread(ThreadRole::Job, job, 0), thread(ThreadRole::Sqpoll, poller, 0)];
        evidence.cpu.cores = cores;
        evidence
    };
    assert_eq!(kind("io_uring/sqpoll/poll", &on(1, 0.49, 0.5)), VerdictKind::Verified);
    assert_eq!(kind("io_uring/sqpoll/poll", &on(1, 0.9, 0.05)), VerdictKind::Verified);
    assert_unproven("io_uring/sqpoll/poll", &on(2, 0.5, 0.95), "where the cores allow 100 %");
    assert_unproven("io_uring/sqpoll/poll", &on(1, 0.1, 0.9), "where the cores allow 50 %");
}

proptest! {
    /// I/Os of which more than a small share was completed by interrupt were not polled, whatever else was
    /// counted.
    #[test]
    fn completions_by_interrupt_are_never_verified_as_poll(
        by_interrupt in [0u64..5000, 0..5000, 0..5000],
        by_threads in (0u64..5000, 0u64..100, 0u64..5000),
        ios in 1u64..5000,
        window in (0u64..200_000, 0.0f64..1.1, 0u64..50_000),
        vectors: bool,
        shape in (1u32..70, 1u32..130, 0u32..9),
        which: usize,
        fio: bool,
    ) {
        let [hard_interrupt, soft_interrupt, worker] = by_interrupt;
        let (waiting, other, timers) = by_threads;
        let counts = Completions {
            ios,
            hard_interrupt,
            soft_interrupt,
            worker,
            waiting,
            other,
            timers,
            interrupts: vectors.then_some(hard_interrupt),
            ..PASSED
        };
        let (interrupts, busy, sleeps) = window;
        let mut evidence = synchronous(interrupts, busy, sleeps);
        evidence.devices = vec![disk("nvme0n1", IOS, vectors.then_some(interrupts))];
        (evidence.numjobs, evidence.iodepth, evidence.cpu.cores) = shape;
        let evidence = counted(if fio { of_fio(evidence) } else { evidence }, counts);
        let path = IoPath::all()[which % IoPath::all().len()];
        let (_, verdict) = assess(&path, &evidence);
        let share = counts.by_interrupt() as f64 / counts.total().max(1) as f64;
        let is_polled = path.completion() != CompletionMode::Interrupt;
        let is_verified = verdict.kind == VerdictKind::Verified;
        prop_assert!(!(is_polled && share > MIXED_SHARE && is_verified), "{path}: {verdict:?}");
        let by_waiting = waiting as f64 / counts.total().max(1) as f64;
        prop_assert!(!(!is_polled && by_waiting > MIXED_SHARE && is_verified), "{path}: {verdict:?}");
    }
}
