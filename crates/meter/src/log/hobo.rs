//! Text exports of Onset's HOBOware.
//!
//! The header names `Date Time, GMT-05:00` (or `Date` and `Time`; no zone with "no quotes or commas in
//! headings") and series such as `Active Power, W (LGR S/N: 1, SEN S/N: 1, LBL: server)`, or
//! `Active Power (W) LGR S/N: 1` without commas. Events have columns of their own, empty in all other
//! rows.
//! With plot details, a last column without a title holds them from the first row on. Times are of one offset
//! from UTC, as HOBOware keeps that of the launch. The settings are those of HOBOware's export dialogue.

use super::columns::{Columns, Row, Table, rows, words};
use super::csv;
use super::series::RawLog;
use super::text::{lines, split};
use super::time_zone::TimeZone;
use super::{Log, LogConfig, LogError, LogKind, Logger, TimeFormat, Unit};
use crate::meter::{Accuracy, Distribution};
use std::borrow::Cow;

/// What follows a series' name and unit.
const BEHIND_TITLE: [&str; 8] = [" (LGR", " (SEN", " (LBL", " LGR S/N", " SEN S/N", " LBL:", " c:", " #"];

impl Logger {
    /// UX120-018: active power is within 0.5 % up to 14 A (Onset, manual 17838, "Specifications"). Its
    /// typical drift of up to 0.5 % a year is not included.
    fn accuracy(self) -> Accuracy {
        match self {
            Self::Ux120018 => Accuracy { gain: Distribution::Rectangular(0.005), offset: Distribution::NONE },
        }
    }
}

pub(super) fn read(text: &str, config: &LogConfig) -> Result<Log, LogError> {
    if config.time_format != TimeFormat::DateTime {
        return Err(LogError::whole(
            "HOBOware exports date and time: leave --time-format out, or use --format csv",
        ));
    }
    let (lines, cut) = lines(text);
    let table = Table::find(&lines, |titles| time_columns(titles).is_some()).ok_or_else(|| {
        LogError::whole(
            "no line has HOBOware's column `Date Time`, or `Date` and `Time`: export the log as text, or \
             name its columns with --format csv",
        )
    })?;
    let (date, time) =
        time_columns(&table.titles).ok_or_else(|| LogError::at(table.header, "it names no time"))?;
    let series = Series::choose(&table, config)?;
    let details = details(&table);
    let (rows, marks) =
        rows(&table, Columns { date, time, value: series.place, has_details: details.is_some() })?;
    let details = details.unwrap_or_default();
    let mut notes = Vec::new();
    let device =
        config.device.or_else(|| details.iter().any(|line| is_ux120018(line)).then_some(Logger::Ux120018));
    if device.is_none() && config.accuracy.is_none() {
        notes.push(
            "the export does not name the logger, so its accuracy is unknown: use --device ux120-018, or \
             give the data sheet's `accuracy` in the study"
                .to_owned(),
        );
    }
    let found = RawLog {
        name: series.name,
        unit: series.unit,
        kind: series.kind,
        zone: zone(&table, time, &details, &rows, config)?,
        accuracy: device.map(Logger::accuracy),
        separator: table.separator,
        is_plug: true,
        rows,
        marks,
        cut,
        notes,
    };
    found.into_log(config)
}

/// A title without what HOBOware adds: serial numbers, label.
fn bare(title: &str) -> &str {
    let end = BEHIND_TITLE.iter().filter_map(|mark| title.find(mark)).min().unwrap_or(title.len());
    title[..end].trim()
}

