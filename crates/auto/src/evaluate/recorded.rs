//! A drive that was recorded: what the trials of a store say of its latencies, in place of a drive that is
//! drawn.
//!
//! What a thread works for an I/O is no part of the drive, so the CPU time that was recorded with the lowest
//! number in flight is taken from each latency, at most the least latency. What latency grows by with more in
//! flight counts as the drive's. How times scatter is as recorded with the fewest in flight, by operation and
//! size.

use super::shape::Shape;
use crate::key::{BANDS, Direction, Kind};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// More in flight than this are not simulated.
const DEEPEST: u32 = 1 << (BANDS - 1);

/// The latencies of one sort of request with so many in flight.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    /// Reads or writes.
    pub direction: Direction,
    /// Bytes of a request.
    pub bytes: u32,
    /// How many were kept in flight.
    pub in_flight: u32,
    /// CPU time of an I/O in ns.
    pub cpu_ns: f64,
    /// Latencies in ns, each with how often it was recorded.
    pub counted: Vec<(u64, u64)>,
}

/// What was recorded of a kind with so many in flight.
#[derive(Clone, Debug, Default)]
struct Cell {
    count: u64,
    cpu_ns: f64,
    latencies: BTreeMap<u64, u64>,
}

/// What was recorded of a kind.
#[derive(Clone, Debug)]
struct Times {
    /// Mean time of the drive in ns, by how many are in flight.
    mean_ns: BTreeMap<u32, f64>,
    shape: Shape,
}

/// A drive that was recorded.
#[derive(Clone, Debug, Serialize)]
pub struct Recorded {
    /// The drive, in words.
    pub drive: String,
    /// How many latencies were recorded of the kinds that are simulated.
    pub count: u64,
    /// The kinds that are simulated.
    #[serde(serialize_with = "as_words")]
    kinds: Vec<Kind>,
    /// How many are in flight: what was recorded of each of these kinds.
    depths: Vec<u32>,
    #[serde(skip)]
    times: BTreeMap<Kind, Times>,
}

fn as_words<S: serde::Serializer>(kinds: &[Kind], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(kinds.iter().map(Kind::to_string))
}

impl Recorded {
    /// What was recorded, of up to 128 in flight; `None` if there is nothing. Simulated are the kinds that
    /// were recorded with each of those numbers in flight that the kind has which has most of them.
    pub fn of(drive: String, all: impl IntoIterator<Item = Latencies>) -> Option<Recorded> {
        let mut cells: BTreeMap<Kind, BTreeMap<u32, Cell>> = BTreeMap::new();
        for one in all.into_iter().filter(|one| (1..=DEEPEST).contains(&one.in_flight)) {
            let count: u64 = one.counted.iter().map(|(_, count)| count).sum();
            if count > 0 {
                let of_kind = cells.entry(Kind::new(one.direction, one.bytes)).or_default();
                let cell = of_kind.entry(one.in_flight).or_default();
                cell.count += count;
                cell.cpu_ns += one.cpu_ns.max(0.0) * count as f64;
                one.counted.iter().for_each(|(ns, count)| *cell.latencies.entry(*ns).or_default() += count);
            }
        }
        let most = cells.values().max_by_key(|depths| depths.len())?;
        let depths: BTreeSet<u32> = most.keys().copied().collect();
        cells.retain(|_, of_kind| depths.iter().all(|depth| of_kind.contains_key(depth)));
        cells.values_mut().for_each(|of_kind| of_kind.retain(|depth, _| depths.contains(depth)));
        Some(Recorded {
            drive,
            count: cells.values().flat_map(BTreeMap::values).map(|cell| cell.count).sum(),
            kinds: cells.keys().copied().collect(),
            depths: depths.into_iter().collect(),
            times: cells.iter().filter_map(|(kind, cells)| Some((*kind, Times::of(cells)?))).collect(),
        })
    }

    /// The kinds that are simulated.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// How many are in flight.
    pub fn depths(&self) -> &[u32] {
        &self.depths
    }

    /// Mean time of the drive: of the nearest that was recorded with no more in flight, or of the fewest.
    pub(super) fn mean_ns(&self, kind: Kind, in_flight: u32) -> f64 {
        self.times.get(&kind).map_or(1.0, |times| times.mean_ns(in_flight))
    }

    /// The time of the smallest request that was recorded, a read if there is one, with the fewest in flight.
    pub(super) fn least_ns(&self) -> f64 {
        self.times.values().next().map_or(1.0, |times| times.mean_ns(1))
    }

    pub(super) fn shape(&self, kind: Kind) -> Option<&Shape> {
        self.times.get(&kind).map(|times| &times.shape)
    }

