//! The commands in flight on a queue pair. A command's identifier is the number of its slot, which the pool hands out
//! once.

use crate::pool::Slot;

/// What a command in flight stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flight {
    pub(super) tag: u64,
    /// Bytes to be moved; 0 where no command is in flight.
    pub(super) len: u32,
    /// How often [`Flights::grow_older`] has met it.
    age: u32,
    /// Where the slot begins, as the device sees it.
    address: u64,
}

/// The most slots that a pool may have: identifiers are of 16 bits, and 0xffff is reserved.
pub(super) const MOST_SLOTS: u32 = 0xffff;

/// What is in flight from each slot, and how much more may be.
pub(super) struct Flights {
    by_slot: Box<[Flight]>,
    room: usize,
    depth: usize,
}

impl Flights {
    /// None in flight, up to `depth` at once, from slots that begin at `addresses`.
    pub(super) fn new(addresses: impl Iterator<Item = u64>, depth: u32) -> Flights {
        let by_slot = addresses.map(|address| Flight { tag: 0, len: 0, age: 0, address }).collect();
        Flights { by_slot, room: depth as usize, depth: depth as usize }
    }

    /// Commands in flight.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.depth - self.room
    }

    /// Commands that can still be started.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Starts a command that moves at least a byte, on a slot that none is in flight from; where the slot begins.
    #[inline]
    pub(super) fn start(&mut self, slot: Slot, tag: u64, len: u32) -> u64 {
        let flight = &mut self.by_slot[slot.0 as usize];
        (flight.tag, flight.len, flight.age) = (tag, len, 0);
        self.room -= 1;
        flight.address
    }

    /// Ends a command; `None` if none of this identifier is in flight.
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

    /// The identifiers in flight.
    pub(super) fn ids(&self) -> Vec<u16> {
        (0..self.by_slot.len()).filter(|id| self.by_slot[*id].len > 0).map(|id| id as u16).collect()
    }

    /// Makes every command in flight older by one; gives those that are older than `limit` now, with their ages.
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

    fn flights(slots: u64, depth: u32) -> Flights {
        Flights::new((0..slots).map(|slot| slot << 12), depth)
    }

    #[test]
    fn an_identifier_is_in_flight_once() {
        let mut flights = flights(9, 2);
        assert_eq!((flights.room(), flights.count()), (2, 0));
        assert_eq!(flights.start(Slot(7), 1, 512), 0x7000);
        assert_eq!(flights.start(Slot(0), 2, 4096), 0);
        assert_eq!((flights.room(), flights.count()), (0, 2));
        assert_eq!(flights.ids(), [0, 7]);
        assert_eq!(flights.end(7), Some(Flight { tag: 1, len: 512, age: 0, address: 0x7000 }));
        assert_eq!(flights.end(7), None, "ended already");
        assert_eq!(flights.end(1), None, "never started");
        assert_eq!(flights.end(9), None, "no such identifier");
        assert_eq!((flights.room(), flights.ids()), (1, vec![0]));
    }

    #[test]
    fn a_command_is_as_old_as_its_own_flight() {
        let mut flights = flights(2, 2);
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
