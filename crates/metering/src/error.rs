//! Why meters cannot go on beside a run.

use iopj_fabric::FabricError;
use iopj_store::StoreError;
use iopj_study::StudyError;

/// Why meters cannot go on beside a run, with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum MeteringError {
    /// A meter does not open, or the study names one that cannot be.
    #[error("{0}")]
    Refused(String),
    /// The study's meters.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// The target host.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Ctrl-C while they opened.
    #[error("interrupted while meters opened")]
    Interrupted,
}
