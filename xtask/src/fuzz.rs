//! `cargo xtask fuzz`: runs every target of `fuzz/` for a given time, by cargo-fuzz.

use crate::options::Options;
use crate::workspace::Workspace;
use crate::{needs, shell};
use anyhow::Result;
use std::fs;

/// Targets, and folders of the repository with their first inputs.
const SEEDS: &[(&str, &str)] = &[
    ("study_toml", "studies"),
    ("fio_json", "fuzz/seeds/fio"),
    ("fio_import", "fuzz/seeds/fio"),
    ("trace", "crates/load/src/trace/fixtures"),
];

pub(crate) fn run(workspace: &Workspace, mut options: Options) -> Result<()> {
    let seconds = options.number("--seconds", 60)?;
    options.end()?;
    needs::toolchain(workspace, "nightly", "", &[])?;
    if !shell::succeeds(&mut workspace.cargo("fuzz --version")) {
        shell::step("installing cargo-fuzz", &mut workspace.cargo("install --locked cargo-fuzz"))?;
    }
    let targets = shell::output(&mut workspace.cargo("+nightly fuzz list"))?;
    for target in targets.split_whitespace() {
        let limit = format!("-max_total_time={seconds}");
        let mut command = workspace.cargo(&format!("+nightly fuzz run {target} --target-dir"));
        command.arg(workspace.target.join("fuzz"));
        if let Some((_, seeds)) = SEEDS.iter().find(|(name, _)| *name == target) {
            let corpus = format!("fuzz/corpus/{target}");
            fs::create_dir_all(workspace.root.join(&corpus))?;
            command.args([&corpus, *seeds]);
        }
        command.args(["--", &limit, "-timeout=10"]);
        shell::step(&format!("fuzzing {target}"), &mut command)?;
    }
    Ok(())
}
