//! Why stores cannot be gathered.

use std::path::PathBuf;

/// Why there is no gather.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum GatherError {
    /// A folder of stores cannot be read.
    #[error("the folder {path} cannot be read: {error}; name a folder that holds stores")]
    Folder { path: PathBuf, error: std::io::Error },
    /// The data set cannot be written.
    #[error("the data set's {path} cannot be written: {error}; free some space, or name another folder")]
    Io { path: PathBuf, error: std::io::Error },
    /// The folder is something else.
    #[error("{0} holds files and is no data set of iopj: name a new or an empty folder")]
    NotADataset(PathBuf),
    /// Its links were followed when it was copied.
    #[error("{0} is a copy without the links of a data set: gather into a new folder, or copy with `cp -a`")]
    Copied(PathBuf),
    /// A link in it leads elsewhere.
    #[error("{0} leads out of the data set: gather into a new folder")]
    LedOut(PathBuf),
    /// Another gather writes to it.
    #[error("another gather writes to {0}: wait for it, or end it")]
    Locked(PathBuf),
    /// It has other tables.
    #[error("{path} has schema {found}, this iopj writes schema {known}: gather into a new folder")]
    Schema { path: PathBuf, found: u32, known: u32 },
    /// Its list of parts cannot be read.
    #[error("{path} cannot be read: {error}; gather into a new folder")]
    Manifest { path: PathBuf, error: String },
    /// A part cannot be read or written.
    #[error("the part {path} cannot be used: {error}; gather into a new folder")]
    Parquet { path: PathBuf, error: parquet::errors::ParquetError },
}
