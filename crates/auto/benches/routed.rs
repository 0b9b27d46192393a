//! Reads by an engine alone, or by the adaptive engine over such engines, for `cargo xtask instructions` to
//! count what the choice costs: `routed WHAT FILE IODEPTH COUNT`. WHAT is an engine and how it is reached:
//!
//! - `ring`, `sio` (at depth 1) or `user` (the driver in this process, polling, on a simulated drive, without
//!   a file), each alone;
//! - `ring-pinned` and so on: by the adaptive engine, pinned to that way;
//! - `ring-follow`: it chooses, without exploration, so the way stays the same;
//! - `ring-bounded`: it chooses, with a bound of latency that is far;
//! - `ring-mixed` and `ring-pinned-mixed`: two lengths take turns.
//!
//! The loop is a function whose name begins with `counted_`; what the simulated drive does in it is one that
//! begins with `uncounted_`. The difference between two counts, divided by the difference in I/Os, excludes
//! the start.
//!
//! How much the adaptive engine times and looks at depends on how fast I/Os come. So that a slow machine, or
//! one that does other things besides, makes no difference, it has a clock by which they come at a rate of
//! their own ([`BenchClock`]).

use iopj_auto::{Auto, AutoBuilder, Cell, Clock, Crowding, Direction, Figures, Policy, SystemClock, Way};
use iopj_engine::nvme_user::sim::Drive;
use iopj_engine::{
    Buffers, Completion, Engine, EngineError, IoUring, NvmeUser, Pool, PosixSio, Request, Target,
};
use std::cell;
use std::error::Error;
use std::hint::black_box;

const LEN: u32 = 4096;
const DRIVE_LEN: usize = 1 << 20;
/// Time from one I/O to the next by the adaptive engine's clock. At 10,000 I/Os a second one in 64 is timed
/// with a bound and without (below some 8,000 more are with one), an epoch is as short as it can be (2,048
/// I/Os), and the machine's load is looked at in each: where I/Os come faster, choosing costs less.
const IO_NS: u64 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [what, file, iodepth, count] = &words[..] else {
        return Ok(()); // built and run along with the others; only a count passes arguments
    };
    let (iodepth, count): (u32, u64) = (iodepth.parse()?, count.parse()?);
    let pool = Pool::new(iodepth, LEN)?;
    let done = cell::Cell::new(0);
    let clock = BenchClock { done: &done };
    let (engine, how) = what.split_once('-').unwrap_or((what, "alone"));
    if engine == "user" {
        let drive = Drive::open(DRIVE_LEN)?;
        let target = drive.target();
        let reads = Reads::of(target, &pool, count, &done);
        return match how {
            "alone" => reads.driven(NvmeUser::builder().iodepth(iodepth).open(target, &pool)?, &drive),
            how => {
                let auto = routed(how, Way::UserPoll, iodepth)?;
                reads.driven(auto.open_with_clock(target, &pool, clock)?, &drive)
            }
        };
    }
    let target = Target::open(file.as_ref())?;
    let reads = Reads::of(&target, &pool, count, &done);
    let reads = if how.ends_with("mixed") { Reads { lens: [LEN, LEN / 2], ..reads } } else { reads };
    let way = match (engine, how) {
        ("ring", "alone" | "mixed") => {
            return reads.run(IoUring::builder().iodepth(iodepth).open(&target, &pool)?);
        }
        ("sio", "alone") => return reads.run(PosixSio::builder().open(&target, &pool)?),
        ("ring", _) => Way::Interrupt,
        ("sio", _) => Way::Sio,
        _ => return Err(format!("`{engine}` is not one of ring, sio, user").into()),
    };
    reads.run(routed(how, way, iodepth)?.open_with_clock(&target, &pool, clock)?)
}

/// A clock that goes on by the reads that have ended, on a machine that has a processor to spare. It asks the
/// system all that it is asked, so that this is counted, and gives answers of its own.
struct BenchClock<'a> {
    done: &'a cell::Cell<u64>,
}

impl Clock for BenchClock<'_> {
    fn now_ns(&self) -> u64 {
        black_box(SystemClock.now_ns());
        (self.done.get() + 1) * IO_NS
    }

    /// The thread is never idle.
    fn cpu_ns(&self) -> u64 {
        black_box(SystemClock.cpu_ns());
        (self.done.get() + 1) * IO_NS
    }

    fn sleep(&self, ns: u64) {
        SystemClock.sleep(ns);
    }

    fn crowding(&self) -> Option<Crowding> {
        black_box(SystemClock.crowding());
        Some(Crowding { runnable: 1, processors: 2 })
    }
}

