//! A logger's time zone: an offset from UTC, or a rule with summer time as POSIX writes it.
//!
//! The rule is that of the TZ environment variable (POSIX.1-2017, 8.3) with RFC 8536's hours of -167 to 167:
//! `CET-1CEST,M3.5.0,M10.5.0/3`.

use super::time::{day_s, offset_s};

const DAY_S: i64 = 86_400;

/// The offset of a logger's clock from UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TimeZone {
    /// Seconds east of UTC, all year.
    Fixed(i64),
    /// Summer time.
    Rule(Rule),
}

/// Summer time from `begin` to `end`, in seconds east of UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    standard_s: i64,
    summer_s: i64,
    begin: Change,
    end: Change,
}

/// A change of the clock: a day of each year, and the second of that day on the clock before the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    day: Day,
    second: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Day {
    /// `Mm.w.d`: the wth weekday d (0 is Sunday) of month m; week 5 is the last.
    Weekday { month: i64, week: i64, weekday: i64 },
    /// `Jn`: 1 to 365, the leap day never counted.
    Julian(i64),
    /// `n`: 0 to 365.
    OfYear(i64),
}

impl TimeZone {
    /// Reads `UTC`, `+01:00`, `GMT-05:00`, or a POSIX rule.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let upper = text.to_ascii_uppercase();
        let bare = upper.strip_prefix("GMT").or_else(|| upper.strip_prefix("UTC")).unwrap_or(&upper).trim();
        if bare.is_empty() || bare == "Z" {
            return (!upper.is_empty()).then_some(Self::Fixed(0));
        }
        offset_s(bare).map(Self::Fixed).or_else(|| posix(text))
    }

    /// The instants, in seconds since 1970 UTC, at which this clock shows `local_s`: none in the hour that is
    /// left out in spring, two in the hour that comes twice in autumn, the earlier first.
    pub(super) fn instants(&self, local_s: i64) -> Vec<i64> {
        match self {
            Self::Fixed(east_s) => vec![local_s - east_s],
            Self::Rule(rule) => {
                let mut offsets = [rule.standard_s, rule.summer_s];
                offsets.sort_by(|a, b| b.cmp(a));
                offsets
                    .iter()
                    .map(|east_s| (local_s - east_s, *east_s))
                    .filter(|(at_s, east_s)| rule.east_s(*at_s) == *east_s)
                    .map(|(at_s, _)| at_s)
                    .collect()
            }
        }
    }
}

impl Rule {
    fn east_s(&self, at_s: i64) -> i64 {
        let year = year_of(at_s + self.standard_s);
        let (Some(begin_s), Some(end_s)) = (self.begin.local_s(year), self.end.local_s(year)) else {
            return self.standard_s;
        };
        let (begin_s, end_s) = (begin_s - self.standard_s, end_s - self.summer_s);
        let is_summer = if begin_s < end_s {
            (begin_s..end_s).contains(&at_s)
        } else {
            !(end_s..begin_s).contains(&at_s)
        };
        if is_summer { self.summer_s } else { self.standard_s }
    }
}

/// The year of a time, by search: a calendar that turns days into years is not needed.
fn year_of(at_s: i64) -> i64 {
    let mut year = 1970 + at_s / (365 * DAY_S + DAY_S / 4);
    while day_s(year, 1, 1).is_some_and(|begin_s| begin_s > at_s) {
        year -= 1;
    }
    while day_s(year + 1, 1, 1).is_some_and(|next_s| next_s <= at_s) {
        year += 1;
    }
    year
}

impl Change {
    fn local_s(self, year: i64) -> Option<i64> {
        let new_year_s = day_s(year, 1, 1)?;
        let day = match self.day {
            Day::OfYear(day) => new_year_s + day * DAY_S,
            Day::Julian(day) => {
                let has_leap_day = day_s(year, 2, 29).is_some();
                new_year_s + (day - 1 + i64::from(has_leap_day && day >= 60)) * DAY_S
            }
            Day::Weekday { month, week, weekday } => {
                let first_s = day_s(year, month, 1)?;
                // 1970 began on a Thursday.
                let first_weekday = (first_s / DAY_S + 4).rem_euclid(7);
                let day = 1 + (weekday - first_weekday).rem_euclid(7) + (week - 1) * 7;
                day_s(year, month, day).or_else(|| day_s(year, month, day - 7))?
            }
        };
        Some(day + self.second)
    }
}

