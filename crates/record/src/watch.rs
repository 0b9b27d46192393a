//! What `iopj watch` keeps of a program: the record of the whole watch and one for each interval.

use iopj_core::watch::{SeenPath, WatchEvidence, WatchSubject};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchEnd {
    /// The program ended with this exit code.
    Exited(i32),
    /// A signal ended the program.
    Signalled(i32),
    /// The time was over, or the user ended the watch; the program goes on.
    Stopped,
    /// The watched process and its descendants ended; exit codes are their parents' to know.
    Gone,
}

/// A whole watch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchRecord {
    /// What was watched.
    pub subject: WatchSubject,
    /// Wall time of the start in ns since 1970.
    pub started_unix_ns: u64,
    /// How it ended.
    pub end: WatchEnd,
    /// How long an interval is, in ns.
    pub interval_ns: u64,
    /// How the program's processes were followed.
    pub followed: String,
    /// What could not be read, and why.
    pub denied: Vec<String>,
    /// Machine, kernel, versions: names and values.
    pub provenance: BTreeMap<String, String>,
    /// Counts of the whole time.
    pub evidence: WatchEvidence,
    /// The paths that these show.
    pub paths: Vec<SeenPath>,
    /// The intervals in their order; in a table of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<WatchInterval>,
}

/// One interval of a watch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchInterval {
    /// Its end in ns since the watch began.
    pub end_ns: u64,
    /// Counts of the interval.
    pub evidence: WatchEvidence,
    /// The paths that these show.
    pub paths: Vec<SeenPath>,
}
