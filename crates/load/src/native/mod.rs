//! The native generator: fio's closed loop on our engines, one thread a job.
//!
//! The window is bracketed: after the ramp every job waits for what it has in flight and stops; the
//! caller reads its counters; the jobs go on, and stop in the same way at the end. So no I/O of the
//! trial is in flight when counters are read, and counts per I/O are exact.

mod clock;
pub mod cpus;
mod job;
mod meeting;
mod offsets;
mod recorder;
mod slices;
mod tally;

pub use clock::{moment, monotonic_ns, name as clock_name};
pub use recorder::Recorder;

use crate::pass::{self, Extent};
use crate::steadystate::{self, Watch};
use iopj_core::evidence::{EngineEvidence, SteadyState};
use iopj_core::{Length, RingThread, Slice, SteadyStateRule, Workload};
use iopj_engine::{Engine, EngineError, EngineFacts, IoError, Pool, Target};
use iopj_probe::marker;
use job::{Job, Progress};
use meeting::Meeting;
use slices::Begin;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tally::Tally;

/// Opens the engine of a job over its pool.
pub type OpenEngine<'a> = dyn Fn(&Rc<Pool>, u32) -> Result<Box<dyn Engine>, EngineError> + Sync + 'a;

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
    /// When the ramp has been long enough; after `ramp_time` if absent.
    pub steadystate: Option<SteadyStateRule>,
    /// The window is a trial's and is marked for whoever watches; not that of a control run or a
    /// preconditioning.
    pub is_trial: bool,
    /// A short pass before the window, for whoever counts what may not be counted inside of it.
    pub has_pass: bool,
}

impl<'a> JobSpec<'a> {
    /// The jobs of a trial on `target`, without a rule for the ramp's end and without a pass.
    pub fn of_trial(
        workload: &'a Workload,
        target: &Target,
        seed: u64,
        open: &'a OpenEngine<'a>,
    ) -> JobSpec<'a> {
        JobSpec {
            workload,
            base: target.data_offset(),
            len: target.data_len(),
            seed,
            open,
            huge_pages: target.needs_huge_pages(),
            steadystate: None,
            is_trial: true,
            has_pass: false,
        }
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

/// What the jobs of a trial did over the window, together.
pub struct Run {
    /// Start of the first job, `CLOCK_MONOTONIC` in ns.
    pub first_ns: u64,
    /// End of the last job, on the same clock.
    pub last_ns: u64,
    /// Reads and writes that were issued, short ones included.
    pub issued: [u64; 2],
    /// I/Os that moved fewer bytes than asked for; they have no latency here.
    pub short_ios: u64,
    /// The exact sum of all latencies.
    pub latency_sum_ns: u64,
    /// Latencies of reads and of writes.
    pub latency: [Recorder; 2],
    /// The least of them all, exact where the bins round.
    pub min_ns: u64,
    /// The greatest of them all.
    pub max_ns: u64,
    /// I/Os over time.
    pub series: Vec<Slice>,
    /// What the engines of all jobs did.
    pub engine: EngineEvidence,
    /// What came of the rule for the ramp's end.
    pub steadystate: Option<SteadyState>,
    /// I/Os of the pass before the window.
    pub pass_ios: u64,
}

impl Run {
    /// I/Os that were whole.
    pub fn ios(&self) -> u64 {
        self.latency.iter().map(Recorder::count).sum()
    }
}

/// How often the user's view is renewed.
const SECOND: Duration = Duration::from_secs(1);

/// Where the jobs meet the runner's thread, with nothing in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The pass begins, where there is one.
    Pass,
    /// It has ended, and the window begins.
    Window,
    /// The window has ended.
    End,
}

/// Called by the runner's thread at each of these moments, with the jobs' thread ids.
pub type Bracket<'a> = dyn FnMut(Moment, &[i32]) -> Result<(), String> + 'a;

