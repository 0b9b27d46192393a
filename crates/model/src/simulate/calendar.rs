//! The calendar: what happens when. Events of the same time happen in the order in which they were entered.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Event {
    /// What a core does ends: a step, or the turn of a loop that sees something.
    Ended { core: u32 },
    /// The time slice of what runs on a core is over, if it is still the one of this number.
    Slice { core: u32, slice: u32 },
    /// A thread's timer, if the thread still waits for the time of this number.
    Timer { thread: u32, wait: u32 },
    /// The drive has ended an I/O of a job whose latency runs from `started`.
    Done { job: u32, started: f64 },
    /// The interrupt for that is handled.
    Handled { job: u32, started: f64 },
}

/// Events in order of time, and the time.
#[derive(Default)]
pub(super) struct Calendar {
    now: f64,
    entered: u64,
    heap: BinaryHeap<Entry>,
}

/// The bits of a float that is not negative are ordered as it is, and compare faster.
#[derive(Clone, Copy)]
struct Entry {
    at_bits: u64,
    number: u64,
    event: Event,
}

impl Calendar {
    /// The time, in ns.
    pub(super) fn now(&self) -> f64 {
        self.now
    }

    /// Enters an event; one of the past happens next.
    pub(super) fn enter(&mut self, at: f64, event: Event) {
        let at_bits = at.max(self.now).to_bits();
        self.entered += 1;
        self.heap.push(Entry { at_bits, number: self.entered, event });
    }

    /// The next event; its time is now.
    pub(super) fn next(&mut self) -> Option<Event> {
        let Entry { at_bits, event, .. } = self.heap.pop()?;
        self.now = f64::from_bits(at_bits);
        Some(event)
    }
}

impl Ord for Entry {
    /// The greatest entry of the heap is the next event.
    fn cmp(&self, other: &Entry) -> Ordering {
        (other.at_bits, other.number).cmp(&(self.at_bits, self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_then_of_entry() {
        let mut calendar = Calendar::default();
        for (at, core) in [(2.5, 0), (1.0, 1), (2.5, 2), (0.25, 3)] {
            calendar.enter(at, Event::Ended { core });
        }
        let mut seen = Vec::new();
        while let Some(Event::Ended { core }) = calendar.next() {
            seen.push((calendar.now(), core));
        }
        assert_eq!(seen, [(0.25, 3), (1.0, 1), (2.5, 0), (2.5, 2)]);
        calendar.enter(1.0, Event::Ended { core: 9 });
        assert_eq!((calendar.next(), calendar.now()), (Some(Event::Ended { core: 9 }), 2.5));
    }
}
