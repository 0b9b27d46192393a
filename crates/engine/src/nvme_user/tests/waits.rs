//! Waits with a deadline, waits whose sink panics, and changes of how an engine waits.

use super::{Behaviour, Bench, Limits, Setup, StopAtEnd, read, result, wait};
use crate::engine::Engine;
use crate::nvme_user::NvmeUser;
use crate::pool::Pool;
use crate::request::IoError;
use iopj_path::{Sleep, Spin, UserCompletion};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const POLL: UserCompletion = UserCompletion::Poll(Spin::Tight);
const HYBRID: UserCompletion = UserCompletion::Hybrid(Sleep::Auto, Spin::Tight);

/// A drive that takes commands only when the simulation is asked to poll, except the first.
fn lazy() -> Behaviour {
    Behaviour { shadow: true, never_wants_doorbells: true, ..Behaviour::default() }
}

/// An engine that polls and can change to interrupts.
fn switching(bench: &Bench, pool: &Pool, iodepth: u32) -> NvmeUser {
    NvmeUser::builder().switches().iodepth(iodepth).open(&bench.target(false), pool).unwrap()
}

/// True if the descriptor of an engine is readable.
fn is_readable(engine: &impl Engine) -> bool {
    let descriptor = engine.descriptor().expect("the engine interrupts");
    let mut fds = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
}

/// Waits by deadlines in this mode for a command that hangs. A deadline that is missed fails within seconds,
/// when the command is aborted.
fn wait_by_deadlines(mode: &str) {
    let late = Duration::from_secs(if cfg!(miri) { 100 } else { 5 });
    let limits = Limits { command: late, abort: late, feature: late };
    let behaviour = Behaviour { hangs: true, ..Behaviour::default() };
    let bench = Bench::start(behaviour, &Setup { limits, ..Setup::default() });
    let (pool, mut engine) = bench.engine(mode, 1, 512);
    engine.push(read(&pool, 0, 1)).unwrap();
    for limit in [10, 10, 0] {
        let until = Instant::now() + Duration::from_millis(limit);
        let found = engine.wait(1, Some(until), |one| panic!("{mode}: {one:?}")).unwrap();
        assert!(Instant::now() >= until, "{mode}");
        assert_eq!((found, engine.in_flight(), pool.available()), (0, 1, 0), "{mode}");
    }
    bench.sim.behave(|behaviour| behaviour.gone = true);
    let done = wait(&mut engine, 1).unwrap();
    assert_eq!((done[0].tag, done[0].result), (100, Err(IoError::Os(libc::ENODEV))), "{mode}");
    drop((engine, done));
    assert_eq!((pool.available(), pool.holders()), (1, 1), "{mode}");
}

