//! Why a campaign cannot go on, in the words that the user reads.

use iopj_fabric::FabricError;
use iopj_store::StoreError;
use std::io;
use std::path::{Path, PathBuf};

/// A failure of a campaign as a whole; one host's failure is recorded beside the others' results.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum FleetError {
    /// What was asked for cannot be done; the text names the cause and the remedy.
    #[error("{0}")]
    Refused(String),
    /// A file of the campaign.
    #[error("cannot {action} `{path}`: {source}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// A file of the campaign that iopj did not write so.
    #[error("`{path}` cannot be understood: {source}; another program or a newer iopj wrote it")]
    Form { path: PathBuf, source: serde_json::Error },
    /// Something else came where a store should.
    #[error("no store comes from there, but `{0}`; is the same iopj on both sides?")]
    NoStore(String),
    /// A program of the cluster.
    #[error("`{command}` failed: {reason}")]
    Program { command: String, reason: String },
    /// A host, and ssh to it.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// A store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl FleetError {
    /// Turns a failure of the system into an error that says what was being done to which file.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FleetError + use<> {
        let path = path.to_owned();
        move |source| FleetError::Io { action, path, source }
    }
}
