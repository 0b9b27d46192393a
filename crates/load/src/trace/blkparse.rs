//! What `blkparse` prints of a blktrace, in its default format (blkparse(1), "DEFAULT OUTPUT";
//! `blkparse_fmt.c` of blktrace 1.2).
//!
//! Of the lines of an I/O one is replayed: `Q`, as the I/O entered the block layer. A trace without any `Q`
//! (`blktrace -a issue`) is replayed by its `D`, as the I/Os went to the driver.

use super::gather::{Gathered, Io};
use super::{Left, LineError, Op, Parser, Reason};

const HEADER: LineError = LineError::Malformed("does not begin as blkparse's lines do");
const TIME: LineError = LineError::Malformed("has a time that is not of seconds and nine digits");
const RANGE: LineError = LineError::Malformed("has neither `SECTOR + SECTORS` nor a process in brackets");
const FAR: LineError = LineError::Malformed("has more sectors than an I/O can have");

const SECTOR: u64 = 512;

/// What the lines of blkparse's statistics begin with, besides those with a name in front.
const STATISTICS: [&str; 11] = [
    "Reads ",
    "Read ",
    "IO unplugs:",
    "Throughput ",
    "Events ",
    "Skips:",
    "Input file ",
    "Allocation wait:",
    "Dispatch wait:",
    "Completion wait:",
    "Totals ",
];

#[derive(Default)]
pub(super) struct Blkparse {
    /// Whether a `Q` was there.
    queued: bool,
    /// The events before the first `Q`.
    before: Left,
}

/// Whether a trace that begins with this line is of this format.
pub(super) fn is_line(text: &str) -> bool {
    Event::parse(text).is_ok() || text.starts_with("Input file ")
}

/// The part of a line that all events have.
struct Event<'a> {
    device: &'a str,
    at_ns: u64,
    action: &'a str,
    rwbs: &'a str,
    rest: &'a str,
}

impl<'a> Event<'a> {
    fn parse(text: &'a str) -> Result<Event<'a>, LineError> {
        let mut rest = text;
        let mut next = || {
            rest = rest.trim_ascii_start();
            let field;
            (field, rest) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
            Some(field).filter(|field| !field.is_empty()).ok_or(HEADER)
        };
        let [device, cpu, sequence, time, pid, action] =
            [next()?, next()?, next()?, next()?, next()?, next()?];
        let rwbs = next()?;
        let is_device =
            device.split_once(',').is_some_and(|(major, minor)| is_number(major) && is_number(minor));
        let is_action = action.len() <= 2 && action.bytes().all(|b| b.is_ascii_alphabetic());
        if !(is_device && is_action && [cpu, sequence, pid].into_iter().all(is_number)) {
            return Err(HEADER);
        }
        Ok(Event { device, at_ns: time_ns(time).ok_or(TIME)?, action, rwbs, rest: rest.trim_ascii() })
    }
}

fn is_number(text: &str) -> bool {
    text.parse::<u64>().is_ok()
}

fn time_ns(text: &str) -> Option<u64> {
    let (seconds, ns) = text.split_once('.').filter(|(_, ns)| ns.len() == 9)?;
    let [seconds, ns]: [u64; 2] = [seconds.parse().ok()?, ns.parse().ok()?];
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// Whether it is of blkparse's statistics, which follow the events.
fn is_statistics(text: &str) -> bool {
    let text = text.trim_ascii();
    let is_title = text.ends_with(')') || text.ends_with("):");
    text.is_empty() || is_title || STATISTICS.into_iter().any(|start| text.starts_with(start))
}

/// What the letters of RWBS ask for.
struct Asked {
    flush: bool,
    op: Option<Op>,
    fua: bool,
}

impl Asked {
    /// As `fill_rwbs` of `blkparse_fmt.c` writes it: a flush before the I/O, the operation, then flags. `R`
    /// stands for all that neither writes nor discards, `N` for it if it has no bytes.
    fn parse(rwbs: &str) -> Asked {
        let (flush, kind) = rwbs.strip_prefix('F').map_or((false, rwbs), |kind| (true, kind));
        let op = match kind.bytes().next() {
            Some(b'R') => Some(Op::Read),
            Some(b'W') => Some(Op::Write),
            Some(b'D') => Some(Op::Discard),
            _ => None,
        };
        Asked { flush, op, fua: kind.contains('F') }
    }
}

/// Offset and length in bytes of `SECTOR + SECTORS`; none where a line has no range.
fn range(rest: &str) -> Result<Option<(u64, u32)>, LineError> {
    if rest.starts_with('[') {
        return Ok(None);
    }
    let mut fields = rest.split_ascii_whitespace();
    let (Some(sector), Some("+"), Some(sectors)) = (fields.next(), fields.next(), fields.next()) else {
        return Err(RANGE);
    };
    let sector: u64 = sector.parse().map_err(|_| RANGE)?;
    let sectors: u64 = sectors.parse().map_err(|_| RANGE)?;
    let len = sectors.checked_mul(SECTOR).and_then(|len| u32::try_from(len).ok()).ok_or(FAR)?;
    // Where there are no bytes, the sector may be anything.
    let offset = if len == 0 { Some(0) } else { sector.checked_mul(SECTOR) };
    Ok(Some((offset.ok_or(LineError::TooFar)?, len)))
}

impl Blkparse {
    fn io(event: &Event<'_>, into: &mut Gathered) -> Result<(), LineError> {
        let Event { device, at_ns: at, rwbs, rest, .. } = *event;
        // A passed-through command: its bytes, what it is in hexadecimal where that is known, the process.
        let second = rest.split_ascii_whitespace().nth(1).unwrap_or_default();
        if !rest.starts_with('[') && second.starts_with(['(', '[']) {
            into.leave_out(Reason::Passthrough);
            return Ok(());
        }
        let asked = Asked::parse(rwbs);
        let (offset, len) = range(rest)?.unwrap_or_default();
        if asked.flush {
            into.take_in_order(Io { at, device, op: Op::Flush, offset: 0, len: 0 })?;
            if len == 0 {
                return Ok(());
            }
        }
        let op = match (asked.op, asked.fua) {
            (None, _) => {
                into.leave_out(Reason::OtherOp);
                return Ok(());
            }
            (Some(Op::Write), true) => Op::WriteDsync,
            (Some(op), fua) => {
                if fua {
                    into.leave_out(Reason::Fua);
                }
                op
            }
        };
        into.take_in_order(Io { at, device, op, offset, len })
    }
}

impl Parser for Blkparse {
    fn line(&mut self, text: &str, into: &mut Gathered) -> Result<(), LineError> {
        let event = match Event::parse(text) {
            Ok(event) => event,
            Err(_) if is_statistics(text) => return Ok(()),
            Err(error) => return Err(error),
        };
        match event.action {
            // A message of a scheduler or a program.
            "m" => return Ok(()),
            "Q" if !self.queued => {
                into.forget();
                if self.before.count > 0 {
                    into.left_out.add_all(Reason::OtherAction, self.before);
                }
                self.queued = true;
            }
            "Q" => {}
            action => {
                if self.before.count == 0 {
                    self.before.first_line = into.line;
                }
                self.before.count += 1;
                if self.queued || action != "D" {
                    into.leave_out(Reason::OtherAction);
                    return Ok(());
                }
            }
        }
        Blkparse::io(&event, into)
    }

    fn unit_ns(&self) -> u64 {
        1
    }

    fn action(&self) -> Option<char> {
        Some(if self.queued { 'Q' } else { 'D' })
    }
}
