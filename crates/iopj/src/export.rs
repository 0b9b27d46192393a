//! `iopj export`: a store in a format for other programs.

use crate::args::ExportArgs;
use crate::output::{print, print_json};
use iopj_store::{Store, export as format};
use std::process::ExitCode;

pub(crate) fn export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let store = Store::open(&args.store)?;
    if let Some(watch) = store.watch()?.filter(|_| !args.format.csv) {
        print_json(&serde_json::to_value(&watch)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let trials = store.all_trials()?;
    if args.format.csv {
        let mut csv = Vec::new();
        format::csv(&store.study()?, &trials, &mut csv)?;
        print(&String::from_utf8_lossy(&csv))?;
    } else {
        print_json(&format::json(&store.study()?, &trials, &store.events()?, format::Detail::Full))?;
    }
    Ok(ExitCode::SUCCESS)
}
