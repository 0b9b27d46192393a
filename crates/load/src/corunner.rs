//! A co-runner: threads that work beside the I/O, one on each of its processors, and count what they do.
//!
//! A thread stays on its processor and has a niceness. It counts its rounds on a cache line of its own by
//! relaxed stores, so counting costs the I/O nothing. What it gets done tells what the I/O left of the
//! processors.

mod cache;
mod error;
mod work;

pub use error::CorunnerError;
pub use work::{BRANCHES, MEMORY_LOADS, SPIN_STEPS};

use crate::native::cpus;
use iopj_core::Corunner;
use rustix::process::setpriority_process;
use std::io;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use work::Work;

/// The name of its threads.
pub const THREAD_NAME: &str = "iopj-corunner";

/// How long it runs before its own rate is measured: clocks rise, caches fill.
const WARM_UP: Duration = Duration::from_millis(100);
/// How long its own rate is measured.
const ALONE: Duration = Duration::from_millis(300);

/// How long it runs before the I/O begins.
pub const BEFORE: Duration = Duration::from_millis(400);

/// A co-runner that works; it ends when this is dropped.
pub struct Running {
    cpus: Vec<u32>,
    threads: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
}

/// What it had done at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    at: Instant,
    rounds: u64,
    cpu_ns: u64,
}

/// What it did between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The time in ns.
    pub over_ns: u64,
    /// Rounds of all its threads.
    pub rounds: u64,
    /// CPU time of all its threads in ns.
    pub cpu_ns: u64,
}

struct Shared {
    stop: AtomicBool,
    rounds: Box<[Count]>,
}

/// A count on cache lines of its own: processors fetch them in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Count(AtomicU64);

/// The processors that a co-runner uses: its own, else those of the jobs, else all that this process may use.
pub fn processors(corunner: &Corunner, cpus_allowed: &[u32]) -> Vec<u32> {
    match (&corunner.cpus[..], cpus_allowed) {
        ([], []) => cpus::allowed(),
        ([], jobs) => {
            let mut cpus = jobs.to_vec();
            cpus.sort_unstable();
            cpus.dedup();
            cpus
        }
        (own, _) => own.to_vec(),
    }
}

/// Checks that a co-runner can start here, on a thread that ends at once.
///
/// # Errors
/// [`CorunnerError::Cpu`], [`CorunnerError::Nice`], or a thread was refused.
pub fn check(corunner: &Corunner, cpus_allowed: &[u32]) -> Result<(), CorunnerError> {
    let cpus = processors(corunner, cpus_allowed);
    if let Some(cpu) = cpus::forbidden(&cpus) {
        return Err(CorunnerError::Cpu(cpu));
    }
    let (cpu, nice) = (cpus.first().copied().unwrap_or_default(), corunner.nice);
    let thread = Builder::new().name(THREAD_NAME.to_owned()).spawn(move || prepare(cpu, nice));
    let thread = thread.map_err(|source| CorunnerError::Thread { cpu, source })?;
    thread.join().unwrap_or(Ok(()))
}

/// Starts a co-runner on these processors. It works when this returns.
///
/// # Errors
/// As for [`check`], or there is no memory; then nothing runs.
pub fn start(corunner: &Corunner, cpus: &[u32]) -> Result<Running, CorunnerError> {
    if let Some(cpu) = cpus::forbidden(cpus) {
        return Err(CorunnerError::Cpu(cpu));
    }
    let work = work::of(corunner.kind, cpus)?;
    let rounds = cpus.iter().map(|_| Count::default()).collect();
    let shared = Arc::new(Shared { stop: AtomicBool::new(false), rounds });
    let mut running = Running { cpus: cpus.to_vec(), threads: Vec::with_capacity(cpus.len()), shared };
    let (started, begun) = mpsc::channel();
    for (number, (work, cpu)) in work.into_iter().zip(cpus.iter().copied()).enumerate() {
        let (shared, started, nice) = (Arc::clone(&running.shared), started.clone(), corunner.nice);
        let body = move || {
            let prepared = prepare(cpu, nice);
            let is_ready = prepared.is_ok();
            // The receiver is there until all threads have said so, or one failed.
            let _ = started.send(prepared);
            drop(started);
            if is_ready {
                shared.work(number, work);
            }
        };
        let thread = Builder::new().name(THREAD_NAME.to_owned()).spawn(body);
        running.threads.push(thread.map_err(|source| CorunnerError::Thread { cpu, source })?);
    }
    drop(started);
    begun.into_iter().collect::<Result<(), CorunnerError>>()?;
    Ok(running)
}

/// Keeps the calling thread on a processor, at a niceness.
fn prepare(cpu: u32, nice: i8) -> Result<(), CorunnerError> {
    cpus::keep_to(&[cpu])
        .map_err(|error| CorunnerError::Thread { cpu, source: io::Error::other(error.to_string()) })?;
    // Of a thread, not of its process, on Linux: setpriority(2).
    setpriority_process(None, nice.into()).map_err(|_| CorunnerError::Nice(nice))
}

impl Shared {
    /// Works until it is told to stop.
    fn work(&self, number: usize, mut work: Work) {
        let count = &self.rounds[number].0;
        let mut rounds = 0;
        while !self.stop.load(Ordering::Relaxed) {
            work.round();
            rounds += 1;
            count.store(rounds, Ordering::Relaxed);
        }
    }
}

impl Running {
    /// Its processors.
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// What it has done so far.
    pub fn reading(&self) -> Reading {
        let cpu_ns = self.threads.iter().map(cpu_ns).fold(0, u64::saturating_add);
        let rounds = self.shared.rounds.iter().map(|count| count.0.load(Ordering::Relaxed)).sum();
        Reading { at: Instant::now(), rounds, cpu_ns }
    }

    /// Lets it run alone, and returns what it did: its own rate. It lasts [`BEFORE`], or until `stop`.
    pub fn alone(&self, stop: &AtomicBool) -> Done {
        wait(WARM_UP, stop);
        let first = self.reading();
        wait(ALONE, stop);
        first.until(&self.reading())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
    }
}

impl Reading {
    /// What it did from this moment to `later`.
    pub fn until(&self, later: &Reading) -> Done {
        let over = later.at.saturating_duration_since(self.at).as_nanos();
        Done {
            over_ns: u64::try_from(over).unwrap_or(u64::MAX),
            rounds: later.rounds.saturating_sub(self.rounds),
            cpu_ns: later.cpu_ns.saturating_sub(self.cpu_ns),
        }
    }
}

fn wait(time: Duration, stop: &AtomicBool) {
    const STEP: Duration = Duration::from_millis(10);
    let end = Instant::now() + time;
    while !stop.load(Ordering::Relaxed) {
        match end.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => std::thread::sleep(left.min(STEP)),
            _ => return,
        }
    }
}

/// CPU time of a thread in ns; 0 if the kernel does not say.
fn cpu_ns(thread: &JoinHandle<()>) -> u64 {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the thread was not joined, so its handle is valid; both calls write to a variable of theirs.
    let known = unsafe {
        libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    if known { time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64 } else { 0 }
}

#[cfg(test)]
mod tests;
