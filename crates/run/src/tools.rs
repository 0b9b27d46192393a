//! What a run uses besides its engines, and what the user allows it.

use crate::adaptive::Adaptive;
use crate::context::RunContext;
use crate::engines::Needs;
use crate::error::RunError;
use crate::own_program::OwnProgram;
use crate::profile::Profiler;
use crate::programs;
use crate::target::{Taking, devices_below};
use iopj_load::fio::Fio;
use iopj_study::Study;
use iopj_study::plan::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a run uses besides its engines, and what the user allows it.
#[derive(Default)]
pub(crate) struct Tools {
    pub(crate) fio: Option<Fio>,
    pub(crate) profiler: Option<Profiler>,
    pub(crate) taking: Option<Taking>,
    pub(crate) adaptive: Adaptive,
    /// The program of a study that does its own I/O.
    pub(crate) program: Option<OwnProgram>,
}

impl Tools {
    /// Finds what the study needs, and refuses a drive to take that it has no use for. Policies that are
    /// `known`, by the facts of a store that is continued, are not read anew.
    pub(crate) fn find(
        study: &Study,
        cells: &[Cell],
        known: &BTreeMap<String, String>,
        context: &mut RunContext<'_>,
    ) -> Result<Tools, RunError> {
        let fio = programs::find_fio(study)?;
        let profiler = Profiler::of(study, context.progress)?;
        let taking = Taking::of(context.options);
        taking.map_or(Ok(()), |taking| taking.check(study))?;
        let adaptive = Adaptive::of(cells, known, context.options.anyway)?;
        Ok(Tools { fio, profiler, taking, adaptive, program: None })
    }

    /// The program of a study, with the target that it is told.
    pub(crate) fn of_program(
        study: &Study,
        target: Option<PathBuf>,
        context: &RunContext<'_>,
    ) -> Result<Tools, RunError> {
        match &study.program {
            Some(keys) => {
                let program = Some(OwnProgram::of(keys, target, context.options)?);
                Ok(Tools { program, ..Tools::default() })
            }
            None => RunError::refuse("the study has no [program]"),
        }
    }

    /// What engines need besides their target.
    pub(crate) fn needs(&self) -> Needs<'_> {
        Needs { fio: self.fio.as_ref(), adaptive: &self.adaptive }
    }
}

impl OwnProgram {
    /// The disks below the target that it is told.
    pub(crate) fn devices(&self) -> Vec<String> {
        self.target.as_deref().map(devices_below).unwrap_or_default()
    }
}
