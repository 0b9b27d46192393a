//! One job of the native generator: a closed loop on one engine, on one thread.

use super::clock::Clock;
use super::offsets::Offsets;
use super::recorder::Recorder;
use super::{JobSpec, Limit};
use iopj_core::Workload;
use iopj_engine::{Completion, Engine, EngineError, EngineFacts, IoError, Op, Pool, Request, Slot};
use iopj_store::Slice;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Slices that a window is cut into at the most; then two are joined to one.
const MAX_SLICES: usize = 128;
/// The first length of a slice in ns.
const SLICE_NS: u64 = 50_000_000;

/// What a job has counted over its window.
pub(crate) struct Tally {
    /// Latencies in ns of whole I/Os: reads, writes.
    pub(crate) latency: [Recorder; 2],
    /// Exact sums of those latencies.
    pub(crate) latency_sum_ns: u64,
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
    pub(crate) short_ios: u64,
    /// Failed I/Os by error; a handful of kinds at the most.
    pub(crate) errors: Vec<(IoError, u64)>,
    pub(crate) issued: u64,
    /// Short and failed I/Os: reads, writes.
    pub(crate) odd: [u64; 2],
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) series: Vec<Slice>,
    slice_ns: u64,
    slice_end_ns: u64,
    slice_ios: u64,
}

impl Tally {
    fn new() -> Tally {
        Tally {
            latency: [Recorder::new(), Recorder::new()],
            latency_sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            short_ios: 0,
            errors: Vec::new(),
            issued: 0,
            odd: [0; 2],
            first_ns: 0,
            last_ns: 0,
            series: Vec::with_capacity(MAX_SLICES),
            slice_ns: SLICE_NS,
            slice_end_ns: 0,
            slice_ios: 0,
        }
    }

    /// Starts the window.
    fn start(&mut self, now_ns: u64) {
        (self.first_ns, self.last_ns, self.slice_end_ns) = (now_ns, now_ns, now_ns + SLICE_NS);
    }

    /// Counts a completion that the clock read at `now_ns` has seen.
    #[inline]
    fn record(&mut self, completion: &Completion, bs: u32, now_ns: u64) {
        let (write, started_ns) = untag(completion.tag);
        if completion.result != Ok(bs) {
            return self.record_odd(write, completion.result);
        }
        let latency_ns = now_ns.saturating_sub(started_ns);
        self.latency[usize::from(write)].record(latency_ns);
        self.latency_sum_ns += latency_ns;
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        self.slice_ios += 1;
    }

    #[cold]
    fn record_odd(&mut self, write: bool, result: Result<u32, IoError>) {
        self.odd[usize::from(write)] += 1;
        match result {
            Ok(_) => self.short_ios += 1,
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: IoError) {
        match self.errors.iter_mut().find(|(kind, _)| *kind == error) {
            Some((_, count)) => *count += 1,
            None => self.errors.push((error, 1)),
        }
    }

    #[cold]
    fn end_slice(&mut self, now_ns: u64) {
        if self.series.len() == MAX_SLICES {
            self.slice_ns *= 2;
            let joined = |pair: &[Slice]| Slice { end_ns: pair[1].end_ns, ios: pair[0].ios + pair[1].ios };
            self.series = self.series.chunks_exact(2).map(joined).collect();
            self.series.reserve_exact(MAX_SLICES - self.series.len());
        }
        self.series.push(Slice { end_ns: now_ns - self.first_ns, ios: std::mem::take(&mut self.slice_ios) });
        self.slice_end_ns = now_ns + self.slice_ns;
    }
}

/// A request's tag: its start, and whether it is a write.
#[inline]
fn tag(op: Op, started_ns: u64) -> u64 {
    started_ns << 1 | u64::from(op == Op::Write)
}

#[inline]
fn untag(tag: u64) -> (bool, u64) {
    (tag & 1 != 0, tag >> 1)
}

/// A job that is ready to run: engine, buffers and offsets.
pub(crate) struct Job<'a> {
    engine: Box<dyn Engine>,
    clock: Clock,
    offsets: Offsets,
    workload: &'a Workload,
    /// The first `free_count` are the slots that are not in flight.
    free: Box<[Slot]>,
    free_count: usize,
    /// As long as `iodepth_batch_submit`.
    batch: Box<[Request]>,
    done: Vec<Completion>,
    pub(crate) tally: Tally,
}

