//! What the user sees while a study runs.

use iopj_core::energy::TrialEnergy;
use iopj_core::watch::WatchPower;
use iopj_record::{Outcome, Unavailable};
use iopj_study::plan::Cell;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What the user sees while a study runs.
pub trait Progress {
    /// Something to know: a warning, a setting put back.
    fn note(&mut self, text: &str);
    /// Paths of the study that do not work on the target; the study goes on without them.
    fn unavailable(&mut self, paths: &[Unavailable]);
    /// A file is being made: bytes so far, bytes in all.
    fn file(&mut self, path: &Path, done: u64, size: u64);
    /// A trial begins: its number from 1, how many there are, what it is, and the time left if known.
    fn trial(&mut self, number: u64, of: u64, cell: &Cell, left: Option<Duration>);
    /// A trial has ended.
    fn ended(&mut self, outcome: &Outcome);
    /// A second has passed.
    fn tick(&mut self);
    /// True if it wants to know what the meters show, which is computed between trials.
    fn follows_meters(&self) -> bool {
        false
    }
    /// What each channel of this machine's meters read last.
    fn power(&mut self, _power: &[WatchPower]) {}
    /// The energy of a trial of a cell, which did so many I/Os, is known now; mostly once the next one ends.
    fn energy(&mut self, _cell: &Cell, _ios: u64, _energy: &[TrialEnergy]) {}
}

/// Now, in ns since 1970.
pub fn unix_ns() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64)
}

/// What was noted, in tests.
#[cfg(any(test, feature = "testing"))]
#[derive(Debug, Default)]
pub struct Said(pub Vec<String>);

#[cfg(any(test, feature = "testing"))]
impl Progress for Said {
    fn note(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }
    fn unavailable(&mut self, _: &[Unavailable]) {}
    fn file(&mut self, _: &Path, _: u64, _: u64) {}
    fn trial(&mut self, _: u64, _: u64, _: &Cell, _: Option<Duration>) {}
    fn ended(&mut self, _: &Outcome) {}
    fn tick(&mut self) {}
}
