//! HOBOware's exports in all its settings: each is read correctly, or refused with the line.

use iopj_meter::log::{DateOrder, Decimal, Log, LogConfig, LogError, LogFormat, LogKind, Logger, read};
use iopj_meter::{ChannelKind, Distribution, Scope, Value};
use proptest::prelude::*;

/// 2026-11-20 17:59:58 UTC, from `date -u -d '2026-11-20 17:59:58' +%s`: 12:59:58 PM at GMT-05:00.
const BEGIN_S: i64 = 1_795_197_598;

/// The settings of HOBOware's export dialogue.
#[derive(Clone, Debug)]
struct Export {
    separator: char,
    has_title: bool,
    has_numbers: bool,
    has_quotes: bool,
    is_split: bool,
    has_serials: bool,
    has_fractions: bool,
    order: DateOrder,
    date_separator: char,
    /// Words for the halves of the day; without them a 24-hour clock.
    halves: Option<[&'static str; 2]>,
    /// Grouping mark and decimal mark.
    marks: [&'static str; 2],
    has_details: bool,
    line_end: &'static str,
}

/// The settings of a new installation.
const DEFAULT: Export = Export {
    separator: ',',
    has_title: true,
    has_numbers: true,
    has_quotes: true,
    is_split: false,
    has_serials: true,
    has_fractions: false,
    order: DateOrder::Mdy,
    date_separator: '/',
    halves: Some(["AM", "PM"]),
    marks: [",", "."],
    has_details: false,
    line_end: "\r\n",
};

/// The "classic" preset: tabs, no quotes or commas in headings, and so a zone only in the details.
const CLASSIC: Export = Export {
    separator: '\t',
    has_title: false,
    has_numbers: false,
    has_quotes: false,
    has_serials: false,
    has_fractions: true,
    halves: None,
    ..DEFAULT
};

/// Watts of the values; one has thousands.
const WATTS: [f64; 6] = [117.42, 98.06, 1234.5, 60.0, 61.25, 100.0];

impl Export {
    fn heading(&self, name: &str, unit: &str) -> String {
        let serials = match (self.has_serials, self.has_quotes) {
            (true, true) => " (LGR S/N: 10659301, SEN S/N: 10659301, LBL: server W)",
            (true, false) => " LGR S/N: 10659301",
            (false, _) => "",
        };
        match (unit, self.has_quotes) {
            ("", _) => format!("{name}{serials}"),
            (unit, true) => format!("{name}, {unit}{serials}"),
            (unit, false) => format!("{name} ({unit}){serials}"),
        }
    }

    fn quoted(&self, text: &str) -> String {
        if self.has_quotes || text.contains(self.separator) { format!("\"{text}\"") } else { text.to_owned() }
    }

    fn header(&self) -> Vec<String> {
        let zone = if self.has_quotes { ", GMT-05:00" } else { "" };
        let mut titles = Vec::new();
        if self.has_numbers {
            titles.push("#".to_owned());
        }
        if self.is_split {
            titles.push("Date".into());
            titles.push(format!("Time{zone}"));
        } else {
            titles.push(format!("Date Time{zone}"));
        }
        let series =
            [("RMS Voltage", "V"), ("Active Power", "W"), ("Active Energy", "Wh"), ("Apparent Power", "VA")];
        titles.extend(series.map(|(name, unit)| self.heading(name, unit)));
        let events = ["Started", "Button Up", "Host Connected", "End Of File"];
        titles.extend(events.map(|event| self.heading(event, "")));
        titles
    }

    /// The logger's clock at `local_s`, 1970 to 2099.
    fn time(&self, local_s: i64) -> [String; 2] {
        let (year, month, day) = calendar(local_s.div_euclid(86_400));
        let second = local_s.rem_euclid(86_400);
        let (year, month, day) = (format!("{:02}", year % 100), format!("{month:02}"), format!("{day:02}"));
        let parts = match self.order {
            DateOrder::Mdy => [month, day, year],
            DateOrder::Dmy => [day, month, year],
            DateOrder::Ymd => [year, month, day],
        };
        let (hour, fraction) = (second / 3_600, if self.has_fractions { ".0" } else { "" });
        let (shown, half) = match self.halves {
            Some(halves) => ((hour + 11) % 12 + 1, format!(" {}", halves[usize::from(hour >= 12)])),
            None => (hour, String::new()),
        };
        let time = format!("{shown:02}:{:02}:{:02}{fraction}{half}", second / 60 % 60, second % 60);
        [parts.join(&self.date_separator.to_string()), time]
    }

    fn number(&self, value: f64, decimals: usize) -> String {
        let plain = format!("{value:.decimals$}");
        let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
        let groups: Vec<&str> =
            whole.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect();
        format!("{}{}{fraction}", groups.join(self.marks[0]), if decimals > 0 { self.marks[1] } else { "" })
    }

    /// A row for one second of the log; `watts` is absent in a row that only holds an event.
    fn row(&self, index: usize, utc_s: i64, watts: Option<f64>) -> String {
        let [date, time] = self.time(utc_s - 5 * 3_600);
        let mut fields = if self.has_numbers { vec![(index + 1).to_string()] } else { Vec::new() };
        if self.is_split {
            fields.extend([date, time])
        } else {
            fields.push(format!("{date} {time}"))
        }
        let number = |value: f64, decimals| {
            let text = self.number(value, decimals);
            if text.contains(self.separator) { format!("\"{text}\"") } else { text }
        };
        fields.extend(match watts {
            Some(watts) => {
                [number(120.1, 1), number(watts, 3), number(index as f64 * 0.1, 1), number(watts * 1.02, 3)]
            }
            None => Default::default(),
        });
        fields.extend(
            if watts.is_none() { ["", "Logged", "", ""] } else { ["", "", "", ""] }.map(String::from),
        );
        fields.join(&self.separator.to_string())
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = if self.has_title { vec!["\"Plot Title: server\"".to_owned()] } else { Vec::new() };
        let separator = self.separator.to_string();
        lines.push(self.header().iter().map(|title| self.quoted(title)).collect::<Vec<_>>().join(&separator));
        lines.push(self.row(0, BEGIN_S, None));
        lines.extend(
            (1..).zip(WATTS).map(|(index, watts)| self.row(index, BEGIN_S + index as i64 - 1, Some(watts))),
        );
        if self.has_details {
            let zone = "First Sample Time: 11/20/26 12:59:58 GMT-05:00 PM";
            let details = ["Details", "Series: Active Power, W", "Product: HOBO UX120-018 Plug Load", zone];
            let first = lines.len() - 1 - WATTS.len();
            for (line, detail) in lines[first..].iter_mut().zip(details) {
                let quote = if detail.contains(self.separator) { "\"" } else { "" };
                line.push_str(&format!("{separator}{quote}{detail}{quote}"));
            }
        }
        lines
    }

    fn text(&self) -> String {
        self.lines().iter().map(|line| format!("{line}{}", self.line_end)).collect()
    }
}

/// Year, month and day of a day counted from 1970.
fn calendar(mut days: i64) -> (i64, i64, i64) {
    let mut year = 1970;
    loop {
        let february = if year % 4 == 0 { 29 } else { 28 };
        let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        for (month, length) in (1..).zip(months) {
            if days < length {
                return (year, month, days + 1);
            }
            days -= length;
        }
        year += 1;
    }
}

fn config() -> LogConfig {
    LogConfig { device: Some(Logger::Ux120018), ..LogConfig::new(LogFormat::Hobo) }
}

#[track_caller]
fn assert_right(log: &Log) {
    let values: Vec<(i64, Value)> =
        log.readings.iter().map(|reading| (reading.own_ns.unwrap(), reading.value)).collect();
    let want: Vec<(i64, Value)> = (0..)
        .zip(WATTS)
        .map(|(index, watts)| ((BEGIN_S + index) * 1_000_000_000, Value::Watts(watts)))
        .collect();
    assert_eq!(values, want);
    assert!(
        log.readings.iter().all(|reading| (reading.begin_ns, reading.end_ns, reading.wall_ns) == (0, 0, 0))
    );
    assert_eq!(
        (log.channel.name.split([',', ' ']).next(), log.channel.scope),
        (Some("Active"), Scope::System)
    );
}

#[track_caller]
fn refused(text: &str, config: &LogConfig) -> LogError {
    match read(text.as_bytes(), config) {
        Ok(log) => panic!("{:?}", log.readings),
        Err(error) => error,
    }
}

#[test]
fn exports_of_many_locales_and_settings_are_right() {
    let dmy = Export { order: DateOrder::Dmy, ..DEFAULT };
    let german =
        Export { separator: ';', marks: [".", ","], halves: None, date_separator: '.', ..dmy.clone() };
    let exports = [
        DEFAULT,
        Export { line_end: "\n", has_fractions: true, ..DEFAULT },
        Export { is_split: true, ..DEFAULT },
        Export { has_title: false, has_numbers: false, has_serials: false, ..DEFAULT },
        Export { separator: '\t', ..DEFAULT },
        // Quoted where the separator is also the decimal mark.
        Export { marks: [".", ","], ..dmy.clone() },
        german.clone(),
        Export { marks: ["\u{a0}", ","], halves: Some(["a.m.", "p.m."]), ..german.clone() },
        Export { marks: [".", " "], ..dmy },
        Export { order: DateOrder::Ymd, date_separator: '-', halves: Some(["fm", "em"]), ..DEFAULT },
        Export { order: DateOrder::Ymd, halves: Some(["午前", "午後"]), ..DEFAULT },
        Export { halves: Some(["πμ", "μμ"]), ..german },
    ];
    for export in exports {
        // The year 26 could be a day, so the order of this date is open.
        let config =
            LogConfig { date_order: (export.order != DateOrder::Mdy).then_some(export.order), ..config() };
        let log =
            read(export.text().as_bytes(), &config).unwrap_or_else(|error| panic!("{export:?}: {error}"));
        assert_right(&log);
    }
}

#[test]
fn byte_order_marks_and_windows_1252_are_read() {
    let text = DEFAULT.text().replace("server W", "Büro");
    assert_right(&read(format!("\u{feff}{text}").as_bytes(), &config()).unwrap());
    let bytes: Vec<u8> = text.chars().map(|letter| u8::try_from(letter).unwrap()).collect();
    assert!(String::from_utf8(bytes.clone()).is_err());
    assert_right(&read(&bytes, &config()).unwrap());
}

#[test]
fn samples_are_instants_and_statistics_averages() {
    let log = read(DEFAULT.text().as_bytes(), &config()).unwrap();
    assert_eq!((log.channel.kind, log.channel.resolution), (ChannelKind::Instant, 0.001));
    assert_eq!(log.channel.accuracy.unwrap().gain, Distribution::Rectangular(0.005));
    let text = DEFAULT
        .text()
        .replace("RMS Voltage, V", "Max: Active Power, W")
        .replace("\"Active Power, W", "\"Avg: Active Power, W");
    let log = read(text.as_bytes(), &config()).unwrap();
    assert_eq!(log.channel.kind, ChannelKind::Average { window_ns: 1_000_000_000 });
    assert_eq!(log.channel.name, "Avg: Active Power, W");
    let said = LogConfig { kind: Some(LogKind::Average), window_s: Some(0.5), ..config() };
    let log = read(DEFAULT.text().as_bytes(), &said).unwrap();
    assert_eq!(log.channel.kind, ChannelKind::Average { window_ns: 500_000_000 });
}

#[test]
fn details_tell_the_logger_and_the_zone_that_headings_without_commas_leave_out() {
    let detailed = Export { has_details: true, ..CLASSIC };
    let log = read(detailed.text().as_bytes(), &LogConfig::new(LogFormat::Hobo)).unwrap();
    assert_right(&log);
    assert_eq!(log.channel.accuracy.unwrap().gain, Distribution::Rectangular(0.005));
    assert_eq!(log.notes, Vec::<String>::new());
    assert_right(
        &read(Export { has_details: true, ..DEFAULT }.text().as_bytes(), &LogConfig::new(LogFormat::Hobo))
            .unwrap(),
    );
    let bare = CLASSIC.text();
    let error = refused(&bare, &config());
    assert_eq!(error.line, Some(3));
    assert!(error.text.contains("--time-zone"), "{error}");
    let zone = |text: &str| LogConfig { time_zone: Some(text.into()), ..config() };
    assert_right(&read(bare.as_bytes(), &zone("-05:00")).unwrap());
    assert_eq!(refused(&DEFAULT.text(), &zone("+01:00")).line, Some(2));
    assert_eq!(refused(&DEFAULT.text(), &zone("Mars")).line, None);
    let unknown = read(DEFAULT.text().as_bytes(), &LogConfig::new(LogFormat::Hobo)).unwrap();
    assert!(
        unknown.channel.accuracy.is_none() && unknown.notes[0].contains("ux120-018"),
        "{:?}",
        unknown.notes
    );
}

#[test]
fn a_log_that_was_cut_off_loses_its_last_line_or_is_refused() {
    let whole = read(DEFAULT.text().as_bytes(), &config()).unwrap();
    let text = DEFAULT.text();
    let mut refusals = 0;
    for end in 0..text.len() {
        match read(&text.as_bytes()[..end], &config()) {
            Ok(log) => {
                assert_eq!(log.readings[..], whole.readings[..log.readings.len()], "{end}");
                // At the end of a line a missing part cannot be seen.
                assert!(log.notes.len() == 1 || text[..end].ends_with('\n'), "{end}: {:?}", log.notes);
            }
            Err(error) => {
                refusals += 1;
                assert!(end < text.find("\n5,").unwrap() + 2, "{end}: {error}");
            }
        }
    }
    assert!(refusals > 100, "{refusals}");
    let log = read(&text.as_bytes()[..text.len() - 7], &config()).unwrap();
    assert_eq!(
        (log.readings.len(), log.notes[0].as_str()),
        (5, "line 9, the last, has no end: it may be cut off and is left out")
    );
}

#[test]
fn damage_is_refused_with_its_line() {
    let lines = DEFAULT.lines();
    let damaged = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines = lines.clone();
        change(&mut lines);
        refused(&(lines.join("\n") + "\n"), &config())
    };
    let swapped = damaged(&|lines| lines.swap(5, 6));
    assert_eq!(swapped.line, Some(7));
    assert!(swapped.text.contains("before `11/20/26 01:00:01 PM` of line 6"), "{swapped}");
    assert_eq!(damaged(&|lines| lines.insert(6, lines[5].clone())).line, Some(7));
    let dates = damaged(&|lines| lines[6] = lines[6].replace("11/20/26", "20/11/26"));
    assert_eq!(dates.line, Some(7));
    assert!(dates.text.contains("mdy"), "{dates}");
    assert_eq!(damaged(&|lines| lines[6] = lines[6].replace("11/20/26", "02/30/26")).line, Some(7));
    assert_eq!(damaged(&|lines| lines[6] = lines[6].replace("PM", "noon")).line, Some(7));
    assert_eq!(damaged(&|lines| lines[6] = lines[6].replace("60.000", "ERROR")).line, Some(7));
    assert_eq!(damaged(&|lines| lines[6] = lines[6].replace("60.000", "60,000")).line, Some(7));
    assert_eq!(damaged(&|lines| lines[6] = lines[6].replace("60.000", "\"60.000")).line, Some(7));
    assert_eq!(damaged(&|lines| lines[6].truncate(20)).line, Some(7));
    // Half the file in another locale.
    assert_eq!(damaged(&|lines| lines[6] = lines[6].replace("60.000", "\"60,00\"")).line, Some(7));
    // The half of the day left out: the clock seems to go back at one o'clock.
    let halves = damaged(&|lines| lines.iter_mut().for_each(|line| *line = line.replace(" PM", "")));
    assert_eq!(halves.line, Some(6));
    assert_eq!(damaged(&|lines| lines.truncate(3)).line, None);
    assert_eq!(damaged(&|lines| lines.drain(..2).for_each(drop)).line, None);
    assert_eq!(
        damaged(&|lines| lines[1] = lines[1].replace("Active Power, W", "Active Power, VA")).line,
        Some(2)
    );
    assert_eq!(
        damaged(&|lines| lines[1] = lines[1].replace("Apparent Power, VA", "Power, kW")).line,
        Some(2)
    );
}

#[test]
fn an_open_order_of_the_date_is_asked_for() {
    // 10 or 11 of October to December, 2010 to 2012.
    let text = DEFAULT.text().replace("11/20/26", "10/11/12");
    let error = refused(&text, &config());
    assert_eq!(error.line, Some(4));
    assert!(error.text.contains("--date-order mdy or --date-order dmy or --date-order ymd"), "{error}");
    let with = |order| {
        let log = read(text.as_bytes(), &LogConfig { date_order: Some(order), ..config() }).unwrap();
        log.readings[0].own_ns.unwrap() / 1_000_000_000
    };
    // date -u -d '2012-10-11 17:59:58' +%s, 2012-11-10, 2010-11-12
    assert_eq!(with(DateOrder::Mdy), 1_349_978_398);
    assert_eq!(with(DateOrder::Dmy), 1_352_570_398);
    assert_eq!(with(DateOrder::Ymd), 1_289_584_798);
    // One day above 12 decides.
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    let last = lines.len() - 1;
    lines[last] = lines[last].replace("10/11/12", "10/13/12");
    let log = read((lines.join("\n") + "\n").as_bytes(), &config()).unwrap();
    assert_eq!(log.readings[0].own_ns.unwrap() / 1_000_000_000, 1_349_978_398);
    assert!(log.notes[0].starts_with("values are missing in 1 place"), "{:?}", log.notes);
    assert_eq!(
        refused(&DEFAULT.text(), &LogConfig { date_order: Some(DateOrder::Dmy), ..config() }).line,
        Some(4)
    );
}

#[test]
fn three_digits_behind_a_mark_are_a_fraction_unless_that_is_open() {
    let text = |watts: [&str; 2]| {
        let row = |index: usize| format!("{index};11/20/26 13:00:0{index};{}\n", watts[index]);
        format!("\"#\";\"Date Time, GMT-05:00\";\"Active Power, W\"\n{}{}", row(0), row(1))
    };
    let first =
        |watts, config: &LogConfig| read(text(watts).as_bytes(), config).map(|log| log.readings[0].value);
    // 117420 W is more than a plug carries.
    assert_eq!(first(["1,204", "117,420"], &config()), Ok(Value::Watts(1.204)));
    assert_eq!(first(["1.204", "117.420"], &config()), Ok(Value::Watts(1.204)));
    assert_eq!(first(["1,204", "0,420"], &config()), Ok(Value::Watts(1.204)));
    let said = |decimal| LogConfig { decimal: Some(decimal), ..config() };
    for (open, decimal, other) in [
        ("1,204", Decimal::Comma, Decimal::Point),
        ("1.204", Decimal::Point, Decimal::Comma),
        ("1 204", Decimal::Space, Decimal::Point),
    ] {
        let error = refused(&text([open, open]), &config());
        assert!(error.line == Some(2) && error.text.contains("decimal"), "{error}");
        assert_eq!(first([open, open], &said(decimal)), Ok(Value::Watts(1.204)));
        assert_eq!(first([open, open], &said(other)), Ok(Value::Watts(1204.0)));
    }
}

#[test]
fn a_fixed_offset_runs_through_the_change_of_summer_time() {
    // 2026-11-01 05:59:58 UTC: clocks of New York go back two seconds later, HOBOware's do not.
    let mut text = String::from("\"#\",\"Date Time, GMT-04:00\",\"Active Power, W\"\n");
    for (index, time) in ["01:59:58 AM", "01:59:59 AM", "02:00:00 AM", "02:00:01 AM"].iter().enumerate() {
        text.push_str(&format!("{},11/01/26 {time},50.0\n", index + 1));
    }
    // The date is also 11 January; its zone is the header's.
    let config = LogConfig { date_order: Some(DateOrder::Mdy), ..config() };
    let log = read(text.as_bytes(), &config).unwrap();
    let seconds: Vec<i64> =
        log.readings.iter().map(|reading| reading.own_ns.unwrap() / 1_000_000_000).collect();
    assert_eq!(seconds, [1_793_512_798, 1_793_512_799, 1_793_512_800, 1_793_512_801]);
    // A clock that does go back is refused at that line.
    let error = refused(&text.replace("02:00:0", "01:00:0"), &config);
    assert_eq!(error.line, Some(4));
}

#[test]
fn gaps_stay_gaps() {
    let mut lines = DEFAULT.lines();
    lines.drain(5..7);
    let log = read((lines.join("\r\n") + "\r\n").as_bytes(), &config()).unwrap();
    assert_eq!(log.readings.len(), 4);
    assert_eq!(
        log.notes,
        ["values are missing in 1 place, the longest for 3.000 s; the log has one every 1.000 s"]
    );
}

#[test]
fn a_running_energy_is_a_counter() {
    let energy = LogConfig { energy: Some("Active Energy, Wh".into()), ..config() };
    let log = read(DEFAULT.text().as_bytes(), &energy).unwrap();
    let ChannelKind::Counter { joules_per_count, wrap: None } = log.channel.kind else {
        panic!("{:?}", log.channel)
    };
    assert!((joules_per_count - 360.0).abs() < 1e-9);
    let counts: Vec<Value> = log.readings.iter().map(|reading| reading.value).collect();
    assert_eq!(counts, (1..=6).map(Value::Count).collect::<Vec<_>>());
    let back = DEFAULT.text().replace(",0.4,", ",0.1,");
    assert_eq!(refused(&back, &energy).line, Some(7));
}

fn exports() -> impl Strategy<Value = Export> {
    let flags = proptest::array::uniform6(any::<bool>());
    let halves =
        [None, Some(["AM", "PM"]), Some(["a. m.", "p. m."]), Some(["fm", "em"]), Some(["오전", "오후"])];
    let marks = [[",", "."], [" ", ","], [".", ","], [".", " "]];
    let separators = proptest::sample::select(vec![',', ';', '\t']);
    let styles = (0usize..3, 0..halves.len(), 0..marks.len(), proptest::sample::select(vec!['/', '-', '.']));
    (flags, separators, styles).prop_map(move |(flags, separator, (order, half, mark, date_separator))| {
        Export {
            separator,
            has_title: flags[0],
            has_numbers: flags[1],
            has_quotes: true,
            is_split: flags[2],
            has_serials: flags[3],
            has_fractions: flags[4],
            order: [DateOrder::Mdy, DateOrder::Dmy, DateOrder::Ymd][order],
            date_separator,
            halves: halves[half],
            marks: marks[mark],
            has_details: flags[5],
            line_end: "\r\n",
        }
    })
}

proptest! {
    #[test]
    fn every_setting_is_read_right(export in exports()) {
        let said = LogConfig { date_order: Some(export.order), ..config() };
        assert_right(&read(export.text().as_bytes(), &said).unwrap());
        // Without `date_order`, the order is found right or asked for.
        match read(export.text().as_bytes(), &config()) {
            Ok(log) => assert_right(&log),
            Err(error) => prop_assert!(error.text.contains("--date-order"), "{}", error),
        }
    }

    #[test]
    fn damaged_bytes_never_panic(export in exports(), at in 0usize..2000, byte: u8, end in 0usize..2000) {
        let mut bytes = export.text().into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.truncate(end.max(200));
        if let Ok(log) = read(&bytes, &config()) {
            prop_assert!(log.readings.windows(2).all(|pair| pair[0].own_ns < pair[1].own_ns));
        }
    }
}
