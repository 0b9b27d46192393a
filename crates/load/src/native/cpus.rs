//! `cpus_allowed`: the processors that every job may use, as under fio's policy `shared`.

use super::NativeError;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors that this process may use; none if the kernel does not say.
pub fn allowed() -> Vec<u32> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU as u32).filter(|cpu| has(&set, *cpu)).collect()
}

/// The first of `cpus` that this process may not use.
pub fn forbidden(cpus: &[u32]) -> Option<u32> {
    let set = sched_getaffinity(None).ok()?;
    cpus.iter().copied().find(|cpu| !has(&set, *cpu))
}

fn has(set: &CpuSet, cpu: u32) -> bool {
    (cpu as usize) < CpuSet::MAX_CPU && set.is_set(cpu as usize)
}

/// Keeps the calling thread on `cpus`; an empty list allows all.
///
/// # Errors
/// [`NativeError::Cpu`] or [`NativeError::Affinity`].
pub fn keep_to(cpus: &[u32]) -> Result<(), NativeError> {
    if cpus.is_empty() {
        return Ok(());
    }
    if let Some(cpu) = forbidden(cpus) {
        return Err(NativeError::Cpu(cpu));
    }
    let mut set = CpuSet::new();
    cpus.iter().filter(|cpu| (**cpu as usize) < CpuSet::MAX_CPU).for_each(|cpu| set.set(*cpu as usize));
    sched_setaffinity(None, &set).map_err(|_| NativeError::Affinity)
}
