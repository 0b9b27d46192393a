mod kinds;
mod open;

use super::*;
use iopj_core::Rw;
use iopj_engine::AnyEngine;
use iopj_engine::sim::{Sim, SimOptions};
use iopj_engine::{Completion, DynEngine, Engine, IoError, Leaked, Op, Refused, Request, Setup, sealed};
use iopj_study::Study;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// How often this thread has allocated.
pub(super) fn allocations() -> u64 {
    ALLOCATIONS.get()
}

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count of this thread's allocations.
struct Counting;

// SAFETY: everything is the system's own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: by the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: by the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Completes everything at once and allocates nothing; each wait takes as long as is said. Unlike
/// [`iopj_engine::Null`] it has every operation.
pub(super) struct AtOnce {
    done: Vec<Completion>,
    /// What writes must be; others fail.
    writes: Option<Op>,
    setup: Setup,
    next_wait: Duration,
    later_waits: Duration,
}

impl AtOnce {
    pub(super) fn new(depth: u32, first: Duration, later: Duration) -> AtOnce {
        let done = Vec::with_capacity(depth as usize);
        AtOnce { done, writes: None, setup: Setup::default(), next_wait: first, later_waits: later }
    }

    pub(super) fn of_writes(depth: u32, writes: Op) -> AtOnce {
        AtOnce { writes: Some(writes), ..AtOnce::new(depth, Duration::ZERO, Duration::ZERO) }
    }
}

impl sealed::Sealed for AtOnce {}

impl Engine for AtOnce {
    fn push(&mut self, Request { operation, tag }: Request) -> Result<(), Refused> {
        let len = operation.transfer().map_or(0, |transfer| transfer.len);
        let is_other = self.writes.is_some_and(|op| operation.op().writes() && operation.op() != op);
        let result = if is_other { Err(IoError::Os(5)) } else { Ok(len) };
        self.done.push(Completion { tag, result, buffers: operation.into_buffers() });
        Ok(())
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    fn reap<S: FnMut(Completion)>(&mut self, sink: S) -> Result<usize, EngineError> {
        let count = self.done.len();
        self.done.drain(..).for_each(sink);
        Ok(count)
    }

    fn wait<S: FnMut(Completion)>(
        &mut self,
        _: usize,
        _: Option<Instant>,
        sink: S,
    ) -> Result<usize, EngineError> {
        let time = std::mem::replace(&mut self.next_wait, self.later_waits);
        if !time.is_zero() {
            std::thread::sleep(time);
        }
        self.reap(sink)
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn iodepth(&self) -> usize {
        self.done.capacity()
    }

    fn supports(&self, _: Op) -> bool {
        true
    }

    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn close(self, _: Instant) -> Result<(), Leaked> {
        Ok(())
    }
}

pub(super) fn other(engine: impl DynEngine + 'static) -> Result<JobEngine, EngineError> {
    Ok(AnyEngine::Other(Box::new(engine)).into())
}

#[test]
fn nothing_is_allocated_between_the_marks_of_a_window() {
    let open = |_: &Pool, depth: u32| other(AtOnce::new(depth, Duration::ZERO, Duration::ZERO));
    for rw in [Rw::Randread, Rw::Randrw] {
        let workload = Workload { rw, iodepth: 8, iodepth_batch_submit: 3, ..Workload::default() };
        let (spec, progress) = (spec(&workload, &open), Progress::default());
        let mut job = job::open(&spec, 0, &progress, alone()).unwrap();
        static NEVER: AtomicBool = AtomicBool::new(false);
        let run = |job: &mut dyn Job<'_>, limit| {
            let before = ALLOCATIONS.get();
            job.run(limit, &Begin::default(), [&NEVER; 2]).unwrap();
            ALLOCATIONS.get() - before
        };
        assert_eq!(run(&mut *job, Limit::Ios(100)), 0, "in a ramp");
        let before = ALLOCATIONS.get();
        job.tally().reset();
        assert_eq!(ALLOCATIONS.get() - before, 0, "between ramp and window");
        assert_eq!(run(&mut *job, Limit::Ios(5000)), 0, "in the window");
        let before = ALLOCATIONS.get();
        let tally = job.tally();
        tally.slices.at(tally.last_ns + 100_000_000_000);
        assert_eq!(ALLOCATIONS.get() - before, 0, "where slices are joined");
        let recorded: u64 = tally.latency.iter().map(recorder::Recorder::count).sum();
        assert_eq!((recorded, tally.whole_ios), (tally.issued, tally.issued));
    }
}

/// What a job alone shares.
pub(super) fn alone() -> SharedLoad<'static> {
    static BEGIN_NS: Mutex<u64> = Mutex::new(0);
    SharedLoad { arrivals: None, replay_begin_ns: &BEGIN_NS }
}

