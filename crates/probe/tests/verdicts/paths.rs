//! Completions, submissions, and the verdict on what was asked for.

use super::{
    IOS, PASS, PASSED, assert_contains, assert_distinguished, assert_unproven, counted, disk, hybrid,
    interrupt, kind, of_fio, poll, seen, sqpoll, synchronous, thread,
};
use iopj_core::evidence::{
    Completions, ControlRun, DeviceEvidence, EngineEvidence, Evidence, Finding, Observed, ThreadRole,
    VerdictKind,
};
use iopj_core::path::{CompletionMode, IoPath, Submission};
use iopj_probe::{assess, judge, observe, summary};
use proptest::prelude::*;

#[test]
fn each_completion_is_verified_where_it_was_asked_and_refuted_where_another_was() {
    let seen = [("interrupt", interrupt()), ("poll", poll()), ("hybrid", hybrid())];
    assert_distinguished("posix-sio/syscall", &seen);
}

#[test]
fn a_refuted_poll_says_what_was_seen() {
    let (observed, verdict) = assess(&"posix-sio/syscall/poll".parse().unwrap(), &interrupt());
    assert_eq!(observed.completion, Finding::Seen(CompletionMode::Interrupt));
    assert_eq!(observed.doubt, None);
    assert_eq!(verdict.kind, VerdictKind::Refuted);
    assert_eq!(verdict.reasons[0], "asked for poll, seen interrupt");
    assert_contains(&verdict.reasons[1], "1.00 interrupts per I/O");
}

#[test]
fn deep_queues_share_interrupts() {
    // Seen: 0.03 of them on a virtio disk at depth 32, 0.13 to 0.7 on NVMe at depth 8.
    for (iodepth, interrupts) in [(32, 3_000), (32, IOS / 16), (8, 13_000), (8, 70_000)] {
        let mut evidence = synchronous(interrupts, 0.5, IOS / 16);
        evidence.iodepth = iodepth;
        assert_eq!(
            kind("io_uring/syscall/interrupt", &evidence),
            VerdictKind::Verified,
            "{iodepth} {interrupts}"
        );
        assert_eq!(kind("io_uring/syscall/poll", &evidence), VerdictKind::Refuted, "{iodepth} {interrupts}");
    }
}

#[test]
fn one_interrupt_can_complete_all_that_is_in_flight() {
    for (iodepth, numjobs) in [(128, 1), (32, 4)] {
        let mut evidence = synchronous(IOS / 128, 0.99, 0);
        (evidence.iodepth, evidence.numjobs) = (iodepth, numjobs);
        assert_eq!(kind("io_uring/syscall/poll", &evidence), VerdictKind::Refuted);
        assert_eq!(kind("io_uring/syscall/interrupt", &evidence), VerdictKind::Verified);
        // Enough for a third of the I/Os: neither all nor none were completed by them.
        evidence.devices[0].interrupts = Some(IOS / 128 / 3);
        for asked in ["interrupt", "poll"] {
            assert_unproven(
                &format!("io_uring/syscall/{asked}"),
                &evidence,
                "0.0026 interrupts per I/O, 0.0026 without those of foreign I/O: with up to 128",
            );
        }
        evidence.devices[0].interrupts = Some(IOS / 128 / 100);
        assert_eq!(kind("io_uring/syscall/poll", &evidence), VerdictKind::Verified);
    }
}

#[test]
fn few_interrupts_are_stray_only_where_they_cannot_have_completed_much() {
    let seen_of = |ios: u64, iodepth: u32, interrupts: u64| {
        let mut evidence = synchronous(interrupts, 0.99, 0);
        (evidence.reads, evidence.read_bytes, evidence.iodepth) = (ios, ios * 4096, iodepth);
        evidence.devices = vec![disk("nvme0n1", ios, Some(interrupts))];
        seen(&evidence)
    };
    assert_eq!(seen_of(1_000, 32, 2), Some(CompletionMode::Poll));
    assert_eq!(seen_of(1_000, 32, 3), None);
    assert_eq!(seen_of(600, 32, 2), None);
    assert_eq!(seen_of(10, 32, 1), None);
    assert_eq!(seen_of(10, 1, 2), None);
    assert_eq!(seen_of(10, 1, 9), None);
    assert_eq!(seen_of(10, 1, 10), Some(CompletionMode::Interrupt));
}

/// The same, and the threads that wait set a timer for each round of the pass.
fn slept(evidence: Evidence) -> Evidence {
    let timers = PASS / u64::from(evidence.iodepth);
    counted(evidence, Completions { waiting: PASS, timers, ..PASSED })
}

#[test]
fn one_sleep_a_round_is_hybrid_at_any_depth() {
    let mut evidence = slept(synchronous(0, 0.9, IOS / 32));
    assert_eq!(seen(&evidence), None);
    evidence.iodepth = 32;
    assert_eq!(seen(&evidence), Some(CompletionMode::Hybrid));
}

