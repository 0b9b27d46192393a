//! Observation and verdict on constructed evidence: every predicate both ways.

use iopj_core::evidence::{
    ControlRun, DeviceEvidence, EngineEvidence, Evidence, Finding, Observed, ProcessEvidence, ThreadEvidence,
    ThreadRole, VerdictKind,
};
use iopj_core::path::{Completion, IoPath, Submission};
use iopj_probe::{assess, judge, observe, summary};
use proptest::prelude::*;

const IOS: u64 = 100_000;
const WINDOW_NS: u64 = 2_000_000_000;

fn thread(role: ThreadRole, busy: f64, sleeps: u64) -> ThreadEvidence {
    let cpu_ns = (busy * WINDOW_NS as f64) as u64;
    ThreadEvidence { tid: 1, name: "job".into(), role, cpu_ns, voluntary_switches: sleeps, involuntary_switches: 3 }
}

fn disk(name: &str, ios: u64, interrupts: Option<u64>) -> DeviceEvidence {
    let vectors = if interrupts.is_some() { vec!["36 nvme0q1".into()] } else { Vec::new() };
    DeviceEvidence { name: name.into(), reads: ios, read_sectors: ios * 8, interrupts, vectors, ..Default::default() }
}

/// A synchronous job on one disk, one system call an I/O.
fn synchronous(interrupts: u64, busy: f64, sleeps: u64) -> Evidence {
    Evidence {
        rules: iopj_probe::RULES,
        window_ns: WINDOW_NS,
        numjobs: 1,
        iodepth: 1,
        ios: IOS,
        bytes: IOS * 4096,
        latency_sum_ns: WINDOW_NS,
        devices: vec![disk("nvme0n1", IOS, Some(interrupts))],
        threads: vec![thread(ThreadRole::Job, busy, sleeps)],
        engine: Some(EngineEvidence { system_calls: IOS, submit_calls: IOS, ..Default::default() }),
        control: Some(ControlRun { ios: 64, interrupts: Some(64), device_reads: 64 }),
        ..Default::default()
    }
}

fn interrupt() -> Evidence {
    synchronous(IOS, 0.2, IOS)
}

fn poll() -> Evidence {
    synchronous(12, 0.99, 40)
}

fn hybrid() -> Evidence {
    synchronous(0, 0.6, 30_000)
}

/// A ring with a submission poller that spins, its job spinning too.
fn sqpoll(interrupts: u64) -> Evidence {
    let mut evidence = synchronous(interrupts, 0.95, 0);
    evidence.threads.push(thread(ThreadRole::Sqpoll, 0.98, 0));
    evidence.engine = Some(EngineEvidence { system_calls: 20, wakeups: 20, ..Default::default() });
    evidence
}

/// What fio leaves behind: totals of the process only.
fn of_fio(mut evidence: Evidence) -> Evidence {
    let job = evidence.threads.remove(0);
    evidence.process = ProcessEvidence {
        user_ns: job.cpu_ns / 4,
        system_ns: job.cpu_ns - job.cpu_ns / 4,
        voluntary_switches: job.voluntary_switches,
        involuntary_switches: 0,
    };
    evidence.threads.clear();
    evidence.engine = None;
    evidence
}

fn kind(path: &str, evidence: &Evidence) -> VerdictKind {
    assess(&path.parse().unwrap(), evidence).1.kind
}

/// All reasons of an unproven verdict.
fn unproven(path: &str, evidence: &Evidence) -> String {
    let (_, verdict) = assess(&path.parse().unwrap(), evidence);
    assert_eq!(verdict.kind, VerdictKind::Unproven, "{path}: {:?}", verdict.reasons);
    verdict.reasons.join("; ")
}

fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "`{part}` is not in `{text}`");
}

#[test]
fn each_completion_is_verified_where_it_was_asked_and_refuted_where_another_was() {
    let seen = [("interrupt", interrupt()), ("poll", poll()), ("hybrid", hybrid())];
    for (happened, evidence) in &seen {
        for asked in ["interrupt", "poll", "hybrid"] {
            let expected = if asked == *happened { VerdictKind::Verified } else { VerdictKind::Refuted };
            assert_eq!(kind(&format!("posix-sio/syscall/{asked}"), evidence), expected, "{asked}, {happened}");
        }
    }
}

#[test]
fn a_refuted_poll_says_what_was_seen() {
    let (observed, verdict) = assess(&"posix-sio/syscall/poll".parse().unwrap(), &interrupt());
    assert_eq!(observed.completion, Finding::Seen(Completion::Interrupt));
    assert_eq!(observed.doubt, None);
    assert_eq!(verdict.kind, VerdictKind::Refuted);
    assert_eq!(verdict.reasons[0], "asked for poll, seen interrupt");
    assert_contains(&verdict.reasons[1], "1.00 interrupts per I/O");
}

