//! Reads one block at a time and waits for it, by system calls and by io_uring:
//! `cargo run --release -p iopj-engine --example blocking -- [FILE]`.
#![expect(clippy::print_stdout, reason = "an example speaks to the terminal")]

mod common;

use iopj_engine::{DynEngine, Engine, IoUring, Pool, PosixSio, Request, Target};
use std::error::Error;
use std::path::Path;

const LEN: u32 = 4096;
const READS: usize = 500;

fn main() -> Result<(), Box<dyn Error>> {
    println!("{}", run(common::data()?.path())?);
    Ok(())
}

/// Reads, and says what it has read.
pub(crate) fn run(path: &Path) -> Result<String, Box<dyn Error>> {
    let target = Target::open(path)?;
    let pool = Pool::new(1, LEN)?;
    let by_calls: Box<dyn DynEngine> = Box::new(PosixSio::builder().open(&target, &pool)?);
    let by_ring = Box::new(IoUring::builder().open(&target, &pool)?);
    let mut bytes = 0;
    for mut engine in [by_calls, by_ring] {
        for offset in common::offsets(&target, LEN).take(READS) {
            let buffer = pool.acquire().ok_or("every buffer is in use")?;
            engine.push(Request::read(buffer, LEN, offset))?;
            let mut result = None;
            engine.wait(1, None, |completion| result = Some(completion.result))?;
            bytes += result.ok_or("nothing has completed")??;
        }
    }
    Ok(format!("{bytes} bytes in {} reads, one at a time", 2 * READS))
}
