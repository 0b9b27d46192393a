//! The driver against a simulated controller: registers, queues, doorbells, data and every kind of failure.

mod failures;
mod features;
mod properties;
mod requests;
mod waits;

use super::controller::{Controller, Limits, Setup};
use super::sim::{Behaviour, Seen, SimController};
use crate::engine::{DynEngine, Engine};
use crate::error::EngineError;
use crate::pool::Pool;
use crate::request::{Completion, IoError, Request};
use crate::target::Target;
use iopj_path::IoPath;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const BLOCK: u32 = 512;
/// Bytes of the disk; few under Miri, where each one costs.
const DISK: usize = if cfg!(miri) { 1 << 16 } else { 1 << 18 };

/// What a block holds behind its number. The compiler computes it, because Miri takes long to.
const PATTERN: [u8; 512] = {
    let mut block = [0; 512];
    let mut at = 0;
    while at < block.len() {
        block[at] = (at * 7 + at / 256) as u8;
        at += 1;
    }
    block
};

/// A controller, its simulation, and what its disk holds.
struct Bench {
    sim: Arc<SimController>,
    controller: Option<Arc<Controller>>,
    contents: Vec<u8>,
}

impl Bench {
    fn new(behaviour: Behaviour) -> Bench {
        Bench::with_setup(behaviour, Setup::default())
    }

    /// Nothing is late, whatever the limits of `setup` are.
    fn with_setup(behaviour: Behaviour, setup: Setup) -> Bench {
        let never = Duration::from_secs(100);
        let limits = Limits { command: never, abort: never, feature: never };
        Bench::start(behaviour, &Setup { limits, ..setup })
    }

    /// Gives hanging commands up soon; under Miri everything takes longer.
    fn impatient(behaviour: Behaviour) -> Bench {
        let soon = Duration::from_millis(if cfg!(miri) { 1000 } else { 20 });
        Bench::start(
            behaviour,
            &Setup { limits: Limits { command: soon, abort: soon, feature: soon }, ..Setup::default() },
        )
    }

    fn start(behaviour: Behaviour, setup: &Setup) -> Bench {
        let mut contents: Vec<u8> = Vec::with_capacity(DISK);
        let mut block = PATTERN;
        for number in 0..DISK as u64 / 512 {
            block[..8].copy_from_slice(&(number * 0x9e37_79b9).to_le_bytes());
            contents.extend_from_slice(&block);
        }
        let sim = Arc::new(SimController::new(behaviour, contents.clone()));
        let controller = Controller::start("0000:01:00.0".parse().unwrap(), sim.clone(), setup).unwrap();
        Bench { sim, controller: Some(controller), contents }
    }

    fn controller(&self) -> &Arc<Controller> {
        self.controller.as_ref().unwrap()
    }

    fn target(&self, writable: bool) -> Target {
        Target::open_bypass(Path::new("/dev/nvme0n1"), self.controller(), 1, writable).unwrap()
    }

    fn open(&self, mode: &str, pool: &Pool, iodepth: u32) -> Box<dyn DynEngine> {
        self.try_open(mode, pool, iodepth).unwrap_or_else(|error| panic!("{error}"))
    }

    /// An engine, and its pool of `depth` buffers.
    fn engine(&self, mode: &str, depth: u32, buffer_len: u32) -> (Pool, Box<dyn DynEngine>) {
        let pool = Pool::new(depth, buffer_len).unwrap();
        let engine = self.open(mode, &pool, depth);
        (pool, engine)
    }

    fn try_open(&self, mode: &str, pool: &Pool, iodepth: u32) -> Result<Box<dyn DynEngine>, EngineError> {
        let path: IoPath = format!("nvme-user/doorbell/{mode}").parse().unwrap();
        crate::open(path, &self.target(true), pool, iodepth)
    }

    /// Drops everything: nothing is mapped any more, and the controller was stopped.
    fn close(mut self) -> Seen {
        self.controller = None;
        assert_eq!(self.sim.mapped(), 0, "pages stay mapped");
        assert!(self.sim.seen().resets > 0);
        self.sim.seen()
    }
}

