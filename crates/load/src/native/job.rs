//! One job of the native generator: a closed loop on one engine, on one thread, or I/Os as they are due.

mod open;

use super::arrivals::{Arrivals, SharedArrivals};
use super::clock::Clock;
use super::error::NativeError;
use super::offsets::Offsets;
use super::pace::{Pace, SharedReplay, Stream};
use super::sizes::Sizes;
use super::slices::Begin;
use super::tally::{Tally, tag, untag};
use super::{JobSpec, Limit};
use crate::trace::{Op, Replay};
use iopj_core::{Workload, WriteSync};
use iopj_engine::{
    Buffer, Buffers, Completion, Counters, Engine, EngineError, IoError, Operation, Pool, Request, Setup,
    Transfer, Visitor,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::borrow::Cow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long a job may not see that it was told to stop, while it does I/O.
const LOOK_NS: u64 = 50_000_000;

/// A job that is ready to run: engine, buffers and offsets. The loop is made for each engine.
pub(crate) struct LoopOn<'a, E> {
    engine: E,
    state: LoopState<'a>,
    /// The offsets of the pass before the window.
    apart: Offsets,
    /// Bytes of one of its I/Os.
    apart_bs: u32,
    /// How it issues them, if they are durable: the closed loop has plain reads and writes alone.
    apart_pace: Option<Pace<'a>>,
    progress: &'a Progress,
}

/// All of a job but its engine.
struct LoopState<'a> {
    clock: Clock,
    offsets: Offsets,
    workload: &'a Workload,
    bs: u32,
    batch_submit: u32,
    /// The buffers that are not in flight.
    free: Vec<Buffer>,
    /// Where completions wait until the last of a batch is there; as long as `iodepth`.
    batch: Vec<Completion>,
    tally: Tally,
    sizes: Sizes,
    /// Under an open load, in the replay of a trace, and where I/Os are not all alike.
    pace: Option<Pace<'a>>,
    /// I/Os that the run may issue, and those of them that are left; none once it shall end.
    most: u64,
    left: u64,
    /// What else ends the run.
    end: RunEnd<'a>,
    /// When there is more to do than to record, in ticks: at the next look, at the end of a slice, at the
    /// deadline. They are kept in ticks because a conversion costs a division.
    next_event: u64,
    look: u64,
    slice_end: u64,
    deadline: u64,
    /// When the latest completion was seen, in ticks.
    last: u64,
    running: bool,
}

/// What ends a run, besides its last I/O.
struct RunEnd<'a> {
    deadline_ns: u64,
    stop: [&'a AtomicBool; 2],
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

/// A job on any engine.
pub(crate) trait Job<'a> {
    /// Runs the workload until the limit, a failed I/O or `stop`, then waits for the I/Os in flight, which
    /// count. The tally must be new or reset; nothing is allocated here.
    ///
    /// # Errors
    /// The engine is finished.
    fn run(&mut self, limit: Limit, begin: &Begin, stop: [&'a AtomicBool; 2]) -> Result<(), EngineError>;

    /// Runs the closed loop, also of a workload with an open load, at other offsets than the window will; the
    /// window's draws stay as they are.
    ///
    /// # Errors
    /// As [`Job::run`].
    fn run_apart(&mut self, limit: Limit, stop: [&'a AtomicBool; 2]) -> Result<(), EngineError>;

    /// What runs next is the window, in which a rate may move.
    fn enter_window(&mut self);

    fn counters(&self) -> Counters;
    fn setup(&self) -> Setup;
    /// What the engine decided since this was called last.
    fn decisions(&mut self) -> Vec<String>;
    fn tally(&mut self) -> &mut Tally;
    fn into_tally(self: Box<Self>) -> Tally;
}

/// Opens the engine of job number `job` and fills the buffers with bytes that do not compress. Allocates all
/// that the job will need.
///
/// # Errors
/// The engine does not open, there is no memory, or the offsets cannot be drawn.
pub(crate) fn open<'a>(
    spec: &JobSpec<'a>,
    job: u32,
    progress: &'a Progress,
    shared: SharedLoad<'a>,
) -> Result<Box<dyn Job<'a> + 'a>, NativeError> {
    let workload = spec.workload;
    let depth = workload.iodepth;
    let pool = if spec.huge_pages { Pool::huge(depth, workload.bs) } else { Pool::new(depth, workload.bs) };
    let pool = pool.map_err(EngineError::from)?;
    let mut free: Vec<Buffer> = std::iter::from_fn(|| pool.acquire()).collect();
    if workload.rw.writes() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(spec.seed ^ u64::from(job));
        free.iter_mut().for_each(|buffer| random.fill_bytes(buffer));
    }
    let engine = (spec.open)(&pool, depth)?;
    let state = LoopState {
        clock: Clock::new(),
        offsets: Offsets::new(workload, spec.base, spec.len, job, spec.seed)?,
        workload,
        bs: workload.bs,
        batch_submit: workload.iodepth_batch_submit,
        free,
        batch: touched(depth),
        tally: Tally::new(spec.is_paced()),
        sizes: Sizes::new(workload, job, spec.seed),
        pace: pace_of(spec, job, shared),
        most: 0,
        left: 0,
        end: RunEnd { deadline_ns: 0, stop: [&NEVER; 2] },
        next_event: 0,
        look: 0,
        slice_end: 0,
        deadline: 0,
        last: 0,
        running: false,
    };
    let small = of_pass(spec);
    let (apart, apart_bs) = (Offsets::apart(&small, spec.base, spec.len, job, spec.seed)?, small.bs);
    let apart_pace = (workload.sync != WriteSync::None).then(|| closed_pace(spec));
    engine.visit(MakeLoop { state, apart, apart_bs, apart_pace, replay: spec.replay, progress })
}

/// The workload of the pass before the window. That of a trace asks which path is taken, not how long I/Os
/// are: it has those of a page.
fn of_pass<'a>(spec: &JobSpec<'a>) -> Cow<'a, Workload> {
    match spec.replay {
        None => Cow::Borrowed(spec.workload),
        Some(replay) => {
            let bs = replay.mapped().block.max(4096).min(spec.workload.bs);
            Cow::Owned(Workload { bs, ..spec.workload.clone() })
        }
    }
}

