//! Standard error as the user wants it: plain lines, or one JSON object a line (`--log-format json`), whose
//! events docs/json.md names.

use crate::args::LogFormat;
use iopj_report::escape_json;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Info,
    Warning,
    Error,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

/// All threads write to one standard error.
static IS_JSON: AtomicBool = AtomicBool::new(false);
static IS_TERMINAL: AtomicBool = AtomicBool::new(false);

/// Chooses the format, once, before anything is said.
pub(crate) fn choose(format: LogFormat) {
    IS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
    IS_TERMINAL.store(std::io::stderr().is_terminal(), Ordering::Relaxed);
}

/// True if lines are printed on a terminal.
pub(crate) fn is_terminal() -> bool {
    IS_TERMINAL.load(Ordering::Relaxed)
}

/// True if events are printed instead of lines.
pub(crate) fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// Prints an event with its fields. A reader that has gone away is no error.
pub(crate) fn event(level: Level, name: &str, fields: Value) {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    // In one write: the handler of a signal prints a line of its own at any time.
    let line = escape_json(&format!("{}\n", line(since, level, name, fields)));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Prints a message as an event; one that begins with `warning: ` is of that level.
pub(crate) fn message(name: &str, text: &str) {
    let (level, text) = match text.strip_prefix("warning: ") {
        Some(text) => (Level::Warning, text),
        None => (Level::Info, text),
    };
    event(level, name, json!({ "message": text }));
}

/// Says why the command line was not understood; help that was asked for is printed, and ends the program.
pub(crate) fn usage(error: &clap::Error) {
    if !error.use_stderr() || !asks_for_json(std::env::args_os()) {
        error.exit();
    }
    let text = error.to_string();
    let (what, _) = text.split_once("\n\nUsage:").unwrap_or((&text, ""));
    let what = what.trim_start_matches("error: ").trim_end();
    event(Level::Error, "error", json!({ "message": what }));
}

/// True if a command line that was not understood asks for events all the same.
fn asks_for_json(words: impl Iterator<Item = OsString>) -> bool {
    let words: Vec<OsString> = words.take_while(|word| word != "--").collect();
    let is_pair = |pair: &[OsString]| pair[0] == "--log-format" && pair[1] == "json";
    words.iter().any(|word| word == "--log-format=json") || words.windows(2).any(is_pair)
}

fn line(since_1970: Duration, level: Level, name: &str, fields: Value) -> Value {
    let mut line = match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    line.insert("time".to_owned(), Utc(since_1970).to_string().into());
    line.insert("level".to_owned(), level.as_str().into());
    line.insert("event".to_owned(), name.into());
    Value::Object(line)
}

/// A time since 1970 as RFC 3339 has it, in UTC with milliseconds. It is printed without memory of the
/// allocator's, so that a signal's handler may do it.
pub(crate) struct Utc(pub(crate) Duration);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date(self.0.as_secs() / 86_400);
        let (seconds, ms) = (self.0.as_secs(), self.0.subsec_millis());
        let [hour, minute, second] = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60];
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

/// Year, month and day, so many days after the first of 1970.
fn date(mut days: u64) -> (u64, u32, u64) {
    let mut year = 1970;
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let of_year = |year: u64| if is_leap(year) { 366 } else { 365 };
    while days >= of_year(year) {
        days -= of_year(year);
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_its_time_level_and_fields() {
        let at = Duration::from_millis(951_782_400_000 + 45_296_007);
        let line = line(at, Level::Warning, "note", json!({ "message": "a \"b\"\n" }));
        assert_eq!(
            line,
            json!({
                "time": "2000-02-29T12:34:56.007Z", "level": "warning", "event": "note",
                "message": "a \"b\"\n",
            })
        );
    }

    /// Compared with `date -u -d @SECONDS`.
    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_868_799, "2000-02-29T23:59:59.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (1_795_778_844, "2026-11-27T11:27:24.000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Utc(Duration::from_secs(seconds)).to_string(), text);
        }
    }

    #[test]
    fn a_wrong_command_line_may_ask_for_events_before_the_dashes() {
        let asks = |line: &str| asks_for_json(line.split(' ').map(OsString::from));
        assert!(asks("iopj --log-format json ruin"));
        assert!(asks("iopj run --log-format=json --nonsense"));
        assert!(!asks("iopj run --log-format plain json"));
        assert!(!asks("iopj watch --nonsense -- x --log-format json"));
    }
}
