//! Generations of a data set: `generations/N`, of which `current` names one. Tables are links through
//! `current`, so one rename switches all of them.

use super::GatherError;
use super::manifest::{FILE, Manifest, PartRecord};
use super::partition::folder;
use crate::table::{SCHEMA_VERSION, Table};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Of the folder of generations.
const GENERATIONS: &str = "generations";
/// The link to the generation that readers see.
const CURRENT: &str = "current";
/// What that link is called before it replaces the old one.
const NEXT: &str = ".next";
/// Held while a gather writes.
const LOCK: &str = ".lock";
/// Before the name of a generation that is not whole.
const HALF: &str = "half-";

/// A data set that is open for a gather, and locked.
pub(super) struct Generations {
    dataset: PathBuf,
    _lock: File,
}

/// A generation that is being written.
pub(super) struct Next {
    /// What it will consist of.
    pub(super) manifest: Manifest,
    folder: PathBuf,
}

impl Generations {
    /// Opens a data set, or makes an empty one.
    pub(super) fn open(dataset: &Path) -> Result<Generations, GatherError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error| GatherError::Io { path, error }
        };
        fs::create_dir_all(dataset).map_err(at(dataset))?;
        for entry in fs::read_dir(dataset).map_err(at(dataset))? {
            let name = entry.map_err(at(dataset))?.file_name();
            let name = name.to_string_lossy();
            let ours = [GENERATIONS, CURRENT, NEXT, LOCK, FILE].contains(&&*name);
            if !ours && Table::named(&name).is_none() {
                return Err(GatherError::NotADataset(dataset.to_owned()));
            }
        }
        let path = dataset.join(LOCK);
        let lock = File::create(&path).map_err(at(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(GatherError::Locked(dataset.to_owned())),
            Err(TryLockError::Error(error)) => return Err(at(&path)(error)),
        }
        let generations = dataset.join(GENERATIONS);
        fs::create_dir_all(&generations).map_err(at(&generations))?;
        Ok(Generations { dataset: dataset.to_owned(), _lock: lock })
    }

    /// What readers see.
    pub(super) fn manifest(&self) -> Result<Manifest, GatherError> {
        let path = self.dataset.join(CURRENT).join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Manifest::empty()),
            Err(error) => return Err(GatherError::Io { path, error }),
        };
        let read = serde_json::from_str::<Manifest>(&text);
        let manifest =
            read.map_err(|error| GatherError::Manifest { path: path.clone(), error: error.to_string() })?;
        match manifest.schema {
            SCHEMA_VERSION => Ok(manifest),
            found => Err(GatherError::Schema { path: self.dataset.clone(), found, known: SCHEMA_VERSION }),
        }
    }

    /// The file of a part of the generation that readers see.
    pub(super) fn file(&self, part: &PartRecord, table: Table) -> PathBuf {
        self.dataset.join(CURRENT).join(within(part, table))
    }

    /// Removes what earlier gathers left: generations that nobody sees, whole or half made.
    pub(super) fn clean(&self) -> Result<(), GatherError> {
        self.remove_all_but(&[&self.current()?]);
        Ok(())
    }

    /// Begins the next generation.
    pub(super) fn begin(&self, before: &Manifest) -> Result<Next, GatherError> {
        let manifest = Manifest { generation: before.generation + 1, ..Manifest::empty() };
        let folder = self.dataset.join(GENERATIONS).join(format!("{HALF}{}", manifest.generation));
        // Parts of another gather that could not be removed would be counted too.
        fs::create_dir(&folder).map_err(|error| GatherError::Io { path: folder.clone(), error })?;
        for table in Table::ALL {
            let path = folder.join(table.name());
            fs::create_dir_all(&path).map_err(|error| GatherError::Io { path, error })?;
        }
        Ok(Next { manifest, folder })
    }

    /// Shows readers the next generation. The one before stays for those who still read it by its number.
    pub(super) fn switch_to(&self, next: Next) -> Result<(), GatherError> {
        let before = self.current()?;
        let switch = || -> io::Result<()> {
            let text = serde_json::to_string_pretty(&next.manifest)? + "\n";
            fs::write(next.folder.join(FILE), text)?;
            // All of it is on the disk before a name leads to it.
            rustix::fs::syncfs(File::open(&next.folder)?)?;
            let name = next.manifest.generation.to_string();
            fs::rename(&next.folder, self.dataset.join(GENERATIONS).join(&name))?;
            let names = Table::ALL.into_iter().map(Table::name).chain([FILE]);
            for name in names {
                match symlink(Path::new(CURRENT).join(name), self.dataset.join(name)) {
                    Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                    _ => {}
                }
            }
            let link = self.dataset.join(NEXT);
            match fs::remove_file(&link) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            symlink(Path::new(GENERATIONS).join(&name), &link)?;
            fs::rename(&link, self.dataset.join(CURRENT))?;
            rustix::fs::syncfs(File::open(&self.dataset)?)?;
            self.remove_all_but(&[&name, &before]);
            Ok(())
        };
        switch().map_err(|error| GatherError::Io { path: self.dataset.clone(), error })
    }

    /// The name of the generation that readers see; empty before the first. A copy that followed the links
    /// has a folder in the link's place, and cannot be switched.
    fn current(&self) -> Result<String, GatherError> {
        let path = self.dataset.join(CURRENT);
        match fs::read_link(&path) {
            Ok(link) => Ok(link.file_name().unwrap_or_default().to_string_lossy().into_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                Err(GatherError::Copied(self.dataset.clone()))
            }
            Err(error) => Err(GatherError::Io { path, error }),
        }
    }

    /// Removes generations. One that stays because it cannot be removed takes space and nothing else.
    fn remove_all_but(&self, kept: &[&str]) {
        let entries = fs::read_dir(self.dataset.join(GENERATIONS)).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| !kept.contains(&&*entry.file_name().to_string_lossy())) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Next {
    /// The file of a part in it; its folder is there afterwards.
    pub(super) fn file(&self, part: &PartRecord, table: Table) -> Result<PathBuf, GatherError> {
        let path = self.folder.join(within(part, table));
        let parent = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(parent).map_err(|error| GatherError::Io { path: parent.to_owned(), error })?;
        Ok(path)
    }

    /// Takes over a part as it is: by a second name, or by a copy where a file has only one.
    pub(super) fn link(&self, from: &Generations, part: &PartRecord) -> Result<(), GatherError> {
        for table in Table::ALL {
            let (old, new) = (from.file(part, table), self.file(part, table)?);
            let linked = fs::hard_link(&old, &new).or_else(|_| fs::copy(&old, &new).map(drop));
            linked.map_err(|error| GatherError::Io { path: old, error })?;
        }
        Ok(())
    }
}

/// Where a part's file is in a generation.
fn within(part: &PartRecord, table: Table) -> PathBuf {
    Path::new(table.name()).join(folder(&part.kind())).join(&part.name)
}
