//! The programs that a study names to be run, which needs the user's leave.

use crate::energy;
use iopj_study::{Study, StudyError};
use std::path::Path;

/// The programs that a study names: fio's and its plugin's paths, and those of meters, as they stand there.
///
/// # Errors
/// A meter's table cannot be read.
pub fn named(study: &Study) -> Result<Vec<String>, StudyError> {
    let fio = study.fio.clone().unwrap_or_default();
    let paths = [fio.program, fio.spdk_plugin].into_iter().flatten();
    let mut names: Vec<String> = paths.map(|path| path.to_string_lossy().into_owned()).collect();
    names.extend(energy::programs(study.meters.as_ref())?);
    Ok(names)
}

/// What a user is told whose leave is missing.
pub fn not_allowed(program: &Path) -> String {
    format!(
        "the study names a program to run, `{}`: read the study, then allow it by --allow-exec",
        program.display()
    )
}
