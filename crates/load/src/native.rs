//! The native generator: fio's closed loop on our engines, or an open load, one thread per job.
//!
//! The window is bracketed: after the ramp every job waits for its I/Os in flight and stops; the caller reads
//! its counters; the jobs go on, and stop in the same way at the end. So no I/O of the trial is in flight
//! when counters are read, and counts per I/O are exact.

mod arrivals;
mod clock;
pub mod cpus;
mod error;
mod job;
mod job_engine;
mod meeting;
mod offsets;
mod open_tally;
mod pace;
mod pacer;
mod recorder;
mod sizes;
mod slices;
mod tally;
mod totals;

pub use clock::{moment, monotonic_ns, name as clock_name};
pub use error::NativeError;
pub use job_engine::JobEngine;
pub use offsets::{OffsetsError, check_offsets};
pub use pace::Pacing;
pub use pacer::pacer_cpu_ns_per_io;
pub use recorder::Recorder;
pub use totals::{OpenTotals, WindowTotals};

use crate::pass::{self, PassLimit};
use crate::steadystate::{self, Watch};
use crate::trace::Replay;
use arrivals::{Arrivals, SharedArrivals};
use iopj_core::evidence::SteadyState;
use iopj_core::{Length, RingThread, SteadyStateRule, Workload, WriteSync};
use iopj_engine::{Counters, EngineError, Pool, Target};
use iopj_probe::marker;
use job::{Job, Progress, SharedLoad};
use meeting::Meeting;
use sizes::Sizes;
use slices::Begin;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tally::Tally;
use totals::{JobCounts, merge};

/// Opens the engine of a job over its pool.
pub type OpenEngine<'a> = dyn Fn(&Pool, u32) -> Result<JobEngine, EngineError> + Sync + 'a;

/// What every job of a trial gets.
pub struct JobSpec<'a> {
    /// What every job does.
    pub workload: &'a Workload,
    /// Where the part of the target that may be touched begins, in bytes.
    pub base: u64,
    /// Its length in bytes.
    pub len: u64,
    /// The seed of the offsets.
    pub seed: u64,
    /// Opens the engine of a job.
    pub open: &'a OpenEngine<'a>,
    /// The buffers must lie in huge pages.
    pub huge_pages: bool,
    /// How the jobs keep an open load.
    pub pacing: Pacing,
    /// The trace that they replay.
    pub replay: Option<&'a Replay>,
    /// When the ramp ends; after `ramp_time` if absent.
    pub steadystate: Option<SteadyStateRule>,
    /// The window is that of a trial and is marked for a profiler; not that of a control run or of
    /// preconditioning.
    pub is_trial: bool,
    /// There is a short pass before the window, to count what may not be counted inside it.
    pub has_pass: bool,
}

impl<'a> JobSpec<'a> {
    /// Jobs on the whole of `target` that are not a trial's: without a rule for the ramp's end, without a
    /// pass.
    pub fn on(workload: &'a Workload, target: &Target, seed: u64, open: &'a OpenEngine<'a>) -> JobSpec<'a> {
        JobSpec {
            workload,
            base: target.data_offset(),
            len: target.data_len(),
            seed,
            open,
            huge_pages: target.needs_huge_pages(),
            pacing: Pacing::default(),
            replay: None,
            steadystate: None,
            is_trial: false,
            has_pass: false,
        }
    }
}

impl JobSpec<'_> {
    /// True if its I/Os are not all alike and all due at once.
    fn is_paced(&self) -> bool {
        let is_durable = self.workload.sync != WriteSync::None;
        is_durable
            || self.workload.open.is_some()
            || self.replay.is_some()
            || Sizes::are_needed(self.workload)
    }
}

#[derive(Clone, Copy)]
enum Limit {
    Time(Duration),
    Ios(u64),
    /// Whichever comes first.
    Either(Duration, u64),
}

impl From<Length> for Limit {
    fn from(length: Length) -> Limit {
        match length {
            Length::Runtime(time) => Limit::Time(time),
            Length::Ios(ios) => Limit::Ios(ios),
        }
    }
}

/// How often the user's view is refreshed.
const SECOND: Duration = Duration::from_secs(1);

/// When the jobs meet the runner's thread, with nothing in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The pass begins, if there is one.
    Pass,
    /// It has ended, and the window begins.
    Window,
    /// The window has ended.
    End,
}

/// Called by the runner's thread at each of these moments, with the jobs' thread ids.
pub type Bracket<'a> = dyn FnMut(Moment, &[i32]) -> BracketResult + 'a;

/// The result of the caller's work at such a moment; an error of it ends the trial.
pub type BracketResult = Result<(), Box<dyn Error + Send + Sync>>;