#[test]
fn a_deadline_ends_a_wait_and_the_command_stays_in_flight() {
    wait_by_deadlines("poll");
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no prctl")]
fn a_deadline_ends_a_wait_that_sleeps_before_it_polls() {
    for mode in ["hybrid", "hybrid:30us", "hybrid:1000us"] {
        wait_by_deadlines(mode);
    }
}

#[test]
fn a_deadline_ends_a_wait_for_an_interrupt() {
    wait_by_deadlines("interrupt");
}

#[test]
fn a_deadline_does_not_hold_back_what_is_complete() {
    let bench = Bench::new(Behaviour::default());
    let (pool, mut engine) = bench.engine("poll", 3, 512);
    engine.push(read(&pool, 0, 1)).unwrap();
    engine.submit().unwrap();
    bench.sim.behave(|behaviour| behaviour.hangs = true);
    engine.push(read(&pool, 0, 1)).unwrap();
    let mut tags = Vec::new();
    let until = Instant::now() + Duration::from_millis(10);
    assert_eq!(engine.wait(2, Some(until), |one| tags.push(one.tag)).unwrap(), 1);
    assert!(Instant::now() >= until);
    assert_eq!((tags, engine.in_flight()), (vec![100], 1));
    // A deadline in the past is no reason to hand out nothing.
    bench.sim.behave(|behaviour| behaviour.hangs = false);
    engine.push(read(&pool, 0, 1)).unwrap();
    assert_eq!(engine.wait(1, Some(until), |one| assert_eq!(one.result, Ok(512))).unwrap(), 1);
    engine.close(Instant::now()).unwrap();
    assert_eq!(pool.available(), 3);
    bench.close();
}

/// Calls `wait(min)` with a sink that panics at the completion of number `at`; the tags that it saw.
fn wait_and_panic(engine: &mut impl Engine, min: usize, at: usize) -> Vec<u64> {
    let mut tags = Vec::new();
    let waited = catch_unwind(AssertUnwindSafe(|| {
        engine.wait(min, None, |completion| {
            tags.push(completion.tag);
            if tags.len() == at {
                resume_unwind(Box::new("of the test")); // as a panic, without a message
            }
        })
    }));
    assert_eq!(waited.unwrap_err().downcast_ref(), Some(&"of the test"));
    tags
}

#[test]
fn a_sink_that_panics_sees_no_completion_twice() {
    let bench = Bench::new(Behaviour { most_entries: Some(8), ..Behaviour::default() });
    let (pool, mut engine) = bench.engine("poll", 4, 512);
    for round in 0..20 {
        for block in 0..4 {
            engine.push(read(&pool, block, 1).tagged(block)).unwrap();
        }
        assert_eq!(wait_and_panic(&mut engine, 4, 2), [0, 1], "round {round}");
        assert_eq!((engine.in_flight(), pool.available()), (2, 2), "the buffers are back");
        let mut rest = Vec::new();
        match round % 2 {
            0 => assert_eq!(engine.wait(4, None, |one| rest.push(one)).unwrap(), 2),
            _ => assert_eq!(engine.reap(|one| rest.push(one)).unwrap(), 2),
        }
        let ends: Vec<_> = rest.iter().map(|one| (one.tag, one.result)).collect();
        assert_eq!(ends, [(2, Ok(512)), (3, Ok(512))], "round {round}");
        drop(rest);
        assert_eq!((engine.in_flight(), pool.available()), (0, 4));
    }
    drop(engine);
    bench.close();
}

/// Entries go back to the controller although no wait ends: otherwise the queue of 8 would overflow, which
/// the simulation notices.
#[test]
fn a_sink_that_always_panics_does_not_fill_the_completion_queue() {
    let bench = Bench::new(Behaviour { most_entries: Some(8), ..Behaviour::default() });
    let (pool, mut engine) = bench.engine("poll", 2, 512);
    for tag in 0..20 {
        engine.push(read(&pool, 0, 1).tagged(tag)).unwrap();
        assert_eq!(wait_and_panic(&mut engine, 1, 1), [tag]);
    }
    assert_eq!(result(&mut engine, read(&pool, 0, 1)), Ok(512));
    drop(engine);
    bench.close();
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no prctl, and its epoll waits for no other thread's write")]
fn an_engine_changes_how_it_waits_and_loses_nothing() {
    let bench = Bench::new(lazy());
    let pool = Pool::new(4, 512).unwrap();
    let mut engine = switching(&bench, &pool, 4);
    let (stop, sim) = (AtomicBool::new(false), Arc::clone(&bench.sim));
    std::thread::scope(|scope| {
        let _end = StopAtEnd(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(100));
                sim.poll();
            }
        });
        for round in 0..40 {
            // From polling to interrupts, to hybrid, and to polling again.
            for mode in [UserCompletion::Interrupt, HYBRID, POLL] {
                // These end before, during or after the change.
                for block in 0..2 {
                    engine.push(read(&pool, round + block, 1).tagged(block)).unwrap();
                }
                engine.submit().unwrap();
                std::thread::sleep(Duration::from_micros(50 * (round % 5)));
                engine.set_completion(mode).unwrap();
                for block in 2..4 {
                    engine.push(read(&pool, round + block, 1).tagged(block)).unwrap();
                }
                let done = wait(&mut engine, 4).unwrap();
                let tags: Vec<u64> = done.iter().map(|one| one.tag).collect();
                assert_eq!(tags, [0, 1, 2, 3], "{mode:?} in round {round}");
                for one in done {
                    assert_eq!(one.result, Ok(512), "{mode:?} in round {round}");
                    let expected = &bench.contents[(round + one.tag) as usize * 512..][..512];
                    assert!(one.buffer().unwrap()[..] == *expected, "{mode:?} in round {round}");
                }
            }
        }
    });
    drop(engine);
    assert_eq!((pool.available(), bench.close().reads), (4, 40 * 3 * 4));
}

