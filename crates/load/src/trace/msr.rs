//! The CSV of the block traces of Microsoft Research's servers in Cambridge, as its README describes it
//! (Narayanan, Donnelly, Rowstron: Write Off-Loading, FAST 2008; in SNIA's IOTTA repository).
//!
//! Times are Windows' file times, of 100 ns since 1601. As they count from the same moment in every file,
//! files of several disks may follow one another, each with its header: the records are sorted.

use super::gather::{Gathered, Io};
use super::{LineError, Op, Parser};

const FIELDS: LineError = LineError::Malformed("does not have seven fields");
const TIME: LineError = LineError::Malformed("has a Timestamp that is no number");
const DISK: LineError = LineError::Malformed("has a DiskNumber that is no number");
const TYPE: LineError = LineError::Malformed("has a Type that is neither Read nor Write");
const OFFSET: LineError = LineError::Malformed("has an Offset that is no number of bytes");
const SIZE: LineError = LineError::Malformed("has a Size that is no number of bytes below 4 GiB");
const RESPONSE: LineError = LineError::Malformed("has a ResponseTime that is no number");

pub(super) struct Msr;

/// The fields of a line, the second with the third: the device is a host and its disk.
fn fields(text: &str) -> Option<[&str; 7]> {
    let mut commas = [0; 6];
    let mut found = 0;
    for (place, byte) in text.bytes().enumerate() {
        if byte == b',' {
            *commas.get_mut(found)? = place;
            found += 1;
        }
    }
    let [time, host, disk, kind, offset, size] = commas;
    (found == commas.len()).then(|| {
        [
            &text[..time],
            &text[time + 1..disk],
            &text[host + 1..disk],
            &text[disk + 1..kind],
            &text[kind + 1..offset],
            &text[offset + 1..size],
            &text[size + 1..],
        ]
    })
}

fn is_header(text: &str) -> bool {
    text.starts_with("Timestamp,") && fields(text).is_some()
}

/// Whether a trace that begins with this line is of this format.
pub(super) fn is_line(text: &str) -> bool {
    is_header(text) || fields(text).is_some_and(|[time, ..]| time.parse::<u64>().is_ok())
}

impl Parser for Msr {
    fn line(&mut self, text: &str, into: &mut Gathered) -> Result<(), LineError> {
        if text.is_empty() || is_header(text) {
            return Ok(());
        }
        let [time, device, disk, kind, offset, size, response] = fields(text).ok_or(FIELDS)?;
        disk.parse::<u32>().map_err(|_| DISK)?;
        response.trim_end().parse::<u64>().map_err(|_| RESPONSE)?;
        let op = match kind {
            "Read" => Op::Read,
            "Write" => Op::Write,
            _ => return Err(TYPE),
        };
        into.take(Io {
            at: time.parse().map_err(|_| TIME)?,
            device,
            op,
            offset: offset.parse().map_err(|_| OFFSET)?,
            len: size.parse().map_err(|_| SIZE)?,
        })
    }

    fn unit_ns(&self) -> u64 {
        100
    }
}
