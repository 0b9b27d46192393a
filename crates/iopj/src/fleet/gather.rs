//! `iopj fleet gather`: stores into a Parquet data set.

use crate::args::GatherArgs;
use crate::output::{FAILURES, note, print, print_json};
use iopj_fleet::gather::{Gathered, gather as gather_stores};
use iopj_report::escape;
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) fn gather(args: &GatherArgs) -> anyhow::Result<ExitCode> {
    let shown = AtomicUsize::new(0);
    let progress = |read: usize, all: usize| {
        let tenth = read * 10 / all.max(1);
        // Tenths of a long gather; a short one is over before anybody reads them.
        if all >= LONG && shown.fetch_max(tenth, Ordering::Relaxed) < tenth {
            note(&format!("{read} of {all} stores are read"));
        }
    };
    let gathered = gather_stores(&args.folders, &args.to, &progress)?;
    match args.json {
        true => print_json(&json!(gathered))?,
        false => print(&text(&gathered))?,
    }
    for problem in &gathered.problems {
        note(&format!("iopj: {}", problem.reason));
    }
    Ok(if gathered.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILURES) })
}

/// New stores from which on the progress of a gather is shown.
const LONG: usize = 500;

/// What was done, a line each.
fn text(gathered: &Gathered) -> String {
    let Gathered { generation, added, replaced, unchanged, stores, watches, copies, problems } = gathered;
    let mut text = format!(
        "generation {generation}: {stores} stores; {added} added, {replaced} replaced, {unchanged} \
         unchanged\n"
    );
    if *watches > 0 {
        let _ = writeln!(text, "{watches} of `iopj watch` left out: they hold no study");
    }
    for copy in copies {
        let _ = writeln!(text, "left out, a copy of another store: {}", escape(&copy.display().to_string()));
    }
    if !problems.is_empty() {
        let _ = writeln!(text, "{} could not be read: see below", problems.len());
    }
    text
}
