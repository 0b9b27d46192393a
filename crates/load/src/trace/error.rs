//! Why a trace cannot be read: the thing, the cause, the remedy.

use super::Format;
use std::io;
use std::path::PathBuf;

/// Characters of a foreign text that a message shows.
const SHOWN: usize = 80;

/// Why the trace in a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the trace {}: {problem}", shown(&path.to_string_lossy()))]
pub struct TraceError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: TraceProblem,
}

/// What is wrong with a trace.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum TraceProblem {
    /// It does not open, or breaks off.
    #[error("it cannot be read: {0}")]
    Io(io::Error),
    /// A file of no bytes.
    #[error("it is empty; record one, such as by fio's write_iolog")]
    Empty,
    /// No record came of it.
    #[error("it holds no I/O that can be replayed (left out: {0})")]
    NoIo(String),
    /// Its first line is of no format. The line is not shown: what is no trace may be somebody's secret.
    #[error(
        "its first line is of no format that is known: write fio's iolog of version 2 or 3 (`fio version 3 \
         iolog`), the text of blkparse in its default format, or MSR Cambridge's CSV"
    )]
    UnknownFormat,
    /// Compressed.
    #[error("it is compressed; unpack it with gunzip first")]
    Gzip,
    /// What blktrace writes.
    #[error("it is blktrace's binary; make text of it: blkparse -i NAME > trace.txt, without .blktrace.0")]
    Blktrace,
    /// Bytes that are no text.
    #[error("line {0} is not UTF-8 text; the file is damaged, or no trace")]
    NotText(u64),
    /// A line without end.
    #[error("line {0} is longer than 64 KiB; the file is damaged, or no trace")]
    LongLine(u64),
    /// A line that is not of the format.
    #[error("line {line}, `{text}`, {error}{}", remedy(*error, *format))]
    Line { line: u64, text: String, format: Format, error: LineError },
    /// Times that are too far from each other.
    #[error("its times span more than 584 years; correct the one that is out of place")]
    Span,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Not as lines of the format are.
    #[error("{0}")]
    Malformed(&'static str),
    /// Not the line with which an iolog begins.
    #[error("is not the first line of such an iolog")]
    Header,
    /// The header of a second iolog in the file.
    #[error("begins another log, because fio appends to the file of write_iolog")]
    SecondHeader,
    /// Before the line that precedes it.
    #[error("is earlier than the I/O before it")]
    Backwards,
    /// Past what a file's offset can be.
    #[error("reaches beyond 8 EiB")]
    TooFar,
    /// More devices than are counted.
    #[error("names the 65,537th device or file; replay fewer of them")]
    Devices,
    /// No more memory.
    #[error("is more than memory holds: {records} records of 24 bytes were read; replay the trace in parts")]
    Memory {
        /// How many records were read before it.
        records: usize,
    },
}

fn remedy(error: LineError, format: Format) -> String {
    let shape = format.shape();
    match (error, format) {
        (LineError::Malformed(_) | LineError::TooFar, _) => {
            format!(": a line of {format} is `{shape}`; correct this one or take it out")
        }
        (LineError::Header, _) => format!(": write `{}` first", format.header()),
        (LineError::SecondHeader, _) => {
            ": cut the file there, or record each run and job into its own".to_owned()
        }
        (LineError::Backwards, Format::FioV3) => {
            ": several jobs wrote into one file; record each into its own (write_iolog)".to_owned()
        }
        (LineError::Backwards, _) => ": sort the lines by time (sort -s -n -k 4,4)".to_owned(),
        (LineError::Devices | LineError::Memory { .. }, _) => String::new(),
    }
}

/// The beginning of a foreign text, without what could move a cursor or hide.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::new();
    for (place, c) in text.trim_end().chars().enumerate() {
        if place == SHOWN {
            shown.push('…');
            break;
        }
        match c {
            '"' | '\'' | '\\' => shown.push(c),
            _ => shown.extend(c.escape_debug()),
        }
    }
    shown
}
