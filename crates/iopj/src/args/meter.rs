//! The subcommands of `iopj meter`.

use super::examples;
use clap::Subcommand;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum MeterCommand {
    /// List the meters of this machine and what they measure; for the others, why they are missing
    #[command(after_help = examples::METER_LIST)]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Read each meter of a study five times: values, age, interval, noise, and the least runtime
    Test {
        /// Study file; without one, the meters of this machine
        study: Option<PathBuf>,
        /// Let the study run the programs that it names
        #[arg(long)]
        allow_exec: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Attach a meter's log, read out after the run, to a store
    #[command(after_help = examples::METER_ATTACH)]
    Attach {
        /// Store written by `iopj run`
        store: PathBuf,
        /// The log, in the format of the study's [meters.NAME] table of kind `log`; without one, a HOBOware
        /// export
        log: PathBuf,
        /// The logger's time zone, such as UTC, +01:00 or CET-1CEST,M3.5.0,M10.5.0/3
        #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
        time_zone: Option<String>,
        /// Trust the logger's clock, to a second, instead of looking for the load pattern
        #[arg(long)]
        trust_clock: bool,
    },
    /// Fit a model of this machine's power to a store whose trials have a real meter
    #[command(after_help = examples::METER_FIT)]
    Fit {
        /// Store written by `iopj run`
        store: PathBuf,
        /// File for the coefficients
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
}
