//! A channel's values in order of time, and why a window of them may have no energy.

use crate::meter::Value;
use iopj_core::format_duration;
use std::time::Duration;
use thiserror::Error;

/// Readings of a gauge that must lie within a window: fewer do not show their own noise.
pub(crate) const NEEDED: usize = 4;

/// Why a window has no joules. The text names the cause and the remedy.
#[derive(Clone, Debug, Error, PartialEq)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum Incomplete {
    /// The window has no length.
    #[error("the measured window is empty: it does not end after it begins")]
    Empty,
    /// The window begins before the readings.
    #[error(
        "the meter's readings begin after the measured window does: start the meter, or its log, before the \
         study"
    )]
    LateStart,
    /// The window ends after the readings.
    #[error(
        "the meter's readings end before the measured window does: let the meter, or its log, run to the \
         end of the study"
    )]
    EarlyEnd,
    /// Readings are missing.
    #[error(
        "the meter has no reading for {seconds:.3} s, and gaps of at most {limit_s:.3} s are bridged: find \
         out why it fell silent, or allow longer gaps"
    )]
    Gap { seconds: f64, limit_s: f64 },
    /// The meter gave no value at all.
    #[error("the meter gave no reading: `iopj meter test` shows what it answers")]
    Silent,
    /// The window is too short for the meter.
    #[error(
        "the measured window is too short for the meter, which gives a value every {} s; the window must \
         hold {NEEDED} values: use a `runtime` of at least {}, or a faster meter",
        brief(*period_s), format_duration(*least)
    )]
    TooShort { period_s: f64, least: Duration },
    /// The time between two values is longer than any gap that is bridged.
    #[error(
        "the meter gives a value only every {} s, and gaps of at most {} s are bridged, so no window has \
         joules: leave `bridge` out, and set the meter's `interval` to the time between its values",
        brief(*period_s), brief(*limit_s)
    )]
    TooRare { period_s: f64, limit_s: f64 },
    /// Readings are missing in the window.
    #[error(
        "only {found} readings of the meter lie in the measured window, because it missed some, and {NEEDED} \
         are needed: find out why, or use a longer runtime"
    )]
    TooFew { found: usize },
    /// A counter may have wrapped around once more than its values show.
    #[error(
        "the energy counter may have wrapped around more than once in the {seconds:.3} s between two \
         readings: read it more often"
    )]
    Wraps { seconds: f64 },
    /// A counter lost energy, or gained more than its channel can use.
    #[error(
        "the energy counter went back, or forward by more than its channel can use: the meter was reset; \
         run the trial again"
    )]
    WentBack,
    /// Time stamps go back.
    #[error(
        "the meter's time goes back between two readings: its clock was set; do not let anything set it \
         during a study"
    )]
    Disordered,
}

/// One value on a time axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at_s: f64,
    pub(crate) jitter_s: f64,
    pub(crate) value: Value,
}

/// The samples if none goes back in time; of several at one time only the first.
pub(crate) fn in_order(samples: impl Iterator<Item = Sample>) -> Result<Vec<Sample>, Incomplete> {
    let mut ordered: Vec<Sample> = Vec::new();
    for sample in samples {
        match ordered.last() {
            Some(last) if sample.at_s < last.at_s => return Err(Incomplete::Disordered),
            Some(last) if sample.at_s == last.at_s => {}
            _ => ordered.push(sample),
        }
    }
    Ok(ordered)
}

/// Seconds as a message shows them: two digits or more.
fn brief(seconds: f64) -> String {
    let decimals = if seconds >= 10.0 { 0.0 } else { 1.0 - seconds.max(1e-3).log10().floor() };
    format!("{seconds:.*}", decimals.clamp(0.0, 4.0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_shown_with_two_digits() {
        assert_eq!([0.1, 1.0, 5.04, 60.2, 0.013].map(brief), ["0.10", "1.0", "5.0", "60", "0.013"]);
    }
}
