//! Engines on tokio: files by every kind of waiting, and a simulated drive that works only when it is asked
//! to, which makes the order of events certain.

use iopj_engine::asynchronous::{AsyncEngine, Done, RequestError};
use iopj_engine::nvme_user::sim::Drive;
use iopj_engine::path::{Spin, UserCompletion};
use iopj_engine::sim::{Sim, SimOptions};
use iopj_engine::target::{WritePermission, make_file};
use iopj_engine::{
    Buffer, Cause, Engine, IoError, IoUring, Libaio, NvmeUser, Op, Pool, PosixAio, PosixSio, Request, Target,
};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::os::fd::AsRawFd;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::task::{JoinSet, LocalSet, spawn_local, yield_now};
use tokio::time::{sleep, timeout};

const BLOCK: u32 = 4096;
const DEPTH: u32 = 8;
/// Only guards against a hang.
const LIMIT: Duration = Duration::from_secs(120);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn run<T>(work: impl Future<Output = T>) -> T {
    LocalSet::new().block_on(&runtime(), async { timeout(LIMIT, work).await }).expect("nothing hangs")
}

/// A written file with its contents.
struct File {
    target: Target,
    contents: Vec<u8>,
    path: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl File {
    fn new() -> File {
        // Not the system's temporary folder, which may lie in memory.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = folder.path().join("data");
        make_file(&path, 1 << 20, &mut |_| true).unwrap();
        let (target, contents) = (Target::open(&path).unwrap(), std::fs::read(&path).unwrap());
        File { target, contents, path, _folder: folder }
    }

    fn offset(&self, block: u64) -> u64 {
        self.target.data_offset() + block % 256 * u64::from(BLOCK)
    }

    fn expected(&self, block: u64) -> &[u8] {
        &self.contents[self.offset(block) as usize..][..BLOCK as usize]
    }
}

fn buffer(pool: &Pool) -> Buffer {
    pool.acquire().expect("a buffer is free")
}

/// Polls a future once; it is not ready.
async fn begin<T>(mut future: Pin<&mut impl Future<Output = T>>) {
    poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// Reads `count` blocks at once, by a task each, and compares their bytes.
async fn read_all<E: Engine + 'static>(engine: AsyncEngine<E>, file: &File, pool: &Pool, count: u64) {
    let mut tasks = JoinSet::new();
    for block in 0..count {
        let (engine, buffer, offset) = (engine.clone(), buffer(pool), file.offset(block));
        tasks.spawn_local(async move { (block, engine.read(buffer, BLOCK, offset).await) });
    }
    while let Some(read) = tasks.join_next().await {
        let (block, done) = read.unwrap();
        let Done { result, buffer } = done.unwrap();
        assert_eq!((result, &buffer[..]), (Ok(BLOCK), file.expected(block)), "block {block}");
    }
    assert_eq!((engine.with(|engine| engine.in_flight()), pool.available()), (0, pool.count()));
}

#[test]
fn a_thousand_reads_at_depth_8_have_the_right_bytes() {
    let (file, pool) = (File::new(), Pool::new(1000, BLOCK).unwrap());
    let target = &file.target;
    let ring = || IoUring::builder().iodepth(DEPTH);
    run(async {
        let engine = ring().open(target, &pool).unwrap();
        read_all(AsyncEngine::new(engine).unwrap(), &file, &pool, 1000).await;
        let engine = ring().sqpoll().open(target, &pool).unwrap();
        read_all(AsyncEngine::new(engine).unwrap(), &file, &pool, 1000).await;
        let engine = Libaio::builder().iodepth(DEPTH).eventfd().open(target, &pool).unwrap();
        read_all(AsyncEngine::new(engine).unwrap(), &file, &pool, 1000).await;
        let engine = Libaio::builder().iodepth(DEPTH).open(target, &pool).unwrap();
        read_all(AsyncEngine::new(engine).unwrap(), &file, &pool, 1000).await;
        let engine = PosixAio::builder().iodepth(DEPTH).open(target, &pool).unwrap();
        read_all(AsyncEngine::new(engine).unwrap(), &file, &pool, 100).await;
    });
}

#[test]
fn posix_sio_does_one_after_the_other() {
    let (file, pool) = (File::new(), Pool::new(100, BLOCK).unwrap());
    run(async {
        let engine = AsyncEngine::new(PosixSio::builder().open(&file.target, &pool).unwrap()).unwrap();
        read_all(engine.clone(), &file, &pool, 100).await;
        assert_eq!(engine.with(|engine| engine.counters().submit_calls), 100);
    });
}

#[test]
fn an_engine_as_an_object_works() {
    let (file, pool) = (File::new(), Pool::new(DEPTH, BLOCK).unwrap());
    run(async {
        let path = "io_uring/syscall/interrupt".parse().unwrap();
        let engine = iopj_engine::open(path, &file.target, &pool, 2).unwrap();
        read_all(AsyncEngine::new(engine).unwrap(), &file, &pool, u64::from(DEPTH)).await;
    });
}

#[test]
fn requests_of_one_round_share_a_system_call() {
    let (file, pool) = (File::new(), Pool::new(DEPTH, BLOCK).unwrap());
    run(async {
        let engine = IoUring::builder().iodepth(DEPTH).open(&file.target, &pool).unwrap();
        let engine = AsyncEngine::new(engine).unwrap();
        for round in 1..=3 {
            read_all(engine.clone(), &file, &pool, u64::from(DEPTH)).await;
            assert_eq!(engine.with(|engine| engine.counters().submit_calls), round);
        }
    });
}

#[test]
fn writes_and_flushes_reach_the_file() {
    let (file, pool) = (File::new(), Pool::new(1, BLOCK).unwrap());
    let id = file.target.file_id().unwrap();
    let target = Target::open_for_writing(&file.path, WritePermission::OwnFile { id }).unwrap();
    run(async {
        let engine = AsyncEngine::new(IoUring::builder().open(&target, &pool).unwrap()).unwrap();
        let mut buffer = buffer(&pool);
        buffer.fill(0x5a);
        let Done { result, buffer } = engine.write(buffer, BLOCK, file.offset(7)).await.unwrap();
        assert_eq!((result, buffer[0]), (Ok(BLOCK), 0x5a));
        engine.flush().await.unwrap();
        let request = Request::read(buffer, BLOCK, file.offset(8)).tagged(77);
        let completion = engine.request(request).await.unwrap();
        assert_eq!((completion.tag, completion.result), (77, Ok(BLOCK)));
        assert_eq!(&completion.into_buffer().unwrap()[..], file.expected(8));
    });
    let start = file.offset(7) as usize;
    assert_eq!(std::fs::read(&file.path).unwrap()[start..][..BLOCK as usize], [0x5a; BLOCK as usize]);
}

#[test]
fn what_is_refused_comes_back() {
    let (file, pool) = (File::new(), Pool::new(1, BLOCK).unwrap());
    run(async {
        let engine = AsyncEngine::new(IoUring::builder().open(&file.target, &pool).unwrap()).unwrap();
        let request = Request::read(buffer(&pool), BLOCK, 1).tagged(5);
        let Err(RequestError::Refused(refused)) = engine.request(request).await else {
            panic!("not refused")
        };
        assert!(matches!(refused.error().cause(), Cause::Unaligned { offset: 1, .. }), "{refused}");
        assert_eq!((refused.request().tag, refused.request().operation.op()), (5, Op::Read));
        drop(refused);
        read_all(engine, &file, &pool, 1).await;
    });
}

#[test]
fn a_failed_request_is_a_result() {
    let pool = Pool::new(1, BLOCK).unwrap();
    run(async {
        let options = SimOptions { error_ppm: 1_000_000, latency_steps: 5, ..SimOptions::default() };
        let engine = AsyncEngine::new(Sim::open(&pool, 1, options)).unwrap();
        let done = engine.read(buffer(&pool), BLOCK, 0).await.unwrap();
        assert_eq!(done.result, Err(IoError::Os(libc::EIO)));
        assert!(matches!(engine.flush().await, Err(RequestError::Refused(_))), "the engine has no flush");
    });
}

/// On a drive that polls and one that interrupts: a future that is dropped leaves its request alone.
#[test]
fn the_buffer_of_a_dropped_future_comes_back_when_its_request_completes() {
    for builder in [NvmeUser::builder(), NvmeUser::builder().interrupt()] {
        let (drive, pool) = (Drive::open(4096).unwrap(), Pool::new(2, 512).unwrap());
        run(async {
            let engine = AsyncEngine::new(builder.open(drive.target(), &pool).unwrap()).unwrap();
            let read = {
                let mut read = Box::pin(engine.read(buffer(&pool), 512, 0));
                begin(read.as_mut()).await;
                while engine.with(|engine| engine.in_flight()) == 0 {
                    yield_now().await;
                }
                read
            };
            // This one waits for room, so it is withdrawn.
            let mut waits = Box::pin(engine.read(buffer(&pool), 512, 512));
            begin(waits.as_mut()).await;
            yield_now().await;
            assert_eq!(pool.available(), 0);
            drop(waits);
            assert_eq!(pool.available(), 1, "a request that waited for room was withdrawn");
            drop(read);
            for _ in 0..10 {
                yield_now().await;
            }
            assert_eq!((engine.with(|engine| engine.in_flight()), pool.available()), (1, 1), "it goes on");
            drive.work(1);
            while pool.available() < 2 {
                yield_now().await;
            }
            assert_eq!(engine.with(|engine| engine.in_flight()), 0);
        });
    }
}

#[test]
fn the_completion_of_a_dropped_future_goes_to_no_other() {
    let (drive, pool) = (Drive::open(4096).unwrap(), Pool::new(2, 512).unwrap());
    run(async {
        let engine = NvmeUser::builder().iodepth(2).open(drive.target(), &pool).unwrap();
        let engine = AsyncEngine::new(engine).unwrap();
        let in_flight = || engine.with(|engine| engine.in_flight());
        {
            let mut dropped = pin!(engine.read(buffer(&pool), 512, 0));
            begin(dropped.as_mut()).await;
            while in_flight() == 0 {
                yield_now().await;
            }
        }
        let mut next = pin!(engine.read(buffer(&pool), 512, 512));
        begin(next.as_mut()).await;
        while in_flight() == 1 {
            yield_now().await;
        }
        drive.work(1); // the first
        while pool.available() == 0 {
            yield_now().await;
        }
        begin(next.as_mut()).await;
        assert_eq!(in_flight(), 1);
        drive.work(1);
        assert_eq!(next.await.unwrap().result, Ok(512));
    });
}

/// Counts how often the runtime polls all tasks while `work` runs.
fn counted<T, F: Future<Output = T>>(work: impl FnOnce(Rc<Cell<u32>>) -> F) -> T {
    let (rounds, local) = (Rc::new(Cell::new(0)), LocalSet::new());
    let mut inside = pin!(local.run_until(async { timeout(LIMIT, work(Rc::clone(&rounds))).await }));
    let all = poll_fn(|context| {
        rounds.set(rounds.get() + 1);
        inside.as_mut().poll(context)
    });
    runtime().block_on(all).expect("nothing hangs")
}

/// The runtime sleeps: in this time it is woken by two timers alone, a few times. A task that spun would be
/// polled thousands of times.
async fn assert_sleeps(rounds: &Cell<u32>) {
    let before = rounds.get();
    sleep(Duration::from_millis(350)).await;
    let passed = rounds.get() - before;
    assert!(passed < 20, "polled {passed} times");
}

#[test]
fn an_engine_that_interrupts_sleeps_until_its_completion() {
    let (drive, pool) = (Drive::open(4096).unwrap(), Pool::new(1, 512).unwrap());
    let engine = NvmeUser::builder().interrupt().open(drive.target(), &pool).unwrap();
    counted(async |rounds| {
        let engine = AsyncEngine::new(engine).unwrap();
        assert_sleeps(&rounds).await; // with nothing in flight
        let task = spawn_local({
            let (engine, buffer) = (engine.clone(), buffer(&pool));
            async move { engine.read(buffer, 512, 0).await }
        });
        assert_sleeps(&rounds).await;
        assert!(!task.is_finished());
        drive.work(1);
        assert_eq!(task.await.unwrap().unwrap().result, Ok(512));
        assert_sleeps(&rounds).await;
    });
}

#[test]
fn an_engine_that_polls_sleeps_when_it_is_idle() {
    let (drive, pool) = (Drive::open(4096).unwrap(), Pool::new(1, 512).unwrap());
    let engine = NvmeUser::builder().switches().open(drive.target(), &pool).unwrap();
    counted(async |rounds| {
        let engine = AsyncEngine::new(engine).unwrap();
        assert_sleeps(&rounds).await;
        let task = spawn_local({
            let (engine, buffer) = (engine.clone(), buffer(&pool));
            async move { engine.read(buffer, 512, 0).await }
        });
        let before = rounds.get();
        while rounds.get() - before < 1000 {
            yield_now().await;
        }
        // It interrupts from now on, with a request in flight.
        engine.with(|engine| engine.set_completion(UserCompletion::Interrupt)).unwrap();
        assert_sleeps(&rounds).await;
        // And polls again.
        engine.with(|engine| engine.set_completion(UserCompletion::Poll(Spin::Tight))).unwrap();
        drive.work(1);
        assert_eq!(task.await.unwrap().unwrap().result, Ok(512));
        assert_sleeps(&rounds).await;
    });
}

/// A ring is entered a few times for each read: to submit it, and when its descriptor is readable.
#[test]
fn a_ring_makes_a_few_system_calls_per_read() {
    const READS: u64 = 200;
    let (file, pool) = (File::new(), Pool::new(1, BLOCK).unwrap());
    counted(async |rounds| {
        let engine = IoUring::builder().open(&file.target, &pool).unwrap();
        let engine = AsyncEngine::new(engine).unwrap();
        let mut buffer = buffer(&pool);
        let before = rounds.get();
        for block in 0..READS {
            let done = engine.read(buffer, BLOCK, file.offset(block)).await.unwrap();
            assert_eq!((done.result, &done.buffer[..]), (Ok(BLOCK), file.expected(block)));
            buffer = done.buffer;
        }
        let calls = engine.with(|engine| engine.counters()).system_calls.unwrap();
        assert!((READS..=8 * READS).contains(&calls), "{calls} system calls");
        assert!(u64::from(rounds.get() - before) <= 16 * READS, "polled {} times", rounds.get() - before);
        assert_sleeps(&rounds).await;
    });
}

/// The rings among this thread's descriptors.
fn rings() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc/thread-self/fd").unwrap().map(|entry| entry.unwrap());
    let is_ring = |path| std::fs::read_link(path).is_ok_and(|to| to.ends_with("anon_inode:[io_uring]"));
    let rings = entries.filter(|entry| is_ring(entry.path()));
    rings.map(|entry| entry.file_name().to_str().unwrap().parse().unwrap()).collect()
}

