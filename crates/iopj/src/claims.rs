//! `iopj claims`: the papers' findings, decided from a store's trials.

use crate::args::ClaimsArgs;
use crate::output::{print, print_json};
use iopj_report::analysis::claims::{Claim, ClaimContext, decide};
use iopj_store::Store;
use serde_json::{Value, json};
use std::process::ExitCode;

pub(crate) fn claims(args: &ClaimsArgs) -> anyhow::Result<ExitCode> {
    let store = Store::open(&args.store)?;
    let (study, trials) = (store.study()?, store.trials()?);
    let claims = decide(&trials, &ClaimContext::of(&study, &trials, args.competing.admission()));
    if args.json {
        let claims = claims.iter().map(claim_json).collect::<Result<Vec<Value>, _>>()?;
        print_json(&json!({ "claims": claims }))?;
    } else {
        print(&iopj_report::render::claims(&claims, args.all))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A claim, with the number of its parts that are decided if the claim itself is open.
fn claim_json(claim: &Claim) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(claim)?;
    value["decided_in_part"] = json!(claim.decided_in_part());
    Ok(value)
}
