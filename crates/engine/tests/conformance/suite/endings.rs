//! How engines wait and end: deadlines, panics of a sink, drop, close, fork.

use super::subjects::Subject;
use super::{BLOCK, DEPTH, Test, all, wait};
use iopj_engine::{Completion, DynEngine, Engine, Pool, Request};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

pub(super) const TESTS: [Test; 8] = [
    ("a_dropped_engine_returns_what_was_in_flight", a_dropped_engine_returns_what_was_in_flight),
    ("a_closed_engine_tells_that_nothing_is_left", a_closed_engine_tells_that_nothing_is_left),
    ("a_forked_child_ends_none_of_its_parents_requests", a_forked_child_ends_none_of_its_parents_requests),
    ("a_forgotten_engine_keeps_its_pool", a_forgotten_engine_keeps_its_pool),
    ("a_deadline_that_is_over_ends_a_wait", a_deadline_that_is_over_ends_a_wait),
    ("a_sink_that_panics_sees_no_completion_twice", a_sink_that_panics_sees_no_completion_twice),
    ("reap_hands_out_what_is_complete", reap_hands_out_what_is_complete),
    ("a_descriptor_is_readable_when_there_is_something", a_descriptor_is_readable_when_there_is_something),
];

/// An engine with as many reads pushed as it takes.
fn full(subject: &Subject, pool: &Pool, depth: u32) -> Box<dyn DynEngine> {
    let mut engine = subject.open(pool, depth);
    for (block, buffer) in (0..depth.into()).zip(all(pool)) {
        engine.push(Request::read(buffer, BLOCK, subject.offset(block)).tagged(block)).unwrap();
    }
    engine
}

fn a_dropped_engine_returns_what_was_in_flight(subject: &Subject) {
    let depth = subject.depth(DEPTH);
    let pool = Pool::new(depth, BLOCK).unwrap();
    for submit in [false, true] {
        let mut engine = full(subject, &pool, depth);
        if submit {
            engine.submit().unwrap();
        }
        drop(engine);
        assert_eq!(pool.available(), depth, "{}", subject.name);
    }
    assert_eq!(pool.holders(), 1, "no engine holds the pool any more");
}

fn a_closed_engine_tells_that_nothing_is_left(subject: &Subject) {
    let depth = subject.depth(DEPTH);
    let pool = Pool::new(2 * depth, BLOCK).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    // Two of them with one deadline.
    for mut engine in [subject.open(&pool, depth), subject.open(&pool, depth)] {
        for block in 0..u64::from(depth) {
            let buffer = pool.acquire().unwrap();
            engine.push(Request::read(buffer, BLOCK, subject.offset(block))).unwrap();
        }
        engine.submit().unwrap();
        engine.close(until).unwrap();
    }
    assert_eq!((pool.available(), pool.holders()), (2 * depth, 1));
}

fn a_forked_child_ends_none_of_its_parents_requests(subject: &Subject) {
    let depth = subject.depth(DEPTH);
    let pool = Pool::new(depth, BLOCK).unwrap();
    let mut engine = full(subject, &pool, depth);
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
    let mut done: Vec<Completion> = Vec::new();
    while done.len() < depth as usize {
        done.extend(wait(&mut engine, 1));
    }
    assert_eq!(engine.in_flight(), 0);
    if subject.path.is_some() {
        for completion in done {
            assert_eq!(&completion.buffer().unwrap()[..], subject.expected(completion.tag));
        }
    }
}

fn a_forgotten_engine_keeps_its_pool(subject: &Subject) {
    let pool = Pool::new(1, BLOCK).unwrap();
    let mut engine = full(subject, &pool, 1);
    engine.submit().unwrap();
    std::mem::forget(engine);
    assert!(pool.holders() > 1);
}

