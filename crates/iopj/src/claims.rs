//! `iopj claims`: the papers' findings, decided by a store's trials.

use crate::args::ClaimsArgs;
use crate::output::{print, print_json};
use iopj_report::analysis::claims::decide;
use iopj_store::Store;
use std::process::ExitCode;

pub(crate) fn claims(args: &ClaimsArgs) -> anyhow::Result<ExitCode> {
    let trials = Store::open(&args.store)?.trials()?;
    let cores = trials.iter().filter_map(|trial| trial.outcome.measurement()).map(|m| m.evidence.cpu.cores).max();
    let claims = decide(&trials, cores.unwrap_or(0));
    if args.json {
        print_json(&serde_json::json!({ "claims": claims }))?;
    } else {
        print(&iopj_report::render::claims(&claims))?;
    }
    Ok(ExitCode::SUCCESS)
}
