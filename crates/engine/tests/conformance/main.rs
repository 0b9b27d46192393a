//! One suite for every engine: each interface that this machine has, on each kind of target that it
//! has, and the simulated engine.

mod suite;

use iopj_engine::sim::{Sim, SimOptions};
use iopj_engine::{Engine, IoError, Pool, PosixSio, Request, Target};
use std::time::{Duration, Instant};
use suite::subjects::{Subject, subjects};
use suite::{BLOCK, DEPTH, conform, model, wait};

#[test]
fn every_engine_conforms() {
    conform(&subjects());
}

#[test]
fn engines_on_one_pool_agree_with_a_model() {
    let subjects: Vec<Subject> = subjects().into_iter().filter(|subject| subject.path.is_some()).collect();
    model::agree(&subjects);
}

#[test]
fn sim_repeats_by_its_seed_and_reorders() {
    let run = |seed| {
        let pool = Pool::new(DEPTH, BLOCK).unwrap();
        let options =
            SimOptions { seed, latency_steps: 20, short_ppm: 100_000, error_ppm: 100_000, never_ppm: 0 };
        let mut engine = Sim::open(&pool, DEPTH, options);
        let mut log: Vec<(u64, Result<u32, IoError>)> = Vec::new();
        for tag in 0..400 {
            engine.push(Request::read(pool.acquire().unwrap(), BLOCK, 0).tagged(tag)).unwrap();
            let min = usize::from(engine.in_flight() == DEPTH as usize);
            log.extend(wait(&mut engine, min).iter().map(|completion| (completion.tag, completion.result)));
        }
        log
    };
    let log = run(3);
    assert_eq!(log, run(3));
    assert_ne!(log, run(4));
    assert!(log.windows(2).any(|pair| pair[0].0 > pair[1].0), "reordered");
    for result in [Ok(BLOCK), Ok(BLOCK / 2), Err(IoError::Os(libc::EIO))] {
        assert!(log.iter().any(|(_, found)| *found == result), "{result:?}");
    }
}

#[test]
fn a_request_that_never_completes_is_leaked_with_its_pool() {
    let pool = Pool::new(2, BLOCK).unwrap();
    let options = SimOptions { never_ppm: 1_000_000, ..SimOptions::default() };
    let mut engine = Sim::open(&pool, 2, options);
    engine.push(Request::read(pool.acquire().unwrap(), BLOCK, 0)).unwrap();
    assert!(wait(&mut engine, 1).is_empty());
    let leaked = engine.close(Instant::now() + Duration::from_millis(1)).unwrap_err();
    assert_eq!(leaked.in_flight, 1);
    assert_eq!((pool.available(), pool.holders()), (1, 2), "the pool outlives the kernel's hold on it");
}

fn file() -> (tempfile::TempDir, Target) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("data");
    iopj_engine::target::make_file(&path, 1 << 16, &mut |_| true).unwrap();
    let target = Target::open(&path).unwrap();
    (folder, target)
}

#[test]
fn a_synchronous_transfer_that_was_not_begun_is_taken_back_whole() {
    let (_folder, target) = file();
    let pool = Pool::new(1, BLOCK).unwrap();
    let mut engine = PosixSio::builder().open(&target, &pool).unwrap();
    assert!(engine.take_back().is_none());
    let kinds = [Request::read, Request::write, Request::write_dsync, Request::write_sync];
    for (tag, make) in (7..).zip(kinds) {
        let request = make(pool.acquire().unwrap(), 512, 1024).tagged(tag);
        let (op, index) = (request.operation.op(), request.operation.transfer().unwrap().buffer.index());
        engine.push(request).unwrap();
        let back = engine.take_back().unwrap();
        let transfer = back.operation.transfer().unwrap();
        assert_eq!((back.tag, back.operation.op()), (tag, op));
        assert_eq!((transfer.len, transfer.offset, transfer.buffer.index()), (512, 1024, index));
        assert!(engine.in_flight() == 0 && engine.take_back().is_none());
    }
    engine.push(Request::read(pool.acquire().unwrap(), BLOCK, target.data_offset())).unwrap();
    engine.submit().unwrap();
    assert!(engine.take_back().is_none(), "it is done");
    assert_eq!(wait(&mut engine, 1)[0].result, Ok(BLOCK));
    engine.push(Request::flush()).unwrap();
    assert!(engine.take_back().is_none(), "it is no transfer");
}

#[test]
fn another_handle_of_a_target_outlives_the_first() {
    let (_folder, target) = file();
    let another = target.another().unwrap();
    let same = |target: &Target| (target.path().to_owned(), target.data_offset(), target.data_len());
    assert_eq!(same(&another), same(&target));
    assert_eq!((another.file_id(), another.is_writable()), (target.file_id(), false));
    drop(target);
    let pool = Pool::new(1, BLOCK).unwrap();
    let mut engine = PosixSio::builder().open(&another, &pool).unwrap();
    engine.push(Request::read(pool.acquire().unwrap(), BLOCK, another.data_offset())).unwrap();
    assert_eq!(wait(&mut engine, 1)[0].result, Ok(BLOCK));
}
