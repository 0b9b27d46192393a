//! The offset of a meter's clock from the host's: the load pattern is found in the meter's log by
//! cross-correlation.

use crate::coarse::{Coarse, CoarseMatch};
use crate::curve::{Curve, Step};
use crate::fine::{Fine, OffsetFit};
use crate::line::{Line, Point};
use crate::meter::{Channel, Reading};
use crate::pattern::{Pattern, Shape};
use crate::samples::{Incomplete, Sample, in_order};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use thiserror::Error;

/// Below this correlation a pattern is not found: noise then has more than half of the load's variance.
const LEAST_CORRELATION: f64 = 0.8;
/// The least lead of the best offset's correlation over that of any other offset.
const LEAST_LEAD: f64 = 0.1;

/// The least number of the log's values in a pattern: a few values correlate with anything.
const LEAST_VALUES: f64 = 40.0;

/// Searches for runs of patterns, for each pattern of the study.
const MOST_SEARCHES: usize = 8;

/// Where to look for the pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// The expected difference of the meter's time and the host's, from the wall time of the study and the
    /// log's time zone.
    pub expected_offset_ns: i64,
    /// How far from it the true offset may be, on either side.
    pub range_ns: u64,
    /// The greatest drift of the clocks: 1e-4 is 100 ppm.
    pub max_drift: f64,
    /// How much later than a pattern's edges power may change: threads wake, supplies settle. Half of it is
    /// assumed, with a rectangular uncertainty.
    pub lag_ns: u64,
}

/// The relation between a meter's time and the host's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alignment {
    expected_offset_ns: i64,
    /// Host time of 0 s on the line.
    origin_ns: i64,
    /// The rest of the offset over host time, both in s.
    line: Line,
    /// Standard uncertainty of the power's lag, in s; the same for every pattern.
    lag_standard_s: f64,
    confidence: Option<Confidence>,
    /// Number of patterns that were found.
    patterns: usize,
}

/// How surely a pattern was found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confidence {
    /// Correlation of the log with the pattern, the lowest if several were played; 1 is perfect.
    pub correlation: f64,
    /// The highest correlation at any other offset of the search.
    pub elsewhere: f64,
}

/// Why a log cannot be aligned. The text names the cause and the remedy.
#[derive(Clone, Debug, Error, PartialEq)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum AlignError {
    /// There is no pattern to look for.
    #[error("no load pattern was played in this study: play one before it and one after it")]
    NothingPlayed,
    /// The log does not hold the time of the patterns.
    #[error(
        "the meter's log does not cover the load pattern at any offset within {range_s:.0} s: give the whole \
         log or its --time-zone, or allow for a larger clock error with --clock-within"
    )]
    NotCovered { range_s: f64 },
    /// The log's interval is too long for the pattern.
    #[error(
        "the meter's log has a value every {interval_s:.3} s, too seldom for a load pattern of \
         {pattern_s:.1} s: play the pattern for this interval"
    )]
    TooSlow { interval_s: f64, pattern_s: f64 },
    /// The log does not contain the pattern.
    #[error(
        "the load pattern is not in the meter's log: its correlation is {correlation:.2}, and \
         {LEAST_CORRELATION} is needed; check that the log is from this study and this machine, set the \
         largest error of its clock with --clock-within, or trust the clock with --trust-clock"
    )]
    NotFound { correlation: f64 },
    /// The log contains the pattern several times.
    #[error(
        "the load pattern fits the meter's log at two offsets, with correlations of {correlation:.2} and \
         {elsewhere:.2}: give the whole log of this study, set a smaller clock error with --clock-within, or \
         trust the clock with --trust-clock"
    )]
    Ambiguous { correlation: f64, elsewhere: f64 },
    /// The log's times go back.
    #[error(transparent)]
    Log(#[from] Incomplete),
}

