//! CSV logs with named columns: times in many forms, local time across both changes of summer time, energy
//! and power.

use iopj_meter::log::{
    DateOrder, Decimal, LogConfig, LogError, LogFormat, LogKind, Logger, TimeFormat, Unit, read,
};
use iopj_meter::{Accuracy, ChannelKind, Distribution, Scope, Value};
use proptest::prelude::*;
use std::fmt::Display;

const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
/// The day whose third hour occurs twice in that zone.
const AUTUMN: &str = "2026-10-25";

fn config() -> LogConfig {
    LogConfig {
        time: Some("Timestamp".into()),
        watts: Some("Power (W)".into()),
        kind: Some(LogKind::Average),
        ..LogConfig::new(LogFormat::Csv)
    }
}

fn zone(text: &str) -> LogConfig {
    LogConfig { time_zone: Some(text.into()), ..config() }
}

/// A log of 50 W at these times.
fn log(times: &[impl Display]) -> String {
    times.iter().fold(String::from("Timestamp,Power (W)\n"), |text, time| format!("{text}{time},50.5\n"))
}

/// As [`log`], at these times of one day.
fn log_of(day: &str, times: &[&str]) -> String {
    log(&times.iter().map(|time| format!("{day} {time}")).collect::<Vec<_>>())
}

fn seconds(text: &str, config: &LogConfig) -> Result<Vec<i64>, LogError> {
    let log = read(text.as_bytes(), config)?;
    Ok(log.readings.iter().map(|reading| reading.own_ns.unwrap() / 1_000_000_000).collect())
}

#[track_caller]
fn refused_at(text: &str, config: &LogConfig, line: Option<usize>, word: &str) {
    let error = read(text.as_bytes(), config).expect_err("is refused");
    assert_eq!(error.line, line, "{error}");
    assert!(error.text.contains(word), "{error}");
}

#[test]
fn columns_are_found_by_their_titles() {
    let text = "# written by a plug\nid;Timestamp;Volt;Power (W)\n1;2026-11-20 \
                18:00:00;230,1;117,42\n2;2026-11-20 18:00:02;230,0;98,06\n3;2026-11-20 \
                18:00:04;229,9;60,00\n";
    let log = read(text.as_bytes(), &zone("+01:00")).unwrap();
    assert_eq!(log.readings[1].value, Value::Watts(98.06));
    // date -u -d '2026-11-20 17:00:02' +%s
    assert_eq!(log.readings[1].own_ns, Some(1_795_194_002_000_000_000));
    assert_eq!(log.channel.kind, ChannelKind::Average { window_ns: 2_000_000_000 });
    assert_eq!(
        (log.channel.name.as_str(), log.channel.scope, log.channel.resolution),
        ("Power (W)", Scope::System, 0.01)
    );
    assert_eq!(log.channel.accuracy, None);
    assert!(log.notes.is_empty(), "{:?}", log.notes);
    refused_at(text, &LogConfig { watts: Some("Watts".into()), ..zone("UTC") }, Some(2), "Power (W)");
    refused_at(text, &LogConfig { time: Some("When".into()), ..config() }, None, "When");
    refused_at(text, &LogConfig { kind: None, ..config() }, None, "average");
    refused_at(text, &LogConfig { energy: Some("id".into()), ..config() }, None, "either");
    refused_at(text, &LogConfig { watts: None, ..config() }, None, "either");
    refused_at(text, &LogConfig { time: None, ..config() }, None, "time");
    refused_at(&text.replace("Volt", "Timestamp"), &config(), Some(2), "two columns");
    refused_at(text, &config(), Some(3), "--time-zone");
}

