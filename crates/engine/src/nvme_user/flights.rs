//! The commands in flight on a queue pair. The identifier of a transfer is the number of its buffer, which
//! has one owner; those of commands without a buffer follow.

/// A command of an identifier: in flight, or the latest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flight {
    pub(super) tag: u64,
    /// The PRP entries of the latest transfer of this buffer: another of its length needs the same.
    prps: (u64, u64),
    /// Bytes that it moves; [`NO_LEN`] before the first one.
    pub(super) len: u32,
    /// 0 where the command is not in flight; else one more than how often [`Flights::grow_older`] has aged
    /// it.
    age: u32,
}

// A power of two, by which an identifier is shifted.
const _: () = assert!(size_of::<Flight>() == 32);

/// A length that no transfer has: a command moves at most 2^31 bytes.
const NO_LEN: u32 = u32::MAX;

/// The most identifiers: they are of 16 bits, and 0xffff is reserved.
pub(super) const MOST_IDS: u32 = 0xffff;

/// The command in flight of each identifier, and how many more there may be.
pub(super) struct Flights {
    by_id: Box<[Flight]>,
    /// Identifiers of transfers.
    buffers: u32,
    room: usize,
    depth: usize,
}

impl Flights {
    /// No commands in flight; up to `depth` at once, of `buffers` buffers and of none.
    pub(super) fn new(buffers: u32, depth: u32) -> Flights {
        let none = Flight { tag: 0, prps: (0, 0), len: NO_LEN, age: 0 };
        let ids = (buffers + depth).min(MOST_IDS);
        Flights {
            by_id: vec![none; ids as usize].into(),
            buffers,
            room: depth as usize,
            depth: depth as usize,
        }
    }

    /// True if an identifier is that of a buffer.
    pub(super) fn is_buffer(&self, id: u16) -> bool {
        u32::from(id) < self.buffers
    }

