//! A bare Debian in a folder, with one line of apt sources, where `cargo xtask test` must pass as on a fresh
//! machine.

use crate::workspace::Workspace;
use crate::{needs, shell};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a machine needs to build Rust programs with C parts. The tests install whatever else they need.
const PACKAGES: &str = "git,gcc,libc6-dev,ca-certificates,curl";
/// What a machine needs to install Python's packages.
const FOR_PYTHON: &str = "ca-certificates,python3,python3-venv";

/// Runs in a mount namespace of its own: its mounts vanish with its last process, however that ends, and are
/// invisible to the code that removes the folder.
const ENTER: &str = "\
set -e
mount --bind \"$1\" \"$1\"
mount -t proc proc \"$1/proc\"
mount --rbind /sys \"$1/sys\"
mount --rbind /dev \"$1/dev\"
exec chroot \"$1\" env -i HOME=/root CI=true LANG=C.UTF-8 TERM=dumb \\
    PATH=/root/.cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \\
    sh -c \"$2\"
";

/// What the tests of the whole project run.
const TESTS: &str = "cd /iopj && exec cargo xtask test";

/// What tests an installed wheel by the release's own Python; `/iopj` has it with the tests.
const PYTHON: &str = "\
set -e
cd /iopj
python3 -m venv /venv
/venv/bin/pip --quiet install dist/*.whl
/venv/bin/python -P -c 'import sys, iopj; print(sys.version, iopj.Histogram())'
/venv/bin/pip --quiet install --requirement python/tests/requirements.txt
exec /venv/bin/python -P -m pytest --config-file python/pyproject.toml --basetemp /iopj/tests python/tests
";

/// The folder of the bare system, removed when dropped.
struct Bare(PathBuf);

impl Drop for Bare {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            println!("{error:#}");
        }
    }
}

/// Makes the release, runs the tests of the last commit in it, and removes it.
///
/// # Errors
/// This is not root, the release cannot be made, or the tests fail in it.
pub(crate) fn test(workspace: &Workspace, release: &str) -> Result<()> {
    let bare = bare(workspace, release, PACKAGES)?;
    let sources = fs::read_to_string(bare.0.join("etc/apt/sources.list"))?;
    if sources.lines().filter(|line| line.starts_with("deb")).count() != 1 {
        bail!("the bare {release} does not have exactly one line of apt sources: {sources}");
    }
    shell::timed("copy of the Rust toolchains", || toolchains(&bare.0))?;
    let mut clone = workspace.program("git", "clone --quiet --no-hardlinks .");
    if !clone.arg(bare.0.join("iopj")).status().is_ok_and(|status| status.success()) {
        bail!("`{}` cannot be cloned", workspace.root.display());
    }
    enter(&bare, TESTS, &format!("the tests in a bare {release}"))
}

/// Makes the release, tests a wheel by its Python, and removes it.
///
/// # Errors
/// As of [`test()`].
pub(crate) fn python(workspace: &Workspace, release: &str, wheel: &Path) -> Result<()> {
    let bare = bare(workspace, release, FOR_PYTHON)?;
    let to = bare.0.join("iopj");
    fs::create_dir_all(to.join("dist"))?;
    fs::create_dir_all(to.join("python"))?;
    let name = wheel.file_name().context("the wheel has no name")?;
    fs::copy(wheel, to.join("dist").join(name))?;
    let parts = ["pyproject.toml", "tests", "examples"].map(|part| workspace.root.join("python").join(part));
    shell::output(Command::new("cp").arg("-r").args(parts).arg(to.join("python")))?;
    // Where this machine's Python downloads from.
    if Path::new("/etc/pip.conf").exists() {
        fs::copy("/etc/pip.conf", bare.0.join("etc/pip.conf"))?;
    }
    enter(&bare, PYTHON, &format!("the Python package in a bare {release}"))
}

/// A bare release with these packages, and with the authorities that this machine trusts: downloads may go
/// through its site.
fn bare(workspace: &Workspace, release: &str, packages: &str) -> Result<Bare> {
    needs::ensure_here(&[("debootstrap", "debootstrap"), ("unshare", "util-linux"), ("git", "git")])?;
    if !rustix::process::geteuid().is_root() {
        bail!("only root can make a bare {release}: run this as root");
    }
    let bare = Bare(workspace.target.join("soak").join(release));
    remove(&bare.0)?;
    fs::create_dir_all(&bare.0)?;
    let mut make = Command::new("debootstrap");
    make.args(["--variant=minbase", &format!("--include={packages}"), release]).arg(&bare.0).arg(mirror()?);
    shell::step(&format!("a bare {release}"), &mut make)?;
    let authorities = "etc/ssl/certs/ca-certificates.crt";
    fs::copy(Path::new("/").join(authorities), bare.0.join(authorities))?;
    Ok(bare)
}

/// Runs a script of the shell's in a bare system.
fn enter(bare: &Bare, script: &str, step: &str) -> Result<()> {
    let mut enter = Command::new("unshare");
    enter.args(["--mount", "--propagation", "private", "sh", "-c", ENTER, "enter"]).arg(&bare.0).arg(script);
    shell::step(step, &mut enter)
}

/// The mirror that this machine's own packages come from.
fn mirror() -> Result<String> {
    let words = ["indextargets", "--format", "$(LABEL)|$(COMPONENT)|$(REPO_URI)", "Created-By: Packages"];
    let text = shell::output(Command::new("apt-get").args(words))?;
    mirror_in(&text).context("apt knows no mirror of Debian: name one in /etc/apt, and run apt-get update")
}

fn mirror_in(targets: &str) -> Option<String> {
    targets.lines().find_map(|line| line.strip_prefix("Debian|main|")).map(str::to_owned)
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

/// Removes a bare system unless something is mounted in it.
fn remove(folder: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    if let Some(place) = mount_below(&mounts, folder) {
        bail!("`{place}` is mounted: unmount it, then remove `{}`", folder.display());
    }
    if !folder.exists() {
        return Ok(());
    }
    shell::output(Command::new("rm").args(["-rf", "--one-file-system"]).arg(folder)).map(|_| ())
}

/// The first mount point at or below a folder (proc_pid_mountinfo(5)).
fn mount_below<'a>(mounts: &'a str, folder: &Path) -> Option<&'a str> {
    mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .find(|place| Path::new(place).starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_which_something_is_mounted_is_not_removed() {
        let mounts = "22 1 254:0 / / rw - ext4 /dev/vda rw\n90 22 0:5 / /w/target/soak/trixie/dev rw - \
                      devtmpfs dev rw\n";
        assert_eq!(
            mount_below(mounts, Path::new("/w/target/soak/trixie")),
            Some("/w/target/soak/trixie/dev")
        );
        assert_eq!(mount_below(mounts, Path::new("/w/target/soak/trix")), None);
        assert_eq!(mount_below(mounts, Path::new("/w/target/soak/bookworm")), None);
    }

    #[test]
    fn the_mirror_is_the_distributions_main_archive() {
        let targets = "other|main|http://o.example/\nDebian-Security|main|http://s.example/debian-security/\n\
                       Debian|contrib|http://c.example/debian/\nDebian|main|http://m.example/debian/\n";
        assert_eq!(mirror_in(targets).as_deref(), Some("http://m.example/debian/"));
        assert_eq!(mirror_in("Ubuntu|main|http://u.example/\n"), None);
    }
}