pub(super) fn spec<'a>(workload: &'a Workload, open: &'a OpenEngine<'a>) -> JobSpec<'a> {
    JobSpec {
        workload,
        base: 0,
        len: 1 << 24,
        seed: 3,
        open,
        huge_pages: false,
        pacing: Pacing::default(),
        replay: None,
        steadystate: None,
        is_trial: false,
        has_pass: false,
    }
}

fn sim(options: SimOptions) -> impl Fn(&Pool, u32) -> Result<JobEngine, EngineError> + Sync {
    move |pool, depth| other(Sim::open(pool, depth, options))
}

/// Engines whose first wait takes `first`, each after it a millisecond.
fn slow(first: Duration) -> impl Fn(&Pool, u32) -> Result<JobEngine, EngineError> + Sync {
    move |_, depth| other(AtOnce::new(depth, first, Duration::from_millis(1)))
}

pub(super) fn run_sim(workload: &Workload, options: SimOptions) -> Result<WindowTotals, NativeError> {
    let open = sim(options);
    let spec = spec(workload, &open);
    let mut brackets = 0;
    let mut bracket = |_, tids: &[i32]| {
        brackets += 1;
        assert_eq!(tids.len(), workload.numjobs as usize);
        Ok(())
    };
    let run = run(&spec, &AtomicBool::new(false), &mut bracket, &mut || {});
    if run.is_ok() {
        assert_eq!(brackets, 2);
    }
    run
}

fn workload() -> Workload {
    Workload { iodepth: 8, numjobs: 3, length: Length::Ios(1000), ..Workload::default() }
}

#[test]
fn every_io_is_counted_once() {
    let mixed = Workload { rw: Rw::Randrw, ramp_time: Duration::from_millis(5), ..workload() };
    for (submit, complete) in [(1, 1), (4, 8), (8, 3)] {
        let workload =
            Workload { iodepth_batch_submit: submit, iodepth_batch_complete_min: complete, ..mixed.clone() };
        let run =
            run_sim(&workload, SimOptions { seed: 9, latency_steps: 12, ..SimOptions::default() }).unwrap();
        assert_eq!((run.issued.iter().sum(), run.ios()), (3000, 3000));
        let [reads, writes] = &run.latency;
        assert_eq!(run.issued, [reads.count(), writes.count()]);
        assert!(reads.count().abs_diff(1500) < 140, "half are reads: {}", reads.count());
        assert!(run.min_ns * 3000 <= run.latency_sum_ns && run.latency_sum_ns <= run.max_ns * 3000);
    }
}

#[test]
fn a_pass_before_the_window_is_in_none_of_its_counts() {
    let open = sim(SimOptions { short_ppm: 500_000, ..SimOptions::default() });
    let workload = workload();
    let spec = JobSpec { has_pass: true, ..spec(&workload, &open) };
    let mut moments = Vec::new();
    let mut bracket = |moment, _: &[i32]| {
        moments.push(moment);
        Ok(())
    };
    let run = run(&spec, &AtomicBool::new(false), &mut bracket, &mut || {}).unwrap();
    assert_eq!(moments, [Moment::Pass, Moment::Window, Moment::End]);
    assert_eq!(run.pass_ios, 3 * (4096 / 3));
    assert_eq!((run.issued.iter().sum::<u64>(), run.short_ios + run.ios()), (3000, 3000));
    // A pass that fails is a trial that fails, and nobody waits for ever.
    let open = sim(SimOptions { error_ppm: 900_000, ..SimOptions::default() });
    let spec = JobSpec { open: &open, ..spec };
    let failed =
        super::run(&spec, &AtomicBool::new(false), &mut |_, _| Ok(()), &mut || {}).err().unwrap().to_string();
    assert!(failed.contains("I/Os failed"), "{failed}");
}

/// A pass ended after 250 ms, where a slow disk had done too few rounds to tell hybrid from poll: what slept
/// was unproven.
#[test]
fn a_pass_on_a_slow_disk_has_the_rounds_that_show_hybrid() {
    let open = slow(Duration::from_millis(500));
    let workload = Workload { length: Length::Ios(10), ..Workload::default() };
    let spec = JobSpec { has_pass: true, ..spec(&workload, &open) };
    let run = run(&spec, &AtomicBool::new(false), &mut |_, _| Ok(()), &mut || {}).unwrap();
    assert_eq!((run.pass_ios, run.ios()), (iopj_probe::TIMER_ROUNDS, 10));
}

