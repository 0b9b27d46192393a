//! The programs that a study names. They run only if the user allows it.

use crate::energy;
use crate::error::RunError;
use crate::own_program;
use iopj_core::Generator;
use iopj_load::fio::Fio;
use iopj_study::{Study, StudyError};
use std::path::Path;

/// The programs that a study names: the paths of fio, of its plugin and of meters, and those that do
/// their own I/O.
///
/// # Errors
/// A meter's table cannot be read.
pub fn named(study: &Study) -> Result<Vec<String>, StudyError> {
    let fio = study.fio.clone().unwrap_or_default();
    let paths = [fio.program, fio.spdk_plugin].into_iter().flatten();
    let mut names: Vec<String> = paths.map(|path| path.to_string_lossy().into_owned()).collect();
    names.extend(own_program::names(study));
    names.extend(energy::programs(study)?);
    Ok(names)
}

/// The message to a user who has not allowed it.
pub fn not_allowed(program: &Path) -> String {
    format!(
        "the study names a program to run, `{}`: read the study, then allow it by --allow-exec",
        program.display()
    )
}

/// The fio to use, if the study uses one.
pub(crate) fn find_fio(study: &Study, allow_exec: bool) -> Result<Option<Fio>, RunError> {
    let named = study.fio.clone().unwrap_or_default();
    if let Some(program) = named.program.as_ref().or(named.spdk_plugin.as_ref()).filter(|_| !allow_exec) {
        return RunError::refuse(not_allowed(program));
    }
    if !study.generators()?.contains(&Generator::Fio) {
        return Ok(None);
    }
    let fio = named.program.map_or_else(Fio::find, Fio::at)?;
    Ok(Some(match named.spdk_plugin {
        Some(plugin) => fio.with_spdk_plugin(plugin),
        None => fio,
    }))
}
