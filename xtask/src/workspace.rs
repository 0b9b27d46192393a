//! Where the repository and its builds are, from `cargo metadata`.

use crate::shell;
use anyhow::{Context, Result};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// What decides for cargo whether it compiles incrementally.
const INCREMENTAL: &str = "CARGO_INCREMENTAL";

/// The workspace that this program was built from.
pub(crate) struct Workspace {
    /// The repository's folder.
    pub(crate) root: PathBuf,
    /// Cargo's target folder.
    pub(crate) target: PathBuf,
    /// What `cargo metadata --no-deps` prints.
    pub(crate) metadata: Value,
    /// Whether cargo compiles incrementally.
    is_incremental: bool,
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
        let (root, target) = (path("workspace_root")?, path("target_directory")?);
        let is_incremental = env::var_os(INCREMENTAL).is_some() || is_developed(&target);
        Ok(Workspace { root, target, metadata, is_incremental })
    }

    /// A workspace in this folder, without cargo's metadata.
    #[cfg(test)]
    pub(crate) fn at(root: PathBuf) -> Workspace {
        Workspace { target: root.join("target"), root, metadata: Value::Null, is_incremental: true }
    }

    /// `cargo` with these words, to be run at the root. In a new clone nothing is compiled incrementally:
    /// that takes longer, and pays only once the sources change.
    pub(crate) fn cargo(&self, words: &str) -> Command {
        let mut command = self.program("cargo", words);
        if !self.is_incremental {
            command.env(INCREMENTAL, "0");
        }
        command
    }

    /// A program with these words, which have blanks between them, to be run at the root.
    pub(crate) fn program(&self, program: &str, words: &str) -> Command {
        let mut command = as_from_a_terminal(program);
        command.current_dir(&self.root).args(words.split_whitespace());
        command
    }

    /// The files below a folder of the repository, by their paths below its root: those that git tracks, not
    /// what only lies there. Of sources that are no clone, all but what was built.
    ///
    /// # Errors
    /// git's, or the system's.
    pub(crate) fn tracked(&self, folder: &str) -> Result<Vec<String>> {
        let top = shell::output(&mut self.program("git", "rev-parse --show-toplevel"));
        let is_clone = top.is_ok_and(|top| Path::new(top.trim()) == self.root);
        let listed = if is_clone {
            shell::output(self.program("git", "ls-files -z --").arg(folder))?
        } else {
            // Cargo marks the folders that it builds in; sources may lie in a `target`, too.
            let mut find = self.program("find", "-L");
            let words = "-type d -exec test -e {}/CACHEDIR.TAG ; -prune -o -type f -print0";
            find.arg(folder).args(words.split(' '));
            shell::output(&mut find)?
        };
        let names = listed.split('\0').map(|name| name.strip_prefix("./").unwrap_or(name));
        // It has no mark if it was there before cargo.
        let is_ours = |path: &Path| path.is_file() && !path.starts_with(&self.target);
        let mut names: Vec<String> =
            names.filter(|name| is_ours(&self.root.join(name))).map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    /// Copies what is tracked to a folder.
    ///
    /// # Errors
    /// As of [`Self::tracked`].
    pub(crate) fn copy_tracked(&self, to: &Path) -> Result<()> {
        for file in self.tracked(".")? {
            let copy = to.join(&file);
            fs::create_dir_all(copy.parent().context("a file without a folder")?)?;
            fs::copy(self.root.join(&file), &copy).with_context(|| file.clone())?;
        }
        Ok(())
    }

    /// Builds `iopj` in release and returns its path.
    pub(crate) fn release_binary(&self) -> Result<PathBuf> {
        shell::step("release build", &mut self.cargo("build --release --package iopj"))?;
        Ok(self.target.join("release/iopj"))
    }

    /// Builds the benches whose instructions are counted, in release: in one build, because they share most
    /// of their crates.
    pub(crate) fn benches(&self) -> Result<Benches> {
        let words = "bench --no-run --package iopj-engine --package iopj-auto --features iopj-engine/sim \
                     --bench nvme_user --bench routed";
        let messages = shell::output(self.cargo(words).arg("--message-format=json"))?;
        let built: Vec<Value> = messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let bench = |name: &str| {
            let is_this = |message: &&Value| message["target"]["name"] == name;
            let executable = |message: &Value| Some(PathBuf::from(message["executable"].as_str()?));
            let bench = built.iter().filter(is_this).find_map(executable);
            bench.with_context(|| format!("cargo does not say where it built the bench `{name}`"))
        };
        Ok(Benches { nvme_user: bench("nvme_user")?, routed: bench("routed")? })
    }
}