/// The date's column, if it has its own, and the time's.
fn time_columns(titles: &[Cow<'_, str>]) -> Option<(Option<usize>, usize)> {
    let named = |name: &str| {
        titles.iter().position(|title| {
            title.split_once(',').map_or(title.as_ref(), |(before, _)| before).trim() == name
        })
    };
    match named("Date Time") {
        Some(time) => Some((None, time)),
        None => Some((Some(named("Date")?), named("Time")?)),
    }
}

/// The series that is read.
struct Series {
    place: usize,
    name: String,
    unit: Unit,
    kind: LogKind,
}

/// Which statistic of its samples a series is.
#[derive(PartialEq, Eq)]
enum Statistic {
    /// One sample.
    Sample,
    Average,
    /// Maximum, minimum, standard deviation.
    Other,
}

impl Statistic {
    fn of(title: &str) -> Self {
        let is = |names: &[&str]| words(title).any(|word| names.contains(&word.to_lowercase().as_str()));
        if is(&["max", "maximum", "min", "minimum", "std", "stddev", "dev", "sd"]) {
            Self::Other
        } else if is(&["avg", "average", "mean"]) {
            Self::Average
        } else {
            Self::Sample
        }
    }
}

impl Series {
    /// The configured series; otherwise the only power, or its average if the logger keeps statistics.
    fn choose(table: &Table<'_>, config: &LogConfig) -> Result<Self, LogError> {
        let all: Vec<Self> = (0..table.titles.len()).filter_map(|place| Self::at(table, place)).collect();
        let named = match (config.watts.as_deref(), config.energy.as_deref()) {
            (None, None) => None,
            (Some(title), None) => Some((title, true)),
            (None, Some(title)) => Some((title, false)),
            (Some(_), Some(_)) => {
                return Err(LogError::whole(
                    "only one column of a log is read: give either --watts or --energy",
                ));
            }
        };
        let mut chosen: Vec<Self> = match named {
            Some((title, is_power)) => {
                let is_it =
                    |series: &Self| series.name == title.trim() || table.titles[series.place] == title.trim();
                all.into_iter().filter(|series| is_it(series) && series.unit.is_power() == is_power).collect()
            }
            None => all
                .into_iter()
                .filter(|series| series.unit.is_power() && Statistic::of(&series.name) != Statistic::Other)
                .collect(),
        };
        if named.is_none() && chosen.iter().any(|series| series.kind == LogKind::Average) {
            chosen.retain(|series| series.kind == LogKind::Average);
        }
        let titles = || table.titles.join("`, `");
        match (chosen.pop(), chosen.is_empty()) {
            (Some(series), true) => Ok(series),
            (None, _) => Err(LogError::at(
                table.header,
                format!(
                    "no series is a power in W or kW: name one with --watts, or a running energy with \
                     --energy; there are `{}`",
                    titles()
                ),
            )),
            (Some(_), false) => Err(LogError::at(
                table.header,
                format!("several series are powers: name one with --watts; there are `{}`", titles()),
            )),
        }
    }

    fn at(table: &Table<'_>, place: usize) -> Option<Self> {
        let name = bare(&table.titles[place]).to_owned();
        let unit = Unit::in_title(&name)?;
        let kind =
            if Statistic::of(&name) == Statistic::Average { LogKind::Average } else { LogKind::Instant };
        Some(Self { place, name, unit, kind })
    }
}

/// Plot details, which begin in the first row with the word `Details`.
fn details(table: &Table<'_>) -> Option<Vec<String>> {
    let place = table.titles.len();
    let field = |text| {
        split(text, table.separator)
            .and_then(|mut fields| (fields.len() > place).then(|| fields.swap_remove(place)))
    };
    let first = table.below.iter().find(|line| !line.text.trim().is_empty())?;
    (field(first.text)? == "Details").then(|| {
        let fields = table.below.iter().filter_map(|line| field(line.text)).filter(|text| !text.is_empty());
        fields.map(Cow::into_owned).collect()
    })
}

fn is_ux120018(detail: &str) -> bool {
    detail.starts_with("Product:") && detail.contains("UX120-018")
}

/// `GMT-05:00` in a text.
fn gmt(text: &str) -> Option<&str> {
    let text = &text[text.find("GMT")?..];
    let end = text[3..]
        .find(|letter: char| !letter.is_ascii_digit() && !"+-:".contains(letter))
        .map_or(text.len(), |end| end + 3);
    Some(&text[..end])
}

/// The export's zone: from the title of the time, from the details' first sample, or as configured.
fn zone(
    table: &Table<'_>,
    time: usize,
    details: &[String],
    rows: &[Row<'_>],
    config: &LogConfig,
) -> Result<Option<TimeZone>, LogError> {
    let first = details.iter().find(|detail| detail.starts_with("First Sample Time:"));
    let text = gmt(&table.titles[time]).or_else(|| first.and_then(|detail| gmt(detail)));
    let configured = csv::zone(config)?;
    let Some(text) = text else {
        if configured.is_none()
            && let Some(row) = rows.first()
        {
            return Err(LogError::at(
                row.line,
                "the export does not name the time zone of its clock: give the offset that HOBOware shows as \
                 --time-zone, such as \"-05:00\", or export with commas in headings",
            ));
        }
        return Ok(configured);
    };
    let written = TimeZone::parse(text).ok_or_else(|| {
        LogError::at(table.header, format!("`{text}` is not an offset from GMT: correct the header"))
    })?;
    if configured.is_some_and(|configured| configured != written) {
        return Err(LogError::at(
            table.header,
            format!("the export's times are in {text}: leave --time-zone out"),
        ));
    }
    Ok(Some(written))
}
