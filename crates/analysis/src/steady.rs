//! Trials that were not steady: by the study's own rule when the window started, by a trend over it, or as a
//! replicate far from the others of its cell.
//!
//! Flagged trials still count. Results without those of the first two kinds are shown beside the results with
//! them.

use super::grouping::{grouped, setup};
use super::stats::{LEVEL, median, p_statement, slope};
use iopj_core::VerdictKind;
use iopj_core::evidence::SteadyState;
use iopj_record::{Measurement, Slice, Trial};
use std::fmt;

/// Rise or fall of the rate over the window, relative to its mean, above which a significant trend is
/// flagged.
pub const TREND: f64 = 0.1;
/// Windows with fewer slices are not examined for a trend: half a second.
pub const TREND_SLICES: usize = 10;
/// Modified z-score above which a replicate is an outlier (Iglewicz and Hoaglin 1993).
pub const FAR_OFF: f64 = 3.5;
/// Cells with fewer replicates are not examined for outliers.
pub const FAR_OFF_REPLICATES: usize = 4;

/// A trial that was not steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flag {
    /// Index of the trial in the slice examined.
    pub trial: usize,
    /// Why.
    pub reason: Unsteady,
}

/// Why a trial is flagged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unsteady {
    /// The ramp reached its limit, and the rate was not steady by the study's rule.
    Ramp(SteadyState),
    /// The rate rose or fell over the window.
    Trend {
        /// The rate in IOPS at the start of the fitted line; 0 if the line is negative there.
        from: f64,
        /// The rate at its end.
        to: f64,
        /// The two-sided p-value of the slope.
        p: f64,
    },
    /// The trial's IOPS are far from those of its cell.
    FarOff {
        /// The trial's IOPS.
        iops: f64,
        /// The median IOPS of the cell.
        median: f64,
        /// The modified z-score.
        z: f64,
    },
}

impl fmt::Display for Unsteady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsteady::Ramp(state) => of_state(f, state),
            Unsteady::Trend { from, to, p } => {
                let word = if to < from { "fell" } else { "rose" };
                let p = p_statement(*p);
                write!(f, "its rate {word} from {from:.0} to {to:.0} IOPS over the window ({p})")
            }
            Unsteady::FarOff { iops, median, z } => write!(
                f,
                "its {iops:.0} IOPS are far from the {median:.0} of the other replicates (modified z-score \
                 {z:.1})"
            ),
        }
    }
}

/// The ramp rule's result at its limit: the rate changed, noise hides whether it did, or nothing could be
/// determined.
fn of_state(f: &mut fmt::Formatter<'_>, state: &SteadyState) -> fmt::Result {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let of = format!("after a ramp of {:.1} s, the longest allowed", seconds(state.ramp_ns));
    let [duration_s, over_s] = [state.duration_ns, state.over_ns.unwrap_or(state.duration_ns)].map(seconds);
    let Some(change) = state.change else {
        return write!(f, "its rate over {duration_s:.1} s could not be determined {of}");
    };
    let percent = |share: f64| share * 100.0;
    let limit = percent(state.limit);
    match state.noise {
        Some(noise) if change.abs() - noise <= state.limit => write!(
            f,
            "noise hides the slope of its rate {of}: {:+.0} ± {:.0} % of its mean in {duration_s:.1} s, by \
             the last {over_s:.1} s; the rule allows {limit:.0} %",
            percent(change),
            percent(noise)
        ),
        _ => {
            let word = if change < 0.0 { "fell" } else { "rose" };
            // The line's ends: by what it changes is no share of where it began.
            let [from, to] = [-0.5, 0.5].map(|end| percent((1.0 + end * change).max(0.0)));
            write!(
                f,
                "its rate still {word} from {from:.0} to {to:.0} % of its mean in {duration_s:.1} s {of}; \
                 the rule allows a change of {limit:.0} %"
            )
        }
    }
}

