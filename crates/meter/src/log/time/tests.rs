//! Times of many locales, and text that is not a time.

use super::*;
use proptest::prelude::*;

fn local(text: &str, order: DateOrder) -> Option<i64> {
    Stamp::parse(text).unwrap_or_else(|why| panic!("{text}: {why}")).local_s(order)
}

/// 2026-11-20 13:02:03, from `date -u -d '2026-11-20 13:02:03' +%s`.
const THEN_S: i64 = 1_795_179_723;

#[test]
fn days_are_those_of_the_calendar() {
    // date -u -d ... +%s
    for (year, month, day, want) in [
        (1970, 1, 1, 0),
        (2000, 2, 29, 951_782_400),
        (2026, 11, 20, 1_795_132_800),
        (2100, 3, 1, 4_107_542_400),
        (2199, 12, 31, 7_258_032_000),
    ] {
        assert_eq!(day_s(year, month, day), Some(want), "{year}-{month}-{day}");
    }
    for (year, month, day) in
        [(2026, 2, 29), (2100, 2, 29), (2026, 13, 1), (2026, 4, 31), (2026, 1, 0), (1969, 12, 31)]
    {
        assert_eq!(day_s(year, month, day), None);
    }
}

#[test]
fn one_instant_in_many_locales() {
    use DateOrder::{Dmy, Mdy, Ymd};
    for (text, order) in [
        ("11/20/26 01:02:03 PM", Mdy),
        ("11/20/26 01:02:03  PM", Mdy),
        ("11-20-26 13:02:03", Mdy),
        ("11/20/2026 13:02:03.0", Mdy),
        ("20/11/26 01:02:03 p.m.", Dmy),
        ("20.11.2026 13:02:03", Dmy),
        ("20/11/2026 1:02:03 p.\u{a0}m.", Dmy),
        ("26-11-20 01:02:03 em", Ymd),
        ("20.11.26 01:02:03 nachm.", Dmy),
        ("26/11/20 午後 01:02:03", Ymd),
        ("26/11/20 오후 1:02:03", Ymd),
        ("20/11/26 01:02:03 μμ", Dmy),
        ("2026-11-20T13:02:03", Ymd),
    ] {
        assert_eq!(local(text, order), Some(THEN_S), "{text}");
    }
}

#[test]
fn noon_and_midnight_of_a_twelve_hour_clock() {
    for (text, hour) in
        [("12:00:00 AM", 0), ("01:00:00 AM", 1), ("12:00:00 PM", 12), ("11:00:00 PM", 23), ("12:00:00 fm", 0)]
    {
        let text = format!("11/20/26 {text}");
        assert_eq!(local(&text, DateOrder::Mdy), Some(1_795_132_800 + hour * 3_600), "{text}");
    }
}

#[test]
fn fractions_and_offsets_are_kept() {
    let stamp = Stamp::parse("2026-11-20T13:02:03,25+01:00").unwrap();
    assert_eq!((stamp.nanoseconds, stamp.east_s), (250_000_000, Some(3_600)));
    assert_eq!(Stamp::parse("2026-11-20 13:02:03Z").unwrap().east_s, Some(0));
    assert_eq!(Stamp::parse("2026-11-20 13:02:03 -0530").unwrap().east_s, Some(-19_800));
    assert_eq!(Stamp::parse("2026-11-20 13:02:03").unwrap().east_s, None);
}

#[test]
fn what_is_no_time_is_refused() {
    for text in [
        "",
        "Logged",
        "11/20/26",
        "11/20 13:02:03",
        "11/20/26/1 13:02:03",
        "11/20-26 13:02:03",
        "11/20/26 13:02:03 PM",
        "11/20/26 24:00:00",
        "11/20/26 13:60:00",
        "11/20/26 13:02:03 xy",
        "11/20/26 13:02:03:04",
        "11/20/26 13",
        "2026-11-20T13:02:03+25:00",
    ] {
        assert!(Stamp::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_field_above_twelve_decides_the_order() {
    let fits = |text: &str| DateOrder::ALL.map(|order| Stamp::parse(text).unwrap().fits(order));
    assert_eq!(fits("10/11/12 00:00:00"), [true, true, true]);
    assert_eq!(fits("11/20/26 00:00:00"), [true, false, false]);
    assert_eq!(fits("20/11/2026 00:00:00"), [false, true, false]);
    assert_eq!(fits("2026/11/12 00:00:00"), [false, false, true]);
    assert_eq!(fits("26/11/20 00:00:00"), [false, true, true]);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC*", half in "[0-9/.-]{0,10}[ T][0-9:.+-]{0,16} ?\\PC{0,4}") {
        for text in [text, half] {
            if let Ok(stamp) = Stamp::parse(&text) {
                let _ = DateOrder::ALL.map(|order| stamp.local_s(order));
            }
        }
    }

    #[test]
    fn every_day_follows_the_day_before(days in 0i64..80_000) {
        // The next day by the calendar's own rules.
        let year = 1970 + days / 366;
        let (month, day) = (days % 12 + 1, days % 28 + 1);
        let next = if day < 28 {
            (year, month, day + 1)
        } else if month < 12 {
            (year, month + 1, 1)
        } else {
            (year + 1, 1, 1)
        };
        let (today, tomorrow) = (day_s(year, month, day).unwrap(), day_s(next.0, next.1, next.2).unwrap());
        let length = if day < 28 { 1 } else { (tomorrow - today) / 86_400 };
        prop_assert!((1..=4).contains(&length) && tomorrow - today == length * 86_400);
    }
}
