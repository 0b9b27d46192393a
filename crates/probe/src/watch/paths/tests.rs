//! Paths by evidence as it was recorded from fio on Linux 6.18, a virtio disk.

use super::*;
use iopj_core::evidence::DeviceEvidence;
use iopj_core::watch::{DeviceCompletions, OpenFiles, ProcessIo, SampledLatency, WatchedDevice};
use proptest::prelude::*;

/// What a direct reader of 8,000 blocks of 4 KiB leaves on its disk, with the calls of its start.
fn direct() -> WatchEvidence {
    let events = EventCounts {
        counted_ns: 1,
        of_ns: 1,
        all_calls: 9_000,
        calls: [("read".to_owned(), 108), ("pread64".to_owned(), 2)].into(),
        ..EventCounts::default()
    };
    let io =
        ProcessIo { read_chars: 60_000, read_calls: 110, read_bytes: 32_768_000, ..ProcessIo::default() };
    WatchEvidence {
        over_ns: 1_000_000_000,
        events: Some(events),
        program: Some(ProgramCounts { io: Some(io), ..ProgramCounts::default() }),
        files: OpenFiles { direct: 1, ..OpenFiles::default() },
        devices: vec![WatchedDevice {
            counts: DeviceEvidence {
                name: "vda".to_owned(),
                reads: 8_000,
                read_sectors: 64_000,
                interrupts: Some(8_000),
                ..DeviceEvidence::default()
            },
            completions: Some(DeviceCompletions { soft_interrupt: 8_000, ..DeviceCompletions::default() }),
            ..WatchedDevice::default()
        }],
        ..WatchEvidence::default()
    }
}

fn events(evidence: &mut WatchEvidence) -> &mut EventCounts {
    evidence.events.as_mut().unwrap()
}

fn set(evidence: &mut WatchEvidence, call: &str, count: u64) {
    events(evidence).calls.insert(call.to_owned(), count);
}

fn program(evidence: &mut WatchEvidence) -> &mut ProgramCounts {
    evidence.program.as_mut().unwrap()
}

/// All requests complete in threads of the program.
fn polled(evidence: &mut WatchEvidence) {
    evidence.devices[0].completions =
        Some(DeviceCompletions { thread: 8_000, ..DeviceCompletions::default() });
    let latency = SampledLatency { requests: 100, completed_by_program: 100, ..SampledLatency::default() };
    evidence.devices[0].latency = Some(latency);
}

/// Name and certainty of each path.
fn named(evidence: &WatchEvidence) -> Vec<(String, Certainty)> {
    paths_of(evidence).iter().map(|path| (path.name(), path.certainty)).collect()
}

#[track_caller]
fn is(evidence: &WatchEvidence, name: &str, certainty: Certainty) {
    assert_eq!(named(evidence), [(name.to_owned(), certainty)], "{:?}", paths_of(evidence));
}

const PROVEN: Certainty = Certainty::Proven;
const INFERRED: Certainty = Certainty::Inferred;

#[test]
fn synchronous_reads_are_named_by_their_calls() {
    for call in ["pread64", "preadv", "preadv2", "pwrite64"] {
        let mut evidence = direct();
        set(&mut evidence, call, 8_000);
        is(&evidence, "posix-sio/syscall/interrupt", PROVEN);
    }
}

/// A database that wakes its processes by descriptors, which they read, was said to read files by inference.
#[test]
fn reads_at_an_offset_prove_the_interface_beside_more_reads_of_pipes() {
    let mut evidence = direct();
    set(&mut evidence, "pread64", 8_000);
    set(&mut evidence, "read", 9_000);
    is(&evidence, "posix-sio/syscall/interrupt", PROVEN);
}

/// The disk's own counters leave such commands out, so its interrupts were compared with no I/O at all.
#[test]
fn commands_that_pass_through_are_held_against_the_disks_interrupts() {
    let mut evidence = direct();
    evidence.files = OpenFiles::default();
    events(&mut evidence).passthrough_entries = 300;
    let counts = &mut evidence.devices[0].counts;
    (counts.reads, counts.read_sectors, counts.interrupts) = (0, 0, Some(3_600));
    evidence.devices[0].completions = Some(DeviceCompletions::default());
    is(&evidence, "nvme-passthrough/syscall/interrupt", INFERRED);
    evidence.devices[0].counts.interrupts = Some(0);
    is(&evidence, "nvme-passthrough/syscall/poll", INFERRED);
}

