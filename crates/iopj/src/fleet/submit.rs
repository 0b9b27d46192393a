//! `iopj fleet submit`.

use super::{Way, exit_code, plan, status};
use crate::args::SubmitArgs;
use crate::output::{INTERRUPTED, note, print};
use crate::signals;
use iopj_fleet::campaign::By;
use iopj_fleet::kubernetes::{Asked, manifest};
use iopj_fleet::{Campaign, Slurm};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

pub(super) fn submit(args: &SubmitArgs) -> anyhow::Result<ExitCode> {
    let (plan, study, folder) = plan::of(args)?;
    let stop = signals::stop_flag();
    let mut campaign = Campaign::submit(&folder, plan)?;
    note(&format!("campaign: {}", folder.display()));
    let array = match Way::of(&campaign, stop) {
        Way::Ssh(ssh) => {
            ssh.submit()?;
            None
        }
        Way::Slurm(slurm) => slurm.submit()?,
        Way::Kubernetes(kubernetes) => {
            let of = &args.by_kubernetes;
            let asked = Asked {
                image: of.image.clone().unwrap_or_else(|| format!("iopj:{}", env!("CARGO_PKG_VERSION"))),
                selectors: manifest::selectors(&of.node_selector)?,
                settings: !study.settings.is_empty(),
                profile: study.profile,
            };
            kubernetes.submit(&asked, of.manifest_only)?;
            None
        }
    };
    if let Some(array) = array {
        campaign.keep_array(array.clone())?;
        Slurm::release(&array)?;
        note(&format!("job array {} has {} tasks", array.id, array.tasks));
        Way::of(&campaign, stop).refresh()?;
    }
    let known = campaign.all_known()?;
    if stop.load(Ordering::Relaxed) {
        let running = known.values().filter(|state| !state.phase.is_over()).count();
        note(&format!(
            "interrupted: jobs that run go on ({running} hosts are not done); submit again to take them up, \
             or end them by `iopj fleet cancel {}`",
            folder.display()
        ));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if let By::Ssh(_) = &campaign.plan().by {
        print(&status::table(&known))?;
        return Ok(exit_code(&known));
    }
    if !args.by_kubernetes.manifest_only {
        note(&format!("the jobs run without this command: `iopj fleet status {}`", folder.display()));
    }
    Ok(ExitCode::SUCCESS)
}
