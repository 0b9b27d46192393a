//! A program that does its own I/O, watched: started or found, looked at every interval, summed up in the
//! end. Nothing is claimed about what it was asked to do, and it is never ended.

mod budget;
mod error;
mod latency;
mod life;
mod power;
mod program;
mod subject;
mod trial;

pub use error::WatchError;
pub use subject::WatchTarget;
pub use trial::{TrialWatch, WatchedTrial, watch_trial};

use iopj_core::watch::{WatchEvidence, WatchSubject};
use iopj_metering::Progress;
use iopj_record::Unavailable;
use iopj_record::watch::{WatchInterval, WatchRecord};
use iopj_store::Store;
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

/// Watches until the program or the time ends, or the user ends it.
///
/// # Errors
/// [`WatchError`] says what cannot be watched, and why. A program that was started by then has run.
pub fn watch(
    options: &WatchOptions,
    view: &mut dyn WatchView,
    stop: WatchStop<'_>,
) -> Result<WatchRecord, WatchError> {
    let store = options.store.as_deref();
    if let Some(path) = store {
        check_store(path)?;
    }
    let record = life::live(options, view, stop)?;
    if let Some(path) = store {
        drop(Store::create_of_watch(path, &record)?);
    }
    Ok(record)
}

/// Refuses a place for the store before anything is started.
fn check_store(path: &Path) -> Result<(), WatchError> {
    if path.exists() {
        let text = format!("`{}` already exists: name another file with --store", path.display());
        return Err(WatchError::Refused(text));
    }
    Ok(iopj_store::new_path("", Some(path)).map(drop)?)
}

/// A view as the meters' code knows it.
struct Notes<'a>(&'a mut dyn WatchView);

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