#[test]
fn units_are_of_the_title_or_said() {
    let text = "Timestamp,P,kW [kW],E\n0,1.5,0.25,10\n1,2.5,0.5,11\n";
    let value = |config: &LogConfig| {
        read(text.as_bytes(), config).map(|log| (log.readings[1].value, log.channel.kind))
    };
    let elapsed = LogConfig { time_format: TimeFormat::ElapsedS, kind: Some(LogKind::Instant), ..config() };
    let with = |title: &str, unit| LogConfig { watts: Some(title.into()), unit, ..elapsed.clone() };
    assert_eq!(value(&with("P", None)), Ok((Value::Watts(2.5), ChannelKind::Instant)));
    assert_eq!(value(&with("P", Some(Unit::Milliwatt))), Ok((Value::Watts(0.0025), ChannelKind::Instant)));
    assert_eq!(value(&with("kW [kW]", None)), Ok((Value::Watts(500.0), ChannelKind::Instant)));
    assert!(value(&with("P", Some(Unit::Joule))).is_err());
    let energy = |unit| LogConfig { watts: None, energy: Some("E".into()), unit, ..elapsed.clone() };
    let counter = ChannelKind::Counter { joules_per_count: 1.0, wrap: None };
    assert_eq!(value(&energy(Some(Unit::Joule))), Ok((Value::Count(11), counter)));
    let kwh = ChannelKind::Counter { joules_per_count: 3.6e6, wrap: None };
    assert_eq!(value(&energy(Some(Unit::KilowattHour))), Ok((Value::Count(11), kwh)));
    refused_at(text, &energy(None), None, "unit");
    let falling = text.replace("11", "9");
    refused_at(&falling, &energy(Some(Unit::Joule)), Some(3), "less than before");
}

