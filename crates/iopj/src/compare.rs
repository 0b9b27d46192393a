//! `iopj compare`: what got better or worse from one store to another, beyond noise.

use crate::args::CompareArgs;
use crate::output::{FAILURES, print, print_json};
use anyhow::anyhow;
use iopj_report::analysis::compare::{compare as compare_trials, regressions};
use iopj_store::Store;
use std::process::ExitCode;

pub(crate) fn compare(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let (before, after) = (Store::open(&args.before)?, Store::open(&args.after)?);
    let comparison = compare_trials((&before.study()?, &before.trials()?), (&after.study()?, &after.trials()?));
    // Asked before anything is printed: it may be refused.
    let worse = match args.fail_on_regression {
        Some(percent) => regressions(&comparison, percent).map_err(|why| anyhow!("--fail-on-regression: {why}"))?.len(),
        None => 0,
    };
    if args.json {
        print_json(&serde_json::to_value(&comparison)?)?;
    } else {
        print(&iopj_report::render::comparison(&comparison))?;
    }
    Ok(if worse > 0 { ExitCode::from(FAILURES) } else { ExitCode::SUCCESS })
}