#[test]
fn deep_queues_share_interrupts() {
    let mut evidence = synchronous(IOS / 16, 0.5, IOS / 16);
    evidence.iodepth = 32;
    assert_eq!(kind("io_uring/syscall/interrupt", &evidence), VerdictKind::Verified);
    assert_eq!(kind("io_uring/syscall/poll", &evidence), VerdictKind::Refuted);
}

#[test]
fn one_sleep_a_round_is_hybrid_at_any_depth() {
    let mut evidence = synchronous(0, 0.9, IOS / 32);
    assert_eq!(observe(&evidence).completion_or_panic(), None);
    evidence.iodepth = 32;
    assert_eq!(observe(&evidence).completion_or_panic(), Some(Completion::Hybrid));
}

trait Completions {
    fn completion_or_panic(&self) -> Option<Completion>;
}

impl Completions for Observed {
    fn completion_or_panic(&self) -> Option<Completion> {
        match &self.completion {
            Finding::Seen(completion) => Some(*completion),
            Finding::Unclear(reason) => {
                assert!(!reason.is_empty());
                None
            }
        }
    }
}

#[test]
fn a_poller_without_a_core_of_its_own_proves_nothing() {
    let reason = unproven("posix-sio/syscall/poll", &synchronous(0, 0.5, 0));
    assert_contains(&reason, "only 50 % of the window");
    let mut two = synchronous(0, 0.9, 0);
    two.threads.push(thread(ThreadRole::Job, 0.3, 0));
    assert_contains(&unproven("posix-sio/syscall/poll", &two), "only 60 % of the window");
}

#[test]
fn submission_is_told_by_the_thread_that_ran() {
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
    assert_contains(&unproven("io_uring/sqpoll/interrupt", &idle), "neither a submitting system call nor");
    idle.engine.as_mut().unwrap().submit_calls = IOS / 32;
    assert_eq!(kind("io_uring/sqpoll/interrupt", &idle), VerdictKind::Refuted);
    let mut both = sqpoll(IOS);
    both.engine.as_mut().unwrap().submit_calls = IOS;
    assert_eq!(kind("io_uring/sqpoll/interrupt", &both), VerdictKind::Refuted);
}

#[test]
fn with_a_submission_poller_its_sleeps_count_and_not_the_jobs() {
    let mut evidence = sqpoll(0);
    evidence.threads[0] = thread(ThreadRole::Job, 0.1, IOS);
    assert_eq!(kind("io_uring/sqpoll/poll+kernel-wait", &evidence), VerdictKind::Verified);
    evidence.threads[1].voluntary_switches = IOS / 2;
    assert_eq!(kind("io_uring/sqpoll/hybrid", &evidence), VerdictKind::Verified);
    assert_eq!(kind("io_uring/sqpoll/poll", &evidence), VerdictKind::Refuted);
}

#[test]
fn a_cache_proves_nothing_for_any_completion() {
    let mut evidence = poll();
    evidence.devices = vec![disk("nvme0n1", 0, Some(0))];
    for asked in ["interrupt", "poll", "hybrid"] {
        let reason = unproven(&format!("posix-sio/syscall/{asked}"), &evidence);
        assert_contains(&reason, "the disk did 0 I/Os of 0 bytes where 100000 of 409600000 bytes were issued: a cache");
    }
    evidence.devices = vec![disk("nvme0n1", IOS - IOS / 100, Some(0))];
    unproven("posix-sio/syscall/poll", &evidence);
    evidence.devices = vec![disk("nvme0n1", IOS - IOS / 10_000, Some(0))];
    assert_eq!(kind("posix-sio/syscall/poll", &evidence), VerdictKind::Verified);
}

#[test]
fn one_io_that_never_reached_the_disk_is_told_in_a_short_window() {
    let mut evidence = interrupt();
    (evidence.ios, evidence.bytes) = (10, 40_960);
    evidence.devices = vec![disk("nvme0n1", 9, Some(9))];
    unproven("posix-sio/syscall/interrupt", &evidence);
    evidence.devices = vec![disk("nvme0n1", 10, Some(10))];
    assert_eq!(kind("posix-sio/syscall/interrupt", &evidence), VerdictKind::Verified);
}