/// `std offset dst [offset],start[/time],end[/time]`; as in POSIX, these offsets are west of UTC.
fn posix(text: &str) -> Option<TimeZone> {
    let rest = name(text)?;
    let (standard_s, rest) = west_s(rest)?;
    if rest.is_empty() {
        return Some(TimeZone::Fixed(standard_s));
    }
    let rest = name(rest)?;
    let (summer_s, rest) = if rest.starts_with(',') { (standard_s + 3_600, rest) } else { west_s(rest)? };
    let (begin, end) = rest.strip_prefix(',')?.split_once(',')?;
    let rule = Rule { standard_s, summer_s, begin: change(begin)?, end: change(end)? };
    // A zone may change its clock by several hours, but not by days.
    ((summer_s - standard_s).abs() < DAY_S && summer_s != standard_s).then_some(TimeZone::Rule(rule))
}

/// The text after a zone's name, which is three letters or more, or anything between `<` and `>`.
fn name(text: &str) -> Option<&str> {
    if let Some(quoted) = text.strip_prefix('<') {
        return quoted.split_once('>').map(|(_, rest)| rest);
    }
    let end = text.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(text.len());
    (end >= 3).then(|| &text[end..])
}

/// `[+-]hh[:mm[:ss]]` as seconds east, and the text after it.
fn west_s(text: &str) -> Option<(i64, &str)> {
    let (west_s, rest) = signed_s(text)?;
    (west_s.abs() <= 24 * 3_600).then_some((-west_s, rest))
}

fn signed_s(text: &str) -> Option<(i64, &str)> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != ':').unwrap_or(text.len());
    let mut seconds = 0;
    let mut unit = 3_600;
    for part in text[..end].split(':') {
        let number: i64 = part.parse().ok().filter(|number| *number <= 167)?;
        seconds += number * unit;
        unit /= 60;
    }
    Some((sign * seconds, &text[end..]))
}

