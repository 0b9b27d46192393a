//! How a trace is put on a target: scaled in time and space, mapped, and dealt out to threads.
//!
//! The words are fio's, and do what they do there (`delay_since_ttime` and `ipo_bytes_align` of its iolog.c
//! and iolog.h).

use super::error::shown;
use super::mapped::Mapped;
use super::{Op, Record, Trace};
use iopj_core::format_bytes;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What becomes of an I/O that reaches beyond the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Beyond {
    /// The trace is refused.
    #[default]
    Refuse,
    /// Its offset is taken modulo the target's length; if it then still reaches over the end, it is moved
    /// back to where it fits.
    Wrap,
}

impl fmt::Display for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Beyond::Refuse => "refuse",
            Beyond::Wrap => "wrap",
        })
    }
}

/// A text that says of no way what becomes of such an I/O.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a value of map; write refuse or wrap")]
pub struct ParseBeyondError(String);

impl FromStr for Beyond {
    type Err = ParseBeyondError;

    fn from_str(text: &str) -> Result<Beyond, ParseBeyondError> {
        match text {
            "refuse" => Ok(Beyond::Refuse),
            "wrap" => Ok(Beyond::Wrap),
            _ => Err(ParseBeyondError(text.to_owned())),
        }
    }
}

/// How a trace is replayed. The default is as it was recorded, whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct How {
    /// fio's `replay_time_scale`: the rate in per cent of the recorded one, so 50 is half as fast. At least
    /// 1.
    pub time_scale: u32,
    /// fio's `replay_no_stall`: every I/O is due at once.
    pub no_stall: bool,
    /// fio's `replay_scale`: offsets are divided by it. At least 1.
    pub scale: u64,
    /// fio's `replay_align`: offsets are lowered to multiples of it. A power of two; 1 leaves them.
    pub align: u64,
    /// What lies beyond the target.
    pub map: Beyond,
    /// The one device of the trace that is replayed. Without it all are, and they are laid one after the
    /// other on the target, each as long as its furthest byte.
    pub device: Option<String>,
    /// fio's `replay_skip`: what is not replayed.
    pub skip: Vec<Op>,
}

impl Default for How {
    fn default() -> How {
        How {
            time_scale: 100,
            no_stall: false,
            scale: 1,
            align: 1,
            map: Beyond::Refuse,
            device: None,
            skip: Vec::new(),
        }
    }
}

/// Where a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Onto {
    /// The first byte that may be used; a whole block.
    pub base: u64,
    /// How many bytes may be used from there on.
    pub len: u64,
    /// The logical block, of which offsets and lengths are multiples: a power of two.
    pub block: u32,
    /// The longest read or write: whole blocks. Longer ones are split.
    pub max_len: u32,
}

/// Why a trace cannot be replayed on a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum ReplayError {
    /// No speed at all.
    #[error("a replay_time_scale of 0 would last for ever; write a percentage of at least 1")]
    TimeScale,
    /// A division by nothing.
    #[error("a replay_scale of 0 divides no offset; write 1 or more")]
    Scale,
    /// An alignment that is no power of two.
    #[error("a replay_align of {0} bytes is no power of two; write 4k, for example")]
    Align(u64),
    /// A block that no device has.
    #[error("blocks of {0} bytes are no power of two")]
    Block(u32),
    /// A buffer that does not hold whole blocks.
    #[error("I/Os of at most {max_len} bytes are not whole blocks of {block}; take a multiple of it")]
    MaxLen { max_len: u32, block: u32 },
    /// A target that holds no block.
    #[error("a target of {len} bytes holds no block of {grain} (the larger of its own and replay_align)")]
    NoRoom { len: u64, grain: u64 },
    /// A device that the trace does not name.
    #[error("the trace has no device {name}; it has {devices}")]
    Device { name: String, devices: String },
    /// Nothing is left.
    #[error("nothing of the trace is left to be replayed; left out: {0}")]
    Nothing(String),
    /// Beyond the target, and not to be wrapped.
    #[error(
        "the trace reaches to byte {end} of a target of {len} that can be used; take a target of {}, \
         map = \"wrap\", or replay_scale = {scale} or more", format_bytes(*end)
    )]
    Beyond { end: u64, len: u64, scale: u64 },
    /// An I/O that is longer than the target.
    #[error("an I/O of {len} bytes does not fit a target of {target} bytes; take a longer one")]
    TooLong { len: u64, target: u64 },
    /// Devices whose lengths do not add up to an offset.
    #[error("the devices of the trace, one after the other, reach beyond 8 EiB; choose one of them")]
    TooFar,
}

