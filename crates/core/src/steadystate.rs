//! The rule by which a ramp ends.

use std::time::Duration;

/// The rule for the ramp of one workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyStateRule {
    /// The stretch at the ramp's end that is looked at.
    pub duration: Duration,
    /// The share of the mean rate by which the line may rise or fall over that stretch.
    pub change: f64,
    /// The shortest and the longest ramp.
    pub ramp: [Duration; 2],
}
