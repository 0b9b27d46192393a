//! One suite for every engine: each interface that this machine has, on each kind of target that it
//! has, and the simulated engine.

mod subjects;

use iopj_engine::sim::{Sim, SimOptions};
use iopj_engine::{Completion, Engine, IoError, Op, Pool, Request, Slot};
use std::collections::HashSet;
use std::rc::Rc;
use std::time::{Duration, Instant};
use subjects::{Subject, subjects};

const BLOCK: u32 = 4096;
const DEPTH: u32 = 8;

fn read(slot: u32, offset: u64, tag: u64) -> Request {
    Request { op: Op::Read, slot: Slot(slot), len: BLOCK, offset, tag }
}

fn wait(engine: &mut dyn Engine, min: usize) -> Vec<Completion> {
    let mut done = Vec::with_capacity(DEPTH as usize);
    engine.wait(min, &mut done).unwrap();
    done
}

/// A small generator of numbers, for tests that need many of them.
fn numbers(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}

fn reads_the_bytes_of_its_offset(subject: &Subject) {
    let pool = Pool::new(1, BLOCK).unwrap();
    let mut engine = subject.open(&pool, 1);
    for block in [0, 1, 7, subject.blocks() - 1] {
        assert_eq!(engine.push(&[read(0, subject.offset(block), block)]).unwrap(), 1);
        assert_eq!(engine.in_flight(), 1);
        let done = wait(&mut *engine, 1);
        assert_eq!(done, [Completion { tag: block, slot: Slot(0), result: Ok(BLOCK) }]);
        assert_eq!(&pool.borrow(Slot(0)).unwrap()[..], subject.expected(block), "block {block}");
        assert_eq!(engine.in_flight(), 0);
    }
}

fn every_request_completes_once(subject: &Subject) {
    let depth = subject.depth(DEPTH);
    let pool = Pool::new(depth, BLOCK).unwrap();
    let mut engine = subject.open(&pool, depth);
    let mut number = numbers(1);
    let mut free: Vec<u32> = (0..depth).collect();
    let mut flying: HashSet<(u64, Slot)> = HashSet::new();
    let (mut next_tag, mut ended) = (0u64, 0);
    while ended < 500 {
        let burst = (number() as usize % (free.len() + 1)).min(500 - ended);
        for _ in 0..burst {
            let slot = free.pop().unwrap();
            let request = read(slot, subject.offset(number() % subject.blocks()), next_tag);
            assert_eq!(engine.push(&[request]).unwrap(), 1);
            assert!(flying.insert((next_tag, Slot(slot))));
            next_tag += 1;
        }
        if number().is_multiple_of(3) {
            engine.submit().unwrap();
        }
        let min = number() as usize % (flying.len() + 1);
        let done = wait(&mut *engine, min);
        assert!(done.len() >= min, "{} of at least {min}", done.len());
        for completion in done {
            assert!(flying.remove(&(completion.tag, completion.slot)), "{completion:?} was not in flight");
            assert_eq!(completion.result, Ok(BLOCK));
            free.push(completion.slot.0);
            ended += 1;
        }
        assert_eq!(engine.in_flight(), flying.len());
    }
}

fn takes_no_more_than_its_depth_and_gives_no_more_than_there_is_room(subject: &Subject) {
    let depth = subject.depth(4);
    let pool = Pool::new(depth + 2, BLOCK).unwrap();
    let mut engine = subject.open(&pool, depth);
    let requests: Vec<Request> =
        (0..depth + 2).map(|slot| read(slot, subject.offset(slot.into()), slot.into())).collect();
    assert_eq!(engine.push(&requests).unwrap(), depth as usize);
    let mut done = Vec::with_capacity(1);
    let mut seen = 0;
    while engine.in_flight() > 0 {
        done.clear();
        engine.wait(usize::MAX, &mut done).unwrap();
        assert_eq!(done.len(), 1, "`wait` waits for what there is room for");
        seen += 1;
    }
    assert_eq!(seen, depth);
    assert_eq!(wait(&mut *engine, 1), [], "nothing in flight: nothing to wait for");
    assert_eq!(wait(&mut *engine, 0), []);
}