/// A ring of 200 reads, of which a quarter was counted, beside what its program read as it started.
#[test]
fn less_than_a_mebibyte_of_reads_beside_a_ring_is_no_path() {
    let mut evidence = direct();
    set(&mut evidence, "read", 91);
    events(&mut evidence).poller_entries = 41;
    (evidence.devices[0].counts.reads, evidence.devices[0].counts.read_sectors) = (200, 1_600);
    evidence.files.buffered = 1;
    is(&evidence, "io_uring/sqpoll/interrupt", PROVEN);
    program(&mut evidence).io.as_mut().unwrap().read_chars = 2 << 20;
    assert_eq!(named(&evidence).len(), 2);
}

/// A short program of which a look met only a library's file was said to be buffered.
#[test]
fn what_never_entered_the_page_cache_is_not_called_buffered_though_only_such_files_were_met() {
    let mut evidence = direct();
    set(&mut evidence, "io_submit", 8_000);
    evidence.files = OpenFiles { buffered: 1, ..OpenFiles::default() };
    is(&evidence, "libaio/syscall/interrupt", INFERRED);
    // A reader whose pages are cached beside others who use the disk.
    program(&mut evidence).io = Some(ProcessIo::default());
    is(&evidence, "libaio, buffered", PROVEN);
    program(&mut evidence).io = Some(ProcessIo { read_bytes: 32_768_000, ..ProcessIo::default() });
    events(&mut evidence).cache_adds = 1_000;
    is(&evidence, "libaio, buffered", PROVEN);
}

/// A ring whose entries were not counted, because counting rested: what its program read as it started was
/// named in its place.
#[test]
fn reads_that_asked_for_far_less_than_was_fetched_past_the_page_cache_are_no_path() {
    let mut evidence = direct();
    set(&mut evidence, "read", 68);
    evidence.files = OpenFiles { buffered: 5, ..OpenFiles::default() };
    let io = ProcessIo { read_bytes: 2 << 20, read_chars: 200_000, ..ProcessIo::default() };
    program(&mut evidence).io = Some(io);
    assert_eq!(named(&evidence), []);
    program(&mut evidence).io = Some(ProcessIo { read_chars: 2 << 20, ..io });
    is(&evidence, "posix-sio/syscall/interrupt", INFERRED);
}

#[test]
fn what_starting_a_program_takes_is_no_path() {
    assert_eq!(named(&WatchEvidence { events: Some(EventCounts::default()), ..direct() }), []);
    let mut evidence = direct();
    set(&mut evidence, "io_submit", 8_000);
    is(&evidence, "libaio/syscall/interrupt", PROVEN);
}

/// A program of 200 reads by a ring was also named as synchronous: what it read as it started was more than a
/// twentieth of its bytes, though the ring explains every request of the disk.
#[test]
fn what_a_program_of_few_reads_takes_to_start_is_no_path_beside_a_ring() {
    let mut evidence = direct();
    let device = &mut evidence.devices[0];
    (device.counts.reads, device.counts.read_sectors) = (196, 196 * 8);
    device.completions = Some(DeviceCompletions { soft_interrupt: 196, ..DeviceCompletions::default() });
    events(&mut evidence).poller_entries = 200;
    is(&evidence, "io_uring/sqpoll/interrupt", PROVEN);
    // Requests that no ring explains are those of the calls.
    evidence.devices[0].counts.reads = 196 + 108;
    program(&mut evidence).io.as_mut().unwrap().read_chars = 2 << 20;
    assert_eq!(named(&evidence).len(), 2, "{:?}", paths_of(&evidence));
}

#[test]
fn rings_are_named_by_who_takes_their_entries() {
    let mut evidence = direct();
    events(&mut evidence).ring_entries = 8_000;
    is(&evidence, "io_uring/syscall/interrupt", PROVEN);
    let mut evidence = direct();
    events(&mut evidence).poller_entries = 8_000;
    is(&evidence, "io_uring/sqpoll/interrupt", PROVEN);
    let mut evidence = direct();
    events(&mut evidence).passthrough_entries = 8_000;
    is(&evidence, "nvme-passthrough/syscall/interrupt", PROVEN);
}

#[test]
fn a_ring_that_polls_is_told_from_one_that_sleeps_first() {
    let mut evidence = direct();
    events(&mut evidence).ring_entries = 8_000;
    polled(&mut evidence);
    is(&evidence, "io_uring/syscall/poll", PROVEN);
    let flags = Some(FoundRing::IOPOLL | FoundRing::HYBRID_IOPOLL);
    evidence.rings = vec![FoundRing { pid: 1, fd: 5, flags, sqpoll: false }];
    is(&evidence, "io_uring/syscall/hybrid", PROVEN);
    // Threads of somebody else may have completed them.
    evidence.devices[0].latency = None;
    is(&evidence, "io_uring/syscall/hybrid", INFERRED);
}

