//! What was seen of a program.

use crate::watch::{WatchEnd, WatchInterval, WatchRecord};
use iopj_core::Scope;
use iopj_core::evidence::{CpuTimes, DeviceEvidence};
use iopj_core::watch::{
    Certainty, DeviceCompletions, EventCounts, ProcessIo, ProgramCounts, SeenCaching, SeenCompletion,
    SeenInterface, SeenPath, WatchEvidence, WatchPower, WatchSubject, WatchedDevice,
};

/// Two seconds of a program that reads 1000 blocks of 4 KiB, counted for half of the time.
pub fn evidence() -> WatchEvidence {
    WatchEvidence {
        over_ns: 2_000_000_000,
        events: Some(EventCounts {
            counted_ns: 1_000_000_000,
            of_ns: 2_000_000_000,
            all_calls: 600,
            calls: [("pread64".to_owned(), 500)].into(),
            ..EventCounts::default()
        }),
        program: Some(ProgramCounts {
            processes: 1,
            threads: 2,
            user_ns: 100_000_000,
            system_ns: 300_000_000,
            switches: 1500,
            io: Some(ProcessIo {
                read_chars: 8_192_000,
                read_calls: 2000,
                read_bytes: 4_096_000,
                ..ProcessIo::default()
            }),
            ..ProgramCounts::default()
        }),
        devices: vec![WatchedDevice {
            counts: DeviceEvidence {
                name: "vda".to_owned(),
                reads: 1000,
                read_sectors: 8000,
                interrupts: Some(900),
                ..DeviceEvidence::default()
            },
            read_ms: 50,
            write_ms: 0,
            completions: Some(DeviceCompletions {
                soft_interrupt: 300,
                thread: 100,
                issued_by_worker: 40,
                ..DeviceCompletions::default()
            }),
            latency: None,
        }],
        cpu: CpuTimes { user_ns: 1, system_ns: 2, idle_ns: 5, cores: 2, ..CpuTimes::default() },
        power: vec![WatchPower {
            meter: "rapl".to_owned(),
            channel: "package-0".to_owned(),
            scope: Scope::Package,
            watts: 10.0,
            over_s: 2.0,
        }],
        ..WatchEvidence::default()
    }
}

/// A path that a program was seen to take.
pub fn path(caching: SeenCaching) -> SeenPath {
    SeenPath {
        interface: SeenInterface::PosixSio,
        sqpoll: false,
        completion: SeenCompletion::Interrupt,
        caching,
        share: 1.0,
        certainty: Certainty::Proven,
        why: "500 calls of pread64".to_owned(),
    }
}

/// A watch of a program named with a control character, in so many intervals: the n-th reads n times as
/// much.
pub fn watch(intervals: u64) -> WatchRecord {
    let interval = |at: u64| {
        let mut evidence = evidence();
        evidence.devices[0].counts.reads *= at;
        WatchInterval { end_ns: at * evidence.over_ns, evidence, paths: vec![path(SeenCaching::Direct)] }
    };
    WatchRecord {
        subject: WatchSubject::Command(vec!["db\u{1b}[2J".to_owned()]),
        started_unix_ns: 0,
        end: WatchEnd::Exited(3),
        interval_ns: 2_000_000_000,
        followed: String::new(),
        denied: vec!["latencies are not sampled: no tracefs".to_owned()],
        provenance: Default::default(),
        evidence: evidence(),
        paths: vec![path(SeenCaching::Buffered)],
        intervals: (1..=intervals).map(interval).collect(),
    }
}
