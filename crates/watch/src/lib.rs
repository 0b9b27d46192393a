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
mod view;

pub use error::WatchError;
pub use subject::WatchTarget;
pub use trial::{TrialWatch, WatchedTrial, watch_trial};
use view::Notes;
pub use view::{WatchOptions, WatchStop, WatchView};

use iopj_record::watch::WatchRecord;
use iopj_store::Store;
use std::path::Path;

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
