//! fio's iolog, versions 2 and 3, as fio reads it (`read_iolog` of its `iolog.c`; tried with 3.33).
//!
//! Where fio and its manual differ, this follows fio. A `wait` of version 2 lasts until so many *milliseconds
//! after the start*; the manual says microseconds after the previous one. The times of version 3, of which
//! the manual does not name the unit, are microseconds.

use super::gather::{Gathered, Io};
use super::{Format, LineError, Op, Parser, Reason};

const TIME: LineError = LineError::Malformed("has a time that is no number of microseconds");
const OFFSET: LineError = LineError::Malformed("has an offset that is no number of bytes");
const LENGTH: LineError = LineError::Malformed("has a length that is no number of bytes below 4 GiB");
const FIELDS: LineError = LineError::Malformed("has too few fields, or too many");
const ACTION: LineError = LineError::Malformed("has an action that fio does not know");

pub(super) struct Iolog {
    header: &'static str,
    has_times: bool,
    header_seen: bool,
    /// Of version 2, until when was waited.
    waited_ms: u64,
}

impl Iolog {
    pub(super) fn new(format: Format) -> Iolog {
        let has_times = format == Format::FioV3;
        Iolog { header: format.header(), has_times, header_seen: false, waited_ms: 0 }
    }

    fn io(
        &mut self,
        at: Option<u64>,
        [device, action, offset, len]: [&str; 4],
        into: &mut Gathered,
    ) -> Result<(), LineError> {
        let offset: u64 = offset.parse().map_err(|_| OFFSET)?;
        let len: u32 = len.parse().map_err(|_| LENGTH)?;
        let op = match action {
            "read" => Op::Read,
            "write" => Op::Write,
            "trim" => Op::Discard,
            "sync" => Op::Fsync,
            "datasync" => Op::Flush,
            "wait" if at.is_none() => {
                self.waited_ms = self.waited_ms.max(offset);
                return Ok(());
            }
            "wait" => {
                into.leave_out(Reason::Wait);
                return Ok(());
            }
            "sync_file_range" | "file_operation" => {
                into.leave_out(Reason::OtherOp);
                return Ok(());
            }
            _ => return Err(ACTION),
        };
        let at = at.unwrap_or(self.waited_ms);
        into.take_in_order(Io { at, device, op, offset, len })
    }
}

impl Parser for Iolog {
    fn line(&mut self, text: &str, into: &mut Gathered) -> Result<(), LineError> {
        if !self.header_seen {
            self.header_seen = true;
            return if text.trim_end() == self.header { Ok(()) } else { Err(LineError::Header) };
        }
        if text.trim_end() == self.header {
            return Err(LineError::SecondHeader);
        }
        let mut fields = text.split_ascii_whitespace();
        let at = if self.has_times {
            let Some(time) = fields.next() else { return Ok(()) };
            Some(time.parse().map_err(|_| TIME)?)
        } else {
            None
        };
        let mut next = || fields.next();
        match [next(), next(), next(), next(), next()] {
            [None, ..] if at.is_none() => Ok(()),
            [Some(file), Some(action), Some(offset), Some(len), None] => {
                self.io(at, [file, action, offset, len], into)
            }
            [Some(_), Some("add" | "open" | "close"), None, ..] => {
                into.leave_out(Reason::FileAction);
                Ok(())
            }
            [Some(_), Some(_), None, ..] => Err(ACTION),
            _ => Err(FIELDS),
        }
    }

    fn unit_ns(&self) -> u64 {
        if self.has_times { 1_000 } else { 1_000_000 }
    }
}