/// A program that does not see what `cargo xtask` says of this package. ring's build script looks at it (its
/// `rerun-if-env-changed`), so cargo would build ring and all that needs it again here, and once more at a
/// terminal.
pub(crate) fn as_from_a_terminal(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os().filter(|(name, _)| is_of_a_package(name)) {
        command.env_remove(name);
    }
    command
}

fn is_of_a_package(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|start| name.starts_with(start))
}

/// Whether cargo compiled more than this program incrementally in this target folder, so that it must go on
/// as it began: otherwise it would build everything again.
fn is_developed(target: &Path) -> bool {
    let own = concat!(env!("CARGO_PKG_NAME"), "-");
    let is_other = |name: OsString| !name.to_string_lossy().starts_with(own);
    fs::read_dir(target.join("debug/incremental"))
        .is_ok_and(|parts| parts.flatten().any(|part| is_other(part.file_name())))
}

/// Where benches were built.
pub(crate) struct Benches {
    /// That of the engine `nvme-user`.
    pub(crate) nvme_user: PathBuf,
    /// That of the adaptive engine.
    pub(crate) routed: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The source distribution that was made from a copy of the sources lacked the folder.
    #[test]
    fn sources_in_a_folder_named_target_are_packed_and_what_was_built_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in
            ["a/src/target/mod.rs", "target/debug/b", "fuzz/target/CACHEDIR.TAG", "fuzz/target/debug/c"]
        {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "").unwrap();
        }
        let workspace = Workspace::at(root);
        assert_eq!(workspace.tracked(".").unwrap(), ["a/src/target/mod.rs"]);
    }

    /// `cargo xtask python` built the release build of `cargo build --release` again, from ring on.
    #[test]
    fn a_build_from_here_and_one_from_a_terminal_are_one() {
        let hidden =
            ["CARGO_PKG_NAME", "CARGO_PKG_VERSION_PRE", "CARGO_MANIFEST_DIR", "CARGO_MANIFEST_LINKS"];
        assert!(hidden.iter().all(|name| is_of_a_package(OsStr::new(name))));
        let kept = ["CARGO", "CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_PROFILE_DEV_DEBUG", "PATH"];
        assert!(kept.iter().all(|name| !is_of_a_package(OsStr::new(name))));
        // Cargo has set them for this test, too.
        let seen = shell::output(&mut as_from_a_terminal("env")).unwrap();
        let names: Vec<&OsStr> =
            seen.lines().filter_map(|line| Some(line.split_once('=')?.0.as_ref())).collect();
        assert!(names.contains(&OsStr::new("PATH")));
        assert!(!names.into_iter().any(is_of_a_package), "{seen}");
    }

    #[test]
    fn a_new_clone_compiles_nothing_incrementally_and_a_developers_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path();
        assert!(!is_developed(target));
        fs::create_dir_all(target.join("debug/incremental/xtask-0a1b")).unwrap();
        assert!(!is_developed(target));
        fs::create_dir(target.join("debug/incremental/iopj_core-0a1b")).unwrap();
        assert!(is_developed(target));
    }

    #[test]
    fn what_git_does_not_track_is_not_packed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("studies")).unwrap();
        for name in ["studies/a b.toml", "studies/own.iopj", "studies/secret", ".gitignore"] {
            fs::write(root.join(name), "*.iopj\n").unwrap();
        }
        let workspace = Workspace::at(root);
        let all = ["studies/a b.toml", "studies/own.iopj", "studies/secret"];
        assert_eq!(workspace.tracked("studies").unwrap(), all, "it is no clone yet");
        for words in ["init --quiet", "add studies/a*", "add .gitignore"] {
            shell::output(&mut workspace.program("git", words)).unwrap();
        }
        assert_eq!(workspace.tracked("studies").unwrap(), ["studies/a b.toml"]);
        let copy = workspace.target.join("copy");
        workspace.copy_tracked(&copy).unwrap();
        assert!(copy.join(".gitignore").is_file() && !copy.join("studies/secret").exists());
    }
}
