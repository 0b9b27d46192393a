//! Reads at depth 8 by a ring that polls the device, or says why this target cannot be polled:
//! `cargo run --release -p iopj-engine --example polling -- [FILE]`.
#![expect(clippy::print_stdout, reason = "an example speaks to the terminal")]

mod common;

use iopj_engine::check::{Availability, check};
use iopj_engine::{Engine, IoError, IoPath, IoUring, Pool, Request, Target};
use std::error::Error;
use std::path::Path;

const LEN: u32 = 4096;
const DEPTH: u32 = 8;
const READS: usize = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    println!("{}", run(common::data()?.path())?);
    Ok(())
}

/// Reads, and says what it has read.
pub(crate) fn run(file: &Path) -> Result<String, Box<dyn Error>> {
    let target = Target::open(file)?;
    let path: IoPath = "io_uring/syscall/poll".parse()?;
    if let Availability::Unavailable { reason, remedy } = check(path, &target) {
        return Ok(format!("{path} does not work here: {reason}; {remedy}"));
    }
    let pool = Pool::new(DEPTH, LEN)?;
    let mut engine = IoUring::builder().poll().iodepth(DEPTH).open(&target, &pool)?;
    let mut offsets = common::offsets(&target, LEN).take(READS);
    let mut bytes: Result<u32, IoError> = Ok(0);
    loop {
        while let Some(buffer) = pool.acquire()
            && let Some(offset) = offsets.next()
        {
            engine.push(Request::read(buffer, LEN, offset))?;
        }
        let found = engine.wait(1, None, |completion| {
            bytes = bytes.and_then(|sum| Ok(sum + completion.result?));
        })?;
        if found == 0 {
            break;
        }
    }
    Ok(format!("{} bytes in {READS} reads on {path}", bytes?))
}
