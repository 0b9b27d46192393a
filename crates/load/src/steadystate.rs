//! When a ramp ends: a straight line through its rates decides it.
//!
//! The words are fio's. fio ends a job when the rate is steady; here the ramp ends, and the window follows.

use iopj_core::SteadyStateRule;
use iopj_core::evidence::SteadyState;
use std::collections::VecDeque;
use std::time::Duration;

/// Rates that the line is fitted to, and the fewest if looks were missed because others had the processor.
const RATES: usize = 20;
const FEWEST_RATES: usize = 5;
/// Student's t for 3 to 19 degrees of freedom: `scipy.stats.t.ppf(0.975, 3)` and so on (SciPy 1.17.1).
const T: [f64; RATES - 3] = [
    3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139, 2.200985, 2.178813,
    2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024,
];
/// The stretches that a line is fitted to, as multiples of the one that the study declares: if noise hides
/// the slope over one, the next is tried.
const STRETCHES: [u32; 4] = [1, 2, 4, 8];
/// The looks that the longest of them needs.
const MOST_LOOKS: usize = STRETCHES[3] as usize * RATES + 1;

/// How often to look at the rate.
pub(crate) fn interval(rule: &SteadyStateRule) -> Duration {
    rule.duration / RATES as u32
}

/// A ramp that is being watched.
pub(crate) struct Watch {
    rule: SteadyStateRule,
    begin_ns: u64,
    /// Times, and the I/Os until then: as many as the longest stretch needs.
    looks: VecDeque<(u64, u64)>,
    line: Option<Line>,
    attained: bool,
    is_over: bool,
}

/// A line through the rates of a stretch of that length.
#[derive(Clone, Copy)]
struct Line {
    fit: Fit,
    over_ns: u64,
}

/// A straight line through rates or powers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Its rise or fall over the stretch, as a share of the mean.
    change: f64,
    /// Half of the 95 % interval of that.
    noise: f64,
}

impl Fit {
    /// True if the whole interval of the slope is within a share of the mean: noise alone is not flat.
    pub fn is_flat(&self, share: f64) -> bool {
        self.change.abs() + self.noise <= share
    }

    /// True if the whole interval is beyond it.
    fn is_steep(&self, share: f64) -> bool {
        self.change.abs() - self.noise > share
    }
}

impl Watch {
    /// A ramp that begins now.
    pub(crate) fn new(rule: SteadyStateRule, begin_ns: u64) -> Watch {
        let mut looks = VecDeque::with_capacity(MOST_LOOKS + 1);
        looks.push_back((begin_ns, 0));
        Watch { rule, begin_ns, looks, line: None, attained: false, is_over: false }
    }

    /// Takes a look at `now_ns`, when `ios` were done. True once the ramp is over: it is as long as it may
    /// be, or long enough and steady. So the rule is applied at the limit too.
    pub(crate) fn look(&mut self, now_ns: u64, ios: u64) -> bool {
        let lasted_ns = now_ns.saturating_sub(self.begin_ns);
        let [shortest_ns, longest_ns] = self.rule.ramp.map(|length| length.as_nanos() as u64);
        let interval_ns = interval(&self.rule).as_nanos() as u64;
        if self.is_over || self.looks.back().is_some_and(|(last_ns, _)| now_ns < last_ns + interval_ns) {
            return self.is_over;
        }
        if self.looks.len() == MOST_LOOKS {
            self.looks.pop_front();
        }
        self.looks.push_back((now_ns, ios));
        self.line = self.decided();
        let is_flat = self.line.is_some_and(|line| line.fit.is_flat(self.rule.change));
        self.attained = lasted_ns >= shortest_ns && is_flat;
        self.is_over = self.attained || lasted_ns >= longest_ns;
        self.is_over
    }

