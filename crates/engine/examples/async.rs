//! Eight tasks of a tokio runtime that read one block after the other:
//! `cargo run --release -p iopj-engine --features tokio --example async -- [FILE]`.
#![expect(clippy::print_stdout, reason = "an example speaks to the terminal")]

mod common;

use iopj_engine::asynchronous::AsyncEngine;
use iopj_engine::{IoUring, Pool, Target};
use std::error::Error;
use std::path::Path;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, LocalSet};

const LEN: u32 = 4096;
const DEPTH: u32 = 8;
const READS: usize = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    println!("{}", run(common::data()?.path())?);
    Ok(())
}

/// Reads, and says what it has read.
pub(crate) fn run(path: &Path) -> Result<String, Box<dyn Error>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let target = Target::open(path)?;
        let pool = Pool::new(DEPTH, LEN)?;
        let engine = AsyncEngine::new(IoUring::builder().iodepth(DEPTH).open(&target, &pool)?)?;
        let mut tasks = JoinSet::new();
        while let Some(mut buffer) = pool.acquire() {
            let engine = engine.clone();
            let offsets = common::offsets(&target, LEN).skip(READS / 8 * tasks.len()).take(READS / 8);
            tasks.spawn_local(async move {
                let mut bytes = 0;
                for offset in offsets {
                    let done = engine.read(buffer, LEN, offset).await?;
                    (bytes, buffer) = (bytes + done.result?, done.buffer);
                }
                Ok::<_, Box<dyn Error>>(bytes)
            });
        }
        let mut bytes = 0;
        while let Some(sum) = tasks.join_next().await {
            bytes += sum??;
        }
        Ok(format!("{bytes} bytes in {READS} reads by {DEPTH} tasks"))
    })
}
