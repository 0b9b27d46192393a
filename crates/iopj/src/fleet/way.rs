//! Which way the hosts of a campaign are reached, and what an exit code says of them.

use crate::output::{FAILURES, note};
use iopj_fleet::campaign::By;
use iopj_fleet::job::State;
use iopj_fleet::{Campaign, FleetError, Kubernetes, Slurm, Ssh};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// What runs a campaign.
pub(super) enum Way<'a> {
    Ssh(Ssh<'a>),
    Slurm(Slurm<'a>),
    Kubernetes(Kubernetes<'a>),
}

impl<'a> Way<'a> {
    pub(super) fn of(campaign: &'a Campaign, stop: &'a AtomicBool) -> Way<'a> {
        match &campaign.plan().by {
            By::Ssh(by) => Way::Ssh(Ssh::new(campaign, by, stop, &note)),
            By::Slurm(by) => Way::Slurm(Slurm::new(campaign, by, stop, &note)),
            By::Kubernetes(by) => Way::Kubernetes(Kubernetes::new(campaign, by, stop, &note)),
        }
    }

    /// Asks what is not known for sure.
    pub(super) fn refresh(&self) -> Result<(), FleetError> {
        match self {
            Way::Ssh(ssh) => ssh.refresh(),
            Way::Slurm(slurm) => slurm.refresh(),
            Way::Kubernetes(kubernetes) => kubernetes.refresh(),
        }
    }
}

/// The exit code that says whether a host failed.
pub(super) fn exit_code(known: &BTreeMap<String, State>) -> ExitCode {
    let failed = known.values().any(|state| state.phase.is_over() && state.phase.word() != "ok");
    if failed { ExitCode::from(FAILURES) } else { ExitCode::SUCCESS }
}