#[test]
fn a_poller_without_a_core_of_its_own_proves_nothing() {
    assert_unproven("posix-sio/syscall/poll", &synchronous(0, 0.5, 0), "only 50 % of the window");
    let mut two = synchronous(0, 0.9, 0);
    two.threads.push(thread(ThreadRole::Job, 0.3, 0));
    assert_unproven("posix-sio/syscall/poll", &two, "only 60 % of the window");
}

#[test]
fn submission_is_known_by_the_thread_that_ran() {
    let evidence = sqpoll(IOS);
    let seen = observe(&evidence);
    assert_eq!(seen.submission, Finding::Seen(Submission::Sqpoll));
    assert_eq!(kind("io_uring/sqpoll/interrupt", &evidence), VerdictKind::Verified);
    assert_eq!(kind("io_uring/syscall/interrupt", &evidence), VerdictKind::Refuted);
    assert_eq!(kind("io_uring/sqpoll/interrupt", &interrupt()), VerdictKind::Refuted);
}

#[test]
fn a_submission_poller_that_never_ran_took_nothing() {
    let mut idle = sqpoll(IOS);
    idle.threads[1].cpu_ns = 0;
    assert_unproven("io_uring/sqpoll/interrupt", &idle, "none was seen to run");
    let mut asleep = sqpoll(IOS);
    asleep.engine.as_mut().unwrap().wakeups = IOS / 10;
    assert_eq!(kind("io_uring/sqpoll/interrupt", &asleep), VerdictKind::Verified);
    asleep.engine.as_mut().unwrap().wakeups = IOS / 10 + 1;
    assert_unproven("io_uring/sqpoll/interrupt", &asleep, "had to be woken 0.10 times per I/O");
    assert_unproven("io_uring/syscall/interrupt", &asleep, "had to be woken 0.10 times per I/O");
    let mut both = sqpoll(IOS);
    both.engine.as_mut().unwrap().submit_calls = 1;
    assert_unproven("io_uring/sqpoll/interrupt", &both, "yet 1 system calls submitted I/O");
    assert_unproven("io_uring/syscall/interrupt", &both, "yet 1 system calls");
}

#[test]
fn an_engine_that_submitted_nothing_is_not_taken_at_its_word() {
    let mut evidence = interrupt();
    evidence.engine = Some(EngineEvidence::default());
    assert_unproven("io_uring/syscall/interrupt", &evidence, "neither a submitting system call nor");
    assert_unproven("io_uring/sqpoll/interrupt", &evidence, "neither a submitting system call nor");
}

#[test]
fn with_a_submission_poller_its_sleeps_count_and_not_the_jobs() {
    let mut evidence = sqpoll(0);
    evidence.threads[0] = thread(ThreadRole::Job, 0.1, IOS);
    assert_eq!(kind("io_uring/sqpoll/poll+kernel-wait", &evidence), VerdictKind::Verified);
    evidence.threads[1].voluntary_switches = IOS / 2;
    let evidence = slept(evidence);
    assert_eq!(kind("io_uring/sqpoll/hybrid", &evidence), VerdictKind::Verified);
    assert_eq!(kind("io_uring/sqpoll/poll", &evidence), VerdictKind::Refuted);
}

#[test]
fn another_poll_delay_is_a_doubt_where_it_rules() {
    let delay = |evidence: Evidence, delay: &str| {
        let mut evidence = evidence;
        evidence.devices[0].settings.insert("io_poll_delay".into(), delay.into());
        evidence
    };
    for path in ["posix-sio/syscall/poll", "io_uring/syscall/poll"] {
        assert_eq!(kind(path, &delay(poll(), "-1")), VerdictKind::Verified);
        assert_unproven(
            path,
            &delay(poll(), "0"),
            &format!("`queue/io_poll_delay` of nvme0n1 was 0 where {path} needs -1"),
        );
    }
    assert_eq!(kind("posix-sio/syscall/hybrid:4us", &delay(hybrid(), "4")), VerdictKind::Verified);
    assert_unproven("posix-sio/syscall/hybrid:4us", &delay(hybrid(), "0"), "was 0 where");
    assert_unproven("posix-sio/syscall/hybrid", &delay(hybrid(), "-1"), "was -1 where");
    assert_eq!(kind("posix-sio/syscall/interrupt", &delay(interrupt(), "0")), VerdictKind::Verified);
    assert_eq!(kind("posix-sio/syscall/poll", &delay(interrupt(), "0")), VerdictKind::Refuted);
}