    /// An identifier for a command without a buffer; `None` if all are in flight.
    pub(super) fn free_id(&self) -> Option<u16> {
        let free = self.by_id[self.buffers as usize..].iter().position(|flight| flight.age == 0)?;
        Some((self.buffers as usize + free) as u16)
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

    /// The PRP entries of a transfer of `len` bytes from or to a buffer, if the latest one was as long.
    #[inline]
    pub(super) fn prps(&self, buffer: u32, len: u32) -> Option<(u64, u64)> {
        let flight = self.by_id.get(buffer as usize)?;
        (flight.len == len).then_some(flight.prps)
    }

    /// Sets what [`Flights::prps`] returns for a buffer without a command in flight.
    pub(super) fn set_prps(&mut self, buffer: u32, len: u32, prps: (u64, u64)) {
        let flight = &mut self.by_id[buffer as usize];
        (flight.len, flight.prps) = (len, prps);
    }

    /// Starts the transfer whose entries [`Flights::prps`] has returned, or a command without a buffer, under
    /// an identifier without a command in flight.
    #[inline]
    pub(super) fn start(&mut self, id: u32, tag: u64) {
        let flight = &mut self.by_id[id as usize];
        (flight.tag, flight.age) = (tag, 1);
        self.room -= 1;
    }

    /// As [`Flights::end`], for the identifier of a buffer; `None` for others too.
    #[inline]
    pub(super) fn end_transfer(&mut self, id: u16) -> Option<Flight> {
        if u32::from(id) >= self.buffers {
            return None;
        }
        // SAFETY: every buffer has a flight.
        let flight = unsafe { self.by_id.get_unchecked_mut(usize::from(id)) };
        if flight.age == 0 {
            return None;
        }
        flight.age = 0;
        self.room += 1;
        Some(*flight)
    }

    /// Ends a command; `None` if none with this identifier is in flight.
    pub(super) fn end(&mut self, id: u16) -> Option<Flight> {
        let flight = self.by_id.get_mut(usize::from(id))?;
        if flight.age == 0 {
            return None;
        }
        flight.age = 0;
        self.room += 1;
        Some(*flight)
    }

    pub(super) fn ids(&self) -> Vec<u16> {
        (0..self.by_id.len()).filter(|id| self.by_id[*id].age > 0).map(|id| id as u16).collect()
    }

    /// Makes every command in flight older by one; returns those that were aged more than `limit` times, with
    /// their ages.
    pub(super) fn grow_older(&mut self, limit: u32) -> Vec<(u16, u32)> {
        let mut old = Vec::new();
        for (id, flight) in self.by_id.iter_mut().enumerate().filter(|(_, flight)| flight.age > 0) {
            flight.age += 1;
            if flight.age - 1 > limit {
                old.push((id as u16, flight.age - 1));
            }
        }
        old
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(flights: &mut Flights, id: u32, tag: u64, len: u32) {
        flights.set_prps(id, len, flights.prps(id, len).unwrap_or((0, 0)));
        flights.start(id, tag);
    }

    #[test]
    fn an_identifier_is_in_flight_once() {
        let mut flights = Flights::new(9, 2);
        assert_eq!((flights.room(), flights.count()), (2, 0));
        go(&mut flights, 7, 1, 512);
        go(&mut flights, 0, 2, 4096);
        assert_eq!((flights.room(), flights.count()), (0, 2));
        assert_eq!(flights.ids(), [0, 7]);
        let ended = flights.end(7).map(|flight| (flight.tag, flight.len));
        assert_eq!(ended, Some((1, 512)));
        assert_eq!(flights.end(7), None, "ended already");
        assert_eq!(flights.end(1), None, "never started");
        assert_eq!(flights.end(99), None, "no such identifier");
        assert_eq!((flights.room(), flights.ids()), (1, vec![0]));
    }

    #[test]
    fn commands_without_a_buffer_have_identifiers_of_their_own() {
        let mut flights = Flights::new(3, 2);
        assert_eq!(flights.free_id(), Some(3));
        go(&mut flights, 3, 1, 1);
        assert_eq!(flights.free_id(), Some(4));
        go(&mut flights, 4, 2, 1);
        assert_eq!((flights.free_id(), flights.room()), (None, 0));
        assert!(flights.is_buffer(2) && !flights.is_buffer(3));
        assert_eq!(flights.end(3).map(|flight| flight.tag), Some(1));
        assert_eq!(flights.free_id(), Some(3));
    }

    #[test]
    fn a_buffer_knows_the_entries_of_its_latest_length_alone() {
        let mut flights = Flights::new(2, 2);
        assert_eq!([0, 512, 1 << 31].map(|len| flights.prps(1, len)), [None; 3], "nothing was learnt");
        flights.set_prps(1, 4096, (0x1000, 0));
        flights.set_prps(0, 8192, (0x3000, 0x4000));
        go(&mut flights, 1, 7, 4096);
        flights.end(1);
        assert_eq!(flights.prps(1, 4096), Some((0x1000, 0)));
        assert_eq!(flights.prps(0, 8192), Some((0x3000, 0x4000)));
        assert_eq!(
            [(1, 8192), (1, 0), (0, 4096), (2, 4096)].map(|(buffer, len)| flights.prps(buffer, len)),
            [None; 4]
        );
        flights.set_prps(1, 512, (0x1000, 0));
        assert_eq!((flights.prps(1, 4096), flights.prps(1, 512)), (None, Some((0x1000, 0))));
    }

    #[test]
    fn a_command_is_as_old_as_its_own_flight() {
        let mut flights = Flights::new(2, 2);
        go(&mut flights, 0, 1, 512);
        assert_eq!(flights.grow_older(1), []);
        go(&mut flights, 1, 2, 512);
        assert_eq!(flights.grow_older(1), [(0, 2)]);
        flights.end(1);
        go(&mut flights, 1, 3, 512);
        assert_eq!(flights.grow_older(1), [(0, 3)], "a new command of the buffer begins anew");
        assert_eq!(flights.grow_older(1), [(0, 4), (1, 2)]);
    }
}
