//! `iopj compare`: what got better or worse, beyond noise, from one store to another or within one.

use crate::args::CompareArgs;
use crate::opened::open;
use crate::output::{FAILURES, print, print_json};
use anyhow::anyhow;
use iopj_analysis::compare::{Comparison, compare as compare_trials, compare_within, gate};
use std::process::ExitCode;

pub(crate) fn compare(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let comparison = comparison(args)?;
    let nothing = comparison.nothing();
    // Before anything is printed, because it may be refused.
    let gated = match args.fail_on_regression.filter(|_| nothing.is_none()) {
        Some(percent) => {
            let gate = gate(&comparison, percent).map_err(|why| anyhow!("--fail-on-regression: {why}"))?;
            Some((percent, gate))
        }
        None => None,
    };
    if args.json {
        let gated = gated.as_ref().map(|(percent, gate)| (*percent, gate));
        print_json(&iopj_report::json::comparison(&comparison, gated)?)?;
    } else {
        let gate = gated.as_ref().map(|(percent, gate)| iopj_report::gate(gate, *percent));
        print(&(iopj_report::comparison(&comparison) + &gate.unwrap_or_default()))?;
    }
    if let Some(nothing) = nothing {
        return Err(nothing.into());
    }
    let worse = gated.is_some_and(|(_, gate)| !gate.worse.is_empty());
    Ok(if worse { ExitCode::from(FAILURES) } else { ExitCode::SUCCESS })
}

/// The comparison of two stores, or of the two sides of `--by` in one.
fn comparison(args: &CompareArgs) -> anyhow::Result<Comparison> {
    let admission = args.competing.admission();
    let before = open(&args.before)?;
    let Some(after) = &args.after else {
        let by = args.by.as_deref().unwrap_or_default();
        let store = args.before.display();
        let within = compare_within(&before.study()?, before.trials()?, by, &args.ignore, admission);
        return within.map_err(|why| anyhow!("{store}: {why}"));
    };
    let after = open(after)?;
    let sides = [(before.study()?, before.trials()?), (after.study()?, after.trials()?)];
    let [before, after] = sides.each_ref().map(|(study, trials)| (study, trials.as_slice()));
    Ok(compare_trials(before, after, &args.ignore, admission)?)
}