/// A read into the pool's next buffer. Its tag is the number of the buffer and 100.
fn read(pool: &Pool, block: u64, blocks: u32) -> Request {
    let buffer = pool.acquire().expect("a free buffer");
    let tag = u64::from(buffer.index()) + 100;
    Request::read(buffer, blocks * BLOCK, block * 512).tagged(tag)
}

/// As [`read`], a write of a buffer full of `byte`.
fn write(pool: &Pool, byte: u8, block: u64, blocks: u32) -> Request {
    let mut buffer = pool.acquire().expect("a free buffer");
    buffer.fill(byte);
    let tag = u64::from(buffer.index()) + 100;
    Request::write(buffer, blocks * BLOCK, block * 512).tagged(tag)
}

fn wait(engine: &mut impl Engine, min: usize) -> Result<Vec<Completion>, EngineError> {
    let mut done = Vec::new();
    let found = engine.wait(min, None, |completion| done.push(completion))?;
    assert_eq!(found, done.len());
    Ok(done)
}

/// How the one request in flight ends.
fn result(engine: &mut impl Engine, request: Request) -> Result<u32, IoError> {
    engine.push(request).unwrap();
    wait(engine, 1).unwrap()[0].result
}

/// The error that `engine` ends with once it has handed out everything in flight.
fn ending(engine: &mut impl Engine, pool: &Pool) -> String {
    let wait_error = wait(engine, 1).unwrap_err().to_string();
    assert_eq!(engine.push(read(pool, 0, 1)).unwrap_err().to_string(), wait_error);
    wait_error
}

#[test]
fn a_controller_is_opened_described_and_closed() {
    let bench = Bench::new(Behaviour { shadow: true, ..Behaviour::default() });
    let identity = bench.controller().identity();
    assert_eq!((&*identity.model, &*identity.serial, identity.queue_pairs), ("Sim", "S 1", 4));
    assert_eq!((identity.max_transfer_bytes, identity.shadow_doorbells), (2 << 20, true));
    let target = bench.target(true);
    assert_eq!((target.data_len(), target.logical_block(), target.data_offset()), (DISK as u64, 512, 0));
    assert!(target.reopen().unwrap_err().to_string().contains("is taken"));
    drop(target);
    bench.close();
}

#[test]
fn reads_writes_flushes_and_their_counts() {
    let bench = Bench::new(Behaviour::default());
    let (pool, mut engine) = bench.engine("poll", 2, 8192);
    engine.push(write(&pool, 0x5a, 7, 16)).unwrap();
    engine.push(read(&pool, 40, 3)).unwrap();
    assert_eq!((engine.in_flight(), pool.available()), (2, 0));
    let done = wait(&mut engine, 2).unwrap();
    assert_eq!(done.len(), 2);
    assert_eq!((done[1].tag, done[1].result), (101, Ok(1536)));
    let buffer = done[1].buffer().unwrap();
    assert_eq!((buffer.index(), &buffer[..1536]), (1, &bench.contents[40 * 512..43 * 512]));
    let disk = bench.sim.disk();
    assert!(disk[7 * 512..23 * 512].iter().all(|byte| *byte == 0x5a));
    assert_eq!(disk[..7 * 512], bench.contents[..7 * 512]);
    assert_eq!(disk[23 * 512..], bench.contents[23 * 512..]);
    bench.controller().flush(1).unwrap();
    let counts = bench.controller().io_counts().unwrap();
    assert_eq!((counts.host_reads, counts.host_writes), (1, 1));
    let counters = engine.counters();
    assert_eq!((counters.system_calls, counters.submit_calls, counters.sleeps), (Some(0), 0, 0));
    assert_eq!((counters.doorbells, counters.completion_doorbells), (1, 0));
    drop(engine);
    assert_eq!(bench.close().flushes, 1);
}

