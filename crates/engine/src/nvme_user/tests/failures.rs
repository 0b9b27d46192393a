//! Failed and hanging commands, failed and pulled controllers, and engines dropped in between.

use super::{Behaviour, Bench, ending, read, result, wait, write};
use crate::engine::{DynEngine, Engine};
use crate::pool::Pool;
use crate::request::{Completion, IoError, Request};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[test]
fn a_failed_command_completes_with_its_status() {
    let bench = Bench::new(Behaviour { status: 0x281, ..Behaviour::default() });
    let (pool, mut engine) = bench.engine("poll", 1, 512);
    assert_eq!(result(&mut engine, read(&pool, 0, 1)), Err(IoError::Nvme(0x281)));
    let message = bench.controller().flush(1).unwrap_err().to_string();
    assert!(message.contains("refuses a flush (NVMe status type 2, code 0x81)"), "{message}");
    bench.sim.behave(|behaviour| behaviour.status = 0);
    assert_eq!(result(&mut engine, read(&pool, 0, 1)), Ok(512), "the engine goes on");
    drop(engine);
    bench.close();
}

#[test]
fn a_command_that_hangs_is_aborted_and_the_engine_goes_on() {
    let bench = Bench::impatient(Behaviour { hangs: true, ..Behaviour::default() });
    let (pool, mut engine) = bench.engine("poll", 2, 512);
    engine.push(read(&pool, 0, 1)).unwrap();
    engine.push(read(&pool, 0, 1)).unwrap();
    let done = wait(&mut engine, 2).unwrap();
    assert!(done.iter().all(|completion| completion.result == Err(IoError::Nvme(0x07))), "{done:?}");
    assert_eq!((done.len(), engine.in_flight()), (2, 0));
    drop(done);
    bench.sim.behave(|behaviour| behaviour.hangs = false);
    assert_eq!(result(&mut engine, read(&pool, 0, 1)), Ok(512));
    drop(engine);
    assert_eq!(bench.close().aborts, 2);
}

#[test]
fn a_command_that_does_not_come_back_resets_the_controller_for_all() {
    let bench = Bench::impatient(Behaviour { hangs: true, never_aborts: true, ..Behaviour::default() });
    let pool = Pool::new(3, 512).unwrap();
    let (mut engine, mut other) = (bench.open("poll", &pool, 2), bench.open("poll", &pool, 1));
    other.push(read(&pool, 0, 1)).unwrap();
    engine.push(read(&pool, 0, 1)).unwrap();
    engine.push(read(&pool, 0, 1)).unwrap();
    let done = wait(&mut engine, 2).unwrap();
    assert_eq!(done.iter().map(|one| one.tag).collect::<Vec<_>>(), [101, 102], "each once");
    for completion in done {
        assert_eq!(completion.result, Err(IoError::Os(libc::ETIMEDOUT)));
    }
    let message = ending(&mut engine, &pool);
    assert!(message.starts_with("0000:01:00.0 was reset: a command did not come back within"), "{message}");
    assert_eq!(wait(&mut other, 1).unwrap()[0].result, Err(IoError::Os(libc::ETIMEDOUT)));
    ending(&mut other, &pool);
    assert_eq!(bench.try_open("poll", &pool, 1).err().unwrap().to_string(), message);
    assert_eq!(bench.controller().io_counts().unwrap_err().to_string(), message);
    drop((engine, other));
    let free: Vec<_> = (0..3).map(|_| pool.acquire().expect("a free buffer")).collect();
    let mut numbers: Vec<u32> = free.iter().map(|buffer| buffer.index()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2], "all buffers are free again");
    bench.close();
}

