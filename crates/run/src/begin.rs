//! What a run begins with: its study, its cells, its meters, its seed, and over fabrics its first connection.

use crate::context::RunContext;
use crate::error::{RunError, TrialError};
use crate::fabric::FabricSide;
use crate::limits;
use crate::own_program::figure_of;
use crate::target::TargetSpec;
use iopj_core::{IoPath, Transport};
use iopj_metering::energy::{self, FarHost, Meters};
use iopj_study::plan::{self, Cell};
use iopj_study::{Study, StudyError};

/// Reads a study file's text as [`Study::parse`] does, and checks what its meters' tables say. No meter is
/// opened.
///
/// # Errors
/// What is wrong, with the remedy.
pub fn read_study(text: &str, source: &str) -> Result<Study, StudyError> {
    let study = Study::parse(text, source)?;
    energy::meter_specs(study.meters.as_ref(), source)?;
    let there = study.fabric.as_ref().and_then(|fabric| fabric.meters.as_ref());
    energy::target_meter_specs(there, source)?;
    study.program.as_ref().map_or(Ok(()), |program| figure_of(program).map(drop))?;
    Ok(study)
}

/// The cells of a study of which every path works. Their numbers are within their limits.
pub(crate) fn checked_cells(study: &Study) -> Result<Vec<Cell>, RunError> {
    let (cells, _) = plan::cells(study, &IoPath::all())?;
    limits::check_numbers(&cells)?;
    Ok(cells)
}

/// The meters of a study, open and read once, before a file is made, a drive locked or a setting changed.
pub(crate) fn open_meters(
    study: &Study,
    cells: &[Cell],
    far: Option<&dyn FarHost>,
    context: &mut RunContext<'_>,
) -> Result<Meters, RunError> {
    let mut meters = Meters::open(study, far, context.options.allow, context.progress, context.stop)?;
    meters.check_windows(cells, context.progress);
    Ok(meters)
}

/// A seed of 63 bits, which TOML can hold.
pub(crate) fn random_seed() -> Result<u64, RunError> {
    let mut bytes = [0u8; 8];
    // Up to 256 bytes come whole.
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => Ok(u64::from_ne_bytes(bytes) >> 1),
        Ok(_) => RunError::refuse("the kernel gives half a random seed: set `seed` in the study"),
        Err(error) => {
            RunError::refuse(format!("the kernel gives no random seed ({error}): set `seed` in the study"))
        }
    }
}

/// The drive of a study over fabrics, connected by the first of its transports that works.
pub(crate) fn first_connection(
    study: &Study,
    side: Option<&mut FabricSide>,
    context: &mut RunContext<'_>,
) -> Result<Option<TargetSpec>, RunError> {
    let (Some(fabric), Some(side)) = (&study.fabric, side) else { return Ok(None) };
    let (mut failures, mut tried) = (Vec::new(), Vec::new());
    // The last failure is the run's own; those before it are said.
    let mut note = |failures: &[(Transport, TrialError)]| {
        failures
            .iter()
            .for_each(|(transport, error)| context.progress.note(&format!("warning: {transport}: {error}")));
    };
    for cell in fabric.cells()?.into_iter().filter(|cell| cell.transport.is_remote()) {
        if tried.contains(&cell.transport) {
            continue;
        }
        tried.push(cell.transport);
        match side.connect(&cell) {
            Ok(device) => {
                note(&failures);
                side.may_be_waited_for();
                return Ok(Some(TargetSpec::over_fabrics(study, context.options, &device, side.made())?));
            }
            Err(error) => failures.push((cell.transport, error)),
        }
    }
    let last = failures.pop();
    note(&failures);
    Err(last.map_or_else(
        || RunError::Refused("[fabric] has no transport over a wire".to_owned()),
        |(_, error)| error.into(),
    ))
}
