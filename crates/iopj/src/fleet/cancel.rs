//! `iopj fleet cancel`: every job ends, and puts its host's settings back.

use super::{Way, status};
use crate::output::print;
use crate::signals;
use iopj_fleet::Campaign;
use std::path::Path;
use std::process::ExitCode;

pub(super) fn cancel(folder: &Path) -> anyhow::Result<ExitCode> {
    let campaign = Campaign::open(folder)?;
    match Way::of(&campaign, signals::stop_flag()) {
        Way::Ssh(ssh) => ssh.cancel()?,
        Way::Slurm(slurm) => slurm.cancel()?,
        Way::Kubernetes(kubernetes) => kubernetes.cancel()?,
    }
    print(&status::table(&campaign.all_known()?))?;
    Ok(ExitCode::SUCCESS)
}
