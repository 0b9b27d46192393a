//! How the jobs of a cell open their engines.

use crate::adaptive::Adaptive;
use iopj_engine::{EngineError, KernelCpus, Pool, Target};
use iopj_load::fio::Fio;
use iopj_load::native::JobEngine;
use iopj_study::plan::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What engines need besides their target.
#[derive(Clone, Copy)]
pub(crate) struct Needs<'a> {
    pub(crate) fio: Option<&'a Fio>,
    pub(crate) adaptive: &'a Adaptive,
}

/// How the jobs of a cell open their engines. Submission pollers share the processors of `cpus_allowed` one
/// after the other. `seed` is of what an adaptive engine leaves to chance, apart for each job.
pub(crate) fn open_engine<'a>(
    cell: &'a Cell,
    target: &'a Target,
    adaptive: &'a Adaptive,
    seed: u64,
) -> impl Fn(&Pool, u32) -> Result<JobEngine, EngineError> + Sync + 'a {
    let (allowed, next) = (&cell.workload.cpus_allowed, AtomicUsize::new(0));
    move |pool, depth| {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let poller = allowed.get(number % allowed.len().max(1)).copied();
        let cpus = KernelCpus { poller, workers: allowed.clone() };
        match cell.path.auto() {
            Some(rule) => adaptive.open(rule, seed.wrapping_add(number as u64), target, pool, depth, cpus),
            None => iopj_engine::open_on(cell.path, target, pool, depth, &cpus).map(JobEngine::from),
        }
    }
}