#[test]
fn an_engine_that_is_finished_tells_every_future() {
    let (file, pool) = (File::new(), Pool::new(4, BLOCK).unwrap());
    // From here on this thread's descriptors are its own.
    // SAFETY: the thread goes on with copies of all descriptors.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
    run(async {
        let before = rings();
        let engine = IoUring::builder().iodepth(2).open(&file.target, &pool).unwrap();
        let mut rings = rings();
        rings.retain(|ring| !before.contains(ring));
        let engine = AsyncEngine::new(engine).unwrap();
        // No system call reaches the ring any more.
        let null = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: the number stays the ring's to close.
        assert_eq!(unsafe { libc::dup2(null.as_raw_fd(), rings[0]) }, rings[0]);
        let mut tasks = JoinSet::new();
        for block in 0..4 {
            let (engine, buffer, offset) = (engine.clone(), buffer(&pool), file.offset(block));
            tasks.spawn_local(async move { engine.read(buffer, BLOCK, offset).await });
        }
        let mut told = 0;
        while let Some(read) = tasks.join_next().await {
            let error = read.unwrap().unwrap_err();
            let RequestError::Finished(error) = error else { panic!("{error}") };
            assert!(matches!(error.cause(), Cause::Call { call: "io_uring_enter", .. }), "{error}");
            told += 1;
        }
        // Two had been pushed, and two waited for room.
        assert_eq!((told, pool.available()), (4, 2));
        assert!(matches!(engine.flush().await, Err(RequestError::Finished(_))), "and those that come later");
    });
}