fn a_slot_in_flight_belongs_to_the_engine(subject: &Subject) {
    let depth = subject.depth(2);
    let pool = Pool::new(2, BLOCK).unwrap();
    let mut engine = subject.open(&pool, depth);
    engine.push(&[read(0, subject.offset(0), 0)]).unwrap();
    assert!(pool.borrow(Slot(0)).is_err());
    if depth > 1 {
        assert!(engine.push(&[read(0, subject.offset(0), 1)]).is_err(), "the slot is in flight already");
    }
    assert_eq!(wait(&mut *engine, 1).len(), 1);
    let guard = pool.borrow(Slot(0)).unwrap();
    assert!(engine.push(&[read(0, subject.offset(0), 2)]).is_err(), "the slot is borrowed");
    drop(guard);
    assert!(engine.push(&[read(9, subject.offset(0), 3)]).is_err(), "no such slot");
    let long = Request { len: 2 * BLOCK, ..read(1, subject.offset(0), 4) };
    assert!(engine.push(&[long]).is_err(), "longer than a slot");
    engine.push(&[read(1, subject.offset(1), 5)]).unwrap();
    assert_eq!(wait(&mut *engine, 1)[0].tag, 5, "a refused request leaves the engine usable");
}

fn failed_and_short_requests_say_so(subject: &Subject) {
    let pool = Pool::new(1, BLOCK).unwrap();
    let mut engine = subject.open(&pool, 1);
    engine.push(&[Request { len: 100, ..read(0, subject.offset(0) + 1, 0) }]).unwrap();
    let done = wait(&mut *engine, 1);
    assert_eq!(done.len(), 1);
    assert_eq!(done[0].result, Err(IoError::Os(libc::EINVAL)), "not aligned");
    engine.push(&[read(0, subject.end(), 1)]).unwrap();
    assert_eq!(wait(&mut *engine, 1)[0].result, Ok(0), "at the end");
    if subject.end().is_multiple_of(u64::from(BLOCK)) && subject.is_file() {
        engine.push(&[read(0, subject.end() - 512, 2)]).unwrap();
        assert_eq!(wait(&mut *engine, 1)[0].result, Ok(512), "across the end");
    }
    engine.push(&[read(0, subject.offset(0), 3)]).unwrap();
    assert_eq!(wait(&mut *engine, 1)[0].result, Ok(BLOCK), "and goes on");
}

fn a_dropped_engine_returns_what_was_in_flight(subject: &Subject) {
    let depth = subject.depth(DEPTH);
    let pool = Pool::new(depth, BLOCK).unwrap();
    for submit in [false, true] {
        let mut engine = subject.open(&pool, depth);
        let requests: Vec<Request> =
            (0..depth).map(|slot| read(slot, subject.offset(slot.into()), 0)).collect();
        engine.push(&requests).unwrap();
        if submit {
            engine.submit().unwrap();
        }
        drop(engine);
        for slot in 0..depth {
            pool.borrow(Slot(slot)).unwrap_or_else(|error| panic!("{}: {error}", subject.name));
        }
    }
    assert_eq!(Rc::strong_count(&pool), 1, "no engine holds the pool any more");
}

fn a_forked_child_ends_none_of_its_parents_requests(subject: &Subject) {
    let depth = subject.depth(DEPTH);
    let pool = Pool::new(depth, BLOCK).unwrap();
    let mut engine = subject.open(&pool, depth);
    let requests: Vec<Request> =
        (0..depth).map(|slot| read(slot, subject.offset(slot.into()), slot.into())).collect();
    assert_eq!(engine.push(&requests).unwrap(), depth as usize);
    engine.submit().unwrap();
    // SAFETY: the child only drops what it has a copy of, and ends without running anything else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let begun = Instant::now();
        drop((engine, pool));
        let at_once = begun.elapsed() < Duration::from_secs(1);
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!at_once)) }
    }
    let mut status = 1;
    // SAFETY: `status` lives through the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child waited for its parent's requests");
    let mut seen = 0;
    while seen < depth as usize {
        seen += wait(&mut *engine, 1).len();
    }
    assert_eq!(engine.in_flight(), 0);
    if subject.path.is_some() {
        let last = depth - 1;
        assert_eq!(&pool.borrow(Slot(last)).unwrap()[..], subject.expected(last.into()));
    }
}

