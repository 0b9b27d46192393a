//! What the paper measured on, and how: modes, threads, and a drive that is slow enough.

use super::super::data::{ClaimCell, Shape, TrialSet};
use iopj_analysis::stats::summarize;
use iopj_core::{IoPath, Rw, SioCompletion, Sleep};

pub(crate) const INTERRUPT: IoPath = IoPath::PosixSio(SioCompletion::Interrupt);

pub(crate) const POLL: IoPath = IoPath::PosixSio(SioCompletion::Poll);

pub(crate) const HYBRID: IoPath = IoPath::PosixSio(SioCompletion::Hybrid(Sleep::Auto));

/// 4 KiB random reads at depth 1.
pub(crate) fn shape(numjobs: u32) -> Shape {
    Shape { numjobs, ..Shape::of_4k(Rw::Randread) }
}

/// Thread counts of the trials of the three completion modes, or `otherwise` if there are none.
pub(crate) fn thread_counts(data: &TrialSet<'_>, fits: impl Fn(u32) -> bool, otherwise: u32) -> Vec<u32> {
    let shapes =
        data.shapes(&[INTERRUPT, POLL, HYBRID], |one| *one == shape(one.numjobs) && fits(one.numjobs));
    if shapes.is_empty() { vec![otherwise] } else { shapes.iter().map(|shape| shape.numjobs).collect() }
}

/// What is missing if interrupt completion hardly sleeps.
pub(crate) fn too_fast(interrupt: &ClaimCell<'_>) -> Option<String> {
    let values: Vec<f64> =
        interrupt.verified.iter().map(|measurement| measurement.context_switches_per_io).collect();
    let seen = summarize(&values)?.mean;
    let need = format!(
        "a device slow enough that interrupt sleeps ({seen:.2} context switches per I/O, {})",
        interrupt.shape
    );
    (seen < SLEEPS).then_some(need)
}

/// Fewer context switches per I/O than this with interrupt completion: most I/Os were found complete before
/// the thread slept, so the device is too fast for the claim.
const SLEEPS: f64 = 0.5;