#[test]
fn the_last_handle_ends_the_engine_after_its_requests() {
    let (drive, pool) = (Drive::open(4096).unwrap(), Pool::new(1, 512).unwrap());
    run(async {
        let engine = NvmeUser::builder().interrupt().open(drive.target(), &pool).unwrap();
        let engine = AsyncEngine::new(engine).unwrap();
        {
            let mut read = Box::pin(engine.read(buffer(&pool), 512, 0));
            begin(read.as_mut()).await;
            while engine.with(|engine| engine.in_flight()) == 0 {
                yield_now().await;
            }
        }
        drop(engine);
        for _ in 0..10 {
            yield_now().await;
        }
        assert!(pool.holders() > 1, "the request is in flight");
        drive.work(1);
        while pool.holders() > 1 {
            yield_now().await;
        }
        assert_eq!(pool.available(), 1);
    });
}

#[test]
fn a_handle_that_outlives_its_runtime_gets_an_error() {
    let pool = Pool::new(2, BLOCK).unwrap();
    let never = SimOptions { never_ppm: 1_000_000, ..SimOptions::default() };
    let (local, runtime) = (LocalSet::new(), runtime());
    let engine = local.block_on(&runtime, async { AsyncEngine::new(Sim::open(&pool, 1, never)).unwrap() });
    let mut read = pin!(engine.read(buffer(&pool), BLOCK, 0));
    local.block_on(&runtime, async {
        begin(read.as_mut()).await;
        yield_now().await;
    });
    drop(local);
    for error in [runtime.block_on(read).unwrap_err(), runtime.block_on(engine.flush()).unwrap_err()] {
        assert!(matches!(error, RequestError::Finished(_)), "{error}");
    }
}
