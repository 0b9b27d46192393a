//! Runs the `nvme-user` engine on a simulated drive, for `cargo xtask instructions` to count what its calls
//! cost: `nvme_user MODE IODEPTH COUNT`, where COUNT is reads of 4 KiB (`long`: of 128 KiB, which a list
//! names) or empty polls.
//!
//! The engine is called in separate functions, whose names begin with `counted_`. The drive's work and the
//! choice of the next request happen outside of them.

use iopj_engine::nvme_user::sim::Drive;
use iopj_engine::{Buffer, Buffers, Completion, Engine, EngineError, NvmeUser, Pool, Request};
use std::error::Error;

const IO_LEN: u32 = 4096;
const LONG_LEN: u32 = 128 << 10;
const DRIVE_LEN: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [mode, iodepth, count] = &words[..] else {
        return Ok(()); // built and run along with the others; only the task passes arguments
    };
    let (iodepth, count): (u32, u64) = (iodepth.parse()?, count.parse()?);
    let drive = Drive::open(DRIVE_LEN)?;
    let len = if mode == "long" { LONG_LEN } else { IO_LEN };
    let pool = Pool::new(iodepth, len)?;
    let mut engine = NvmeUser::builder().iodepth(iodepth).open(drive.target(), &pool)?;
    let buffers = (0..iodepth).map_while(|_| pool.acquire()).collect();
    match &mode[..] {
        "single" | "long" => reads(&mut engine, &drive, buffers, [len, 1], count)?,
        "batch" => reads(&mut engine, &drive, buffers, [len, iodepth], count)?,
        "empty-poll" => empty_polls(&mut engine, &drive, buffers, count)?,
        _ => return Err(format!("`{mode}` is not one of single, batch, long, empty-poll").into()),
    }
    Ok(())
}

/// Reads `len` bytes `count` times (as many times as there are buffers at least) with all buffers in flight,
/// of which the drive completes `at_once` between two waits. The engine is called as the generator calls it:
/// what is pushed is submitted by the wait that follows. At depth 1 that wait is an empty poll as well.
fn reads(
    engine: &mut impl Engine,
    drive: &Drive,
    mut buffers: Vec<Buffer>,
    [len, at_once]: [u32; 2],
    count: u64,
) -> Result<(), EngineError> {
    let most = count.max(buffers.len() as u64);
    let (mut pushed, mut completed) = (0, 0);
    while completed < count {
        while pushed < most && buffers.len() > 1 {
            counted_push(engine, &mut buffers, [len.into(), pushed])?;
            pushed += 1;
        }
        completed += if pushed < most && !buffers.is_empty() {
            pushed += 1;
            counted_round(engine, &mut buffers, [len.into(), pushed - 1])?
        } else {
            counted_wait(engine, &mut buffers)?
        } as u64;
        drive.work(at_once);
    }
    Ok(())
}

/// Polls `count` times while a read of each buffer is in flight, none of which completes meanwhile.
fn empty_polls(
    engine: &mut impl Engine,
    drive: &Drive,
    mut buffers: Vec<Buffer>,
    count: u64,
) -> Result<(), EngineError> {
    let iodepth = buffers.len();
    let mut ended = Vec::with_capacity(iodepth);
    for number in 0..iodepth as u64 {
        counted_push(engine, &mut buffers, [IO_LEN.into(), number])?;
    }
    for _ in 0..count {
        let found = counted_wait(engine, &mut ended)?;
        assert!(found == 0, "a poll that is not empty");
    }
    drive.work(iodepth as u32);
    engine.wait(iodepth, None, drop)?;
    Ok(())
}

/// Pushes read number `number` of `len` bytes into the last of `buffers`, if there is one.
#[inline(always)]
fn push(
    engine: &mut impl Engine,
    buffers: &mut Vec<Buffer>,
    [len, number]: [u64; 2],
) -> Result<(), EngineError> {
    if let Some(buffer) = buffers.pop() {
        let offset = (number * len) & (DRIVE_LEN as u64 - 1);
        engine.push(Request::read(buffer, len as u32, offset).tagged(number))?;
    }
    Ok(())
}

#[inline(never)]
fn counted_push(
    engine: &mut impl Engine,
    buffers: &mut Vec<Buffer>,
    read: [u64; 2],
) -> Result<(), EngineError> {
    push(engine, buffers, read)
}

/// A push and the wait that submits it, as the generator's loop has them.
#[inline(never)]
fn counted_round(
    engine: &mut impl Engine,
    buffers: &mut Vec<Buffer>,
    read: [u64; 2],
) -> Result<usize, EngineError> {
    push(engine, buffers, read)?;
    engine.wait(0, None, keep_in(buffers))
}

#[inline(never)]
fn counted_wait(engine: &mut impl Engine, buffers: &mut Vec<Buffer>) -> Result<usize, EngineError> {
    engine.wait(0, None, keep_in(buffers))
}

/// Keeps the buffers of completions; there is room for all. This is a function of its own because the counter
/// would stop in one that has `counted_` in its name.
fn keep_in(buffers: &mut Vec<Buffer>) -> impl FnMut(Completion) {
    |Completion { buffers: back, .. }| match back {
        Buffers::One(buffer) => {
            if buffers.len() < buffers.capacity() {
                buffers.push(buffer);
            }
        }
        Buffers::None => {}
        // Moved, because what is dropped in its place must have one, in memory.
        Buffers::Many(buffers) => drop(buffers),
    }
}
