//! How the jobs of a cell open their engines.

use iopj_engine::{AnyEngine, EngineError, KernelCpus, Pool, Target};
use iopj_study::plan::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How the jobs of a cell open their engines. Submission pollers share the processors of `cpus_allowed` one
/// after the other.
pub(crate) fn open_engine<'a>(
    cell: &'a Cell,
    target: &'a Target,
) -> impl Fn(&Pool, u32) -> Result<AnyEngine, EngineError> + Sync + 'a {
    let (allowed, next) = (&cell.workload.cpus_allowed, AtomicUsize::new(0));
    move |pool, depth| {
        let poller = allowed.get(next.fetch_add(1, Ordering::Relaxed) % allowed.len().max(1)).copied();
        let cpus = KernelCpus { poller, workers: allowed.clone() };
        iopj_engine::open_on(cell.path, target, pool, depth, &cpus)
    }
}
