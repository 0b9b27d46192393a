//! What the jobs of one kind did in a window, where several kinds did I/O at once.

use crate::latency::Latency;
use crate::open_window::OpenWindow;
use crate::rate::per_second;
use iopj_core::{Evidence, IoPath, Observed, Verdict, Workload};
use serde::{Deserialize, Serialize};

/// What the jobs of one kind did in a window, where several kinds did I/O at once. The window is the trial's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindWindow {
    /// Their path.
    pub path: IoPath,
    /// What they were to do, without the jobs beside.
    pub workload: Workload,
    /// Reads and writes that moved all their bytes.
    pub ios: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// I/Os that moved fewer bytes than asked for.
    pub short_ios: u64,
    /// Latency. It has no histogram.
    pub latency: Latency,
    /// What became of their load, if it was open, and of their flushes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenWindow>,
    /// What was seen of them as they did I/O alone, in a short window of a closed loop just before the trial:
    /// together, nobody could tell whose interrupt it was.
    pub evidence: Evidence,
    /// What it shows.
    pub observed: Observed,
    /// The observation compared with their path.
    pub verdict: Verdict,
}

impl KindWindow {
    /// I/Os per second of a window of `window_ns`.
    pub fn iops(&self, window_ns: u64) -> f64 {
        per_second(self.ios, window_ns)
    }

    /// Megabytes (10^6 bytes) per second of a window of `window_ns`.
    pub fn mb_per_s(&self, window_ns: u64) -> f64 {
        per_second(self.bytes, window_ns) / 1e6
    }
}
