//! Traces: I/O that was recorded elsewhere, read from the formats in which people have it, and put on a
//! target. docs/traces.md says what is read of each format.
//!
//! ```no_run
//! use iopj_load::trace::{How, Onto, Replay, read};
//! use std::path::Path;
//!
//! let trace = read(Path::new("prn_0.csv"), None)?;
//! let onto = Onto { base: 0, len: 64 << 30, block: 512, max_len: 1 << 20 };
//! let replay = Replay::new(trace, &How::default(), onto)?;
//! println!("{}", replay.mapped());
//! let mut cursor = replay.cursor(); // one for each thread
//! while let Some(piece) = cursor.next() {
//!     println!("at {} ns: {} {} bytes at {}", piece.due_ns, piece.op, piece.len, piece.offset);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blkparse;
mod error;
mod gather;
mod how;
mod iolog;
mod left_out;
mod lines;
mod mapped;
mod mapping;
mod msr;
mod replay;
#[cfg(test)]
mod tests;

pub use error::{LineError, TraceError, TraceProblem};
pub use how::{Beyond, How, Onto, ParseBeyondError, ReplayError};
pub use left_out::{Left, LeftOut, Reason};
pub use mapped::Mapped;
pub use replay::{Cursor, Piece, Replay};

use gather::Gathered;
use iopj_core::files::open_regular;
use lines::Lines;
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::str::FromStr;

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// fio's iolog, version 2: waits between the I/Os.
    FioV2,
    /// fio's iolog, version 3: a time before each I/O; fio has written it since 3.31.
    FioV3,
    /// The text that `blkparse` prints of what `blktrace` recorded, in its default format.
    Blkparse,
    /// The CSV of Microsoft Research's servers in Cambridge (Narayanan et al., FAST 2008).
    Msr,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 4] = [Format::FioV2, Format::FioV3, Format::Blkparse, Format::Msr];

    /// What a line of it looks like.
    pub fn shape(self) -> &'static str {
        match self {
            Format::FioV2 => "FILE ACTION OFFSET LENGTH",
            Format::FioV3 => "TIME FILE ACTION OFFSET LENGTH",
            Format::Blkparse => "MAJOR,MINOR CPU SEQUENCE TIME PID ACTION RWBS SECTOR + SECTORS [PROCESS]",
            Format::Msr => "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
        }
    }

    /// The line with which a trace of it begins, or may begin.
    fn header(self) -> &'static str {
        match self {
            Format::FioV2 => "fio version 2 iolog",
            Format::FioV3 => "fio version 3 iolog",
            Format::Blkparse => "",
            Format::Msr => self.shape(),
        }
    }

    fn parser(self) -> Box<dyn Parser> {
        match self {
            Format::FioV2 | Format::FioV3 => Box::new(iolog::Iolog::new(self)),
            Format::Blkparse => Box::new(blkparse::Blkparse::default()),
            Format::Msr => Box::new(msr::Msr),
        }
    }

    /// The format of a trace with this first line.
    fn recognise(first: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| match format {
            Format::FioV2 | Format::FioV3 => first.trim_end() == format.header(),
            Format::Blkparse => blkparse::is_line(first),
            Format::Msr => msr::is_line(first),
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::FioV2 => "fio-v2",
            Format::FioV3 => "fio-v3",
            Format::Blkparse => "blkparse",
            Format::Msr => "msr",
        })
    }
}

/// A text that is the name of no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a format of traces; there are fio-v2, fio-v3, blkparse and msr")]
pub struct ParseFormatError(String);

impl FromStr for Format {
    type Err = ParseFormatError;

    fn from_str(text: &str) -> Result<Format, ParseFormatError> {
        let found = Format::ALL.into_iter().find(|format| format.to_string() == text);
        found.ok_or_else(|| ParseFormatError(text.to_owned()))
    }
}

/// What a record of a trace does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Makes what was written durable: fdatasync(2), or a flush of the drive.
    Flush,
    /// The same with the file's times: fsync(2).
    Fsync,
    /// Discards a range.
    Discard,
    /// Writes what is durable when it completes: FUA.
    WriteDsync,
}

impl Op {
    /// All of them, in the order of their numbers.
    pub const ALL: [Op; 6] = [Op::Read, Op::Write, Op::Flush, Op::Fsync, Op::Discard, Op::WriteDsync];

    /// True if it has a buffer.
    pub fn transfers(self) -> bool {
        self == Op::Read || self.is_write()
    }

    /// True if it writes a buffer.
    #[inline]
    pub fn is_write(self) -> bool {
        matches!(self, Op::Write | Op::WriteDsync)
    }

    /// True if it changes what the target holds.
    pub fn writes(self) -> bool {
        self.is_write() || self == Op::Discard
    }

    /// True if it has an offset and a length.
    pub fn has_range(self) -> bool {
        !matches!(self, Op::Flush | Op::Fsync)
    }
}

