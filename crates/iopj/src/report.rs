//! `iopj report`: the results of a store.

use crate::args::ReportArgs;
use crate::output::{print, print_json};
use iopj_store::{Store, export};
use std::process::ExitCode;

pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let store = Store::open(&args.store)?;
    let (study, trials) = (store.study()?, store.trials()?);
    if args.json {
        print_json(&export::json(&study, &trials, &store.events()?, export::Detail::Figures))?;
    } else {
        print(&iopj_report::render::report(&study, &trials))?;
    }
    Ok(ExitCode::SUCCESS)
}
