//! Mistakes in a study's text: the line that holds one, and what to write instead.

use crate::meters::is_secret;
use iopj_core::format_bytes;
use toml::Value;

/// A TOML error in one line, with the number of its line and, where the key is known, the remedy.
pub(crate) fn message(text: &str, error: &toml::de::Error) -> String {
    let what = error.message().replace('\n', ", ");
    let Some(span) = error.span() else { return what };
    let start = span.start.min(text.len());
    let begin = text[..start].rfind('\n').map_or(0, |end| end + 1);
    let number = 1 + text[..start].matches('\n').count();
    // A value of the wrong type is marked whole, and its key precedes it in its line.
    if let Some((key, value)) = text.get(begin..span.end).and_then(only_key)
        && let Some(remedy) = remedy(&key, &value)
    {
        return format!("line {number}, `{}`: {remedy}", shown(text[begin..].lines().next().unwrap_or("")));
    }
    // If the error is in one line, that line names the key.
    match text.get(span).filter(|part| !part.is_empty() && !part.contains('\n')) {
        Some(_) => {
            format!("line {number}, `{}`: {what}", shown(text[begin..].lines().next().unwrap_or("").trim()))
        }
        None => format!("line {number}: {what}"),
    }
}

/// The one key of a piece of TOML, with its value.
fn only_key(text: &str) -> Option<(String, Value)> {
    let table: toml::Table = text.parse().ok()?;
    let mut all = table.into_iter();
    all.next().filter(|_| all.next().is_none())
}

/// A line of a study for a message, without what may be a secret in the wrong place.
fn shown(line: &str) -> &str {
    let lower = line.to_lowercase();
    let key = lower.split('=').next().unwrap_or_default().trim();
    let is_secret = [key, &lower].into_iter().any(is_secret)
        || ["community", "://"].iter().any(|word| lower.contains(word));
    match line.trim().split_once('=') {
        _ if !is_secret => line.trim(),
        Some((key, _)) if key.len() < 40 => key.trim(),
        _ => "...",
    }
}

