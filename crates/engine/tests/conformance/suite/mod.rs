//! What every engine must do. The adaptive engine's tests have this folder as a module too.

mod endings;
pub(crate) mod model;
mod operations;
pub(crate) mod subjects;

use iopj_engine::{Buffer, Cause, Completion, Engine, Pool, Request};
use std::collections::HashSet;
use subjects::Subject;

pub(crate) const BLOCK: u32 = 4096;
pub(crate) const DEPTH: u32 = 8;

fn all(pool: &Pool) -> Vec<Buffer> {
    std::iter::from_fn(|| pool.acquire()).collect()
}

pub(crate) fn wait(engine: &mut impl Engine, min: usize) -> Vec<Completion> {
    let mut done = Vec::new();
    let found = engine.wait(min, None, |completion| done.push(completion)).unwrap();
    assert_eq!(found, done.len());
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
        let request = Request::read(pool.acquire().unwrap(), BLOCK, subject.offset(block)).tagged(block);
        engine.push(request).unwrap();
        assert_eq!((engine.in_flight(), pool.available()), (1, 0));
        let [completion] = <[Completion; 1]>::try_from(wait(&mut engine, 1)).unwrap();
        assert_eq!((completion.tag, completion.result), (block, Ok(BLOCK)));
        assert_eq!(&completion.buffer().unwrap()[..], subject.expected(block), "block {block}");
        assert_eq!(engine.in_flight(), 0);
    }
}

fn every_request_completes_once(subject: &Subject) {
    let depth = subject.depth(DEPTH);
    let pool = Pool::new(depth, BLOCK).unwrap();
    let mut engine = subject.open(&pool, depth);
    let mut number = numbers(1);
    let mut flying: HashSet<u64> = HashSet::new();
    let (mut next_tag, mut ended) = (0u64, 0);
    while ended < 500 {
        let burst = (number() as usize % (pool.available() as usize + 1)).min(500 - ended);
        for _ in 0..burst {
            let offset = subject.offset(number() % subject.blocks());
            let request = Request::read(pool.acquire().unwrap(), BLOCK, offset).tagged(next_tag);
            engine.push(request).unwrap();
            assert!(flying.insert(next_tag));
            next_tag += 1;
        }
        if number().is_multiple_of(3) {
            engine.submit().unwrap();
        }
        let min = number() as usize % (flying.len() + 1);
        let done = wait(&mut engine, min);
        assert!(done.len() >= min, "{} of at least {min}", done.len());
        for completion in done {
            assert!(flying.remove(&completion.tag), "{completion:?} was not in flight");
            assert_eq!(completion.result, Ok(BLOCK));
            ended += 1;
        }
        assert_eq!(engine.in_flight(), flying.len());
    }
    assert_eq!(pool.available() as usize + flying.len(), depth as usize, "every buffer is somewhere");
}

fn takes_no_more_than_its_depth(subject: &Subject) {
    let depth = subject.depth(4);
    let pool = Pool::new(depth + 1, BLOCK).unwrap();
    let mut engine = subject.open(&pool, depth);
    assert_eq!(engine.iodepth(), depth as usize);
    let mut buffers = all(&pool);
    let last = buffers.pop().unwrap();
    for (block, buffer) in (0..).zip(buffers) {
        engine.push(Request::read(buffer, BLOCK, subject.offset(block))).unwrap();
    }
    let refused = engine.push(Request::read(last, BLOCK, subject.offset(0)).tagged(99)).unwrap_err();
    assert!(matches!(refused.error().cause(), Cause::Full { iodepth } if *iodepth == depth as usize));
    let (request, _) = refused.into_parts();
    assert_eq!((request.tag, engine.in_flight()), (99, depth as usize), "the request comes back");
    let mut seen = 0;
    while engine.in_flight() > 0 {
        seen += wait(&mut engine, usize::MAX).len();
    }
    assert_eq!(seen, depth as usize);
    assert!(wait(&mut engine, 1).is_empty(), "nothing in flight: nothing to wait for");
    assert!(wait(&mut engine, 0).is_empty());
    engine.push(request).unwrap();
    assert_eq!(wait(&mut engine, 1)[0].tag, 99);
}

