//! Changes of way while requests are in flight: nothing is lost, doubled or mixed up.

use crate::short_epochs;
use iopj_auto::chooser::Epochs;
use iopj_auto::sim::{Drive, End, ScriptedClock, Service};
use iopj_auto::{Auto, Direction, Kind, Policy, Way, available};
use iopj_engine::sim::{Sim, SimOptions};
use iopj_engine::{Completion, DynEngine, Engine, IoError, Pool, Request, Target};
use std::collections::HashMap;

const DEPTH: u32 = 6;
const SWITCHES: u32 = 10_000;
const KERNEL: [Way; 6] = [Way::Interrupt, Way::Poll, Way::Hybrid, Way::SleepPoll, Way::Sqpoll, Way::Sio];

fn numbers(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}

/// An engine that switches by chance after every few I/Os, over engines that reorder, move half, and fail.
fn restless(pool: &Pool) -> Auto<ScriptedClock> {
    let over = pool.clone();
    let options =
        SimOptions { latency_steps: 6, short_ppm: 50_000, error_ppm: 50_000, ..SimOptions::default() };
    let open = move |way: Way| {
        let iodepth = if way == Way::Sio { 1 } else { DEPTH };
        let options = SimOptions { seed: way as u64 + 1, ..options };
        Ok(Box::new(Sim::open(&over, iodepth, options)) as Box<dyn DynEngine>)
    };
    Auto::builder()
        .random_switching(11)
        .iodepth(DEPTH)
        .epochs(Epochs { ios: 1, ns: 0, burst_ios: 1 })
        .open_with(&KERNEL, pool, ScriptedClock::default(), open)
        .unwrap()
}

/// What is in flight, by tag: its length and the number of its buffer, if it has one.
#[derive(Default)]
struct Flying {
    by_tag: HashMap<u64, (u32, Option<u32>)>,
    ends: [u32; 3],
}

impl Flying {
    fn land(&mut self, completion: Completion) {
        let (len, index) = self.by_tag.remove(&completion.tag).expect("it was in flight, once");
        let end = match completion.result {
            Ok(bytes) if bytes == len => 0,
            Ok(bytes) if bytes == len / 2 => 1,
            Err(IoError::Os(libc::EIO)) => 2,
            other => panic!("{other:?} of {len} bytes"),
        };
        self.ends[end] += 1;
        assert_eq!(completion.into_buffer().map(|buffer| buffer.index()), index, "its own buffer");
    }
}

#[test]
fn ten_thousand_changes_of_way_lose_and_double_nothing() {
    let pool = Pool::new(2 * DEPTH, 8192).unwrap();
    let mut auto = restless(&pool);
    let mut number = numbers(3);
    let mut flying = Flying::default();
    let kinds = [Kind::new(Direction::Read, 4096), Kind::new(Direction::Write, 512)];
    let (mut routes, mut switches, mut next_tag) = (kinds.map(|kind| auto.route(kind)), 0, 0);
    while switches < SWITCHES {
        for _ in 0..number() % 4 {
            let Some(buffer) = pool.acquire() else { break };
            let index = buffer.index();
            let request = match number() % 2 {
                0 => Request::read(buffer, 4096, 4096 * next_tag),
                _ => Request::write(buffer, 512, 4096 * next_tag),
            };
            let len = request.operation.transfer().unwrap().len;
            match auto.push(request.tagged(next_tag)) {
                Ok(()) => drop(flying.by_tag.insert(next_tag, (len, Some(index)))),
                Err(refused) => assert_eq!(auto.in_flight(), DEPTH as usize, "{refused}"),
            }
            next_tag += 1;
        }
        match number() % 4 {
            0 => auto.submit().unwrap(),
            1 => drop(auto.reap(|completion| flying.land(completion)).unwrap()),
            _ => {
                let min = number() as usize % (flying.by_tag.len() + 1);
                let found = auto.wait(min, None, |completion| flying.land(completion)).unwrap();
                assert!(found >= min, "{found} of {min}");
            }
        }
        assert_eq!(auto.in_flight(), flying.by_tag.len());
        assert_eq!(pool.available() as usize + flying.by_tag.len(), pool.count() as usize);
        let now = kinds.map(|kind| auto.route(kind));
        switches += now.iter().zip(&routes).filter(|(now, before)| now != before).count() as u32;
        routes = now;
    }
    auto.wait(usize::MAX, None, |completion| flying.land(completion)).unwrap();
    let counts = auto.counts().clone();
    assert!(flying.by_tag.is_empty() && flying.ends.iter().all(|ends| *ends > 0), "{:?}", flying.ends);
    assert!(KERNEL.iter().all(|way| counts.by_way[*way as usize] > 0), "every way was taken: {counts:?}");
    assert_eq!((counts.failures, counts.redone), (0, 0));
    drop(auto);
    assert_eq!((pool.available(), pool.holders()), (pool.count(), 1));
}

