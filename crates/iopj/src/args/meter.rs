//! The subcommands of `iopj meter`.

use super::allow::AllowArgs;
use super::examples;
use clap::{Args, Subcommand};
use iopj_core::parse_duration;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub(crate) enum MeterCommand {
    /// List the meters of this machine and what they measure; for the others, why they are missing
    #[command(after_help = examples::METER_LIST)]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Read each meter of a study five times: values, age, interval, noise, and the shortest usable runtime
    #[command(after_help = examples::METER_TEST)]
    Test {
        /// Study file; without one, the meters of this machine
        study: Option<PathBuf>,
        #[command(flatten)]
        allow: AllowArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Attach a meter's log, read out after the run, to a store
    #[command(after_help = examples::METER_ATTACH)]
    Attach(Box<AttachArgs>),
    /// Fit a model of this machine's power to a store whose trials have a real meter
    #[command(after_help = examples::METER_FIT)]
    Fit {
        /// Store written by `iopj run`
        store: PathBuf,
        /// File for the coefficients
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// Store written by `iopj run`
    pub(crate) store: PathBuf,
    /// The log, in the format of the study's [meters.NAME] table of kind `log`; without one, a HOBOware
    /// export
    pub(crate) log: PathBuf,
    /// Trust the logger's clock to within a second instead of looking for the load pattern
    #[arg(long)]
    pub(crate) trust_clock: bool,
    /// Largest error to allow for in the logger's clock (default: 10m)
    #[arg(long, value_name = "TIME", conflicts_with = "trust_clock", value_parser = parse_duration)]
    pub(crate) clock_within: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) keys: LogKeys,
}

/// The keys of a log's table as options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Override the study's keys")]
pub(crate) struct LogKeys {
    /// Format of the log
    #[arg(long, value_name = "FORMAT", value_parser = ["hobo", "csv"])]
    format: Option<String>,
    /// Title of the column with the time
    #[arg(long, value_name = "TITLE")]
    time: Option<String>,
    /// Title of the column with the date, if the date is in a column of its own
    #[arg(long, value_name = "TITLE")]
    date: Option<String>,
    /// Format of the time
    #[arg(long, value_name = "FORM",
          value_parser = ["date_time", "unix_s", "unix_ms", "unix_ns", "elapsed_s"])]
    time_format: Option<String>,
    /// Order of day, month and year
    #[arg(long, value_name = "ORDER", value_parser = ["mdy", "dmy", "ymd"])]
    date_order: Option<String>,
    /// The logger's time zone, such as UTC, +01:00 or CET-1CEST,M3.5.0,M10.5.0/3
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
    time_zone: Option<String>,
    /// Title of the column with the power
    #[arg(long, value_name = "TITLE", conflicts_with = "energy")]
    watts: Option<String>,
    /// Title of the column with the energy since the log began
    #[arg(long, value_name = "TITLE")]
    energy: Option<String>,
    /// Unit of that column
    #[arg(long, value_name = "UNIT", value_parser = ["mW", "W", "kW", "J", "mWh", "Wh", "kWh"])]
    unit: Option<String>,
    /// Decimal mark
    #[arg(long, value_name = "MARK", value_parser = ["point", "comma", "space"])]
    decimal: Option<String>,
    /// Whether a value in watts is an average or an instant
    #[arg(long, value_name = "KIND", value_parser = ["average", "instant"])]
    values: Option<String>,
    /// Averaging window in s, if it differs from the logging interval
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    window_s: Option<f64>,
    /// What the meter measures
    #[arg(long, value_name = "SCOPE",
          value_parser = ["system", "psys", "package", "core", "uncore", "dram", "device"])]
    scope: Option<String>,
    /// Model of the logger; its data sheet gives the accuracy
    #[arg(long, value_name = "DEVICE", value_parser = ["ux120-018"])]
    device: Option<String>,
}

/// A length of time in seconds: what is no number would be left out of the log's keys.
fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: Option<f64> =
        text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0);
    seconds.ok_or_else(|| "name a number of seconds above 0, such as 1 or 0.5".to_owned())
}

impl LogKeys {
    /// The keys that were given, with their values.
    pub(crate) fn said(&self) -> Map<String, Value> {
        let texts = [
            ("format", &self.format),
            ("time", &self.time),
            ("date", &self.date),
            ("time_format", &self.time_format),
            ("date_order", &self.date_order),
            ("time_zone", &self.time_zone),
            ("watts", &self.watts),
            ("energy", &self.energy),
            ("unit", &self.unit),
            ("decimal", &self.decimal),
            ("values", &self.values),
            ("scope", &self.scope),
            ("device", &self.device),
        ];
        let texts = texts.into_iter().filter_map(|(key, text)| Some((key, Value::from(text.as_deref()?))));
        let window = self.window_s.map(|seconds| ("window_s", Value::from(seconds)));
        texts.chain(window).map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};
    use iopj_meter::log::LogConfig;

    #[derive(Parser)]
    struct Keys {
        #[command(flatten)]
        keys: LogKeys,
    }

    /// A value that an option takes is one that a log's table takes.
    #[test]
    fn every_value_of_a_logs_options_is_one_of_its_keys() {
        let command = Keys::command();
        let mut count = 0;
        for option in command.get_arguments().filter(|option| option.get_long() != Some("help")) {
            let name = option.get_long().unwrap();
            let known: Vec<String> =
                option.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
            let free = if name == "window-s" { "0.5" } else { "UTC" };
            for value in if known.is_empty() { vec![free.to_owned()] } else { known } {
                let keys = Keys::parse_from(["iopj", &format!("--{name}"), &value]).keys;
                let mut said = keys.said();
                assert_eq!(said.len(), 1, "--{name} {value}");
                if let Some(values) = said.remove("values") {
                    said.insert("kind".to_owned(), values);
                }
                said.entry("format").or_insert("csv".into());
                assert!(serde_json::from_value::<LogConfig>(said.into()).is_ok(), "--{name} {value}");
                count += 1;
            }
        }
        assert_eq!(count, 36);
    }
}
