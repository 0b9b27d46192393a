//! The profile of a trial: what its window cost by function, from samples of every core.

use iopj_core::CostProfile;
use iopj_probe::sampling::{Sampler, SamplingError};
use iopj_probe::sources;
use std::cell::RefCell;

/// Samples the windows of a study's trials, one after the other.
pub(crate) struct Profiler {
    sampler: RefCell<Sampler>,
    /// The kernel's release, for its functions' source directories.
    release: String,
}

impl Profiler {
    /// Opens the counters of every core and reads the kernel's symbols, once a study.
    ///
    /// # Errors
    /// Why the machine cannot be sampled, with the remedy.
    pub(crate) fn new() -> Result<Profiler, SamplingError> {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Ok(Profiler { sampler: RefCell::new(Sampler::new()?), release: release.trim().to_owned() })
    }

    /// What is sampled, in a sentence.
    pub(crate) fn describe(&self) -> String {
        format!("profile: sampling {} on every core", self.sampler.borrow().events().join(", "))
    }

    /// Begins a window.
    pub(crate) fn begin(&self) -> Result<(), String> {
        self.sampler.borrow_mut().start().map_err(|error| error.to_string())
    }

    /// Takes the samples so far; at least once a second.
    pub(crate) fn tick(&self) {
        self.sampler.borrow_mut().drain();
    }

    /// Ends the window; again is no harm.
    pub(crate) fn end(&self) -> Result<(), String> {
        self.sampler.borrow_mut().stop().map_err(|error| error.to_string())
    }

    /// The profile of the last window.
    ///
    /// # Errors
    /// What is missing of it, with the remedy.
    pub(crate) fn profile(&self) -> Result<CostProfile, String> {
        let directory = |function: &str, module: Option<&str>| {
            sources::directory(&self.release, function, module).map(str::to_owned)
        };
        self.sampler.borrow().profile(&directory).map_err(|error| error.to_string())
    }
}
