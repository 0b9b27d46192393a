//! The Python package of a release: a wheel for each architecture with the program of all packages in it, for
//! the same old glibc, and the source distribution.

use crate::dist::arch::{Arch, GLIBC};
use crate::dist::bill::{self, Graph};
use crate::dist::build::{Built, Tools, check_symbols, check_unwinder};
use crate::dist::notices::Notices;
use crate::dist::{Release, empty};
use crate::tree::{self, Tree};
use crate::workspace::Workspace;
use crate::{chroot, python, shell};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Where pip puts the notices, below an environment's folder.
const NOTICES: &str = "share/doc/iopj";

impl Tools<'_> {
    /// Builds the wheel of this architecture in `out`; its name.
    ///
    /// # Errors
    /// maturin's, or the wheel does not hold what it should.
    pub(crate) fn wheel(&self, arch: &Arch, built: &Built, version: &str, out: &Path) -> Result<String> {
        let folder = empty(out.with_extension("wheel"))?;
        let graph = Graph::read(self.workspace, arch)?;
        let crates = graph.linked("--package iopj-python")?;
        let bill = folder.join("iopj-python.cdx.json");
        std::fs::write(&bill, bill::cyclonedx("iopj-python", &crates, version, arch)?)?;
        let all = graph.linked("--package iopj-python --package iopj --features iopj/parquet")?;
        let notices = Notices::of(self.workspace, &all, &built.of_program())?;
        let mut data = Tree::default();
        data.program(python::PROGRAM, tree::read(&built.program)?);
        let data = data.with(&notices.files(&format!("data/{NOTICES}")));
        let data = python::Data::with(self.workspace, &data)?;
        let mut build = python::maturin(self.workspace, &self.maturin, "build --profile dist --locked --zig");
        build.args(["--compatibility", &format!("manylinux_{}", GLIBC.replace('.', "_"))]);
        build
            .args(["--target", arch.rust, "--interpreter", "python3"])
            .arg("--target-dir")
            .arg(self.target());
        build.arg("--sbom-include").arg(bill);
        self.for_same_bytes(&mut build);
        build.arg("--out").arg(&folder).arg("--").args(self.unwinder(arch)?.arguments());
        shell::step(&format!("wheel for {}", arch.gnu), &mut build)?;
        drop(data);
        let wheel = python::only(&folder, ".whl")?;
        self.holds(&wheel, arch, built)?;
        take(&wheel, out)
    }

    /// Whether a wheel has the program, the notices, and a module of its architecture that needs no newer
    /// glibc than it says.
    fn holds(&self, wheel: &Path, arch: &Arch, built: &Built) -> Result<()> {
        let folder = empty(wheel.with_extension("unpacked"))?;
        let mut unpack = Command::new(self.maturin.join("bin/python"));
        shell::output(unpack.args(["-m", "zipfile", "-e"]).args([wheel, &folder]))?;
        let module = folder.join("iopj/_native.abi3.so");
        check_symbols(&module)?;
        check_unwinder(&module)?;
        let header = shell::output(Command::new("readelf").args(["--file-header", "--wide"]).arg(&module))?;
        ensure!(header.contains(arch.readelf), "the module in {} is for another processor", wheel.display());
        let data = python::only(&folder, ".data")?;
        let program = tree::read(&data.join(python::PROGRAM))?;
        ensure!(program == tree::read(&built.program)?, "{} has another program", wheel.display());
        let notices = data.join("data").join(NOTICES).join("crates.txt");
        ensure!(notices.is_file(), "{} has no notices", wheel.display());
        Ok(())
    }

    /// Makes the source distribution in `out`, of what the repository tracks; its name.
    ///
    /// # Errors
    /// maturin's own.
    pub(crate) fn sdist(&self, out: &Path) -> Result<String> {
        let folder = empty(out.with_extension("source"))?;
        self.workspace.copy_tracked(&folder)?;
        let mut make = python::maturin(self.workspace, &self.maturin, "sdist --out ..");
        make.current_dir(folder.join(python::PACKAGE)).env("SOURCE_DATE_EPOCH", self.epoch.to_string());
        shell::step("Python source distribution", &mut make)?;
        take(&python::only(&folder, ".tar.gz")?, out)
    }
}

/// Copies a file to a folder; its name.
fn take(file: &Path, out: &Path) -> Result<String> {
    let name = file.file_name().and_then(|name| name.to_str()).context("a file without a name")?;
    std::fs::copy(file, out.join(name)).with_context(|| name.to_owned())?;
    Ok(name.to_owned())
}

/// Installs the wheel of this machine's architecture into an empty environment and tests it, here and in a
/// bare Debian of this name; builds the source distribution.
///
/// # Errors
/// A test fails.
pub(crate) fn check(workspace: &Workspace, release: &Release, arch: &Arch, debian: &str) -> Result<()> {
    let wheel = python::only(&release.folder, &format!("_{}.whl", arch.rpm))?;
    python::check(workspace, &wheel)?;
    chroot::python(workspace, debian, &wheel)?;
    python::from_source(workspace, &release.folder.join(format!("iopj-{}.tar.gz", release.version)))
}