#[test]
fn times_in_many_forms() {
    let iso = log(&["2026-11-20T17:00:00Z", "2026-11-20T18:00:01+01:00", "2026-11-20T12:00:02-0500"]);
    assert_eq!(seconds(&iso, &config()).unwrap(), [1_795_194_000, 1_795_194_001, 1_795_194_002]);
    let with = |time_format| LogConfig { time_format, ..config() };
    let ns = |text: &str, format| {
        let log = read(text.as_bytes(), &with(format)).unwrap();
        log.readings.iter().map(|reading| reading.own_ns.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(
        ns(&log(&["1795194000.123456789", "1795194001"]), TimeFormat::UnixS),
        [1_795_194_000_123_456_789, 1_795_194_001_000_000_000]
    );
    assert_eq!(
        ns(&log(&["1795194000123.5", "1795194001123"]), TimeFormat::UnixMs),
        [1_795_194_000_123_500_000, 1_795_194_001_123_000_000]
    );
    assert_eq!(
        ns(&log(&["1795194000123456789", "1795194000123456790"]), TimeFormat::UnixNs)[1],
        1_795_194_000_123_456_790
    );
    assert_eq!(ns(&log(&["0", "0.5", "1.0"]), TimeFormat::ElapsedS), [0, 500_000_000, 1_000_000_000]);
    refused_at(&log(&["0", "x"]), &with(TimeFormat::ElapsedS), Some(3), "--time-format");
    refused_at(&log(&["0", "99999999999999999999"]), &with(TimeFormat::UnixS), Some(3), "--time-format");
    refused_at(&log(&["1", "0"]), &with(TimeFormat::UnixS), Some(3), "before");
    let split = "Day,Timestamp,Power (W)\n20/11/2026,17:00:00,1.5\n20/11/2026,17:00:01,1.5\n";
    let config = LogConfig { date: Some("Day".into()), ..zone("UTC") };
    assert_eq!(seconds(split, &config).unwrap(), [1_795_194_000, 1_795_194_001]);
}

#[test]
fn the_end_of_summer_time_is_resolved_where_the_clock_goes_back() {
    let (before, twice) = (["01:40:00"], ["02:00:00", "02:20:00", "02:40:00"]);
    let text = log_of(AUTUMN, &[&before[..], &twice, &twice, &["03:00:00"]].concat());
    // date -u -d '2026-10-24 23:40:00' +%s
    let want: Vec<i64> = (0..8).map(|index| 1_792_885_200 + index * 1_200).collect();
    assert_eq!(seconds(&text, &zone(BERLIN)).unwrap(), want);
    // A fixed offset does not allow that: the clock goes back in line 6.
    refused_at(&text, &zone("+02:00"), Some(6), "summer time");
    refused_at(&text, &zone("UTC"), Some(6), "summer time");
    // Only inside the hour that occurs twice, but both times.
    let inside = log_of(AUTUMN, &["02:30:00", "02:50:00", "02:10:00", "02:30:00"]);
    assert_eq!(
        seconds(&inside, &zone(BERLIN)).unwrap(),
        [1_792_888_200, 1_792_889_400, 1_792_890_600, 1_792_891_800]
    );
}

#[test]
fn an_hour_that_comes_twice_and_was_seen_once_is_joined_or_refused() {
    let open = |times: &[&str], line| refused_at(&log_of(AUTUMN, times), &zone(BERLIN), Some(line), "twice");
    // Starts before it, and the second hour is missing.
    let first = log_of(AUTUMN, &["01:40:00", "01:50:00", "02:00:00", "02:10:00", "04:00:00", "04:10:00"]);
    assert_eq!(seconds(&first, &zone(BERLIN)).unwrap()[2..4], [1_792_886_400, 1_792_887_000]);
    // Starts within it, and goes on.
    let second = log_of(AUTUMN, &["02:40:00", "02:50:00", "03:00:00", "03:10:00"]);
    assert_eq!(seconds(&second, &zone(BERLIN)).unwrap()[..3], [1_792_892_400, 1_792_893_000, 1_792_893_600]);
    // Continuous at both ends although an hour is missing inside: open.
    open(&["01:50:00", "02:00:00", "02:10:00", "02:50:00", "03:00:00"], 3);
    // Continuous at neither end: open.
    open(&["02:10:00", "02:20:00"], 2);
    open(&["00:10:00", "00:20:00", "02:20:00", "02:30:00", "04:00:00"], 4);
}

#[test]
fn the_begin_of_summer_time_is_no_gap() {
    let text = log_of("2026-03-29", &["01:58:00", "01:59:00", "03:00:00", "03:01:00"]);
    let want: Vec<i64> = (0..4).map(|index| 1_774_745_880 + index * 60).collect();
    assert_eq!(seconds(&text, &zone(BERLIN)).unwrap(), want);
    refused_at(&text, &zone("+01:00"), Some(4), "summer time");
    let impossible = log(&["2026-03-29 01:59:00", "2026-03-29 02:30:00"]);
    refused_at(&impossible, &zone(BERLIN), Some(3), "leaves out");
    // A gap of another length, or within an hour, is a gap.
    let gap = log_of("2026-03-28", &["01:58:00", "01:59:00", "03:07:00", "03:08:00"]);
    assert_eq!(seconds(&gap, &zone("+01:00")).unwrap().len(), 4);
}

/// It was asked for after the run, by a key that no option had.
#[test]
fn the_studys_time_decides_an_open_order_of_the_date() {
    let text = log(&["10/11/12 10:00:00", "10/11/12 10:00:01"]);
    // date -u -d '2012-10-11 10:00:00' +%s, 2012-11-10, 2010-11-12
    let days =
        [(DateOrder::Mdy, 1_349_949_600), (DateOrder::Dmy, 1_352_541_600), (DateOrder::Ymd, 1_289_556_000)];
    let around = |study_s| LogConfig { study_s: Some(study_s), ..zone("UTC") };
    // A study of one hour, in another zone.
    for (order, day_s) in days {
        let read = read(text.as_bytes(), &around([day_s + 46_800, day_s + 50_400])).unwrap();
        assert_eq!(read.readings[0].own_ns, Some(day_s * 1_000_000_000));
        assert!(read.notes[0].contains(&format!("in the order {order}, the only one")), "{:?}", read.notes);
    }
    // A study of a month fits two of them, one of another year none.
    let month = around([1_349_949_600, 1_352_541_600]);
    refused_at(&text, &month, Some(2), "use --date-order mdy or --date-order dmy");
    refused_at(
        &text,
        &around([1_400_000_000, 1_400_003_600]),
        Some(2),
        "of that day, or say --date-order and",
    );
    // What is said is taken.
    let said = LogConfig { date_order: Some(DateOrder::Ymd), ..month };
    assert_eq!(seconds(&text, &said).unwrap()[0], 1_289_556_000);
}

#[test]
fn open_forms_are_asked_for() {
    refused_at(&log(&["03/04/2026 10:00:00", "03/04/2026 10:00:01"]), &zone("UTC"), Some(2), "--date-order");
    let given = LogConfig { date_order: Some(DateOrder::Dmy), ..zone("UTC") };
    // date -u -d '2026-04-03 10:00:00' +%s
    assert_eq!(
        seconds(&log(&["03/04/2026 10:00:00", "03/04/2026 10:00:01"]), &given).unwrap()[0],
        1_775_210_400
    );
    // 11/11/2026 is the same day in both orders.
    let same = log(&["11/11/2026 10:00:00", "11/11/2026 10:00:01"]);
    assert_eq!(seconds(&same, &zone("UTC")).unwrap()[0], 1_794_391_200);
    let text = "Timestamp;Power (W)\n0;1,234\n1;1,235\n";
    let elapsed = LogConfig { time_format: TimeFormat::ElapsedS, ..config() };
    refused_at(text, &elapsed, Some(2), "decimal");
    let given = LogConfig { decimal: Some(Decimal::Comma), ..elapsed.clone() };
    assert_eq!(read(text.as_bytes(), &given).unwrap().readings[0].value, Value::Watts(1.234));
    let unquoted = "Timestamp,Power (W)\n0,1,23\n1,1,24\n";
    refused_at(unquoted, &elapsed, Some(2), "separator");
    refused_at("Timestamp,Power (W)\n0,1.5\n1,n/a\n", &elapsed, Some(3), "n/a");
    refused_at("Timestamp,Power (W)\n0,1.5\n", &elapsed, None, "fewer than two");
    refused_at(&log(&["0", "1"]), &LogConfig { window_s: Some(-1.0), ..elapsed }, None, "--window-s");
}

#[test]
fn a_study_says_how_to_read() {
    let text = "format = \"csv\"\ntime = \"Timestamp\"\nwatts = \"Power (W)\"\nkind = \"average\"\nwindow_s \
                = 0.5\nscope = \"device\"\ntime_zone = \"UTC\"\ndate_order = \"ymd\"\ndecimal = \
                \"point\"\n[accuracy]\ngain = { normal = 0.0025 }\noffset = { rectangular = 0.1 }\n";
    let config: LogConfig = toml::from_str(text).unwrap();
    let log = read(log(&["2026-11-20 18:00:00", "2026-11-20 18:00:01"]).as_bytes(), &config).unwrap();
    assert_eq!(
        log.channel.accuracy,
        Some(Accuracy { gain: Distribution::Normal(0.0025), offset: Distribution::Rectangular(0.1) })
    );
    assert_eq!(
        (log.channel.scope, log.channel.kind),
        (Scope::Device, ChannelKind::Average { window_ns: 500_000_000 })
    );
    let hobo: LogConfig = toml::from_str("format = \"hobo\"\ndevice = \"ux120-018\"\n").unwrap();
    assert_eq!(hobo, LogConfig { device: Some(Logger::Ux120018), ..LogConfig::new(LogFormat::Hobo) });
    assert!(toml::from_str::<LogConfig>("format = \"csv\"\nwats = \"P\"\n").is_err());
}

proptest! {
    #[test]
    fn local_time_across_both_changes_is_the_time_it_was(
        begin_s in 1_774_700_000i64..1_774_750_000,
        is_autumn: bool,
        interval_s in 60i64..600,
    ) {
        // A logger that never stops: from six hours before the change to six hours after.
        let begin_s = begin_s + if is_autumn { 18_144_000 } else { 0 };
        let times: Vec<i64> = (0..43_200 / interval_s).map(|index| begin_s + index * interval_s).collect();
        let change_s = if is_autumn { 1_792_890_000 } else { 1_774_746_000 };
        let shown: Vec<String> = times
            .iter()
            .map(|at_s| {
                let local_s = at_s + if (*at_s < change_s) == is_autumn { 7_200 } else { 3_600 };
                let (day, second) = (local_s.div_euclid(86_400), local_s.rem_euclid(86_400));
                // Days since 1 March and 1 October 2026.
                let (month, first) = if is_autumn { (10, 20_727) } else { (3, 20_513) };
                format!(
                    "2026-{month:02}-{:02} {:02}:{:02}:{:02}",
                    day - first + 1,
                    second / 3_600,
                    second / 60 % 60,
                    second % 60
                )
            })
            .collect();
        match seconds(&log(&shown), &zone(BERLIN)) {
            Ok(read) => prop_assert_eq!(read, times),
            // The log begins or ends within the hour that occurs twice.
            Err(error) => prop_assert!(error.text.contains("twice"), "{}", error),
        }
    }

    #[test]
    fn no_bytes_make_it_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        rows in "([0-9:/T. -]{0,22}[,;\t][0-9.,; ()-]{0,8}\n){0,8}",
    ) {
        for time_format in [TimeFormat::DateTime, TimeFormat::UnixMs, TimeFormat::ElapsedS] {
            let config = LogConfig { time_format, ..zone(BERLIN) };
            let _ = read(&bytes, &config);
            if let Ok(log) = read(format!("Timestamp,Power (W)\n{rows}").as_bytes(), &config) {
                prop_assert!(log.readings.windows(2).all(|pair| pair[0].own_ns < pair[1].own_ns));
            }
        }
    }
}