#[test]
fn every_pair_is_used_and_one_more_is_an_error_with_its_number() {
    let bench = Bench::new(Behaviour { pairs: Some(3), ..Behaviour::default() });
    let pool = Pool::new(4, 512).unwrap();
    for _ in 0..2 {
        let mut engines: Vec<_> = (0..3).map(|_| bench.open("poll", &pool, 1)).collect();
        let message = bench.try_open("poll", &pool, 1).err().unwrap().to_string();
        assert_eq!(message, "0000:01:00.0 grants 3 I/O queue pairs and all are in use: lower numjobs to 3");
        for (block, engine) in engines.iter_mut().enumerate() {
            engine.push(read(&pool, block as u64, 1)).unwrap();
        }
        for engine in &mut engines {
            assert_eq!(wait(engine, 1).unwrap().len(), 1);
        }
    }
    let message = bench.try_open("poll", &pool, 64).err().unwrap().to_string();
    assert!(message.contains("65 entries") && message.contains("lower iodepth to 63"), "{message}");
    drop(bench.open("poll", &pool, 63));
    bench.close();
}

#[test]
fn an_event_index_that_is_stale_does_not_hang() {
    let bench = Bench::new(Behaviour { shadow: true, never_wants_doorbells: true, ..Behaviour::default() });
    let (pool, mut engine) = bench.engine("poll", 1, 512);
    for _ in 0..4 {
        assert_eq!(result(&mut engine, read(&pool, 1, 1)), Ok(512));
    }
    assert!(engine.setup().shadow_doorbells);
    drop(engine);
    bench.close();
}

/// Ends the thread of a test even if the test panics.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The controller reads shadow doorbells on a thread of its own: only the order of our stores shows it what
/// is there, and Miri checks that order.
#[test]
fn a_controller_that_polls_its_shadow_doorbells_sees_whole_commands() {
    let bench = Bench::new(Behaviour { shadow: true, never_wants_doorbells: true, ..Behaviour::default() });
    let (pool, mut engine) = bench.engine("poll", 2, 1024);
    let (stop, sim) = (AtomicBool::new(false), Arc::clone(&bench.sim));
    std::thread::scope(|scope| {
        let _end = StopAtEnd(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                sim.poll();
                std::thread::yield_now();
            }
        });
        for round in 0..if cfg!(miri) { 10 } else { 2000 } {
            let blocks = [(round % 100, 2), (round % 77 + 3, 1)];
            for (block, count) in blocks {
                engine.push(read(&pool, block, count).tagged(block)).unwrap();
            }
            let done = wait(&mut engine, 2).unwrap();
            assert_eq!(done.len(), 2);
            for (completion, (block, count)) in done.iter().zip(blocks) {
                assert_eq!((completion.tag, completion.result), (block, Ok(count * BLOCK)));
                let len = count as usize * 512;
                let expected = &bench.contents[block as usize * 512..][..len];
                assert_eq!(completion.buffer().unwrap()[..len], *expected);
            }
        }
    });
    drop(engine);
    bench.close();
}

#[test]
fn a_controller_or_namespace_that_is_not_suitable_says_why() {
    let open = |behaviour| {
        let sim = Arc::new(SimController::new(behaviour, vec![0; DISK]));
        let opened = Controller::start("0000:01:00.0".parse().unwrap(), sim.clone(), &Setup::default());
        (opened, sim)
    };
    let message = |behaviour| open(behaviour).0.unwrap_err().to_string();
    let old = message(Behaviour { version: Some(0x1_0100), ..Behaviour::default() });
    assert!(old.contains("implements NVMe 1.1, and this driver needs 1.2"), "{old}");
    let gone = message(Behaviour { gone: true, ..Behaviour::default() });
    assert!(gone.contains("all ones"), "{gone}");
    let fatal = message(Behaviour { fatal: true, ..Behaviour::default() });
    assert!(fatal.contains("CSTS.CFS"), "{fatal}");
    let (controller, _sim) = open(Behaviour { metadata: 8, ..Behaviour::default() });
    let controller = controller.unwrap();
    let error = |nsid| {
        Target::open_bypass(Path::new("/dev/nvme0n1"), &controller, nsid, false).unwrap_err().to_string()
    };
    assert!(error(1).contains("8 bytes of metadata each"), "{}", error(1));
    assert!(error(2).contains("does not have: it has 1"), "{}", error(2));
}

