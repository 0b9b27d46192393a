//! `cargo xtask semver`: whether the interface of the library crate breaks what it promised at the revision
//! in its file, by cargo-semver-checks.

use crate::options::Options;
use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::process::Command;

/// The crate that applications use, and the file with the revision.
const PACKAGE: &str = "iopj-engine";
const BASELINE: &str = "crates/engine/semver-baseline";

pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<()> {
    options.end()?;
    check(workspace)
}

/// Compares the interface with that of the revision. A history without that revision is an error: nothing
/// would be compared.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let text = fs::read_to_string(workspace.root.join(BASELINE)).context(BASELINE)?;
    let revision = revision(&text)?;
    let mut git = Command::new("git");
    git.current_dir(&workspace.root).args(["cat-file", "-e", &format!("{revision}^{{commit}}")]);
    ensure!(
        shell::succeeds(&mut git),
        "the history lacks revision {revision} of {BASELINE}: fetch it (`git fetch --unshallow`)"
    );
    if !shell::succeeds(&mut workspace.cargo("semver-checks --version")) {
        let mut install = workspace.cargo("install --locked cargo-semver-checks");
        shell::step("installing cargo-semver-checks (a quarter of an hour)", &mut install)?;
    }
    let mut command = workspace.cargo("semver-checks --all-features --package");
    shell::step("semver", command.args([PACKAGE, "--baseline-rev", revision]))
}

/// The revision in the file: the one line that is no remark.
fn revision(text: &str) -> Result<&str> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let revision =
        lines.next().filter(|line| line.len() == 40 && line.bytes().all(|it| it.is_ascii_hexdigit()));
    let revision =
        revision.with_context(|| format!("{BASELINE} has no revision of 40 hexadecimal digits"))?;
    ensure!(lines.next().is_none(), "{BASELINE} has more than one revision");
    Ok(revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_revision() {
        let one = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(revision(&format!("# why\n\n{one}\n")).unwrap(), one);
        for wrong in ["", "main\n", "# only a remark\n", &format!("{one}\n{one}\n")] {
            assert!(revision(wrong).is_err(), "{wrong}");
        }
    }
}