/// A read into buffer 0 hangs, and reads into buffer 1 go on until it has ended. Returns how it ended, and
/// how many reads there were meanwhile.
fn go_on_beside_a_hanging_read(
    bench: &Bench,
    pool: &Pool,
    engine: &mut Box<dyn DynEngine>,
) -> (Completion, u32) {
    bench.sim.behave(|behaviour| behaviour.hangs = true);
    engine.push(read(pool, 0, 1)).unwrap();
    engine.submit().unwrap();
    bench.sim.behave(|behaviour| behaviour.hangs = false);
    let (start, mut completed) = (Instant::now(), 0);
    let (mut idle, mut ended) = (true, None);
    while ended.is_none() {
        // An engine whose controller has ended takes nothing, and hands out what was in flight.
        if idle && engine.push(read(pool, 0, 1)).is_ok() {
            idle = false;
        }
        for completion in wait(engine, 1).unwrap() {
            if completion.tag == 100 {
                ended = Some(completion);
            } else {
                assert_eq!((completion.tag, completion.result), (101, Ok(512)));
                (idle, completed) = (true, completed + 1);
            }
        }
        assert!(start.elapsed() < Duration::from_secs(100), "the read hangs forever");
    }
    (ended.unwrap(), completed)
}

#[test]
#[cfg_attr(miri, ignore = "many thousands of reads")]
fn a_command_that_hangs_among_others_is_aborted_and_they_go_on() {
    for mode in ["poll", "interrupt"] {
        let bench = Bench::impatient(Behaviour::default());
        let (pool, mut engine) = bench.engine(mode, 2, 512);
        let (ended, others) = go_on_beside_a_hanging_read(&bench, &pool, &mut engine);
        assert_eq!(ended.result, Err(IoError::Nvme(0x07)), "{mode}");
        assert!(others > 10, "{mode}: {others}");
        let buffer = ended.into_buffer().unwrap();
        assert_eq!(buffer.index(), 0, "{mode}");
        engine.push(Request::read(buffer, 512, 0)).unwrap();
        let in_flight = engine.in_flight();
        assert!(
            wait(&mut engine, in_flight).unwrap().iter().all(|completion| completion.result == Ok(512)),
            "{mode}"
        );
        drop(engine);
        let seen = bench.close();
        assert_eq!((seen.aborts, seen.resets), (1, 1), "{mode}: nothing was reset before the end");
    }
}

#[test]
#[cfg_attr(miri, ignore = "many thousands of reads")]
fn a_command_that_hangs_among_others_and_does_not_come_back_resets_the_controller() {
    let bench = Bench::impatient(Behaviour { never_aborts: true, ..Behaviour::default() });
    let (pool, mut engine) = bench.engine("poll", 2, 512);
    let (ended, others) = go_on_beside_a_hanging_read(&bench, &pool, &mut engine);
    assert_eq!(ended.result, Err(IoError::Os(libc::ETIMEDOUT)));
    assert!(others > 10, "{others}");
    let message = ending(&mut engine, &pool);
    assert!(message.contains("was reset: a command did not come back within"), "{message}");
    drop(engine);
    assert_eq!(bench.close().aborts, 1);
}

