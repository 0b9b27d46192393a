//! Who completed the I/Os of the pass before a window, by the stores: the context, on real kernels.

use iopj_core::evidence::{Completions, Finding};
use iopj_core::path::CompletionMode;
use iopj_record::Trial;

/// Share of a pass's completions that may be of another kind: a boot leaves some reads to do.
const STRAY: f64 = 0.02;
/// The scheduler sets a timer now and then (seen: 0 to 5 in a quarter of a second, 20 in 1.8 s); with this
/// many rounds, and up to this share of them, timers are not mistaken for a sleep before each I/O.
const ROUNDS_PER_S: f64 = 200.0;
const OTHER_TIMERS: f64 = 0.25;

/// Asserts that the I/Os of a trial's pass were completed in this way.
#[track_caller]
pub(crate) fn are(trial: &Trial, completion: CompletionMode) {
    let counts = counts(trial);
    let name =
        format!("{} depth {} by {:?}: {counts:?}", trial.path, trial.workload.iodepth, trial.generator);
    eprintln!("{name}");
    assert!(counts.ios > 0 && counts.total() >= counts.ios, "{name}");
    let is_all = |count: u64| count as f64 >= (1.0 - STRAY) * counts.total() as f64;
    let rounds = counts.ios as f64 / f64::from(trial.workload.iodepth);
    let (timers, pass_s) = (counts.timers as f64, counts.pass_ns as f64 / 1e9);
    match completion {
        CompletionMode::Interrupt => assert!(is_all(counts.hard_interrupt + counts.soft_interrupt), "{name}"),
        CompletionMode::Poll => {
            assert!(
                is_all(counts.waiting) && (rounds < ROUNDS_PER_S * pass_s || timers < OTHER_TIMERS * rounds),
                "{name}"
            )
        }
        // The first sleeps are learnt from I/Os that were seen before.
        CompletionMode::Hybrid => assert!(is_all(counts.waiting) && timers >= 0.5 * rounds, "{name}"),
    }
}

/// Asserts that the waiting thread completed the I/Os of a trial's pass, whether it slept before or not.
#[track_caller]
pub(crate) fn are_by_waiting(trial: &Trial) {
    let counts = counts(trial);
    let is_all = counts.waiting as f64 >= (1.0 - STRAY) * counts.total() as f64;
    assert!(counts.ios > 0 && counts.total() >= counts.ios && is_all, "{}: {counts:?}", trial.path);
}

#[track_caller]
fn counts(trial: &Trial) -> Completions {
    let measurement = trial.outcome.measurement().unwrap_or_else(|| panic!("{:?}", trial.outcome));
    match &measurement.evidence.completions {
        Some(Finding::Seen(counts)) => *counts,
        other => panic!("{} by {:?}: {other:?}", trial.path, trial.generator),
    }
}
