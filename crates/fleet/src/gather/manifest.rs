//! `iopj-dataset.json`: what a generation of a data set consists of.

use crate::table::{Kind, SCHEMA_VERSION};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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

impl Manifest {
    /// Of a data set that is empty.
    pub(super) fn empty() -> Manifest {
        Manifest { schema: SCHEMA_VERSION, generation: 0, parts: Vec::new() }
    }

    /// All stores.
    pub fn stores(&self) -> impl Iterator<Item = &StoreRecord> {
        self.parts.iter().flat_map(|part| &part.stores)
    }
}

impl PartRecord {
    /// The kind of machine that all its stores are of.
    pub fn kind(&self) -> Kind {
        Kind { machine: self.machine.clone(), drive: self.drive.clone(), kernel: self.kernel.clone() }
    }
}
