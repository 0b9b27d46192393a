//! `cargo xtask queries`: a fleet of 1,000 stores, gathered and asked every question of `queries/` in DuckDB
//! and in Spark, whose answers must agree.

use crate::options::Options;
use crate::workspace::Workspace;
use crate::{shell, venv};
use anyhow::{Context, Result};
use std::process::Command;

/// Stores of the fleet, its seed, and trials of each path and workload in a store.
const FLEET: [&str; 3] = ["1000", "1", "1"];

pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<()> {
    options.end()?;
    check(workspace)
}

/// Makes the fleet, gathers it, and asks. What the tests have built is not built again.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let list = workspace.root.join("queries/requirements.txt");
    let python = match venv::ensure(workspace, "queries", "python3", &list) {
        Err(error) if shell::in_ci() => return Err(error),
        Err(error) => {
            println!("skipped: the questions in DuckDB and Spark: {error:#}");
            return Ok(());
        }
        Ok(folder) => folder.join("bin/python"),
    };
    let words = "build --workspace --all-features --bin iopj --example generate";
    shell::step("iopj and the fleet's generator", &mut workspace.cargo(words))?;
    let folder = tempfile::tempdir_in(&workspace.target).context("no folder for a fleet")?;
    let (stores, dataset) = (folder.path().join("stores"), folder.path().join("dataset"));
    let built = workspace.target.join("debug");
    let mut generate = Command::new(built.join("examples/generate"));
    shell::step("a fleet of 1,000 stores", generate.arg(&stores).args(FLEET))?;
    let mut gather = Command::new(built.join("iopj"));
    shell::step("its data set", gather.args(["fleet", "gather"]).arg(&stores).arg("--to").arg(&dataset))?;
    let mut ask = Command::new(python);
    ask.arg(workspace.root.join("queries/check.py")).arg(&dataset).arg("--times");
    shell::step("the questions in DuckDB and Spark", &mut ask)
}
