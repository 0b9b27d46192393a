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
use std::io;
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

/// What lies below the folders.
#[derive(Default)]
pub(super) struct Listed {
    /// All files whose name ends with `.iopj`, sorted, each once.
    pub(super) files: Vec<PathBuf>,
    /// Folders that cannot be read, and what has the name of a store and is no file.
    pub(super) problems: Vec<Problem>,
}

/// Lists the files below the folders. Links to folders are not followed.
pub(super) fn files(folders: &[PathBuf], dataset: &Path) -> Result<Listed, GatherError> {
    let mut listed = Listed::default();
    let dataset = dataset.canonicalize().ok();
    for folder in folders {
        let refused = |error| GatherError::Folder { path: folder.clone(), error };
        let folder = folder.canonicalize().map_err(refused)?;
        let mut waiting = listed.add(&folder).map_err(refused)?;
        while let Some(folder) = waiting.pop() {
            if Some(&folder) == dataset.as_ref() {
                continue;
            }
            match listed.add(&folder) {
                Ok(below) => waiting.extend(below),
                Err(error) => {
                    let reason = format!(
                        "the folder {} cannot be read: {error}; make it readable, and gather again",
                        folder.display()
                    );
                    listed.problems.push(Problem { file: folder, reason });
                }
            }
        }
    }
    listed.files.sort();
    listed.files.dedup();
    Ok(listed)
}

impl Listed {
    /// Adds what is in a folder; the folders in it are returned.
    fn add(&mut self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut below = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                below.push(path);
            } else if path.extension().is_some_and(|extension| extension == "iopj") {
                // Who opens a pipe waits for the other end.
                match fs::metadata(&path) {
                    Ok(found) if found.is_dir() => {}
                    Ok(found) if !found.is_file() => {
                        let reason = format!("`{}` is no file: remove it, or rename it", path.display());
                        self.problems.push(Problem { file: path, reason });
                    }
                    _ => self.files.push(path),
                }
            }
        }
        Ok(below)
    }
}

/// What one file turned out to be.
enum Seen {
    Unchanged,
    Watch,
    Store(Box<Found>),
    Problem(Problem),
}

/// Looks at each file.
pub(super) fn scan(listed: Listed, before: &Manifest) -> Scanned {
    let Listed { files, problems } = listed;
    // A file that was replaced may be that of several stores.
    let known: HashSet<(&Path, &str)> =
        before.stores().map(|store| (store.file.as_path(), store.stamp.as_str())).collect();
    let seen = parallel(&files, |file| look(file, |stamp| known.contains(&(file.as_path(), stamp))));
    let mut scanned = Scanned { problems, ..Scanned::default() };
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
