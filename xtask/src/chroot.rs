//! In a bare Debian: the Python package.

use crate::bare::Bare;
use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

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

/// Makes the release, tests a wheel by its Python, and removes it.
///
/// # Errors
/// This is not root, the release cannot be made, or the tests fail in it.
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
