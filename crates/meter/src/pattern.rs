//! The load pattern that a study plays to find a meter's clock: when load goes on and off.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Whole intervals of the on and off stretches in turn; each is longer by [`FRACTION`]. Chosen from random
/// sequences: shifted by two intervals or more, the pattern's correlation with itself is below 0.25.
const WHOLE: [u32; 23] = [2, 1, 2, 1, 3, 2, 1, 1, 1, 3, 1, 1, 1, 2, 3, 3, 3, 1, 1, 1, 1, 1, 3];
/// The golden ratio's fraction: its multiples spread the edges' phases against the meter's interval more
/// evenly than any other's (Weyl's sequence), and no rate of drift brings them together.
const FRACTION: f64 = 0.618_033_988_749_894_9;
/// Idle intervals before the first edge and after the last.
const REST: f64 = 3.0;
/// Loads and power supplies take some ms to change their power: shorter intervals would blur the pattern.
const SHORTEST_INTERVAL_S: f64 = 0.1;

/// Load over time: idle at first, on and off in turn at the edges, idle to the end. Host time in ns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    begin_ns: i64,
    edges_ns: Vec<i64>,
    end_ns: i64,
}

/// Times that are not a pattern.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "a load pattern needs an even number of edges, at least two, in order of time between its start and its \
     end"
)]
pub struct BadPattern;

impl Pattern {
    /// The pattern to play for a meter with this interval between readings, from time 0: 24 edges in 59.2
    /// intervals, for a logger with one sample a second about a minute; never less than six seconds.
    pub fn design(interval_ns: u64) -> Self {
        let interval_s = (interval_ns as f64 * 1e-9).max(SHORTEST_INTERVAL_S);
        let at = |intervals: f64| (intervals * interval_s * 1e9).round() as i64;
        let mut intervals = REST;
        let mut edges_ns = vec![at(intervals)];
        for whole in WHOLE {
            intervals += f64::from(whole) + FRACTION;
            edges_ns.push(at(intervals));
        }
        Self { begin_ns: 0, edges_ns, end_ns: at(intervals + REST) }
    }

    /// The pattern as it was played: the times at which load truly went on, off, on, and so on.
    ///
    /// # Errors
    /// [`BadPattern`] if times are out of order, or the pattern does not end idle.
    pub fn played(begin_ns: u64, edges_ns: &[u64], end_ns: u64) -> Result<Self, BadPattern> {
        let all: Option<Vec<i64>> = [&[begin_ns], edges_ns, &[end_ns]]
            .concat()
            .into_iter()
            .map(|at_ns| i64::try_from(at_ns).ok())
            .collect();
        let all = all.ok_or(BadPattern)?;
        if edges_ns.len() < 2 || edges_ns.len() % 2 == 1 || !all.is_sorted_by(|before, after| before < after)
        {
            return Err(BadPattern);
        }
        Ok(Self { begin_ns: all[0], edges_ns: all[1..all.len() - 1].to_vec(), end_ns: all[all.len() - 1] })
    }

    /// Start of the idle stretch before the first edge.
    pub fn begin_ns(&self) -> i64 {
        self.begin_ns
    }

    /// When load goes on (first, third, ...) and off (second, fourth, ...).
    pub fn edges_ns(&self) -> &[i64] {
        &self.edges_ns
    }

    /// End of the idle stretch after the last edge.
    pub fn end_ns(&self) -> i64 {
        self.end_ns
    }

    /// The pattern in seconds since `origin_ns`.
    pub(crate) fn shape(&self, origin_ns: i64) -> Shape {
        let seconds = |at_ns: i64| at_ns.saturating_sub(origin_ns) as f64 * 1e-9;
        let edges_s: Vec<f64> = self.edges_ns.iter().map(|edge| seconds(*edge)).collect();
        let mut on_s = 0.0;
        let loaded_s = edges_s.iter().enumerate().map(|(index, edge)| {
            if index % 2 == 1 {
                on_s += edge - edges_s[index - 1];
            }
            on_s
        });
        let loaded_s = loaded_s.collect();
        Shape { begin_s: seconds(self.begin_ns), end_s: seconds(self.end_ns), edges_s, loaded_s }
    }
}

