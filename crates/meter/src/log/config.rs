//! What a study says of a log, and what a log is.

use super::number::Decimal;
use super::time::DateOrder;
use crate::meter::{Accuracy, Channel, Reading, Scope};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How a log is to be read; `[meters.NAME]` of a study file, or the options of `iopj meter attach`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// Who wrote it.
    pub format: LogFormat,
    /// Title of the column with the time, or with the time of day if `date` is given. HOBOware's are known.
    pub time: Option<String>,
    /// Title of the column with the date, if it is a separate one.
    pub date: Option<String>,
    /// How the time is written; date and time by default.
    #[serde(default)]
    pub time_format: TimeFormat,
    /// Order of day, month and year, if the log does not show it.
    pub date_order: Option<DateOrder>,
    /// The logger's zone, if the log does not name it: `UTC`, `+01:00`, or a POSIX rule with summer time
    /// such as `CET-1CEST,M3.5.0,M10.5.0/3`.
    pub time_zone: Option<String>,
    /// Title of the column with the power. In a HOBOware export, the one in W or kW is found.
    pub watts: Option<String>,
    /// Title of a column with the energy since the log began, to read instead of power.
    pub energy: Option<String>,
    /// Unit of the column, if its title does not name it.
    pub unit: Option<Unit>,
    /// The decimal mark, if the log does not show it.
    pub decimal: Option<Decimal>,
    /// What a value in watts means. Known for HOBO loggers.
    pub kind: Option<LogKind>,
    /// Length in s of an average's window, if it is not the logging interval.
    pub window_s: Option<f64>,
    /// What the meter measures.
    #[serde(default)]
    pub scope: Scope,
    /// The logger, if the export does not name it: its data sheet gives the accuracy.
    pub device: Option<Logger>,
    /// What the maker or a calibration declares, instead of the known data sheet.
    pub accuracy: Option<Accuracy>,
    /// When the log's study began and ended, in s since 1970: it decides between orders of the date.
    #[serde(skip)]
    pub study_s: Option<[i64; 2]>,
}

/// Who wrote a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Onset's HOBOware, exported as text.
    Hobo,
    /// Any CSV whose columns have titles.
    #[default]
    Csv,
}

/// How a log writes time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeFormat {
    /// A date and a time of day.
    #[default]
    DateTime,
    /// Seconds since 1970 UTC.
    UnixS,
    /// Milliseconds since 1970 UTC.
    UnixMs,
    /// Nanoseconds since 1970 UTC.
    UnixNs,
    /// Seconds since any start, such as that of the log.
    ElapsedS,
}

/// What a value in watts means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogKind {
    /// The power at its time.
    Instant,
    /// The mean power of the window that ends at its time.
    Average,
}

/// Units of power and energy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Milliwatt.
    #[serde(rename = "mW")]
    Milliwatt,
    /// Watt.
    #[serde(rename = "W")]
    Watt,
    /// Kilowatt.
    #[serde(rename = "kW")]
    Kilowatt,
    /// Joule.
    #[serde(rename = "J")]
    Joule,
    /// Milliwatt-hour.
    #[serde(rename = "mWh")]
    MilliwattHour,
    /// Watt-hour.
    #[serde(rename = "Wh")]
    WattHour,
    /// Kilowatt-hour.
    #[serde(rename = "kWh")]
    KilowattHour,
}

/// A logger whose data sheet is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Logger {
    /// Onset HOBO UX120-018, in line with a plug.
    #[serde(rename = "ux120-018")]
    Ux120018,
}

/// A log after reading.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// Its one quantity.
    pub channel: Channel,
    /// Values in order of [`Reading::own_ns`], no two of which are equal. The host's times are 0.
    pub readings: Vec<Reading>,
    /// What was left out or assumed, each a sentence for the user.
    pub notes: Vec<String>,
}

/// Why a log is refused. The text names the cause, the remedy, and the line if it is the fault of one.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{}{text}", .line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct LogError {
    /// The line, counted from 1; absent if the whole log is meant.
    pub line: Option<usize>,
    /// Cause and remedy.
    pub text: String,
}

impl LogError {
    pub(crate) fn whole(text: impl Into<String>) -> Self {
        Self { line: None, text: text.into() }
    }

    pub(crate) fn at(line: usize, text: impl Into<String>) -> Self {
        Self { line: Some(line), text: text.into() }
    }
}

impl LogConfig {
    /// Nothing but the format is given.
    pub fn new(format: LogFormat) -> Self {
        Self { format, ..Self::default() }
    }
}