/// One I/O of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// When it is due, in ns after the replay's begin.
    pub due_ns: u64,
    /// What it does.
    pub op: Op,
    /// Where it begins, in bytes of the target; 0 without a range.
    pub offset: u64,
    /// Its length in bytes; 0 without a range.
    pub len: u32,
}

/// A trace on a target. Several threads share it: each has a [`Cursor`], and takes the next record that no
/// other has taken, so that every record is issued once. Who takes it is chance; when it is due is not.
#[derive(Debug)]
pub struct Replay {
    trace: Arc<Trace>,
    how: How,
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
    mapped: Mapped,
    /// The next record that nobody has taken.
    ticket: AtomicUsize,
}

/// A record's range on the target.
struct Place {
    start: u64,
    len: u64,
    aligned: bool,
    rounded: bool,
    wrapped: bool,
}

impl Replay {
    /// Maps a trace onto a target, and counts what came of it.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn new(trace: Arc<Trace>, how: &How, onto: Onto) -> Result<Replay, ReplayError> {
        check(how, onto)?;
        let device = match &how.device {
            Some(name) => Some(find(&trace, name)?),
            None => None,
        };
        let grain = u64::from(onto.block).max(how.align);
        if onto.len < grain {
            return Err(ReplayError::NoRoom { len: onto.len, grain });
        }
        let mapped = Mapped::new(&trace, onto.block);
        let mut replay = Replay {
            how: how.clone(),
            onto,
            begins: Vec::new(),
            device,
            skips: Op::ALL.map(|op| how.skip.contains(&op)),
            usable: onto.len / grain * grain,
            grain,
            mapped,
            ticket: AtomicUsize::new(0),
            trace,
        };
        replay.lay_out()?;
        replay.mapped = replay.count()?;
        Ok(replay)
    }

    /// What it does, from its first record to its last.
    pub fn mapped(&self) -> &Mapped {
        &self.mapped
    }

    /// A thread's part in it.
    pub fn cursor(&self) -> Cursor<'_> {
        let blank = Piece { due_ns: 0, op: Op::Read, offset: 0, len: 0 };
        Cursor { replay: self, next: blank, left: 0 }
    }

    /// Begins anew at the first record, for cursors that are made afterwards; no other may be in use.
    pub fn restart(&self) {
        self.ticket.store(0, Ordering::Relaxed);
    }

    /// Whether a record is replayed at all.
    #[inline]
    fn takes(&self, record: &Record) -> bool {
        self.device.is_none_or(|device| device == record.device) && !self.skips[record.op as usize]
    }

    /// Where the devices begin.
    fn lay_out(&mut self) -> Result<(), ReplayError> {
        let mut ends = vec![0; self.trace.devices.len()];
        for record in self.trace.records.iter().filter(|record| self.takes(record)) {
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

    fn count(&self) -> Result<Mapped, ReplayError> {
        let mut mapped = self.mapped.clone();
        for record in &self.trace.records {
            if self.device.is_some_and(|device| device != record.device) {
                mapped.of_other_devices += 1;
                continue;
            }
            if self.skips[record.op as usize] {
                mapped.skipped[record.op as usize] += 1;
                continue;
            }
            mapped.replayed[record.op as usize] += 1;
            mapped.span_ns = (!self.how.no_stall).then(|| self.due_ns(record));
            if record.op.has_range() {
                self.count_range(record, &mut mapped)?;
            } else {
                mapped.ios += 1;
            }
        }
        if mapped.records() == 0 {
            return Err(ReplayError::Nothing(mapped.left_out_text()));
        }
        Ok(mapped)
    }

    fn count_range(&self, record: &Record, mapped: &mut Mapped) -> Result<(), ReplayError> {
        let place = self.place(record);
        if place.len > self.usable {
            return Err(ReplayError::TooLong { len: place.len, target: self.usable });
        }
        mapped.aligned += u64::from(place.aligned);
        mapped.rounded += u64::from(place.rounded);
        mapped.wrapped += u64::from(place.wrapped);
        let most = self.most(record.op);
        mapped.ios += place.len.div_ceil(most);
        mapped.split += u64::from(place.len > most);
        match record.op {
            Op::Read => mapped.read_bytes += place.len,
            Op::Write => mapped.written_bytes += place.len,
            _ => {}
        }
        if record.op.transfers() {
            mapped.longest = mapped.longest.max(place.len.min(most) as u32);
        }
        Ok(())
    }

    /// The longest piece of an operation. A discard has no buffer that would limit it.
    #[inline]
    fn most(&self, op: Op) -> u64 {
        if op.transfers() {
            u64::from(self.onto.max_len)
        } else {
            u64::from(u32::MAX - (self.onto.block - 1))
        }
    }

    #[inline]
    fn due_ns(&self, record: &Record) -> u64 {
        let scale = u64::from(self.how.time_scale);
        match scale {
            _ if self.how.no_stall => 0,
            100 => record.at_ns,
            // In two parts, because the product of the whole may not fit.
            _ => {
                (record.at_ns / scale).saturating_mul(100).saturating_add(record.at_ns % scale * 100 / scale)
            }
        }
    }

    /// Where a record with a range is on the target, from `base` on. It covers every byte that was asked for,
    /// in whole blocks.
    #[inline]
    fn place(&self, record: &Record) -> Place {
        let block = u64::from(self.onto.block);
        let len = u64::from(record.len);
        let scaled = if self.how.scale == 1 { record.offset } else { record.offset / self.how.scale };
        let asked = self.begins[usize::from(record.device)] + scaled;
        let begin = asked & !(self.how.align - 1);
        let start = begin & !(block - 1);
        let covered = (begin + len).next_multiple_of(block) - start;
        let wrapped = start + covered > self.usable;
        let start_on_target = if wrapped { self.wrap(start, covered) } else { start };
        Place {
            start: start_on_target,
            len: covered,
            aligned: begin != asked,
            rounded: covered != len,
            wrapped,
        }
    }

    #[cold]
    fn wrap(&self, start: u64, len: u64) -> u64 {
        let start = start % self.usable;
        let last = self.usable.saturating_sub(len) & !(self.grain - 1);
        start.min(last)
    }
}

fn check(how: &How, onto: Onto) -> Result<(), ReplayError> {
    let Onto { block, max_len, .. } = onto;
    if how.time_scale == 0 {
        return Err(ReplayError::TimeScale);
    }
    if how.scale == 0 {
        return Err(ReplayError::Scale);
    }
    if !how.align.is_power_of_two() {
        return Err(ReplayError::Align(how.align));
    }
    if !block.is_power_of_two() {
        return Err(ReplayError::Block(block));
    }
    if max_len == 0 || !max_len.is_multiple_of(block) {
        return Err(ReplayError::MaxLen { max_len, block });
    }
    Ok(())
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

/// A thread's part in a replay.
#[derive(Debug)]
pub struct Cursor<'a> {
    replay: &'a Replay,
    /// The next piece of the record that was taken; of its length, `left` counts.
    next: Piece,
    left: u64,
}

impl Cursor<'_> {
    /// The next I/O, or none if all records are taken. The pieces of a split record come one after the other.
    /// Nothing is allocated, and nothing waits.
    #[expect(clippy::should_implement_trait, reason = "a cursor may be asked again after a restart")]
    #[inline]
    pub fn next(&mut self) -> Option<Piece> {
        if self.left == 0 {
            return self.take();
        }
        let len = self.left.min(self.replay.most(self.next.op));
        let piece = Piece { len: len as u32, ..self.next };
        self.next.offset += len;
        self.left -= len;
        Some(piece)
    }

    fn take(&mut self) -> Option<Piece> {
        let replay = self.replay;
        loop {
            let ticket = replay.ticket.fetch_add(1, Ordering::Relaxed);
            let record = replay.trace.records.get(ticket)?;
            if !replay.takes(record) {
                continue;
            }
            let due_ns = replay.due_ns(record);
            if !record.op.has_range() {
                return Some(Piece { due_ns, op: record.op, offset: 0, len: 0 });
            }
            let place = replay.place(record);
            self.next = Piece { due_ns, op: record.op, offset: replay.onto.base + place.start, len: 0 };
            self.left = place.len;
            return self.next();
        }
    }
}
