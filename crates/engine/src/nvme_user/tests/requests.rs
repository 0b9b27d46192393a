//! What an engine refuses, and the requests that have no buffer.

use super::{Behaviour, Bench, DISK, read, result, wait, write};
use crate::engine::Engine;
use crate::pool::Pool;
use crate::request::{Buffers, IoError, Op, Request};

/// Why a request is refused. It comes back as it was.
fn refused(engine: &mut impl Engine, request: Request) -> String {
    let (sent, before) = (format!("{request:?}"), engine.in_flight());
    let refused = engine.push(request).unwrap_err();
    let message = refused.to_string();
    let (request, error) = refused.into_parts();
    assert_eq!((format!("{request:?}"), error.to_string()), (sent, message.clone()));
    assert_eq!(engine.in_flight(), before);
    message
}

#[test]
fn what_no_command_can_express_is_refused_and_the_rest_goes_on() {
    let bench = Bench::new(Behaviour { mdts: Some(1), ..Behaviour::default() });
    let pool = Pool::new(2, 16384).unwrap();
    let mut engine = bench.open("poll", &pool, 2);
    for (len, offset, words) in [
        (100, 0, "whole logical blocks of 512 bytes"),
        (512, 3, "whole logical blocks"),
        (0, 0, "0 bytes"),
        (17 * 512, 0, "up to 8192 bytes at once"),
        (33 * 512, 0, "16896 bytes do not fit into a buffer of 16384 bytes"),
    ] {
        let buffer = pool.acquire().unwrap();
        let message = refused(&mut engine, Request::read(buffer, len, offset).tagged(7));
        assert!(message.contains(words), "{message}");
        assert_eq!((engine.in_flight(), pool.available()), (0, 2));
    }
    for (offset, len, words) in [
        (100, 512, "whole logical blocks of 512 bytes"),
        (0, 3, "whole logical blocks"),
        (0, 0, "0 bytes"),
        (0, 65537 * 512, "up to 33554432 bytes at once"),
    ] {
        let message = refused(&mut engine, Request::write_zeroes(offset, len).tagged(7));
        assert!(message.contains(words), "{message}");
    }
    engine.push(read(&pool, DISK as u64 / 512, 1)).unwrap();
    engine.push(read(&pool, 0, 16)).unwrap();
    let done = wait(&mut engine, 2).unwrap();
    assert_eq!((done[0].result, done[1].result), (Err(IoError::Nvme(0x80)), Ok(8192)));
    drop(engine);
    bench.close();
}

#[test]
fn an_engine_for_reading_refuses_what_writes() {
    let bench = Bench::new(Behaviour::default());
    let pool = Pool::new(1, 512).unwrap();
    let path = "nvme-user/doorbell/poll".parse().unwrap();
    let mut reader = crate::open(path, &bench.target(false), &pool, 1).unwrap();
    let writes = [
        |pool: &Pool| write(pool, 0, 0, 1),
        |pool: &Pool| Request::write_dsync(pool.acquire().unwrap(), 512, 0),
        |_: &Pool| Request::write_zeroes(0, 512),
    ];
    for make in writes {
        let message = refused(&mut reader, make(&pool));
        assert!(message.contains("opened for reading"), "{message}");
        // A read makes the entries of the buffer known.
        assert_eq!(result(&mut reader, read(&pool, 0, 1)), Ok(512));
        let message = refused(&mut reader, make(&pool));
        assert!(message.contains("opened for reading"), "{message}");
    }
    assert_eq!(result(&mut reader, Request::flush()), Ok(0));
    drop(reader);
    assert_eq!(bench.sim.disk(), bench.contents);
    bench.close();
}

/// Writes after each durable one that need not be durable; few under Miri, where each takes long.
const AFTER_IT: u64 = if cfg!(miri) { 8 } else { 64 };

#[test]
fn a_durable_write_has_force_unit_access_and_what_follows_has_not() {
    let bench = Bench::new(Behaviour::default());
    let (pool, mut engine) = bench.engine("poll", 1, 512);
    let durable = [Request::write_dsync, Request::write_sync];
    for (make, fuas) in durable.into_iter().zip([1, 2]) {
        let mut buffer = pool.acquire().unwrap();
        buffer.fill(0xab);
        assert_eq!(result(&mut engine, make(buffer, 512, 1024)), Ok(512));
        assert_eq!(bench.sim.seen().fuas, fuas);
        // They have the entries of the queue one after the other.
        for block in 0..AFTER_IT {
            assert_eq!(result(&mut engine, write(&pool, 0xcd, block, 1)), Ok(512));
        }
        assert_eq!(bench.sim.seen().fuas, fuas);
    }
    drop(engine);
    assert_eq!(bench.close().writes, 2 * (1 + AFTER_IT));
}

#[test]
fn a_buffer_of_another_pool_is_refused() {
    let bench = Bench::new(Behaviour::default());
    let (pool, mut engine) = bench.engine("poll", 1, 512);
    let other = Pool::new(1, 512).unwrap();
    for _ in 0..2 {
        let message = refused(&mut engine, read(&other, 0, 1));
        assert!(message.contains("is of another pool"), "{message}");
        assert_eq!(other.available(), 1);
        // In the second round, the entries of the engine's own buffer of this number are known.
        assert_eq!(result(&mut engine, read(&pool, 0, 1)), Ok(512));
    }
    drop(engine);
    bench.close();
}

