//! A constructed watch for tests of its page: two disks, meters of two scopes, and counting that rests.

use crate::watch::{WatchEnd, WatchInterval, WatchRecord};
use iopj_core::Scope;
use iopj_core::evidence::{CpuTimes, DeviceEvidence};
use iopj_core::watch::{
    Certainty, DeviceCompletions, EventCounts, ProgramCounts, SampledLatency, SeenCaching, SeenCompletion,
    SeenInterface, SeenPath, WatchEvidence, WatchPower, WatchSubject, WatchedDevice,
};

const SECOND_NS: u64 = 1_000_000_000;

/// A watch of so many seconds in which every foreign text is `name`.
pub fn watch(name: &str, seconds: u64) -> WatchRecord {
    let path = SeenPath {
        interface: SeenInterface::IoUring,
        sqpoll: false,
        completion: SeenCompletion::Interrupt,
        caching: SeenCaching::Direct,
        share: 1.0,
        certainty: Certainty::Proven,
        why: name.to_owned(),
    };
    let interval = |at| WatchInterval {
        end_ns: (at + 1) * SECOND_NS,
        evidence: second(name, at),
        paths: vec![path.clone()],
    };
    WatchRecord {
        subject: WatchSubject::Command(vec![name.to_owned(); 3]),
        started_unix_ns: 0,
        end: WatchEnd::Exited(0),
        interval_ns: SECOND_NS,
        followed: name.to_owned(),
        denied: vec![name.to_owned()],
        provenance: [("kernel".to_owned(), name.to_owned()), (name.to_owned(), name.to_owned())].into(),
        evidence: WatchEvidence { over_ns: seconds * SECOND_NS, ..second(name, 0) },
        paths: vec![path.clone()],
        intervals: (0..seconds).map(interval).collect(),
    }
}

/// The counts of one second: in every third counting rests, in every third it rests in part.
fn second(name: &str, at: u64) -> WatchEvidence {
    let counted_ns = at % 3 * SECOND_NS / 2;
    let ios = 1000 + 100 * (at % 7);
    let power = |meter: &str, scope| WatchPower {
        meter: meter.to_owned(),
        channel: name.to_owned(),
        scope,
        watts: 40.0 + (at % 5) as f64,
        over_s: 1.0,
    };
    WatchEvidence {
        over_ns: SECOND_NS,
        events: Some(EventCounts {
            counted_ns,
            of_ns: SECOND_NS,
            all_calls: ios * counted_ns / SECOND_NS,
            calls: [(name.to_owned(), ios * counted_ns / SECOND_NS)].into(),
            ..EventCounts::default()
        }),
        program: Some(ProgramCounts {
            processes: 1,
            threads: 2,
            user_ns: 100_000_000,
            system_ns: 300_000_000,
            switches: ios,
            ..ProgramCounts::default()
        }),
        devices: vec![disk(name, ios, 0), disk("sdb", ios / 50, ios)],
        cpu: CpuTimes {
            user_ns: 20 + at % 3,
            system_ns: 30,
            softirq_ns: 5,
            idle_ns: 45,
            ..CpuTimes::default()
        },
        power: vec![power("rapl", Scope::Package), power("plug", Scope::System), power(name, Scope::System)],
        ..WatchEvidence::default()
    }
}

fn disk(name: &str, reads: u64, writes: u64) -> WatchedDevice {
    WatchedDevice {
        counts: DeviceEvidence {
            name: name.to_owned(),
            reads,
            read_sectors: 8 * reads,
            writes,
            write_sectors: 8 * writes,
            interrupts: Some(reads + writes),
            ..DeviceEvidence::default()
        },
        read_ms: reads / 10,
        write_ms: writes / 8,
        completions: Some(DeviceCompletions { hard_interrupt: 500, ..DeviceCompletions::default() }),
        latency: Some(SampledLatency {
            count: reads / 10,
            requests: reads / 10,
            p50_ns: 80_000 + 10 * reads,
            p99_ns: 400_000 + 100 * reads,
            p99_9_ns: 900_000,
            max_ns: 1_000_000,
            ..SampledLatency::default()
        }),
    }
}
