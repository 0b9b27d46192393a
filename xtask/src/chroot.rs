//! `cargo xtask test` in a bare Debian: it must pass as on a fresh machine.

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

/// Makes the release, runs the tests of the last commit in it, and removes it.
///
/// # Errors
/// This is not root, the release cannot be made, or the tests fail in it.
pub(crate) fn test(workspace: &Workspace, release: &str) -> Result<()> {
    needs::ensure_here(&[("git", "git")])?;
    let bare = Bare::new(workspace, "soak", release, PACKAGES)?;
    // This machine trusts the authority of its site, if downloads go through one.
    let authorities = "etc/ssl/certs/ca-certificates.crt";
    fs::copy(Path::new("/").join(authorities), bare.folder().join(authorities))?;
    shell::timed("copy of the Rust toolchains", || toolchains(bare.folder()))?;
    let mut clone = workspace.program("git", "clone --quiet --no-hardlinks .");
    if !clone.arg(bare.folder().join("iopj")).status().is_ok_and(|status| status.success()) {
        bail!("`{}` cannot be cloned", workspace.root.display());
    }
    let tests = "cd /iopj && exec cargo xtask test";
    shell::step(&format!("the tests in a bare {release}"), &mut bare.shell(tests))
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
