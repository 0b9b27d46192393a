//! Where each record of a trace goes on a target, and when it is due.

use super::error::shown;
use super::how::{Beyond, How, Onto, ReplayError};
use super::mapped::Mapped;
use super::{Op, Record, Trace};

pub(super) struct Mapping<'a> {
    how: &'a How,
    onto: Onto,
    /// Where each device begins on the target, before anything is wrapped.
    begins: Vec<u64>,
    /// The device that was chosen.
    device: Option<u16>,
    skips: [bool; Op::ALL.len()],
    /// The part of the target's length that is used.
    usable: u64,
    /// What offsets are multiples of: the block, or the larger `align`.
    grain: u64,
    pub(super) mapped: Mapped,
}

/// A record's range on the target.
struct Place {
    start: u64,
    len: u64,
    aligned: bool,
    rounded: bool,
    wrapped: bool,
}

impl<'a> Mapping<'a> {
    /// Lays the devices of a trace out on a target.
    ///
    /// # Errors
    /// A device that there is not; they reach beyond the target, or too far.
    pub(super) fn new(trace: &Trace, how: &'a How, onto: Onto) -> Result<Mapping<'a>, ReplayError> {
        let device = match &how.device {
            Some(name) => Some(find(trace, name)?),
            None => None,
        };
        let grain = u64::from(onto.block).max(how.align);
        let mut mapping = Mapping {
            how,
            onto,
            begins: Vec::new(),
            device,
            skips: Op::ALL.map(|op| how.skip.contains(&op)),
            usable: onto.len / grain * grain,
            grain,
            mapped: Mapped::new(trace, onto.block),
        };
        mapping.lay_out(trace)?;
        Ok(mapping)
    }

    fn lay_out(&mut self, trace: &Trace) -> Result<(), ReplayError> {
        let mut ends = vec![0; trace.devices.len()];
        let is_taken = |record: &&Record| self.is_of_device(record) && !self.skips[record.op as usize];
        for record in trace.records.iter().filter(is_taken) {
            let end: &mut u64 = &mut ends[usize::from(record.device)];
            *end = (*end).max(record.offset / self.how.scale + u64::from(record.len));
        }
        let mut begin: u64 = 0;
        for end in ends {
            self.begins.push(begin);
            let len = end.checked_next_multiple_of(self.grain).ok_or(ReplayError::TooFar)?;
            begin =
                begin.checked_add(len).filter(|end| *end <= i64::MAX as u64).ok_or(ReplayError::TooFar)?;
            self.mapped.devices += u64::from(end > 0);
        }
        if begin > self.usable && self.how.map == Beyond::Refuse {
            let scale = begin.div_ceil(self.usable).saturating_mul(self.how.scale);
            return Err(ReplayError::Beyond { end: begin, len: self.usable, scale });
        }
        Ok(())
    }

    fn is_of_device(&self, record: &Record) -> bool {
        self.device.is_none_or(|device| device == record.device)
    }

    /// Makes a record what is issued for it: its time in ns of the replay, its offset on the target, its
    /// length in *blocks*. False if it is not replayed.
    ///
    /// # Errors
    /// It is longer than the target.
    pub(super) fn apply(&mut self, record: &mut Record) -> Result<bool, ReplayError> {
        if !self.is_of_device(record) {
            self.mapped.of_other_devices += 1;
            return Ok(false);
        }
        let op = record.op;
        if self.skips[op as usize] {
            self.mapped.skipped[op as usize] += 1;
            return Ok(false);
        }
        self.mapped.replayed[op as usize] += 1;
        record.at_ns = self.due_ns(record.at_ns);
        let is_timed = !self.how.no_stall && !self.mapped.is_timeless;
        self.mapped.span_ns = is_timed.then_some(record.at_ns);
        if op.has_range() {
            let place = self.place(record);
            self.count(op, &place)?;
            record.offset = self.onto.base + place.start;
            record.len = (place.len / u64::from(self.onto.block)) as u32;
        } else {
            self.mapped.ios += 1;
        }
        Ok(true)
    }

    fn count(&mut self, op: Op, place: &Place) -> Result<(), ReplayError> {
        let &Place { len, aligned, rounded, wrapped, .. } = place;
        if len > self.usable {
            return Err(ReplayError::TooLong { len, target: self.usable });
        }
        let most = self.onto.most(op);
        let mapped = &mut self.mapped;
        mapped.aligned += u64::from(aligned);
        mapped.rounded += u64::from(rounded);
        mapped.wrapped += u64::from(wrapped);
        mapped.ios += len.div_ceil(most);
        mapped.split += u64::from(len > most);
        match op {
            Op::Read => mapped.read_bytes += len,
            op if op.is_write() => mapped.written_bytes += len,
            _ => {}
        }
        if op.transfers() {
            mapped.longest = mapped.longest.max(len.min(most) as u32);
        }
        Ok(())
    }

    fn due_ns(&self, at_ns: u64) -> u64 {
        if self.how.no_stall {
            return 0;
        }
        let due_ns = u128::from(at_ns) * 100 / u128::from(self.how.time_scale);
        u64::try_from(due_ns).unwrap_or(u64::MAX)
    }

    /// Where a record with a range is, from `base` on. It covers every byte that was asked for, in whole
    /// blocks.
    fn place(&self, record: &Record) -> Place {
        let (block, len) = (u64::from(self.onto.block), u64::from(record.len));
        let asked = self.begins[usize::from(record.device)] + record.offset / self.how.scale;
        let begin = asked & !(self.how.align - 1);
        let start = begin & !(block - 1);
        let covered = (begin + len).next_multiple_of(block) - start;
        let wrapped = start + covered > self.usable;
        let start = if wrapped { self.wrap(start, covered) } else { start };
        Place { start, len: covered, aligned: begin != asked, rounded: covered != len, wrapped }
    }

    fn wrap(&self, start: u64, len: u64) -> u64 {
        let last = self.usable.saturating_sub(len) & !(self.grain - 1);
        (start % self.usable).min(last)
    }
}

fn find(trace: &Trace, name: &str) -> Result<u16, ReplayError> {
    /// Devices that a message names.
    const NAMED: usize = 8;
    if let Some(found) = trace.devices.iter().position(|device| device.name == name) {
        return Ok(found as u16);
    }
    let named = trace.devices.iter().take(NAMED).map(|device| shown(&device.name));
    let more = (trace.devices.len() > NAMED).then(|| format!("{} more", trace.devices.len() - NAMED));
    let devices = named.chain(more).collect::<Vec<_>>().join(" and ");
    Err(ReplayError::Device { name: shown(name), devices })
}
