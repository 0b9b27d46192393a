//! The records of a trace while they are read: their devices, their order, and the memory that they may take.

use super::{Device, Format, LeftOut, LineError, Op, Parser, Reason, Record, Trace, TraceProblem};
use std::collections::HashMap;

/// An I/O as a line states it.
#[derive(Clone, Copy)]
pub(super) struct Io<'a> {
    /// When, in units of the format.
    pub(super) at: u64,
    pub(super) device: &'a str,
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) len: u32,
}

pub(super) struct Gathered {
    /// Their times are in units of the format, from wherever it counts.
    records: Vec<Record>,
    devices: Vec<Device>,
    numbers: HashMap<String, u16>,
    /// The device of the latest record, which is often that of the next.
    latest: u16,
    pub(super) left_out: LeftOut,
    /// The number of the line that is being read.
    pub(super) line: u64,
    most_records: usize,
}

impl Gathered {
    pub(super) fn new(most_records: usize) -> Gathered {
        Gathered {
            records: Vec::new(),
            devices: Vec::new(),
            numbers: HashMap::new(),
            latest: 0,
            left_out: LeftOut::default(),
            line: 1,
            most_records,
        }
    }

    /// Counts the line as left out.
    pub(super) fn leave_out(&mut self, reason: Reason) {
        self.left_out.add(reason, self.line);
    }

    /// Takes an I/O. One with a range but no bytes is left out.
    ///
    /// # Errors
    /// It reaches too far, its device is one too many, or there is no memory for it.
    pub(super) fn take(&mut self, io: Io<'_>) -> Result<(), LineError> {
        if io.op.has_range() && io.len == 0 {
            self.leave_out(Reason::ZeroLength);
            return Ok(());
        }
        let (offset, len) = if io.op.has_range() { (io.offset, io.len) } else { (0, 0) };
        let end = offset.checked_add(u64::from(len)).filter(|end| i64::try_from(*end).is_ok());
        let end = end.ok_or(LineError::TooFar)?;
        self.make_room()?;
        let number = self.number(io.device)?;
        let device = &mut self.devices[usize::from(number)];
        device.records += 1;
        device.end = device.end.max(end);
        self.records.push(Record { at_ns: io.at, offset, len, device: number, op: io.op });
        Ok(())
    }

    /// As [`Gathered::take`], of a format whose times may not run backwards.
    ///
    /// # Errors
    /// The same, or it is earlier than the latest.
    pub(super) fn take_in_order(&mut self, io: Io<'_>) -> Result<(), LineError> {
        if self.records.last().is_some_and(|latest| io.at < latest.at_ns) {
            return Err(LineError::Backwards);
        }
        self.take(io)
    }

    /// Forgets all records, and why others were left out.
    pub(super) fn forget(&mut self) {
        *self = Gathered { line: self.line, ..Gathered::new(self.most_records) };
    }

    /// Grows by a quarter: a vector that doubles needs three times the memory for a moment, where it moves.
    fn make_room(&mut self) -> Result<(), LineError> {
        let len = self.records.len();
        if len < self.records.capacity() && len < self.most_records {
            return Ok(());
        }
        let more = (len / 4 + 1024).min(self.most_records.saturating_sub(len));
        let has_grown = more > 0 && self.records.try_reserve_exact(more).is_ok();
        if has_grown { Ok(()) } else { Err(LineError::Memory { records: len }) }
    }

    fn number(&mut self, name: &str) -> Result<u16, LineError> {
        if self.devices.get(usize::from(self.latest)).is_some_and(|device| device.name == name) {
            return Ok(self.latest);
        }
        self.latest = match self.numbers.get(name) {
            Some(number) => *number,
            None => {
                let number = u16::try_from(self.devices.len()).map_err(|_| LineError::Devices)?;
                self.devices.push(Device { name: name.to_owned(), records: 0, end: 0 });
                self.numbers.insert(name.to_owned(), number);
                number
            }
        };
        Ok(self.latest)
    }

    /// Sorts the records, and counts their times in ns from the first.
    ///
    /// # Errors
    /// There is none, or their times are too far from each other.
    pub(super) fn finish(self, format: Format, parser: &dyn Parser) -> Result<Trace, TraceProblem> {
        let Gathered { mut records, devices, left_out, .. } = self;
        let sorted = late(&records);
        if sorted > 0 {
            records.sort_by_key(|record| record.at_ns);
        }
        let Some(first) = records.first().map(|record| record.at_ns) else {
            return Err(TraceProblem::NoIo(left_out.to_string()));
        };
        for record in &mut records {
            let span = (record.at_ns - first).checked_mul(parser.unit_ns());
            record.at_ns = span.ok_or(TraceProblem::Span)?;
        }
        records.shrink_to_fit();
        Ok(Trace { format, records, devices, left_out, sorted, action: parser.action() })
    }
}

/// How many records are earlier than one before them.
fn late(records: &[Record]) -> u64 {
    let mut latest = 0;
    let mut late = 0;
    for record in records {
        late += u64::from(record.at_ns < latest);
        latest = latest.max(record.at_ns);
    }
    late
}
