//! Reads a file or a device once from beginning to end, with 32 requests in flight:
//! `cargo run --release -p iopj-engine --example read -- TARGET [PATH]`. PATH is `io_uring/syscall/interrupt`
//! unless it is named; `iopj check` lists all.
#![expect(clippy::print_stdout, reason = "an example speaks to the terminal")]

use iopj_engine::{Engine, IoPath, Pool, Request, Target};
use std::error::Error;
use std::time::Instant;

const DEPTH: u32 = 32;
const LEN: u32 = 64 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let target = arguments.next().ok_or("name a file, a block device or an NVMe namespace")?;
    let path: IoPath = arguments.next().as_deref().unwrap_or("io_uring/syscall/interrupt").parse()?;
    let target = Target::open(target.as_ref())?;
    target.warnings().iter().for_each(|warning| eprintln!("warning: {warning}"));

    let depth = if path.is_synchronous() { 1 } else { DEPTH };
    let pool = Pool::new(depth, LEN)?;
    let mut engine = iopj_engine::open(path, &target, &pool, depth)?;
    let mut offset = target.data_offset();
    let end = offset + target.data_len();
    let (start, mut bytes, mut failed) = (Instant::now(), 0, None);
    while offset < end || engine.in_flight() > 0 {
        while offset < end
            && let Some(buffer) = pool.acquire()
        {
            let len = u64::from(LEN).min(end - offset) as u32;
            engine.push(Request::read(buffer, len, offset).tagged(offset))?;
            offset += u64::from(len);
        }
        // A buffer goes back to the pool with the completion that is dropped.
        engine.wait(1, None, |completion| match completion.result {
            Ok(read) => bytes += u64::from(read),
            Err(error) => failed = Some(error),
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
    }
    println!("{bytes} bytes in {:.3} s on {path}", start.elapsed().as_secs_f64());
    println!("{:?}, {:?}", engine.counters(), engine.setup());
    Ok(())
}