#[test]
fn registration_is_held_against_the_path() {
    let mut evidence = interrupt();
    let plain = "io_uring/syscall/interrupt";
    let registered = "io_uring/syscall/interrupt+registered";
    let (_, verdict) = assess(&registered.parse().unwrap(), &evidence);
    assert_eq!(verdict.kind, VerdictKind::Refuted);
    assert_contains(&verdict.reasons[0], "they were not registered");
    evidence.engine.as_mut().unwrap().registered = true;
    assert_eq!(
        (kind(registered, &evidence), kind(plain, &evidence)),
        (VerdictKind::Verified, VerdictKind::Refuted)
    );
    assert_eq!(kind(registered, &of_fio(evidence)), VerdictKind::Verified);
}

#[test]
fn disks_without_vectors_prove_nothing() {
    let mut evidence = interrupt();
    evidence.devices = vec![disk("zram0", IOS, None)];
    for asked in ["interrupt", "poll", "hybrid"] {
        assert_unproven(
            &format!("posix-sio/syscall/{asked}"),
            &evidence,
            "the interrupts of zram0 cannot be told from those of other devices: it has no interrupt vector \
             of its own",
        );
    }
    evidence.devices[0].vectors.push("40 mpt3sas0-msix0".into());
    assert_unproven("libaio/syscall/interrupt", &evidence, "other disks on the same controller");
    evidence.devices = vec![disk("nvme0n1", IOS, Some(IOS)), disk("zram0", 0, None)];
    assert_unproven("libaio/syscall/interrupt", &evidence, "interrupts of zram0");
}

#[test]
fn without_interrupts_the_control_run_decides() {
    let good = ControlRun { ios: 64, interrupts: Some(64), device_reads: 64, completions: None };
    let cases = [
        (None, "no control run"),
        (Some(ControlRun { interrupts: Some(31), ..good }), "did not interrupt in the control run either"),
        (
            Some(ControlRun { interrupts: None, ..good }),
            "could not tell the device's interrupts from those of others",
        ),
        (Some(ControlRun { device_reads: 0, ..good }), "never reached the device"),
    ];
    for (control, part) in cases {
        for evidence in [poll(), hybrid()] {
            assert_unproven("posix-sio/syscall/poll", &Evidence { control, ..evidence }, part);
        }
        let interrupting = Evidence { control, ..interrupt() };
        assert_eq!(kind("posix-sio/syscall/interrupt", &interrupting), VerdictKind::Verified);
    }
    let half = Some(ControlRun { interrupts: Some(32), ..good });
    assert_eq!(kind("posix-sio/syscall/poll", &Evidence { control: half, ..poll() }), VerdictKind::Verified);
}

#[test]
fn thresholds_divide_where_they_say() {
    assert_eq!(seen(&synchronous(1_000, 0.99, 0)), Some(CompletionMode::Poll));
    assert_eq!(seen(&synchronous(1_001, 0.99, 0)), None);
    assert_eq!(seen(&synchronous(95_000, 0.99, 0)), None);
    assert_eq!(seen(&synchronous(95_001, 0.99, 0)), Some(CompletionMode::Interrupt));
    assert_eq!(seen(&synchronous(0, 0.99, 1_999)), Some(CompletionMode::Poll));
    assert_eq!(seen(&synchronous(0, 0.99, 2_000)), None);
    assert_eq!(seen(&slept(synchronous(0, 0.99, 9_999))), None);
    assert_eq!(seen(&slept(synchronous(0, 0.99, 10_000))), Some(CompletionMode::Hybrid));
    assert_eq!(seen(&synchronous(0, 0.85, 0)), Some(CompletionMode::Poll));
    assert_eq!(seen(&synchronous(0, 0.84, 0)), None);
}

#[test]
fn fio_is_judged_by_the_totals_of_its_process() {
    let (_, verdict) = assess(&"posix-sio/syscall/interrupt".parse().unwrap(), &of_fio(interrupt()));
    assert_eq!(verdict.kind, VerdictKind::Verified);
    assert_contains(&verdict.reasons.join("; "), "submission by syscall is reported only by the generator");
    assert_eq!(kind("posix-sio/syscall/poll", &of_fio(interrupt())), VerdictKind::Refuted);
    assert_eq!(kind("posix-sio/syscall/poll", &of_fio(poll())), VerdictKind::Verified);
    assert_eq!(kind("posix-sio/syscall/hybrid", &of_fio(hybrid())), VerdictKind::Verified);
    assert_unproven("io_uring/sqpoll/interrupt", &of_fio(interrupt()), "is reported only by the generator");
}

