//! `iopj fleet report`: what a data set says of a fleet.

use crate::args::FleetReportArgs;
use crate::output::{note, print, print_json, write_file, write_for};
use crate::policy::{HEAD, derive::derive};
use anyhow::Context;
use iopj_auto::{Aim, Policy};
use iopj_fleet::gather::file_name;
use iopj_fleet::report::{FleetReport, KindReport, model, page, report as read, text};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn report(args: &FleetReportArgs) -> anyhow::Result<ExitCode> {
    let report = read(&args.dataset)?;
    if let Some(file) = &args.html {
        write_file(file, page(&report).as_bytes())?;
    }
    if let Some(folder) = &args.policies {
        write_policies(&report, folder)?;
    }
    match (args.json, &args.html) {
        (true, _) => print_json(&json!(report))?,
        (false, Some(file)) => print(&format!("{}\n", file.display()))?,
        (false, None) => print(&text(&report))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a policy for each kind that a cost model describes, and says of the others why not.
fn write_policies(report: &FleetReport, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| {
        format!("--policies: the folder {} cannot be made: name another one", folder.display())
    })?;
    for kind in &report.kinds {
        let path = folder.join(format!("{}.toml", file_name(&kind.kind())));
        match policy(kind) {
            Ok(policy) => {
                write_for("--policies", &path, format!("{HEAD}{policy}").as_bytes())?;
                note(&format!("{} is written", path.display()));
            }
            Err(why) => note(&format!(
                "no policy for {} with {} on Linux {}: {why}",
                kind.machine, kind.drive, kind.kernel
            )),
        }
    }
    Ok(())
}

/// The policy of a kind: for the least joules where they were measured, else for the least CPU time.
fn policy(kind: &KindReport) -> anyhow::Result<Policy> {
    let model = model(kind)?;
    derive(&model, Aim::IosPerJoule, None).or_else(|_| derive(&model, Aim::Cpu, None))
}
