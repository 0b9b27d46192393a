//! A channel's readings on the host's clock, and the joules of a window with the random part of their
//! uncertainty.

use crate::align::Alignment;
use crate::cadence::{Cadence, median_period_s};
use crate::curve::{Curve, Form, Position, Step, Weights};
use crate::line::{Point, residual_dof, residual_square};
use crate::meter::{Channel, ChannelKind, Reading, Value};
use crate::samples::{Incomplete, NEEDED, Sample, in_order};
use crate::uncertainty::{Component, Energy, UncertaintySource};

/// A stretch of time, `CLOCK_MONOTONIC_RAW` in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Window {
    /// Start.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
}

impl Window {
    /// Length; 0 if the end is before the start.
    pub fn seconds(self) -> f64 {
        self.end_ns.saturating_sub(self.begin_ns) as f64 * 1e-9
    }

    /// The middle.
    pub fn middle_ns(self) -> u64 {
        self.begin_ns.midpoint(self.end_ns)
    }
}

/// Whose time stamps place the readings.
#[derive(Clone, Copy, Debug)]
pub enum Clock<'a> {
    /// The host's: the middle between the start and the end of the reading.
    Host {
        /// How old a value may be when it is read: the period at which the meter renews it, 0 if each reading
        /// measures. Half of it is assumed, with a rectangular uncertainty.
        age_ns: u64,
        /// How far all times may be off together: 0 of this host's clock, and of another host's how far its
        /// offset from this one may be wrong. A rectangle about 0.
        within_ns: u64,
    },
    /// The meter's own, aligned. Readings without the meter's time are left out.
    Own(&'a Alignment),
}

impl Clock<'_> {
    /// Standard uncertainty in s that all readings about a host time share.
    fn standard_s(self, host_ns: i64) -> f64 {
        match self {
            Self::Host { age_ns, within_ns } => {
                (age_ns as f64 / 12f64.sqrt()).hypot(within_ns as f64 / 3f64.sqrt()) * 1e-9
            }
            Self::Own(alignment) => alignment.uncertainty_ns(host_ns) * 1e-9,
        }
    }
}

/// A channel's readings on the host's clock, ready to be integrated over many windows.
#[derive(Clone, Debug)]
pub struct Trace<'a> {
    channel: &'a Channel,
    clock: Clock<'a>,
    /// Host time of 0 s.
    origin_ns: i64,
    curve: Curve,
    /// The median time between two values; absent with fewer than two.
    period_s: Option<f64>,
}

impl<'a> Trace<'a> {
    /// Takes the readings whose [`Reading::channel`] is `index`, in the order in which they were made; of
    /// several with one time stamp the first counts. `changes_ns` are the host times at which load is known
    /// to have gone on or off: there power may jump.
    ///
    /// # Errors
    /// [`Incomplete::Disordered`] if time stamps go back.
    pub fn new(
        channel: &'a Channel,
        index: usize,
        readings: &[Reading],
        clock: Clock<'a>,
        changes_ns: &[u64],
    ) -> Result<Self, Incomplete> {
        let (origin_ns, mut samples) = samples(index, readings, clock)?;
        let seconds = |at_ns: i64| at_ns.saturating_sub(origin_ns) as f64 * 1e-9;
        let period_s = median_period_s(samples.iter().map(|sample| sample.at_s));
        let changes: Vec<i64> = changes_ns.iter().map(|at_ns| *at_ns as i64).collect();
        let mut unplaced = Vec::new();
        if channel.kind == ChannelKind::Instant {
            // Samples that the clock cannot place before or after the change are left out: they are no steps,
            // but no gap either.
            let unsure = changes.iter().map(|at_ns| (seconds(*at_ns), 2.0 * clock.standard_s(*at_ns)));
            let unsure: Vec<(f64, f64)> = unsure.collect();
            let is_placed =
                |sample: &Sample| unsure.iter().all(|(at_s, near_s)| (sample.at_s - at_s).abs() >= *near_s);
            // The first before all changes, and the last after them, remain: else nothing would show that
            // readings reach beyond them, and what power is there.
            let first = samples.first().map(|first| first.at_s);
            let first = first.filter(|first_s| unsure.iter().all(|(at_s, _)| first_s < at_s));
            let last = samples.last().map(|last| last.at_s);
            let last = last.filter(|last_s| unsure.iter().all(|(at_s, _)| last_s > at_s));
            samples.retain(|sample| {
                let is_kept = is_placed(sample) || [first, last].contains(&Some(sample.at_s));
                if !is_kept {
                    unplaced.push(sample.at_s);
                }
                is_kept
            });
        }
        let mut curve = Curve::new(channel.kind, &samples).with_unplaced(unplaced);
        changes.into_iter().for_each(|at_ns| curve.change(seconds(at_ns)));
        Ok(Self { channel, clock, origin_ns, curve, period_s })
    }

