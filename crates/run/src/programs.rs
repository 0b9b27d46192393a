//! The programs that a study names. They run only if the user allows it.

use crate::error::RunError;
use crate::own_program;
use iopj_core::Generator;
use iopj_load::fio::Fio;
use iopj_metering::energy;
use iopj_study::{Study, StudyError};

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

/// The fio to use, if the study uses one.
pub(crate) fn find_fio(study: &Study) -> Result<Option<Fio>, RunError> {
    let named = study.fio.clone().unwrap_or_default();
    if !study.generators()?.contains(&Generator::Fio) {
        return Ok(None);
    }
    let fio = named.program.map_or_else(Fio::find, Fio::at)?;
    Ok(Some(match named.spdk_plugin {
        Some(plugin) => fio.with_spdk_plugin(plugin),
        None => fio,
    }))
}