#[test]
fn the_sleeps_of_a_process_of_its_own_hold_those_of_its_start() {
    let of_20_000 = |busy: f64, iodepth: u32, sleeps: u64| {
        let mut evidence = of_fio(synchronous(0, busy, sleeps));
        (evidence.reads, evidence.read_bytes, evidence.iodepth) = (20_000, 20_000 * 4096, iodepth);
        evidence.devices = vec![disk("nvme0n1", 20_000, Some(0))];
        evidence
    };
    // fio sleeps some 200 times at its start and end, and 80 times a second while the jobs run.
    assert_eq!(kind("posix-sio/syscall/poll", &of_20_000(1.05, 1, 200)), VerdictKind::Verified);
    assert_eq!(kind("posix-sio/syscall/poll", &of_20_000(1.05, 1, 600)), VerdictKind::Verified);
    assert_eq!(kind("posix-sio/syscall/poll", &slept(of_20_000(0.7, 1, 6_000))), VerdictKind::Refuted);
    assert_eq!(kind("posix-sio/syscall/hybrid", &slept(of_20_000(0.7, 1, 6_000))), VerdictKind::Verified);
    assert_unproven("posix-sio/syscall/hybrid", &slept(of_20_000(0.7, 1, 2_000)), "sleeps per round where");
    assert_unproven("io_uring/syscall/poll", &of_20_000(1.05, 32, 300), "measure longer");
}

#[test]
fn judging_needs_no_figures() {
    let mut evidence = Evidence::default();
    let path: IoPath = "io_uring/sqpoll/poll".parse().unwrap();
    let mut observed = Observed {
        completion: Finding::Seen(CompletionMode::Poll),
        submission: Finding::Seen(Submission::Sqpoll),
        doubt: None,
    };
    assert_eq!(judge(&path, &observed, &evidence).kind, VerdictKind::Verified);
    observed.doubt = Some("a doubt".into());
    let verdict = judge(&path, &observed, &evidence);
    assert_eq!((verdict.kind, verdict.reasons), (VerdictKind::Unproven, vec!["a doubt".to_owned()]));
    observed.submission = Finding::Seen(Submission::Syscall);
    let verdict = judge(&path, &observed, &evidence);
    assert_eq!(verdict.kind, VerdictKind::Refuted);
    assert_eq!(verdict.reasons, ["asked for sqpoll, seen syscall", "a doubt"]);
    observed.submission = Finding::Unclear("unclear".into());
    let path: IoPath = "io_uring/syscall/poll".parse().unwrap();
    observed.doubt = None;
    assert_eq!(judge(&path, &observed, &evidence).kind, VerdictKind::Verified);
    evidence.engine = Some(EngineEvidence::default());
    assert_eq!(judge(&path, &observed, &evidence).reasons, ["unclear"]);
}

#[test]
fn the_summary_gives_the_figures() {
    let expected = [
        "1.00 interrupts per I/O",
        "1.00 I/Os of the disk per I/O issued",
        "1.00 sleeps per I/O and 20 % of a CPU (job)",
        "1.00 submitting system calls per I/O",
        "achieved depth 1.00",
    ];
    assert_eq!(summary(&interrupt()), expected);
    assert!(summary(&Evidence::default()).is_empty());
}

proptest! {
    /// Whatever the counts, nothing panics, and no verdict is verified unless the disks did the I/O.
    #[test]
    fn any_counts_are_judged(
        window: (u64, u64, u64, u32, u32),
        counts: (u64, u64, Option<u64>, u64, u64),
        control: Option<(u64, Option<u64>, u64)>,
        which: usize,
        fio: bool,
    ) {
        let (window_ns, ios, bytes, numjobs, iodepth) = window;
        let (reads, read_sectors, interrupts, cpu_ns, sleeps) = counts;
        let mut evidence = interrupt();
        (evidence.window_ns, evidence.reads, evidence.read_bytes) = (window_ns, ios, bytes);
        evidence.writes = which as u64;
        (evidence.numjobs, evidence.iodepth) = (numjobs, iodepth);
        evidence.devices = vec![DeviceEvidence { reads, read_sectors, ..disk("sda", 0, interrupts) }];
        evidence.threads[0].cpu_ns = cpu_ns;
        evidence.threads[0].voluntary_switches = sleeps;
        let control_run = |(ios, interrupts, device_reads)| ControlRun {
            ios,
            interrupts,
            device_reads,
            completions: None,
        };
        evidence.control = control.map(control_run);
        let evidence = if fio { of_fio(evidence) } else { evidence };
        let (observed, verdict) = assess(&IoPath::all()[which % IoPath::all().len()], &evidence);
        prop_assert!(!verdict.reasons.is_empty());
        prop_assert!(verdict.kind != VerdictKind::Verified || observed.doubt.is_none());
        let figures = summary(&evidence).join(", ");
        let lacks = |reason: &&String| **reason != figures && !reason.contains(" (remedy: ");
        let lacking = verdict.reasons.iter().find(lacks);
        prop_assert!(verdict.kind != VerdictKind::Unproven || lacking.is_none(), "no remedy: {lacking:?}");
    }
}