    /// I/Os that the drive works on at once: the most whose time passed in that of one.
    pub(super) fn parallelism(&self) -> f64 {
        let at_once = |times: &Times| {
            let alone_ns = times.mean_ns(1);
            let of = |(in_flight, mean_ns): (&u32, &f64)| f64::from(*in_flight) * alone_ns / mean_ns;
            times.mean_ns.iter().map(of).fold(1.0, f64::max)
        };
        self.times.values().map(at_once).fold(1.0, f64::max)
    }
}

impl Times {
    fn of(cells: &BTreeMap<u32, Cell>) -> Option<Times> {
        let (_, fewest) = cells.first_key_value()?;
        let least_ns = *fewest.latencies.first_key_value()?.0 as f64;
        let software_ns = (fewest.cpu_ns / fewest.count as f64).min(least_ns);
        let of_drive = |ns: u64| (ns as f64 - software_ns).max(1.0);
        let mean_ns = |cell: &Cell| {
            let sum: f64 = cell.latencies.iter().map(|(ns, count)| of_drive(*ns) * *count as f64).sum();
            sum / cell.count as f64
        };
        let counted: Vec<(f64, u64)> =
            fewest.latencies.iter().map(|(ns, count)| (of_drive(*ns), *count)).collect();
        Some(Times {
            mean_ns: cells.iter().map(|(in_flight, cell)| (*in_flight, mean_ns(cell))).collect(),
            shape: Shape::of_counted(&counted),
        })
    }

    fn mean_ns(&self, in_flight: u32) -> f64 {
        let at_most = self.mean_ns.range(..=in_flight).next_back();
        at_most.or(self.mean_ns.first_key_value()).map_or(1.0, |(_, mean_ns)| *mean_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn latencies(bytes: u32, in_flight: u32, counted: &[(u64, u64)]) -> Latencies {
        let counted = counted.to_vec();
        Latencies { direction: Direction::Read, bytes, in_flight, cpu_ns: 10.0, counted }
    }

    #[test]
    fn software_is_no_part_of_the_drive_and_depth_is() {
        let all = [
            latencies(4096, 1, &[(110, 3)]),
            latencies(4096, 1, &[(510, 1)]),
            latencies(4096, 4, &[(410, 4)]),
            // Of this size nothing was recorded with four in flight.
            latencies(65536, 1, &[(1000, 5)]),
        ];
        let recorded = Recorded::of("a drive".to_owned(), all).unwrap();
        let kind = Kind::new(Direction::Read, 4096);
        assert_eq!((recorded.kinds(), recorded.depths(), recorded.count), (&[kind][..], &[1, 4][..], 8));
        // A mean of 100 and 500 in the shares of 3 to 1.
        let means = [1, 2, 4, 9].map(|in_flight| recorded.mean_ns(kind, in_flight));
        assert_eq!((means, recorded.least_ns()), ([200.0, 200.0, 400.0, 400.0], 200.0));
        let shape = recorded.shape(kind).unwrap();
        assert_eq!([0.5, 0.99].map(|share| shape.quantile(share)), [0.5, 2.5]);
        assert_eq!(recorded.parallelism(), 2.0);
    }

    #[test]
    fn software_takes_no_more_than_the_least_latency() {
        let dear = Latencies { cpu_ns: 1e9, ..latencies(512, 8, &[(100, 1), (300, 1)]) };
        let recorded = Recorded::of(String::new(), [dear]).unwrap();
        assert_eq!(recorded.mean_ns(Kind::new(Direction::Read, 512), 1), 100.5);
    }

    #[test]
    fn nothing_recorded_is_no_drive() {
        let none = [latencies(4096, 1, &[]), latencies(4096, 0, &[(1, 1)]), latencies(4096, 256, &[(1, 1)])];
        assert!(Recorded::of(String::new(), none).is_none());
    }

    proptest! {
        /// Whatever was recorded, the times are above 0 and their shape has the mean of one.
        #[test]
        fn any_record_is_a_drive(
            counted in prop::collection::vec((0u64..1 << 40, 1u64..1000), 1..50),
            cpu_ns in 0.0..1e12f64,
            in_flight in 1u32..=128,
        ) {
            let one = Latencies { cpu_ns, ..latencies(4096, in_flight, &counted) };
            let recorded = Recorded::of(String::new(), [one]).unwrap();
            let kind = recorded.kinds()[0];
            prop_assert!(recorded.mean_ns(kind, in_flight) >= 1.0 && recorded.parallelism() >= 1.0);
            let shape = recorded.shape(kind).unwrap();
            prop_assert!((shape.mean_above(0.0) - 1.0).abs() < 1e-9);
            prop_assert_eq!(recorded.count, counted.iter().map(|(_, count)| count).sum::<u64>());
        }
    }
}