    /// Joules over `window`: a counter's differences, instants by trapezoid, averages as steps. Partial
    /// intervals at the edges count in proportion to their time (on the straight line between two instants),
    /// or up to a known change. Gaps up to `bridge_ns` are bridged by a straight line.
    ///
    /// # Errors
    /// [`Incomplete`] says why the readings do not give the energy.
    pub fn energy(&self, window: Window, bridge_ns: u64) -> Result<Energy, Incomplete> {
        self.covered(window, bridge_ns).map_err(|fault| self.reason(fault, window, bridge_ns))
    }

    /// Readings that are missing because the window is too short for the meter, or its values too rare, are
    /// no gap.
    fn reason(&self, fault: Incomplete, window: Window, bridge_ns: u64) -> Incomplete {
        match (&fault, self.period_s) {
            (Incomplete::LateStart | Incomplete::EarlyEnd, None) if self.curve.steps.is_empty() => {
                Incomplete::Silent
            }
            (Incomplete::Wraps { .. } | Incomplete::WentBack | Incomplete::Empty, _) | (_, None) => fault,
            (_, Some(period_s)) => {
                // A clock of this uncertainty hides as much about an edge as values of this age.
                let age_s = self.clock.standard_s(window.middle_ns() as i64) * 12f64.sqrt();
                let bridge_s = bridge_ns as f64 * 1e-9;
                let cadence = Cadence { kind: self.channel.kind, period_s, age_s, bridge_s };
                cadence.check(window.seconds()).err().unwrap_or(fault)
            }
        }
    }

    fn covered(&self, window: Window, bridge_ns: u64) -> Result<Energy, Incomplete> {
        if window.end_ns <= window.begin_ns {
            return Err(Incomplete::Empty);
        }
        let seconds_at = |at_ns: u64| (at_ns as i64).saturating_sub(self.origin_ns) as f64 * 1e-9;
        let (begin_s, end_s) = (seconds_at(window.begin_ns), seconds_at(window.end_ns));
        let weights = self.curve.weights(begin_s, end_s, bridge_ns as f64 * 1e-9)?;
        let joules = weights.joules(&self.curve.steps);
        let edges = [Edge::new(&self.curve, begin_s, Side::Begin), Edge::new(&self.curve, end_s, Side::End)];
        let certain = |source, joules| Component { source, joules, dof: None };
        let mut random = vec![
            certain(UncertaintySource::Edges, edges[0].joules.hypot(edges[1].joules)),
            certain(UncertaintySource::Clock, self.clock_joules(window, joules, &edges)),
        ];
        if self.curve.form == Form::Counted {
            // Both counts are rounded, each by a rectangle as wide as the resolution (JCGM 100:2008,
            // F.2.2.1).
            random.push(certain(UncertaintySource::Resolution, self.channel.resolution.abs() / 6f64.sqrt()));
            random.push(certain(
                UncertaintySource::Jitter,
                edges[0].jitter_joules.hypot(edges[1].jitter_joules),
            ));
        } else {
            let inside = inside(&self.curve.steps, begin_s, end_s);
            let noise = Noise::of(inside).ok_or(Incomplete::TooFew { found: inside.len() })?;
            let joules_of = |deviation_s: f64| noise.watts * deviation_s;
            let scatter =
                |source, seconds| Component { source, joules: joules_of(seconds), dof: Some(noise.dof) };
            random.push(scatter(UncertaintySource::Noise, root_of_squares(weights.seconds.iter().copied())));
            if self.curve.form == Form::Averaged {
                random.push(scatter(UncertaintySource::Gaps, root_of_squares(gaps(inside))));
            }
            random.push(certain(UncertaintySource::Jitter, jitter_joules(&self.curve.steps, &weights)));
            random
                .push(certain(UncertaintySource::Resolution, self.rounding_joules(&noise, window.seconds())));
        }
        random.retain(|component| component.joules > 0.0);
        Ok(Energy { joules, seconds: window.seconds(), random, accuracy: self.channel.accuracy })
    }

    /// The effect of an error of the clock: a shift exchanges power at one edge for power at the other, a
    /// drift stretches the window.
    fn clock_joules(&self, window: Window, joules: f64, [begin, end]: &[Edge; 2]) -> f64 {
        let shift_s = self.clock.standard_s(window.middle_ns() as i64);
        let drift = match self.clock {
            Clock::Host { .. } => 0.0,
            Clock::Own(alignment) => alignment.drift_uncertainty(),
        };
        let difference = (end.high - begin.low).abs().max((end.low - begin.high).abs());
        (shift_s * difference).hypot(drift * joules)
    }

