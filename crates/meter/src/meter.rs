//! The words of this crate: meter, channel, reading, accuracy, and the errors of opening and reading.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A source of energy or power. One thread drives it, and calls `read` at the meter's interval.
pub trait Meter: Send {
    /// The channels, in the order that [`Reading::channel`] counts. They do not change while the meter lives.
    fn channels(&self) -> &[Channel];

    /// Appends at most one reading per channel. A channel without a new value may be left out.
    ///
    /// # Errors
    /// [`MeterError`] says whether to give up, to try again, or that the meter has ended properly.
    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), MeterError>;
}

/// Why a reading failed, and what the caller should do. The text names the thing, the cause and the remedy.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MeterError {
    /// The meter will not come back: record that, and continue without it.
    #[error("{0}")]
    Fatal(String),
    /// This reading failed, and the next may succeed: a time limit, a busy BMC.
    #[error("{0}")]
    Retry(String),
    /// No more readings will come, as expected: a program that printed its last line.
    #[error("the meter has ended")]
    Ended,
}

/// Why a meter cannot be opened. The text names the thing, the cause and the remedy, and never a secret.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct OpenError(pub String);

impl From<MeterError> for OpenError {
    fn from(error: MeterError) -> Self {
        Self(error.to_string())
    }
}

pub use iopj_core::energy::{Scope, UnknownScope};

/// One quantity of a meter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Channel {
    /// Unique within the meter, and the same in every run: made of names, never of positions.
    pub name: String,
    /// What it measures.
    pub scope: Scope,
    /// What a reading's value means.
    pub kind: ChannelKind,
    /// The smallest step of a value: J for a counter, W for a gauge. 0 if it is too fine to matter.
    pub resolution: f64,
    /// What the maker or a calibration declares; absent if nobody declares anything (RAPL), and then nothing
    /// is assumed.
    pub accuracy: Option<Accuracy>,
    /// The channel that contains this one (a core domain's package): the two are never added up.
    pub parent: Option<String>,
}

impl Channel {
    /// A channel of the finest resolution, without a declared accuracy or a parent.
    pub fn new(name: impl Into<String>, scope: Scope, kind: ChannelKind) -> Self {
        Self { name: name.into(), scope, kind, resolution: 0.0, accuracy: None, parent: None }
    }
}

/// What a reading's value means.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChannelKind {
    /// A count of energy that only grows, [`Value::Count`].
    Counter {
        /// Joules of one count.
        joules_per_count: f64,
        /// How the counter wraps around; absent for one that never does.
        wrap: Option<Wrap>,
    },
    /// The power at the reading's instant, [`Value::Watts`].
    Instant,
    /// The mean power of the window that ends at the reading's instant, [`Value::Watts`].
    Average {
        /// Length of the window.
        window_ns: u64,
    },
}

/// How a counter wraps around, and how to distinguish one wrap-around from several.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wrap {
    /// Values run from 0 to `range` - 1. For powercap's `max_energy_range_uj`, the greatest value, this is
    /// one more.
    pub range: u64,
    /// Power that the channel cannot exceed. If it could have wrapped the counter once more between two
    /// reads, the energy between them is unknown.
    pub max_watts: f64,
}

/// The declared errors that all readings of a channel share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Error in proportion to the reading: 0.005 is 0.5 %.
    pub gain: Distribution,
    /// Error that is the same in every reading, in W.
    pub offset: Distribution,
}

/// A declared error about zero as the GUM reads it (JCGM 100:2008, 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// "Within plus or minus", and nothing more is known (4.3.7).
    Rectangular(f64),
    /// A standard deviation, from a calibration certificate (4.3.3 to 4.3.5).
    Normal(f64),
}

impl Distribution {
    /// No error.
    pub const NONE: Self = Self::Rectangular(0.0);

    /// Standard uncertainty: half-width over √3, or the standard deviation.
    pub fn standard(self) -> f64 {
        match self {
            Self::Rectangular(half_width) => half_width.abs() / 3f64.sqrt(),
            Self::Normal(deviation) => deviation.abs(),
        }
    }
}

/// One value of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Index into the meter's channels.
    pub channel: usize,
    /// Raw.
    pub value: Value,
    /// When reading began, `CLOCK_MONOTONIC_RAW` in ns; 0 in a log that was read afterwards.
    pub begin_ns: u64,
    /// When reading ended, on the same clock.
    pub end_ns: u64,
    /// Wall time at the end, ns since 1970; 0 in a log that was read afterwards.
    pub wall_ns: i64,
    /// The meter's own time of the value, ns since 1970 or any other start; absent if the meter has no clock.
    pub own_ns: Option<i64>,
}

/// A reading's raw value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Value {
    /// A counter's count.
    Count(u64),
    /// A gauge's power.
    Watts(f64),
}

/// The values of one reading.
#[cfg(test)]
pub(crate) fn values(meter: &mut dyn Meter) -> Vec<Value> {
    let mut out = Vec::new();
    meter.read(&mut out).unwrap();
    out.into_iter().map(|reading| reading.value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_have_one_text_form() {
        for scope in Scope::ALL {
            assert_eq!(scope.to_string().parse(), Ok(scope));
            assert_eq!(serde_json::to_value(scope).unwrap(), scope.to_string());
        }
        assert_eq!("socket".parse::<Scope>(), Err(UnknownScope("socket".into())));
    }

    #[test]
    fn a_rectangle_of_one_has_a_standard_deviation_of_one_over_root_three() {
        assert!((Distribution::Rectangular(1.0).standard() - 0.577_350_269_189_625_8).abs() < 1e-15);
        assert_eq!(Distribution::Normal(0.0025).standard(), 0.0025);
        assert_eq!(Distribution::NONE.standard(), 0.0);
    }
}
