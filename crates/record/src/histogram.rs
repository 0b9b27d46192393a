//! Latency histograms: their resolution, their summary, and their encoded form.

use crate::latency::Latency;
pub use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use iopj_core::units::MAX_LATENCY_NS;

/// A histogram of latencies in ns with three significant digits, of fixed size: recording into it
/// never allocates.
pub fn new() -> Histogram<u64> {
    // Low, high and digits are constants within the crate's limits.
    Histogram::new_with_bounds(1, MAX_LATENCY_NS, 3)
        .unwrap_or_else(|error| unreachable!("constant bounds: {error}"))
}

/// Mean, percentiles and the encoded form.
pub fn summary(histogram: &Histogram<u64>) -> Latency {
    let mut encoded = Vec::new();
    // Writing into a vector cannot fail.
    let _ = V2Serializer::new().serialize(histogram, &mut encoded);
    if histogram.is_empty() {
        return Latency { histogram: encoded, ..Latency::default() };
    }
    Latency {
        count: histogram.len(),
        mean: histogram.mean(),
        stddev: histogram.stdev(),
        min: histogram.min(),
        p20: Some(histogram.value_at_quantile(0.2)),
        p50: histogram.value_at_quantile(0.5),
        p80: Some(histogram.value_at_quantile(0.8)),
        p95: histogram.value_at_quantile(0.95),
        p99: histogram.value_at_quantile(0.99),
        p99_9: histogram.value_at_quantile(0.999),
        max: histogram.max(),
        histogram: encoded,
    }
}

/// The histogram of an encoded form; `None` if it is not one.
pub fn decode(encoded: &[u8]) -> Option<Histogram<u64>> {
    // The library takes as much memory as a blob says, and counts so many empty bins.
    if is_whole(encoded) { deserialize(encoded) } else { None }
}

/// True if the counts of an uncompressed histogram are as long as it says, and none is below its sense.
fn is_whole(encoded: &[u8]) -> bool {
    let length = encoded.get(4..8).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
    let counts = encoded.get(40..).unwrap_or_default();
    // A run of nine bytes with all bits is the least number, which has no opposite.
    length.is_some_and(|length| length as usize == counts.len())
        && !counts.windows(9).any(|run| run == [0xff; 9])
}

fn deserialize(encoded: &[u8]) -> Option<Histogram<u64>> {
    Deserializer::new().deserialize(&mut std::io::Cursor::new(encoded)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_decodes_to_the_same_histogram() {
        let mut histogram = new();
        for value in 1..=1000u64 {
            histogram.record(value * 1000).unwrap();
        }
        let latency = summary(&histogram);
        assert_eq!((latency.count, latency.p50 / 1000, latency.p99 / 1000), (1000, 500, 990));
        assert_eq!([latency.p20, latency.p80].map(|ns| ns.unwrap() / 1000), [200, 800]);
        assert!((latency.mean / 500_500.0 - 1.0).abs() < 1e-3);
        assert_eq!(decode(&latency.histogram).unwrap(), histogram);
        assert_eq!(decode(b"nonsense"), None);
    }

    #[test]
    fn an_empty_histogram_has_no_nan() {
        assert_eq!((summary(&new()).mean, summary(&new()).p20), (0.0, None));
    }
}
