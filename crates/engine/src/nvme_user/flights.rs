//! The commands in flight on a queue pair. A command's identifier is the number of its slot, which the pool
//! hands out once.

use crate::pool::Slot;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flight {
    pub(super) tag: u64,
    /// Bytes to be moved; 0 where no command is in flight.
    pub(super) len: u32,
    /// How often [`Flights::grow_older`] has aged it.
    age: u32,
    /// Bytes of the latest command from this slot, and its PRP entries: another of that length needs the
    /// same.
    known_len: u64,
    prps: (u64, u64),
}

/// A length that no request can have.
const NO_LEN: u64 = u64::MAX;

/// The most slots that a pool may have: identifiers are of 16 bits, and 0xffff is reserved.
pub(super) const MOST_SLOTS: u32 = 0xffff;

/// The command in flight from each slot, and how many more there may be.
pub(super) struct Flights {
    by_slot: Box<[Flight]>,
    room: usize,
    depth: usize,
}

impl Flights {
    /// No commands in flight; up to `depth` at once.
    pub(super) fn new(slots: u32, depth: u32) -> Flights {
        let none = Flight { tag: 0, len: 0, age: 0, known_len: NO_LEN, prps: (0, 0) };
        Flights { by_slot: vec![none; slots as usize].into(), room: depth as usize, depth: depth as usize }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.depth - self.room
    }

    /// Commands that can still be started.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// The PRP entries of a command of `len` bytes from a slot, if the latest one was as long.
    #[inline]
    pub(super) fn prps(&self, slot: Slot, len: u32) -> Option<(u64, u64)> {
        let flight = self.by_slot.get(slot.0 as usize)?;
        (flight.known_len == u64::from(len)).then_some(flight.prps)
    }

    /// Sets what [`Flights::prps`] returns for a slot without a command in flight.
    pub(super) fn set_prps(&mut self, slot: Slot, len: u32, prps: (u64, u64)) {
        let flight = &mut self.by_slot[slot.0 as usize];
        (flight.known_len, flight.prps) = (len.into(), prps);
    }

    /// Starts a command that moves at least a byte, on a slot without a command in flight.
    #[inline]
    pub(super) fn start(&mut self, slot: Slot, tag: u64, len: u32) {
        let flight = &mut self.by_slot[slot.0 as usize];
        (flight.tag, flight.len, flight.age) = (tag, len, 0);
        self.room -= 1;
    }

    /// Ends a command; `None` if none with this identifier is in flight.
    #[inline]
    pub(super) fn end(&mut self, id: u16) -> Option<Flight> {
        let flight = self.by_slot.get_mut(usize::from(id))?;
        if flight.len == 0 {
            return None;
        }
        let ended = *flight;
        flight.len = 0;
        self.room += 1;
        Some(ended)
    }

    pub(super) fn ids(&self) -> Vec<u16> {
        (0..self.by_slot.len()).filter(|id| self.by_slot[*id].len > 0).map(|id| id as u16).collect()
    }

    /// Makes every command in flight older by one; returns those that are now older than `limit`, with their
    /// ages.
    pub(super) fn grow_older(&mut self, limit: u32) -> Vec<(u16, u32)> {
        let mut old = Vec::new();
        for (id, flight) in self.by_slot.iter_mut().enumerate().filter(|(_, flight)| flight.len > 0) {
            flight.age += 1;
            if flight.age > limit {
                old.push((id as u16, flight.age));
            }
        }
        old
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_in_flight_once() {
        let mut flights = Flights::new(9, 2);
        assert_eq!((flights.room(), flights.count()), (2, 0));
        flights.start(Slot(7), 1, 512);
        flights.start(Slot(0), 2, 4096);
        assert_eq!((flights.room(), flights.count()), (0, 2));
        assert_eq!(flights.ids(), [0, 7]);
        let ended = flights.end(7).map(|flight| (flight.tag, flight.len));
        assert_eq!(ended, Some((1, 512)));
        assert_eq!(flights.end(7), None, "ended already");
        assert_eq!(flights.end(1), None, "never started");
        assert_eq!(flights.end(9), None, "no such identifier");
        assert_eq!((flights.room(), flights.ids()), (1, vec![0]));
    }

    #[test]
    fn a_slot_knows_the_entries_of_its_latest_length_alone() {
        let mut flights = Flights::new(2, 2);
        assert_eq!([0, 512, u32::MAX].map(|len| flights.prps(Slot(1), len)), [None; 3], "nothing was learnt");
        flights.set_prps(Slot(1), 4096, (0x1000, 0));
        flights.set_prps(Slot(0), 8192, (0x3000, 0x4000));
        flights.start(Slot(1), 7, 4096);
        flights.end(1);
        assert_eq!(flights.prps(Slot(1), 4096), Some((0x1000, 0)));
        assert_eq!(flights.prps(Slot(0), 8192), Some((0x3000, 0x4000)));
        assert_eq!(
            [(1, 8192), (1, 0), (0, 4096), (2, 4096)].map(|(slot, len)| flights.prps(Slot(slot), len)),
            [None; 4]
        );
        flights.set_prps(Slot(1), 512, (0x1000, 0));
        assert_eq!((flights.prps(Slot(1), 4096), flights.prps(Slot(1), 512)), (None, Some((0x1000, 0))));
    }

    #[test]
    fn a_command_is_as_old_as_its_own_flight() {
        let mut flights = Flights::new(2, 2);
        flights.start(Slot(0), 1, 512);
        assert_eq!(flights.grow_older(1), []);
        flights.start(Slot(1), 2, 512);
        assert_eq!(flights.grow_older(1), [(0, 2)]);
        flights.end(1);
        flights.start(Slot(1), 3, 512);
        assert_eq!(flights.grow_older(1), [(0, 3)], "a new command on the slot begins anew");
        assert_eq!(flights.grow_older(1), [(0, 4), (1, 2)]);
    }
}