fn a_wrong_request_comes_back_with_its_buffer(subject: &Subject) {
    let (pool, other) = (Pool::new(1, BLOCK).unwrap(), Pool::new(1, BLOCK).unwrap());
    let mut engine = subject.open(&pool, 1);
    let stranger = Request::read(other.acquire().unwrap(), BLOCK, subject.offset(0));
    let refused = engine.push(stranger).unwrap_err();
    assert!(matches!(refused.error().cause(), Cause::OtherPool), "{refused}");
    assert_eq!(other.available(), 0, "the refusal has the buffer");
    drop(refused);
    assert_eq!(other.available(), 1);
    let mut buffer = pool.acquire().unwrap();
    let block = u64::from(subject.target().logical_block());
    for (len, offset, is_long) in
        [(2 * BLOCK, 0, true), (100, 0, false), (BLOCK, 1, false), (BLOCK, 100, false)]
    {
        if !is_long && subject.path.is_none() {
            continue; // the simulated engine has no blocks
        }
        let refused = engine.push(Request::read(buffer, len, subject.offset(0) + offset)).unwrap_err();
        match refused.error().cause() {
            Cause::TooLong { buffer_len, .. } => assert!(is_long && *buffer_len == BLOCK),
            Cause::Unaligned { block: found, .. } => assert!(!is_long && *found == block),
            other => panic!("{other:?}"),
        }
        assert_eq!(engine.in_flight(), 0);
        buffer = match refused.into_parts().0.operation.into_buffers() {
            iopj_engine::Buffers::One(buffer) => buffer,
            other => panic!("{other:?}"),
        };
    }
    engine.push(Request::read(buffer, BLOCK, subject.offset(0)).tagged(5)).unwrap();
    assert_eq!(wait(&mut engine, 1)[0].tag, 5, "a refused request leaves the engine usable");
}

fn short_requests_say_so(subject: &Subject) {
    let pool = Pool::new(1, BLOCK).unwrap();
    let mut engine = subject.open(&pool, 1);
    let mut read = |offset| {
        engine.push(Request::read(pool.acquire().unwrap(), BLOCK, offset)).unwrap();
        wait(&mut engine, 1)[0].result
    };
    assert_eq!(read(subject.end()), Ok(0), "at the end");
    if subject.end().is_multiple_of(u64::from(BLOCK)) && subject.is_file() {
        assert_eq!(read(subject.end() - 512), Ok(512), "across the end");
    }
    assert_eq!(read(subject.offset(0)), Ok(BLOCK), "and goes on");
}

fn several_engines_share_one_pool(subject: &Subject) {
    let depth = subject.depth(4);
    let pool = Pool::new(2 * depth, BLOCK).unwrap();
    let (mut first, mut second) = (subject.open(&pool, depth), subject.open(&pool, depth));
    for block in 0..u64::from(depth) {
        for engine in [&mut first, &mut second] {
            let buffer = pool.acquire().unwrap();
            engine.push(Request::read(buffer, BLOCK, subject.offset(block)).tagged(block)).unwrap();
        }
    }
    let (mut one, mut two) = (Vec::new(), Vec::new());
    while one.len() < depth as usize || two.len() < depth as usize {
        one.extend(wait(&mut first, 1));
        two.extend(wait(&mut second, 1));
    }
    for completion in one.iter().chain(&two) {
        assert_eq!(&completion.buffer().unwrap()[..], subject.expected(completion.tag));
    }
}

fn counters_count_system_calls(subject: &Subject) {
    let pool = Pool::new(1, BLOCK).unwrap();
    let mut engine = subject.open(&pool, 1);
    for block in 0..10 {
        engine.push(Request::read(pool.acquire().unwrap(), BLOCK, subject.offset(block))).unwrap();
        assert_eq!(wait(&mut engine, 1).len(), 1);
    }
    let counters = engine.counters();
    if subject.name.contains("sqpoll") {
        assert_eq!(counters.submit_calls, 0, "the kernel thread submits");
    } else if subject.path.is_some() {
        assert_eq!(counters.submit_calls, 10, "{counters:?}");
    }
    match counters.system_calls {
        Some(calls) => assert!(calls >= counters.submit_calls + counters.wakeups, "{counters:?}"),
        None => assert!(subject.name.starts_with("posix-aio"), "{counters:?}"),
    }
}

type Test = (&'static str, fn(&Subject));

/// Runs every test on every subject.
pub(crate) fn conform(subjects: &[Subject]) {
    let own: [Test; 7] = [
        ("reads_the_bytes_of_its_offset", reads_the_bytes_of_its_offset),
        ("every_request_completes_once", every_request_completes_once),
        ("takes_no_more_than_its_depth", takes_no_more_than_its_depth),
        ("a_wrong_request_comes_back_with_its_buffer", a_wrong_request_comes_back_with_its_buffer),
        ("short_requests_say_so", short_requests_say_so),
        ("several_engines_share_one_pool", several_engines_share_one_pool),
        ("counters_count_system_calls", counters_count_system_calls),
    ];
    for subject in subjects {
        eprintln!("{}", subject.name);
        for (name, test) in own.iter().chain(&endings::TESTS).chain(&operations::TESTS) {
            if subject.path.is_some() || subject.sim_can(name) {
                eprintln!("  {name}");
                test(subject);
            }
        }
    }
}
