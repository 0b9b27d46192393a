//! Stores of many hosts into one Parquet data set, which any engine reads.
//!
//! A data set is a folder: a folder for each table, hive partitions in it, and `iopj-dataset.json`. A gather
//! writes a new generation beside the one that readers see, then switches to it with one rename. A kill at
//! any point leaves the generation before or the one after; what it left half made is removed by the next
//! gather. A reader sees each trial once: of the old generation, or of the new one.

mod error;
pub(crate) mod foreign;
mod generation;
mod manifest;
mod parallel;
mod part;
mod partition;
mod plan;
mod scan;
mod work;

pub use error::GatherError;
pub use manifest::{FILE, Manifest, ManifestError, PartRecord, StoreRecord};
pub use partition::{escape, file_name, folder};
pub use scan::Problem;

use generation::Generations;
use std::path::{Path, PathBuf};

/// Stores in a part: a part holds many, so that readers open few files.
pub const PART_STORES: usize = 256;

/// What a gather did.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Gathered {
    /// The data set's generation.
    pub generation: u64,
    /// Stores that were read and are new.
    pub added: usize,
    /// Stores that were read again because their files had changed.
    pub replaced: usize,
    /// Stores whose files are as they were.
    pub unchanged: usize,
    /// Stores in the data set now.
    pub stores: usize,
    /// Stores of `iopj watch`, which hold no study.
    pub watches: usize,
    /// Files that hold a store which another file holds, too.
    pub copies: Vec<PathBuf>,
    /// Stores that could not be read, by name. What the data set had of them is still there.
    pub problems: Vec<Problem>,
}

/// Gathers the stores below these folders into a data set. Stores of earlier gathers stay in it, even if
/// their files are gone. `progress` is told how many of how many new stores were read.
///
/// # Errors
/// A folder cannot be read, or the data set cannot be written. A store that cannot be read is no error: it
/// is among the problems.
pub fn gather(
    folders: &[PathBuf],
    dataset: &Path,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Gathered, GatherError> {
    let listed = scan::files(folders, dataset)?;
    let generations = Generations::open(dataset)?;
    let before = generations.manifest()?;
    generations.clean()?;
    let scanned = scan::scan(listed, &before);
    let plan = plan::plan(&before, &scanned.found);
    let mut gathered = Gathered {
        generation: before.generation,
        unchanged: scanned.unchanged,
        watches: scanned.watches,
        copies: scanned.copies,
        problems: scanned.problems,
        stores: before.stores().count(),
        ..Gathered::default()
    };
    if plan.jobs.is_empty() && before.generation > 0 {
        return Ok(gathered);
    }
    let mut next = generations.begin(&before)?;
    let done = work::work(&generations, &next, &plan.jobs, progress)?;
    for part in &plan.kept {
        next.link(&generations, part)?;
    }
    next.manifest.parts = plan.kept.into_iter().chain(done.parts).collect();
    next.manifest.parts.sort_by(|a, b| (a.kind(), &a.name).cmp(&(b.kind(), &b.name)));
    gathered.generation = next.manifest.generation;
    gathered.stores = next.manifest.stores().count();
    (gathered.added, gathered.replaced) = (done.added, done.replaced);
    gathered.problems.extend(done.problems);
    gathered.problems.sort_by(|a, b| a.file.cmp(&b.file));
    generations.switch_to(next)?;
    Ok(gathered)
}
