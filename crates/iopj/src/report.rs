//! `iopj report`: the results of a store, as text, as a page, or for other programs.

use crate::args::ReportArgs;
use crate::output::{print, print_json};
use anyhow::Context;
use iopj_report::analysis::tables;
use iopj_report::render;
use iopj_store::{Store, StudyRecord, Trial, export};
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let store = Store::open(&args.store)?;
    let (study, trials) = (store.study()?, store.trials()?);
    if args.json {
        print_json(&export::json(&study, &trials, &store.events()?, export::Detail::Figures))?;
    } else if args.latex {
        print(&render::latex(&tables(&study, &trials)))?;
    } else if args.csv {
        print(&render::csv(&tables(&study, &trials)))?;
    } else if args.papers {
        print(&render::paper_tables(&study, &trials, None))?;
    } else if let Some(path) = &args.html {
        write(path, render::html::page(&study, &trials).as_bytes())?;
    } else if let Some(folder) = &args.figures {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("the folder {} cannot be made; name another place", folder.display()))?;
        for (name, svg) in render::html::figures(&study, &trials) {
            write(&folder.join(name), svg.as_bytes())?;
        }
    } else if !wrote_parquet(args, &study, &trials)? {
        print(&render::report(&study, &trials))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a file and tells its name.
fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("{} cannot be written; name another place", path.display()))?;
    print(&format!("{}\n", path.display()))
}

#[cfg(feature = "parquet")]
fn wrote_parquet(args: &ReportArgs, study: &StudyRecord, trials: &[Trial]) -> anyhow::Result<bool> {
    let Some(path) = &args.parquet else { return Ok(false) };
    let mut bytes = Vec::new();
    render::parquet(&tables(study, trials), &mut bytes)?;
    write(path, &bytes)?;
    Ok(true)
}

#[cfg(not(feature = "parquet"))]
fn wrote_parquet(_: &ReportArgs, _: &StudyRecord, _: &[Trial]) -> anyhow::Result<bool> {
    Ok(false)
}
