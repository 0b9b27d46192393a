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

use iopj_auto::{Auto, AutoBuilder, Cell, Direction, Figures, Policy, Way};
use iopj_engine::nvme_user::sim::Drive;
use iopj_engine::{
    Buffers, Completion, Engine, EngineError, IoUring, NvmeUser, Pool, PosixSio, Request, Target,
};
use std::error::Error;

const LEN: u32 = 4096;
const DRIVE_LEN: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [what, file, iodepth, count] = &words[..] else {
        return Ok(()); // built and run along with the others; only a count passes arguments
    };
    let (iodepth, count): (u32, u64) = (iodepth.parse()?, count.parse()?);
    let pool = Pool::new(iodepth, LEN)?;
    let (engine, how) = what.split_once('-').unwrap_or((what, "alone"));
    if engine == "user" {
        let drive = Drive::open(DRIVE_LEN)?;
        let target = drive.target();
        let reads = Reads::of(target, &pool, count);
        return match how {
            "alone" => reads.driven(NvmeUser::builder().iodepth(iodepth).open(target, &pool)?, &drive),
            how => reads.driven(routed(how, Way::UserPoll, iodepth)?.open(target, &pool)?, &drive),
        };
    }
    let target = Target::open(file.as_ref())?;
    let reads = Reads::of(&target, &pool, count);
    let reads = if how.ends_with("mixed") { Reads { lens: [LEN, LEN / 2], ..reads } } else { reads };
    match (engine, how) {
        ("ring", "alone" | "mixed") => reads.run(IoUring::builder().iodepth(iodepth).open(&target, &pool)?),
        ("ring", how) => reads.run(routed(how, Way::Interrupt, iodepth)?.open(&target, &pool)?),
        ("sio", "alone") => reads.run(PosixSio::builder().open(&target, &pool)?),
        ("sio", how) => reads.run(routed(how, Way::Sio, iodepth)?.open(&target, &pool)?),
        _ => Err(format!("`{engine}` is not one of ring, sio, user").into()),
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
    fn of(target: &Target, pool: &'a Pool, count: u64) -> Reads<'a> {
        let (first, blocks) = (target.data_offset(), target.data_len() / u64::from(LEN));
        // Lengths that the compiler does not know, as in an application.
        Reads { pool, first, blocks, count, lens: std::hint::black_box([LEN, LEN]) }
    }

    fn run(self, mut engine: impl Engine) -> Result<(), Box<dyn Error>> {
        counted_reads(&mut engine, &self)?.check(self.count)
    }

    fn driven(self, mut engine: impl Engine, drive: &Drive) -> Result<(), Box<dyn Error>> {
        counted_reads_driven(&mut engine, &self, drive)?.check(self.count)
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

/// Reads with every buffer in flight: as many are pushed after a wait as came back in it.
#[inline(never)]
fn counted_reads(engine: &mut impl Engine, reads: &Reads<'_>) -> Result<Ended, EngineError> {
    let (mut pushed, mut done) = (0, 0);
    let mut ended = Ended::default();
    while done < reads.count {
        while pushed < reads.count
            && let Some(request) = reads.next(pushed)
        {
            engine.push(request)?;
            pushed += 1;
        }
        done += engine.wait(1, None, |completion| ended.take(completion))? as u64;
    }
    Ok(ended)
}

/// The same on a simulated drive, which completes one read between two waits: each wait submits what was
/// pushed before it and hands out what the drive has completed.
#[inline(never)]
fn counted_reads_driven(
    engine: &mut impl Engine,
    reads: &Reads<'_>,
    drive: &Drive,
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
        done += engine.wait(0, None, |completion| ended.take(completion))? as u64;
        uncounted_work(drive);
    }
    Ok(ended)
}

#[inline(never)]
fn uncounted_work(drive: &Drive) {
    drive.work(1);
}