#[test]
fn foreign_io_beyond_its_share_leaves_the_trial_unproven() {
    for (foreign, expected) in [(IOS / 20, VerdictKind::Unproven), (IOS / 200, VerdictKind::Verified)] {
        let mut evidence = interrupt();
        evidence.devices = vec![disk("nvme0n1", IOS + foreign, Some(IOS + foreign))];
        assert_eq!(kind("posix-sio/syscall/interrupt", &evidence), expected);
    }
}

#[test]
fn interrupts_of_foreign_io_do_not_refute_a_poll() {
    let mut evidence = poll();
    evidence.devices = vec![disk("nvme0n1", IOS + 5_000, Some(5_000))];
    let reason = unproven("posix-sio/syscall/poll", &evidence);
    assert_contains(&reason, "all of the 0.0500 interrupts per I/O can be those of foreign I/O");
    assert_contains(&reason, "others used the disk");
    evidence.devices = vec![disk("nvme0n1", IOS + 5_000, Some(IOS))];
    assert_eq!(kind("posix-sio/syscall/poll", &evidence), VerdictKind::Refuted);
}

#[test]
fn interrupts_of_foreign_io_beside_a_cache_do_not_refute_a_poll() {
    let mut evidence = poll();
    evidence.devices = vec![disk("nvme0n1", 2_000, Some(2_000))];
    unproven("posix-sio/syscall/poll", &evidence);
}

#[test]
fn commands_that_the_block_layer_does_not_count_are_refuted_by_their_interrupts() {
    let mut evidence = interrupt();
    evidence.devices = vec![disk("nvme0n1", 0, Some(IOS))];
    assert_eq!(kind("nvme-passthrough/syscall/poll", &evidence), VerdictKind::Refuted);
    assert_contains(&unproven("nvme-passthrough/syscall/interrupt", &evidence), "passed through uncounted");
}

#[test]
fn split_and_merged_ios_are_named() {
    let mut evidence = interrupt();
    evidence.devices[0].reads = 2 * IOS;
    evidence.devices[0].interrupts = Some(2 * IOS);
    assert_contains(&unproven("posix-sio/syscall/interrupt", &evidence), "I/Os were split");
    assert_eq!(kind("posix-sio/syscall/poll", &evidence), VerdictKind::Refuted);
    evidence.devices[0].interrupts = Some(IOS / 2);
    assert_eq!(kind("posix-sio/syscall/poll", &evidence), VerdictKind::Refuted);
    evidence.devices[0].reads = IOS / 2;
    evidence.devices[0].read_merges = IOS / 2;
    assert_contains(&unproven("posix-sio/syscall/interrupt", &evidence), "I/Os were merged (50000 merges)");
}

#[test]
fn large_foreign_writes_are_told_by_their_bytes() {
    let mut evidence = interrupt();
    evidence.devices[0].writes = 10;
    evidence.devices[0].write_sectors = IOS;
    assert_contains(&unproven("posix-sio/syscall/interrupt", &evidence), "others used the disk");
}

#[test]
fn a_disk_that_does_not_count_says_how_to_make_it() {
    let mut evidence = interrupt();
    evidence.devices[0].settings.insert("iostats".into(), "0".into());
    assert_contains(&unproven("posix-sio/syscall/poll", &evidence), "set its `queue/iostats` to 1");
    evidence.devices[0].settings.insert("iostats".into(), "1".into());
    assert_eq!(kind("posix-sio/syscall/poll", &evidence), VerdictKind::Refuted);
}

#[test]
fn disks_without_vectors_prove_nothing() {
    let mut evidence = interrupt();
    evidence.devices = vec![disk("zram0", IOS, None)];
    for asked in ["interrupt", "poll", "hybrid"] {
        let reason = unproven(&format!("posix-sio/syscall/{asked}"), &evidence);
        assert_contains(&reason, "the interrupts of zram0 cannot be told: it has no interrupt vector of its own");
    }
    evidence.devices[0].vectors.push("40 mpt3sas0-msix0".into());
    assert_contains(&unproven("libaio/syscall/interrupt", &evidence), "other disks on the same controller");
    evidence.devices = vec![disk("nvme0n1", IOS, Some(IOS)), disk("zram0", 0, None)];
    assert_contains(&unproven("libaio/syscall/interrupt", &evidence), "interrupts of zram0");
}

#[test]
fn no_disk_and_no_io_prove_nothing() {
    let mut evidence = interrupt();
    evidence.devices.clear();
    assert_contains(&unproven("posix-sio/syscall/interrupt", &evidence), "no disk under the target is known");
    let mut evidence = interrupt();
    evidence.ios = 0;
    assert_contains(&unproven("posix-sio/syscall/interrupt", &evidence), "no I/O was issued");
}