/// What a key takes.
#[derive(Clone, Copy)]
enum Takes {
    /// The least number of seconds.
    Time(i64),
    Size,
    /// A whole number from 1, or from 0, up to the second one.
    Whole(u64, u64),
    Switch,
    Processors,
    /// A text, such as this one.
    Text(&'static str),
    /// A table with a key such as this one.
    Table(&'static str),
}

impl Takes {
    /// What the key takes, and whether it takes a list of it too.
    fn of(key: &str) -> Option<(Takes, bool)> {
        Some(match key {
            "name" => (Takes::Text("my-study"), false),
            "paths" => (Takes::Text("available"), true),
            "generator" => (Takes::Text("native"), true),
            "seed" => (Takes::Whole(0, i64::MAX as u64), false),
            "size" => (Takes::Size, false),
            "precondition" | "profile" => (Takes::Switch, false),
            "steadystate" => (Takes::Text("iops_slope:2%"), false),
            "steadystate_duration" | "steadystate_limit" | "idle" | "settle_limit" => (Takes::Time(1), false),
            "settings" => (Takes::Table("scheduler = \"none\""), false),
            "score" => (Takes::Table("margin = 0.97"), false),
            "fio" => (Takes::Table("program = \"/usr/bin/fio\""), false),
            "rw" => (Takes::Text("randread"), true),
            "rwmixread" => (Takes::Whole(0, 100), true),
            "bs" => (Takes::Size, true),
            "iodepth" | "iodepth_batch_submit" | "iodepth_batch_complete_min" | "numjobs" => {
                (Takes::Whole(1, u32::MAX.into()), true)
            }
            "rate_iops" => (Takes::Whole(1, u32::MAX.into()), true),
            "rate_iops_end" => (Takes::Whole(1, u32::MAX.into()), false),
            "rate_process" => (Takes::Text("poisson"), true),
            "burst_on" | "burst_off" => (Takes::Time(1), false),
            "corunner" => (Takes::Text("spin"), true),
            "corunner_cpus" => (Takes::Processors, false),
            "corunner_nice" => (Takes::Whole(0, 19), true),
            "bssplit" => (Takes::Text("4k/60:64k/40"), true),
            "fsync" | "fdatasync" => (Takes::Whole(0, u32::MAX.into()), true),
            "sync" => (Takes::Text("dsync"), true),
            "read_iolog" => (Takes::Text("trace.csv"), false),
            "replay_time_scale" => (Takes::Whole(1, u32::MAX.into()), true),
            "replay_no_stall" => (Takes::Switch, true),
            "replay_scale" => (Takes::Whole(1, i64::MAX as u64), false),
            "replay_align" => (Takes::Size, false),
            "replay_map" => (Takes::Text("wrap"), false),
            "replay_device" => (Takes::Text("8,0"), false),
            "replay_skip" => (Takes::Text("write"), true),
            "random_distribution" => (Takes::Text("zipf:1.2"), true),
            "cpus_allowed" => (Takes::Processors, false),
            "ramp_time" => (Takes::Time(0), false),
            "runtime" => (Takes::Time(1), false),
            "ios" => (Takes::Whole(1, i64::MAX as u64), false),
            _ => return None,
        })
    }

    fn words(self) -> String {
        match self {
            Takes::Time(_) => "a time is a text with a unit".to_owned(),
            Takes::Size => "a size is a text".to_owned(),
            Takes::Whole(least, most) if most <= 100 => {
                format!("it takes a whole number from {least} to {most}")
            }
            Takes::Whole(least, _) => format!("it takes a whole number of {least} or more"),
            Takes::Switch => "it takes true or false".to_owned(),
            Takes::Processors => "it takes a text with numbers and ranges".to_owned(),
            Takes::Text(_) => "it takes a text".to_owned(),
            Takes::Table(_) => "it is a table".to_owned(),
        }
    }

    /// The value that was probably meant, or else an example, as TOML.
    fn meant(self, value: &Value) -> String {
        let quoted = |text: String| Value::String(text).to_string();
        match (self, value) {
            (Takes::Time(least), Value::Integer(seconds)) if *seconds >= least => {
                quoted(format!("{seconds}s"))
            }
            (Takes::Time(0), Value::Float(0.0)) => quoted("0s".to_owned()),
            (Takes::Time(_), Value::Float(seconds)) if (0.001..1e6).contains(seconds) => {
                quoted(format!("{:.0}ms", seconds * 1e3))
            }
            (Takes::Time(_), Value::String(text)) => quoted(text.clone()),
            (Takes::Time(_), _) => quoted("10s".to_owned()),
            (Takes::Size, Value::Integer(bytes @ 1..)) => quoted(format_bytes(*bytes as u64)),
            (Takes::Size, Value::String(text)) => quoted(text.clone()),
            (Takes::Size, _) => quoted("4k".to_owned()),
            (Takes::Whole(least, most), value) => {
                let number = match value {
                    Value::Integer(number) => u64::try_from(*number).ok(),
                    Value::Float(number) if *number >= 0.0 => Some(number.round() as u64),
                    Value::String(text) => text.trim().parse().ok(),
                    _ => None,
                };
                number.unwrap_or(least).clamp(least, most).to_string()
            }
            (Takes::Switch, value) => {
                let no = matches!(value.to_string().trim_matches('"'), "no" | "off" | "false" | "0" | "n");
                (!no).to_string()
            }
            (Takes::Processors, Value::Integer(cpu @ 0..)) => quoted(cpu.to_string()),
            (Takes::Processors, Value::Array(cpus)) if cpus.iter().all(Value::is_integer) => {
                quoted(cpus.iter().map(Value::to_string).collect::<Vec<_>>().join(","))
            }
            (Takes::Processors, _) => quoted("0-3,8".to_owned()),
            (Takes::Text(_), Value::String(text)) => quoted(text.clone()),
            (Takes::Text(example) | Takes::Table(example), _) => quoted(example.to_owned()),
        }
    }
}

/// What to write instead of a value of the wrong type; `None` if the key says so itself.
fn remedy(key: &str, value: &Value) -> Option<String> {
    let (takes, many) = Takes::of(key)?;
    let words = takes.words();
    Some(match (takes, value) {
        (Takes::Table(example), _) => {
            format!("{words}: write the line [{key}], and below it a line such as {example}")
        }
        (Takes::Processors, _) => format!("{words}: write {key} = {}", takes.meant(value)),
        (_, Value::Array(values)) if many => {
            let meant: Vec<String> = values.iter().map(|value| takes.meant(value)).collect();
            format!("{words}: write {key} = [{}]", meant.join(", "))
        }
        (_, Value::Array(values)) => {
            let one = takes.meant(values.first().unwrap_or(&Value::Boolean(true)));
            format!("it takes one value, not a list: write {key} = {one}")
        }
        _ => format!("{words}: write {key} = {}", takes.meant(value)),
    })
}
