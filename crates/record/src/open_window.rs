//! What became of an open load in a window.

use crate::latency::Latency;
use serde::{Deserialize, Serialize};
use std::fmt;

/// From when the latency of a trial runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyFrom {
    /// From when the I/O was due, so no wait is left out.
    #[default]
    Due,
    /// From when it was issued, which hides how long it waited to be: fio's.
    Submission,
}

impl fmt::Display for LatencyFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LatencyFrom::Due => "due",
            LatencyFrom::Submission => "submission",
        })
    }
}

/// What became of an open load, or of a trace, in a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenWindow {
    /// I/Os that were due in the window; absent where the generator does not count them.
    pub due: Option<u64>,
    /// Of these, I/Os that were never issued. Only a load that is far behind has any.
    pub unissued: u64,
    /// Time from when an I/O was due until it was issued, in ns: its mean; absent where the generator does
    /// not measure it.
    pub lag_mean_ns: Option<f64>,
    /// Its maximum.
    pub lag_max_ns: Option<u64>,
    /// How far the load was behind when the last I/O of the window was due, in ns.
    pub behind_ns: Option<u64>,
    /// The path falls behind: what it achieves is its limit, and its latency grows with the window.
    pub overload: bool,
    /// From when the trial's latency runs.
    pub latency_from: LatencyFrom,
    /// Latency from submission, beside that from when the I/O was due. It has no histogram.
    pub from_submission: Option<Latency>,
    /// Latency of flushes and fsyncs, from when they were due. It has no histogram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<Latency>,
    /// Of a trace: what was replayed, what was changed to fit the target, and what was left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// CPU time in ns that pacing alone takes for each I/O at this load, with an engine that does nothing and
    /// idles as the path does.
    pub pacer_cpu_ns_per_io: Option<f64>,
}

impl OpenWindow {
    /// I/Os that were due in a second of a window of `window_ns`.
    pub fn offered_iops(&self, window_ns: u64) -> Option<f64> {
        self.due.filter(|_| window_ns > 0).map(|due| due as f64 * 1e9 / window_ns as f64)
    }
}
