//! Paths and lacks that several of the paper's claims have.

use super::super::data::{ClaimCell, Shape};
use super::super::metrics::{ClaimMetric, P99};
use super::super::question::Question;
use crate::published;
use iopj_core::{IoPath, Ring, RingCompletion, RingSubmission};

pub(crate) const SYSCALL: RingSubmission = RingSubmission::Syscall { split: false };

pub(crate) const SQPOLL: RingSubmission = RingSubmission::Sqpoll { kernel_wait: false };

/// Percentiles of a path's reads or writes, in the order of [`published::LatencyRow`].
pub(crate) fn printed(path: IoPath, writes: bool, metric: ClaimMetric) -> Option<f64> {
    let at = 2 * usize::from(writes) + usize::from(metric.is(&P99));
    published::latency(&path).map(|row| row.us[at])
}

pub(crate) fn ring(submission: RingSubmission, completion: RingCompletion) -> IoPath {
    IoPath::IoUring(Ring { submission, completion, registered: false })
}

/// The interfaces with which posix-aio must be compared.
pub(crate) const OTHERS: [&str; 3] = ["posix-sio", "libaio", "io_uring"];

/// A missing part for each of these interfaces that none of the cells is of.
pub(super) fn absent_interfaces<'a>(
    cells: &[ClaimCell<'a>],
    shape: Shape,
    text: impl Fn(&str) -> String,
) -> Vec<Question<'a>> {
    let is_absent = |interface: &&str| !cells.iter().any(|cell| cell.path.interface() == *interface);
    let missing = |interface: &str| {
        Question::missing_for(text(interface), shape, format!("a verified path of {interface}, {shape}"))
    };
    OTHERS.into_iter().filter(is_absent).map(missing).collect()
}

pub(crate) fn sqpolls() -> [IoPath; 2] {
    [ring(SQPOLL, RingCompletion::Interrupt), ring(SQPOLL, RingCompletion::Poll)]
}
