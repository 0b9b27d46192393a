//! A run from its beginning, and one that is continued.

use crate::blocks::Decide;
use crate::context::RunContext;
use crate::error::RunError;
use crate::options::Options;
use crate::sequence::{Planned, Source};
use crate::trials::Summary;
use iopj_metering::Progress;
use iopj_study::Study;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Runs a study from its beginning. `decide` looks at its trials where their number is decided while it runs.
///
/// # Errors
/// [`RunError`]; nothing is left behind then but finished trials.
pub fn run(
    study: Study,
    options: &Options,
    decide: Decide,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<Summary, RunError> {
    whole(Source::Study(study), decide, &mut RunContext::new(options, progress, stop))
}

/// Continues a run: only the trials that are missing, and the blocks that are measured again.
///
/// # Errors
/// [`RunError`]; the finished trials stay.
pub fn resume(
    store: &Path,
    options: &Options,
    decide: Decide,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<Summary, RunError> {
    whole(Source::Store(store.to_owned()), decide, &mut RunContext::new(options, progress, stop))
}

fn whole(source: Source, decide: Decide, context: &mut RunContext<'_>) -> Result<Summary, RunError> {
    Planned::of(source, context)?.open(context)?.ready(context)?.measure(decide, context)
}
