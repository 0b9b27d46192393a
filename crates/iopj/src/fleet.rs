//! `iopj fleet`: a study on many hosts.

mod cancel;
#[cfg(feature = "parquet")]
mod data;
mod fetch;
#[cfg(feature = "parquet")]
mod gather;
mod guard;
mod job;
mod plan;
mod put_back;
mod refusals;
#[cfg(feature = "parquet")]
mod report;
mod status;
mod submit;
mod way;

use crate::args::FleetCommand;
#[cfg(not(feature = "parquet"))]
use crate::args::FleetDataCommand;
#[cfg(not(feature = "parquet"))]
use crate::output::without_parquet;
use std::process::ExitCode;
use way::{Way, exit_code};

pub(crate) fn fleet(command: &FleetCommand) -> anyhow::Result<ExitCode> {
    match command {
        FleetCommand::Submit(args) => submit::submit(args),
        FleetCommand::Status(args) => status::status(args),
        FleetCommand::Fetch(args) => fetch::fetch(args),
        FleetCommand::Cancel { folder } => cancel::cancel(folder),
        #[cfg(feature = "parquet")]
        FleetCommand::Data(command) => data::data(command),
        #[cfg(not(feature = "parquet"))]
        FleetCommand::Data(FleetDataCommand::Gather(_)) => Err(without_parquet("iopj fleet gather")),
        #[cfg(not(feature = "parquet"))]
        FleetCommand::Data(FleetDataCommand::Report(_)) => Err(without_parquet("iopj fleet report")),
        FleetCommand::Job(args) => job::job(args),
        FleetCommand::Store { store } => job::send(store),
    }
}