    /// The line over the shortest stretch that shows whether it is flat or steep; if noise hides that over
    /// all of them, the line over the longest.
    fn decided(&self) -> Option<Line> {
        let mut last = None;
        for stretch in STRETCHES {
            let looks = self.looks_over(stretch);
            let Some(fit) = fit(&looks, self.rule.duration * stretch, self.rule.duration) else { break };
            last = Some(Line { fit, over_ns: looks[looks.len() - 1].0 - looks[0].0 });
            if fit.is_flat(self.rule.change) || fit.is_steep(self.rule.change) {
                break;
            }
        }
        last
    }

    /// The looks of the last `stretch` durations, far enough apart to give [`RATES`] rates. If looks were
    /// missed, the stretch becomes longer rather than the rates too few.
    fn looks_over(&self, stretch: u32) -> Vec<(u64, u64)> {
        let [apart_ns, span_ns] =
            [interval(&self.rule), self.rule.duration].map(|each| (each * stretch).as_nanos() as u64);
        let mut looks: Vec<(u64, u64)> = Vec::with_capacity(RATES + 1);
        for look in self.looks.iter().rev() {
            let is_enough = |looks: &[(u64, u64)]| {
                let spans = looks[0].0 - looks[looks.len() - 1].0 >= span_ns;
                looks.len() > RATES || (looks.len() > FEWEST_RATES && spans)
            };
            match looks.last() {
                Some(_) if is_enough(&looks) => break,
                Some((at_ns, _)) if look.0 + apart_ns > *at_ns => {}
                _ => looks.push(*look),
            }
        }
        looks.reverse();
        looks
    }

    /// The result, at the ramp's end.
    pub(crate) fn end(&self, now_ns: u64) -> SteadyState {
        SteadyState {
            ramp_ns: now_ns.saturating_sub(self.begin_ns),
            duration_ns: self.rule.duration.as_nanos() as u64,
            limit: self.rule.change,
            change: self.line.map(|line| line.fit.change),
            noise: self.line.map(|line| line.fit.noise),
            over_ns: self.line.map(|line| line.over_ns),
            attained: self.attained,
        }
    }
}

/// The line through the rates between looks, each weighted with its length: its rise or fall over `duration`.
/// None before they span `stretch`, if they are too few, or without an I/O.
fn fit(looks: &[(u64, u64)], stretch: Duration, duration: Duration) -> Option<Fit> {
    let (origin_ns, last_ns) = (looks.first()?.0, looks.last()?.0);
    if looks.len() <= FEWEST_RATES || u128::from(last_ns - origin_ns) < stretch.as_nanos() {
        return None;
    }
    let rate = |pair: &[(u64, u64)]| {
        let [(from_ns, from), (to_ns, to)] = [pair[0], pair[1]];
        let seconds = (to_ns - from_ns) as f64 / 1e9;
        let middle = (from_ns - origin_ns) as f64 / 1e9 + seconds / 2.0;
        (middle, to.saturating_sub(from) as f64 / seconds, seconds)
    };
    line(&looks.windows(2).map(rate).collect::<Vec<_>>(), duration.as_secs_f64())
}

/// The straight line through 5 to 21 points of x, y and weight: its rise over a length of x, and half of the
/// 95 % interval of that, as shares of the mean of y.
pub fn line(points: &[(f64, f64, f64)], length: f64) -> Option<Fit> {
    let t = *T.get(points.len().checked_sub(FEWEST_RATES)?)?;
    let sum =
        |of: &dyn Fn(&(f64, f64, f64)) -> f64| points.iter().map(|point| point.2 * of(point)).sum::<f64>();
    let weight = sum(&|_| 1.0);
    let (x, y) = (sum(&|point| point.0) / weight, sum(&|point| point.1) / weight);
    let squares = sum(&|point| (point.0 - x).powi(2));
    let slope = sum(&|point| (point.0 - x) * (point.1 - y)) / squares;
    let residual = sum(&|point| (point.1 - y - slope * (point.0 - x)).powi(2));
    let error = (residual / (points.len() as f64 - 2.0) / squares).sqrt();
    let share = length / y.abs();
    let fit = Fit { change: slope * share, noise: t * error * share };
    (fit.change.is_finite() && fit.noise.is_finite()).then_some(fit)
}

#[cfg(test)]
mod tests;
