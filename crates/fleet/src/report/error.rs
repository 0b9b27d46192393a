//! Why a data set says nothing.

use std::path::PathBuf;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum ReportError {
    /// It is no data set.
    #[error("{path} holds no data set: {error}; name a folder that `iopj fleet gather` has written")]
    NotADataset { path: PathBuf, error: String },
    /// It has other tables.
    #[error("{path} has schema {found}, this iopj reads schema {known}: gather into a new folder")]
    Schema { path: PathBuf, found: u32, known: u32 },
    /// A part cannot be read.
    #[error(
        "the part {path} cannot be read: {error}; if a gather has replaced it meanwhile, try again, or else \
         gather into a new folder"
    )]
    Parquet { path: PathBuf, error: parquet::errors::ParquetError },
}
