//! A log's times in ns: the order of its dates, zones and summer time resolved, and never going back.

use super::columns::Row;
use super::number::Decimal;
use super::time::{DateOrder, Stamp};
use super::time_zone::TimeZone;
use super::{LogConfig, LogError, LogFormat, TimeFormat};
use crate::decimal::nanoseconds;

const SECOND_NS: i64 = 1_000_000_000;
const HOUR_S: i64 = 3_600;
/// A log's local time is at most this far from its study's: a zone is up to 14 h from UTC, and a clock wrong.
/// Two orders of a date are weeks apart.
const NEAR_S: i64 = 24 * HOUR_S;

/// A row's time before the clock's zone is known: seconds on the logger's clock, and the ns in them.
struct Local {
    line: usize,
    second: i64,
    nanoseconds: i64,
    east_s: Option<i64>,
}

/// Times of all rows in ns, in their order. Adds to the `notes` for the user.
///
/// # Errors
/// The first line whose time is not a time, is ambiguous, is in an hour that its zone leaves out, or is not
/// after the one before.
pub(super) fn times_ns(
    rows: &[Row<'_>],
    config: &LogConfig,
    zone: Option<&TimeZone>,
    decimal: Decimal,
    notes: &mut Vec<String>,
) -> Result<Vec<i64>, LogError> {
    let times = match config.time_format {
        TimeFormat::DateTime => from_dates(rows, config, zone, notes)?,
        TimeFormat::UnixS | TimeFormat::ElapsedS => from_numbers(rows, SECOND_NS, decimal)?,
        TimeFormat::UnixMs => from_numbers(rows, 1_000_000, decimal)?,
        TimeFormat::UnixNs => from_numbers(rows, 1, decimal)?,
    };
    for ((earlier, later), (row, next)) in
        times.iter().zip(&times[1.min(times.len())..]).zip(rows.iter().zip(rows.iter().skip(1)))
    {
        if later <= earlier {
            let how = if later == earlier { "the same as" } else { "before" };
            return Err(LogError::at(
                next.line,
                format!(
                    "its time `{}` is {how} `{}` of line {}: the clock was set, lines were moved, seconds \
                     or the half of the day are missing, or summer time ended; export the log again, or give \
                     the zone's rule as --time-zone",
                    next.time, row.time, row.line
                ),
            ));
        }
    }
    Ok(times)
}

/// Numbers of a unit of this many ns.
fn from_numbers(rows: &[Row<'_>], unit_ns: i64, decimal: Decimal) -> Result<Vec<i64>, LogError> {
    let mark = if decimal == Decimal::Comma { ',' } else { '.' };
    let time_ns = |row: &Row<'_>| {
        nanoseconds(&row.time, mark, unit_ns).ok_or_else(|| {
            LogError::at(
                row.line,
                format!("`{}` is not a number of this --time-format: correct one of them", row.time),
            )
        })
    };
    rows.iter().map(time_ns).collect()
}

fn from_dates(
    rows: &[Row<'_>],
    config: &LogConfig,
    zone: Option<&TimeZone>,
    notes: &mut Vec<String>,
) -> Result<Vec<i64>, LogError> {
    let stamp = |row: &Row<'_>| {
        Stamp::parse(&row.time)
            .map_err(|why| LogError::at(row.line, format!("`{}` is not a date and time: {why}", row.time)))
    };
    let stamps: Vec<Stamp> = rows.iter().map(stamp).collect::<Result<_, _>>()?;
    let order = match config.date_order {
        Some(order) => order,
        None => decide_order(rows, &stamps, config.study_s, notes)?,
    };
    let mut locals = Vec::with_capacity(rows.len());
    for (row, stamp) in rows.iter().zip(&stamps) {
        let second = stamp.local_s(order).ok_or_else(|| {
            LogError::at(
                row.line,
                format!(
                    "`{}` is not a date in the order {order}: correct the line or --date-order",
                    row.time
                ),
            )
        })?;
        locals.push(Local { line: row.line, second, nanoseconds: stamp.nanoseconds, east_s: stamp.east_s });
    }
    let seconds = seconds(&locals, zone, config.format == LogFormat::Csv)?;
    Ok(seconds.iter().zip(&locals).map(|(second, local)| second * SECOND_NS + local.nanoseconds).collect())
}

/// The one order in which all dates exist. Of several, the one in which the log holds the time of its study.
fn decide_order(
    rows: &[Row<'_>],
    stamps: &[Stamp],
    study_s: Option<[i64; 2]>,
    notes: &mut Vec<String>,
) -> Result<DateOrder, LogError> {
    let left = orders(rows, stamps)?;
    let Some(row) = rows.first() else { return Ok(DateOrder::Ymd) };
    if let [order] = left[..] {
        return Ok(order);
    }
    let holds = |order: &DateOrder, [begin_s, end_s]: [i64; 2]| {
        let near = begin_s.saturating_sub(NEAR_S)..=end_s.saturating_add(NEAR_S);
        stamps.iter().any(|stamp| stamp.local_s(*order).is_some_and(|second| near.contains(&second)))
    };
    let of_study: Vec<DateOrder> = match study_s {
        Some(study_s) => left.iter().copied().filter(|order| holds(order, study_s)).collect(),
        None => left.clone(),
    };
    match of_study[..] {
        [order] => {
            notes.push(format!(
                "the dates are read in the order {order}, the only one in which the log holds the time of \
                 its study"
            ));
            Ok(order)
        }
        [] => Err(LogError::at(
            row.line,
            format!(
                "the date in `{}` is not that of the study in any order, {}: give the log of that day, or \
                 say --date-order and --clock-within if the logger's clock is wrong",
                row.time,
                listed(&left, " or ")
            ),
        )),
        _ => Err(LogError::at(
            row.line,
            format!(
                "the order of the date in `{}` is ambiguous, and no line decides it: use --date-order {}",
                row.time,
                listed(&of_study, " or --date-order ")
            ),
        )),
    }
}

/// The orders in which all dates exist; of those that mean the same days, one.
fn orders(rows: &[Row<'_>], stamps: &[Stamp]) -> Result<Vec<DateOrder>, LogError> {
    let mut left = DateOrder::ALL.to_vec();
    for (row, stamp) in rows.iter().zip(stamps) {
        let before = left.clone();
        left.retain(|order| stamp.fits(*order));
        if left.is_empty() {
            let known = listed(&before, " or ");
            return Err(LogError::at(
                row.line,
                format!(
                    "the date `{}` does not exist in the order of the lines before, {known}: correct the \
                     line",
                    row.time
                ),
            ));
        }
    }
    // In the order of 11/11/2026 there is no question.
    left.dedup_by(|one, other| stamps.iter().all(|stamp| stamp.local_s(*one) == stamp.local_s(*other)));
    Ok(left)
}

fn listed(orders: &[DateOrder], between: &str) -> String {
    orders.iter().map(DateOrder::to_string).collect::<Vec<_>>().join(between)
}

/// Seconds since 1970 UTC.
fn seconds(locals: &[Local], zone: Option<&TimeZone>, is_local: bool) -> Result<Vec<i64>, LogError> {
    let mut choices = Vec::with_capacity(locals.len());
    for local in locals {
        let instants = match (local.east_s, zone) {
            (Some(east_s), _) => vec![local.second - east_s],
            (None, Some(zone)) => zone.instants(local.second),
            (None, None) => {
                return Err(LogError::at(
                    local.line,
                    "the log does not name the time zone of its clock: give it as --time-zone, such as \
                     \"UTC\", \"+01:00\", or the rule that `tail -n 1 /usr/share/zoneinfo/Europe/Berlin` \
                     prints",
                ));
            }
        };
        if instants.is_empty() {
            return Err(LogError::at(
                local.line,
                "its time is in the hour that the clock leaves out when summer time begins: the logger's \
                 clock does not follow this zone; give its offset from UTC as --time-zone",
            ));
        }
        choices.push(instants);
    }
    let interval_s = interval_s(locals);
    if is_local && matches!(zone, Some(TimeZone::Fixed(_))) {
        refuse_a_lost_hour(locals, interval_s)?;
    }
    resolve(locals, &choices, interval_s)
}

/// The logging interval: the median of the steps forward.
fn interval_s(locals: &[Local]) -> i64 {
    let mut steps: Vec<i64> =
        locals.windows(2).map(|pair| pair[1].second - pair[0].second).filter(|step| *step >= 0).collect();
    steps.sort_unstable();
    steps.get(steps.len() / 2).copied().unwrap_or(0)
}

/// Refuses a step that leaves out exactly one full hour of the clock: summer time began, and a fixed offset
/// would turn that into a gap.
fn refuse_a_lost_hour(locals: &[Local], interval_s: i64) -> Result<(), LogError> {
    let is_lost = |pair: &&[Local]| {
        let expected = pair[0].second + interval_s;
        let hour = expected.div_euclid(HOUR_S);
        pair[0].east_s.is_none()
            && pair[1].second - pair[0].second == interval_s + HOUR_S
            && pair[0].second.div_euclid(HOUR_S) < hour
    };
    match locals.windows(2).find(is_lost) {
        Some(pair) => Err(LogError::at(
            pair[1].line,
            "the clock leaves out one full hour, as it does when summer time begins: give the zone's rule \
             as --time-zone, such as \"CET-1CEST,M3.5.0,M10.5.0/3\", or cut the log here if the hour is \
             missing",
        )),
        None => Ok(()),
    }
}

/// Chooses between the two instants of times in an hour that comes twice: the clock goes back within it, or
/// it continues the log at one end.
fn resolve(locals: &[Local], choices: &[Vec<i64>], interval_s: i64) -> Result<Vec<i64>, LogError> {
    let near_s = interval_s + interval_s / 2 + 1;
    let mut seconds: Vec<i64> = Vec::with_capacity(choices.len());
    let mut at = 0;
    while at < choices.len() {
        let [early, late] = choices[at][..] else {
            seconds.push(choices[at][0]);
            at += 1;
            continue;
        };
        let end = choices[at..]
            .iter()
            .position(|choice| choice.len() < 2)
            .map_or(choices.len(), |length| at + length);
        let back = (at + 1..end).find(|index| locals[*index].second < locals[index - 1].second);
        let joins_before = seconds.last().is_some_and(|before| (0..=near_s).contains(&(early - before)));
        let joins_after =
            choices.get(end).is_some_and(|after| (0..=near_s).contains(&(after[0] - choices[end - 1][1])));
        let split = match (back, joins_before, joins_after) {
            (Some(back), ..) => back,
            (None, true, false) => end,
            (None, false, true) => at,
            _ => {
                return Err(LogError::at(
                    locals[at].line,
                    format!(
                        "its time comes twice, as summer time ends in this hour, and the log does not show \
                         which one is meant; the second is {} s later: export the log in UTC, or cut the \
                         hour out",
                        late - early
                    ),
                ));
            }
        };
        seconds.extend(choices[at..split].iter().map(|choice| choice[0]));
        seconds.extend(choices[split..end].iter().map(|choice| choice[1]));
        at = end;
    }
    Ok(seconds)
}
