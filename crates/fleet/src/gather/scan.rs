//! Which stores there are below the folders, and which of them a data set does not have yet, or has as they
//! were before.

use super::GatherError;
use super::manifest::{Manifest, StoreRecord};
use super::parallel::parallel;
use crate::table::{Contents, Head, Kind};
use iopj_store::{Store, StoreError};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A store that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// Its file.
    pub file: PathBuf,
    /// Why, with what to do.
    pub reason: String,
}

/// A store that is to be read.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) store: StoreRecord,
    /// The id that it had before its first trial.
    pub(super) unborn: String,
    pub(super) kind: Kind,
}

/// What was found below the folders.
#[derive(Default)]
pub(super) struct Scanned {
    /// Stores that are new, or whose files have changed.
    pub(super) found: Vec<Found>,
    pub(super) unchanged: usize,
    pub(super) watches: usize,
    pub(super) copies: Vec<PathBuf>,
    pub(super) problems: Vec<Problem>,
}

/// All files below the folders whose name ends with `.iopj`, sorted, each once. Links to folders are not
/// followed.
pub(super) fn files(folders: &[PathBuf], dataset: &Path) -> Result<Vec<PathBuf>, GatherError> {
    let mut files = Vec::new();
    let dataset = dataset.canonicalize().ok();
    for folder in folders {
        let refused = |error| GatherError::Folder { path: folder.clone(), error };
        let folder = folder.canonicalize().map_err(refused)?;
        let mut waiting = vec![folder];
        while let Some(folder) = waiting.pop() {
            let refused = |error| GatherError::Folder { path: folder.clone(), error };
            for entry in fs::read_dir(&folder).map_err(refused)? {
                let entry = entry.map_err(refused)?;
                let (path, is_folder) = (entry.path(), entry.file_type().map_err(refused)?.is_dir());
                match is_folder {
                    true if Some(&path) != dataset.as_ref() => waiting.push(path),
                    false if path.extension().is_some_and(|extension| extension == "iopj") => {
                        files.push(path)
                    }
                    _ => {}
                }
            }
        }
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// What one file turned out to be.
enum Seen {
    Unchanged,
    Watch,
    Store(Box<Found>),
    Problem(Problem),
}

/// Looks at each file.
pub(super) fn scan(files: Vec<PathBuf>, before: &Manifest) -> Scanned {
    // A file that was replaced may be that of several stores.
    let known: HashSet<(&Path, &str)> =
        before.stores().map(|store| (store.file.as_path(), store.stamp.as_str())).collect();
    let seen = parallel(&files, |file| look(file, |stamp| known.contains(&(file.as_path(), stamp))));
    let mut scanned = Scanned::default();
    let mut found: BTreeMap<String, Vec<Found>> = BTreeMap::new();
    for one in seen {
        match one {
            Seen::Unchanged => scanned.unchanged += 1,
            Seen::Watch => scanned.watches += 1,
            Seen::Problem(problem) => scanned.problems.push(problem),
            Seen::Store(one) => found.entry(one.store.id.clone()).or_default().push(*one),
        }
    }
    let places: HashMap<&str, &StoreRecord> =
        before.stores().map(|store| (store.id.as_str(), store)).collect();
    for (id, mut same) in found {
        let old = places.get(id.as_str()).copied();
        // The one with the most trials first; of equal ones that which is known, or else the first by name.
        let is_old = |one: &Found| old.is_some_and(|old| old.file == one.store.file);
        same.sort_by_key(|one| Reverse((one.store.trials, is_old(one))));
        // Unless the known file still holds what was read of it, and no less.
        let is_better = |one: &Found| {
            old.is_none_or(|old| one.store.trials > old.trials || stamp(&old.file) != old.stamp)
        };
        let mut same = same.into_iter().peekable();
        scanned.found.extend(same.next_if(is_better));
        scanned.copies.extend(same.map(|one| one.store.file));
    }
    scanned.copies.sort();
    scanned
}

fn look(file: &Path, is_known: impl Fn(&str) -> bool) -> Seen {
    // The list of stores is text.
    if file.to_str().is_none() {
        let reason = format!("the name of `{}` is not UTF-8: rename it", file.display());
        return Seen::Problem(Problem { file: file.to_string_lossy().into_owned().into(), reason });
    }
    let stamp = stamp(file);
    if is_known(&stamp) {
        return Seen::Unchanged;
    }
    match Store::open_at_rest(file).and_then(|store| Contents::head(&store)) {
        Ok(Head { id, unborn, study, trials }) => {
            let store = StoreRecord { id, file: file.to_owned(), stamp, trials };
            Seen::Store(Box::new(Found { store, unborn, kind: Kind::of(&study) }))
        }
        Err(StoreError::OfWatch(_)) => Seen::Watch,
        Err(error) => Seen::Problem(Problem { file: file.to_owned(), reason: error.to_string() }),
    }
}

/// Size and time of a store's file and of its log: both change with every trial.
fn stamp(file: &Path) -> String {
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    let of = |path: &Path| fs::metadata(path).map(|found| (found.len(), found.mtime(), found.mtime_nsec()));
    let text = |path: &Path| match of(path) {
        // An empty log comes and goes with each reader.
        Ok((0, ..)) | Err(_) => String::new(),
        Ok((bytes, s, ns)) => format!("{bytes}@{s}.{ns:09}"),
    };
    format!("{} {}", text(file), text(Path::new(&log))).trim_end().to_owned()
}