fn change(text: &str) -> Option<Change> {
    let (day, time) = text.split_once('/').unwrap_or((text, "2"));
    let (second, rest) = signed_s(time)?;
    let day = if let Some(weekday) = day.strip_prefix('M') {
        let mut parts = weekday.split('.').map(|part| part.parse::<i64>().ok());
        let (month, week, weekday) = (parts.next()??, parts.next()??, parts.next()??);
        let is_right = (1..=12).contains(&month) && (1..=5).contains(&week) && (0..=6).contains(&weekday);
        (is_right && parts.next().is_none()).then_some(Day::Weekday { month, week, weekday })?
    } else if let Some(day) = day.strip_prefix('J') {
        Day::Julian(day.parse().ok().filter(|day| (1..=365).contains(day))?)
    } else {
        Day::OfYear(day.parse().ok().filter(|day| (0..=365).contains(day))?)
    };
    rest.is_empty().then_some(Change { day, second })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn zone(text: &str) -> TimeZone {
        TimeZone::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    /// Instants at which the clock shows a time of 2026.
    fn at(zone: &TimeZone, month: i64, day: i64, hour: i64, minute: i64) -> Vec<i64> {
        zone.instants(day_s(2026, month, day).unwrap() + hour * 3_600 + minute * 60)
    }

    #[test]
    fn fixed_offsets() {
        for (text, east_s) in [
            ("UTC", 0),
            ("Z", 0),
            ("GMT-05:00", -18_000),
            ("+05:30", 19_800),
            ("gmt+1", 3_600),
            ("UTC -0330", -12_600),
            ("JST-9", 32_400),
            ("<+0545>-5:45", 20_700),
        ] {
            assert_eq!(zone(text), TimeZone::Fixed(east_s), "{text}");
        }
        for text in [
            "",
            "Europe/Berlin",
            "CET-1CEST",
            "E5",
            "+25:00",
            "CET-1CEST,M13.1.0,M10.5.0",
            "CET-1CEST,M3.5.0",
            "CET-1CEST-1,M3.5.0,M10.5.0",
        ] {
            assert_eq!(TimeZone::parse(text), None, "{text}");
        }
    }

    #[test]
    fn summer_time_of_europe() {
        let zone = zone("CET-1CEST,M3.5.0,M10.5.0/3");
        // TZ=Europe/Berlin date -d '2026-10-25 01:59:59' +%s and so on; the clock goes from 02:00 to 03:00 on
        // 29 March, back from 03:00 to 02:00 on 25 October.
        assert_eq!(at(&zone, 1, 15, 12, 0), [1_768_474_800]);
        assert_eq!(at(&zone, 7, 15, 12, 0), [1_784_109_600]);
        assert_eq!(at(&zone, 3, 29, 1, 59), [1_774_745_940]);
        assert_eq!(at(&zone, 3, 29, 2, 30), Vec::<i64>::new());
        assert_eq!(at(&zone, 3, 29, 3, 0), [1_774_746_000]);
        assert_eq!(at(&zone, 10, 25, 2, 30), [1_792_888_200, 1_792_891_800]);
        assert_eq!(at(&zone, 10, 25, 3, 0), [1_792_893_600]);
    }

    #[test]
    fn summer_time_of_america_and_of_the_south() {
        let eastern = zone("EST5EDT,M3.2.0,M11.1.0");
        assert_eq!(at(&eastern, 11, 1, 1, 30).len(), 2);
        assert_eq!(at(&eastern, 3, 8, 2, 30).len(), 0);
        assert_eq!(at(&eastern, 7, 1, 0, 0), [1_782_878_400]);
        let sydney = zone("AEST-10AEDT,M10.1.0,M4.1.0/3");
        assert_eq!(at(&sydney, 1, 15, 12, 0), [1_768_438_800]);
        assert_eq!(at(&sydney, 4, 5, 2, 30).len(), 2);
        assert_eq!(at(&sydney, 7, 1, 12, 0), [1_782_871_200]);
    }

    #[test]
    fn days_of_the_year() {
        assert_eq!(Change { day: Day::Julian(60), second: 0 }.local_s(2028), day_s(2028, 3, 1));
        assert_eq!(Change { day: Day::Julian(60), second: 0 }.local_s(2026), day_s(2026, 3, 1));
        assert_eq!(Change { day: Day::OfYear(59), second: 0 }.local_s(2028), day_s(2028, 2, 29));
        assert_eq!(
            Change { day: Day::Weekday { month: 2, week: 5, weekday: 0 }, second: 0 }.local_s(2026),
            day_s(2026, 2, 22)
        );
    }

    proptest! {
        #[test]
        fn each_instant_shows_on_the_clock_and_is_found_again(
            at_s in 0i64..7_000_000_000,
            which in 0usize..3,
        ) {
            let rule = match zone(
                ["CET-1CEST,M3.5.0,M10.5.0/3", "EST5EDT,M3.2.0,M11.1.0", "AEST-10AEDT,M10.1.0,M4.1.0/3"]
                    [which],
            ) {
                TimeZone::Rule(rule) => rule,
                TimeZone::Fixed(_) => unreachable!(),
            };
            let local_s = at_s + rule.east_s(at_s);
            prop_assert!(TimeZone::Rule(rule).instants(local_s).contains(&at_s));
        }

        #[test]
        fn no_text_makes_it_panic(
            text in "\\PC*",
            rule in "[A-Z]{3}[-0-9:]{1,4}[A-Z]{3}[-+0-9:]{0,4},[MJ0-9./:-]{1,10},[MJ0-9./:-]{1,10}",
            at_s in any::<i32>(),
        ) {
            for text in [text, rule] {
                if let Some(zone) = TimeZone::parse(&text) {
                    let _ = zone.instants(i64::from(at_s));
                }
            }
        }
    }
}
