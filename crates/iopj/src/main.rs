//! The command line: parse, do, print.

mod advise;
mod again;
mod agent;
mod args;
mod calibrate;
mod check;
mod claims;
mod compare;
mod dry_run;
mod explain;
mod export;
mod fleet;
mod import;
mod lab;
mod log;
mod meta;
mod meter;
mod meter_test;
mod metrics;
mod opened;
mod output;
mod policy;
mod predict;
mod progress;
mod reference;
mod report;
mod restore;
mod run;
mod signals;
mod study;
mod watch;
mod winners;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            log::usage(&error);
            return ExitCode::from(output::USAGE);
        }
    };
    log::choose(cli.log_format);
    let result = match cli.command {
        Command::Check(args) => check::check(&args),
        Command::Run(args) => run::run(&args),
        Command::Watch(args) => watch::watch(&args),
        Command::Report(args) => report::report(&args),
        Command::Export(args) => export::export(&args),
        Command::Winners(args) => winners::winners(&args),
        Command::Advise(args) => advise::advise(&args),
        Command::Policy(command) => policy::policy(&command),
        Command::Predict(args) => predict::predict(&args),
        Command::Claims(args) => claims::claims(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Import(args) => import::import(&args),
        Command::Fleet(command) => fleet::fleet(&command),
        Command::Lab(command) => lab::lab(&command),
        Command::Meter(command) => meter::meter(&command),
        Command::Restore(args) => restore::restore(&args),
        Command::Agent { rest_ms } => agent::agent(rest_ms),
        Command::Guard { guarded } => agent::guard(guarded),
        Command::Man { folder } => meta::man(&folder),
        Command::Reference { folder } => reference::reference(&folder),
        Command::Completions { shell } => meta::completions(shell),
    };
    result.unwrap_or_else(|error| output::fail(&error))
}
