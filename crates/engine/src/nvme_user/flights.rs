//! The commands in flight on a queue pair, by identifier.

use crate::pool::Slot;

/// What a command in flight stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flight {
    pub(super) tag: u64,
    pub(super) slot: Slot,
    pub(super) len: u32,
}

/// Marks an identifier that no command in flight has.
const IDLE: Flight = Flight { tag: 0, slot: Slot(u32::MAX), len: 0 };

/// Identifiers 0 to `depth - 1`, each idle or in flight.
pub(super) struct Flights {
    by_id: Box<[Flight]>,
    idle: Vec<u16>,
}

impl Flights {
    pub(super) fn new(depth: u16) -> Flights {
        Flights { by_id: vec![IDLE; depth.into()].into(), idle: (0..depth).rev().collect() }
    }

    /// Commands in flight.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.by_id.len() - self.idle.len()
    }

    /// Commands that can still be started.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.idle.len()
    }

    /// The identifier that the next command gets.
    #[inline]
    pub(super) fn next(&self) -> Option<u16> {
        self.idle.last().copied()
    }

    /// Starts a command under the identifier that [`Flights::next`] gave.
    #[inline]
    pub(super) fn start(&mut self, flight: Flight) {
        if let Some(id) = self.idle.pop() {
            self.by_id[usize::from(id)] = flight;
        }
    }

    /// Ends a command; `None` if none of this identifier is in flight.
    #[inline]
    pub(super) fn end(&mut self, id: u16) -> Option<Flight> {
        let flight = self.by_id.get_mut(usize::from(id))?;
        let ended = std::mem::replace(flight, IDLE);
        if ended.slot == IDLE.slot {
            return None;
        }
        self.idle.push(id);
        Some(ended)
    }

    /// The identifiers in flight.
    pub(super) fn ids(&self) -> Vec<u16> {
        (0..self.by_id.len() as u16).filter(|id| self.by_id[usize::from(*id)].slot != IDLE.slot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_in_flight_once() {
        let mut flights = Flights::new(2);
        let flight = |tag| Flight { tag, slot: Slot(tag as u32), len: 512 };
        assert_eq!(flights.next(), Some(0));
        flights.start(flight(7));
        flights.start(flight(8));
        assert_eq!((flights.next(), flights.room(), flights.count()), (None, 0, 2));
        assert_eq!(flights.ids(), [0, 1]);
        assert_eq!(flights.end(1), Some(flight(8)));
        assert_eq!(flights.end(1), None, "ended already");
        assert_eq!(flights.end(9), None, "no such identifier");
        assert_eq!((flights.next(), flights.room(), flights.ids()), (Some(1), 1, vec![0]));
    }
}