#[test]
fn without_interrupts_the_control_run_decides() {
    let good = ControlRun { ios: 64, interrupts: Some(64), device_reads: 64 };
    let cases = [
        (None, "no control run"),
        (Some(ControlRun { interrupts: Some(31), ..good }), "did not interrupt in the control run either"),
        (Some(ControlRun { interrupts: None, ..good }), "could not tell"),
        (Some(ControlRun { device_reads: 0, ..good }), "never reached the device"),
    ];
    for (control, part) in cases {
        for evidence in [poll(), hybrid()] {
            let reason = unproven("posix-sio/syscall/poll", &Evidence { control, ..evidence });
            assert_contains(&reason, part);
        }
        let interrupting = Evidence { control, ..interrupt() };
        assert_eq!(kind("posix-sio/syscall/interrupt", &interrupting), VerdictKind::Verified);
    }
    let half = Some(ControlRun { interrupts: Some(32), ..good });
    assert_eq!(kind("posix-sio/syscall/poll", &Evidence { control: half, ..poll() }), VerdictKind::Verified);
}

#[test]
fn thresholds_divide_where_they_say() {
    let seen = |evidence: &Evidence| observe(evidence).completion_or_panic();
    assert_eq!(seen(&synchronous(1_000, 0.99, 0)), Some(Completion::Poll));
    assert_eq!(seen(&synchronous(1_001, 0.99, 0)), Some(Completion::Interrupt));
    assert_eq!(seen(&synchronous(0, 0.99, 1_999)), Some(Completion::Poll));
    assert_eq!(seen(&synchronous(0, 0.99, 2_000)), None);
    assert_eq!(seen(&synchronous(0, 0.99, 9_999)), None);
    assert_eq!(seen(&synchronous(0, 0.99, 10_000)), Some(Completion::Hybrid));
    assert_eq!(seen(&synchronous(0, 0.85, 0)), Some(Completion::Poll));
    assert_eq!(seen(&synchronous(0, 0.84, 0)), None);
}

#[test]
fn fio_is_judged_by_the_totals_of_its_process() {
    let (_, verdict) = assess(&"posix-sio/syscall/interrupt".parse().unwrap(), &of_fio(interrupt()));
    assert_eq!(verdict.kind, VerdictKind::Verified);
    assert_contains(
        &verdict.reasons.join("; "),
        "submission by syscall: how I/Os were submitted is the generator's own word",
    );
    assert_eq!(kind("posix-sio/syscall/poll", &of_fio(interrupt())), VerdictKind::Refuted);
    assert_eq!(kind("posix-sio/syscall/poll", &of_fio(poll())), VerdictKind::Verified);
    assert_eq!(kind("posix-sio/syscall/hybrid", &of_fio(hybrid())), VerdictKind::Verified);
    assert_contains(&unproven("io_uring/sqpoll/interrupt", &of_fio(interrupt())), "generator's own word");
}

#[test]
fn judging_needs_no_figures() {
    let path: IoPath = "io_uring/sqpoll/poll".parse().unwrap();
    let mut observed = Observed {
        completion: Finding::Seen(Completion::Poll),
        submission: Finding::Seen(Submission::Sqpoll),
        doubt: None,
    };
    assert_eq!(judge(&path, &observed).kind, VerdictKind::Verified);
    observed.doubt = Some("a doubt".into());
    let verdict = judge(&path, &observed);
    assert_eq!((verdict.kind, verdict.reasons), (VerdictKind::Unproven, vec!["a doubt".to_owned()]));
    observed.submission = Finding::Seen(Submission::Syscall);
    let verdict = judge(&path, &observed);
    assert_eq!(verdict.kind, VerdictKind::Refuted);
    assert_eq!(verdict.reasons, ["asked for sqpoll, seen syscall", "a doubt"]);
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
        (evidence.window_ns, evidence.ios, evidence.bytes) = (window_ns, ios, bytes);
        (evidence.numjobs, evidence.iodepth) = (numjobs, iodepth);
        evidence.devices = vec![DeviceEvidence { reads, read_sectors, ..disk("sda", 0, interrupts) }];
        evidence.threads[0].cpu_ns = cpu_ns;
        evidence.threads[0].voluntary_switches = sleeps;
        evidence.control = control.map(|(ios, interrupts, device_reads)| ControlRun { ios, interrupts, device_reads });
        let evidence = if fio { of_fio(evidence) } else { evidence };
        let (observed, verdict) = assess(&IoPath::all()[which % IoPath::all().len()], &evidence);
        prop_assert!(!verdict.reasons.is_empty());
        prop_assert!(verdict.kind != VerdictKind::Verified || observed.doubt.is_none());
    }
}
