//! `iopj compare`: what got better or worse from one store to another, or from one side of a store to the
//! other, beyond noise.

use crate::args::CompareArgs;
use crate::output::{FAILURES, print, print_json};
use anyhow::anyhow;
use iopj_report::analysis::Admission;
use iopj_report::analysis::compare::{Comparison, compare as compare_trials, compare_within, regressions};
use iopj_store::Store;
use std::process::ExitCode;

pub(crate) fn compare(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let comparison = comparison(args)?;
    // Asked before anything is printed: it may be refused.
    let worse = match args.fail_on_regression {
        Some(percent) => {
            regressions(&comparison, percent).map_err(|why| anyhow!("--fail-on-regression: {why}"))?.len()
        }
        None => 0,
    };
    if args.json {
        print_json(&serde_json::to_value(&comparison)?)?;
    } else {
        print(&iopj_report::render::comparison(&comparison))?;
    }
    Ok(if worse > 0 { ExitCode::from(FAILURES) } else { ExitCode::SUCCESS })
}

/// Of two stores, or of what `--by` tells apart in one.
fn comparison(args: &CompareArgs) -> anyhow::Result<Comparison> {
    let admission = Admission { with_unproven: args.with_unproven, ..Admission::default() };
    let before = Store::open(&args.before)?;
    let Some(after) = &args.after else {
        let by = args.by.as_deref().unwrap_or_default();
        let store = args.before.display();
        let within = compare_within(&before.study()?, before.trials()?, by, admission);
        return within.map_err(|why| anyhow!("{store}: {why}"));
    };
    let after = Store::open(after)?;
    Ok(compare_trials((&before.study()?, &before.trials()?), (&after.study()?, &after.trials()?), admission))
}
