//! Why the machine cannot be sampled.

use crate::ProbeError;
use std::io;

/// Why there is no profile; each with its remedy.
#[derive(Debug, thiserror::Error)]
pub enum SamplingError {
    /// `EACCES`: what all of the machine does is not for this user to see.
    #[error(
        "this user may not sample every core (kernel.perf_event_paranoid is {paranoid}): run as root, grant CAP_PERFMON, or \
         `sysctl kernel.perf_event_paranoid=-1`"
    )]
    NotAllowed {
        /// The value of the setting, as the kernel shows it.
        paranoid: String,
    },
    /// `EPERM`: a container or the kernel's lockdown forbids the system call to everybody.
    #[error(
        "the system call perf_event_open is forbidden here: allow it in the container's seccomp profile together with CAP_PERFMON, or \
         run outside of the container (kernel lockdown `confidentiality` forbids it as well)"
    )]
    Forbidden,
    /// `ENOSYS`: the kernel was built without it.
    #[error(
        "this kernel has no perf events: boot one with CONFIG_PERF_EVENTS, or allow perf_event_open in the container's seccomp profile"
    )]
    Missing,
    /// `EMFILE`: each core takes a descriptor an event.
    #[error("sampling needs {needed} descriptors, more than this process may have: raise the limit by `ulimit -n`")]
    Descriptors {
        /// Descriptors in all.
        needed: usize,
    },
    /// The rings of all cores cannot be locked in memory.
    #[error(
        "no memory can be locked for the samples of a core ({0}): run as root, or raise kernel.perf_event_mlock_kb to 516 or more"
    )]
    Memory(io::Error),
    /// Any other refusal of the kernel.
    #[error("core {cpu} cannot be sampled ({source}): leave the profile out, and please report the kernel's version")]
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
