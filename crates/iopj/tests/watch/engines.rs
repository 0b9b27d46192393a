//! fio by each of its engines, named by interface, submission, completion and page cache.

use crate::{common, watched};
use iopj_core::watch::{Certainty, SeenCaching, SeenCompletion, SeenInterface, SeenPath};
use iopj_record::watch::{WatchEnd, WatchRecord};
use std::path::Path;

/// Two seconds of a job: its file is open at a look, and counting, which may have spent what it may cost on
/// the start of fio, has gone on, unless the machine is busy.
const TWO_SECONDS: &str = "--number_ios=2000 --rate_iops=1000";
/// As long for a submission poller, which starves on a busy machine, so it has less to do.
const TWO_SECONDS_OF_A_POLLER: &str = "--number_ios=400 --rate_iops=200";
/// Long enough to earn back what counting cost at the start.
const LONGER: [&str; 2] =
    ["--time_based --runtime=10 --rate_iops=200", "--time_based --runtime=60 --rate_iops=200"];

/// Watches fio as it reads a file of real bytes; `None` without fio, root or tracepoints.
fn fio(folder: &Path, length: &str, options: &str) -> Option<WatchRecord> {
    let has_fio = std::process::Command::new("fio").arg("--version").output().is_ok();
    if !common::have(common::is_root() && has_fio, "root and fio") || !common::have_tracepoints(folder) {
        return None;
    }
    let job = format!(
        "--interval 100ms -- fio --name=x --filename=data --rw=randread --bs=4k {length} --output=/dev/null \
         {options}"
    );
    let (output, record) = watched(folder, &job);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(record.end, WatchEnd::Exited(0));
    assert_eq!(record.denied, Vec::<String>::new());
    Some(record)
}

/// The one path that a job took.
#[track_caller]
fn only(record: &WatchRecord) -> &SeenPath {
    match &record.paths[..] {
        [path] => path,
        paths => panic!("one path, not {paths:#?} of {:#?}", record.evidence),
    }
}

/// Who completes on a disk that cannot poll is known as soon as it has requests at all, which a disk in
/// memory has not.
#[track_caller]
fn is(record: &WatchRecord, interface: SeenInterface, sqpoll: bool, caching: SeenCaching) {
    let path = only(record);
    assert_eq!((path.interface, path.sqpoll, path.caching), (interface, sqpoll, caching), "{path:?}");
    let has_requests = record.evidence.devices.iter().any(|device| device.latency.is_some());
    if has_requests && caching == SeenCaching::Direct {
        assert_eq!(path.completion, SeenCompletion::Interrupt, "{path:?}");
    }
}

/// What a job is seen to do in the first of these lengths that is long enough: where counting rested as long
/// as it did I/O, its path is inferred.
fn counted(folder: &Path, lengths: &[&str], options: &str) -> Option<WatchRecord> {
    let (last, shorter) = lengths.split_last()?;
    for length in shorter {
        let record = fio(folder, length, options)?;
        let is_proven = |path: &SeenPath| path.certainty == Certainty::Proven;
        if !record.paths.is_empty() && record.paths.iter().all(is_proven) {
            return Some(record);
        }
        eprintln!("{options}, {length}: {:?}", record.evidence.events.map(|events| events.share()));
    }
    fio(folder, last, options)
}

#[test]
fn fio_is_named_right_by_each_engine() {
    let folder = common::folder().with_data(8 << 20);
    let [long, longest] = LONGER;
    let (lengths, of_poller) = ([TWO_SECONDS, long, longest], [TWO_SECONDS_OF_A_POLLER, long, longest]);
    // Threads of POSIX AIO are only inferred, of those that are met at a look.
    let of_aio = ["--time_based --runtime=10 --rate_iops=1000"];
    let (sio, aio) = (SeenInterface::PosixSio, SeenInterface::PosixAio);
    let (libaio, ring) = (SeenInterface::Libaio, SeenInterface::IoUring);
    let (proven, inferred) = (Certainty::Proven, Certainty::Inferred);
    for (options, lengths, interface, sqpoll, certainty) in [
        ("--ioengine=psync", &lengths[..], sio, false, proven),
        ("--ioengine=pvsync2", &lengths, sio, false, proven),
        ("--ioengine=libaio --iodepth=8", &lengths, libaio, false, proven),
        ("--ioengine=io_uring --iodepth=8", &lengths, ring, false, proven),
        ("--ioengine=io_uring --sqthread_poll=1", &of_poller, ring, true, proven),
        ("--ioengine=posixaio --iodepth=8", &of_aio, aio, false, inferred),
    ] {
        let Some(record) = counted(&folder, lengths, &format!("--direct=1 {options}")) else { return };
        is(&record, interface, sqpoll, SeenCaching::Direct);
        assert_eq!(only(&record).certainty, certainty, "{options}: {:?}", only(&record));
        let reads: u64 = record.evidence.devices.iter().map(|device| device.counts.reads).sum();
        assert!(reads >= 200, "{options}: {reads} reads of its disks");
    }
}

#[test]
fn a_buffered_reader_is_never_named_like_a_direct_one() {
    let folder = common::folder().with_data(8 << 20);
    for (engine, interface) in [("psync", SeenInterface::PosixSio), ("io_uring", SeenInterface::IoUring)] {
        let Some(record) = fio(&folder, TWO_SECONDS, &format!("--direct=0 --ioengine={engine}")) else {
            return;
        };
        is(&record, interface, false, SeenCaching::Buffered);
        assert_eq!(only(&record).name(), format!("{interface}, buffered"));
    }
}

#[test]
fn a_ring_is_known_by_the_flags_of_its_creation() {
    let folder = common::folder().with_data(8 << 20);
    let options = "--direct=1 --ioengine=io_uring --sqthread_poll=1";
    let Some(record) = fio(&folder, TWO_SECONDS_OF_A_POLLER, options) else { return };
    let [ring] = &record.evidence.rings[..] else { panic!("one ring: {:?}", record.evidence.rings) };
    assert!(ring.sqpoll && ring.has(iopj_core::watch::FoundRing::SQPOLL), "{ring:?}");
    // A slow machine's poller is within the budget, and then nothing is missing.
    let events = record.evidence.events.unwrap();
    if events.share() == 1.0 {
        assert_eq!((events.poller_entries, events.ring_entries), (400, 0));
    }
}

/// Reads and writes of a program in a folder are counted call by call as long as they are few.
#[test]
fn calls_of_a_small_program_are_counted_to_the_last() {
    let folder = common::folder().with_data(1 << 20);
    if !common::have_tracepoints(&folder) {
        return;
    }
    let (output, record) = watched(&folder, "-- dd if=data of=copy bs=16k count=64 status=none");
    assert_eq!(output.status.code(), Some(0));
    let events = record.evidence.events.unwrap();
    // dd reads and writes 64 blocks, and its libraries besides.
    assert!(events.calls_of("read") >= 64 && events.calls_of("write") == 64, "{events:?}");
    assert!(record.evidence.program.unwrap().io.unwrap().write_chars >= 1 << 20);
}