/// Runs one trial. `stop` ends it early, which is an error.
///
/// # Errors
/// [`NativeError`]; of several, the first that was seen.
pub fn run(
    spec: &JobSpec<'_>,
    stop: &AtomicBool,
    bracket: &mut Bracket<'_>,
    tick: &mut dyn FnMut(),
) -> Result<WindowTotals, NativeError> {
    run_kinds(std::slice::from_ref(spec), stop, bracket, tick)?.pop().ok_or(NativeError::NotStarted)
}

/// Runs one trial of jobs of several kinds at once, and returns what each kind did. The first decides when
/// the ramp of all ends, whether there is a pass, and whether the window is that of a trial.
///
/// # Errors
/// As [`run`].
pub fn run_kinds(
    kinds: &[JobSpec<'_>],
    stop: &AtomicBool,
    bracket: &mut Bracket<'_>,
    tick: &mut dyn FnMut(),
) -> Result<Vec<WindowTotals>, NativeError> {
    let Some(first) = kinds.first() else { return Ok(Vec::new()) };
    let shared = Shared::new(kinds);
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = jobs_of(kinds)
            .map(|(kind, number, place)| {
                let shared = &shared;
                let body = move || job_thread((&kinds[kind], kind), (number, place), shared, stop);
                let name = format!("iopj-job-{place}");
                std::thread::Builder::new().name(name).spawn_scoped(scope, body)
            })
            .collect();
        let started = threads.iter().filter(|thread| thread.is_ok()).count();
        if started < threads.len() {
            shared.abort();
        }
        let release = ReleaseAll(&shared);
        shared.meeting.gather(started, SECOND, tick);
        shared.meeting.release();
        let bracketed = meet(first, &shared, started, bracket, tick);
        std::mem::forget(release);
        let joined = threads.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or(Err(NativeError::Panic)),
            Err(error) => Err(NativeError::Thread(error)),
        });
        let joined: Result<Vec<_>, NativeError> = joined.collect();
        bracketed.and_then(|steadystate| Ok((steadystate, joined?)))
    });
    await_pollers();
    if stop.load(Ordering::Relaxed) {
        return Err(NativeError::Interrupted);
    }
    let pass_ios = shared.pass_ios.load(Ordering::Relaxed);
    let (steadystate, of_jobs) = results?;
    let mut of_jobs = of_jobs.into_iter();
    let of_kind = |spec: &JobSpec<'_>| {
        let own = of_jobs.by_ref().take(spec.workload.numjobs as usize).collect();
        WindowTotals { steadystate, pass_ios, ..merge(own) }
    };
    Ok(kinds.iter().map(of_kind).collect())
}

/// The runner's part of a trial: it meets the jobs at each moment, and lets the caller read counters there.
/// Returns how the ramp ended.
fn meet(
    spec: &JobSpec<'_>,
    shared: &Shared,
    jobs: usize,
    bracket: &mut Bracket<'_>,
    tick: &mut dyn FnMut(),
) -> Result<Option<SteadyState>, NativeError> {
    let Shared { meeting, abort, tids, .. } = shared;
    let (mut steadystate, mut bracketed) = (None, Ok(()));
    let moments = [Moment::Pass, Moment::Window, Moment::End];
    for (number, moment) in moments.into_iter().skip(usize::from(!spec.has_pass)).enumerate() {
        match number {
            0 => steadystate = await_ramp(spec, shared, jobs, tick),
            _ => meeting.gather(jobs, SECOND, tick),
        }
        let tids = tids.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if bracketed.is_ok() && (moment == Moment::End || !abort.load(Ordering::Relaxed)) {
            bracketed = bracket(moment, &tids).map_err(NativeError::Caller);
        }
        if bracketed.is_err() {
            shared.abort();
        }
        meeting.release();
    }
    bracketed.map(|()| steadystate)
}

/// What the jobs of a trial and their runner share.
#[derive(Default)]
struct Shared {
    meeting: Meeting,
    /// Ends the trial early.
    abort: AtomicBool,
    /// Ends the ramp.
    ramp_over: AtomicBool,
    tids: Mutex<Vec<i32>>,
    ramp: Begin,
    window: Begin,
    pass_ios: AtomicU64,
    /// Of each job, those of the first kind first.
    progress: Vec<Progress>,
    /// The arrivals that all jobs of a kind serve, if they serve one stream.
    arrivals: Vec<Option<SharedArrivals>>,
    /// The begin of the run for which a trace was started.
    replay_begin_ns: Mutex<u64>,
}

