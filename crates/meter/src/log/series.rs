//! Rows become readings of one channel.

use super::columns::{Marks, Row};
use super::number::{Decimal, Number, parse};
use super::time_zone::TimeZone;
use super::{Log, LogConfig, LogError, LogKind, Unit, clock};
use crate::decimal::EXACT_BELOW;
use crate::meter::{Accuracy, Channel, ChannelKind, Reading, Value};

/// More than any household plug carries (16 A at 240 V), for loggers in line with one.
const PLUG_WATTS: f64 = 3_840.0;
/// Decimals of an energy that count: programs print many more than their meter has.
const MOST_DECIMALS: i32 = 6;

/// What a format knows of its log.
pub(super) struct RawLog<'a> {
    pub(super) name: String,
    pub(super) unit: Unit,
    /// What a value in watts means.
    pub(super) kind: LogKind,
    pub(super) zone: Option<TimeZone>,
    pub(super) accuracy: Option<Accuracy>,
    pub(super) separator: char,
    /// Whether the meter is in line with a plug.
    pub(super) is_plug: bool,
    pub(super) rows: Vec<Row<'a>>,
    pub(super) marks: Marks,
    /// The number of the last line, if it was cut off.
    pub(super) cut: Option<usize>,
    pub(super) notes: Vec<String>,
}

impl RawLog<'_> {
    /// The log, with its values in order.
    pub(super) fn into_log(mut self, config: &LogConfig) -> Result<Log, LogError> {
        if self.rows.len() < 2 {
            return Err(LogError::whole("the log holds fewer than two values: give the whole log"));
        }
        let decimal = match config.decimal {
            Some(decimal) => decimal,
            None => self.marks.decide(self.separator, || self.is_plug && self.is_too_much_for_a_plug())?,
        };
        let times = clock::times_ns(&self.rows, config, self.zone.as_ref(), decimal, &mut self.notes)?;
        let mut steps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        steps.sort_unstable();
        let interval_ns = steps[steps.len() / 2];
        self.note(&steps, interval_ns);
        let numbers = self.numbers(decimal)?;
        let decimals =
            numbers.iter().map(|number| number.decimals).max().and_then(|most| i32::try_from(most).ok());
        let decimals = decimals.unwrap_or(0).min(if self.unit.is_power() { i32::MAX } else { MOST_DECIMALS });
        let step = self.unit.size() * 10f64.powi(-decimals);
        let (kind, values) = if self.unit.is_power() {
            (
                self.gauge(config, interval_ns)?,
                numbers.iter().map(|number| Value::Watts(number.value * self.unit.size())).collect(),
            )
        } else {
            (
                ChannelKind::Counter { joules_per_count: step, wrap: None },
                self.counts(&numbers, 10f64.powi(decimals))?,
            )
        };
        let accuracy = config.accuracy.or(self.accuracy);
        let channel = Channel { resolution: step, accuracy, ..Channel::new(self.name, config.scope, kind) };
        let readings = times.iter().zip(values).map(|(own_ns, value)| Reading {
            channel: 0,
            value,
            begin_ns: 0,
            end_ns: 0,
            wall_ns: 0,
            own_ns: Some(*own_ns),
        });
        Ok(Log { channel, readings: readings.collect(), notes: self.notes })
    }

    /// Whether a value would exceed what a plug carries if its mark grouped thousands.
    fn is_too_much_for_a_plug(&self) -> bool {
        let without_marks = |row: &Row<'_>| {
            let digits: String = row.value.chars().filter(char::is_ascii_digit).collect();
            digits
                .parse()
                .is_ok_and(|value: f64| self.unit.is_power() && value * self.unit.size() > PLUG_WATTS)
        };
        self.rows.iter().any(without_marks)
    }

    fn note(&mut self, steps: &[i64], interval_ns: i64) {
        if let Some(line) = self.cut {
            self.notes.push(format!("line {line}, the last, has no end: it may be cut off and is left out"));
        }
        // Half an interval more means that a value came late, not that one is missing.
        let gaps = steps.iter().filter(|step| **step > interval_ns.saturating_add(interval_ns / 2)).count();
        if let Some(longest) = steps.last().filter(|_| gaps > 0) {
            let places = if gaps == 1 { "place" } else { "places" };
            self.notes.push(format!(
                "values are missing in {gaps} {places}, the longest for {:.3} s; the log has one every \
                 {:.3} s",
                *longest as f64 * 1e-9,
                interval_ns as f64 * 1e-9
            ));
        }
    }

    fn numbers(&self, decimal: Decimal) -> Result<Vec<Number>, LogError> {
        let number = |row: &Row<'_>| {
            parse(&row.value, decimal).filter(|number| number.value.abs() < EXACT_BELOW).ok_or_else(|| {
                LogError::at(
                    row.line,
                    format!(
                        "`{}` is not a number: correct the line, or give the decimal mark with --decimal",
                        row.value
                    ),
                )
            })
        };
        self.rows.iter().map(number).collect()
    }

    fn gauge(&self, config: &LogConfig, interval_ns: i64) -> Result<ChannelKind, LogError> {
        let window_ns = match config.window_s {
            Some(window_s) if window_s > 0.0 && window_s < 1e9 => (window_s * 1e9).round() as u64,
            Some(_) => {
                return Err(LogError::whole(
                    "--window-s is not a length of time: give the window of an average in s",
                ));
            }
            None => u64::try_from(interval_ns).unwrap_or(0),
        };
        Ok(match config.kind.unwrap_or(self.kind) {
            LogKind::Instant => ChannelKind::Instant,
            LogKind::Average => ChannelKind::Average { window_ns },
        })
    }

    /// Energy since the log began, with `scale` counts per unit.
    fn counts(&self, numbers: &[Number], scale: f64) -> Result<Vec<Value>, LogError> {
        let mut last = 0.0;
        let mut counts = Vec::with_capacity(numbers.len());
        for (row, number) in self.rows.iter().zip(numbers) {
            let count = (number.value * scale).round();
            if !(last..EXACT_BELOW).contains(&count) {
                return Err(LogError::at(
                    row.line,
                    format!(
                        "the energy `{}` is less than before, or too large: name a column with the energy \
                         since the log began, or one with power",
                        row.value
                    ),
                ));
            }
            last = count;
            counts.push(Value::Count(count as u64));
        }
        Ok(counts)
    }
}
