//! What came of a trace on its target, in counts and in words.

use super::left_out::some;
use super::{Format, LeftOut, Op, Trace};
use iopj_core::format_bytes;
use std::fmt;

/// What a replay does, from its first record to its last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// How the trace was written.
    pub format: Format,
    /// Of blkparse, which action is replayed.
    pub action: Option<char>,
    /// Records of the trace.
    pub of: u64,
    /// Records that are replayed, by the number of their [`Op`].
    pub replayed: [u64; Op::ALL.len()],
    /// Records that are not, because [`How::skip`](super::How) names what they do, by the number of their
    /// [`Op`].
    pub skipped: [u64; Op::ALL.len()],
    /// Records that are not, because they are of other devices than the one that was chosen.
    pub of_other_devices: u64,
    /// Devices of the trace that are laid one after the other on the target.
    pub devices: u64,
    /// I/Os that are issued; more than records where some are split.
    pub ios: u64,
    /// Bytes that are read.
    pub read_bytes: u64,
    /// Bytes that are written.
    pub written_bytes: u64,
    /// Records that `replay_align` moved.
    pub aligned: u64,
    /// Records that were grown to whole blocks.
    pub rounded: u64,
    /// The block, in bytes.
    pub block: u32,
    /// Records that were beyond the target's end, and are elsewhere on it.
    pub wrapped: u64,
    /// Records that are issued in pieces.
    pub split: u64,
    /// The longest read or write that is issued, in bytes: what a buffer must hold. 0 if there is none.
    pub longest: u32,
    /// From the first record of the trace to the last that is replayed, in ns of the replay; none if every
    /// I/O is due at once, so that there is no time from which it could be late.
    pub span_ns: Option<u64>,
    /// True if all records of the trace have the same time, as in an iolog of version 2 without a `wait`.
    pub is_timeless: bool,
    /// Records that stood in the file after a later one, and were sorted.
    pub sorted: u64,
    /// What of the file is not in the trace.
    pub left_out: LeftOut,
}

impl Mapped {
    /// Of a trace of which nothing is replayed yet.
    pub(super) fn new(trace: &Trace, block: u32) -> Mapped {
        Mapped {
            format: trace.format,
            action: trace.action,
            of: trace.records.len() as u64,
            replayed: [0; Op::ALL.len()],
            skipped: [0; Op::ALL.len()],
            of_other_devices: 0,
            devices: 0,
            ios: 0,
            read_bytes: 0,
            written_bytes: 0,
            aligned: 0,
            rounded: 0,
            block,
            wrapped: 0,
            split: 0,
            longest: 0,
            span_ns: None,
            is_timeless: trace.records.last().is_none_or(|record| record.at_ns == 0),
            sorted: trace.sorted,
            left_out: trace.left_out,
        }
    }

    /// Records that are replayed.
    pub fn records(&self) -> u64 {
        self.replayed.iter().sum()
    }

    /// True if it changes what the target holds.
    pub fn writes(&self) -> bool {
        Op::ALL.into_iter().any(|op| op.writes() && self.replayed[op as usize] > 0)
    }

    fn replayed_text(&self) -> String {
        let format = match self.action {
            Some(action) => format!("{} ({action})", self.format),
            None => self.format.to_string(),
        };
        let time = match self.span_ns {
            Some(ns) => format!("over {:.3} s", ns as f64 / 1e9),
            None if self.is_timeless => "as fast as possible, because it has no times".to_owned(),
            None => "as fast as possible".to_owned(),
        };
        let ops = by_op(&self.replayed).join(", ");
        let [records, of] = [self.records(), self.of];
        format!("{records} of {} from {format}, {time}: {ops}", some(of, "I/O", "I/Os"))
    }

    fn changed_text(&self) -> Option<String> {
        let block = format_bytes(u64::from(self.block));
        let changes = [
            (self.devices.saturating_sub(1), format!("{} devices laid one after the other", self.devices)),
            (self.sorted, format!("{} sorted by time", self.sorted)),
            (self.aligned, format!("{} moved by replay_align", self.aligned)),
            (self.rounded, format!("{} grown to whole blocks of {block}", self.rounded)),
            (self.wrapped, format!("{} wrapped into the target", self.wrapped)),
            (self.split, format!("{} split, {} in all", self.split, some(self.ios, "I/O", "I/Os"))),
        ];
        let texts: Vec<String> =
            changes.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    /// What is not replayed, in words.
    pub(super) fn left_out_text(&self) -> String {
        let mut texts = by_op(&self.skipped);
        if self.of_other_devices > 0 {
            let others = some(self.of_other_devices, "I/O of another device", "I/Os of other devices");
            texts.push(others);
        }
        if texts.is_empty() || self.left_out.reasons().next().is_some() {
            texts.push(self.left_out.to_string());
        }
        texts.join(", ")
    }
}

/// Two lines: what is replayed; what was changed to fit the target, and what is left out.
impl fmt::Display for Mapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.replayed_text())?;
        if let Some(changed) = self.changed_text() {
            write!(f, "{changed}; ")?;
        }
        write!(f, "left out: {}", self.left_out_text())
    }
}

fn by_op(counts: &[u64; Op::ALL.len()]) -> Vec<String> {
    let words = Op::ALL.map(|op| match op {
        Op::Flush => ("flush", "flushes"),
        Op::Fsync => ("fsync", "fsyncs"),
        Op::Read => ("read", "reads"),
        Op::Write => ("write", "writes"),
        Op::Discard => ("discard", "discards"),
        Op::WriteDsync => ("durable write", "durable writes"),
    });
    let counted = counts.iter().zip(words).filter(|(count, _)| **count > 0);
    counted.map(|(count, (one, several))| some(*count, one, several)).collect()
}