impl<'a> Job<'a> {
    /// Opens the engine and fills the buffers with bytes that do not compress. Allocates all that
    /// the job will need.
    pub(crate) fn open(spec: &JobSpec<'a>, job: u32) -> Result<Job<'a>, EngineError> {
        let workload = spec.workload;
        let depth = workload.iodepth;
        let pool = if spec.huge_pages { Pool::huge(depth, workload.bs)? } else { Pool::new(depth, workload.bs)? };
        if workload.rw.writes() {
            fill(&pool, spec.seed ^ u64::from(job))?;
        }
        let engine = (spec.open)(&pool, depth)?;
        let blank = Request { op: Op::Read, slot: Slot(0), len: workload.bs, offset: 0, tag: 0 };
        Ok(Job {
            engine,
            clock: Clock::new(),
            offsets: Offsets::new(workload, spec.base, spec.len, job, spec.seed),
            workload,
            free: (0..depth).map(Slot).collect(),
            free_count: depth as usize,
            batch: vec![blank; workload.iodepth_batch_submit as usize].into(),
            done: Vec::with_capacity(depth as usize),
            tally: Tally::new(),
        })
    }

    pub(crate) fn facts(&self) -> EngineFacts {
        self.engine.facts()
    }

    /// Runs the closed loop until the limit, a failed I/O or `stop`, then waits for what is in
    /// flight, which counts.
    pub(crate) fn run(&mut self, limit: Limit, stop: [&AtomicBool; 2]) -> Result<(), EngineError> {
        self.tally = Tally::new();
        let started_ns = self.clock.now_ns();
        self.tally.start(started_ns);
        let (deadline_ns, most) = match limit {
            Limit::Time(time) => (started_ns.saturating_add(time.as_nanos() as u64), u64::MAX),
            Limit::Ios(ios) => (u64::MAX, ios),
        };
        let bs = self.workload.bs;
        let complete_min = self.workload.iodepth_batch_complete_min as usize;
        let mut running = true;
        loop {
            if running {
                self.fill_queue(most)?;
            }
            let in_flight = self.free.len() - self.free_count;
            if in_flight == 0 {
                return Ok(());
            }
            self.done.clear();
            // At the end one by one, so that each is stamped when it is seen, as fio does.
            self.engine.wait(if running { complete_min.min(in_flight) } else { 1 }, &mut self.done)?;
            let now = self.clock.now_ns();
            let freed = &mut self.free[self.free_count..];
            for (completion, place) in self.done.iter().zip(freed) {
                self.tally.record(completion, bs, now);
                *place = completion.slot;
            }
            self.free_count += self.done.len();
            self.tally.last_ns = now;
            if now >= self.tally.slice_end_ns {
                self.tally.end_slice(now);
            }
            if now >= deadline_ns || stop[0].load(Ordering::Relaxed) || stop[1].load(Ordering::Relaxed) {
                running = false;
            }
            running &= self.tally.errors.is_empty();
        }
    }

    /// Issues until `iodepth` I/Os are in flight, `iodepth_batch_submit` at a time. The last batch is
    /// left to be submitted by the `wait` that follows, in one system call where the interface can.
    #[inline]
    fn fill_queue(&mut self, most: u64) -> Result<(), EngineError> {
        let mut left = (most - self.tally.issued).min(self.free_count as u64) as usize;
        self.tally.issued += left as u64;
        while left > 0 {
            let count = left.min(self.batch.len());
            let rest = self.free_count - count;
            let started_ns = self.clock.now_ns();
            for (request, slot) in self.batch.iter_mut().zip(&self.free[rest..self.free_count]) {
                let (op, offset) = self.offsets.next();
                (request.op, request.slot, request.offset, request.tag) = (op, *slot, offset, tag(op, started_ns));
            }
            self.free_count = rest;
            left -= count;
            let taken = self.engine.push(&self.batch[..count])?;
            debug_assert_eq!(taken, count, "an engine takes `iodepth` requests");
            if left > 0 {
                self.engine.submit()?;
            }
        }
        Ok(())
    }
}

fn fill(pool: &Rc<Pool>, seed: u64) -> Result<(), EngineError> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for slot in 0..pool.slots() {
        random.fill_bytes(&mut pool.borrow(Slot(slot))?);
    }
    Ok(())
}