/// A pattern prepared for lookups: how long load is on within a stretch of time.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) begin_s: f64,
    pub(crate) end_s: f64,
    edges_s: Vec<f64>,
    /// Seconds of load before each edge.
    loaded_s: Vec<f64>,
}

impl Shape {
    /// Share of the stretch for which load is on; at an instant 0 or 1.
    pub(crate) fn share(&self, from_s: f64, to_s: f64) -> f64 {
        if to_s > from_s {
            (self.loaded(to_s).0 - self.loaded(from_s).0) / (to_s - from_s)
        } else {
            self.loaded(to_s).1
        }
    }

    /// Seconds of load before an instant, and the load at it.
    fn loaded(&self, at_s: f64) -> (f64, f64) {
        let passed = self.edges_s.partition_point(|edge| *edge <= at_s);
        match passed.checked_sub(1) {
            None => (0.0, 0.0),
            Some(last) if passed % 2 == 1 => (self.loaded_s[last] + at_s - self.edges_s[last], 1.0),
            Some(last) => (self.loaded_s[last], 0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_logger_of_one_second_needs_a_minute() {
        let pattern = Pattern::design(SECOND);
        assert_eq!(pattern.edges_ns().len(), 24);
        assert_eq!(pattern.edges_ns()[0], 3 * SECOND as i64);
        assert_eq!(pattern.end_ns(), 59_214_781_741);
        assert_eq!(Pattern::design(1).end_ns(), 5_921_478_174);
        assert_eq!(Pattern::design(SECOND), Pattern::design(SECOND));
    }

    #[test]
    fn the_edges_phases_are_spread_over_the_interval() {
        let mut phases: Vec<i64> =
            Pattern::design(SECOND).edges_ns().iter().map(|edge| edge % SECOND as i64).collect();
        phases.sort_unstable();
        phases.push(phases[0] + SECOND as i64);
        let widest = phases.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(widest < 60_000_000, "{widest} ns without an edge");
    }

    #[test]
    fn the_pattern_is_like_nothing_but_itself() {
        let shape = Pattern::design(SECOND).shape(0);
        let seconds = |shift: f64| (0..59).map(move |at| f64::from(at) + shift);
        let own: Vec<f64> = seconds(0.0).map(|at| shape.share(at, at + 1.0)).collect();
        for quarter in 8..=230 {
            for shift in [0.25 * f64::from(quarter), -0.25 * f64::from(quarter)] {
                let moved: Vec<f64> = seconds(shift).map(|at| shape.share(at, at + 1.0)).collect();
                let correlation = correlation(&own, &moved);
                assert!(correlation < 0.25, "{correlation} at {shift} s");
            }
        }
    }

    fn correlation(one: &[f64], other: &[f64]) -> f64 {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let (a, b) = (mean(one), mean(other));
        let product = |p: &[f64], pm: f64, q: &[f64], qm: f64| -> f64 {
            p.iter().zip(q).map(|(x, y)| (x - pm) * (y - qm)).sum()
        };
        let spread = product(one, a, one, a) * product(other, b, other, b);
        if spread > 0.0 { product(one, a, other, b) / spread.sqrt() } else { 0.0 }
    }

    #[test]
    fn shares_are_means_over_the_stretch() {
        let shape =
            Pattern::played(0, &[SECOND, 3 * SECOND, 4 * SECOND, 5 * SECOND], 6 * SECOND).unwrap().shape(0);
        assert_eq!(shape.share(0.0, 6.0), 0.5);
        assert_eq!(shape.share(0.5, 1.5), 0.5);
        assert_eq!(shape.share(2.0, 4.5), 0.6);
        assert_eq!(shape.share(-9.0, 0.0), 0.0);
        assert_eq!(
            [0.9, 1.0, 2.9, 3.0, 4.5, 99.0].map(|at| shape.share(at, at)),
            [0.0, 1.0, 1.0, 0.0, 1.0, 0.0]
        );
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for edges in [&[][..], &[2], &[2, 2], &[3, 2], &[2, 9], &[0, 2], &[2, 3, 4]] {
            assert_eq!(Pattern::played(0, edges, 9), Err(BadPattern));
        }
        assert_eq!(Pattern::played(0, &[1, 2], u64::MAX), Err(BadPattern));
    }
}
