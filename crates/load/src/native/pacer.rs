//! What pacing costs by itself.

use super::job::{self, Progress, SharedLoad};
use super::slices::Begin;
use super::{JobEngine, JobSpec, Limit, NativeError, Pacing, pace};
use iopj_core::{OpenLoad, Workload};
use iopj_engine::{AnyEngine, EngineError, Null, Pool};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// I/Os over which the cost is averaged, where [`LONGEST`] allows.
const IOS: f64 = 500.0;
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// CPU time in ns that pacing takes for each I/O of a job: by the same loop at the same load, with an
/// engine that does nothing and is done at once. Sleeping until the next arrival is part of it. Spinning is
/// not: a job that spins is paced here as fast as it can go, so that no time is left to spin.
///
/// # Errors
/// No memory, or no thread.
pub fn pacer_cpu_ns_per_io(load: &OpenLoad, pacing: Pacing) -> Result<f64, NativeError> {
    let rate_iops = if pacing.spins { OpenLoad::MAX_RATE_IOPS } else { load.rate_iops };
    let workload = Workload {
        open: Some(OpenLoad { rate_process: load.rate_process, ..OpenLoad::at(rate_iops) }),
        bs: 512,
        ..Workload::default()
    };
    let open = |pool: &Pool, depth: u32| -> Result<JobEngine, EngineError> {
        Ok(AnyEngine::Null(Null::open(pool, depth)).into())
    };
    let spec = JobSpec {
        workload: &workload,
        base: 0,
        len: 1 << 20,
        seed: 1,
        open: &open,
        huge_pages: false,
        pacing: Pacing { one_stream: false, ..pacing },
        replay: None,
        steadystate: None,
        is_trial: false,
        has_pass: false,
    };
    let time = Duration::from_secs_f64(IOS / f64::from(rate_iops)).clamp(SHORTEST, LONGEST);
    // A thread of its own: its timers are changed.
    std::thread::scope(|scope| scope.spawn(|| cost(&spec, time)).join().unwrap_or(Err(NativeError::Panic)))
}

fn cost(spec: &JobSpec<'_>, time: Duration) -> Result<f64, NativeError> {
    static NEVER: AtomicBool = AtomicBool::new(false);
    pace::without_timer_slack();
    let progress = Progress::default();
    let replay_begin_ns = Mutex::default();
    let shared = SharedLoad { arrivals: None, replay_begin_ns: &replay_begin_ns };
    let mut job = job::open(spec, 0, &progress, shared)?;
    let begin = thread_cpu();
    job.run(Limit::Time(time), &Begin::default(), [&NEVER; 2])?;
    let took = thread_cpu().saturating_sub(begin);
    Ok(took.as_nanos() as f64 / job.tally().issued.max(1) as f64)
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
