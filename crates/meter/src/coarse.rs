//! The coarse search for load patterns in a log: cross-correlation with the averaged pattern over the whole
//! range of offsets.

use crate::curve::Step;
use crate::pattern::Shape;
use std::ops::RangeInclusive;

/// Share of a pattern's samples that the log must have.
const LEAST_SAMPLES: f64 = 0.8;
/// Step of the search, in intervals of the log.
const COARSE: f64 = 0.5;
/// Step at which the pattern is tabulated, in intervals of the log.
const TABLE: f64 = 0.125;

/// The search over the whole range, on a grid.
pub(crate) struct Coarse<'a> {
    pub(crate) steps: &'a [Step],
    pub(crate) interval_s: f64,
    pub(crate) range_s: f64,
}

/// The offsets at which the patterns match best.
pub(crate) struct CoarseMatch {
    /// One per pattern.
    pub(crate) offsets_s: Vec<f64>,
    /// Of the pattern that matches least.
    pub(crate) correlation: f64,
    /// The same at the best other offset.
    pub(crate) elsewhere: f64,
}

impl Coarse<'_> {
    /// The offset at which the least correlated pattern correlates best. `None` if the log covers the
    /// patterns at no offset.
    pub(crate) fn search(&self, shapes: &[Shape], max_drift: f64) -> Option<CoarseMatch> {
        let step_s = self.step_s();
        let (low, high) = self.positions(shapes, max_drift)?.into_inner();
        let tables: Vec<Scores> = shapes
            .iter()
            .map(|shape| {
                let slack = self.slack(&shapes[0], shape, max_drift);
                let table = self.table(shape);
                let score = |at: i64| self.correlation(shape, &table, at as f64 * step_s);
                Scores {
                    slack,
                    first: low - slack,
                    values: (low - slack..=high + slack).map(score).collect(),
                }
            })
            .collect();
        let joint = |at: i64| tables.iter().map(|scores| scores.near(at).1).fold(f64::INFINITY, f64::min);
        let joints: Vec<(i64, f64)> = (low..=high).map(|at| (at, joint(at))).collect();
        let best = |allowed: &dyn Fn(i64) -> bool| {
            let scored = joints.iter().filter(|(at, score)| score.is_finite() && allowed(*at));
            scored.max_by(|one, other| one.1.total_cmp(&other.1)).copied()
        };
        let (position, correlation) = best(&|_| true)?;
        let apart = (2.0 / COARSE) as i64;
        let elsewhere = best(&|at| (at - position).abs() > apart).map_or(0.0, |(_, score)| score);
        let offsets_s = tables.iter().map(|scores| scores.near(position).0 as f64 * step_s).collect();
        Some(CoarseMatch { offsets_s, correlation, elsewhere })
    }

    fn step_s(&self) -> f64 {
        COARSE * self.interval_s
    }

    /// By how many steps the offset of a later pattern may differ, for the drift until then.
    fn slack(&self, first: &Shape, shape: &Shape, max_drift: f64) -> i64 {
        let apart_s = shape.begin_s - first.begin_s;
        if apart_s > 0.0 { (max_drift.abs() * apart_s / self.step_s()).ceil() as i64 } else { 0 }
    }

    /// The grid's positions within the range at which the log has samples in every pattern. The range alone
    /// has no bound: a clock may be wrong by decades.
    fn positions(&self, shapes: &[Shape], max_drift: f64) -> Option<RangeInclusive<i64>> {
        let (first_s, last_s) = (self.steps.first()?.middle_s(), self.steps.last()?.middle_s());
        let reach = (self.range_s / self.step_s()).ceil() as i64;
        let (mut low, mut high) = (-reach, reach);
        for shape in shapes {
            let slack = self.slack(&shapes[0], shape, max_drift);
            low = low.max(((first_s - shape.end_s) / self.step_s()).floor() as i64 - slack);
            high = high.min(((last_s - shape.begin_s) / self.step_s()).ceil() as i64 + slack);
        }
        (low <= high).then_some(low..=high)
    }

    /// The pattern averaged over an interval about each instant, from its start.
    fn table(&self, shape: &Shape) -> Vec<f64> {
        let half_s = 0.5 * self.interval_s;
        let count = ((shape.end_s - shape.begin_s) / (TABLE * self.interval_s)) as usize + 2;
        let instants = (0..count).map(|at| shape.begin_s + at as f64 * TABLE * self.interval_s);
        instants.map(|at_s| shape.share(at_s - half_s, at_s + half_s)).collect()
    }

    /// Correlation of the log with the pattern at an offset; -∞ if the log lacks samples, 0 if it does not
    /// vary.
    fn correlation(&self, shape: &Shape, table: &[f64], offset_s: f64) -> f64 {
        let steps = between(self.steps, shape.begin_s + offset_s, shape.end_s + offset_s);
        let count = steps.len() as f64;
        if count * self.interval_s < LEAST_SAMPLES * (shape.end_s - shape.begin_s) {
            return f64::NEG_INFINITY;
        }
        let (zero_s, per_s, level) =
            (shape.begin_s + offset_s, 1.0 / (TABLE * self.interval_s), steps[0].watts);
        let [mut x, mut y, mut xx, mut xy, mut yy] = [0.0; 5];
        for step in steps {
            let load = table[((step.middle_s() - zero_s) * per_s).round() as usize];
            let watts = step.watts - level;
            x += load;
            y += watts;
            xx += load * load;
            xy += load * watts;
            yy += watts * watts;
        }
        let spread = (count * xx - x * x) * (count * yy - y * y);
        if spread > 0.0 { (count * xy - x * y) / spread.sqrt() } else { 0.0 }
    }
}

