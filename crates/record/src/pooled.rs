//! Latencies of several trials in one, as the bins that hold any: a histogram of fixed size has 20,000 more.
//!
//! It reads HdrHistogram's format V2 (HdrHistogram/HdrHistogram, `AbstractHistogram.encodeIntoByteBuffer`)
//! with the bins of [`histogram::new`](crate::histogram::new), and any other by way of the library.

use crate::histogram;
use iopj_core::units::MAX_LATENCY_NS;

/// A format's number, and the bytes before its counts.
const COOKIE: u32 = 0x1c84_9303 | 0x10;
const HEAD: usize = 40;
/// Bins of one width: with three digits a value is known to 1 in 1024.
const HALF: u64 = 1024;

/// Latencies in ns, as bins in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pooled {
    /// Each bin's number, and how many latencies it holds.
    bins: Vec<(u32, u64)>,
    len: u64,
}

/// A bin that holds latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// The least latency that it may hold, in ns.
    pub low: u64,
    /// The greatest.
    pub high: u64,
    /// How many it holds.
    pub count: u64,
}

impl Pooled {
    /// The latencies of some encoded histograms. What is none is left out, and so is a bin beyond
    /// [`MAX_LATENCY_NS`]: only another program could have made it.
    pub fn of<'a>(all: impl IntoIterator<Item = &'a [u8]>) -> Pooled {
        let mut all =
            all.into_iter().filter_map(|encoded| bins_of(encoded).or_else(|| bins_of_other(encoded)));
        let first = all.next().unwrap_or_default();
        let bins = match all.next() {
            Some(second) => added([first, second].into_iter().chain(all)),
            None => first,
        };
        let len = bins.iter().fold(0_u64, |len, (_, count)| len.saturating_add(*count));
        Pooled { bins, len }
    }

    /// How many latencies there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bins that hold any, in order.
    pub fn bins(&self) -> impl Iterator<Item = Bin> {
        self.bins.iter().map(|(bin, count)| {
            let (low, high) = bounds(*bin);
            Bin { low, high, count: *count }
        })
    }

    /// The latency in ns that this share of all does not exceed, as HdrHistogram says it; 0 of none.
    pub fn value_at_quantile(&self, quantile: f64) -> u64 {
        let rank = ((quantile.min(1.0) * self.len as f64).ceil() as u64).max(1);
        let mut below = 0_u64;
        let reaches = |bin: &Bin| {
            below = below.saturating_add(bin.count);
            below >= rank
        };
        self.bins().find(reaches).map_or(0, |bin| if quantile == 0.0 { bin.low } else { bin.high })
    }
}

/// The bins of several histograms in one. Each count has its place: in a profile of a long report, merging
/// one list of bins with another again and again was a sixth of all.
fn added(histograms: impl Iterator<Item = Vec<(u32, u64)>>) -> Vec<(u32, u64)> {
    let mut counts: Vec<u64> = Vec::new();
    for (bin, count) in histograms.flatten() {
        let bin = bin as usize;
        if counts.len() <= bin {
            counts.resize(bin + 1, 0);
        }
        counts[bin] = counts[bin].saturating_add(count);
    }
    (0..).zip(counts).filter(|(_, count)| *count > 0).collect()
}

/// The least and the greatest value of a bin.
fn bounds(bin: u32) -> (u64, u64) {
    let bin = u64::from(bin);
    let (shift, place) = match bin / HALF {
        0 => (0, bin),
        width => (width - 1, bin % HALF + HALF),
    };
    (place << shift, ((place + 1) << shift) - 1)
}

/// The bin of a value.
fn bin_of(value: u64) -> u32 {
    let shift = (u64::BITS - (value | (2 * HALF - 1)).leading_zeros()) - (2 * HALF).ilog2();
    (shift * HALF as u32) + (value >> shift) as u32
}

/// The bins of a histogram with the bins of ours; `None` if it is another one, or none.
fn bins_of(encoded: &[u8]) -> Option<Vec<(u32, u64)>> {
    let word = |at: usize| encoded.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let long = |at: usize| encoded.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
    // Cookie, length of the counts, offset, digits, least and greatest value, ratio.
    let is_ours = (word(0)?, word(8)?, word(12)?, long(16)?) == (COOKIE, 0, 3, 1)
        && long(24)? == MAX_LATENCY_NS
        && f64::from_bits(long(32)?) == 1.0;
    let counts = encoded.get(HEAD..)?;
    if !is_ours || word(4)? as usize != counts.len() {
        return None;
    }
    let most = u64::from(bin_of(MAX_LATENCY_NS));
    let (mut rest, mut bin, mut bins) = (counts, 0_u64, Vec::new());
    while !rest.is_empty() {
        let number = varint(&mut rest)?;
        // Zigzag: a negative number is so many empty bins.
        let half = number >> 1;
        match number & 1 {
            1 => bin = bin.checked_add(half.checked_add(1)?)?,
            _ => {
                if half > 0 && bin <= most {
                    bins.push((bin as u32, half));
                }
                bin = bin.checked_add(1)?;
            }
        }
    }
    Some(bins)
}

