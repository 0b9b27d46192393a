//! Sizes and times as people write them: `4k`, `1g`, `500ms`, `2m`.

use std::time::Duration;

/// The longest latency that histograms record as such: one minute in ns.
pub const MAX_LATENCY_NS: u64 = 60_000_000_000;

/// A quantity that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what}; write it as {example}")]
pub struct ParseUnitError {
    text: String,
    what: &'static str,
    example: &'static str,
}

/// Bytes from a text such as `512`, `4k`, `128KiB`, `1g`. Units are powers of 1024, as in fio.
pub fn parse_bytes(text: &str) -> Result<u64, ParseUnitError> {
    let error = || ParseUnitError { text: text.to_owned(), what: "size", example: "512, 4k, 1m or 10g" };
    let (number, unit) = split_unit(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(error()),
    };
    let number: u64 = number.parse().map_err(|_| error())?;
    number.checked_mul(1 << shift).ok_or_else(error)
}

/// The shortest exact text of a number of bytes: `4k`, `1g`, `513`.
pub fn format_bytes(bytes: u64) -> String {
    for (shift, unit) in [(40, "t"), (30, "g"), (20, "m"), (10, "k")] {
        if bytes > 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// A time from a text such as `10s`, `500ms`, `250us`, `2m`, `1h`; a bare number is seconds, as in fio.
pub fn parse_duration(text: &str) -> Result<Duration, ParseUnitError> {
    let error = || ParseUnitError { text: text.to_owned(), what: "time", example: "10s, 500ms or 2m" };
    let (number, unit) = split_unit(text);
    let nanoseconds: u64 = match unit {
        "" | "s" => 1_000_000_000,
        "us" => 1_000,
        "ms" => 1_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err(error()),
    };
    let number: u64 = number.parse().map_err(|_| error())?;
    number.checked_mul(nanoseconds).map(Duration::from_nanos).ok_or_else(error)
}

/// The shortest exact text of a time in whole microseconds.
pub fn format_duration(time: Duration) -> String {
    let us = time.as_micros();
    for (size, unit) in [(3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"), (1_000, "ms")] {
        if us > 0 && us.is_multiple_of(size) {
            return format!("{}{unit}", us / size);
        }
    }
    if us == 0 { "0s".to_owned() } else { format!("{us}us") }
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_round_trip(bytes: u64) {
            prop_assert_eq!(parse_bytes(&format_bytes(bytes)), Ok(bytes));
        }

        #[test]
        fn durations_round_trip(us in 0u64..u64::MAX / 1000) {
            let time = Duration::from_micros(us);
            prop_assert_eq!(parse_duration(&format_duration(time)), Ok(time));
        }

        #[test]
        fn parsers_never_panic(text in "\\PC{0,24}") {
            let _ = (parse_bytes(&text), parse_duration(&text));
        }
    }

    #[test]
    fn units_are_fios() {
        assert_eq!(parse_bytes("4k"), Ok(4096));
        assert_eq!(parse_bytes("128KiB"), Ok(131_072));
        assert_eq!(parse_bytes("1g"), Ok(1 << 30));
        assert_eq!(parse_duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("250us"), Ok(Duration::from_micros(250)));
        for bad in ["", "k", "-1", "1.5k", "4q", "99999999999999999999", "20000000t"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
