//! `iopj compare`: what got better or worse, beyond noise, from one store to another or within one.

use crate::args::CompareArgs;
use crate::output::{FAILURES, print, print_json};
use anyhow::anyhow;
use iopj_report::analysis::compare::{Comparison, compare as compare_trials, compare_within, regressions};
use iopj_store::Store;
use std::process::ExitCode;

pub(crate) fn compare(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let comparison = comparison(args)?;
    // Before anything is printed, because it may be refused.
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

/// The comparison of two stores, or of the two sides of `--by` in one.
fn comparison(args: &CompareArgs) -> anyhow::Result<Comparison> {
    let admission = args.competing.admission();
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
