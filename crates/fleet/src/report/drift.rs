//! What a month changes: a straight line through each host's latency over time, and the mean over hosts.

use super::read::{Figure, KindTrials};
use iopj_analysis::stats::{Method, slope, summarize, t_test};
use serde::Serialize;
use std::collections::BTreeMap;

/// Stores below which a host has no line.
const FEWEST_STORES: usize = 3;
/// Months below which a host has no line: what a warm-up does within an hour is no drift.
const SHORTEST_MONTHS: f64 = 1.0;
/// A month in ns: 30 days.
const MONTH_NS: f64 = 30.0 * 86_400.0 * 1e9;

/// What a month changes of a kind's latency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Drift {
    /// Hosts that have a line.
    pub hosts: usize,
    /// The share that latency grows in a month, mean over hosts.
    pub per_month: f64,
    /// Its 95 % interval.
    pub interval: (f64, f64),
    /// The p-value of no change, corrected over all kinds.
    pub p: f64,
}

/// The drift of a kind; `None` with fewer than two hosts that have a line.
pub(super) fn drift(trials: &KindTrials) -> Option<Drift> {
    let mut of_host: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (setup, path) in trials.pairs() {
        for (host, points) in lines(trials, setup, path) {
            of_host.entry(host).or_default().extend(relative_slope(&points));
        }
    }
    let of_host = of_host.into_values().filter(|slopes| !slopes.is_empty());
    let slopes: Vec<f64> = of_host.map(|slopes| slopes.iter().sum::<f64>() / slopes.len() as f64).collect();
    let summary = summarize(&slopes)?;
    let test = t_test(Method::Paired, &slopes, &vec![0.0; slopes.len()])?;
    Some(Drift { hosts: summary.n, per_month: summary.mean, interval: summary.interval?, p: test.p })
}

/// Each host's latencies by time.
fn lines(trials: &KindTrials, setup: u32, path: u32) -> BTreeMap<u32, Vec<(f64, f64, f64)>> {
    let mut lines: BTreeMap<u32, Vec<(f64, f64, f64)>> = BTreeMap::new();
    let first_ns = trials.span_ns.map_or(0, |[from, _]| from);
    for cell in trials.of(setup, path) {
        if let Some(latency_ns) = cell.mean(Figure::LatencyMean) {
            let months = (cell.began_ns as f64 - first_ns as f64) / MONTH_NS;
            lines.entry(cell.host).or_default().push((months, latency_ns, 1.0));
        }
    }
    lines
}

/// The slope of a line through the points over their mean height.
fn relative_slope(points: &[(f64, f64, f64)]) -> Option<f64> {
    let months = || points.iter().map(|(month, ..)| *month);
    let span = months().fold(f64::MIN, f64::max) - months().fold(f64::MAX, f64::min);
    if points.len() < FEWEST_STORES || span < SHORTEST_MONTHS {
        return None;
    }
    let (slope, _) = slope(points)?;
    let mean = points.iter().map(|(_, y, _)| y).sum::<f64>() / points.len() as f64;
    Some(slope / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_within_an_hour_or_of_two_stores_is_no_drift() {
        let points = |months: f64| [0.0, 1.0, 2.0].map(|n| (n * months, 100.0 + 10.0 * n, 1.0));
        assert_eq!(relative_slope(&points(1.0 / 720.0)), None);
        assert_eq!(relative_slope(&points(1.0)[..2]), None);
        let slope = relative_slope(&points(1.0)).unwrap();
        assert!((slope - 10.0 / 110.0).abs() < 1e-12, "{slope}");
    }
}
