//! A trace on a target, dealt out to threads.

use super::how::{How, Onto, ReplayError, check};
use super::mapped::Mapped;
use super::mapping::Mapping;
use super::{Op, Record, Trace};
use std::sync::atomic::{AtomicUsize, Ordering};

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
    /// As [`Mapping::apply`] leaves them: lengths are in blocks.
    records: Vec<Record>,
    onto: Onto,
    mapped: Mapped,
    /// The next record that nobody has taken.
    ticket: Ticket,
}

/// It has two cache lines of its own, which processors fetch together.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Ticket(AtomicUsize);

impl Replay {
    /// Maps a trace onto a target, in the trace's own memory, and counts what came of it.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn new(mut trace: Trace, how: &How, onto: Onto) -> Result<Replay, ReplayError> {
        check(how, onto)?;
        let mut mapping = Mapping::new(&trace, how, onto)?;
        let mut error = None;
        trace.records.retain_mut(|record| {
            error.is_none()
                && mapping.apply(record).unwrap_or_else(|wrong| {
                    error = Some(wrong);
                    false
                })
        });
        let Mapping { mapped, .. } = mapping;
        match error {
            Some(error) => Err(error),
            None if trace.records.is_empty() => Err(ReplayError::Nothing(mapped.left_out_text())),
            None => Ok(Replay { records: trace.records, onto, mapped, ticket: Ticket::default() }),
        }
    }

    /// What it does, from its first record to its last.
    pub fn mapped(&self) -> &Mapped {
        &self.mapped
    }

    /// A thread's part in it.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor {
            records: &self.records,
            ticket: &self.ticket.0,
            onto: self.onto,
            block_bits: self.onto.block.trailing_zeros(),
            rest: Piece { due_ns: 0, op: Op::Read, offset: 0, len: 0 },
            left: 0,
        }
    }

    /// Begins anew at the first record, for cursors that are made afterwards; no other may be in use.
    pub fn restart(&self) {
        self.ticket.0.store(0, Ordering::Relaxed);
    }
}

/// A thread's part in a replay.
#[derive(Debug)]
pub struct Cursor<'a> {
    records: &'a [Record],
    ticket: &'a AtomicUsize,
    onto: Onto,
    block_bits: u32,
    /// The next piece of a record that is split, but for its length, and how many bytes of it are left.
    rest: Piece,
    left: u64,
}

impl Cursor<'_> {
    /// The next I/O, or none if all records are taken. The pieces of a split record come one after the other.
    /// Nothing is allocated, and nothing waits.
    #[expect(clippy::should_implement_trait, reason = "a cursor may be asked again after a restart")]
    #[inline]
    pub fn next(&mut self) -> Option<Piece> {
        if self.left > 0 {
            return Some(self.next_of_rest());
        }
        let record = self.records.get(self.ticket.fetch_add(1, Ordering::Relaxed))?;
        let len = u64::from(record.len) << self.block_bits;
        let Record { at_ns: due_ns, op, offset, .. } = *record;
        if len > u64::from(self.onto.max_len) {
            self.rest = Piece { due_ns, op, offset, len: 0 };
            self.left = len;
            return Some(self.next_of_rest());
        }
        Some(Piece { due_ns, op, offset, len: len as u32 })
    }

    #[cold]
    fn next_of_rest(&mut self) -> Piece {
        let len = self.left.min(self.onto.most(self.rest.op));
        let piece = Piece { len: len as u32, ..self.rest };
        self.rest.offset += len;
        self.left -= len;
        piece
    }
}

#[cfg(test)]
mod tests;
