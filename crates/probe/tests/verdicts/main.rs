//! Observation and verdict on constructed evidence: every predicate both ways. This file makes the evidence.

mod bypass;
mod conditions;
mod counted;
mod doubts;
mod fabric;
mod paths;
mod routes;
mod routes_of_taken;
mod seeded;
mod watched;

use iopj_core::evidence::{
    Completions, ControlRun, DeviceEvidence, EngineEvidence, Evidence, Finding, ProcessEvidence,
    ThreadEvidence, ThreadRole, VerdictKind,
};
use iopj_core::path::CompletionMode;
use iopj_core::uring::RingFlag;
use iopj_probe::{assess, observe};

const IOS: u64 = 100_000;
const WINDOW_NS: u64 = 2_000_000_000;

fn thread(role: ThreadRole, busy: f64, sleeps: u64) -> ThreadEvidence {
    let cpu_ns = (busy * WINDOW_NS as f64) as u64;
    ThreadEvidence {
        tid: 1,
        name: "job".into(),
        role,
        cpu_ns,
        voluntary_switches: sleeps,
        involuntary_switches: 3,
        ..ThreadEvidence::default()
    }
}

fn disk(name: &str, ios: u64, interrupts: Option<u64>) -> DeviceEvidence {
    let vectors = if interrupts.is_some() { vec!["36 nvme0q1".into()] } else { Vec::new() };
    DeviceEvidence {
        name: name.into(),
        reads: ios,
        read_sectors: ios * 8,
        interrupts,
        vectors,
        ..Default::default()
    }
}

/// A synchronous job on one disk, one system call per I/O.
fn synchronous(interrupts: u64, busy: f64, sleeps: u64) -> Evidence {
    Evidence {
        rules: iopj_probe::RULES,
        window_ns: WINDOW_NS,
        numjobs: 1,
        iodepth: 1,
        reads: IOS,
        read_bytes: IOS * 4096,
        latency_sum_ns: WINDOW_NS,
        devices: vec![disk("nvme0n1", IOS, Some(interrupts))],
        threads: vec![thread(ThreadRole::Job, busy, sleeps)],
        engine: Some(EngineEvidence { submit_calls: IOS, ..Default::default() }),
        control: Some(ControlRun { ios: 64, interrupts: Some(64), device_reads: 64, completions: None }),
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
    counted(synchronous(0, 0.6, 30_000), Completions { waiting: PASS, timers: PASS / 3, ..PASSED })
}

/// I/Os of the pass before the window.
const PASS: u64 = 4_000;
/// That pass, with nothing counted.
const PASSED: Completions = Completions {
    ios: PASS,
    hard_interrupt: 0,
    soft_interrupt: 0,
    worker: 0,
    waiting: 0,
    other: 0,
    timers: 0,
    pass_ns: 80_000_000,
    sleeps: 0,
    interrupts: Some(0),
    merges: 0,
};

/// The same, with completions counted in the pass.
fn counted(evidence: Evidence, counts: Completions) -> Evidence {
    Evidence { completions: Some(Finding::Seen(counts)), ..evidence }
}

/// A ring with a submission poller that spins, as does its job.
fn sqpoll(interrupts: u64) -> Evidence {
    let mut evidence = synchronous(interrupts, 0.95, 0);
    evidence.threads.push(thread(ThreadRole::Sqpoll, 0.98, 0));
    evidence.engine =
        Some(EngineEvidence { wakeups: 20, ring_flags: vec![RingFlag::Sqpoll], ..Default::default() });
    evidence
}

/// Evidence of fio: totals of the process only.
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

/// All reasons of an unproven verdict, each of which names a remedy; the figures come last.
#[track_caller]
fn unproven(path: &str, evidence: &Evidence) -> String {
    let (_, verdict) = assess(&path.parse().unwrap(), evidence);
    assert_eq!(verdict.kind, VerdictKind::Unproven, "{path}: {:?}", verdict.reasons);
    let (_, reasons) = verdict.reasons.split_last().unwrap();
    let lacking = reasons.iter().find(|reason| !reason.contains(" (remedy: "));
    assert!(lacking.is_none() && !reasons.is_empty(), "no remedy: {lacking:?}");
    verdict.reasons.join("; ")
}

#[track_caller]
fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "`{part}` is not in `{text}`");
}

/// Demands an unproven verdict, with this part in its reasons.
#[track_caller]
fn assert_unproven(path: &str, evidence: &Evidence, part: &str) {
    assert_contains(&unproven(path, evidence), part);
}

/// The completion that is seen; if none is, there is a reason.
fn seen(evidence: &Evidence) -> Option<CompletionMode> {
    match observe(evidence).completion {
        Finding::Seen(completion) => Some(completion),
        Finding::Mixed(reason) | Finding::Unclear(reason) => {
            assert!(!reason.is_empty());
            None
        }
    }
}

/// What happened is verified if it was asked for, and refutes every other completion of these paths.
#[track_caller]
fn assert_distinguished(paths: &str, cases: &[(&str, Evidence)]) {
    for (happened, evidence) in cases {
        for asked in ["interrupt", "poll", "hybrid"] {
            let expected = if asked == *happened { VerdictKind::Verified } else { VerdictKind::Refuted };
            let found = kind(&format!("{paths}/{asked}"), evidence);
            assert_eq!(found, expected, "{asked}, {happened}");
        }
    }
}
