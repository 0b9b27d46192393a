//! The whole engine against a kernel in Rust, natively and under Miri: every request completes once, with its
//! buffers and the right bytes.

use super::*;
use crate::pool::Buffer;
use crate::ring::io_uring::ReadWrite;
use proptest::prelude::*;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

const BLOCK: u32 = 512;
const BLOCKS: u64 = 16;
const DEPTH: u32 = 4;

fn disk() -> Vec<u8> {
    (0..BLOCKS as usize * BLOCK as usize).map(|at| (at / BLOCK as usize * 7 + at % 3) as u8).collect()
}

fn engine(pool: &Pool, seed: u64) -> RingEngine<ReadWrite> {
    let ring = RawRing::simulated(DEPTH, disk(), seed);
    let gate = Gate::with_block(pool, BLOCK, DEPTH, "io_uring");
    let base = EntryBase { fd: 0, registered: false };
    let setup = (base, Setup::default());
    let format = ReadWrite::new(false, false);
    RingEngine::over(ring, Descriptor::of_nothing(), format, gate, Modes::PLAIN, setup)
}

/// What was asked for: the operation and its block.
type Asked = (Op, u64);

/// A request of one of the kinds, with buffers of the pool; none if they do not suffice.
fn request(pool: &Pool, kind: u8, block: u64, fill: u8) -> Option<(Request, Asked)> {
    let offset = block * u64::from(BLOCK);
    let buffers = || -> Option<Vec<Buffer>> { Some(vec![pool.acquire()?, pool.acquire()?]) };
    let request = match kind {
        0..=3 => Request::read(pool.acquire()?, BLOCK, offset),
        4 | 5 => {
            let mut buffer = pool.acquire()?;
            buffer.fill(fill);
            let durable = [Request::write, Request::write_dsync, Request::write_sync];
            durable[usize::from(fill) % 3](buffer, BLOCK, offset)
        }
        6 => Request::read_vectored(buffers()?, offset),
        7 => {
            let mut buffers = buffers()?;
            buffers.iter_mut().for_each(|buffer| buffer.fill(fill));
            Request::write_vectored(buffers, offset)
        }
        8 => Request::flush(),
        _ => Request::write_zeroes(offset, BLOCK.into()),
    };
    let op = request.operation.op();
    Some((request, (op, block)))
}

/// Checks a completion against what was asked for and the disk as it must be.
fn check(completion: Completion, (op, block): Asked, expected: &[u8]) {
    let at = block as usize * BLOCK as usize;
    let moved = match op {
        op if op.is_transfer() => BLOCK,
        Op::ReadVectored | Op::WriteVectored => 2 * BLOCK,
        _ => 0,
    };
    assert_eq!(completion.result, Ok(moved), "{op:?}");
    let buffers = match completion.buffers {
        Buffers::One(buffer) => vec![buffer],
        Buffers::Many(buffers) => buffers.into_vec(),
        Buffers::None => Vec::new(),
    };
    let bytes: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
    assert_eq!(bytes.len(), moved as usize);
    if !op.writes() {
        assert_eq!(bytes, expected[at..at + moved as usize], "{op:?} of block {block}");
    }
}

/// One request at a time, so what the disk holds is known: prepared entries are used again after others.
fn one_by_one(kinds: &[(u8, u64, u8)], seed: u64) {
    let pool = Pool::new(DEPTH, BLOCK).unwrap();
    let mut engine = engine(&pool, seed);
    let mut expected = disk();
    for (tag, &(kind, block, fill)) in (0..).zip(kinds) {
        let (request, asked) = request(&pool, kind, block % (BLOCKS - 1), fill).unwrap();
        let at = asked.1 as usize * BLOCK as usize;
        match asked.0 {
            Op::Write | Op::WriteDsync | Op::WriteSync => expected[at..at + BLOCK as usize].fill(fill),
            Op::WriteVectored => expected[at..at + 2 * BLOCK as usize].fill(fill),
            Op::WriteZeroes => expected[at..at + BLOCK as usize].fill(0),
            _ => {}
        }
        engine.push(request.tagged(tag)).unwrap();
        let mut seen = 0;
        engine
            .wait(1, None, |completion| {
                assert_eq!(completion.tag, tag);
                check(completion, asked, &expected);
                seen += 1;
            })
            .unwrap();
        assert_eq!((seen, engine.in_flight()), (1, 0));
        // A durable write says so, and what has its entry next does not.
        if asked.0.is_transfer() {
            assert_eq!(engine.held.ring.rw_flags(), asked.0.rw_flags(), "{:?}", asked.0);
        }
    }
    assert!(engine.held.ring.disk() == expected);
    drop(engine);
    assert_eq!((pool.available(), pool.holders()), (DEPTH, 1));
}

/// Reads at depth, with waits, reaps, submits and sinks that panic, until the engine is dropped in flight.
fn at_depth(steps: &[(u8, u64)], seed: u64) {
    let pool = Pool::new(DEPTH + 1, BLOCK).unwrap();
    let mut engine = engine(&pool, seed);
    let (expected, mut flying, mut tag) = (disk(), HashMap::new(), 0);
    for &(step, block) in steps {
        let mut done = Vec::new();
        match step {
            0..=4 => {
                let Some((request, asked)) = request(&pool, 0, block % BLOCKS, 0) else { continue };
                match engine.push(request.tagged(tag)) {
                    Ok(()) => drop(flying.insert(tag, asked)),
                    Err(refused) => {
                        assert_eq!(flying.len(), DEPTH as usize, "{refused}");
                    }
                }
                tag += 1;
            }
            5 => engine.submit().unwrap(),
            6 => drop(engine.reap(|one| done.push(one)).map(drop)),
            7 => {
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    engine.wait(1, None, |one| {
                        done.push(one);
                        std::panic::resume_unwind(Box::new(()));
                    })
                }));
                assert_eq!(caught.is_err(), !done.is_empty());
            }
            _ => {
                let min = block as usize % 3;
                let found = engine.wait(min, None, |one| done.push(one)).unwrap();
                assert!(found >= min.min(flying.len()) && found == done.len());
            }
        }
        for completion in done {
            let asked = flying.remove(&completion.tag).expect("it was in flight, once");
            check(completion, asked, &expected);
        }
        assert_eq!(engine.in_flight(), flying.len());
        assert_eq!(pool.available() as usize + flying.len(), DEPTH as usize + 1);
    }
    drop(engine);
    assert_eq!((pool.available(), pool.holders()), (DEPTH + 1, 1));
}

/// Few under Miri, where each takes long.
const MOST_STEPS: usize = if cfg!(miri) { 12 } else { 40 };

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 1 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn requests_of_every_kind_do_what_they_say(
        kinds in prop::collection::vec((0u8..10, 0..BLOCKS, any::<u8>()), 1..MOST_STEPS), seed: u64,
    ) {
        one_by_one(&kinds, seed);
    }

    #[test]
    fn requests_at_depth_complete_once(
        steps in prop::collection::vec((0u8..11, 0..BLOCKS), 1..2 * MOST_STEPS), seed: u64,
    ) {
        at_depth(&steps, seed);
    }
}
