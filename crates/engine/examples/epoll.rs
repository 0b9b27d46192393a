//! Reads at depth 8 in an epoll loop that also serves a timer:
//! `cargo run --release -p iopj-engine --example epoll -- [FILE]`.
#![expect(clippy::print_stdout, reason = "an example speaks to the terminal")]

mod common;

use iopj_engine::{Engine, IoError, IoUring, Pool, Request, Target};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::retry_on_intr;
use rustix::time::{self, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::error::Error;
use std::path::Path;

const LEN: u32 = 4096;
const DEPTH: u32 = 8;
const READS: usize = 1000;
const TIMER: u64 = 0;
const ENGINE: u64 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    println!("{}", run(common::data()?.path())?);
    Ok(())
}

/// Reads, and says what it has read.
pub(crate) fn run(path: &Path) -> Result<String, Box<dyn Error>> {
    let target = Target::open(path)?;
    let pool = Pool::new(DEPTH, LEN)?;
    let mut engine = IoUring::builder().iodepth(DEPTH).open(&target, &pool)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let timer = every_millisecond()?;
    epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
    let descriptor = engine.descriptor().ok_or("the engine has no descriptor")?;
    epoll::add(&epoll, descriptor, EventData::new_u64(ENGINE), EventFlags::IN)?;
    let mut offsets = common::offsets(&target, LEN).take(READS);
    let (mut events, mut done, mut ticks) = (Vec::with_capacity(2), 0, 0);
    let mut bytes: Result<u32, IoError> = Ok(0);
    while done < READS || ticks == 0 {
        while let Some(buffer) = pool.acquire()
            && let Some(offset) = offsets.next()
        {
            engine.push(Request::read(buffer, LEN, offset))?;
        }
        engine.submit()?;
        retry_on_intr(|| epoll::wait(&epoll, spare_capacity(&mut events), None))?;
        for event in events.drain(..) {
            match event.data.u64() {
                TIMER => ticks += rustix::io::read(&timer, &mut [0; 8]).map(|_| 1)?,
                _ => done += engine.reap(|one| bytes = bytes.and_then(|sum| Ok(sum + one.result?)))?,
            }
        }
    }
    Ok(format!("{} bytes in {READS} reads, beside a timer", bytes?))
}

fn every_millisecond() -> rustix::io::Result<rustix::fd::OwnedFd> {
    let timer = time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let period = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    let times = Itimerspec { it_interval: period, it_value: period };
    time::timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)?;
    Ok(timer)
}
