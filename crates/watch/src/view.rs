//! How a program is watched, and what the user sees meanwhile.

use super::subject::WatchTarget;
use iopj_core::watch::{WatchEvidence, WatchSubject};
use iopj_metering::Progress;
use iopj_record::Unavailable;
use iopj_record::watch::WatchInterval;
use iopj_study::plan::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How a program is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchOptions {
    /// What is watched.
    pub target: WatchTarget,
    /// For how long; without a limit until the program ends or the user ends the watch.
    pub length: Option<Duration>,
    /// How often figures are given.
    pub interval: Duration,
    /// The file that keeps them.
    pub store: Option<PathBuf>,
}

/// What the user sees meanwhile.
pub trait WatchView {
    /// The watch begins.
    fn begin(&mut self, subject: &WatchSubject);
    /// An interval has passed; with the counts since the watch began.
    fn interval(&mut self, subject: &WatchSubject, interval: &WatchInterval, whole: &WatchEvidence);
    /// Something to know.
    fn note(&mut self, text: &str);
    /// A program is let go now.
    fn starts(&mut self) {}
    /// Some time has passed, at most a tenth of a second; with the process id of a program that was started.
    fn passes(&mut self, _program: u32) {}
    /// The program has just ended.
    fn ended(&mut self) {}
}

/// What may end a watch early.
#[derive(Clone, Copy, Debug)]
pub struct WatchStop<'a> {
    /// Ends the watch at once; a program that was started goes on.
    pub now: &'a AtomicBool,
    /// The user has interrupted the program (Ctrl-C), which is left to decide what that means. What it leaves
    /// behind is then not watched on.
    pub interrupted: &'a AtomicBool,
}

/// A view as the meters' code knows it.
pub(super) struct Notes<'a>(pub(super) &'a mut dyn WatchView);

impl Progress for Notes<'_> {
    fn note(&mut self, text: &str) {
        self.0.note(text);
    }
    fn unavailable(&mut self, _: &[Unavailable]) {}
    fn file(&mut self, _: &Path, _: u64, _: u64) {}
    fn trial(&mut self, _: u64, _: u64, _: &Cell, _: Option<Duration>) {}
    fn ended(&mut self, _: &iopj_record::Outcome) {}
    fn tick(&mut self) {}
}
