//! The rule by which a ramp ends.

use std::time::Duration;

/// The rule for the ramp of one workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyStateRule {
    /// Length of the interval at the ramp's end that is examined.
    pub duration: Duration,
    /// The share of the mean rate by which the line through the rates may rise or fall over that interval.
    pub change: f64,
    /// The shortest and the longest ramp.
    pub ramp: [Duration; 2],
}
