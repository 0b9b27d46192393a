//! Checks before a run is continued: the same drive, and a target that every trial finds as the first did.

use crate::error::RunError;
use crate::progress::{Progress, unix_ns};
use iopj_engine::Target;
use iopj_host::machine;
use iopj_store::{Store, StudyRecord, Trial};

/// Refuses to go on with another drive, and notes another kernel.
pub(crate) fn compare_machines(
    record: &StudyRecord,
    target: &Target,
    store: &mut Store,
    progress: &mut dyn Progress,
) -> Result<(), RunError> {
    for (name, now) in machine::provenance(target) {
        let Some(before) = record.provenance.get(&name).filter(|before| **before != now) else { continue };
        if name == "target_bytes" || name.ends_with(".serial") || name.ends_with(".model") {
            return Err(RunError::Refused(format!(
                "the store's trials were measured where {name} was {before}, and here it is {now}: continue \
                 on the same drive, or start a new store"
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

/// Refuses to go on where reads took the target as it was, as they did in earlier versions: the rest would
/// find it filled.
pub(crate) fn check_reads(trials: &[Trial]) -> Result<(), RunError> {
    let as_found = |trial: &&Trial| {
        let measured = trial.outcome.measurement();
        !trial.workload.rw.writes()
            && measured.is_some_and(|measurement| measurement.preconditioning.is_none())
    };
    match trials.iter().find(as_found) {
        None => Ok(()),
        Some(Trial { position, .. }) => Err(RunError::Refused(format!(
            "trial {position} of the store read a target that was not preconditioned, as earlier versions \
             of iopj did it, and those that are missing would read one that is: start a new store"
        ))),
    }
}
