//! Date and time as a logger or a program writes them: parts first, then, once the order of the date is
//! known, seconds.

use crate::decimal::billionths;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Words for the two halves of the day in the locales of Java, and so of HOBOware; lower case, without dots
/// and spaces.
const BEFORE_NOON: &str = "am fm vorm de ap dop dopol öö sa πμ 午前 上午 오전 ص पूर्वाह्न ก่อนเที่ยง";
const AFTER_NOON: &str = "pm em nachm du ip odp odpol ös ch μμ 午後 下午 오후 م अपराह्न หลังเที่ยง";

/// Years that a log can be from: ns since 1970 then fit, and a wrong order of the date shows more often.
const YEARS: std::ops::RangeInclusive<i64> = 1970..=2199;

/// The order of the parts of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DateOrder {
    /// `11/20/26`
    Mdy,
    /// `20/11/26`
    Dmy,
    /// `26/11/20`, `2026-11-20`
    Ymd,
}

impl DateOrder {
    pub(super) const ALL: [Self; 3] = [Self::Mdy, Self::Dmy, Self::Ymd];
}

impl fmt::Display for DateOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Mdy => "mdy",
            Self::Dmy => "dmy",
            Self::Ymd => "ymd",
        })
    }
}

/// One part of a date: its number and how many digits it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    value: i64,
    digits: usize,
}

/// A date and time of day; the order of the date is not decided yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    parts: [Part; 3],
    second_of_day: i64,
    pub(super) nanoseconds: i64,
    /// Seconds east of UTC, where the text itself says so.
    pub(super) east_s: Option<i64>,
}

/// Seconds since 1970 of a day, `None` for a day that does not exist.
pub(super) fn day_s(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(is_leap),
        1..=12 => 31,
        _ => return None,
    };
    if !YEARS.contains(&year) || !(1..=longest).contains(&day) {
        return None;
    }
    // Days of a year that begins in March, so that the leap day comes last (Richards 2013, Explanatory
    // Supplement to the Astronomical Almanac).
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    Some((days - 719_468) * 86_400)
}

impl Stamp {
    /// Reads `2026-11-20T13:02:03.5+01:00`, `11/20/26 01:02:03 PM` and forms in between; `Err` says what is
    /// wrong.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        let date_end = text.find(|letter: char| !letter.is_ascii_digit() && !"/-.".contains(letter));
        let (date, time) = text.split_at(date_end.ok_or("it has no time of day")?);
        let parts = date_parts(date).ok_or("its date is not three numbers between `/`, `-` or `.`")?;
        let (second_of_day, nanoseconds, east_s) = time_of_day(time)?;
        Ok(Self { parts, second_of_day, nanoseconds, east_s })
    }

    /// Whether the date exists in this order.
    pub(super) fn fits(&self, order: DateOrder) -> bool {
        self.day_s(order).is_some()
    }

    /// Seconds since 1970 on the writer's clock.
    pub(super) fn local_s(&self, order: DateOrder) -> Option<i64> {
        Some(self.day_s(order)? + self.second_of_day)
    }

    fn day_s(&self, order: DateOrder) -> Option<i64> {
        let [a, b, c] = self.parts;
        let (year, month, day) = match order {
            DateOrder::Mdy => (c, a, b),
            DateOrder::Dmy => (c, b, a),
            DateOrder::Ymd => (a, b, c),
        };
        let full_year = match year.digits {
            2 => 2000 + year.value,
            4 => year.value,
            _ => return None,
        };
        if month.digits > 2 || day.digits > 2 {
            return None;
        }
        day_s(full_year, month.value, day.value)
    }
}

fn date_parts(text: &str) -> Option<[Part; 3]> {
    let separator = text.chars().find(|letter| !letter.is_ascii_digit())?;
    let mut parts = text.split(separator).map(|part| {
        let is_part = (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        Some(Part { value: part.parse().ok().filter(|_| is_part)?, digits: part.len() })
    });
    let three = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(three)
}

/// Second of the day, ns in it, and seconds east of UTC.
fn time_of_day(text: &str) -> Result<(i64, i64, Option<i64>), &'static str> {
    let text = text.trim().trim_start_matches('T');
    let begin = text.find(|letter: char| letter.is_ascii_digit()).ok_or("it has no time of day")?;
    let end = text.rfind(|letter: char| letter.is_ascii_digit()).ok_or("it has no time of day")? + 1;
    let clock = &text[begin..end];
    let (clock, mut east_s) = match clock.find(['+', '-']) {
        Some(at) => {
            (clock[..at].trim_end(), Some(offset_s(&clock[at..]).ok_or("its offset from UTC is not ±hh:mm")?))
        }
        None => (clock, None),
    };
    let mut marker = format!("{}{}", &text[..begin], &text[end..]).to_lowercase();
    marker.retain(|letter| letter != '.' && !letter.is_whitespace());
    if marker == "z" {
        (marker, east_s) = (String::new(), Some(0));
    }
    let (hour, minute, second, nanoseconds) = clock_parts(clock).ok_or("its time of day is not hh:mm:ss")?;
    let is_one_of = |words: &str| words.split(' ').any(|word| word == marker);
    let hour = if marker.is_empty() {
        hour
    } else if hour > 12 {
        return Err("its hour is above 12, although it names a half of the day");
    } else if is_one_of(BEFORE_NOON) {
        hour % 12
    } else if is_one_of(AFTER_NOON) {
        hour % 12 + 12
    } else {
        return Err("the word beside its time of day is not a known word for a half of the day");
    };
    if hour > 23 || minute > 59 || second > 59 {
        return Err("its time of day does not exist");
    }
    Ok((hour * 3_600 + minute * 60 + second, nanoseconds, east_s))
}

fn clock_parts(text: &str) -> Option<(i64, i64, i64, i64)> {
    let mut parts = text.split(':');
    let (hour, minute) = (small(parts.next()?)?, small(parts.next()?)?);
    let (second, nanoseconds) = match parts.next() {
        Some(seconds) => {
            let (whole, fraction) = seconds.split_once(['.', ',']).unwrap_or((seconds, ""));
            (small(whole)?, billionths(fraction)?)
        }
        None => (0, 0),
    };
    parts.next().is_none().then_some((hour, minute, second, nanoseconds))
}

/// A number of one or two digits.
fn small(text: &str) -> Option<i64> {
    let is_small = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_small)
}

/// `+01:00`, `-0530`, `+2` in seconds east of UTC.
pub(super) fn offset_s(text: &str) -> Option<i64> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() == 4 => digits.split_at_checked(2)?,
        None => (digits, "0"),
    };
    let (hours, minutes) = (small(hours)?, small(minutes)?);
    (hours <= 14 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

#[cfg(test)]
mod tests;
