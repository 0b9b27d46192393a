//! Conditions: others' work disturbs a trial, its own does not.

use super::{WINDOW_NS, assert_contains, hybrid, interrupt, kind, sqpoll, synchronous};
use iopj_core::evidence::{CpuTimes, Evidence, OthersEvidence, ProcessEvidence, ThreadRole, VerdictKind};
use iopj_core::{Conditions, PowerChange, PowerSetting};
use iopj_probe::{STARVED_SHARE, TICKS_SLACK_NS};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// A window of two seconds on this many cores, in which others had this much CPU time.
fn with_others(cores: u32, processes_ns: u64) -> Evidence {
    let others = Some(OthersEvidence { over_ns: WINDOW_NS, processes_ns, ..OthersEvidence::default() });
    Evidence { others, cpu: CpuTimes { cores, ..CpuTimes::default() }, ..interrupt() }
}

fn conditions(evidence: &Evidence) -> Conditions {
    iopj_probe::conditions(&"posix-sio/syscall/interrupt".parse().unwrap(), evidence)
}

fn is_disturbed(evidence: &Evidence) -> bool {
    conditions(evidence).are_disturbed()
}

#[test]
fn others_may_have_two_per_cent_of_the_cores_and_half_a_core_at_most() {
    // Two seconds on 2 cores: 80 ms and 30 ms of slack for ticks. From 25 cores on half a core, for a second.
    for (cores, most_ms) in [(2, 110), (8, 350), (25, 1030), (512, 1030)] {
        assert!(!is_disturbed(&with_others(cores, most_ms * MS)), "{cores}");
        assert!(is_disturbed(&with_others(cores, most_ms * MS + MS)), "{cores}");
    }
    let found = conditions(&with_others(2, 900 * MS));
    assert_eq!(found.to_string(), "other processes used 0.45 processors; 0.06 are allowed");
}

#[test]
fn a_short_window_is_not_disturbed_by_the_rounding_of_ticks() {
    let mut evidence = with_others(2, 30 * MS);
    evidence.others.as_mut().unwrap().over_ns = 20 * MS;
    assert!(!is_disturbed(&evidence));
    evidence.others.as_mut().unwrap().processes_ns = 40 * MS;
    assert!(is_disturbed(&evidence));
}

#[test]
fn disturbance_changes_no_verdict() {
    let quiet = interrupt();
    let disturbed = with_others(2, WINDOW_NS);
    assert!(!is_disturbed(&quiet) && is_disturbed(&disturbed));
    for (path, expected) in [
        ("posix-sio/syscall/interrupt", VerdictKind::Verified),
        ("posix-sio/syscall/poll", VerdictKind::Refuted),
    ] {
        assert_eq!((kind(path, &quiet), kind(path, &disturbed)), (expected, expected));
    }
}

#[test]
fn where_others_are_hidden_the_time_in_user_space_beyond_the_trials_tells() {
    let cpu =
        |user_ns| CpuTimes { user_ns, idle_ns: 2 * WINDOW_NS - user_ns, cores: 2, ..CpuTimes::default() };
    let process = ProcessEvidence { user_ns: 900 * MS, ..ProcessEvidence::default() };
    let of = |user_ns| Evidence { process, cpu: cpu(user_ns), ..interrupt() };
    // 400 ticks deviate by 10: 300 ms, and the 80 and 30 ms of counts that are exact.
    assert!(!is_disturbed(&of(1_300 * MS)));
    assert!(is_disturbed(&of(1_320 * MS)));
    // The kernel's time includes what it spent for the trial.
    let kernel = Evidence {
        cpu: CpuTimes { system_ns: 2 * WINDOW_NS, cores: 2, ..CpuTimes::default() },
        ..interrupt()
    };
    assert!(!is_disturbed(&kernel));
    // A co-runner's time is not that of others.
    let beside = |corunner_ns| Evidence { corunner_ns: Some(corunner_ns), ..of(2_500 * MS) };
    assert!(is_disturbed(&beside(0)) && !is_disturbed(&beside(1_600 * MS)));
}

#[test]
fn steal_throttling_and_changed_settings_disturb_and_are_named() {
    let mut evidence = interrupt();
    evidence.cpu =
        CpuTimes { steal_ns: 110 * MS, idle_ns: 2 * WINDOW_NS - 110 * MS, cores: 2, ..CpuTimes::default() };
    assert!(!is_disturbed(&evidence));
    evidence.cpu.steal_ns += 10 * MS;
    assert_contains(&conditions(&evidence).to_string(), "the hypervisor took 3.0 % of the processors' time");
    let mut evidence = interrupt();
    evidence.throttles = Some(0);
    assert!(!is_disturbed(&evidence));
    evidence.throttles = Some(2);
    let change = |what, device: Option<&str>, before: &str, after: &str| PowerChange {
        what,
        device: device.map(str::to_owned),
        before: before.to_owned(),
        after: after.to_owned(),
    };
    evidence.power_changes = vec![
        change(PowerSetting::Governors, None, "performance", "powersave"),
        change(PowerSetting::NvmePowerState, Some("nvme0n1"), "0", "2"),
    ];
    let found = conditions(&evidence);
    assert_eq!(found.disturbances.len(), 3);
    assert_eq!(
        found.to_string(),
        "processors were throttled for heat (2 more events); the frequency governor changed from \
         performance to powersave; the NVMe power state of nvme0n1 changed from 0 to 2"
    );
}