#[test]
#[cfg_attr(miri, ignore = "Miri has neither prctl nor poll")]
fn a_drive_learns_at_once_what_was_taken_only_while_it_interrupts() {
    let bench = Bench::new(Behaviour::default());
    let pool = Pool::new(2, 512).unwrap();
    let mut engine = switching(&bench, &pool, 2);
    engine.set_completion(POLL).unwrap();
    let doorbells = |engine: &NvmeUser| engine.counters().completion_doorbells;
    let before = doorbells(&engine);
    for _ in 0..3 {
        assert_eq!(result(&mut engine, read(&pool, 0, 1)), Ok(512));
    }
    assert_eq!(doorbells(&engine), before);
    engine.set_completion(UserCompletion::Interrupt).unwrap();
    assert_eq!(doorbells(&engine), before + 1, "those that were taken before");
    assert_eq!(result(&mut engine, read(&pool, 0, 1)), Ok(512));
    assert_eq!(doorbells(&engine), before + 2);
    drop(engine);
    bench.close();
}

#[test]
#[cfg_attr(miri, ignore = "Miri has neither prctl nor poll")]
fn an_interrupt_that_was_held_back_comes_once_the_engine_waits_for_it() {
    let bench = Bench::new(lazy());
    let pool = Pool::new(2, 512).unwrap();
    let mut engine = switching(&bench, &pool, 2);
    // The first command rings the register, so it is no lazy one.
    assert_eq!(result(&mut engine, read(&pool, 0, 1)), Ok(512));
    for before in [POLL, HYBRID] {
        engine.set_completion(before).unwrap();
        assert!(engine.descriptor().is_none(), "nothing interrupts");
        engine.push(read(&pool, 0, 1)).unwrap();
        engine.submit().unwrap();
        bench.sim.poll();
        engine.set_completion(UserCompletion::Interrupt).unwrap();
        assert!(is_readable(&engine), "the interrupt that came while the vector was masked");
        assert_eq!(engine.reap(|one| assert_eq!(one.result, Ok(512))).unwrap(), 1);
        assert!(!is_readable(&engine), "it was read");
        engine.push(read(&pool, 0, 1)).unwrap();
        engine.submit().unwrap();
        assert!(!is_readable(&engine), "the command has not ended");
        bench.sim.poll();
        assert!(is_readable(&engine));
        assert_eq!(wait(&mut engine, 1).unwrap().len(), 1);
        engine.reap(|one| panic!("{one:?}")).unwrap();
    }
    // Nothing interrupts where nothing has ended.
    engine.set_completion(POLL).unwrap();
    engine.set_completion(UserCompletion::Interrupt).unwrap();
    assert!(!is_readable(&engine));
    drop(engine);
    bench.close();
}

/// The second engine gets the pair of the first, which polled when it was closed.
#[test]
#[cfg_attr(miri, ignore = "Miri has no poll")]
fn an_engine_on_a_pair_whose_vector_was_masked_is_interrupted() {
    let bench = Bench::new(lazy());
    let pool = Pool::new(1, 512).unwrap();
    drop(switching(&bench, &pool, 1));
    let mut engine = NvmeUser::builder().interrupt().open(&bench.target(false), &pool).unwrap();
    assert_eq!(result(&mut engine, read(&pool, 0, 1)), Ok(512));
    engine.push(read(&pool, 0, 1)).unwrap();
    engine.submit().unwrap();
    bench.sim.poll();
    assert!(is_readable(&engine));
    assert_eq!(wait(&mut engine, 1).unwrap().len(), 1);
    drop(engine);
    bench.close();
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no prctl")]
fn an_engine_without_a_vector_changes_to_all_but_interrupts() {
    let bench = Bench::new(Behaviour::default());
    let pool = Pool::new(1, 512).unwrap();
    let mut engine = NvmeUser::builder().open(&bench.target(false), &pool).unwrap();
    for mode in [HYBRID, POLL] {
        engine.set_completion(mode).unwrap();
        let message = engine.set_completion(UserCompletion::Interrupt).unwrap_err().to_string();
        assert!(message.contains("has no interrupt vector: poll instead"), "{message}");
        assert!(engine.descriptor().is_none());
        assert_eq!(result(&mut engine, read(&pool, 0, 1)), Ok(512), "the engine goes on");
    }
    drop(engine);
    bench.close();
}

#[test]
fn a_wait_in_its_callers_code_takes_nothing_where_a_doorbell_is_more_than_a_store() {
    let bench = Bench::new(Behaviour::default());
    let pool = Pool::new(1, 512).unwrap();
    let mut engine = NvmeUser::builder().open(&bench.target(false), &pool).unwrap();
    engine.push(read(&pool, 0, 1)).unwrap();
    assert_eq!(engine.wait_inline(0, |one| panic!("{one:?}")), Err(0));
    assert_eq!((engine.in_flight(), engine.counters().doorbells), (1, 0), "not submitted");
    assert_eq!(wait(&mut engine, 1).unwrap()[0].result, Ok(512));
    drop(engine);
    bench.close();
}