/// What the jobs of a trial share of its load.
#[derive(Clone, Copy)]
pub(crate) struct SharedLoad<'a> {
    /// The arrivals, if all jobs serve one stream.
    pub(crate) arrivals: Option<&'a SharedArrivals>,
    /// The begin of the run for which a trace was started.
    pub(crate) replay_begin_ns: &'a Mutex<u64>,
}

/// The pace of a job under an open load, or a trace.
fn pace_of<'a>(spec: &JobSpec<'a>, job: u32, shared: SharedLoad<'a>) -> Option<Pace<'a>> {
    let workload = spec.workload;
    if let Some(replay) = spec.replay {
        let stream = Stream::Trace(SharedReplay::new(replay, shared.replay_begin_ns), replay.cursor());
        return Some(Pace::new(stream, spec.pacing.spins, workload.iodepth, workload.sync));
    }
    let Some(load) = workload.open.as_ref() else {
        return spec.is_paced().then(|| closed_pace(spec));
    };
    let own = || Arrivals::of_job(load, job, workload.numjobs, spec.seed);
    let stream = shared.arrivals.map_or_else(|| Stream::Own(Box::new(own())), Stream::Shared);
    Some(Pace::new(stream, spec.pacing.spins, workload.iodepth, workload.sync))
}

/// The pace of I/Os that are all due at once.
fn closed_pace<'a>(spec: &JobSpec<'a>) -> Pace<'a> {
    Pace::new(Stream::Closed, spec.pacing.spins, spec.workload.iodepth, spec.workload.sync)
}

static NEVER: AtomicBool = AtomicBool::new(false);

/// Room for completions that was written to, so no page of it is new in the window.
fn touched(depth: u32) -> Vec<Completion> {
    let blank = |_| Completion { tag: 0, result: Ok(0), buffers: Buffers::None };
    let mut batch: Vec<Completion> = (0..depth).map(blank).collect();
    batch.clear();
    batch
}

struct MakeLoop<'a> {
    state: LoopState<'a>,
    apart: Offsets,
    apart_bs: u32,
    apart_pace: Option<Pace<'a>>,
    replay: Option<&'a Replay>,
    progress: &'a Progress,
}

impl<'a> Visitor for MakeLoop<'a> {
    type Output = Result<Box<dyn Job<'a> + 'a>, NativeError>;

    fn visit<E: Engine + 'static>(self, engine: E) -> Self::Output {
        let MakeLoop { state, apart, apart_bs, apart_pace, replay, progress } = self;
        let mut replayed = replay.map_or([0; Op::ALL.len()], |replay| replay.mapped().replayed);
        replayed[Op::Flush as usize] += u64::from(state.workload.fdatasync);
        replayed[Op::Fsync as usize] += u64::from(state.workload.fsync);
        let lacks = |op: &Op| replayed[*op as usize] > 0 && !engine.supports((*op).into());
        match Op::ALL.into_iter().find(lacks) {
            Some(op) if replay.is_some() => Err(NativeError::NoSuchOp { op, many: replayed[op as usize] }),
            Some(op) => Err(NativeError::NoFlush(op)),
            None => Ok(Box::new(LoopOn { engine, state, apart, apart_bs, apart_pace, progress })),
        }
    }
}

