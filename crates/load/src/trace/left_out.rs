//! What of a trace's file is not among its records, by reason.

use std::fmt;

/// Why something in a trace is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Reason {
    /// A line of blkparse with another action than the one that is replayed.
    OtherAction,
    /// A command that was passed through to the drive (SCSI, NVMe), in a line of blkparse.
    Passthrough,
    /// An operation that is not replayed, such as `sync_file_range` or the reset of a zone.
    OtherOp,
    /// An I/O of no bytes.
    ZeroLength,
    /// That a file is added, opened or closed, in an iolog.
    FileAction,
    /// A `wait` in an iolog of version 3, which fio ignores too.
    Wait,
    /// That an I/O that is no write had FUA, in a line of blkparse; the I/O itself is replayed.
    Fua,
}

impl Reason {
    /// All of them, in the order of their numbers.
    pub const ALL: [Reason; 7] = [
        Reason::OtherAction,
        Reason::Passthrough,
        Reason::OtherOp,
        Reason::ZeroLength,
        Reason::FileAction,
        Reason::Wait,
        Reason::Fua,
    ];

    /// One and several of what was left out.
    fn words(self) -> [&'static str; 2] {
        match self {
            Reason::OtherAction => ["line of another action", "lines of other actions"],
            Reason::Passthrough => ["passed-through command", "passed-through commands"],
            Reason::OtherOp => ["operation of another kind", "operations of other kinds"],
            Reason::ZeroLength => ["I/O of no bytes", "I/Os of no bytes"],
            Reason::FileAction => ["opening or closing of a file", "openings and closings of files"],
            Reason::Wait => ["wait", "waits"],
            Reason::Fua => ["FUA of what is no write", "FUAs of what is no write"],
        }
    }
}

/// How often something was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// How often.
    pub count: u64,
    /// The line of the first time.
    pub first_line: u64,
}

/// What was left out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut([Left; Reason::ALL.len()]);

impl LeftOut {
    /// What was left out for this reason.
    pub fn of(&self, reason: Reason) -> Left {
        self.0[reason as usize]
    }

    /// The reasons for which something was left out.
    pub fn reasons(&self) -> impl Iterator<Item = (Reason, Left)> {
        Reason::ALL.into_iter().map(|reason| (reason, self.of(reason))).filter(|(_, left)| left.count > 0)
    }

    /// Counts one.
    pub(super) fn add(&mut self, reason: Reason, line: u64) {
        self.add_all(reason, Left { count: 1, first_line: line });
    }

    /// Counts several.
    pub(super) fn add_all(&mut self, reason: Reason, left: Left) {
        let here = &mut self.0[reason as usize];
        if here.count == 0 {
            here.first_line = left.first_line;
        }
        here.count += left.count;
    }
}

/// The counts in words, with the line of the first of each: `2 I/Os of no bytes (from line 7)`; `nothing` if
/// there is none.
impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self
            .reasons()
            .map(|(reason, left)| {
                let [one, several] = reason.words();
                let from = if left.count == 1 { "in" } else { "from" };
                format!("{} ({from} line {})", some(left.count, one, several), left.first_line)
            })
            .collect();
        f.write_str(if parts.is_empty() { "nothing" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

/// So many of something.
pub(super) fn some(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}
