//! Reads and writes past the kernel, compared with those of its own driver.

use super::drive::{Drive, MIB, Random, digest};
use iopj_core::IoPath;
use iopj_engine::nvme_user::Controller;
use iopj_engine::{Completion, Engine, Op, Pool, Request, Target};
use std::path::Path;
use std::sync::{Arc, Barrier};

/// Requests in flight on each queue pair.
const DEPTH: u32 = 8;
/// Requests of each queue pair.
const REQUESTS: usize = 150;
/// Completion modes, one per queue pair in turn.
const PATHS: [&str; 3] =
    ["nvme-user/doorbell/poll", "nvme-user/doorbell/interrupt", "nvme-user/doorbell/hybrid"];

/// Offsets of the buffers of each queue pair in a page, in turn: lists of memory then begin and end in the
/// middle of pages.
const SHIFTS: [u32; 4] = [0, 4, 2044, 4092];

/// Every byte that the kernel's driver wrote is read, and it reads every byte that is written.
#[test]
#[ignore = "runs in a guest that `content` boots"]
fn is_whole() {
    for number in 0..2 {
        let mut drive = Drive::of_machine(number);
        let mut random = Random::new(7 + number as u64);
        let mut expected = drive.kernel_read();
        random.fill(&mut expected);
        drive.kernel_write(&expected);
        drive.take();
        all_pairs_at_once(&drive, &mut expected, random.next());
        drive.give_back();
        let found = drive.kernel_read();
        for (mib, (expected, found)) in expected.chunks(MIB).zip(found.chunks(MIB)).enumerate() {
            assert!(expected == found, "drive {number} is not what was written in MiB {mib}");
        }
        std::fs::write(format!("/out/digest.{number}"), format!("{:016x}\n", digest(&expected))).unwrap();
    }
}

/// How VFIO lets the drive reach memory, by the guest's script.
fn vfio() -> String {
    std::env::var("VFIO").unwrap()
}

/// Reads and writes on every queue pair that the controller grants, each from its own thread and in its own
/// part of the drive.
fn all_pairs_at_once(drive: &Drive, expected: &mut [u8], seed: u64) {
    let controller = drive.open(&vfio());
    let identity = controller.identity();
    eprintln!("{identity:?}");
    assert_eq!((identity.queue_pairs, identity.vfio), (4, &*vfio()));
    let pairs = identity.queue_pairs as usize;
    let namespace = &controller.namespaces()[0];
    let block = 1_usize << namespace.lba_shift;
    assert_eq!((namespace.nsid, namespace.blocks << namespace.lba_shift), (1, expected.len() as u64));
    let before = controller.io_counts().unwrap();
    let (part_len, all_open) = (expected.len() / pairs, Barrier::new(pairs));
    let issued: Vec<[u64; 2]> = std::thread::scope(|scope| {
        let parts = expected.chunks_exact_mut(part_len).enumerate();
        let threads = parts.map(|(number, bytes)| {
            let (controller, all_open) = (Arc::clone(&controller), &all_open);
            let random = Random::new(seed.wrapping_add(number as u64));
            let path = PATHS[number % PATHS.len()].parse().unwrap();
            let part = Part { start: number * part_len, block, shift: SHIFTS[number % SHIFTS.len()], bytes };
            scope.spawn(move || mixed(&controller, path, part, random, all_open))
        });
        threads.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let after = controller.io_counts().unwrap();
    let sum = |at: usize| issued.iter().map(|counts| counts[at]).sum::<u64>();
    assert_eq!(
        (after.host_reads - before.host_reads, after.host_writes - before.host_writes),
        (sum(0), sum(1))
    );
    controller.flush(1).unwrap();
}

/// One queue pair's part of the drive.
struct Part<'a> {
    /// Where it starts on the drive.
    start: usize,
    block: usize,
    shift: u32,
    /// Its content, once all writes are complete.
    bytes: &'a mut [u8],
}

/// A request in flight: where in the part.
#[derive(Clone, Copy)]
struct Flight {
    op: Op,
    at: usize,
    len: usize,
}

/// Reads and writes of random sizes and places, never two at once on the same bytes; the commands of each
/// kind.
fn mixed(
    controller: &Arc<Controller>,
    path: IoPath,
    part: Part<'_>,
    mut random: Random,
    all_open: &Barrier,
) -> [u64; 2] {
    let target = Target::open_bypass(Path::new("/dev/nvme"), controller, 1, true).unwrap();
    assert_eq!((target.logical_block() as usize, target.data_offset()), (part.block, 0));
    let pool = match controller.identity().vfio {
        "no-iommu" => Pool::huge(DEPTH, MIB as u32).unwrap(),
        _ => Pool::shifted(DEPTH, MIB as u32, part.shift).unwrap(),
    };
    let mut engine = iopj_engine::open(path, &target, &pool, DEPTH).unwrap();
    // No thread starts, or ends, before all are open.
    all_open.wait();
    let mut flights: Vec<Option<Flight>> = vec![None; DEPTH as usize];
    let mut counts = [0; 2];
    for _ in 0..REQUESTS {
        let flight = random_flight(&part, &mut random);
        let overlaps = |other: &Flight| flight.at < other.at + other.len && other.at < flight.at + flight.len;
        let tag = loop {
            match flights.iter().position(Option::is_none) {
                Some(free) if !flights.iter().flatten().any(overlaps) => break free,
                _ => engine.wait(1, None, |completion| check(&completion, &mut flights, &part)).unwrap(),
            };
        };
        // As many buffers are free as tags.
        let mut buffer = pool.acquire().unwrap();
        if flight.op == Op::Write {
            let bytes = &mut part.bytes[flight.at..][..flight.len];
            random.fill(bytes);
            buffer[..flight.len].copy_from_slice(bytes);
        }
        counts[usize::from(flight.op == Op::Write)] += 1;
        let offset = (part.start + flight.at) as u64;
        let make = if flight.op == Op::Write { Request::write } else { Request::read };
        engine.push(make(buffer, flight.len as u32, offset).tagged(tag as u64)).unwrap();
        flights[tag] = Some(flight);
        // Sometimes alone, sometimes with others before the doorbell is rung.
        if random.below(3) == 0 {
            engine.submit().unwrap();
        }
    }
    while flights.iter().any(Option::is_some) {
        engine.wait(1, None, |completion| check(&completion, &mut flights, &part)).unwrap();
    }
    all_open.wait();
    eprintln!("{path}: {counts:?} reads and writes, {:?}", engine.counters());
    counts
}

/// From one block to 1 MiB, small ones as often as large ones, anywhere.
fn random_flight(part: &Part<'_>, random: &mut Random) -> Flight {
    let most = MIB / part.block;
    let below = 2 << random.below(most.ilog2() as usize + 1);
    let blocks = (1 + random.below(below)).min(most);
    let at = random.below(part.bytes.len() / part.block - blocks + 1);
    let op = if random.below(2) == 0 { Op::Read } else { Op::Write };
    Flight { op, at: at * part.block, len: blocks * part.block }
}

/// Compares what was read with what was written.
fn check(completion: &Completion, flights: &mut [Option<Flight>], part: &Part<'_>) {
    let flight = flights[completion.tag as usize].take().unwrap();
    assert_eq!(
        completion.result,
        Ok(flight.len as u32),
        "{} bytes at {}",
        flight.len,
        part.start + flight.at
    );
    if flight.op == Op::Read {
        let found = &completion.buffer().unwrap()[..flight.len];
        let is_equal = found == &part.bytes[flight.at..][..flight.len];
        assert!(is_equal, "{} bytes at {} are not what was written", flight.len, part.start + flight.at);
    }
}
