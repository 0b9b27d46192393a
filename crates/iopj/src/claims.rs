//! `iopj claims`: the papers' findings, decided from a store's trials.

use crate::args::ClaimsArgs;
use crate::opened::open;
use crate::output::{print, print_json};
use iopj_papers::claims::{ClaimContext, decide};
use std::process::ExitCode;

pub(crate) fn claims(args: &ClaimsArgs) -> anyhow::Result<ExitCode> {
    let store = open(&args.store)?;
    let (study, trials) = (store.study()?, store.trials()?);
    let claims = decide(&trials, &ClaimContext::of(&study, &trials, args.competing.admission()));
    if args.json {
        print_json(&iopj_report::json::claims(&claims)?)?;
    } else {
        print(&iopj_report::claims(&claims, args.all))?;
    }
    Ok(ExitCode::SUCCESS)
}