/// Every flag of `trials`, in their order. Failed trials have none. Refuted ones are checked only for a
/// trend: they are not replicates of the path that their cell is named after.
pub fn unsteady(trials: &[Trial]) -> Vec<Flag> {
    let mut flags: Vec<Flag> = Vec::new();
    let mut unrefuted = Vec::new();
    for (index, trial) in trials.iter().enumerate() {
        let Some(measurement) = trial.outcome.measurement() else { continue };
        let reasons = of_ramp(measurement).into_iter().chain(trend(&measurement.series));
        flags.extend(reasons.map(|reason| Flag { trial: index, reason }));
        if measurement.verdict.kind != VerdictKind::Refuted {
            unrefuted.push(((trial.path, setup(trial)), index));
        }
    }
    for (_, cell) in grouped(unrefuted) {
        let iops = |index: &usize| trials[*index].outcome.measurement().map_or(0.0, Measurement::iops);
        let values: Vec<f64> = cell.iter().map(iops).collect();
        flags.extend(far_off(&values).into_iter().map(|(place, reason)| Flag { trial: cell[place], reason }));
    }
    flags.sort_by_key(|flag| flag.trial);
    flags
}

fn of_ramp(measurement: &Measurement) -> Option<Unsteady> {
    measurement.evidence.steadystate.filter(|state| !state.attained).map(Unsteady::Ramp)
}

/// True if a trial's rate changed: by the study's rule when its window started, or over the window.
pub fn is_unsteady(measurement: &Measurement) -> bool {
    of_ramp(measurement).is_some() || trend(&measurement.series).is_some()
}

/// The trend of a window, if the line fitted to its rate changes by more than [`TREND`] and significantly so.
/// Slices are weighted by their length; one without length is skipped.
pub fn trend(series: &[Slice]) -> Option<Unsteady> {
    let mut points = Vec::with_capacity(series.len());
    let mut start_ns = 0;
    for slice in series {
        let length_s = slice.end_ns.saturating_sub(start_ns) as f64 / 1e9;
        if length_s > 0.0 {
            let middle_s = start_ns as f64 / 1e9 + length_s / 2.0;
            points.push((middle_s, slice.ios as f64 / length_s, length_s));
            start_ns = slice.end_ns;
        }
    }
    if points.len() < TREND_SLICES {
        return None;
    }
    let (slope, p) = slope(&points)?;
    let length_s: f64 = points.iter().map(|point| point.2).sum();
    let mean_rate = points.iter().map(|point| point.1 * point.2).sum::<f64>() / length_s;
    let change = slope * length_s / mean_rate;
    let at = |share: f64| (mean_rate * (1.0 + share * change)).max(0.0);
    let trend = Unsteady::Trend { from: at(-0.5), to: at(0.5), p };
    (change.is_finite() && change.abs() > TREND && p < LEVEL).then_some(trend)
}

/// The indexes of a cell's outliers. The scale is the median absolute deviation, or the mean one if that is
/// zero because more than half of the values are equal.
pub fn far_off(iops: &[f64]) -> Vec<(usize, Unsteady)> {
    let deviations = |median: f64| -> Vec<f64> { iops.iter().map(|value| (value - median).abs()).collect() };
    let Some(middle) = median(iops).filter(|_| iops.len() >= FAR_OFF_REPLICATES) else { return Vec::new() };
    let deviations = deviations(middle);
    // Both make the deviation comparable with the standard deviation of a normal distribution: 0.6745 is its
    // third quartile, 1.2533 is sqrt(pi / 2).
    let sigma = match median(&deviations) {
        Some(of_median) if of_median > 0.0 => of_median / 0.6745,
        _ => deviations.iter().sum::<f64>() / iops.len() as f64 * 1.253_314,
    };
    let scored = iops.iter().map(|value| (*value, (value - middle) / sigma)).enumerate();
    let far = scored.filter(|(_, (_, z))| z.is_finite() && z.abs() > FAR_OFF);
    far.map(|(place, (iops, z))| (place, Unsteady::FarOff { iops, median: middle, z })).collect()
}
