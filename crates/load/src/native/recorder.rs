//! The hot half of a latency histogram: HdrHistogram's bins, and nothing but counting.
//!
//! The crate's own `record` also keeps its total, least and greatest value and checks for
//! resizing: 62 instructions per I/O, where these take a dozen. The counts become one of its histograms when
//! the window is over.

use hdrhistogram::Histogram;
use iopj_core::units::MAX_LATENCY_NS;

/// Bits of a value that are kept: 2,048 steps per power of two suffice for three significant digits.
const KEPT_BITS: u32 = 11;
const HALF: usize = 1 << (KEPT_BITS - 1);
/// All bins up to that of the longest latency: a longer one has none.
const BINS: usize = bin(MAX_LATENCY_NS) + 1;

/// Counts by bin.
pub struct Recorder {
    counts: Box<[u64; BINS]>,
}

/// The bin of a value.
#[inline]
const fn bin(value: u64) -> usize {
    let shift = (value | (2 * HALF as u64 - 1)).ilog2() - (KEPT_BITS - 1);
    shift as usize * HALF + (value >> shift) as usize
}

/// The least value of a bin.
fn least(bin: usize) -> u64 {
    let shift = (bin / HALF).saturating_sub(1);
    ((bin - shift * HALF) as u64) << shift
}

impl Recorder {
    pub(crate) fn new() -> Recorder {
        let mut counts: Box<[u64; BINS]> =
            vec![0; BINS].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("it is as long"));
        // Touches every page, so none is faulted in inside the window.
        counts.fill(std::hint::black_box(0));
        Recorder { counts }
    }

    /// Empties the counts in their place.
    pub(crate) fn reset(&mut self) {
        self.counts.fill(0);
    }

    /// Counts one latency; a longer one counts as `MAX_LATENCY_NS`.
    #[inline]
    pub(crate) fn record(&mut self, latency_ns: u64) {
        match self.counts.get_mut(bin(latency_ns)) {
            Some(count) => *count += 1,
            None => self.record_longest(),
        }
    }

    #[cold]
    fn record_longest(&mut self) {
        self.counts[bin(MAX_LATENCY_NS)] += 1;
    }

    /// How many latencies were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds what another one has counted.
    pub(crate) fn add(&mut self, other: &Recorder) {
        for (sum, count) in self.counts.iter_mut().zip(other.counts.iter()) {
            *sum += count;
        }
    }

    /// Adds all that was counted to a histogram with the store's bounds.
    pub fn add_to(&self, histogram: &mut Histogram<u64>) {
        for (bin, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            histogram.saturating_record_n(least(bin), *count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_record::histogram;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bins_are_those_of_the_crate(
            values in proptest::collection::vec(0..2 * MAX_LATENCY_NS, 1..60), small in 0u64..5000,
        ) {
            let mut recorder = Recorder::new();
            let mut expected = histogram::new();
            for value in values.into_iter().chain([small, 0, MAX_LATENCY_NS]) {
                recorder.record(value);
                expected.saturating_record(value.min(MAX_LATENCY_NS));
            }
            let mut got = histogram::new();
            recorder.add_to(&mut got);
            let bins = |h: &Histogram<u64>| -> Vec<_> {
                h.iter_recorded().map(|b| (b.value_iterated_to(), b.count_at_value())).collect()
            };
            prop_assert_eq!(bins(&got), bins(&expected));
        }

        #[test]
        fn a_value_lies_in_its_bin(value in 0..=MAX_LATENCY_NS) {
            let bin = bin(value);
            prop_assert!(bin < BINS && least(bin) <= value && (bin + 1 == BINS || value < least(bin + 1)));
        }
    }
}
