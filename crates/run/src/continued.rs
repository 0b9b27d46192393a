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
        !trial.workload.writes() && measured.is_some_and(|measurement| measurement.preconditioning.is_none())
    };
    match trials.iter().find(as_found) {
        None => Ok(()),
        Some(Trial { position, .. }) => Err(RunError::Refused(format!(
            "an earlier version of iopj measured trial {position} without preconditioning the target for \
             reads, and the missing trials would read a preconditioned one: start a new store"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Said;

    #[test]
    fn another_drive_of_this_host_beside_the_target_hosts_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let facts = |bytes: &str| BTreeMap::from([("here.target_bytes".to_owned(), bytes.to_owned())]);
        let record = StudyRecord { provenance: facts("1000"), ..StudyRecord::default() };
        let mut store = Store::create(&folder.path().join("s.iopj"), &record).unwrap();
        let mut compare =
            |bytes: &str| compare_machines(&record, &facts(bytes), &mut store, &mut Said::default());
        assert!(compare("1000").is_ok());
        let error = compare("2000").unwrap_err().to_string();
        assert!(error.starts_with("here.target_bytes was 1000 "), "{error}");
    }
}