#[test]
fn the_devices_setting_tells_polling_from_sleeping_for_synchronous_reads() {
    let mut evidence = direct();
    set(&mut evidence, "preadv2", 8_000);
    polled(&mut evidence);
    evidence.devices[0].counts.settings.insert("io_poll_delay".to_owned(), "-1".to_owned());
    is(&evidence, "posix-sio/syscall/poll", PROVEN);
    evidence.devices[0].counts.settings.insert("io_poll_delay".to_owned(), "0".to_owned());
    is(&evidence, "posix-sio/syscall/hybrid", PROVEN);
}

#[test]
fn samples_decide_where_a_disk_was_found_too_late_to_be_counted() {
    let mut evidence = direct();
    set(&mut evidence, "pread64", 8_000);
    evidence.devices[0].completions = None;
    let seen = SampledLatency { requests: 50, completed_in_interrupt: 50, ..SampledLatency::default() };
    evidence.devices[0].latency = Some(seen);
    is(&evidence, "posix-sio/syscall/interrupt", PROVEN);
    assert!(paths_of(&evidence)[0].why.contains("50 of 50 sampled requests"));
    let seen = SampledLatency { completed_in_interrupt: 0, completed_by_program: 50, ..seen };
    evidence.devices[0].latency = Some(seen);
    is(&evidence, "posix-sio/syscall/poll", PROVEN);
}

#[test]
fn a_disk_without_requests_is_not_known_by_the_completions_of_another() {
    let mut evidence = direct();
    set(&mut evidence, "pread64", 8_000);
    let counts = DeviceEvidence { name: "zram0".to_owned(), reads: 90_000, ..DeviceEvidence::default() };
    evidence.devices.push(WatchedDevice { counts, ..WatchedDevice::default() });
    is(&evidence, "posix-sio/syscall/unknown", INFERRED);
    assert!(paths_of(&evidence)[0].why.contains("zram0"));
}

#[test]
fn both_kinds_of_completions_are_mixed() {
    let mut evidence = direct();
    set(&mut evidence, "pread64", 8_000);
    evidence.devices[0].completions =
        Some(DeviceCompletions { soft_interrupt: 7_000, thread: 1_000, ..DeviceCompletions::default() });
    is(&evidence, "posix-sio/syscall/mixed", INFERRED);
}

#[test]
fn reads_by_threads_that_block_all_signals_are_posix_aio() {
    let mut evidence = direct();
    set(&mut evidence, "pread64", 8_000);
    let counts = program(&mut evidence);
    (counts.aio_threads, counts.aio_thread_bytes, counts.aio_of_bytes) = (1, 32_000_000, 32_060_000);
    is(&evidence, "posix-aio/syscall/interrupt", INFERRED);
    program(&mut evidence).aio_thread_bytes = 16_030_000;
    let names: Vec<String> = paths_of(&evidence).iter().map(SeenPath::name).collect();
    assert_eq!(names, ["posix-aio/syscall/interrupt", "posix-sio/syscall/interrupt"]);
}

#[test]
fn a_buffered_reader_is_named_so_whoever_completes() {
    let mut evidence = direct();
    set(&mut evidence, "pread64", 8_000);
    events(&mut evidence).cache_adds = 8_000;
    evidence.files = OpenFiles { buffered: 1, ..OpenFiles::default() };
    is(&evidence, "posix-sio, buffered", PROVEN);
    // No file was seen, as of a program that ends at once.
    evidence.files = OpenFiles::default();
    is(&evidence, "posix-sio, buffered", INFERRED);
    events(&mut evidence).cache_adds = 200;
    is(&evidence, "posix-sio/syscall/interrupt", INFERRED);
}

#[test]
fn a_message_file_beside_a_direct_one_changes_nothing_and_a_second_data_file_does() {
    let mut evidence = direct();
    set(&mut evidence, "pread64", 8_000);
    evidence.files = OpenFiles { direct: 1, buffered: 1, ..OpenFiles::default() };
    events(&mut evidence).cache_adds = 3;
    is(&evidence, "posix-sio/syscall/interrupt", PROVEN);
    events(&mut evidence).cache_adds = 4_000;
    is(&evidence, "posix-sio/syscall/interrupt, partly buffered", PROVEN);
}