impl From<Op> for iopj_engine::Op {
    fn from(op: Op) -> iopj_engine::Op {
        match op {
            Op::Read => iopj_engine::Op::Read,
            Op::Write => iopj_engine::Op::Write,
            Op::Flush => iopj_engine::Op::Flush,
            Op::Fsync => iopj_engine::Op::Fsync,
            Op::Discard => iopj_engine::Op::Discard,
            Op::WriteDsync => iopj_engine::Op::WriteDsync,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Fsync => "fsync",
            Op::Discard => "discard",
            Op::WriteDsync => "durable write",
        })
    }
}

/// One I/O of a trace: 24 bytes of memory, so that 10 million take 240 MB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it came, in ns since the first record.
    pub at_ns: u64,
    /// Where it begins on its device, in bytes; 0 without a range.
    pub offset: u64,
    /// Its length in bytes; 0 without a range, and only then.
    pub len: u32,
    /// Its device: a place in [`Trace::devices`].
    pub device: u16,
    /// What it does.
    pub op: Op,
}

/// A device or file that a trace names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name: a file of an iolog, `MAJOR,MINOR` of blkparse, `Hostname,DiskNumber` of MSR.
    pub name: String,
    /// How many records it has.
    pub records: u64,
    /// The furthest byte that they reach.
    pub end: u64,
}

/// A trace, whole in memory. It has at least one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// How it was written.
    pub format: Format,
    /// The records in order of time, and of the file where times are equal.
    pub records: Vec<Record>,
    /// The devices, in the order in which their first records come in the file.
    pub devices: Vec<Device>,
    /// What of the file is not in `records`.
    pub left_out: LeftOut,
    /// Records that stood in the file after a later one, and were sorted.
    pub sorted: u64,
    /// Of blkparse, which action the records are: `Q` (queued) or `D` (issued to the driver).
    pub action: Option<char>,
}

impl Trace {
    /// True if a record does this.
    pub fn has(&self, op: Op) -> bool {
        self.records.iter().any(|record| record.op == op)
    }
}

/// Reads one format, line by line.
trait Parser {
    /// Puts a line into `into`, or counts it there as left out.
    fn line(&mut self, text: &str, into: &mut Gathered) -> Result<(), LineError>;

    /// How long a unit of its times is, in ns.
    fn unit_ns(&self) -> u64;

    /// Which of blkparse's actions the records are.
    fn action(&self) -> Option<char> {
        None
    }
}

/// Reads a trace whole, line by line. A format that is not named is recognised by the first line. It takes at
/// most half of the memory that is available.
///
/// # Errors
/// The file cannot be read, is of no known format, has a line that is not of its format, holds no I/O, runs
/// backwards, or is too large.
pub fn read(path: &Path, format: Option<Format>) -> Result<Trace, TraceError> {
    let trace = open_regular(path).map_err(TraceProblem::Io).and_then(|file| {
        let reader = BufReader::with_capacity(1 << 20, file);
        read_from(reader, format, most_records())
    });
    trace.map_err(|problem| TraceError { path: path.to_owned(), problem })
}

/// As [`read`], from any reader, with a limit of its own.
///
/// # Errors
/// As [`read`].
pub fn read_from(
    mut reader: impl BufRead,
    format: Option<Format>,
    most_records: usize,
) -> Result<Trace, TraceProblem> {
    refuse_binary(reader.fill_buf().map_err(TraceProblem::Io)?)?;
    let mut lines = Lines::new(reader);
    let mut into = Gathered::new(most_records);
    let Some(first) = lines.next()? else { return Err(TraceProblem::Empty) };
    let recognised = format.or_else(|| Format::recognise(first));
    let format = recognised.ok_or(TraceProblem::UnknownFormat)?;
    let mut parser = format.parser();
    let mut next = Some(first);
    while let Some(text) = next {
        let read = parser.line(text.trim_end_matches('\r'), &mut into);
        if let Err(error) = read {
            return Err(TraceProblem::Line { line: into.line, text: error::shown(text), format, error });
        }
        next = lines.next()?;
        into.line += 1;
    }
    into.finish(format, parser.as_ref())
}

/// What is common and no text.
fn refuse_binary(start: &[u8]) -> Result<(), TraceProblem> {
    match start {
        [0x1f, 0x8b, ..] => Err(TraceProblem::Gzip),
        // BLK_IO_TRACE_MAGIC of the kernel's blktrace_api.h, in either order of bytes, after any version.
        [_, b't', b'a', b'e', ..] | [b'e', b'a', b't', 0..8, ..] => Err(TraceProblem::Blktrace),
        _ => Ok(()),
    }
}

/// How many records half of the available memory holds; any number where the kernel does not say what is
/// available.
fn most_records() -> usize {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = available.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    kib.map_or(usize::MAX, |kib| kib.saturating_mul(1024) / 2 / size_of::<Record>())
}
