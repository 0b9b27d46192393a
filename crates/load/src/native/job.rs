//! One job of the native generator: a closed loop on one engine, on one thread.

use super::clock::Clock;
use super::error::NativeError;
use super::offsets::Offsets;
use super::slices::Begin;
use super::tally::{Tally, tag};
use super::{JobSpec, Limit};
use iopj_core::Workload;
use iopj_engine::{Completion, Engine, EngineError, EngineFacts, Op, Pool, Request, Slot};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A job that is ready to run: engine, buffers and offsets.
pub(crate) struct Job<'a> {
    engine: Box<dyn Engine>,
    clock: Clock,
    offsets: Offsets,
    /// The offsets of the pass before the window.
    apart: Offsets,
    workload: &'a Workload,
    /// The first `free_count` are the slots that are not in flight.
    free: Box<[Slot]>,
    free_count: usize,
    /// As long as `iodepth_batch_submit`.
    batch: Box<[Request]>,
    done: Vec<Completion>,
    pub(crate) tally: Tally,
    progress: &'a Progress,
}

/// The I/Os that a job has issued in a run so far, for other threads to see. It has two cache lines of its
/// own, which processors fetch together.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Progress(AtomicU64);

impl Progress {
    pub(crate) fn issued(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl<'a> Job<'a> {
    /// Opens the engine and fills the buffers with bytes that do not compress. Allocates all that
    /// the job will need.
    pub(crate) fn open(spec: &JobSpec<'a>, job: u32, progress: &'a Progress) -> Result<Job<'a>, NativeError> {
        let workload = spec.workload;
        let depth = workload.iodepth;
        let pool =
            if spec.huge_pages { Pool::huge(depth, workload.bs) } else { Pool::new(depth, workload.bs) };
        let pool = pool.map_err(EngineError::from)?;
        if workload.rw.writes() {
            fill(&pool, spec.seed ^ u64::from(job))?;
        }
        let engine = (spec.open)(&pool, depth)?;
        let blank = Request { op: Op::Read, slot: Slot(0), len: workload.bs, offset: 0, tag: 0 };
        // Written to, so no page of it is new in the window.
        let mut done = vec![Completion { tag: 0, slot: Slot(0), result: Ok(0) }; depth as usize];
        done.clear();
        Ok(Job {
            engine,
            clock: Clock::new(),
            offsets: Offsets::new(workload, spec.base, spec.len, job, spec.seed)?,
            apart: Offsets::apart(workload, spec.base, spec.len, job, spec.seed)?,
            workload,
            free: (0..depth).map(Slot).collect(),
            free_count: depth as usize,
            batch: vec![blank; workload.iodepth_batch_submit as usize].into(),
            done,
            tally: Tally::new(),
            progress,
        })
    }

    pub(crate) fn facts(&self) -> EngineFacts {
        self.engine.facts()
    }

    /// Runs the closed loop at other offsets than the window will; the window's draws stay as they are.
    pub(crate) fn run_apart(&mut self, limit: Limit, stop: [&AtomicBool; 2]) -> Result<(), EngineError> {
        std::mem::swap(&mut self.offsets, &mut self.apart);
        let run = self.run(limit, &Begin::default(), stop);
        std::mem::swap(&mut self.offsets, &mut self.apart);
        run
    }

    /// Runs the closed loop until the limit, a failed I/O or `stop`, then waits for the I/Os in flight, which
    /// count. The tally must be new or reset; nothing is allocated here. It is out of line because
    /// `cargo xtask instructions` counts what happens in this function, by its name.
    #[inline(never)]
    pub(crate) fn run(
        &mut self,
        limit: Limit,
        begin: &Begin,
        stop: [&AtomicBool; 2],
    ) -> Result<(), EngineError> {
        let begin_ns = begin.of(self.clock.now_ns());
        self.tally.start(begin_ns);
        let (deadline_ns, most) = match limit {
            Limit::Time(time) => (begin_ns.saturating_add(time.as_nanos() as u64), u64::MAX),
            Limit::Ios(ios) => (u64::MAX, ios),
            Limit::Either(time, ios) => (begin_ns.saturating_add(time.as_nanos() as u64), ios),
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
            // At the end one by one: each is stamped when it is seen, as in fio.
            self.engine.wait(if running { complete_min.min(in_flight) } else { 1 }, &mut self.done)?;
            let now = self.clock.now_ns();
            self.tally.at(now);
            let freed = &mut self.free[self.free_count..];
            for (completion, free) in self.done.iter().zip(freed) {
                self.tally.record(completion, bs, now);
                *free = completion.slot;
            }
            self.free_count += self.done.len();
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
        self.progress.0.store(self.tally.issued, Ordering::Relaxed);
        while left > 0 {
            let count = left.min(self.batch.len());
            let rest = self.free_count - count;
            let started_ns = self.clock.now_ns();
            for (request, slot) in self.batch.iter_mut().zip(&self.free[rest..self.free_count]) {
                let (op, offset) = self.offsets.next();
                (request.op, request.slot, request.offset, request.tag) =
                    (op, *slot, offset, tag(op, started_ns));
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