#[test]
fn read_and_write_count_where_nothing_else_does_the_io_and_are_only_inferred() {
    let mut evidence = direct();
    set(&mut evidence, "read", 8_000);
    program(&mut evidence).io.as_mut().unwrap().read_chars = 32_768_000;
    is(&evidence, "posix-sio/syscall/interrupt", INFERRED);
    assert!(paths_of(&evidence)[0].why.contains("pipes and sockets too"));
    // A server that only talks to its clients does no I/O.
    evidence.files = OpenFiles::default();
    program(&mut evidence).io = Some(ProcessIo { read_chars: 9_000, ..ProcessIo::default() });
    assert_eq!(named(&evidence), []);
}

#[test]
fn page_faults_of_a_mapping_are_a_path_and_those_of_a_start_are_not() {
    let mut evidence = direct();
    evidence.files = OpenFiles { buffered: 1, ..OpenFiles::default() };
    program(&mut evidence).major_faults = 16_384;
    is(&evidence, "mmap", INFERRED);
    program(&mut evidence).major_faults = 200;
    assert!(named(&evidence).iter().all(|(name, _)| name != "mmap"));
}

#[test]
fn without_events_what_is_left_is_inferred() {
    let mut evidence = WatchEvidence { events: None, ..direct() };
    evidence.devices[0].completions = None;
    program(&mut evidence).io =
        Some(ProcessIo { read_calls: 8_000, read_chars: 32_768_000, ..ProcessIo::default() });
    is(&evidence, "posix-sio/syscall/interrupt", INFERRED);
    evidence.devices[0].counts.interrupts = Some(0);
    is(&evidence, "posix-sio/syscall/poll", INFERRED);
    evidence.devices[0].counts.interrupts = None;
    is(&evidence, "posix-sio/syscall/unknown", INFERRED);
    program(&mut evidence).io = Some(ProcessIo { read_bytes: 32_768_000, ..ProcessIo::default() });
    evidence.rings = vec![FoundRing { pid: 1, fd: 5, flags: None, sqpoll: true }];
    is(&evidence, "io_uring/sqpoll/unknown", INFERRED);
}

/// As fio leaves it on a slow machine, where counting its start has spent what counting may cost.
fn rested() -> WatchEvidence {
    let mut evidence = direct();
    (events(&mut evidence).counted_ns, events(&mut evidence).of_ns) = (50_000_000, 1_200_000_000);
    (evidence.files.direct, evidence.files.buffered) = (0, 2);
    evidence
}

#[test]
fn what_counting_did_not_see_is_named_by_totals_and_is_not_past_the_page_cache() {
    let mut evidence = rested();
    evidence.rings = vec![FoundRing { pid: 1, fd: 5, flags: Some(0), sqpoll: false }];
    is(&evidence, "io_uring, buffered", INFERRED);
    let mut evidence = rested();
    program(&mut evidence).io = Some(ProcessIo {
        read_calls: 8_110,
        read_chars: 32_800_000,
        read_bytes: 32_768_000,
        ..ProcessIo::default()
    });
    is(&evidence, "posix-sio, buffered", INFERRED);
    // The start's calls are no path, and who did the rest is not known.
    let mut evidence = rested();
    assert_eq!(named(&evidence), []);
    // As soon as it saw I/O, that decides.
    set(&mut evidence, "pread64", 65);
    is(&evidence, "posix-sio/syscall/interrupt", INFERRED);
    events(&mut evidence).cache_adds = 8_000;
    is(&evidence, "posix-sio, buffered", PROVEN);
}

#[test]
fn a_disk_alone_has_no_paths() {
    assert_eq!(paths_of(&WatchEvidence { program: None, ..direct() }), []);
}

proptest! {
    #[test]
    fn shares_add_up_to_one_whatever_was_counted(
        reads in 0u64..1 << 40,
        submits in 0u64..1 << 40,
        entries in 0u64..1 << 40,
        polled in 0u64..1 << 40,
        bytes: u32,
        threads in 0u64..1 << 40,
    ) {
        let mut evidence = direct();
        set(&mut evidence, "pread64", reads);
        set(&mut evidence, "io_submit", submits);
        (events(&mut evidence).ring_entries, events(&mut evidence).poller_entries) = (entries, polled);
        program(&mut evidence).aio_thread_bytes = bytes.into();
        program(&mut evidence).aio_of_bytes = u64::from(bytes) * 2;
        evidence.devices[0].completions =
            Some(DeviceCompletions { soft_interrupt: 5, thread: threads, ..DeviceCompletions::default() });
        let paths = paths_of(&evidence);
        let sum: f64 = paths.iter().map(|path| path.share).sum();
        let is_one = sum > 1.0 - 5.0 * FEW_SHARE && sum <= 1.0 + 1e-9;
        prop_assert!(paths.is_empty() || is_one, "{} {:?}", sum, paths);
        prop_assert!(paths.is_sorted_by(|a, b| a.share >= b.share));
    }
}
