//! `cargo xtask fuzz`: runs targets of `fuzz/` for a given time each, by cargo-fuzz.

use crate::options::Options;
use crate::workspace::Workspace;
use crate::{needs, shell};
use anyhow::{Result, bail};
use std::fs;
use std::path::Path;

/// Targets, and folders of the repository with their first inputs. Those of the others are written by
/// `crates/harness`.
const SEEDS: &[(&str, &str)] = &[
    ("study_toml", "studies"),
    ("fio_json", "fuzz/seeds/fio"),
    ("fio_import", "fuzz/seeds/fio"),
    ("trace", "crates/load/src/trace/fixtures"),
];
/// In the soak, all targets have this time together.
const SOAK_S: u64 = 7200;

pub(crate) fn run(workspace: &Workspace, mut options: Options) -> Result<()> {
    let seconds = options.number("--seconds", 60)?;
    let chosen = options.rest()?;
    let targets = targets(workspace)?;
    if let Some(unknown) = chosen.iter().find(|name| !targets.contains(name)) {
        bail!("there is no target `{unknown}`; there are {}", targets.join(", "));
    }
    let is_chosen = |target: &&String| chosen.is_empty() || chosen.contains(target);
    let chosen: Vec<&String> = targets.iter().filter(is_chosen).collect();
    all(workspace, &chosen, seconds)
}

/// Two hours for all of them: a part of the soak.
pub(crate) fn soak(workspace: &Workspace) -> Result<()> {
    let targets = targets(workspace)?;
    let seconds = SOAK_S / targets.len() as u64;
    all(workspace, &targets.iter().collect::<Vec<_>>(), seconds)
}

/// The names of all targets.
fn targets(workspace: &Workspace) -> Result<Vec<String>> {
    needs::toolchain(workspace, "nightly", "", &[])?;
    if !shell::succeeds(&mut workspace.cargo("fuzz --version")) {
        shell::step("installing cargo-fuzz", &mut workspace.cargo("install --locked cargo-fuzz"))?;
    }
    let list = shell::output(&mut workspace.cargo("+nightly fuzz list"))?;
    Ok(list.split_whitespace().map(str::to_owned).collect())
}

/// Runs these one after the other, each for so many seconds. Returns what failed at their end.
fn all(workspace: &Workspace, targets: &[&String], seconds: u64) -> Result<()> {
    let seeds = workspace.target.join("fuzz-seeds");
    let mut write = workspace.cargo("run --package iopj-harness --example seeds --");
    shell::step("their first inputs", write.arg(&seeds))?;
    let mut failed = Vec::new();
    for target in targets {
        if shell::step(&format!("fuzzing {target}"), &mut one(workspace, target, &seeds, seconds)?).is_err() {
            failed.push(target.as_str());
        }
    }
    if !failed.is_empty() {
        bail!("{} broke a promise: what did is in fuzz/artifacts", failed.join(", "));
    }
    Ok(())
}

fn one(workspace: &Workspace, target: &str, seeds: &Path, seconds: u64) -> Result<std::process::Command> {
    let limit = format!("-max_total_time={seconds}");
    let mut command = workspace.cargo(&format!("+nightly fuzz run {target} --target-dir"));
    command.arg(workspace.target.join("fuzz"));
    let corpus = format!("fuzz/corpus/{target}");
    fs::create_dir_all(workspace.root.join(&corpus))?;
    command.arg(&corpus);
    let written = seeds.join(target);
    if let Some((_, seeds)) = SEEDS.iter().find(|(name, _)| *name == target) {
        command.arg(seeds);
    } else if written.exists() {
        command.arg(&written);
    }
    // Folders on a disk take long, and none of them is kept.
    if Path::new("/dev/shm").is_dir() {
        command.env("TMPDIR", "/dev/shm");
    }
    command.args(["--", &limit, "-timeout=20", "-print_final_stats=1"]);
    Ok(command)
}
