//! Contradictions by fio's own counts: a job that was to poll, and slept.
//!
//! Only a count without another explanation refutes. Nothing that fio prints can verify a path.

use iopj_core::{CompletionMode, IoPath, RingSubmission, Workload};
use iopj_load::fio::FioOutput;
use std::str::FromStr;

/// Context switches per I/O from which on a job slept for its I/Os.
const SLEPT: f64 = 0.5;
/// Switches per second that a scheduler may force on a thread that never sleeps: one per tick, at the highest
/// tick rate of kernels. fio counts them with the others.
const FORCED_PER_S: f64 = 1_000.0;
/// Since this kernel `io_poll_delay` makes no hybrid polling of classic polling (commit 54bdd67d0f88).
const WITHOUT_HYBRID: KernelVersion = KernelVersion(6, 4);

/// Version of the kernel that jobs ran on, which fio does not record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion(pub u32, pub u32);

/// A text that is not a kernel release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a kernel release: give two numbers or more, such as 6.18 or 6.1.0-44-amd64")]
pub struct ParseKernelVersionError(String);

impl FromStr for KernelVersion {
    type Err = ParseKernelVersionError;

    /// `6.18`, or a whole release such as `6.1.0-44-amd64`.
    fn from_str(text: &str) -> Result<KernelVersion, ParseKernelVersionError> {
        let mut numbers = text.split(['.', '-', '+']).map(|number| number.parse().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(major), Some(minor)) => Ok(KernelVersion(major, minor)),
            _ => Err(ParseKernelVersionError(text.to_owned())),
        }
    }
}

/// What fio's counts say about a job that was to poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Polling {
    /// They do not contradict.
    AsAsked,
    /// It slept, which polling does not.
    Slept(String),
    /// It slept, as the hybrid polling of older kernels does too.
    SleptPerhapsFirst(String),
}

pub(super) fn polling(
    path: &IoPath,
    workload: &Workload,
    result: &FioOutput,
    kernel: Option<KernelVersion>,
) -> Polling {
    let by_poller = path.ring().is_some_and(|ring| matches!(ring.submission, RingSubmission::Sqpoll { .. }));
    if path.completion() != CompletionMode::Poll || by_poller {
        return Polling::AsAsked;
    }
    let ios = result.reads.ios.saturating_add(result.writes.ios);
    let threads_s = result.window_ns as f64 / 1e9 * f64::from(workload.numjobs);
    let sleeps = (result.ctx as f64 - threads_s * FORCED_PER_S) / ios.max(1) as f64;
    if ios == 0 || sleeps < SLEPT {
        return Polling::AsAsked;
    }
    let per_io = result.ctx as f64 / ios as f64;
    let contradiction = format!(
        "asked for poll, but fio counts {per_io:.2} context switches per I/O, and a thread that polls does \
         not sleep"
    );
    // The polling of passthrough commands came after the hybrid one had left io_uring.
    let is_passthrough = matches!(path, IoPath::NvmePassthrough(_));
    if is_passthrough || kernel.is_some_and(|kernel| kernel >= WITHOUT_HYBRID) {
        return Polling::Slept(contradiction);
    }
    Polling::SleptPerhapsFirst(format!(
        "{contradiction}; hybrid polling (`io_poll_delay` before Linux 6.4) would: name the kernel that it \
         ran on by --kernel"
    ))
}
