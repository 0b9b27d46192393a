//! `iopj-dataset.json`: what a generation of a data set consists of.

use super::partition::folder;
use crate::table::{Kind, SCHEMA_VERSION, Table};
use iopj_core::files::read_regular_text;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

/// The name of the file.
pub const FILE: &str = "iopj-dataset.json";

/// A generation: its parts, and which stores are in which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the tables' schemas.
    pub schema: u32,
    /// Which generation this is, from 1; 0 before the first.
    pub generation: u64,
    /// The parts, sorted.
    pub parts: Vec<PartRecord>,
}

/// A part: a file of the same name in each table's partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRecord {
    /// The name of its files, such as `part-3-0.parquet`: the generation that wrote it, and which one it is.
    pub name: String,
    /// Processor and cores.
    pub machine: String,
    /// The drives' models.
    pub drive: String,
    /// The kernel's release.
    pub kernel: String,
    /// Its stores.
    pub stores: Vec<StoreRecord>,
    /// SHA-256 of its file in each table, in hexadecimal digits. Older data sets have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sums: BTreeMap<String, String>,
}

/// A store in a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRecord {
    /// Its id, which is the column `store`.
    pub id: String,
    /// Its file when it was read.
    pub file: PathBuf,
    /// Size and time of that file and of its log, by which a change is seen.
    pub stamp: String,
    /// How many trials it had.
    pub trials: u64,
}

/// The longest list: far more stores than there are hosts.
const LONGEST: u64 = 1 << 30;
/// More generations than anybody gathers.
const MOST_GENERATIONS: u64 = 1 << 48;

/// Why a list of parts cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is none that a gather writes.
    #[error("{0}")]
    Text(String),
    /// It has this schema, and not [`SCHEMA_VERSION`].
    #[error("it has schema {0}")]
    Schema(u32),
}

impl Manifest {
    /// Reads a list of parts, which may be a stranger's: each part is a file of the data set, and no way out
    /// of it.
    ///
    /// # Errors
    /// It cannot be read, has another schema, or is none that a gather writes.
    pub fn read(file: &Path) -> Result<Manifest, ManifestError> {
        let text = read_regular_text(file, LONGEST)?;
        let not = |error: serde_json::Error| ManifestError::Text(error.to_string());
        let manifest: Manifest = serde_json::from_str(&text).map_err(not)?;
        if manifest.schema != SCHEMA_VERSION {
            return Err(ManifestError::Schema(manifest.schema));
        }
        if manifest.generation >= MOST_GENERATIONS {
            return Err(ManifestError::Text("no gather has written so many generations".to_owned()));
        }
        if let Some(part) = manifest.parts.iter().find(|part| !is_name(&part.name)) {
            let name = part.name.escape_debug();
            return Err(ManifestError::Text(format!(
                "`{name}` is no name of a part, as `part-3-0.parquet` is"
            )));
        }
        // What is there twice would be counted twice.
        let (mut parts, mut stores) = (HashSet::new(), HashSet::new());
        let is_new = |part: &PartRecord| parts.insert(part.file(Table::Trials));
        if !manifest.parts.iter().all(is_new) || !manifest.stores().all(|store| stores.insert(&store.id)) {
            return Err(ManifestError::Text("a part or a store is in it twice".to_owned()));
        }
        Ok(manifest)
    }

    /// Of a data set that is empty.
    pub(super) fn empty() -> Manifest {
        Manifest { schema: SCHEMA_VERSION, generation: 0, parts: Vec::new() }
    }

    /// All stores.
    pub fn stores(&self) -> impl Iterator<Item = &StoreRecord> {
        self.parts.iter().flat_map(|part| &part.stores)
    }
}

/// Whether this is the name of a part's files.
fn is_name(text: &str) -> bool {
    let numbers = text.strip_prefix("part-").and_then(|rest| rest.strip_suffix(".parquet"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.and_then(|rest| rest.split_once('-')).is_some_and(|(a, b)| is_number(a) && is_number(b))
}

impl PartRecord {
    /// Where its file in a table is, in a generation.
    pub(crate) fn file(&self, table: Table) -> PathBuf {
        Path::new(table.name()).join(folder(&self.kind())).join(&self.name)
    }

    /// The checksum of its file in a table. A part of an older data set has none at all; where some are
    /// there, one that lacks fits nothing.
    pub(crate) fn sum(&self, table: Table) -> Option<&str> {
        let none = (!self.sums.is_empty()).then_some("");
        self.sums.get(table.name()).map(String::as_str).or(none)
    }

    /// The kind of machine that all its stores are of.
    pub fn kind(&self) -> Kind {
        Kind { machine: self.machine.clone(), drive: self.drive.clone(), kernel: self.kernel.clone() }
    }
}
