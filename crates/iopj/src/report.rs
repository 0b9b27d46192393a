//! `iopj report`: the results of a store, as text or for other programs.

use crate::args::ReportArgs;
use crate::output::{print, print_json};
use iopj_report::analysis::tables;
use iopj_report::render;
use iopj_store::{Store, Trial, export};
use std::process::ExitCode;

pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let store = Store::open(&args.store)?;
    let (study, trials) = (store.study()?, store.trials()?);
    if args.json {
        print_json(&export::json(&study, &trials, &store.events()?, export::Detail::Figures))?;
    } else if args.latex {
        print(&render::latex(&tables(&trials)))?;
    } else if args.csv {
        print(&render::csv(&tables(&trials)))?;
    } else if args.papers {
        print(&render::paper_tables(&trials, None))?;
    } else if !wrote_parquet(args, &trials)? {
        print(&render::report(&study, &trials))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "parquet")]
fn wrote_parquet(args: &ReportArgs, trials: &[Trial]) -> anyhow::Result<bool> {
    use anyhow::Context;
    let Some(path) = &args.parquet else { return Ok(false) };
    let mut bytes = Vec::new();
    render::parquet(&tables(trials), &mut bytes)?;
    std::fs::write(path, bytes).with_context(|| format!("{} cannot be written; name another place", path.display()))?;
    print(&format!("{}\n", path.display()))?;
    Ok(true)
}

#[cfg(not(feature = "parquet"))]
fn wrote_parquet(_: &ReportArgs, _: &[Trial]) -> anyhow::Result<bool> {
    Ok(false)
}