/// Finds the patterns that a study played, in order of time, in a channel's log. Two or more patterns also
/// give the drift; with one it is unknown within [`Search::max_drift`]. A log that lacks some of them is
/// aligned by the others, if they cannot be mistaken for one another.
///
/// # Errors
/// [`AlignError`] if the log lacks all patterns, or if they fit it in two ways.
pub fn align(
    channel: &Channel,
    index: usize,
    log: &[Reading],
    played: &[Pattern],
    search: &Search,
) -> Result<Alignment, AlignError> {
    let origin_ns = played.first().ok_or(AlignError::NothingPlayed)?.begin_ns();
    let range_s = search.range_ns as f64 * 1e-9;
    let steps = series(channel, index, log, search.expected_offset_ns.saturating_add(origin_ns))?;
    let interval_s = interval(&steps).ok_or(AlignError::NotCovered { range_s })?;
    let shapes: Vec<Shape> = played.iter().map(|pattern| pattern.shape(origin_ns)).collect();
    let shortest_s = shapes.iter().map(|shape| shape.end_s - shape.begin_s).fold(f64::INFINITY, f64::min);
    if LEAST_VALUES * interval_s > shortest_s {
        return Err(AlignError::TooSlow { interval_s, pattern_s: shortest_s });
    }
    let coarse = Coarse { steps: &steps, interval_s, range_s };
    let found = match find(&coarse, &shapes, search.max_drift) {
        Err(error @ (AlignError::NotCovered { .. } | AlignError::NotFound { .. })) => {
            find_some(&coarse, &shapes, search.max_drift).unwrap_or(Err(error))
        }
        all => all,
    }?;
    let lag_s = search.lag_ns as f64 * 1e-9;
    let points = found.points.iter().map(|point| Point { y: point.y - 0.5 * lag_s, ..*point });
    let points: Vec<Point> = points.collect();
    let line = Line::fit(&points, search.max_drift / 3f64.sqrt()).ok_or(AlignError::NothingPlayed)?;
    let lag_standard_s = lag_s / 12f64.sqrt();
    Ok(Alignment {
        expected_offset_ns: search.expected_offset_ns,
        origin_ns,
        line,
        lag_standard_s,
        confidence: Some(found.confidence),
        patterns: points.len(),
    })
}

/// Patterns that were found in a log.
struct Found {
    /// The offset of each.
    points: Vec<Point>,
    confidence: Confidence,
}

/// Finds all of these patterns.
fn find(coarse: &Coarse<'_>, shapes: &[Shape], max_drift: f64) -> Result<Found, AlignError> {
    let range_s = coarse.range_s;
    let CoarseMatch { offsets_s, correlation, elsewhere } =
        coarse.search(shapes, max_drift).ok_or(AlignError::NotCovered { range_s })?;
    let fits = shapes
        .iter()
        .zip(offsets_s)
        .map(|(shape, offset_s)| Fine::new(coarse.steps, shape, coarse.interval_s, offset_s).offset());
    let fits: Vec<OffsetFit> = fits.collect();
    let best = fits.iter().map(|fit| fit.correlation).fold(1.0, f64::min);
    if best < LEAST_CORRELATION {
        return Err(AlignError::NotFound { correlation: best });
    }
    if correlation - elsewhere < LEAST_LEAD {
        return Err(AlignError::Ambiguous { correlation, elsewhere });
    }
    let points = fits.iter().map(|fit| fit.point).collect();
    Ok(Found { points, confidence: Confidence { correlation: best, elsewhere } })
}

/// Finds the most patterns in a row that the log holds; `None` if it holds none. All patterns look alike: if
/// others can be found as well, within the search, at another offset, they are ambiguous.
fn find_some(coarse: &Coarse<'_>, shapes: &[Shape], max_drift: f64) -> Option<Result<Found, AlignError>> {
    let is_held = |one: &[Shape]| {
        let found = find(coarse, one, max_drift);
        !matches!(found, Err(AlignError::NotCovered { .. } | AlignError::NotFound { .. }))
    };
    let held: Vec<bool> = shapes.windows(1).map(is_held).collect();
    let (mut best, mut longest): (Option<Found>, usize) = (None, 1);
    for run in runs(&held) {
        if run.len() < longest {
            break;
        }
        longest = if best.is_some() { longest } else { run.len() };
        match (find(coarse, &shapes[run], max_drift), best.take()) {
            (Ok(found), None) => best = Some(found),
            (Ok(found), Some(before)) => match before.with(found, max_drift, coarse.interval_s) {
                Ok(both) => best = Some(both),
                Err(error) => return Some(Err(error)),
            },
            (Err(error @ AlignError::Ambiguous { .. }), _) => return Some(Err(error)),
            (Err(_), before) => best = before,
        }
    }
    best.map(Ok)
}

/// The runs of patterns to look for, the longest first: of patterns that the log holds, each on its own. All
/// but single ones are limited: of 48 patterns that do not fit together there are a thousand.
fn runs(held: &[bool]) -> Vec<Range<usize>> {
    let mut left = MOST_SEARCHES * held.len();
    let all = (1..held.len()).rev().flat_map(|count| (0..=held.len() - count).map(move |at| at..at + count));
    let is_tried = |run: &Range<usize>| {
        let fits = run.len() == 1 || run.len() <= left;
        let is_tried = fits && held[run.clone()].iter().all(|is_held| *is_held);
        left -= if is_tried && run.len() > 1 { run.len() } else { 0 };
        is_tried
    };
    all.filter(is_tried).collect()
}