/// A drive on which ways come to refuse requests, and engines end, while others have requests in flight.
#[test]
fn whatever_fails_each_request_completes_once_with_its_buffer() {
    let (mut redone, mut failures) = (0, 0);
    for seed in 0..200 {
        let pool = Pool::new(DEPTH, 4096).unwrap();
        let mut chance = numbers(seed);
        let drive = Drive::new(move |asked| {
            let is_safe = matches!(asked.way, Way::Interrupt | Way::Sio);
            let end = match chance() % 40 {
                0 if !is_safe => End::Engine,
                1..=9 if !is_safe => End::Errno(libc::EOPNOTSUPP),
                10 => End::Half,
                11 => End::Errno(libc::EIO),
                _ => End::Whole,
            };
            Service { latency_ns: 1_000 + chance() % 20_000, cpu_ns: 500, end }
        });
        let policy = Policy { exploration: 0.5, bound_p99_ns: Some(15_000), ..Policy::default() };
        let builder = Auto::builder().iodepth(DEPTH).epochs(short_epochs());
        let builder = if seed.is_multiple_of(2) {
            builder.random_switching(seed)
        } else {
            builder.policy(policy).seed(seed)
        };
        let mut auto = builder.open_on_drive(&drive, &KERNEL, &pool).unwrap();
        let mut number = numbers(seed + 1_000);
        let mut flying = Flying::default();
        for tag in 0..300 {
            if auto.in_flight() < DEPTH as usize {
                let kind = number() % 8;
                let buffer = if kind == 0 { None } else { pool.acquire() };
                let len = if buffer.is_none() { 0 } else { 512 << (kind % 4) };
                flying.by_tag.insert(tag, (len, buffer.as_ref().map(|buffer| buffer.index())));
                let request = match buffer {
                    None => Request::flush(),
                    Some(buffer) if kind < 4 => Request::write(buffer, len, tag * 4096),
                    Some(buffer) => Request::read(buffer, len, tag * 4096),
                };
                auto.push(request.tagged(tag)).unwrap();
            }
            if auto.in_flight() == DEPTH as usize || number().is_multiple_of(2) {
                let min = number() as usize % 3;
                let found = auto.wait(min, None, |completion| flying.land(completion)).unwrap();
                assert!(found >= min.min(flying.by_tag.len()), "seed {seed}");
            }
            assert_eq!(auto.in_flight(), flying.by_tag.len(), "seed {seed}");
        }
        auto.wait(usize::MAX, None, |completion| flying.land(completion)).unwrap();
        assert!(flying.by_tag.is_empty(), "seed {seed}: {:?}", flying.by_tag);
        (redone, failures) = (redone + auto.counts().redone, failures + auto.counts().failures);
        drop(auto);
        assert_eq!((pool.available(), pool.holders()), (DEPTH, 1), "seed {seed}");
    }
    assert!(redone > 1_000 && failures > 100, "{redone} {failures}");
}

/// A file of known bytes, and a target on it.
fn file() -> (tempfile::TempDir, Target, Vec<u8>) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("data");
    iopj_engine::target::make_file(&path, 1 << 20, &mut |_| true).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    (folder, Target::open(&path).unwrap(), bytes)
}

#[test]
fn real_engines_change_ten_thousand_times_while_reads_are_in_flight() {
    const LENS: [u32; 4] = [512, 4096, 8192, 16384];
    let (_folder, target, bytes) = file();
    let pool = Pool::new(2, 16384).unwrap();
    let epochs = Epochs { ios: 1, ns: 0, burst_ios: 1 };
    let builder = Auto::builder().random_switching(5).iodepth(2).epochs(epochs);
    let mut auto = builder.open(&target, &pool).unwrap();
    let kinds = LENS.map(|len| Kind::new(Direction::Read, len));
    let (mut routes, mut switches) = (kinds.map(|kind| auto.route(kind)), 0);
    let (mut number, mut next, mut flying) = (numbers(9), 0, HashMap::new());
    while switches < SWITCHES {
        for _ in 0..number() % 2 + 1 {
            let Some(buffer) = pool.acquire() else { break };
            let len = LENS[next as usize % LENS.len()];
            let offset = target.data_offset() + number() % 63 * 16384;
            auto.push(Request::read(buffer, len, offset).tagged(next)).unwrap();
            flying.insert(next, (offset as usize, len as usize));
            next += 1;
        }
        let land = |completion: Completion| {
            let (at, len) = flying.remove(&completion.tag).expect("it was in flight, once");
            assert_eq!(completion.result, Ok(len as u32));
            assert_eq!(completion.buffer().unwrap()[..len], bytes[at..at + len]);
        };
        auto.wait(1, None, land).unwrap();
        let now = kinds.map(|kind| auto.route(kind));
        switches += now.iter().zip(&routes).filter(|(now, before)| now != before).count() as u32;
        routes = now;
    }
    let counts = auto.counts();
    for way in [Way::Interrupt, Way::Sqpoll, Way::Sio] {
        assert!(counts.by_way[way as usize] > 100, "{way}: {counts:?}");
    }
    assert_eq!((counts.failures, counts.redone), (0, 0));
}