fn a_forgotten_engine_keeps_its_pool(subject: &Subject) {
    let pool = Pool::new(1, BLOCK).unwrap();
    let mut engine = subject.open(&pool, 1);
    engine.push(&[read(0, subject.offset(0), 0)]).unwrap();
    engine.submit().unwrap();
    std::mem::forget(engine);
    assert_eq!(Rc::strong_count(&pool), 2);
}

fn two_engines_share_one_pool(subject: &Subject) {
    let depth = subject.depth(4);
    let pool = Pool::new(2 * depth, BLOCK).unwrap();
    let (mut first, mut second) = (subject.open(&pool, depth), subject.open(&pool, depth));
    for slot in 0..depth {
        first.push(&[read(slot, subject.offset(slot.into()), slot.into())]).unwrap();
        second.push(&[read(depth + slot, subject.offset(slot.into()), slot.into())]).unwrap();
    }
    assert_eq!(first.push(&[read(depth, subject.offset(0), 0)]).unwrap_or(0), 0, "the other engine's slot");
    let (mut one, mut two) = (Vec::new(), Vec::new());
    while one.len() < depth as usize || two.len() < depth as usize {
        one.extend(wait(&mut *first, 1));
        two.extend(wait(&mut *second, 1));
    }
    for slot in 0..depth {
        let expected = subject.expected(slot.into());
        assert_eq!(&pool.borrow(Slot(slot)).unwrap()[..], expected);
        assert_eq!(&pool.borrow(Slot(depth + slot)).unwrap()[..], expected);
    }
}

fn writes_reach_the_target(subject: &Subject) {
    let Some(writable) = subject.writable() else { return };
    let depth = subject.depth(4);
    let pool = Pool::new(depth, BLOCK).unwrap();
    let mut engine = iopj_engine::open(subject.path.unwrap(), &writable, &pool, depth).unwrap();
    for slot in 0..depth {
        pool.borrow(Slot(slot)).unwrap().fill(0xa0 + slot as u8);
        let offset = subject.offset(u64::from(slot) * 3 + 1);
        engine.push(&[Request { op: Op::Write, ..read(slot, offset, slot.into()) }]).unwrap();
    }
    let mut done = Vec::new();
    while done.len() < depth as usize {
        done.extend(wait(&mut *engine, 1));
    }
    assert!(done.iter().all(|completion| completion.result == Ok(BLOCK)), "{done:?}");
    let now = subject.contents();
    for block in 0..u64::from(3 * depth) {
        let start = subject.offset(block) as usize;
        let bytes = &now[start..start + BLOCK as usize];
        if block % 3 == 1 {
            assert!(bytes.iter().all(|byte| *byte == 0xa0 + (block / 3) as u8), "block {block} was written");
        } else {
            assert_eq!(bytes, subject.expected(block), "block {block} was not");
        }
    }
    subject.put_back();
}

fn a_write_that_was_only_pushed_does_not_happen(subject: &Subject) {
    let Some(writable) = subject.writable() else { return };
    let depth = subject.depth(4);
    let pool = Pool::new(depth, BLOCK).unwrap();
    let mut engine = iopj_engine::open(subject.path.unwrap(), &writable, &pool, depth).unwrap();
    for slot in 0..depth {
        pool.borrow(Slot(slot)).unwrap().fill(0x5a);
        engine.push(&[Request { op: Op::Write, ..read(slot, subject.offset(slot.into()), 0) }]).unwrap();
    }
    drop(engine);
    for slot in 0..depth {
        assert!(pool.borrow(Slot(slot)).is_ok(), "slot {slot} is free again");
    }
    let now = subject.contents();
    for block in 0..u64::from(depth) {
        let start = subject.offset(block) as usize;
        assert_eq!(&now[start..start + BLOCK as usize], subject.expected(block), "block {block}");
    }
}