    /// Rounding that noise does not scatter is the same in every reading. Scattered, it is part of the noise.
    fn rounding_joules(&self, noise: &Noise, seconds: f64) -> f64 {
        let resolution = self.channel.resolution.abs();
        if noise.watts < 0.5 * resolution { resolution / 12f64.sqrt() * seconds } else { 0.0 }
    }
}

/// Power over time from a channel's readings: host times in ns, in order, with W. A gauge gives its value, a
/// counter the mean power since the reading before, across a wrap-around; if that is unknown, the later
/// reading is left out. `index`, `readings` and `clock` are those of [`Trace::new`].
///
/// # Errors
/// [`Incomplete::Disordered`] if time stamps go back.
pub fn powers(
    channel: &Channel,
    index: usize,
    readings: &[Reading],
    clock: Clock,
) -> Result<Vec<(u64, f64)>, Incomplete> {
    let (origin_ns, samples) = samples(index, readings, clock)?;
    let powers: Vec<(f64, f64)> = match channel.kind {
        ChannelKind::Counter { .. } => {
            Curve::new(channel.kind, &samples).steps.iter().map(|step| (step.end_s, step.watts)).collect()
        }
        ChannelKind::Instant | ChannelKind::Average { .. } => {
            let watts = |sample: &Sample| match sample.value {
                Value::Watts(watts) if watts.is_finite() => Some((sample.at_s, watts)),
                Value::Watts(_) | Value::Count(_) => None,
            };
            samples.iter().filter_map(watts).collect()
        }
    };
    let on_host = |(at_s, watts): (f64, f64)| {
        let at_ns = origin_ns.saturating_add((at_s * 1e9).round() as i64);
        Some((u64::try_from(at_ns).ok()?, watts))
    };
    Ok(powers.into_iter().filter_map(on_host).collect())
}

/// A channel's samples on the host's clock, and the host time of their 0 s.
fn samples(index: usize, readings: &[Reading], clock: Clock) -> Result<(i64, Vec<Sample>), Incomplete> {
    let stamped: Vec<(i64, f64, Value)> = readings
        .iter()
        .filter(|reading| reading.channel == index)
        .filter_map(|reading| stamp(reading, clock).map(|(at_ns, jitter_s)| (at_ns, jitter_s, reading.value)))
        .collect();
    let origin_ns = stamped.first().map_or(0, |first| first.0);
    let seconds = |at_ns: i64| at_ns.saturating_sub(origin_ns) as f64 * 1e-9;
    let samples =
        stamped.into_iter().map(|(at_ns, jitter_s, value)| Sample { at_s: seconds(at_ns), jitter_s, value });
    Ok((origin_ns, in_order(samples)?))
}

