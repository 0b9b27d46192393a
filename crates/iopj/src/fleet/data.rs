//! `iopj fleet gather` and `iopj fleet report`: the data half of a fleet.

use super::gather::gather;
use super::report::report;
use crate::args::FleetDataCommand;
use std::process::ExitCode;

pub(crate) fn data(command: &FleetDataCommand) -> anyhow::Result<ExitCode> {
    match command {
        FleetDataCommand::Gather(args) => gather(args),
        FleetDataCommand::Report(args) => report(args),
    }
}
