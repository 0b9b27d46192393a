//! `iopj fleet cancel`: every job ends, and puts its host's settings back.

use super::{Way, status};
use crate::output::{FAILURES, print};
use crate::signals;
use iopj_fleet::Campaign;
use iopj_fleet::job::{Phase, State};
use std::path::Path;
use std::process::ExitCode;

pub(super) fn cancel(folder: &Path) -> anyhow::Result<ExitCode> {
    let campaign = Campaign::open(folder)?;
    match Way::of(&campaign, signals::stop_flag()) {
        Way::Ssh(ssh) => ssh.cancel()?,
        Way::Slurm(slurm) => slurm.cancel()?,
        Way::Kubernetes(kubernetes) => kubernetes.cancel()?,
    }
    let known = campaign.all_known()?;
    print(&status::table(&known))?;
    // One that cannot be reached may still run, and have settings to put back.
    let is_open = |state: &State| !state.phase.is_over() || state.phase == Phase::Lost;
    Ok(if known.values().any(is_open) { ExitCode::from(FAILURES) } else { ExitCode::SUCCESS })
}