/// LEB128 of at most nine bytes, of which the last has eight bits.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for at in 0..9 {
        let (byte, others) = rest.split_first()?;
        *rest = others;
        if at == 8 {
            return Some(value | u64::from(*byte) << 56);
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The bins of a histogram with others.
fn bins_of_other(encoded: &[u8]) -> Option<Vec<(u32, u64)>> {
    let other = histogram::decode(encoded)?;
    let recorded = other.iter_recorded().filter(|bin| bin.value_iterated_to() <= MAX_LATENCY_NS);
    let mut bins: Vec<(u32, u64)> = Vec::new();
    for (bin, count) in recorded.map(|bin| {
        let low = other.lowest_equivalent(bin.value_iterated_to());
        (bin_of(low), bin.count_since_last_iteration())
    }) {
        match bins.last_mut().filter(|(last, _)| *last == bin) {
            Some((_, all)) => *all = all.saturating_add(count),
            None => bins.push((bin, count)),
        }
    }
    Some(bins)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer, V2Serializer};
    use proptest::prelude::*;

    fn encoded(histogram: &Histogram<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(histogram, &mut bytes).unwrap();
        bytes
    }

    fn of(values: &[u64], mut histogram: Histogram<u64>) -> Histogram<u64> {
        values.iter().for_each(|value| histogram.record(*value).unwrap());
        histogram
    }

    fn is_as(pooled: &Pooled, whole: &Histogram<u64>) {
        assert_eq!(pooled.len(), whole.len());
        for quantile in [0.0, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999, 1.0, 1.5] {
            assert_eq!(pooled.value_at_quantile(quantile), whole.value_at_quantile(quantile), "{quantile}");
        }
        let bins: Vec<(u64, u64)> = pooled.bins().map(|bin| (bin.high, bin.count)).collect();
        let theirs: Vec<(u64, u64)> =
            whole.iter_recorded().map(|bin| (bin.value_iterated_to(), bin.count_at_value())).collect();
        assert_eq!(bins, theirs);
        assert_eq!(pooled.bins().next().map_or(0, |bin| bin.low), whole.min());
    }

    proptest! {
        /// HdrHistogram's own library says the same.
        #[test]
        fn pooled_latencies_are_those_of_one_histogram(
            parts in proptest::collection::vec(proptest::collection::vec(0..=MAX_LATENCY_NS, 0..40), 0..4),
            small in proptest::collection::vec(0..5000_u64, 0..40),
        ) {
            let (mut all, mut whole) = (Vec::new(), histogram::new());
            for part in parts.iter().chain([&small]) {
                let part = of(part, histogram::new());
                all.push(encoded(&part));
                whole.add(&part).unwrap();
            }
            is_as(&Pooled::of(all.iter().map(|one| &one[..])), &whole);
        }

        #[test]
        fn whatever_a_blob_holds_it_is_read_or_left_out(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            Pooled::of([&bytes[..]]);
            let head = encoded(&histogram::new());
            let counts = (bytes.len() as u32).to_be_bytes();
            bytes.splice(..0, head[..HEAD].iter().copied());
            bytes[4..8].copy_from_slice(&counts);
            Pooled::of([&bytes[..], &bytes[..]]).value_at_quantile(0.5);
        }
    }

    #[test]
    fn a_histogram_with_other_bins_is_read_too() {
        let values = [3, 900, 70_000, 70_001, 5_000_000];
        let other = of(&values, Histogram::new_with_bounds(1, 1 << 30, 2).unwrap());
        let mut whole = histogram::new();
        whole.add(&other).unwrap();
        is_as(&Pooled::of([&encoded(&other)[..]]), &whole);
    }

    /// It said that 4 GiB follow, and as much memory was taken; and that less than no bins are empty.
    #[test]
    fn a_length_that_is_not_there_is_not_taken() {
        let mut bytes = encoded(&of(&[7], histogram::new()));
        assert_eq!(Pooled::of([&bytes[..]]).len(), 1);
        bytes[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!((Pooled::of([&bytes[..]]).len(), histogram::decode(&bytes)), (0, None));
        let mut bytes = encoded(&histogram::new())[..HEAD].to_vec();
        bytes.extend([0xff; 9]);
        bytes[4..8].copy_from_slice(&9_u32.to_be_bytes());
        assert_eq!((Pooled::of([&bytes[..]]).len(), histogram::decode(&bytes)), (0, None));
    }
}
