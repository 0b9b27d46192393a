//! Why the machine cannot be sampled.

use crate::error::ProbeError;
use crate::perf::EventsError;
use std::io;

/// Why there is no profile, each reason with its remedy.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
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
    Os { cpu: u32, source: io::Error },
    /// So much is missing that the profile would be misleading.
    #[error("no profile is kept: {0}")]
    Incomplete(MissingSamples),
    /// Symbols or the list of cores.
    #[error(transparent)]
    Probe(#[from] ProbeError),
}

/// What a window's samples lack, with the remedy.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum MissingSamples {
    /// The rings ran over.
    #[error(
        "at least {lost} of {all} samples were lost because the machine was too busy to take them in time; \
         run fewer jobs, or leave a core free"
    )]
    Lost { lost: u64, all: u64 },
    /// The kernel took fewer than it was asked for.
    #[error("the kernel throttled the sampling; raise kernel.perf_event_max_sample_rate")]
    Throttled,
    /// The counters were shared with others: the share of the window that they counted.
    #[error(
        "the processor's counters counted for only {:.0} % of the window; stop other users of them, such as \
         `perf` or the watchdog (`sysctl kernel.nmi_watchdog=0`)",
        100.0 * .0
    )]
    Shared(f64),
}
