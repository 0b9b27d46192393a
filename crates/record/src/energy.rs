//! What meters add to a store: sessions, meters, raw readings, marks of load and idle time, joules of trials.
//!
//! Raw readings are kept, so joules can be computed again. All times are `CLOCK_MONOTONIC_RAW` in ns of a
//! session's boot.

use iopj_core::TrialEnergy;
use serde::{Deserialize, Serialize};

/// A run, or a resumption of one: within it raw times are of one boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its number, from 1.
    pub id: i64,
    /// The kernel's boot id.
    pub boot: String,
    /// Wall time minus raw time at its start.
    pub unix_minus_raw_ns: i64,
}

/// A meter of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterRow {
    /// Its number.
    pub id: i64,
    /// Its session.
    pub session: i64,
    /// Its name in the study.
    pub name: String,
    /// What it is and what its channels are, as JSON.
    pub record: String,
}

/// A raw reading of one channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadingRow {
    /// Index into the meter's channels.
    pub channel: u32,
    /// The value.
    pub value: RawValue,
    /// When reading began.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Wall time at the end, since 1970.
    pub wall_ns: i64,
    /// The meter's own time.
    pub own_ns: Option<i64>,
}

/// A reading's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RawValue {
    /// Of a counter.
    Count(u64),
    /// Of a gauge, in W.
    Watts(f64),
}

/// What the machine did for a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MarkKind {
    /// I/O of a trial, its ramp included: the times at which load went on, off, on, ...
    Load,
    /// Nothing: start and end.
    Idle,
    /// The load pattern: start, edges, end.
    Pattern,
}

impl MarkKind {
    /// Its word in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            MarkKind::Load => "load",
            MarkKind::Idle => "idle",
            MarkKind::Pattern => "pattern",
        }
    }
}

/// A mark on a session's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The kind.
    pub kind: MarkKind,
    /// A load's trial, by its position in the study's order.
    pub position: Option<u64>,
    /// The times, in order.
    pub times_ns: Vec<u64>,
}

/// The energy of one trial, found by its position in the study's order.
pub type EnergyOfTrial = (u64, Vec<TrialEnergy>);