/// Host time of a reading, and the standard uncertainty of its jitter in s; `None` if it lacks the time of
/// this clock.
fn stamp(reading: &Reading, clock: Clock) -> Option<(i64, f64)> {
    match clock {
        Clock::Host { age_ns, .. } => {
            let middle_ns = reading.begin_ns.midpoint(reading.end_ns) as i64;
            let width_s = reading.end_ns.saturating_sub(reading.begin_ns) as f64 * 1e-9;
            Some((middle_ns.saturating_sub_unsigned(age_ns / 2), width_s / 12f64.sqrt()))
        }
        Clock::Own(alignment) => reading.own_ns.map(|own_ns| (alignment.host_ns(own_ns), 0.0)),
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Begin,
    End,
}

/// The uncertainty of the power at an edge of the window.
#[derive(Clone, Copy, Debug)]
struct Edge {
    /// Standard uncertainty of the partial interval's energy.
    joules: f64,
    /// The same from the jitter of a counter's reads.
    jitter_joules: f64,
    /// Bounds of the power about the edge.
    low: f64,
    high: f64,
}

impl Edge {
    fn new(curve: &Curve, at_s: f64, side: Side) -> Self {
        match curve.position(at_s) {
            Position::Step { index, fraction } => Self::in_step(&curve.steps, index, fraction),
            Position::Gap { index, fraction } => {
                let (here, next) = (curve.steps[index], curve.steps[index + 1]);
                Self::in_gap(here, next, if side == Side::Begin { 1.0 - fraction } else { fraction })
            }
        }
    }

    /// The step's energy is known, its shape is not: power is assumed to stay between that of the neighbours
    /// and its own. The result is how far the energy before the edge can then be from its share in
    /// proportion.
    fn in_step(steps: &[Step], index: usize, fraction: f64) -> Self {
        let step = steps[index];
        let neighbours = [index.checked_sub(1).and_then(|before| steps.get(before)), steps.get(index + 1)];
        let changes = [step.is_after_change, neighbours[1].is_some_and(|next| next.is_after_change)];
        // Without a neighbour, anything from 0 to twice the power is possible; a neighbour beyond a change
        // shows nothing.
        let bounds = |neighbour: Option<&Step>, is_apart: bool| match neighbour {
            _ if is_apart => [step.watts; 2],
            Some(neighbour) => [neighbour.watts, step.watts],
            None => [0.0, 2.0 * step.watts],
        };
        let [before, after] = [bounds(neighbours[0], changes[0]), bounds(neighbours[1], changes[1])];
        let all = before.iter().chain(&after);
        let (low, high) =
            all.fold((step.watts, step.watts), |(low, high), watts| (low.min(*watts), high.max(*watts)));
        let share = fraction * step.watts;
        let least = (fraction * low).max(step.watts - (1.0 - fraction) * high);
        let most = (fraction * high).min(step.watts - (1.0 - fraction) * low);
        let about = neighbours.into_iter().flatten().map(|neighbour| neighbour.watts);
        Self {
            joules: (share - least).max(most - share).max(0.0) * step.seconds(),
            jitter_joules: step.watts.abs() * step.jitter_s * fraction.hypot(1.0 - fraction),
            low: about.clone().fold(low, f64::min),
            high: about.fold(high, f64::max),
        }
    }

    /// `share` of the gap is in the window. Power goes from one neighbour's to the other's in one step,
    /// either anywhere in the gap or at the edge itself; the larger mean square error of the straight line
    /// counts.
    fn in_gap(here: Step, next: Step, share: f64) -> Self {
        let (difference, seconds) = ((next.watts - here.watts).abs(), next.begin_s - here.end_s);
        let anywhere = share.powi(3) / 3.0 - share.powi(4) / 4.0;
        let at_the_edge = share.powi(4) / 4.0;
        Self {
            joules: difference * seconds * anywhere.max(at_the_edge).sqrt(),
            jitter_joules: 0.0,
            low: here.watts.min(next.watts),
            high: here.watts.max(next.watts),
        }
    }
}

/// The steps whose readings are wholly within a window, however far a change has extended them.
fn inside(steps: &[Step], begin_s: f64, end_s: f64) -> &[Step] {
    let from = steps.partition_point(|step| step.read[0] < begin_s);
    let to = steps.partition_point(|step| step.read[1] <= end_s);
    &steps[from.min(to)..to]
}

/// Scatter of single readings.
#[derive(Clone, Copy, Debug)]
struct Noise {
    watts: f64,
    dof: f64,
}

impl Noise {
    /// From the residual of each reading to the straight line between its neighbours: slow changes of power
    /// do not count as noise.
    fn of(steps: &[Step]) -> Option<Self> {
        if steps.len() < NEEDED {
            return None;
        }
        let steady = |three: &&[Step]| !three[1].is_after_change && !three[2].is_after_change;
        let squares = steps.windows(3).filter(steady).map(|three| {
            let point = |step: &Step| Point { x: step.middle_s(), y: step.watts, standard: 1.0 };
            residual_square([&three[0], &three[1], &three[2]].map(point))
        });
        let (squares, count) = squares.fold((0.0, 0.0), |(sum, count), square| (sum + square, count + 1.0));
        if count < (NEEDED - 2) as f64 {
            return None;
        }
        Some(Self { watts: f64::sqrt(squares / count), dof: residual_dof(count) })
    }
}

/// The time that no average covers, per gap: power there scatters about the bridge as readings do.
fn gaps(steps: &[Step]) -> impl Iterator<Item = f64> {
    steps.windows(2).map(|pair| {
        let seconds = pair[1].begin_s - pair[0].end_s;
        // A gap of several windows holds several independent deviations.
        seconds.max(0.0).sqrt() * seconds.max(0.0).min(pair[0].seconds()).sqrt()
    })
}

/// A wrong time of a reading exchanges its neighbours' power: for an average, the power on both sides of it;
/// for an instant, half of the difference of its neighbours, of which the root of the squares is an upper
/// bound.
fn jitter_joules(steps: &[Step], weights: &Weights) -> f64 {
    let last = (weights.first + weights.seconds.len()).min(steps.len());
    let pairs = steps[weights.first..last].windows(2);
    root_of_squares(pairs.map(|pair| (pair[1].watts - pair[0].watts) * pair[0].jitter_s))
}

fn root_of_squares(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests;