/// One pattern's correlations over the grid.
struct Scores {
    slack: i64,
    /// Grid position of the first value.
    first: i64,
    values: Vec<f64>,
}

impl Scores {
    /// The best grid position within the slack about another one, and its correlation.
    fn near(&self, at: i64) -> (i64, f64) {
        let around: RangeInclusive<i64> = at - self.slack..=at + self.slack;
        let scored =
            around.filter_map(|at| Some((at, *self.values.get(usize::try_from(at - self.first).ok()?)?)));
        scored.max_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or((at, f64::NEG_INFINITY))
    }
}

/// The steps whose middle lies in a range of the log's time.
pub(crate) fn between(steps: &[Step], from_s: f64, to_s: f64) -> &[Step] {
    let from = steps.partition_point(|step| step.middle_s() < from_s);
    let to = steps.partition_point(|step| step.middle_s() <= to_s);
    &steps[from.min(to)..to]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::Curve;
    use crate::meter::{ChannelKind, Value};
    use crate::pattern::Pattern;
    use crate::samples::Sample;

    /// A clock that may be wrong by 230000 h took 26 GB.
    #[test]
    fn only_offsets_at_which_the_log_has_samples_are_looked_at() {
        let sample = |at: i32| Sample { at_s: f64::from(at), jitter_s: 0.0, value: Value::Watts(1.0) };
        let samples: Vec<Sample> = (100..=200).map(sample).collect();
        let curve = Curve::new(ChannelKind::Instant, &samples);
        let shape = Pattern::played(0, &[1_000_000_000, 2_000_000_000], 60_250_000_000).unwrap().shape(0);
        let coarse = |range_s: f64| Coarse { steps: &curve.steps, interval_s: 1.0, range_s };
        let of = |range_s: f64, shapes: &[Shape]| coarse(range_s).positions(shapes, 0.0);
        let one = [shape.clone()];
        assert_eq!(of(230_000.0 * 3600.0, &one), Some(79..=400));
        assert_eq!(of(50.0, &one), Some(79..=100));
        assert_eq!(of(39.0, &one), None);
        let later = Pattern::played(90_000_000_000, &[91_000_000_000, 92_000_000_000], 150_000_000_000);
        assert_eq!(of(1e9, &[shape.clone(), later.unwrap().shape(0)]), Some(79..=220));
        assert_eq!(Coarse { steps: &[], interval_s: 1.0, range_s: 1e9 }.positions(&one, 0.0), None);
    }
}
