//! Any CSV with named columns: the configuration names them, and adds what the log does not say.

use super::columns::{Columns, Table, rows};
use super::series::RawLog;
use super::text::lines;
use super::time_zone::TimeZone;
use super::{Log, LogConfig, LogError, LogKind, TimeFormat, Unit};

pub(super) fn read(text: &str, config: &LogConfig) -> Result<Log, LogError> {
    let (lines, cut) = lines(text);
    let time = config.time.as_deref().ok_or_else(|| {
        LogError::whole(
            "the columns of a CSV log must be named: give the titles of two, --time and --watts or --energy",
        )
    })?;
    let table =
        Table::find(&lines, |titles| titles.iter().any(|title| title == time.trim())).ok_or_else(|| {
            LogError::whole(format!(
                "no line has a column `{time}`: give the title of the time column with --time"
            ))
        })?;
    let (title, unit, kind) = quantity(config)?;
    let date = config.date.as_deref().map(|date| table.column(date)).transpose()?;
    let places = Columns { date, time: table.column(time)?, value: table.column(title)?, has_details: false };
    let (rows, marks) = rows(&table, places)?;
    let found = RawLog {
        name: title.trim().to_owned(),
        unit,
        kind,
        zone: zone(config)?,
        accuracy: None,
        separator: table.separator,
        is_plug: false,
        rows,
        marks,
        cut,
        notes: Vec::new(),
    };
    found.into_log(config)
}

/// The column's title, its unit, and what its values mean.
fn quantity(config: &LogConfig) -> Result<(&str, Unit, LogKind), LogError> {
    match (config.watts.as_deref(), config.energy.as_deref()) {
        (Some(title), None) => {
            let unit = config.unit.or_else(|| Unit::in_title(title)).unwrap_or(Unit::Watt);
            if !unit.is_power() {
                return Err(LogError::whole(format!(
                    "`{title}` is not a power: name it with --energy, or correct --unit"
                )));
            }
            let kind = config.kind.ok_or_else(|| {
                LogError::whole(
                    "the meaning of the log's values is unknown: use --values average or --values instant, \
                     as the meter's manual says",
                )
            })?;
            Ok((title, unit, kind))
        }
        (None, Some(title)) => {
            let unit = config.unit.or_else(|| Unit::in_title(title)).filter(|unit| !unit.is_power());
            let unit = unit.ok_or_else(|| {
                LogError::whole(format!("the unit of `{title}` is unknown: use --unit Wh, kWh, mWh or J"))
            })?;
            Ok((title, unit, LogKind::Instant))
        }
        _ => Err(LogError::whole("only one column of a log is read: give either --watts or --energy")),
    }
}

/// The configured zone, if the times need one.
pub(super) fn zone(config: &LogConfig) -> Result<Option<TimeZone>, LogError> {
    let text = config.time_zone.as_deref().filter(|_| config.time_format == TimeFormat::DateTime);
    text.map(|text| {
        TimeZone::parse(text).ok_or_else(|| {
            LogError::whole(format!(
                "`{text}` is not a known time zone: say \"UTC\", \"+01:00\", or the rule that `tail -n 1 \
                 /usr/share/zoneinfo/Europe/Berlin` prints"
            ))
        })
    })
    .transpose()
}