/// A submission poller and its job, which ran and waited for these shares of the window.
fn on_shared_cores(poller: (f64, f64), job: (f64, f64)) -> Evidence {
    let mut evidence = sqpoll(0);
    evidence.cpu.cores = 2;
    for (thread, (ran, waited)) in evidence.threads.iter_mut().zip([job, poller]) {
        thread.tid = if thread.role == ThreadRole::Job { 1 } else { 2 };
        let ns = |share: f64| (share * WINDOW_NS as f64) as u64;
        (thread.cpu_ns, thread.waited_ns) = (ns(ran), Some(ns(waited)));
    }
    evidence
}

fn of_path(path: &str, evidence: &Evidence) -> Conditions {
    iopj_probe::conditions(&path.parse().unwrap(), evidence)
}

#[test]
fn a_poller_that_lost_its_core_is_starved_and_says_with_whom_it_shared() {
    let path = "io_uring/sqpoll/poll";
    let mut evidence = on_shared_cores((0.61, 0.38), (0.95, 0.03));
    evidence.others = with_others(2, WINDOW_NS * 9 / 10).others;
    let found = of_path(path, &evidence);
    let text = found.starved().unwrap().to_string();
    assert_contains(&text, "the submission poller had 61 % of a core and waited for one 38 % of the time: ");
    assert_contains(
        &text,
        ": it shared 2 cores with 1 other busy thread and other processes (they used 0.90)",
    );
    // The job counts as well, the verdict stays, and a path that does not spin has no such thread.
    let job = of_path(path, &on_shared_cores((0.97, 0.03), (0.45, 0.55)));
    assert_eq!(job.starved().map(|it| it.role), Some(ThreadRole::Job));
    assert_eq!(kind(path, &evidence), kind(path, &on_shared_cores((0.61, 0.0), (0.95, 0.0))));
    assert_eq!(of_path("libaio/syscall/interrupt", &evidence).spinner, None);
    let quiet = of_path(path, &on_shared_cores((0.98, STARVED_SHARE), (0.95, 0.02)));
    assert!(quiet.starved().is_none() && quiet.spinner.is_some());
}

#[test]
fn a_wait_is_not_starvation_where_a_thread_slept_or_its_core_was_only_slow_to_wake() {
    // 30,000 sleeps of 15 us each: a core that idles is slow to wake.
    let path = "posix-sio/syscall/hybrid";
    let mut evidence = hybrid();
    evidence.threads[0].waited_ns = Some(450 * MS);
    assert!(of_path(path, &evidence).starved().is_none());
    evidence.threads[0].waited_ns = Some(750 * MS);
    assert!(of_path(path, &evidence).starved().is_some());
    // Without the kernel's count: a thread that never slept either ran or waited; of one that slept nothing
    // is known.
    evidence.threads[0].waited_ns = None;
    assert_eq!(of_path(path, &evidence).spinner, None);
    let polled = |busy| of_path("posix-sio/syscall/poll", &synchronous(0, busy, 40)).starved().is_some();
    assert!(polled(0.9) && !polled(0.95));
}

proptest! {
    /// More of others never calms a trial, whatever the counts; its own time, the kernel's and interrupts
    /// never disturb it.
    #[test]
    fn only_others_disturb(
        cores: u32, over_ns: u64, theirs: u64, more: u64, own: (u64, u64), kernel: (u64, u64, u64), idle: u64,
    ) {
        let mut evidence = with_others(cores, theirs);
        evidence.others.as_mut().unwrap().over_ns = over_ns;
        let was = is_disturbed(&evidence);
        evidence.others.as_mut().unwrap().kernel_threads_ns = kernel.0;
        evidence.process = ProcessEvidence { user_ns: own.0, system_ns: own.1, ..ProcessEvidence::default() };
        let (system_ns, irq_ns, softirq_ns) = kernel;
        let kinds =
            CpuTimes { user_ns: own.0, system_ns, irq_ns, softirq_ns, idle_ns: idle, ..evidence.cpu };
        evidence.cpu = kinds;
        prop_assert_eq!(is_disturbed(&evidence), was);
        evidence.others.as_mut().unwrap().processes_ns = theirs.saturating_add(more);
        prop_assert!(is_disturbed(&evidence) || !was);
        // Hidden others: all of the time in user space is the trial's.
        evidence.others = None;
        prop_assert!(!is_disturbed(&evidence));
    }

    /// On a machine without other work no trial is disturbed by the rounding of ticks, however short.
    #[test]
    fn rounding_does_not_disturb(cores in 1u32..1024, over_ns in 1u64..10_000_000_000, ticks in 0u64..4) {
        let mut evidence = with_others(cores, ticks * 10 * MS);
        evidence.others.as_mut().unwrap().over_ns = over_ns;
        prop_assert!(!is_disturbed(&evidence));
        prop_assert!(TICKS_SLACK_NS >= ticks * 10 * MS);
    }
}
