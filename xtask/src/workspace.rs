//! Where the repository and its builds are, from `cargo metadata`.

use crate::shell;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// The workspace that this program was built from.
pub(crate) struct Workspace {
    /// The repository's folder.
    pub(crate) root: PathBuf,
    /// Cargo's target folder.
    pub(crate) target: PathBuf,
    /// What `cargo metadata --no-deps` prints.
    pub(crate) metadata: Value,
}

impl Workspace {
    pub(crate) fn find() -> Result<Workspace> {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
        let mut command = Command::new("cargo");
        command.args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path", manifest]);
        let metadata: Value = serde_json::from_str(&shell::output(&mut command)?)?;
        let path = |key: &str| {
            metadata[key].as_str().map(PathBuf::from).with_context(|| format!("cargo metadata has no {key}"))
        };
        Ok(Workspace { root: path("workspace_root")?, target: path("target_directory")?, metadata })
    }

    /// `cargo` with these words, to be run at the root.
    pub(crate) fn cargo(&self, words: &str) -> Command {
        self.program("cargo", words)
    }

    /// A program with these words, which have blanks between them, to be run at the root.
    pub(crate) fn program(&self, program: &str, words: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).args(words.split_whitespace());
        command
    }

    /// Builds `iopj` in release and returns its path.
    pub(crate) fn release_binary(&self) -> Result<PathBuf> {
        shell::step("release build", &mut self.cargo("build --release --package iopj"))?;
        Ok(self.target.join("release/iopj"))
    }

    /// Builds the bench of the `nvme-user` engine in release and returns its path.
    pub(crate) fn engine_bench(&self) -> Result<PathBuf> {
        let words = "bench --no-run --package iopj-engine --features sim --bench nvme_user";
        let messages = shell::output(self.cargo(words).arg("--message-format=json"))?;
        let executable =
            |line| Some(serde_json::from_str::<Value>(line).ok()?["executable"].as_str()?.into());
        messages
            .lines()
            .find_map(executable)
            .context("cargo does not say where it built the bench `nvme_user`")
    }
}