#[test]
fn short_ios_are_counted_apart() {
    let run = run_sim(&workload(), SimOptions { short_ppm: 500_000, ..SimOptions::default() }).unwrap();
    assert!((1300..1700).contains(&run.short_ios), "{}", run.short_ios);
    assert_eq!(run.short_ios + run.ios(), 3000);
}

#[test]
fn the_first_failed_io_ends_the_trial_and_is_named() {
    let error = run_sim(&workload(), SimOptions { error_ppm: 20_000, seed: 5, ..SimOptions::default() })
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("I/Os failed: ") && error.contains("Input/output error"), "{error}");
    let issued: u64 = error.split(' ').nth(2).unwrap().parse().unwrap();
    assert!(issued < 1000, "stopped early: {error}");
}

#[test]
fn an_engine_that_does_not_open_fails_the_trial() {
    let open = |_: &Pool, _: u32| -> Result<JobEngine, EngineError> {
        Err(EngineError::unsupported("not here".to_owned()))
    };
    let workload = workload();
    let spec = spec(&workload, &open);
    let error =
        run(&spec, &AtomicBool::new(false), &mut |_, _| Ok(()), &mut || {}).err().unwrap().to_string();
    assert_eq!(error, "not here");
}

#[test]
fn stop_ends_a_trial_without_end() {
    let open = sim(SimOptions::default());
    let workload = Workload { length: Length::Runtime(Duration::from_secs(3600)), ..workload() };
    let spec = spec(&workload, &open);
    let stop = AtomicBool::new(false);
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            stop.store(true, Ordering::Relaxed);
        });
        run(&spec, &stop, &mut |_, _| Ok(()), &mut || {}).err().unwrap().to_string()
    });
    assert_eq!(error, "interrupted");
}

#[test]
fn a_cpu_that_is_not_there_is_named() {
    let workload = Workload { cpus_allowed: vec![900], ..workload() };
    let error = run_sim(&workload, SimOptions::default()).err().unwrap().to_string();
    assert!(error.contains("cpu 900"), "{error}");
}

#[test]
fn a_panic_of_the_runner_lets_the_jobs_end() {
    let open = sim(SimOptions::default());
    let workload = workload();
    let spec = spec(&workload, &open);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut bracket = |_: Moment, _: &[i32]| -> BracketResult { panic!("a bug in the bracket") };
        run(&spec, &AtomicBool::new(false), &mut bracket, &mut || {}).is_ok()
    }));
    assert!(panicked.is_err());
}

#[test]
fn a_ramp_that_is_steady_ends_and_one_that_never_is_makes_the_trial_unsteady() {
    let declared = |keys: &str| {
        let study = format!("name = \"t\"\npaths = \"available\"\n{keys}\n[[workload]]\n");
        Study::parse(&study, "t").unwrap().steadystate().unwrap()
    };
    let workload = Workload { length: Length::Ios(100), ..workload() };
    let run_for = |rule, first: Duration| {
        let open = slow(first);
        let spec = JobSpec { steadystate: rule, ..spec(&workload, &open) };
        run(&spec, &AtomicBool::new(false), &mut |_, _| Ok(()), &mut || {}).unwrap()
    };
    // Its limit is an hour: the ramp ended because it was steady.
    let keys = "steadystate_duration = \"400ms\"\nsteadystate_limit = \"1h\"";
    let millisecond = Duration::from_millis(1);
    let steady = run_for(declared(keys).rule(Duration::ZERO), millisecond);
    let state = steady.steadystate.unwrap();
    assert!(state.attained && state.change.is_some(), "{state:?}");
    assert_eq!(steady.ios(), 300, "the ramp is not in the window");
    // Nothing is done in the stretch before its limit, where the runner ends the ramp and the rule is asked
    // once.
    let keys = "steadystate_duration = \"400ms\"\nsteadystate_limit = \"2s\"";
    let rule = declared(keys).rule(Duration::from_secs(2));
    let state = run_for(rule, Duration::from_secs(4)).steadystate.unwrap();
    assert!(!state.attained && state.change.is_none() && state.ramp_ns >= 2_000_000_000, "{state:?}");
    assert_eq!(run_for(None, millisecond).steadystate, None);
}
