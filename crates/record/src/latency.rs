//! A distribution of latencies.

use serde::{Deserialize, Serialize};

/// A distribution of latencies in ns. Percentiles are those of the generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// I/Os.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation over the I/Os.
    pub stddev: f64,
    /// Least.
    pub min: u64,
    /// 20th percentile; absent in older stores, and where fio printed neither it nor bins.
    #[serde(default)]
    pub p20: Option<u64>,
    /// Median.
    pub p50: u64,
    /// 80th percentile; absent where the 20th is.
    #[serde(default)]
    pub p80: Option<u64>,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p99_9: u64,
    /// Greatest.
    pub max: u64,
    /// The histogram in HdrHistogram's V2 encoding (not compressed).
    #[serde(skip)]
    pub histogram: Vec<u8>,
}