/// Runs one trial. `stop` ends it early; then the result is an error.
pub fn run(
    spec: &JobSpec<'_>,
    stop: &AtomicBool,
    bracket: &mut Bracket<'_>,
    tick: &mut dyn FnMut(),
) -> Result<Run, String> {
    let jobs = spec.workload.numjobs;
    let progress = (0..jobs).map(|_| Progress::default()).collect();
    let shared = Shared { progress, ..Shared::default() };
    let Shared { meeting, abort, tids, .. } = &shared;
    let mut steadystate = None;
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs)
            .map(|number| {
                let shared = &shared;
                let body = move || job_thread(spec, number, shared, stop);
                std::thread::Builder::new().name(format!("iopj-job-{number}")).spawn_scoped(scope, body)
            })
            .collect();
        let started = threads.iter().filter(|thread| thread.is_ok()).count();
        if started < threads.len() {
            shared.abort();
        }
        let release = ReleaseAll(&shared);
        meeting.gather(started, SECOND, tick);
        meeting.release();
        let mut bracketed = Ok(());
        let moments = [Moment::Pass, Moment::Window, Moment::End];
        for (number, moment) in moments.into_iter().skip(usize::from(!spec.has_pass)).enumerate() {
            match number {
                0 => steadystate = await_ramp(spec, &shared, started, tick),
                _ => meeting.gather(started, SECOND, tick),
            }
            let tids = tids.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if bracketed.is_ok() && (moment == Moment::End || !abort.load(Ordering::Relaxed)) {
                bracketed = bracket(moment, &tids);
            }
            if bracketed.is_err() {
                shared.abort();
            }
            meeting.release();
        }
        std::mem::forget(release);
        let joined = threads.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|_| Err("a job ended by a panic".to_owned())),
            Err(error) => Err(format!("a thread for the job could not be started: {error}; lower numjobs")),
        });
        let joined: Result<Vec<_>, String> = joined.collect();
        bracketed.and(joined)
    });
    await_pollers();
    if stop.load(Ordering::Relaxed) {
        return Err("interrupted".to_owned());
    }
    let pass_ios = shared.pass_ios.load(Ordering::Relaxed);
    Ok(Run { steadystate, pass_ios, ..merge(results?) })
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
    /// Of each job.
    progress: Vec<Progress>,
}

impl Shared {
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

/// Waits for the jobs at the end of their ramp, and ends it once it is steady or as long as it may be, where
/// there is a rule for that.
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
        if watch.look(monotonic_ns(), shared.progress.iter().map(Progress::issued).sum()) {
            shared.ramp_over.store(true, Ordering::Relaxed);
        }
        if ticked.elapsed() >= SECOND {
            ticked = Instant::now();
            tick();
        }
    });
    watch.map(|watch| watch.end(monotonic_ns()))
}

/// Checks that `numjobs` engines can be had at once, and gives them back.
pub fn preflight(spec: &JobSpec<'_>) -> Result<(), EngineError> {
    let progress = Progress::default();
    let open = |number| Job::open(spec, number, &progress);
    let jobs: Result<Vec<_>, EngineError> = (0..spec.workload.numjobs).map(open).collect();
    jobs.map(drop)?;
    await_pollers();
    Ok(())
}

type JobResult = Result<(Tally, EngineFacts, EngineFacts), String>;

/// The life of a job: open, meet, ramp, meet for the pass if there is one, meet, measure, meet. It arrives at
/// all meetings whatever happens.
fn job_thread(spec: &JobSpec<'_>, number: u32, shared: &Shared, stop: &AtomicBool) -> JobResult {
    let Shared { meeting, abort, tids, window, .. } = shared;
    // SAFETY: takes nothing and cannot fail.
    let tid = unsafe { libc::gettid() };
    tids.lock().unwrap_or_else(PoisonError::into_inner).push(tid);
    let mut failed = None;
    let mut attempt = |work: &mut dyn FnMut() -> Result<(), String>| {
        if failed.is_none() {
            let result = catch_unwind(AssertUnwindSafe(work))
                .unwrap_or_else(|_| Err("a job ended by a panic".to_owned()));
            if let Err(error) = result {
                failed = Some(error);
                shared.abort();
            }
        }
    };
    let mut job = None;
    let mut before = EngineFacts::default();
    attempt(&mut || {
        cpus::keep_to(&spec.workload.cpus_allowed)?;
        job = Some(
            Job::open(spec, number, &shared.progress[number as usize]).map_err(|error| error.to_string())?,
        );
        Ok(())
    });
    meeting.arrive();
    attempt(&mut || job.as_mut().map_or(Ok(()), |job| ramp(job, spec, shared, stop)));
    let stop = [abort, stop];
    if spec.has_pass {
        meeting.arrive();
        attempt(&mut || match (&mut job, stop[0].load(Ordering::Relaxed)) {
            (Some(job), false) => {
                shared.pass_ios.fetch_add(pass(job, spec.workload, stop)?, Ordering::Relaxed);
                Ok(())
            }
            _ => Ok(()),
        });
    }
    if let Some(job) = &job {
        before = job.facts();
    }
    meeting.arrive();
    attempt(&mut || match (&mut job, stop[0].load(Ordering::Relaxed)) {
        (Some(job), false) => measured(job, spec, window, stop),
        _ => Ok(()),
    });
    meeting.arrive();
    match (failed, job) {
        (None, Some(job)) => {
            let after = job.facts();
            Ok((job.tally, before, after))
        }
        (error, _) => Err(error.unwrap_or_else(|| "the job did not start".to_owned())),
    }
}

