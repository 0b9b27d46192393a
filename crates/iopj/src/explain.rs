//! `iopj explain`: where the cost of an I/O arises, path by path.

use crate::args::ExplainArgs;
use crate::opened::open;
use crate::output::{print, print_json};
use anyhow::Context;
use iopj_analysis::explain::{ExplainOptions, explain as explain_trials};
use iopj_core::IoPath;
use iopj_papers::published::COSTS;
use std::process::ExitCode;

pub(crate) fn explain(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let paths = args.path.iter().map(|path| path.parse::<IoPath>()).collect::<Result<_, _>>()?;
    let question = ExplainOptions { paths, top: args.top.into() };
    let store = open(&args.store)?;
    let explanation = explain_trials(&store.study()?, &store.trials()?, &question, &COSTS)
        .with_context(|| args.store.display().to_string())?;
    if args.json {
        print_json(&serde_json::to_value(&explanation)?)?;
    } else {
        print(&iopj_report::explanation(&explanation))?;
    }
    Ok(ExitCode::SUCCESS)
}
