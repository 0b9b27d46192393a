//! Generations of a data set: `generations/N`, of which `current` names one. Tables are links through
//! `current`, so one rename switches all of them.

use super::GatherError;
use super::foreign::is_inside;
use super::manifest::{FILE, Manifest, ManifestError, PartRecord};
use crate::table::{SCHEMA_VERSION, Table};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{OpenOptionsExt, symlink};
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
        let lock = open_lock(&path).map_err(at(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(GatherError::Locked(dataset.to_owned())),
            Err(TryLockError::Error(error)) => return Err(at(&path)(error)),
        }
        let generations = dataset.join(GENERATIONS);
        fs::create_dir_all(&generations).map_err(at(&generations))?;
        // What is not in force is removed from there.
        if !fs::symlink_metadata(&generations).map_err(at(&generations))?.is_dir() {
            return Err(GatherError::LedOut(generations));
        }
        let generations = Generations { dataset: dataset.to_owned(), _lock: lock };
        generations.current()?;
        // What stands in a link's place would stay as it is, and readers with it.
        let names = Table::ALL.into_iter().map(Table::name).chain([FILE]);
        let is_other = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink());
        if names.map(|name| dataset.join(name)).any(|path| is_other(&path)) {
            return Err(GatherError::Copied(dataset.to_owned()));
        }
        Ok(generations)
    }

    /// What readers see.
    pub(super) fn manifest(&self) -> Result<Manifest, GatherError> {
        let path = self.dataset.join(CURRENT).join(FILE);
        match Manifest::read(&path) {
            Err(ManifestError::Io(error)) if error.kind() == ErrorKind::NotFound => Ok(Manifest::empty()),
            Err(ManifestError::Schema(found)) => {
                Err(GatherError::Schema { path: self.dataset.clone(), found, known: SCHEMA_VERSION })
            }
            read => read.map_err(|error| GatherError::Manifest { path, error: error.to_string() }),
        }
    }

    /// The folder of the generation that readers see.
    pub(super) fn current_folder(&self) -> PathBuf {
        self.dataset.join(CURRENT)
    }

    /// The file of a part in it.
    pub(super) fn file(&self, part: &PartRecord, table: Table) -> PathBuf {
        self.current_folder().join(part.file(table))
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
            Ok(link) => {
                let number = link.strip_prefix(GENERATIONS).ok().and_then(Path::to_str);
                let number = number.filter(|name| is_number(name)).map(str::to_owned);
                number.ok_or(GatherError::LedOut(path))
            }
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
        for entry in entries {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if is_number(name.strip_prefix(HALF).unwrap_or(&name)) && !kept.contains(&&*name) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// Whether a generation is called so.
fn is_number(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

/// The file of the lock: what a link leads to stays as it is.
fn open_lock(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    OpenOptions::new().write(true).create(true).truncate(false).custom_flags(flags).open(path)
}

impl Next {
    /// The file of a part in it; its folder is there afterwards.
    pub(super) fn file(&self, part: &PartRecord, table: Table) -> Result<PathBuf, GatherError> {
        let path = self.folder.join(part.file(table));
        let parent = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(parent).map_err(|error| GatherError::Io { path: parent.to_owned(), error })?;
        Ok(path)
    }

    /// Takes over a part as it is: by a second name, or by a copy where a file has only one.
    pub(super) fn link(&self, from: &Generations, part: &PartRecord) -> Result<(), GatherError> {
        for table in Table::ALL {
            let (old, new) = (from.file(part, table), self.file(part, table)?);
            // A link would be taken over, and lead out of this generation, too.
            if !is_inside(&old, &from.dataset) {
                return Err(GatherError::LedOut(old));
            }
            let linked = fs::hard_link(&old, &new).or_else(|_| fs::copy(&old, &new).map(drop));
            linked.map_err(|error| GatherError::Io { path: old, error })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(dataset: &Path) -> String {
        let opened = Generations::open(dataset).and_then(|generations| generations.manifest());
        opened.unwrap_err().to_string()
    }

    /// The folder that a link led to was emptied, and a file truncated.
    #[test]
    fn links_of_a_strangers_data_set_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("own/7")).unwrap();
        fs::create_dir_all(at("own/letters")).unwrap();
        fs::create_dir(at("data")).unwrap();
        symlink(at("own"), at("data/generations")).unwrap();
        assert!(refused(&at("data")).contains("leads out of the data set"));
        fs::remove_file(at("data/generations")).unwrap();
        symlink("../own/7", at("data/current")).unwrap();
        assert!(refused(&at("data")).contains("leads out of the data set"));
        fs::remove_file(at("data/current")).unwrap();
        fs::write(at("letter"), "dear").unwrap();
        fs::remove_file(at("data/.lock")).unwrap();
        symlink("../letter", at("data/.lock")).unwrap();
        assert!(refused(&at("data")).contains(".lock"));
        assert_eq!(fs::read(at("letter")).unwrap(), b"dear");
        assert_eq!(fs::read_dir(at("own")).unwrap().count(), 2);
        fs::remove_file(at("data/.lock")).unwrap();
        // What is no generation stays, also in the data set itself.
        for name in ["letters", "half-3", "3"] {
            fs::create_dir_all(at("data/generations").join(name)).unwrap();
        }
        Generations::open(&at("data")).unwrap().clean().unwrap();
        let left: Vec<_> =
            fs::read_dir(at("data/generations")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["letters"]);
    }

    #[test]
    fn a_part_is_a_file_of_its_data_set() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        let read = |part: &str, generation: u64| {
            let part = serde_json::json!({
                "name": part, "machine": "..", "drive": "../..", "kernel": "/", "stores": []
            });
            let text =
                serde_json::json!({ "schema": SCHEMA_VERSION, "generation": generation, "parts": [part] });
            fs::write(&file, text.to_string()).unwrap();
            Manifest::read(&file).map_err(|error| error.to_string())
        };
        let inside = read("part-3-0.parquet", 3).unwrap().parts[0].file(Table::Trials);
        assert_eq!(inside.to_str(), Some("trials/machine=../drive=..%2F../kernel=%2F/part-3-0.parquet"));
        for name in
            ["../../../part-3-0.parquet", "/part-3-0.parquet", "part-3-0.parquet/..", "part--0.parquet", ""]
        {
            assert!(read(name, 3).unwrap_err().contains("is no name of a part"), "{name}");
        }
        assert!(read("part-3-0.parquet", u64::MAX).unwrap_err().contains("so many generations"));
        let mut twice: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        twice["generation"] = 3.into();
        let part = twice["parts"][0].clone();
        twice["parts"].as_array_mut().unwrap().push(part);
        fs::write(&file, twice.to_string()).unwrap();
        assert!(Manifest::read(&file).unwrap_err().to_string().contains("in it twice"));
        fs::remove_file(&file).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &file, 0o644.into()).unwrap();
        assert!(Manifest::read(&file).unwrap_err().to_string().contains("pipe"));
    }
}