impl<'a, E: Engine> Job<'a> for LoopOn<'a, E> {
    fn run(&mut self, limit: Limit, begin: &Begin, stop: [&'a AtomicBool; 2]) -> Result<(), EngineError> {
        if self.state.pace.is_some() {
            return self.run_open(limit, begin, stop);
        }
        self.run_closed(limit, begin, stop)
    }

    fn run_apart(&mut self, limit: Limit, stop: [&'a AtomicBool; 2]) -> Result<(), EngineError> {
        std::mem::swap(&mut self.state.offsets, &mut self.apart);
        std::mem::swap(&mut self.state.bs, &mut self.apart_bs);
        let run = if self.apart_pace.is_some() {
            std::mem::swap(&mut self.state.pace, &mut self.apart_pace);
            let run = self.run_open(limit, &Begin::default(), stop);
            std::mem::swap(&mut self.state.pace, &mut self.apart_pace);
            run
        } else {
            self.run_closed(limit, &Begin::default(), stop)
        };
        std::mem::swap(&mut self.state.offsets, &mut self.apart);
        std::mem::swap(&mut self.state.bs, &mut self.apart_bs);
        run
    }

    fn enter_window(&mut self) {
        if let Some(pace) = &mut self.state.pace {
            pace.is_window = true;
        }
    }

    fn counters(&self) -> Counters {
        self.engine.counters()
    }

    fn setup(&self) -> Setup {
        self.engine.setup().clone()
    }

    fn decisions(&mut self) -> Vec<String> {
        self.engine.decisions()
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.state.tally
    }

    fn into_tally(self: Box<Self>) -> Tally {
        self.state.tally
    }
}

impl<'a, E: Engine> LoopOn<'a, E> {
    /// The closed loop. Out of line because `cargo xtask instructions` counts what happens in this
    /// function, by its name.
    #[inline(never)]
    fn run_closed(
        &mut self,
        limit: Limit,
        begin: &Begin,
        stop: [&'a AtomicBool; 2],
    ) -> Result<(), EngineError> {
        self.state.start(limit, begin, stop);
        let depth = self.state.workload.iodepth as usize;
        let complete_min = self.state.workload.iodepth_batch_complete_min as usize;
        loop {
            if self.state.left > 0 {
                self.fill_queue()?;
            } else if self.state.free.len() == depth {
                self.state.finish();
                return Ok(());
            }
            // At the end one by one: each is stamped when it is seen, as in fio.
            if complete_min == 1 || !self.state.running {
                self.wait_for_one()?;
            } else {
                self.wait_for_batch(complete_min)?;
            }
        }
    }

    /// Waits for one completion and records all that are there, as the engine hands them out. Between the
    /// wait and the first of them the clock is read, once.
    #[inline]
    fn wait_for_one(&mut self) -> Result<(), EngineError> {
        let state = &mut self.state;
        let mut now = 0;
        // In the wait's own code, which hands out completions at several places for some engines. It owns the
        // time, whose address would keep it in memory.
        self.engine.wait(
            1,
            None,
            #[inline(always)]
            move |Completion { tag, result, buffers }| {
                state.take_back(buffers);
                if now == 0 {
                    now = state.seen();
                }
                state.record(tag, result, now);
            },
        )?;
        Ok(())
    }

    /// Waits for several completions, and records them once the last is there. Out of line, so that the loop
    /// has its registers for the wait for one.
    #[inline(never)]
    fn wait_for_batch(&mut self, min: usize) -> Result<(), EngineError> {
        let batch = &mut self.state.batch;
        self.engine.wait(min, None, |completion| batch.push(completion))?;
        let now = self.state.seen();
        let mut batch = std::mem::take(&mut self.state.batch);
        for Completion { tag, result, buffers } in batch.drain(..) {
            self.state.take_back(buffers);
            self.state.record(tag, result, now);
        }
        self.state.batch = batch;
        Ok(())
    }

    /// Issues until `iodepth` I/Os are in flight or the limit is reached, `iodepth_batch_submit` at a time.
    /// The last batch is left to be submitted by the `wait` that follows, in one system call where the
    /// interface can.
    #[inline]
    fn fill_queue(&mut self) -> Result<(), EngineError> {
        let LoopState { clock, offsets, bs, batch_submit, free, left, most, .. } = &mut self.state;
        let (mut started, mut batch_left) = (clock.now(), *batch_submit);
        while let Some(buffer) = free.pop() {
            let (write, offset) = offsets.next();
            let transfer = Transfer { buffer, len: *bs, offset };
            let operation = if write { Operation::Write(transfer) } else { Operation::Read(transfer) };
            self.engine.push(Request { operation, tag: tag(write, started) })?;
            *left -= 1;
            if *left == 0 {
                break;
            }
            batch_left -= 1;
            if batch_left == 0 {
                if free.is_empty() {
                    break;
                }
                self.engine.submit()?;
                (started, batch_left) = (clock.now(), *batch_submit);
            }
        }
        self.progress.0.store(*most - *left, Ordering::Relaxed);
        Ok(())
    }
}

impl<'a> LoopState<'a> {
    fn start(&mut self, limit: Limit, begin: &Begin, stop: [&'a AtomicBool; 2]) {
        self.last = self.clock.now();
        let begin_ns = begin.of(self.clock.ns_at(self.last));
        self.tally.start(begin_ns);
        let end_of = |time: Duration| begin_ns.saturating_add(time.as_nanos() as u64);
        let (deadline_ns, most) = match limit {
            Limit::Time(time) => (end_of(time), u64::MAX),
            Limit::Ios(ios) => (u64::MAX, ios),
            Limit::Either(time, ios) => (end_of(time), ios),
        };
        self.end = RunEnd { deadline_ns, stop };
        (self.most, self.left, self.running) = (most, most, true);
        self.look = self.clock.ticks_at(begin_ns.saturating_add(LOOK_NS)) - self.clock.ticks_at(begin_ns);
        self.slice_end = self.clock.ticks_at(self.tally.slices.end_ns() + 1);
        self.deadline = self.clock.ticks_at(deadline_ns);
        self.set_next_event(self.last);
    }

    fn finish(&mut self) {
        self.end_soon();
        self.tally.close_slice();
        self.tally.last_ns = self.clock.ns_at(self.last).max(self.tally.first_ns);
    }

    /// Reads the clock after a wait; does what is due then.
    #[inline]
    fn seen(&mut self) -> u64 {
        let now = self.clock.now();
        self.last = now;
        if now >= self.next_event {
            self.event(now);
        }
        now
    }

    /// A slice ends, the run does, or it is time to see whether it shall.
    #[cold]
    #[inline(never)]
    fn event(&mut self, now: u64) {
        let now_ns = self.clock.ns_at(now);
        self.tally.close_slice();
        if now_ns > self.tally.slices.end_ns() {
            self.tally.slices.at(now_ns);
            self.slice_end = self.clock.ticks_at(self.tally.slices.end_ns() + 1);
        }
        let is_told = self.end.stop.iter().any(|stop| stop.load(Ordering::Relaxed));
        if now_ns >= self.end.deadline_ns || is_told {
            self.end_soon();
        }
        self.set_next_event(now);
    }

    /// Issues no more.
    fn end_soon(&mut self) {
        if std::mem::take(&mut self.running) {
            self.tally.issued = self.most - self.left;
            self.left = 0;
        }
    }

    fn set_next_event(&mut self, now: u64) {
        let next = now.saturating_add(self.look).min(self.slice_end).min(self.deadline);
        self.next_event = if self.running { next } else { 0 };
    }

    /// Takes a buffer back. It comes before all that could panic: else the compiler keeps the completion in
    /// memory for that case.
    #[inline(always)]
    fn take_back(&mut self, buffers: Buffers) {
        match buffers {
            Buffers::One(buffer) => {
                // There is room: all buffers were here once.
                if self.free.len() < self.free.capacity() {
                    self.free.push(buffer);
                }
            }
            // A job's requests have one buffer each. Moved, because what is dropped in its place must have
            // one, in memory.
            Buffers::None => {}
            Buffers::Many(buffers) => drop(buffers),
        }
    }

    /// Counts a completion that the clock read at `now` has seen.
    #[inline(always)]
    fn record(&mut self, tag: u64, result: Result<u32, IoError>, now: u64) {
        let (write, started) = untag(tag);
        match result {
            Ok(bytes) if bytes == self.bs => {
                self.tally.record(write, self.clock.ns_between(started, now));
            }
            odd => self.record_odd(write, odd),
        }
    }

    #[cold]
    #[inline(never)]
    fn record_odd(&mut self, write: bool, result: Result<u32, IoError>) {
        self.tally.record_odd(write, result);
        if !self.tally.errors.is_empty() {
            self.end_soon();
        }
    }
}
