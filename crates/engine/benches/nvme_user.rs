//! Runs the `nvme-user` engine on a simulated drive, for `cargo xtask instructions` to count what its calls
//! cost: `nvme_user MODE IODEPTH COUNT`, where COUNT is reads of 4 KiB (`long`: of 128 KiB, which a list
//! names) or empty polls.
//!
//! The engine is called in separate functions, whose names begin with `counted_`. The drive's work and the
//! choice of the next request happen outside of them.

use iopj_engine::nvme_user::sim::Drive;
use iopj_engine::{Completion, Engine, EngineError, Op, Pool, Request, Slot};
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
    let mut engine = iopj_engine::open("nvme-user/doorbell/poll".parse()?, drive.target(), &pool, iodepth)?;
    match &mode[..] {
        "single" | "long" => reads(&mut *engine, &drive, [iodepth, 1], len, count)?,
        "batch" => reads(&mut *engine, &drive, [iodepth, iodepth], len, count)?,
        "empty-poll" => empty_polls(&mut *engine, &drive, iodepth, count)?,
        _ => return Err(format!("`{mode}` is not one of single, batch, long, empty-poll").into()),
    }
    Ok(())
}

/// Reads `len` bytes `count` times (`iodepth` times at least) with `iodepth` in flight, of which the drive
/// completes `at_once` between two waits. The engine is called as the generator calls it: what is pushed is
/// submitted by the wait that follows. At depth 1 that wait is an empty poll as well.
fn reads(
    engine: &mut dyn Engine,
    drive: &Drive,
    [iodepth, at_once]: [u32; 2],
    len: u32,
    count: u64,
) -> Result<(), EngineError> {
    let mut requests = first_requests(iodepth, len);
    let mut done = Vec::with_capacity(iodepth as usize);
    let (mut pushed, mut completed) = (0, 0);
    while completed < count {
        if !requests.is_empty() {
            pushed += counted_push(engine, &requests)? as u64;
        }
        counted_wait(engine, 0, &mut done)?;
        drive.work(at_once);
        completed += done.len() as u64;
        requests.clear();
        requests
            .extend(done.drain(..).zip(pushed..count).map(|(one, number)| request(one.slot, len, number)));
    }
    Ok(())
}

/// Polls `count` times while `iodepth` reads are in flight, none of which completes meanwhile.
fn empty_polls(engine: &mut dyn Engine, drive: &Drive, iodepth: u32, count: u64) -> Result<(), EngineError> {
    let mut done = Vec::with_capacity(iodepth as usize);
    counted_push(engine, &first_requests(iodepth, IO_LEN))?;
    for _ in 0..count {
        counted_wait(engine, 0, &mut done)?;
        assert!(done.is_empty(), "a poll that is not empty");
    }
    drive.work(iodepth);
    engine.wait(iodepth as usize, &mut done)
}

/// A read for every slot.
fn first_requests(iodepth: u32, len: u32) -> Vec<Request> {
    (0..iodepth).map(|slot| request(Slot(slot), len, slot.into())).collect()
}

fn request(slot: Slot, len: u32, number: u64) -> Request {
    let offset = number * u64::from(len) % DRIVE_LEN as u64;
    Request { op: Op::Read, slot, len, offset, tag: number }
}

#[inline(never)]
fn counted_push(engine: &mut dyn Engine, requests: &[Request]) -> Result<usize, EngineError> {
    engine.push(requests)
}

#[inline(never)]
fn counted_wait(engine: &mut dyn Engine, min: usize, done: &mut Vec<Completion>) -> Result<(), EngineError> {
    engine.wait(min, done)
}