impl Found {
    /// These patterns and others, if one clock can show them all.
    ///
    /// # Errors
    /// [`AlignError::Ambiguous`] if their offsets differ by more than a drift and the log's interval.
    fn with(mut self, other: Found, max_drift: f64, interval_s: f64) -> Result<Found, AlignError> {
        let [one, two] = [&self, &other].map(|found| found.confidence);
        let agrees =
            |a: &Point, b: &Point| (a.y - b.y).abs() <= max_drift.abs() * (a.x - b.x).abs() + interval_s;
        if !self.points.iter().all(|point| other.points.iter().all(|another| agrees(point, another))) {
            let (correlation, elsewhere) =
                (one.correlation.max(two.correlation), one.correlation.min(two.correlation));
            return Err(AlignError::Ambiguous { correlation, elsewhere });
        }
        let more =
            other.points.into_iter().filter(|point| self.points.iter().all(|known| known.x != point.x));
        let more: Vec<Point> = more.collect();
        self.points.extend(more);
        let (correlation, elsewhere) =
            (one.correlation.min(two.correlation), one.elsewhere.max(two.elsewhere));
        Ok(Found { confidence: Confidence { correlation, elsewhere }, ..self })
    }
}

impl Alignment {
    /// A trusted clock: `offset_ns` is the meter's time minus the host's at `host_ns`, with this standard
    /// uncertainty; it drifts by at most `max_drift`.
    pub fn trusted(offset_ns: i64, host_ns: u64, standard_ns: f64, max_drift: f64) -> Self {
        let standard_s = standard_ns.abs() * 1e-9;
        let origin_ns = i64::try_from(host_ns).unwrap_or(i64::MAX);
        let line = Line::level(Point { x: 0.0, y: 0.0, standard: standard_s }, max_drift / 3f64.sqrt());
        Self {
            expected_offset_ns: offset_ns,
            origin_ns,
            line,
            lag_standard_s: 0.0,
            confidence: None,
            patterns: 0,
        }
    }

    /// The host time at a time of the meter.
    pub fn host_ns(&self, own_ns: i64) -> i64 {
        let since = own_ns.saturating_sub(self.expected_offset_ns).saturating_sub(self.origin_ns);
        let host_s = (since as f64 * 1e-9 - self.line.at(0.0)) / (1.0 + self.line.slope);
        self.origin_ns.saturating_add((host_s * 1e9).round() as i64)
    }

    /// The meter's time minus the host's, at a host time.
    pub fn offset_ns(&self, host_ns: i64) -> i64 {
        self.expected_offset_ns.saturating_add((self.line.at(self.seconds(host_ns)) * 1e9).round() as i64)
    }

    /// Standard uncertainty of the offset at a host time.
    pub fn uncertainty_ns(&self, host_ns: i64) -> f64 {
        let at_s = self.seconds(host_ns);
        self.line.covariance(at_s, at_s).sqrt().hypot(self.lag_standard_s) * 1e9
    }

    /// How much faster the meter's clock runs than the host's: 1e-6 is 1 ppm. 0 if only one pattern was
    /// played.
    pub fn drift(&self) -> f64 {
        self.line.slope
    }

    /// Standard uncertainty of the drift.
    pub fn drift_uncertainty(&self) -> f64 {
        self.line.slope_standard()
    }

    /// How surely the pattern was found; `None` for a trusted clock.
    pub fn confidence(&self) -> Option<Confidence> {
        self.confidence
    }

    /// Number of load patterns that it rests on; 0 for a trusted clock.
    pub fn patterns(&self) -> usize {
        self.patterns
    }

    fn seconds(&self, host_ns: i64) -> f64 {
        host_ns.saturating_sub(self.origin_ns) as f64 * 1e-9
    }
}

/// The log as steps over its own time, in s since `zero_ns`.
fn series(channel: &Channel, index: usize, log: &[Reading], zero_ns: i64) -> Result<Vec<Step>, Incomplete> {
    let samples = log.iter().filter(|reading| reading.channel == index).filter_map(|reading| {
        let at_s = reading.own_ns?.saturating_sub(zero_ns) as f64 * 1e-9;
        Some(Sample { at_s, jitter_s: 0.0, value: reading.value })
    });
    let samples = in_order(samples)?;
    Ok(Curve::new(channel.kind, &samples).steps)
}

/// The log's interval: the median of the times between its values.
fn interval(steps: &[Step]) -> Option<f64> {
    let mut apart: Vec<f64> = steps.windows(2).map(|pair| pair[1].end_s - pair[0].end_s).collect();
    apart.sort_by(f64::total_cmp);
    apart.get(apart.len() / 2).copied().filter(|interval_s| *interval_s > 0.0)
}

#[cfg(test)]
mod tests;
