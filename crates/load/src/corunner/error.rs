//! Why a co-runner does not run.

use iopj_core::format_bytes;
use std::io;

/// Why a co-runner does not run.
#[derive(Debug, thiserror::Error)]
pub enum CorunnerError {
    /// A processor that this process may not use, or that is not there.
    #[error("corunner_cpus names cpu {0}, which this process may not use: leave it out")]
    Cpu(u32),
    /// A niceness that only root may take.
    #[error(
        "corunner_nice {0} puts the co-runner before other work, which only root may (or a limit by `ulimit \
         -e`): run as root, or write 0 to 19"
    )]
    Nice(i8),
    /// The buffer of `memory`, in bytes.
    #[error("the co-runner needs {} of memory, more than there is: choose spin or branch", format_bytes(*.0))]
    Memory(u64),
    /// A thread was refused, or the kernel refused its processor.
    #[error("the co-runner's thread on cpu {cpu} could not be started: {source}")]
    Thread {
        /// Its processor.
        cpu: u32,
        /// The system's error.
        source: io::Error,
    },
}
