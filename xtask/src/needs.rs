//! Programs that the tasks need: finds them, installs them if possible, or names them.

use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use thiserror::Error;

/// Program and the Debian package that holds it.
const PROGRAMS: &[(&str, &str)] = &[
    ("fio", "fio"),
    ("valgrind", "valgrind"),
    ("losetup", "mount"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("mkswap", "util-linux"),
    ("unshare", "util-linux"),
    ("partx", "util-linux"),
    ("mkfs.ext4", "e2fsprogs"),
    ("chromium", "chromium"),
    ("tidy", "tidy"),
    ("pdftotext", "poppler-utils"),
    ("pdftoppm", "poppler-utils"),
    ("pdfinfo", "poppler-utils"),
    ("qpdf", "qpdf"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("qemu-system-aarch64", "qemu-system-arm"),
    ("qemu-aarch64", "qemu-user"),
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("/usr/aarch64-linux-gnu/lib/libc.a", "libc6-dev-arm64-cross"),
    ("busybox", "busybox-static"),
    ("depmod", "kmod"),
    ("cpio", "cpio"),
    ("nm", "binutils"),
    ("pkg-config", "pkgconf"),
    ("script", "bsdutils"),
    ("snmpd", "snmpd"),
    ("ipmitool", "ipmitool"),
    ("ipmi_sim", "openipmi"),
    ("prometheus", "prometheus"),
    ("promtool", "prometheus"),
    ("prometheus-node-exporter", "prometheus-node-exporter"),
    ("python3", "python3"),
    ("java", "default-jre-headless"),
    // Not programs: they are what python3 makes environments with.
    ("/usr/share/doc/python3-venv/copyright", "python3-venv"),
    ("readelf", "binutils"),
    ("strip", "binutils"),
    ("openssl", "openssl"),
    ("lighttpd", "lighttpd"),
    ("ssh", "openssh-client"),
    ("rdma", "iproute2"),
    ("/usr/sbin/sshd", "openssh-server"),
    ("slurmctld", "slurm-wlm"),
    ("munged", "munge"),
    ("useradd", "passwd"),
    ("runc", "runc"),
    ("dpkg-deb", "dpkg"),
    ("gpg", "gpg"),
    ("gpg-agent", "gpg-agent"),
    ("lintian", "lintian"),
    ("rpmbuild", "rpm"),
    // Not programs: pages are checked with each of these sets of fonts alone.
    ("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", "fonts-dejavu-core"),
    ("/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf", "fonts-liberation"),
    ("/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf", "fonts-noto-core"),
];

/// Makes sure that every program of the tests is here: installs them as root with apt-get, otherwise names
/// the missing ones.
///
/// # Errors
/// Something is missing and this is CI, or its installation failed.
pub(crate) fn ensure() -> Result<()> {
    match ensure_here(PROGRAMS) {
        Err(error) if error.is::<Missing>() && !shell::in_ci() => {
            println!("{error}; tests without them say `skipped`");
            Ok(())
        }
        done => done,
    }
}

/// The packages of all programs that the tests need, as apt-get takes them.
pub(crate) fn packages() -> String {
    let packages: BTreeSet<&str> = PROGRAMS.iter().map(|(_, package)| *package).collect();
    Vec::from_iter(packages).join(" ")
}

/// Makes sure that these programs, each with its package, are here.
///
/// # Errors
/// [`Missing`] without root or apt-get; the installation's own.
pub(crate) fn ensure_here(programs: &[(&'static str, &'static str)]) -> Result<()> {
    let lacking = missing(programs);
    if lacking.is_empty() {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() || !is_here("apt-get") {
        return Err(Missing(list(&lacking)).into());
    }
    install(&lacking)?;
    let still = missing(programs);
    if !still.is_empty() {
        bail!("apt-get installed {}, but their programs are not on the PATH", list(&still));
    }
    Ok(())
}

/// Makes sure that Python can make environments; Debian has that in a package of its own.
///
/// # Errors
/// As of [`ensure_here`].
pub(crate) fn python_environments() -> Result<()> {
    ensure_here(&[("python3", "python3")])?;
    if shell::succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"])) {
        return Ok(());
    }
    ensure_here(&[("/usr/share/doc/python3-venv/copyright", "python3-venv")])
}

/// Makes sure that this toolchain of Rust is here, with a program of cargo's (such as `miri`) if one is
/// named.
///
/// # Errors
/// rustup's own.
pub(crate) fn toolchain(workspace: &Workspace, name: &str, program: &str, components: &[&str]) -> Result<()> {
    let _lock = lock(workspace)?;
    if shell::succeeds(&mut workspace.cargo(&format!("+{name} {program} --version"))) {
        return Ok(());
    }
    let mut install = workspace.program("rustup", &format!("toolchain install {name} --profile minimal"));
    install.args(components.iter().flat_map(|component| ["--component", component]));
    shell::step(&format!("installing Rust {name}"), &mut install)
}

/// Makes sure that the standard library for another processor is here.
///
/// # Errors
/// rustup's own.
pub(crate) fn rust_target(workspace: &Workspace, target: &str) -> Result<()> {
    let _lock = lock(workspace)?;
    let add = format!("target add {target}");
    shell::step(&format!("Rust's library for {target}"), &mut workspace.program("rustup", &add))
}

/// Keeps other tasks from installing at the same time: lint may go on beside the tests, and rustup does not
/// keep two installations apart. The file only has to be the same one for both.
fn lock(workspace: &Workspace) -> Result<File> {
    let path = workspace.root.join("Cargo.lock");
    let file = File::open(&path).with_context(|| path.display().to_string())?;
    file.lock().with_context(|| path.display().to_string())?;
    Ok(file)
}

/// Packages that only the user can install.
#[derive(Debug, Error)]
#[error("these packages are needed: {0}; install them (Debian's names)")]
struct Missing(String);

/// Whether `program` is on the PATH or where the system's programs are.
pub(crate) fn is_here(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).join(program));
    std::env::split_paths(&path).map(|folder| folder.join(program)).chain(system).any(|file| file.is_file())
}

fn missing(programs: &[(&str, &'static str)]) -> BTreeSet<&'static str> {
    programs.iter().filter(|(program, _)| !is_here(program)).map(|(_, package)| *package).collect()
}

fn list(packages: &BTreeSet<&str>) -> String {
    packages.iter().copied().collect::<Vec<_>>().join(", ")
}

fn install(packages: &BTreeSet<&str>) -> Result<()> {
    println!("installing by apt-get: {}", list(packages));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        command
    };
    shell::step("apt-get update", &mut apt(&["update"]))?;
    let mut command = apt(&["install", "--yes", "--no-install-recommends"]);
    shell::step("apt-get install", command.args(packages))
}
