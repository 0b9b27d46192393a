//! Reads by a ring alone, or by the adaptive engine over such rings, for callgrind to count what the choice
//! costs: `routed WHAT FILE IODEPTH COUNT`, where WHAT is `ring`, `pinned`, `follow` (without exploration, so
//! the way stays that of the ring), `bounded` (with a bound of latency too) or, at depth 1, `sio` and
//! `pinned-sio`; `ring-mixed` and `pinned-mixed` alternate between two lengths.
//!
//! The loop is a function whose name begins with `counted_`. The difference between two counts, divided by
//! the difference in I/Os, excludes the start.

use iopj_auto::{Auto, Policy, Way};
use iopj_engine::{Buffers, Engine, EngineError, IoUring, Pool, PosixSio, Request, Target};
use std::error::Error;

const LEN: u32 = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [what, file, iodepth, count] = &words[..] else {
        return Ok(()); // built and run along with the others; only a count passes arguments
    };
    let (iodepth, count): (u32, u64) = (iodepth.parse()?, count.parse()?);
    let target = Target::open(file.as_ref())?;
    let pool = Pool::new(iodepth, LEN)?;
    let auto = Auto::builder().iodepth(iodepth).among(&[Way::Interrupt, Way::Sio]);
    let still = Policy { exploration: 0.0, ..Policy::default() };
    match &what[..] {
        "ring" => reads(IoUring::builder().iodepth(iodepth).open(&target, &pool)?, &target, &pool, count)?,
        "ring-mixed" => {
            reads_mixed(IoUring::builder().iodepth(iodepth).open(&target, &pool)?, &target, &pool, count)?;
        }
        "pinned-mixed" => {
            reads_mixed(auto.pinned(Way::Interrupt).open(&target, &pool)?, &target, &pool, count)?
        }
        "pinned" => reads(auto.pinned(Way::Interrupt).open(&target, &pool)?, &target, &pool, count)?,
        "follow" => reads(auto.policy(still).open(&target, &pool)?, &target, &pool, count)?,
        "bounded" => {
            let policy = Policy { bound_p99_ns: Some(u64::MAX >> 1), ..still };
            reads(auto.policy(policy).open(&target, &pool)?, &target, &pool, count)?;
        }
        "sio" => reads(PosixSio::builder().open(&target, &pool)?, &target, &pool, count)?,
        "pinned-sio" => reads(auto.pinned(Way::Sio).open(&target, &pool)?, &target, &pool, count)?,
        _ => {
            return Err(format!("`{what}` is not a count of this bench").into());
        }
    }
    Ok(())
}

fn reads(mut engine: impl Engine, target: &Target, pool: &Pool, count: u64) -> Result<(), EngineError> {
    let (first, blocks) = (target.data_offset(), target.data_len() / u64::from(LEN));
    counted_reads(&mut engine, pool, [first, blocks, count], LEN)
}

fn reads_mixed(mut engine: impl Engine, target: &Target, pool: &Pool, count: u64) -> Result<(), EngineError> {
    let (first, blocks) = (target.data_offset(), target.data_len() / u64::from(LEN));
    counted_reads(&mut engine, pool, [first, blocks, count], LEN / 2)
}

/// Reads with every buffer in flight: as many are pushed after a wait as came back in it. Every other one is
/// of `other` bytes.
#[inline(never)]
fn counted_reads(
    engine: &mut impl Engine,
    pool: &Pool,
    [first, blocks, count]: [u64; 3],
    other: u32,
) -> Result<(), EngineError> {
    let (mut pushed, mut done) = (0u64, 0);
    // A length that the compiler does not know, as in an application.
    let lens = std::hint::black_box([LEN, other]);
    while done < count {
        while pushed < count
            && let Some(buffer) = pool.acquire()
        {
            let block = pushed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks;
            let len = lens[pushed as usize % 2];
            engine.push(Request::read(buffer, len, first + block * u64::from(LEN)).tagged(pushed))?;
            pushed += 1;
        }
        done += engine.wait(1, None, |completion| match completion.buffers {
            Buffers::One(buffer) => drop(buffer),
            other => drop(other),
        })? as u64;
    }
    Ok(())
}