#[test]
fn a_taken_device_has_the_paths_of_bypass_and_no_other() {
    use crate::check::{Availability, check};
    let bench = Bench::new(Behaviour { pairs: Some(2), ..Behaviour::default() });
    let target = bench.target(false);
    for path in IoPath::all() {
        let interrupts = path.completion() != iopj_path::path::CompletionMode::Poll;
        if cfg!(miri) && interrupts {
            continue;
        }
        match check(path, &target) {
            Availability::Available { .. } => assert!(matches!(path, IoPath::NvmeUser(_)), "{path}"),
            Availability::Unavailable { remedy, .. } if path == IoPath::Spdk => {
                assert!(remedy.contains("fio's plugin"), "{remedy}");
            }
            Availability::Unavailable { reason, remedy } => {
                assert!(!matches!(path, IoPath::NvmeUser(_)), "{path}: {reason}");
                assert!(
                    reason.contains("0000:01:00.0 is taken") && remedy.contains("--take-device"),
                    "{reason}"
                );
            }
        }
    }
    let pool = Pool::new(1, 512).unwrap();
    let message = crate::open(IoPath::Libaio, &target, &pool, 1).err().unwrap().to_string();
    assert!(message.contains("needs the kernel's driver") && message.contains("is taken"), "{message}");
    drop(target);
    bench.close();
}

#[test]
#[cfg_attr(miri, ignore = "Miri has neither prctl nor clock_nanosleep")]
fn interrupt_and_hybrid_count_what_they_do() {
    for mode in ["interrupt", "hybrid", "hybrid:30us"] {
        let bench = Bench::new(Behaviour::default());
        let (pool, mut engine) = bench.engine(mode, 1, 512);
        for block in 0..50 {
            assert_eq!(result(&mut engine, read(&pool, block, 1)), Ok(512));
        }
        // The simulated controller answers within the doorbell, so there is nothing to wait for.
        assert_eq!((engine.counters().system_calls, engine.counters().sleeps), (Some(0), 0), "{mode}");
        bench.sim.behave(|behaviour| behaviour.hangs = true);
        engine.push(read(&pool, 0, 1)).unwrap();
        engine.submit().unwrap();
        bench.sim.behave(|behaviour| behaviour.gone = true);
        assert_eq!(wait(&mut engine, 1).unwrap()[0].result, Err(IoError::Os(libc::ENODEV)), "{mode}");
        let (calls, sleeps) = (engine.counters().system_calls.unwrap(), engine.counters().sleeps);
        match mode {
            "interrupt" => assert!(calls > 0 && sleeps == 0, "{calls} {sleeps}"),
            // There was no wait before, so there is no mean to halve.
            "hybrid" => assert_eq!((calls, sleeps), (0, 0)),
            _ => assert_eq!((calls, sleeps), (1, 1), "a wait sleeps once"),
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri's epoll waits for no other thread's write")]
fn an_interrupt_wakes_the_engine_that_sleeps() {
    let bench = Bench::new(Behaviour { shadow: true, never_wants_doorbells: true, ..Behaviour::default() });
    let (pool, mut engine) = bench.engine("interrupt", 1, 512);
    let sim = Arc::clone(&bench.sim);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = StopAtEnd(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(200));
                sim.poll();
            }
        });
        for block in 0..50 {
            assert_eq!(result(&mut engine, read(&pool, block, 1)), Ok(512));
        }
    });
    assert!(engine.counters().system_calls.unwrap() > 0);
    // The simulated controller has two vectors, so the third pair has none.
    let second = bench.open("poll", &pool, 1);
    let message = bench.try_open("interrupt", &pool, 1).err().unwrap().to_string();
    assert!(
        message.contains("has 2 interrupt vectors") && message.contains("lower numjobs to 2"),
        "{message}"
    );
    drop((engine, second));
    bench.close();
}
