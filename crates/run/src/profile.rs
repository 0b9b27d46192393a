//! The profile of a trial: what its window cost by function, from samples of every core.

use crate::error::RunError;
use iopj_core::CostProfile;
use iopj_metering::Progress;
use iopj_probe::sampling::{Sampler, SamplingError};
use iopj_probe::sources;
use iopj_study::Study;
use std::cell::RefCell;

/// Samples the windows of a study's trials, one after the other.
pub(crate) struct Profiler {
    sampler: RefCell<Sampler>,
    /// The kernel's release, for its functions' source directories.
    release: String,
}

impl Profiler {
    /// What samples the trials, if the study asks for profiles.
    ///
    /// # Errors
    /// The machine cannot be sampled.
    pub(crate) fn of(study: &Study, progress: &mut dyn Progress) -> Result<Option<Profiler>, RunError> {
        if !study.profile {
            return Ok(None);
        }
        let profiler = Profiler::new().map_err(|error| {
            RunError::Refused(format!(
                "the study asks for profiles, but this machine cannot make any: {error}"
            ))
        })?;
        let events = profiler.sampler.borrow().events().join(", ");
        progress.note(&format!("profile: sampling {events} on every core"));
        Ok(Some(profiler))
    }

    /// Opens the counters of every core and reads the kernel's symbols, once per study.
    fn new() -> Result<Profiler, SamplingError> {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Ok(Profiler { sampler: RefCell::new(Sampler::new()?), release: release.trim().to_owned() })
    }

    /// Begins a window.
    pub(crate) fn begin(&self) -> Result<(), SamplingError> {
        self.sampler.borrow_mut().start()
    }

    /// Takes the samples so far; at least once a second.
    pub(crate) fn tick(&self) {
        self.sampler.borrow_mut().drain();
    }

    /// Ends the window; a second call is harmless.
    pub(crate) fn end(&self) -> Result<(), SamplingError> {
        self.sampler.borrow_mut().stop()
    }

    /// The profile of the last window.
    ///
    /// # Errors
    /// Part of it is missing: what, and the remedy.
    pub(crate) fn profile(&self) -> Result<CostProfile, SamplingError> {
        let directory = |function: &str, module: Option<&str>| {
            sources::directory(&self.release, function, module).map(str::to_owned)
        };
        self.sampler.borrow().profile(&directory)
    }
}