/// The ramp of a job. Where there is a rule the runner ends it, at its limit too.
fn ramp(job: &mut Job<'_>, spec: &JobSpec<'_>, shared: &Shared, stop: &AtomicBool) -> Result<(), String> {
    let limit = match (spec.steadystate, spec.workload.ramp_time) {
        (Some(_), _) => Limit::Ios(u64::MAX),
        (None, Duration::ZERO) => return Ok(()),
        (None, length) => Limit::Time(length),
    };
    run_and_check(job, limit, &shared.ramp, [&shared.ramp_over, stop])?;
    job.tally.reset();
    Ok(())
}

/// The window of a job, marked where it is a trial's.
fn measured(
    job: &mut Job<'_>,
    spec: &JobSpec<'_>,
    window: &Begin,
    stop: [&AtomicBool; 2],
) -> Result<(), String> {
    if spec.is_trial {
        marker::begin();
    }
    let run = run_and_check(job, spec.workload.length.into(), window, stop);
    if spec.is_trial {
        marker::end();
    }
    run
}

/// The pass of a job: how many I/Os it was.
fn pass(job: &mut Job<'_>, workload: &Workload, stop: [&AtomicBool; 2]) -> Result<u64, String> {
    let mut go = |extent: Extent| {
        job.run_apart(Limit::Either(extent.time, extent.ios), stop).map_err(|error| error.to_string())?;
        without_errors(job)?;
        Ok::<_, String>(job.tally.issued)
    };
    let first = go(pass::extent(workload))?;
    let issued = pass::longer(workload, first).map_or(Ok(first), go)?;
    job.tally.reset();
    Ok(issued)
}

/// One run of the loop; any failed I/O is the run's failure, told by errors with their counts.
fn run_and_check(
    job: &mut Job<'_>,
    limit: Limit,
    begin: &Begin,
    stop: [&AtomicBool; 2],
) -> Result<(), String> {
    job.run(limit, begin, stop).map_err(|error| error.to_string())?;
    without_errors(job)
}

fn without_errors(job: &Job<'_>) -> Result<(), String> {
    if job.tally.errors.is_empty() {
        return Ok(());
    }
    Err(errors_text(&job.tally.errors, job.tally.issued))
}

fn errors_text(errors: &[(IoError, u64)], issued: u64) -> String {
    let kinds: Vec<String> = errors.iter().map(|(error, count)| format!("{count} by {error}")).collect();
    let total: u64 = errors.iter().map(|(_, count)| count).sum();
    format!("{total} of {issued} I/Os failed: {}", kinds.join(", "))
}

/// Waits, for at most a second, until the submission pollers of closed rings are gone: the kernel ends them
/// in its own time, and one that still runs would be counted to the next trial.
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

fn merge(jobs: Vec<(Tally, EngineFacts, EngineFacts)>) -> Run {
    let mut engine = EngineEvidence { system_calls: Some(0), ..EngineEvidence::default() };
    let mut latency = [Recorder::new(), Recorder::new()];
    let (mut issued, mut short_ios, mut latency_sum_ns) = ([0; 2], 0, 0);
    let (mut min_ns, mut max_ns, mut first_ns, mut last_ns) = (u64::MAX, 0, u64::MAX, 0);
    let mut slices = Vec::new();
    for (tally, before, after) in jobs {
        for (sum, part) in latency.iter_mut().zip(&tally.latency) {
            sum.add(part);
        }
        for (op, sum) in issued.iter_mut().enumerate() {
            *sum += tally.latency[op].count() + tally.odd[op];
        }
        short_ios += tally.short_ios;
        latency_sum_ns += tally.latency_sum_ns;
        (min_ns, max_ns) = (min_ns.min(tally.min_ns), max_ns.max(tally.max_ns));
        (first_ns, last_ns) = (first_ns.min(tally.first_ns), last_ns.max(tally.last_ns));
        slices.push(tally.slices);
        engine.system_calls = engine
            .system_calls
            .zip(after.system_calls.zip(before.system_calls))
            .map(|(sum, (after, before))| sum + after - before);
        engine.submit_calls += after.submit_calls - before.submit_calls;
        engine.wakeups += after.wakeups - before.wakeups;
        engine.ring_flags = after.ring_flags;
        engine.registered = after.registered;
        if after.doorbells > 0 {
            let add = |sum: &mut Option<u64>, after: u64, before: u64| {
                *sum = Some(sum.unwrap_or(0) + after - before)
            };
            add(&mut engine.doorbells, after.doorbells, before.doorbells);
            add(&mut engine.completion_doorbells, after.completion_doorbells, before.completion_doorbells);
            add(&mut engine.empty_polls, after.empty_polls, before.empty_polls);
        }
    }
    Run {
        first_ns,
        last_ns,
        issued,
        short_ios,
        latency_sum_ns,
        latency,
        min_ns,
        max_ns,
        series: slices::together(slices, last_ns),
        engine,
        steadystate: None,
        pass_ios: 0,
    }
}

#[cfg(test)]
mod tests;