/// With a time that is over, a wait ends whatever is in flight, and loses nothing.
fn a_deadline_that_is_over_ends_a_wait(subject: &Subject) {
    let depth = subject.depth(DEPTH);
    let pool = Pool::new(depth, BLOCK).unwrap();
    let mut engine = full(subject, &pool, depth);
    let mut seen = Vec::new();
    let past = Instant::now();
    engine.wait(depth as usize, Some(past), |completion| seen.push(completion.tag)).unwrap();
    let ahead = Instant::now() + Duration::from_secs(60);
    while seen.len() < depth as usize {
        let found = engine.wait(1, Some(ahead), |completion| seen.push(completion.tag)).unwrap();
        assert!(found > 0 && Instant::now() < ahead, "{}", subject.name);
    }
    seen.sort_unstable();
    assert_eq!(seen, Vec::from_iter(0..u64::from(depth)));
    assert_eq!(engine.wait(1, Some(ahead), |_| {}).unwrap(), 0, "nothing is in flight");
}

fn a_sink_that_panics_sees_no_completion_twice(subject: &Subject) {
    let depth = subject.depth(DEPTH);
    let pool = Pool::new(depth, BLOCK).unwrap();
    let mut engine = full(subject, &pool, depth);
    let mut seen = Vec::new();
    // Quietly: each panic is meant.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    while engine.in_flight() > 0 {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            engine.wait(1, None, |completion| {
                seen.push(completion.tag);
                panic!("at every completion");
            })
        }));
        assert!(caught.is_err());
    }
    std::panic::set_hook(hook);
    seen.sort_unstable();
    assert_eq!(seen, Vec::from_iter(0..u64::from(depth)), "{}", subject.name);
    assert_eq!(pool.available(), depth, "the buffers are back");
}

fn reap_hands_out_what_is_complete(subject: &Subject) {
    let depth = subject.depth(DEPTH);
    let pool = Pool::new(depth, BLOCK).unwrap();
    let mut engine = full(subject, &pool, depth);
    assert_eq!(engine.reap(|_| panic!("nothing was submitted")).unwrap(), 0);
    engine.submit().unwrap();
    let (mut seen, begun) = (0, Instant::now());
    while seen < depth as usize {
        seen += engine.reap(|completion| assert_eq!(completion.result, Ok(BLOCK))).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", subject.name);
    }
    assert_eq!(engine.in_flight(), 0);
}

fn is_readable(fd: BorrowedFd<'_>, ms: i32) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives through the call.
    unsafe { libc::poll(&raw mut poll, 1, ms) == 1 }
}

fn a_descriptor_is_readable_when_there_is_something(subject: &Subject) {
    let depth = subject.depth(DEPTH);
    let pool = Pool::new(depth, BLOCK).unwrap();
    let mut engine = full(subject, &pool, depth);
    let is_ring = subject.name.starts_with("io_uring") && subject.name.contains("interrupt");
    assert_eq!(engine.descriptor().is_some(), is_ring, "{}", subject.name);
    if !is_ring {
        return;
    }
    assert!(!is_readable(engine.descriptor().unwrap(), 0), "nothing was submitted");
    engine.submit().unwrap();
    let mut seen = 0;
    while seen < depth as usize {
        assert!(is_readable(engine.descriptor().unwrap(), 60_000), "{}", subject.name);
        seen += engine.reap(|_| {}).unwrap();
    }
    assert_eq!(engine.reap(|_| {}).unwrap(), 0, "all were handed out");
    assert!(!is_readable(engine.descriptor().unwrap(), 0));
    // One at a time: nothing is there when the wait begins.
    for block in 0..8 {
        let buffer = pool.acquire().unwrap();
        engine.push(Request::read(buffer, BLOCK, subject.offset(block))).unwrap();
        engine.submit().unwrap();
        let begun = Instant::now();
        while engine.reap(|_| {}).unwrap() == 0 {
            assert!(is_readable(engine.descriptor().unwrap(), 60_000), "{}", subject.name);
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{}: woken by the time limit", subject.name);
    }
    // Asked for late: what has completed by then is announced.
    let mut late = full(subject, &pool, depth);
    late.submit().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let begun = Instant::now();
    assert!(is_readable(late.descriptor().unwrap(), 60_000));
    assert!(begun.elapsed() < Duration::from_secs(30), "{}: woken by the time limit", subject.name);
}