/// The jobs of all kinds: the number of the kind, that of the job in it, and its place among all.
fn jobs_of(kinds: &[JobSpec<'_>]) -> impl Iterator<Item = (usize, u32, usize)> {
    let of_kind =
        |(kind, spec): (usize, &JobSpec<'_>)| (0..spec.workload.numjobs).map(move |number| (kind, number));
    kinds
        .iter()
        .enumerate()
        .flat_map(of_kind)
        .enumerate()
        .map(|(place, (kind, number))| (kind, number, place))
}

fn shared_arrivals(spec: &JobSpec<'_>) -> Option<SharedArrivals> {
    let load = spec.workload.open.as_ref().filter(|_| spec.pacing.one_stream)?;
    Some(SharedArrivals::new(Arrivals::of_all(load, spec.workload.numjobs, spec.seed)))
}

impl Shared {
    fn new(kinds: &[JobSpec<'_>]) -> Shared {
        let jobs = kinds.iter().map(|spec| spec.workload.numjobs).sum::<u32>();
        Shared {
            progress: (0..jobs).map(|_| Progress::default()).collect(),
            arrivals: kinds.iter().map(shared_arrivals).collect(),
            ..Shared::default()
        }
    }

    fn load(&self, kind: usize) -> SharedLoad<'_> {
        let arrivals = self.arrivals.get(kind).and_then(Option::as_ref);
        SharedLoad { arrivals, replay_begin_ns: &self.replay_begin_ns }
    }

    fn abort(&self) {
        self.abort.store(true, Ordering::Relaxed);
        self.ramp_over.store(true, Ordering::Relaxed);
    }
}

/// Lets the jobs run to their end if the runner's thread panics: the scope waits for them.
struct ReleaseAll<'a>(&'a Shared);

impl Drop for ReleaseAll<'_> {
    fn drop(&mut self) {
        self.0.abort();
        self.0.meeting.dissolve();
    }
}

/// Waits for the jobs at the end of their ramp. If there is a rule, it ends the ramp once the rate is steady
/// or the ramp is as long as it may be.
fn await_ramp(
    spec: &JobSpec<'_>,
    shared: &Shared,
    jobs: usize,
    tick: &mut dyn FnMut(),
) -> Option<SteadyState> {
    let Some(rule) = spec.steadystate else {
        shared.meeting.gather(jobs, SECOND, tick);
        return None;
    };
    let mut watch: Option<Watch> = None;
    let mut ticked = Instant::now();
    shared.meeting.gather(jobs, steadystate::interval(&rule), &mut || {
        let Some(begin_ns) = shared.ramp.get() else { return };
        let watch = watch.get_or_insert_with(|| Watch::new(rule, begin_ns));
        let own = &shared.progress[..spec.workload.numjobs as usize];
        if watch.look(monotonic_ns(), own.iter().map(Progress::issued).sum()) {
            shared.ramp_over.store(true, Ordering::Relaxed);
        }
        if ticked.elapsed() >= SECOND {
            ticked = Instant::now();
            tick();
        }
    });
    watch.map(|watch| watch.end(monotonic_ns()))
}

/// Checks that `numjobs` engines can be open at once, and closes them.
///
/// # Errors
/// Why a job of them cannot be opened.
pub fn preflight(spec: &JobSpec<'_>) -> Result<(), NativeError> {
    let progress = Progress::default();
    let replay_begin_ns = Mutex::default();
    let shared = SharedLoad { arrivals: None, replay_begin_ns: &replay_begin_ns };
    let open = |number| job::open(spec, number, &progress, shared);
    let jobs: Result<Vec<_>, NativeError> = (0..spec.workload.numjobs).map(open).collect();
    jobs.map(drop)?;
    await_pollers();
    Ok(())
}