#[test]
fn a_full_engine_refuses_one_more() {
    let bench = Bench::new(Behaviour::default());
    let pool = Pool::new(3, 512).unwrap();
    let mut engine = bench.open("poll", &pool, 2);
    engine.push(read(&pool, 0, 1)).unwrap();
    engine.push(Request::flush().tagged(1)).unwrap();
    for request in [read(&pool, 1, 1), Request::flush(), Request::write_zeroes(0, 512)] {
        let message = refused(&mut engine, request);
        assert!(message.contains("2 requests are in flight, and the engine takes no more"), "{message}");
    }
    let tags: Vec<u64> = wait(&mut engine, 2).unwrap().iter().map(|one| one.tag).collect();
    assert_eq!((tags, pool.available()), (vec![100, 1], 3));
    assert_eq!(result(&mut engine, read(&pool, 0, 1)), Ok(512), "there is room again");
    drop(engine);
    bench.close();
}

#[test]
fn operations_that_the_driver_lacks_are_refused_with_the_reason() {
    let bench = Bench::new(Behaviour::default());
    let (pool, mut engine) = bench.engine("poll", 1, 512);
    let buffers = || vec![pool.acquire().unwrap()];
    for (request, words) in [
        (Request::read_vectored(buffers(), 0), "cannot do ReadVectored: a command's memory is one buffer"),
        (Request::discard(0, 512), "cannot do Discard: the driver has no Dataset Management command"),
    ] {
        assert!(!engine.supports(request.operation.op()));
        let message = refused(&mut engine, request);
        assert!(message.contains(words), "{message}");
        assert_eq!(pool.available(), 1);
    }
    let message = refused(&mut engine, Request::write_vectored(buffers(), 0));
    assert!(message.contains("cannot do WriteVectored"), "{message}");
    for op in [Op::Read, Op::Write, Op::Flush, Op::Fsync, Op::WriteZeroes] {
        assert!(engine.supports(op), "{op:?}");
    }
    drop(engine);
    bench.close();
}

#[test]
fn a_flush_and_zeroes_complete_with_their_tags_and_without_a_buffer() {
    // The queue is short, so transfers and other commands use the same entries in turn.
    let bench = Bench::new(Behaviour { most_entries: Some(8), ..Behaviour::default() });
    let (pool, mut engine) = bench.engine("poll", 5, 1024);
    let mut expected = bench.contents.clone();
    for round in 0..8 {
        let at = 40 + 3 * round;
        engine.push(Request::flush().tagged(7)).unwrap();
        engine.push(Request::write_zeroes(at * 512, 1024).tagged(8)).unwrap();
        engine.push(read(&pool, at, 2)).unwrap();
        engine.push(Request::fsync().tagged(9)).unwrap();
        engine.push(write(&pool, 0x5a, round, 1)).unwrap();
        expected[at as usize * 512..][..1024].fill(0);
        expected[round as usize * 512..][..512].fill(0x5a);
        assert_eq!((engine.in_flight(), pool.available()), (5, 3));
        let done = wait(&mut engine, 5).unwrap();
        let ends: Vec<_> = done.iter().map(|one| (one.tag, one.result)).collect();
        let own = |at: usize| done[at].buffer().map(|buffer| u64::from(buffer.index()) + 100).unwrap();
        assert_eq!(ends, [(7, Ok(0)), (8, Ok(0)), (own(2), Ok(1024)), (9, Ok(0)), (own(4), Ok(512))]);
        for without in [0, 1, 3] {
            assert!(matches!(done[without].buffers, Buffers::None), "{:?}", done[without]);
        }
        assert_eq!(done[2].buffer().unwrap()[..], [0; 1024]);
        assert!(bench.sim.disk() == expected, "round {round}");
    }
    let beyond = Request::write_zeroes(DISK as u64, 512).tagged(1);
    assert_eq!(result(&mut engine, beyond), Err(IoError::Nvme(0x80)));
    drop(engine);
    assert_eq!(bench.close().flushes, 16);
}

#[test]
fn a_flush_that_hangs_is_aborted_and_one_that_fails_says_so() {
    let bench = Bench::impatient(Behaviour { hangs: true, ..Behaviour::default() });
    let (pool, mut engine) = bench.engine("poll", 2, 512);
    engine.push(Request::flush().tagged(3)).unwrap();
    let done = wait(&mut engine, 1).unwrap();
    assert_eq!((done[0].tag, done[0].result), (3, Err(IoError::Nvme(0x07))));
    bench.sim.behave(|behaviour| (behaviour.hangs, behaviour.status) = (false, 0x06));
    assert_eq!(result(&mut engine, Request::flush()), Err(IoError::Nvme(0x06)));
    bench.sim.behave(|behaviour| behaviour.status = 0);
    assert_eq!(result(&mut engine, read(&pool, 0, 1)), Ok(512), "the engine goes on");
    drop(engine);
    assert_eq!(bench.close().aborts, 1);
}

#[test]
fn a_dropped_engine_takes_back_a_flush_and_zeroes() {
    let bench = Bench::new(Behaviour::default());
    let (pool, mut engine) = bench.engine("poll", 3, 512);
    engine.push(Request::flush()).unwrap();
    engine.submit().unwrap();
    engine.push(Request::flush()).unwrap();
    engine.push(Request::write_zeroes(0, 512)).unwrap();
    drop(engine);
    assert_eq!((pool.available(), pool.holders()), (3, 1));
    assert_eq!(bench.sim.disk(), bench.contents);
    assert_eq!(bench.close().flushes, 1);
}
