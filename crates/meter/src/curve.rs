//! Power over time as steps with straight lines between them: the common form of counters, instants and
//! averages.

use crate::meter::{ChannelKind, Value, Wrap};
use crate::samples::{Incomplete, Sample};
use std::ops::Range;

/// Counters that wrap around renew their value at least this often (RAPL: about every ms): the energy of this
/// time may appear late.
const RENEWAL_S: f64 = 0.1;

/// Constant power from `begin_s` to `end_s`; an instant has no length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) begin_s: f64,
    pub(crate) end_s: f64,
    pub(crate) watts: f64,
    /// Standard uncertainty of its time from the jitter of sampling.
    pub(crate) jitter_s: f64,
    /// The part that the reading itself shows: an extension up to a change of load is not in it.
    pub(crate) read: [f64; 2],
    /// Longest time without readings in the gap into which the step was extended, up to a change of load.
    held_s: f64,
    /// Whether load changed at its start: power does not continue from the step before.
    pub(crate) is_after_change: bool,
}

impl Step {
    fn new(begin_s: f64, end_s: f64, watts: f64, jitter_s: f64) -> Self {
        Self { begin_s, end_s, watts, jitter_s, read: [begin_s, end_s], held_s: 0.0, is_after_change: false }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.end_s - self.begin_s
    }

    /// The middle of the part that the reading shows.
    pub(crate) fn middle_s(&self) -> f64 {
        f64::midpoint(self.read[0], self.read[1])
    }
}

/// The readings that steps are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A counter's differences: the energy of a step is exact, its shape unknown.
    Counted,
    /// Averages: the same, with noise.
    Averaged,
    /// Instants: steps without length, except next to a change.
    Instants,
}

/// Steps in order of time, without overlap. Between two steps power is a straight line.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub(crate) steps: Vec<Step>,
    pub(crate) form: Form,
    /// Stretches of unknown energy.
    faults: Vec<(Range<f64>, Incomplete)>,
    /// Times of readings that are no step, because the clock cannot tell on which side of a change they are.
    unplaced: Vec<f64>,
}

/// The energy of a window as a weighted sum: `weights[i]` seconds of the power of step `first + i`.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    pub(crate) first: usize,
    pub(crate) seconds: Vec<f64>,
}

/// The position of an instant on a curve.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Position {
    /// Within step `index`, at this fraction of its length.
    Step { index: usize, fraction: f64 },
    /// Between steps `index` and `index + 1`, at this fraction of the gap.
    Gap { index: usize, fraction: f64 },
}

impl Curve {
    /// Samples must be in order of time. Values of the wrong kind, and those that are not finite, are left
    /// out.
    pub(crate) fn new(kind: ChannelKind, samples: &[Sample]) -> Self {
        match kind {
            ChannelKind::Counter { joules_per_count, wrap } => Self::counted(samples, joules_per_count, wrap),
            ChannelKind::Instant => Self::gauged(samples, 0.0, Form::Instants),
            ChannelKind::Average { window_ns } => {
                Self::gauged(samples, window_ns as f64 * 1e-9, Form::Averaged)
            }
        }
    }

    fn counted(samples: &[Sample], joules_per_count: f64, wrap: Option<Wrap>) -> Self {
        let mut curve =
            Self { steps: Vec::new(), form: Form::Counted, faults: Vec::new(), unplaced: Vec::new() };
        let counts = samples.iter().filter_map(|sample| match sample.value {
            Value::Count(count) => Some((sample, count)),
            Value::Watts(_) => None,
        });
        let counts: Vec<_> = counts.collect();
        for pair in counts.windows(2) {
            let ((from, before), (to, after)) = (pair[0], pair[1]);
            let span = from.at_s..to.at_s;
            let seconds = span.end - span.start;
            match difference(before, after, joules_per_count, wrap, seconds) {
                Ok(joules) => {
                    let jitter_s = from.jitter_s.max(to.jitter_s);
                    curve.steps.push(Step::new(span.start, span.end, joules / seconds, jitter_s));
                }
                Err(fault) => curve.faults.push((span, fault)),
            }
        }
        curve
    }

    fn gauged(samples: &[Sample], window_s: f64, form: Form) -> Self {
        let mut steps: Vec<Step> = Vec::with_capacity(samples.len());
        for sample in samples {
            let Value::Watts(watts) = sample.value else { continue };
            let (begin_s, end_s) = (sample.at_s - window_s, sample.at_s);
            let taken_s = steps.last().map_or(f64::NEG_INFINITY, |last| last.end_s);
            // A moving average says little new until half of its window is new; a small overlap is jitter.
            if watts.is_finite() && taken_s - begin_s <= 0.5 * window_s {
                steps.push(Step::new(begin_s.max(taken_s), end_s, watts, sample.jitter_s));
            }
        }
        Self { steps, form, faults: Vec::new(), unplaced: Vec::new() }
    }

    /// With the times, in order, of readings that are known but are no step: where they are is no gap.
    pub(crate) fn with_unplaced(self, unplaced: Vec<f64>) -> Self {
        Self { unplaced, ..self }
    }

    /// The longest time without readings.
    fn silence(&self, gap: Range<f64>) -> f64 {
        let within = self.unplaced.iter().copied().filter(|at_s| gap.contains(at_s));
        let (longest_s, last_s) = within
            .fold((0.0, gap.start), |(longest_s, last_s), at_s| (f64::max(longest_s, at_s - last_s), at_s));
        longest_s.max(gap.end - last_s)
    }

