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

use crate::args::FleetCommand;
#[cfg(not(feature = "parquet"))]
use crate::args::FleetDataCommand;
#[cfg(not(feature = "parquet"))]
use crate::output::without_parquet;
use crate::output::{FAILURES, note};
use iopj_fleet::campaign::By;
use iopj_fleet::job::State;
use iopj_fleet::{Campaign, FleetError, Kubernetes, Slurm, Ssh};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

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

/// What runs a campaign.
enum Way<'a> {
    Ssh(Ssh<'a>),
    Slurm(Slurm<'a>),
    Kubernetes(Kubernetes<'a>),
}

impl<'a> Way<'a> {
    fn of(campaign: &'a Campaign, stop: &'a AtomicBool) -> Way<'a> {
        match &campaign.plan().by {
            By::Ssh(by) => Way::Ssh(Ssh::new(campaign, by, stop, &note)),
            By::Slurm(by) => Way::Slurm(Slurm::new(campaign, by, stop, &note)),
            By::Kubernetes(by) => Way::Kubernetes(Kubernetes::new(campaign, by, stop, &note)),
        }
    }

    /// Asks what is not known for sure.
    fn refresh(&self) -> Result<(), FleetError> {
        match self {
            Way::Ssh(ssh) => ssh.refresh(),
            Way::Slurm(slurm) => slurm.refresh(),
            Way::Kubernetes(kubernetes) => kubernetes.refresh(),
        }
    }
}

/// The exit code that says whether a host failed.
fn exit_code(known: &BTreeMap<String, State>) -> ExitCode {
    let failed = known.values().any(|state| state.phase.is_over() && state.phase.word() != "ok");
    if failed { ExitCode::from(FAILURES) } else { ExitCode::SUCCESS }
}