/// A ring that polls opens on any file; that the file's disk cannot be polled shows with the first read.
#[test]
fn a_real_way_that_refuses_every_read_is_left() {
    let (_folder, target, bytes) = file();
    if available(&target).iter().any(|(way, state)| *way == Way::Poll && state.is_available()) {
        return; // the disk can be polled, and nothing refuses
    }
    let pool = Pool::new(DEPTH, 4096).unwrap();
    let policy = "[[cell]]\nop = \"read\"\nsize = 4096\nin_flight = 4\nways = [\
                  { way = \"io_uring/syscall/poll\" }]";
    let builder = Auto::builder().policy(policy.parse().unwrap()).iodepth(DEPTH);
    let mut auto = builder.among(&[Way::Interrupt, Way::Poll]).open(&target, &pool).unwrap();
    assert_eq!(auto.route(Kind::new(Direction::Read, 4096)), Way::Poll);
    let mut done = 0;
    for block in 0..200 {
        let Some(buffer) = pool.acquire() else { panic!("every buffer came back") };
        let offset = target.data_offset() + block * 4096;
        auto.push(Request::read(buffer, 4096, offset).tagged(offset)).unwrap();
        let min = usize::from(auto.in_flight() == DEPTH as usize);
        let mut see = |completion: Completion| {
            assert_eq!(completion.result, Ok(4096));
            assert_eq!(completion.buffer().unwrap()[..], bytes[completion.tag as usize..][..4096]);
        };
        done += auto.wait(min, None, &mut see).unwrap();
        if block == 199 {
            done += auto.wait(usize::MAX, None, &mut see).unwrap();
        }
    }
    let counts = auto.counts();
    assert_eq!(
        (done, counts.failures, auto.route(Kind::new(Direction::Read, 4096))),
        (200, 1, Way::Interrupt)
    );
    assert!(counts.redone >= 16, "{counts:?}");
}

/// The system call blocks, so a second request takes the first one off it.
#[test]
fn the_synchronous_way_is_left_where_a_second_request_comes() {
    let (_folder, target, bytes) = file();
    let pool = Pool::new(4, 4096).unwrap();
    let policy = "[[cell]]\nop = \"read\"\nsize = 4096\nin_flight = 1\nways = [\
                  { way = \"posix-sio/syscall/interrupt\" }]";
    let policy = Policy { exploration: 0.0, ..policy.parse().unwrap() };
    let mut auto = Auto::builder().policy(policy).iodepth(4).open(&target, &pool).unwrap();
    // It begins as if four were in flight, for which there is no synchronous way.
    let read = |auto: &mut Auto, count: u64| {
        for block in 0..count {
            let offset = target.data_offset() + block * 4096;
            auto.push(Request::read(pool.acquire().unwrap(), 4096, offset).tagged(offset)).unwrap();
        }
        let found = auto.wait(count as usize, None, |completion| {
            let at = completion.tag as usize;
            assert_eq!(completion.buffer().unwrap()[..], bytes[at..at + 4096]);
        });
        assert_eq!((found.unwrap(), auto.in_flight()), (count as usize, 0));
    };
    assert_eq!(auto.route(Kind::new(Direction::Read, 4096)), Way::Interrupt);
    while auto.route(Kind::new(Direction::Read, 4096)) != Way::Sio {
        read(&mut auto, 1);
        assert!(auto.counts().by_way[Way::Interrupt as usize] < 50_000, "{:?}", auto.counts());
    }
    let calls = |auto: &Auto| auto.counters().submit_calls;
    let before = calls(&auto);
    read(&mut auto, 1);
    assert_eq!(calls(&auto) - before, 1, "one system call for one read");
    let before = calls(&auto);
    read(&mut auto, 3);
    assert_eq!(calls(&auto) - before, 1, "one for three that go by the ring");
}