fn facts_count_system_calls(subject: &Subject) {
    let pool = Pool::new(1, BLOCK).unwrap();
    let mut engine = subject.open(&pool, 1);
    for tag in 0..10 {
        engine.push(&[read(0, subject.offset(tag), tag)]).unwrap();
        assert_eq!(wait(&mut *engine, 1).len(), 1);
    }
    let facts = engine.facts();
    if subject.name.contains("sqpoll") {
        assert_eq!(facts.submit_calls, 0, "the kernel thread submits");
    } else if subject.path.is_some() {
        assert_eq!(facts.submit_calls, 10, "{facts:?}");
    }
    match facts.system_calls {
        Some(calls) => assert!(calls >= facts.submit_calls + facts.wakeups, "{facts:?}"),
        None => assert!(subject.name.starts_with("posix-aio"), "{facts:?}"),
    }
}

#[test]
fn every_engine_conforms() {
    type Test = (&'static str, fn(&Subject));
    let tests: [Test; 11] = [
        ("reads_the_bytes_of_its_offset", reads_the_bytes_of_its_offset),
        ("every_request_completes_once", every_request_completes_once),
        (
            "takes_no_more_than_its_depth_and_gives_no_more_than_there_is_room",
            takes_no_more_than_its_depth_and_gives_no_more_than_there_is_room,
        ),
        ("a_slot_in_flight_belongs_to_the_engine", a_slot_in_flight_belongs_to_the_engine),
        ("failed_and_short_requests_say_so", failed_and_short_requests_say_so),
        ("a_dropped_engine_returns_what_was_in_flight", a_dropped_engine_returns_what_was_in_flight),
        (
            "a_forked_child_ends_none_of_its_parents_requests",
            a_forked_child_ends_none_of_its_parents_requests,
        ),
        ("a_forgotten_engine_keeps_its_pool", a_forgotten_engine_keeps_its_pool),
        ("two_engines_share_one_pool", two_engines_share_one_pool),
        ("a_write_that_was_only_pushed_does_not_happen", a_write_that_was_only_pushed_does_not_happen),
        ("writes_reach_the_target", writes_reach_the_target),
    ];
    for subject in subjects() {
        eprintln!("{}", subject.name);
        for (name, test) in tests {
            if subject.path.is_some() || subject.sim_can(name) {
                eprintln!("  {name}");
                test(&subject);
            }
        }
        facts_count_system_calls(&subject);
    }
}

#[test]
fn sim_repeats_by_its_seed_and_reorders() {
    let run = |seed| {
        let pool = Pool::new(DEPTH, BLOCK).unwrap();
        let options =
            SimOptions { seed, latency_steps: 20, short_ppm: 100_000, error_ppm: 100_000, never_ppm: 0 };
        let mut engine = Sim::open(&pool, DEPTH, options);
        let mut log = Vec::new();
        for tag in 0..400 {
            let busy: HashSet<u32> = (0..DEPTH).filter(|slot| pool.borrow(Slot(*slot)).is_err()).collect();
            let slot = (0..DEPTH).find(|slot| !busy.contains(slot)).unwrap();
            engine.push(&[read(slot, 0, tag)]).unwrap();
            let min = usize::from(engine.in_flight() == DEPTH as usize);
            log.extend(wait(&mut engine, min));
        }
        log
    };
    let log = run(3);
    assert_eq!(log, run(3));
    assert_ne!(log, run(4));
    assert!(log.windows(2).any(|pair| pair[0].tag > pair[1].tag), "reordered");
    for result in [Ok(BLOCK), Ok(BLOCK / 2), Err(IoError::Os(libc::EIO))] {
        assert!(log.iter().any(|completion| completion.result == result), "{result:?}");
    }
}

#[test]
fn a_request_that_never_completes_is_leaked_with_its_pool() {
    let pool = Pool::new(2, BLOCK).unwrap();
    let mut engine = Sim::open(&pool, 2, SimOptions { never_ppm: 1_000_000, ..SimOptions::default() });
    engine.push(&[read(0, 0, 0)]).unwrap();
    assert_eq!(wait(&mut engine, 1), []);
    drop(engine);
    assert_eq!(Rc::strong_count(&pool), 2, "the pool outlives the kernel's hold on it");
    assert!(pool.borrow(Slot(0)).is_err(), "the slot is in flight forever");
    assert!(pool.borrow(Slot(1)).is_ok());
}
