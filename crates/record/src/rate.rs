//! A count as a rate.

/// A count in a second of `over_ns`; 0 over no time.
pub(crate) fn per_second(count: u64, over_ns: u64) -> f64 {
    if over_ns == 0 { 0.0 } else { count as f64 * 1e9 / over_ns as f64 }
}