/// The life of a job: open, meet, ramp, meet for the pass if there is one, meet, measure, meet. It arrives at
/// all meetings whatever happens.
fn job_thread<'a>(
    (spec, kind): (&JobSpec<'a>, usize),
    (number, place): (u32, usize),
    shared: &'a Shared,
    stop: &'a AtomicBool,
) -> Result<JobCounts, NativeError> {
    let Shared { meeting, abort, tids, window, .. } = shared;
    tids.lock().unwrap_or_else(PoisonError::into_inner).push(rustix::thread::gettid().as_raw_pid());
    let mut failed = None;
    let mut attempt = |work: &mut dyn FnMut() -> Result<(), NativeError>| {
        if failed.is_none() {
            let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(NativeError::Panic));
            if let Err(error) = result {
                failed = Some(error);
                shared.abort();
            }
        }
    };
    let mut job: Option<Box<dyn Job<'a> + 'a>> = None;
    attempt(&mut || {
        cpus::keep_to(&spec.workload.cpus_allowed)?;
        if spec.workload.open.is_some() || spec.replay.is_some() {
            pace::without_timer_slack();
        }
        job = Some(job::open(spec, number, &shared.progress[place], shared.load(kind))?);
        Ok(())
    });
    meeting.arrive();
    attempt(&mut || job.as_mut().map_or(Ok(()), |job| ramp(&mut **job, spec, shared, stop)));
    let stop = [abort, stop];
    let before_pass = counters(&job);
    if spec.has_pass {
        meeting.arrive();
        attempt(&mut || match (&mut job, stop[0].load(Ordering::Relaxed)) {
            (Some(job), false) => {
                shared.pass_ios.fetch_add(pass(&mut **job, spec.workload, stop)?, Ordering::Relaxed);
                Ok(())
            }
            _ => Ok(()),
        });
    }
    let before = counters(&job);
    // Those of the window are wanted.
    let _ = job.as_mut().map(|job| job.decisions());
    meeting.arrive();
    attempt(&mut || match (&mut job, stop[0].load(Ordering::Relaxed)) {
        (Some(job), false) => measured(&mut **job, spec, window, stop),
        _ => Ok(()),
    });
    meeting.arrive();
    match (failed, job) {
        (None, Some(mut job)) => {
            let (setup, after, decisions) = (job.setup(), job.counters(), job.decisions());
            Ok(JobCounts { tally: job.into_tally(), setup, before_pass, before, after, decisions })
        }
        (error, _) => Err(error.unwrap_or(NativeError::NotStarted)),
    }
}

fn counters(job: &Option<Box<dyn Job<'_> + '_>>) -> Counters {
    job.as_ref().map_or_else(Counters::default, |job| job.counters())
}

/// The ramp of a job. If there is a rule, the runner ends it, at its limit too.
fn ramp<'a>(
    job: &mut dyn Job<'a>,
    spec: &JobSpec<'_>,
    shared: &'a Shared,
    stop: &'a AtomicBool,
) -> Result<(), NativeError> {
    let limit = match (spec.steadystate, spec.workload.ramp_time) {
        (Some(_), _) => Limit::Ios(u64::MAX),
        (None, Duration::ZERO) => return Ok(()),
        (None, length) => Limit::Time(length),
    };
    run_and_check(job, limit, &shared.ramp, [&shared.ramp_over, stop])?;
    job.tally().reset();
    Ok(())
}

/// The window of a job, marked if it is that of a trial.
fn measured<'a>(
    job: &mut dyn Job<'a>,
    spec: &JobSpec<'_>,
    window: &Begin,
    stop: [&'a AtomicBool; 2],
) -> Result<(), NativeError> {
    job.enter_window();
    if spec.is_trial {
        marker::begin();
    }
    let run = run_and_check(job, spec.workload.length.into(), window, stop);
    if spec.is_trial {
        marker::end();
    }
    run
}

/// The pass of a job. Returns its number of I/Os.
fn pass<'a>(
    job: &mut dyn Job<'a>,
    workload: &Workload,
    stop: [&'a AtomicBool; 2],
) -> Result<u64, NativeError> {
    let mut go = |limit: PassLimit| {
        job.run_apart(Limit::Either(limit.time, limit.ios), stop)?;
        without_errors(job)?;
        Ok::<_, NativeError>(job.tally().issued)
    };
    let first = go(pass::limit(workload))?;
    let issued = pass::longer(workload, first).map_or(Ok(first), go)?;
    job.tally().reset();
    Ok(issued)
}

/// One run of the loop; a failed I/O is a failure of the run.
fn run_and_check<'a>(
    job: &mut dyn Job<'a>,
    limit: Limit,
    begin: &Begin,
    stop: [&'a AtomicBool; 2],
) -> Result<(), NativeError> {
    job.run(limit, begin, stop)?;
    without_errors(job)
}

fn without_errors(job: &mut dyn Job<'_>) -> Result<(), NativeError> {
    let Tally { errors, issued, .. } = job.tally();
    if errors.is_empty() {
        return Ok(());
    }
    Err(NativeError::Ios { issued: *issued, errors: errors.clone() })
}

/// Waits at most a second until the submission pollers of closed rings are gone: the kernel ends them in its
/// own time, and the next trial would count one that still runs.
fn await_pollers() {
    let is_poller = |task: std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("comm"))
            .is_ok_and(|name| RingThread::of(&name) == Some(RingThread::Poller))
    };
    for _ in 0..1000 {
        let Ok(mut tasks) = std::fs::read_dir("/proc/self/task") else { return };
        if !tasks.any(|task| task.is_ok_and(is_poller)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests;
