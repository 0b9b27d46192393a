//! Why the machine cannot be sampled.

use crate::error::ProbeError;
use crate::perf::EventsError;
use std::io;

/// Why there is no profile, each reason with its remedy.
#[derive(Debug, thiserror::Error)]
pub enum SamplingError {
    /// The kernel counts no events for this user.
    #[error(transparent)]
    Events(#[from] EventsError),
    /// The rings of all cores cannot be locked in memory.
    #[error(
        "no memory can be locked for a core's samples ({0}): run as root, or raise \
         kernel.perf_event_mlock_kb to 516 or more"
    )]
    Memory(io::Error),
    /// A core can no longer be sampled.
    #[error(
        "core {cpu} cannot be sampled ({source}): run without the profile, and please report the kernel's \
         version"
    )]
    Os {
        /// The core.
        cpu: u32,
        /// What the kernel said.
        source: io::Error,
    },
    /// So much is missing that the profile would be misleading.
    #[error("no profile is kept: {0}")]
    Incomplete(String),
    /// Symbols or the list of cores.
    #[error(transparent)]
    Probe(#[from] ProbeError),
}
