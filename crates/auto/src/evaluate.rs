//! The chooser over simulated machines: how much worse than the best static way it is, and where it is
//! better.
//!
//! Each cell is a machine that is drawn: a drive (3 us to 10 ms, from constant to a heavy tail, 1 to 256 at
//! once), what interrupts, wake-ups, polls, timers and calls cost, cores, and power; a program; and an aim.
//! The real [`Chooser`](crate::chooser::Chooser) is driven through it epoch by epoch, with a policy each of
//! whose figures is wrong by up to half of the truth, either way. What it spends is counted by the truth,
//! with everything that it does to learn. The same seed gives the same.
//!
//! Further families have the same machines and programs with policies that are wrong coherently, with a
//! meter, or with bounds of latency; and a drive or a program that was recorded.

mod bound;
mod bounds;
mod breach;
mod cell;
mod chance;
mod cost;
mod family;
mod policy;
mod recorded;
mod report;
mod run;
mod shape;
mod text;
mod trace;
mod truth;
mod workload;

pub use bounds::{Bounds, Kept, Longest, STATED_NS};
pub use breach::{Breach, Drawn, Stretch};
pub use cell::{CHECKPOINTS, Outcome};
pub use family::{Evaluation, Family, Question, evaluate_all};
pub use policy::{MISSTATED, Misstated};
pub use recorded::{Latencies, Recorded};
pub use report::{Phased, REGRET_P95, Regret, Report, Static, TO_GAIN, Verdict};
pub use trace::{Trace, TraceIo};
pub use truth::{DriveClass, Ways};
pub use workload::{Program, RUN_IOS};

use crate::policy::Policy;

/// Cells unless asked otherwise.
pub const CELLS: u64 = 1_200;

/// Evaluates the chooser in so many cells, with figures that are each wrong by themselves.
pub fn evaluate(seed: u64, cells: u64) -> Report {
    evaluate_with(seed, cells, |_| {})
}

/// The same with policies that are adjusted: a chooser that does not explore, or never changes its mind,
/// shows what the thresholds are worth.
pub fn evaluate_with(seed: u64, cells: u64, adjust: impl Fn(&mut Policy) + Sync) -> Report {
    family::base(seed, cells, adjust)
}

#[cfg(test)]
mod tests;
