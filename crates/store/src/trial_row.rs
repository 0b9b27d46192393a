//! A trial as its table holds it, not decoded yet.

use crate::details;
use rusqlite::Row;

/// A trial as its table holds it.
pub(crate) struct TrialRow {
    pub(crate) id: i64,
    pub(crate) path: String,
    pub(crate) workload: String,
    pub(crate) settings: String,
    pub(crate) generator: String,
    pub(crate) replicate: u32,
    pub(crate) position: u64,
    pub(crate) started_unix_ns: u64,
    pub(crate) gap_ns: Option<u64>,
    /// The measurement as JSON, or why there is none.
    pub(crate) outcome: Result<String, String>,
}

impl TrialRow {
    pub(crate) fn of(row: &Row<'_>) -> rusqlite::Result<TrialRow> {
        Ok(TrialRow {
            id: row.get(0)?,
            path: row.get(1)?,
            workload: row.get(2)?,
            settings: row.get(3)?,
            generator: row.get(4)?,
            replicate: row.get(5)?,
            position: details::count(row, 6)?,
            started_unix_ns: details::count(row, 7)?,
            gap_ns: row.get::<_, Option<i64>>(8)?.map(|ns| ns as u64),
            outcome: match row.get(9)? {
                Some(error) => Err(error),
                None => Ok(row.get(10)?),
            },
        })
    }
}