/// The adaptive engine that takes this way: pinned to it, or because the policy prefers it and nothing is
/// tried.
fn routed(how: &str, way: Way, iodepth: u32) -> Result<AutoBuilder, Box<dyn Error>> {
    let auto = Auto::builder().iodepth(iodepth).among(&[way, Way::fallback(way.is_bypass())]);
    let ways = vec![Figures::unknown(way)];
    let cells = vec![Cell { op: Direction::Read, size: LEN, in_flight: iodepth, ways }];
    let policy = Policy { exploration: 0.0, cells, ..Policy::default() };
    match how {
        "pinned" | "pinned-mixed" => Ok(auto.pinned(way)),
        "follow" => Ok(auto.policy(policy)),
        "bounded" => Ok(auto.policy(Policy { bound_p99_ns: Some(u64::MAX >> 1), ..policy })),
        _ => Err(format!("`{how}` is not one of pinned, pinned-mixed, follow, bounded, mixed").into()),
    }
}

/// What is read.
struct Reads<'a> {
    pool: &'a Pool,
    first: u64,
    blocks: u64,
    count: u64,
    /// Two lengths, which take turns.
    lens: [u32; 2],
    /// How many had ended before the latest wait.
    done: &'a cell::Cell<u64>,
}

/// What an application looks at in every completion.
#[derive(Default)]
struct Ended {
    /// The tags, one added to the other without carry.
    tags: u64,
    failed: u64,
}

impl Ended {
    #[inline(always)]
    fn take(&mut self, completion: Completion) {
        self.tags ^= completion.tag;
        self.failed += u64::from(completion.result.is_err());
        match completion.buffers {
            Buffers::One(buffer) => drop(buffer),
            other => drop(other),
        }
    }

    fn check(&self, count: u64) -> Result<(), Box<dyn Error>> {
        let is_whole = self.failed == 0 && self.tags == (0..count).fold(0, |tags, tag| tags ^ tag);
        if is_whole { Ok(()) } else { Err("a read failed, or its completion was lost or came twice".into()) }
    }
}

impl<'a> Reads<'a> {
    fn of(target: &Target, pool: &'a Pool, count: u64, done: &'a cell::Cell<u64>) -> Reads<'a> {
        let (first, blocks) = (target.data_offset(), target.data_len() / u64::from(LEN));
        // Lengths that the compiler does not know, as in an application.
        Reads { pool, first, blocks, count, lens: black_box([LEN, LEN]), done }
    }

    fn run(self, mut engine: impl Engine) -> Result<(), Box<dyn Error>> {
        counted_reads::<1>(&mut engine, &self, || ())?.check(self.count)?;
        stayed(&engine)
    }

    fn driven(self, mut engine: impl Engine, drive: &Drive) -> Result<(), Box<dyn Error>> {
        counted_reads::<0>(&mut engine, &self, || uncounted_work(drive))?.check(self.count)?;
        stayed(&engine)
    }

    /// Read `number`, if there is a buffer.
    #[inline(always)]
    fn next(&self, number: u64) -> Option<Request> {
        let buffer = self.pool.acquire()?;
        let block = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.blocks;
        let len = self.lens[number as usize % 2];
        Some(Request::read(buffer, len, self.first + block * u64::from(LEN)).tagged(number))
    }
}

/// The adaptive engine took the one way that is counted.
fn stayed(engine: &impl Engine) -> Result<(), Box<dyn Error>> {
    match engine.counters().routes {
        Some(routes) if routes.switches > 0 => Err("the way changed".into()),
        _ => Ok(()),
    }
}

/// Reads with every buffer in flight: as many are pushed after a wait as came back in it. A wait is for `MIN`
/// at least. The simulated drive works between two waits: each submits what was pushed before it and hands
/// out what the drive has completed.
#[inline(never)]
fn counted_reads<const MIN: usize>(
    engine: &mut impl Engine,
    reads: &Reads<'_>,
    work: impl Fn(),
) -> Result<Ended, EngineError> {
    let (mut pushed, mut done) = (0, 0);
    let mut ended = Ended::default();
    while done < reads.count {
        while pushed < reads.count
            && let Some(request) = reads.next(pushed)
        {
            engine.push(request)?;
            pushed += 1;
        }
        reads.done.set(done);
        done += engine.wait(MIN, None, |completion| ended.take(completion))? as u64;
        work();
    }
    Ok(ended)
}

/// The drive completes one read.
#[inline(never)]
fn uncounted_work(drive: &Drive) {
    drive.work(1);
}
