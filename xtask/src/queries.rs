//! `cargo xtask queries`: a fleet of 1,000 stores (of 200 in the gate), gathered and asked every question of
//! `queries/` in DuckDB and in Spark, whose answers must agree, with each other and with `iopj fleet report`.

use crate::binaries::TESTS;
use crate::options::Options;
use crate::workspace::Workspace;
use crate::{shell, venv};
use anyhow::{Context, Result};
use std::fs::File;
use std::process::Command;

/// Stores of a fleet, its seed, trials of each path and workload in a store, kinds of machines, and that
/// stores differ.
const FLEET: [&str; 5] = ["1000", "1", "1", "9", "uneven"];
/// Of fewer kinds, or none would have the five hosts among which an outlier is one.
const SMALL_FLEET: [&str; 5] = ["200", "1", "1", "2", "uneven"];

pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<()> {
    options.end()?;
    all(workspace)
}

/// A whole fleet: a part of the soak.
pub(crate) fn all(workspace: &Workspace) -> Result<()> {
    ask(workspace, FLEET)
}

/// A small one.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    ask(workspace, SMALL_FLEET)
}

/// Makes a fleet, gathers it, and asks. What the tests have built is not built again.
fn ask(workspace: &Workspace, fleet: [&str; 5]) -> Result<()> {
    let list = workspace.root.join("queries/requirements.txt");
    let python = match venv::ensure(workspace, "queries", "python3", &list) {
        Err(error) if shell::in_ci() => return Err(error),
        Err(error) => {
            shell::skip(format!("the questions in DuckDB and Spark: {error:#}"));
            return Ok(());
        }
        Ok(folder) => folder.join("bin/python"),
    };
    // All of it, or cargo would build the crates again that macros and programs share.
    let words = format!("{TESTS} --no-run");
    shell::step("iopj and the fleet's generator", &mut workspace.cargo(&words))?;
    let folder = tempfile::tempdir_in(&workspace.target).context("no folder for a fleet")?;
    let (stores, dataset) = (folder.path().join("stores"), folder.path().join("dataset"));
    let built = workspace.target.join("debug");
    let mut generate = Command::new(built.join("examples/generate"));
    shell::step(&format!("a fleet of {} stores", fleet[0]), generate.arg(&stores).args(fleet))?;
    let mut gather = Command::new(built.join("iopj"));
    shell::step("its data set", gather.args(["fleet", "gather"]).arg(&stores).arg("--to").arg(&dataset))?;
    let report = folder.path().join("report.json");
    let file = File::create(&report).context("no room for a report")?;
    let mut tell = Command::new(built.join("iopj"));
    tell.args(["fleet", "report", "--json"]).arg(&dataset).stdout(file);
    shell::step("its report", &mut tell)?;
    let mut questions = Command::new(python);
    questions
        .arg(workspace.root.join("queries/check.py"))
        .arg(&dataset)
        .arg("--times")
        .arg("--report")
        .arg(report);
    shell::step("the questions in DuckDB and Spark", &mut questions)
}
