//! `iopj fleet fetch`: the stores that are not fetched as they are now.

use super::Way;
use crate::args::FetchArgs;
use crate::output::{FAILURES, note, print};
use crate::signals;
use iopj_fleet::job::State;
use iopj_fleet::{Campaign, FleetError};
use std::path::PathBuf;
use std::process::ExitCode;

pub(super) fn fetch(args: &FetchArgs) -> anyhow::Result<ExitCode> {
    let campaign = Campaign::open(&args.folder)?;
    let way = Way::of(&campaign, signals::stop_flag());
    way.refresh()?;
    let known = campaign.all_known()?;
    let has_news = |host: &String, state: &State| {
        state.done > 0 && !(state.is_fetched() && campaign.store(host).exists())
    };
    let hosts: Vec<String> =
        known.iter().filter(|(host, state)| has_news(host, state)).map(|(host, _)| host.clone()).collect();
    if hosts.is_empty() {
        note("no store has anything new");
        return Ok(ExitCode::SUCCESS);
    }
    let fetched: Vec<(String, Result<PathBuf, FleetError>)> = match &way {
        Way::Ssh(ssh) => ssh.fetch(&hosts),
        Way::Slurm(slurm) => slurm.fetch(&hosts),
        Way::Kubernetes(kubernetes) => kubernetes.fetch(&hosts),
    };
    let mut failed = false;
    for (host, fetched) in fetched {
        match fetched {
            Ok(path) => {
                if let Some(state) = known.get(&host) {
                    let fetched = Some(state.as_fetched());
                    campaign.keep(&host, &State { fetched, ..state.clone() })?;
                }
                print(&format!("{}\n", path.display()))?;
            }
            Err(error) => {
                failed = true;
                note(&format!("{host}: {error}"));
            }
        }
    }
    Ok(if failed { ExitCode::from(FAILURES) } else { ExitCode::SUCCESS })
}