    /// Lets power jump at an instant at which load is known to change. In a gap, both neighbours are extended
    /// up to it. A step is cut in two: the parts keep its energy and differ as its neighbours do.
    pub(crate) fn change(&mut self, at_s: f64) {
        let Some(index) = self.steps.partition_point(|step| step.begin_s < at_s).checked_sub(1) else {
            return;
        };
        let Some(next) = self.steps.get(index + 1).copied() else { return };
        let here = self.steps[index];
        if at_s >= here.end_s {
            let held_s = self.silence(here.end_s..next.begin_s);
            self.steps[index] = Step { end_s: at_s, held_s: held_s.max(here.held_s), ..here };
            self.steps[index + 1] = Step { begin_s: at_s, held_s, is_after_change: true, ..next };
        } else if let Some(before) = index.checked_sub(1).map(|before| self.steps[before]) {
            let fraction = (at_s - here.begin_s) / here.seconds();
            let drop = before.watts - next.watts;
            let [from_s, to_s] = here.read;
            let until = [from_s, if from_s < at_s { to_s.min(at_s) } else { to_s }];
            let since = [if to_s > at_s { from_s.max(at_s) } else { from_s }, to_s];
            let watts = here.watts + (1.0 - fraction) * drop;
            self.steps[index] = Step { end_s: at_s, watts, read: until, ..here };
            let watts = here.watts - fraction * drop;
            let rest = Step { begin_s: at_s, watts, read: since, is_after_change: true, ..here };
            self.steps.insert(index + 1, rest);
        }
    }

    /// The energy from `begin_s` to `end_s` in terms of the steps.
    ///
    /// # Errors
    /// [`Incomplete`] if the readings do not cover both ends, if a gap is longer than `bridge_s`, or if a
    /// counter leaves the energy open.
    pub(crate) fn weights(&self, begin_s: f64, end_s: f64, bridge_s: f64) -> Result<Weights, Incomplete> {
        let touches = |span: &Range<f64>| span.start < end_s && begin_s < span.end;
        if let Some((_, fault)) = self.faults.iter().find(|(span, _)| touches(span)) {
            return Err(fault.clone());
        }
        let Some(first) = self.steps.partition_point(|step| step.begin_s <= begin_s).checked_sub(1) else {
            return Err(Incomplete::LateStart);
        };
        let mut seconds = vec![0.0];
        for (index, step) in self.steps.iter().enumerate().skip(first) {
            let at = index - first;
            let inside = end_s.min(step.end_s) - begin_s.max(step.begin_s);
            if inside > 0.0 {
                let is_guessed = self.form == Form::Counted && inside < step.seconds();
                let gap_s = step.held_s.max(if is_guessed { step.seconds() } else { 0.0 });
                if gap_s > bridge_s {
                    return Err(Incomplete::Gap { seconds: gap_s, limit_s: bridge_s });
                }
                seconds[at] += inside;
            }
            if end_s <= step.end_s {
                return Ok(Weights { first, seconds });
            }
            let next = self.steps.get(index + 1).ok_or(Incomplete::EarlyEnd)?;
            let [here, there] = line_weights(step.end_s..next.begin_s, begin_s..end_s, bridge_s)?;
            seconds[at] += here;
            seconds.push(there);
            if end_s <= next.begin_s {
                return Ok(Weights { first, seconds });
            }
        }
        Err(Incomplete::EarlyEnd)
    }

    /// The position of an instant that the readings cover, as [`Curve::weights`] has checked.
    pub(crate) fn position(&self, at_s: f64) -> Position {
        let index = self.steps.partition_point(|step| step.begin_s <= at_s).saturating_sub(1);
        let step = self.steps[index];
        let fraction = |from: f64, to: f64| if to > from { (at_s - from) / (to - from) } else { 0.0 };
        match self.steps.get(index + 1) {
            Some(next) if at_s > step.end_s => {
                Position::Gap { index, fraction: fraction(step.end_s, next.begin_s) }
            }
            _ => Position::Step { index, fraction: fraction(step.begin_s, step.end_s).min(1.0) },
        }
    }
}

impl Weights {
    /// Joules of these weights.
    pub(crate) fn joules(&self, steps: &[Step]) -> f64 {
        steps[self.first..].iter().zip(&self.seconds).map(|(step, seconds)| step.watts * seconds).sum()
    }
}

/// Weights of the powers at both ends of a gap in the integral of the straight line over its part in the
/// window.
fn line_weights(gap: Range<f64>, window: Range<f64>, bridge_s: f64) -> Result<[f64; 2], Incomplete> {
    let (from, to) = (gap.start.max(window.start), gap.end.min(window.end));
    if to <= from {
        return Ok([0.0; 2]);
    }
    let seconds = gap.end - gap.start;
    if seconds > bridge_s {
        return Err(Incomplete::Gap { seconds, limit_s: bridge_s });
    }
    let far = (to - from) * (f64::midpoint(from, to) - gap.start) / seconds;
    Ok([to - from - far, far])
}

/// Joules between two counts, `seconds` apart.
fn difference(
    before: u64,
    after: u64,
    joules_per_count: f64,
    wrap: Option<Wrap>,
    seconds: f64,
) -> Result<f64, Incomplete> {
    let Some(Wrap { range, max_watts }) = wrap else {
        let counts = after.checked_sub(before).ok_or(Incomplete::WentBack)?;
        return Ok(counts as f64 * joules_per_count);
    };
    let possible_j = max_watts * (seconds + RENEWAL_S);
    let counts =
        if after >= before { after - before } else { after.saturating_add(range.saturating_sub(before)) };
    let joules = counts as f64 * joules_per_count;
    if before >= range || after >= range || joules > possible_j + joules_per_count {
        return Err(Incomplete::WentBack);
    }
    if joules + range as f64 * joules_per_count <= possible_j {
        return Err(Incomplete::Wraps { seconds });
    }
    Ok(joules)
}
