//! Checks before a run is continued: the drive is the same, and so is the state of the target.

use crate::error::RunError;
use crate::progress::{Progress, unix_ns};
use iopj_store::{Store, StudyRecord, Trial};
use std::collections::BTreeMap;

/// Refuses another drive, and notes another kernel.
pub(crate) fn compare_machines(
    record: &StudyRecord,
    facts: &BTreeMap<String, String>,
    store: &mut Store,
    progress: &mut dyn Progress,
) -> Result<(), RunError> {
    for (name, now) in facts {
        let Some(before) = record.provenance.get(name).filter(|before| *before != now) else { continue };
        if name == "target_bytes"
            || name == "here.target_bytes"
            || name.ends_with(".serial")
            || name.ends_with(".model")
        {
            return Err(RunError::Refused(format!(
                "{name} was {before} when the store's trials were measured, and is {now} now: continue on \
                 the same drive, or start a new store"
            )));
        }
        if name == "kernel" || name == "cpu_model" {
            let change = format!("{name} has changed from {before} to {now} since the first trials");
            progress.note(&format!("warning: {change}"));
            store.add_event(unix_ns(), "changed", &change)?;
        }
    }
    Ok(())
}

/// Refuses a store whose reads found the target as it was, as in earlier versions of iopj: the missing reads
/// would find it filled.
pub(crate) fn check_reads(trials: &[Trial]) -> Result<(), RunError> {
    let as_found = |trial: &&Trial| {
        let measured = trial.outcome.measurement();
        !trial.workload.rw.writes()
            && measured.is_some_and(|measurement| measurement.preconditioning.is_none())
    };
    match trials.iter().find(as_found) {
        None => Ok(()),
        Some(Trial { position, .. }) => Err(RunError::Refused(format!(
            "an earlier version of iopj measured trial {position} without preconditioning the target for \
             reads, and the missing trials would read a preconditioned one: start a new store"
        ))),
    }
}
