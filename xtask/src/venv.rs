//! Virtual environments of Python for tasks: made once for a list of packages, kept below the target folder.

use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment `name` with the packages that the file `requirements` lists, made with `python`. One that
/// was made for the same list is kept.
///
/// # Errors
/// Python's or pip's own.
pub(crate) fn ensure(
    workspace: &Workspace,
    name: &str,
    python: &str,
    requirements: &Path,
) -> Result<PathBuf> {
    let folder = workspace.target.join("venv").join(name);
    let list = fs::read_to_string(requirements).with_context(|| requirements.display().to_string())?;
    let stamp = folder.join("requirements");
    let wanted = format!("{python}\n{list}");
    if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        return Ok(folder);
    }
    let make = || Command::new(python);
    shell::step(&format!("environment {name}"), make().args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut install = Command::new(folder.join("bin/python"));
    // What is imported is compiled then: most of it never is.
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]);
    install.arg("--requirement");
    shell::step(&format!("Python packages of {name}"), install.arg(requirements))?;
    fs::write(&stamp, wanted).with_context(|| stamp.display().to_string())?;
    Ok(folder)
}