#[test]
fn a_controller_that_fails_or_is_pulled_ends_its_engines() {
    type Failure = (fn(&mut Behaviour), i32, &'static str);
    let failures: [Failure; 3] = [
        (|behaviour| behaviour.fatal = true, libc::EIO, "fatal error of its own"),
        (|behaviour| behaviour.was_reset = true, libc::EIO, "is no longer ready (CSTS.RDY)"),
        (|behaviour| behaviour.gone = true, libc::ENODEV, "no longer answers"),
    ];
    for (fail, errno, word) in failures {
        let bench = Bench::new(Behaviour { hangs: true, ..Behaviour::default() });
        let (pool, mut engine) = bench.engine("poll", 1, 512);
        engine.push(read(&pool, 0, 1)).unwrap();
        engine.submit().unwrap();
        bench.sim.behave(fail);
        assert_eq!(wait(&mut engine, 1).unwrap()[0].result, Err(IoError::Os(errno)));
        let message = ending(&mut engine, &pool);
        assert!(message.contains(word), "{message}");
        drop(engine);
        assert_eq!(pool.holders(), 1);
        bench.close();
    }
}

#[test]
fn the_kernel_gets_its_device_back() {
    let bench = Bench::new(Behaviour { hangs: true, ..Behaviour::default() });
    let (pool, mut engine) = bench.engine("poll", 1, 512);
    engine.push(read(&pool, 0, 1)).unwrap();
    engine.submit().unwrap();
    assert!(wait(&mut engine, 0).unwrap().is_empty());
    bench.sim.asked_back.store(true, Ordering::Relaxed);
    let message = wait(&mut engine, 1).unwrap_err().to_string();
    assert!(message.contains("the kernel asks for 0000:01:00.0 back"), "{message}");
    bench.sim.behave(|behaviour| behaviour.hangs = false);
    drop(engine);
    assert_eq!(pool.available(), 1);
    bench.close();
}

#[test]
fn an_empty_poll_finds_a_pulled_device_too() {
    let bench = Bench::new(Behaviour { hangs: true, ..Behaviour::default() });
    let (pool, mut engine) = bench.engine("poll", 1, 512);
    engine.push(read(&pool, 0, 1)).unwrap();
    assert!(wait(&mut engine, 0).unwrap().is_empty());
    bench.sim.behave(|behaviour| behaviour.gone = true);
    let found = loop {
        let done = wait(&mut engine, 0).unwrap();
        if let Some(completion) = done.first() {
            break completion.result;
        }
        std::thread::sleep(Duration::from_micros(if cfg!(miri) { 0 } else { 5 }));
    };
    assert_eq!(found, Err(IoError::Os(libc::ENODEV)));
}

#[test]
fn a_dropped_engine_takes_back_what_the_controller_has_not_seen() {
    let bench = Bench::new(Behaviour::default());
    let (pool, mut engine) = bench.engine("poll", 2, 512);
    engine.push(read(&pool, 0, 1)).unwrap();
    engine.submit().unwrap();
    engine.push(write(&pool, 0x5a, 3, 1)).unwrap();
    drop(engine);
    assert_eq!(pool.available(), 2);
    assert_eq!(bench.sim.disk(), bench.contents);
    assert_eq!(bench.close().reads, 1);
}

#[test]
fn a_dropped_engine_deletes_its_queues_though_a_command_hangs() {
    let bench = Bench::new(Behaviour { hangs: true, ..Behaviour::default() });
    let (pool, mut engine) = bench.engine("poll", 1, 512);
    engine.push(read(&pool, 0, 1)).unwrap();
    engine.submit().unwrap();
    drop(engine);
    assert_eq!(pool.available(), 1);
    assert_eq!(bench.sim.seen().resets, 0);
    bench.close();
}

#[test]
#[cfg_attr(miri, ignore = "Miri finds that memory leaks, which is the point")]
fn a_controller_that_does_not_stop_keeps_its_memory() {
    let bench = Bench::impatient(Behaviour {
        hangs: true,
        never_aborts: true,
        never_stops: true,
        cannot_be_cut_off: true,
        ..Behaviour::default()
    });
    let (pool, mut engine) = bench.engine("poll", 1, 512);
    engine.push(read(&pool, 0, 1)).unwrap();
    let message = wait(&mut engine, 1).unwrap_err().to_string();
    assert!(message.contains("was reset: a command did not come back"), "{message}");
    let mapped = bench.sim.mapped();
    drop(engine);
    assert!(pool.acquire().is_none(), "the buffer is in flight forever");
    // This handle, the buffer in flight, and what was leaked with the queue pair.
    assert_eq!(pool.holders(), 3, "the pool outlives the controller's hold on it");
    let Bench { sim, controller, .. } = bench;
    drop(controller);
    assert_eq!(sim.mapped(), mapped, "all of it stays mapped");
}

#[test]
fn an_admin_command_that_hangs_ends_the_controller() {
    let bench = Bench::impatient(Behaviour::default());
    bench.sim.behave(|behaviour| behaviour.admin_hangs = true);
    let pool = Pool::new(1, 512).unwrap();
    let message = bench.try_open("poll", &pool, 1).err().unwrap().to_string();
    assert!(message.contains("was reset: a command did not come back"), "{message}");
    assert_eq!(pool.holders(), 1);
    bench.close();
}
