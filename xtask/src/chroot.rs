//! In a bare Debian: `cargo xtask test`, which must pass as on a fresh machine, and the Python package.

use crate::bare::Bare;
use crate::needs;
use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a machine needs to build Rust programs with C parts. The tests install whatever else they need.
const PACKAGES: &str = "git,gcc,libc6-dev,ca-certificates,curl";
/// What a machine needs to install Python's packages.
const FOR_PYTHON: &str = "ca-certificates,python3,python3-venv";

/// What tests an installed wheel by the release's own Python; `/iopj` has it with the tests.
const PYTHON: &str = "\
cd /iopj
python3 -m venv /venv
/venv/bin/pip --quiet install dist/*.whl
/venv/bin/python -P -c 'import sys, iopj; print(sys.version, iopj.Histogram())'
/venv/bin/pip --quiet install --requirement python/tests/requirements.txt
exec /venv/bin/python -P -m pytest --config-file python/pyproject.toml --basetemp /iopj/tests python/tests
";

/// Makes the release, runs the tests of the last commit in it, and removes it.
///
/// # Errors
/// This is not root, the release cannot be made, or the tests fail in it.
pub(crate) fn test(workspace: &Workspace, release: &str) -> Result<()> {
    needs::ensure_here(&[("git", "git")])?;
    let bare = Bare::new(workspace, "soak", release, PACKAGES)?;
    shell::timed("copy of the Rust toolchains", || toolchains(bare.folder()))?;
    let mut clone = workspace.program("git", "clone --quiet --no-hardlinks .");
    if !clone.arg(bare.folder().join("iopj")).status().is_ok_and(|status| status.success()) {
        bail!("`{}` cannot be cloned", workspace.root.display());
    }
    let tests = "cd /iopj && exec cargo xtask test";
    shell::step(&format!("the tests in a bare {release}"), &mut bare.shell(tests))
}

/// Makes the release, tests a wheel by its Python, and removes it.
///
/// # Errors
/// As of [`test()`].
pub(crate) fn python(workspace: &Workspace, release: &str, wheel: &Path) -> Result<()> {
    let bare = Bare::new(workspace, "soak", release, FOR_PYTHON)?;
    let to = bare.folder().join("iopj");
    fs::create_dir_all(to.join("dist"))?;
    fs::create_dir_all(to.join("python"))?;
    let name = wheel.file_name().context("the wheel has no name")?;
    fs::copy(wheel, to.join("dist").join(name))?;
    let parts = ["pyproject.toml", "tests", "examples"].map(|part| workspace.root.join("python").join(part));
    shell::output(Command::new("cp").arg("-r").args(parts).arg(to.join("python")))?;
    // Where this machine's Python downloads from.
    if Path::new("/etc/pip.conf").exists() {
        fs::copy("/etc/pip.conf", bare.folder().join("etc/pip.conf"))?;
    }
    shell::step(&format!("the Python package in a bare {release}"), &mut bare.shell(PYTHON))
}

/// What is copied from cargo's folder: programs, downloads, and the configuration of where to download from.
const CARGO: [&str; 4] = ["bin", "registry", "git", "config.toml"];

/// Copies this machine's Rust, installed by rustup, to root's home.
fn toolchains(bare: &Path) -> Result<()> {
    let folder = |variable: &str, name: &str| {
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(name));
        let found =
            std::env::var_os(variable).map(PathBuf::from).or_else(home).filter(|found| found.is_dir());
        found.with_context(|| format!("{variable} names no folder: install rustup"))
    };
    let (rustup, cargo) = (folder("RUSTUP_HOME", ".rustup")?, folder("CARGO_HOME", ".cargo")?);
    let to = bare.join("root/.cargo");
    fs::create_dir_all(&to)?;
    let parts = CARGO.map(|part| cargo.join(part)).into_iter().filter(|part| part.exists());
    shell::output(Command::new("cp").arg("-a").args(parts).arg(to))?;
    shell::output(Command::new("cp").arg("-a").arg(rustup).arg(bare.join("root/.rustup")))?;
    Ok(())
}
