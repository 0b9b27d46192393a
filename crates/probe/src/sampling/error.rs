//! Why the machine cannot be sampled.

use crate::ProbeError;
use crate::perf::EventsError;
use std::io;

/// Why there is no profile; each with its remedy.
#[derive(Debug, thiserror::Error)]
pub enum SamplingError {
    /// The kernel counts no events for this user.
    #[error(transparent)]
    Events(#[from] EventsError),
    /// The rings of all cores cannot be locked in memory.
    #[error(
        "no memory can be locked for the samples of a core ({0}): run as root, or raise \
         kernel.perf_event_mlock_kb to 516 or more"
    )]
    Memory(io::Error),
    /// A core that cannot be sampled any more.
    #[error(
        "core {cpu} cannot be sampled ({source}): leave the profile out, and please report the kernel's \
         version"
    )]
    Os {
        /// The core.
        cpu: u32,
        /// What the kernel said.
        source: io::Error,
    },
    /// So much is missing that the profile would mislead.
    #[error("no profile is kept: {0}")]
    Incomplete(String),
    /// Symbols or the list of cores.
    #[error(transparent)]
    Probe(#[from] ProbeError),
}
