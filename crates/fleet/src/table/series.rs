//! The tables of what happened over time: I/Os in slices of a trial's window, and readings of meters.

use super::column::Cell::{Count, Number, Text, Time};
use super::column::Column;
use super::contents::Contents;
use super::{Row, rows};
use iopj_core::Slice;
use iopj_record::energy::{MeterRow, RawValue, ReadingRow};

/// A slice of a trial's window.
pub(super) struct SliceRow<'a> {
    row: Row<'a>,
    begin_ns: u64,
    slice: Slice,
}

pub(super) fn slice_rows(contents: &Contents) -> Vec<SliceRow<'_>> {
    let mut slices = Vec::new();
    for row in rows(contents) {
        let mut begin_ns = 0;
        for slice in row.timed().iter().flat_map(|one| &one.series) {
            slices.push(SliceRow { row, begin_ns, slice: *slice });
            begin_ns = slice.end_ns;
        }
    }
    slices
}

pub(super) fn slices<'a>() -> Vec<Column<SliceRow<'a>>> {
    vec![
        Column::key("store", Text(|s: &SliceRow<'_>| Some(s.row.store()))),
        Column::key("position", Count(|s| Some(s.row.trial.position))),
        Column::new("begin_ns", Count(|s| Some(s.begin_ns))),
        Column::new("end_ns", Count(|s| Some(s.slice.end_ns))),
        Column::new("ios", Count(|s| Some(s.slice.ios))),
        Column::new("iops", Number(iops)),
    ]
}

fn iops(row: &SliceRow<'_>) -> Option<f64> {
    let length_ns = row.slice.end_ns.checked_sub(row.begin_ns).filter(|ns| *ns > 0)?;
    Some(row.slice.ios as f64 * 1e9 / length_ns as f64)
}

/// A reading of one channel of a meter.
pub(super) struct MeterReading<'a> {
    contents: &'a Contents,
    meter: &'a MeterRow,
    channel: Option<ChannelNames>,
    reading: &'a ReadingRow,
}

/// What the meter's record says of a channel.
#[derive(Clone, Debug, serde::Deserialize)]
struct ChannelNames {
    name: Option<String>,
    scope: Option<String>,
}

/// The part of a meter's record that names its channels.
#[derive(Default, serde::Deserialize)]
struct Record {
    #[serde(default)]
    channels: Vec<ChannelNames>,
}

pub(super) fn reading_rows(contents: &Contents) -> Vec<MeterReading<'_>> {
    let of_meter = |(meter, readings): &'_ (MeterRow, Vec<ReadingRow>)| {
        let record: Record = serde_json::from_str(&meter.record).unwrap_or_default();
        let named = |reading: &ReadingRow| record.channels.get(reading.channel as usize).cloned();
        readings.iter().map(named).collect::<Vec<_>>()
    };
    let all =
        contents.meters.iter().flat_map(|one| one.1.iter().zip(of_meter(one)).map(|found| (&one.0, found)));
    all.map(|(meter, (reading, channel))| MeterReading { contents, meter, channel, reading }).collect()
}

pub(super) fn readings<'a>() -> Vec<Column<MeterReading<'a>>> {
    vec![
        Column::key("store", Text(|r: &MeterReading<'_>| Some(r.contents.id.clone()))),
        Column::new("session", Count(|r| u64::try_from(r.meter.session).ok())),
        Column::new("boot", Text(boot)),
        Column::new("meter", Text(|r| Some(r.meter.name.clone()))),
        Column::new("channel", Text(|r| r.channel.as_ref()?.name.clone())),
        Column::new("scope", Text(|r| r.channel.as_ref()?.scope.clone())),
        Column::new("at", Time(|r| u64::try_from(r.reading.wall_ns).ok())),
        Column::new("begin_raw_ns", Count(|r| Some(r.reading.begin_ns))),
        Column::new("end_raw_ns", Count(|r| Some(r.reading.end_ns))),
        Column::new("count", Count(count)),
        Column::new("watts", Number(watts)),
    ]
}

fn boot(row: &MeterReading<'_>) -> Option<String> {
    let session = row.contents.sessions.iter().find(|session| session.id == row.meter.session)?;
    Some(session.boot.clone())
}

fn count(row: &MeterReading<'_>) -> Option<u64> {
    match row.reading.value {
        RawValue::Count(count) => Some(count),
        RawValue::Watts(_) => None,
    }
}

fn watts(row: &MeterReading<'_>) -> Option<f64> {
    match row.reading.value {
        RawValue::Watts(watts) => Some(watts),
        RawValue::Count(_) => None,
    }
}
