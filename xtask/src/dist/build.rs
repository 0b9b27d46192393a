//! The program and the libraries of one architecture, linked for an old glibc, with the same bytes wherever
//! they are built.

use crate::dist::arch::{Arch, GLIBC};
use crate::dist::notices::Added;
use crate::workspace::Workspace;
use crate::{ffi, needs, python, shell, venv};
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names the folder of what zig keeps; else it is below the user's home.
const ZIG_CACHE: &str = "ZIG_GLOBAL_CACHE_DIR";

/// What was built for an architecture.
#[derive(Clone)]
pub(crate) struct Built {
    /// `iopj`.
    pub(crate) program: PathBuf,
    /// The folder of `libiopj.so.0` and `libiopj.a`.
    pub(crate) library: PathBuf,
    /// `libiopj_preload.so`.
    pub(crate) preload: PathBuf,
    /// What the linker adds to all of them: the compiler's own routines.
    pub(crate) routines: Added,
    /// What it adds to the program alone: what unwinds the stack.
    pub(crate) unwinder: Added,
}

impl Built {
    /// What the linker adds to the program.
    pub(crate) fn of_program(&self) -> Added {
        [self.routines.as_slice(), self.unwinder.as_slice()].concat()
    }
}

/// What compiles and links.
pub(crate) struct Tools<'a> {
    pub(crate) workspace: &'a Workspace,
    /// The environment of Python that has `zig` and `cargo-zigbuild`.
    environment: PathBuf,
    /// That which has `maturin`.
    pub(crate) maturin: PathBuf,
    pub(crate) epoch: u64,
}

impl Tools<'_> {
    /// Installs what is pinned in `packaging/requirements.txt` and for the Python package.
    ///
    /// # Errors
    /// pip's own.
    pub(crate) fn new(workspace: &Workspace, epoch: u64) -> Result<Tools<'_>> {
        let requirements = workspace.root.join("packaging/requirements.txt");
        let environment = venv::ensure(workspace, "dist", "python3", &requirements)?;
        let build = workspace.root.join(python::BUILD);
        let maturin = venv::ensure(workspace, "python-build", "python3", &build)?;
        Ok(Tools { workspace, environment, maturin, epoch })
    }

    /// Builds everything for this architecture.
    ///
    /// # Errors
    /// The compiler's, or a symbol is newer than [`GLIBC`].
    pub(crate) fn build(&self, arch: &Arch) -> Result<Built> {
        needs::rust_target(self.workspace, arch.rust)?;
        let build = |name: &str, words: &str| {
            let step = format!("{name} for {}", arch.gnu);
            shell::step(&step, &mut self.cargo(arch, words))
        };
        build("iopj", "zigbuild --package iopj --features parquet")?;
        build("libiopj.a", "rustc --package iopj-ffi --lib --crate-type staticlib")?;
        let unwinder = self.unwinder(arch)?;
        let mut preload = self.cargo(arch, "rustc --package iopj-preload --lib --crate-type cdylib");
        preload.arg("--").args(unwinder.arguments());
        shell::step(&format!("libiopj_preload.so for {}", arch.gnu), &mut preload)?;
        let made = self.target().join(arch.rust).join("dist");
        let library = made.join("ffi");
        fs::create_dir_all(&library)?;
        fs::copy(made.join("libiopj_ffi.a"), library.join("libiopj.a")).context("libiopj.a")?;
        let mut strip = Command::new(arch.strip().0);
        strip.args(["--strip-debug", "--enable-deterministic-archives"]);
        strip.args(["--remove-section=.comment", "--remove-section=.note"]);
        shell::output(strip.arg(library.join("libiopj.a")))?;
        let mut link = self.for_old_glibc(arch);
        ffi::link(self.workspace, &library, link.arg("-L").arg(&unwinder.0), "-lunwinder")?;
        let (program, preload) = (made.join("iopj"), made.join("libiopj_preload.so"));
        let zig = self.zig()?;
        let added = |name: &str, licence| vec![(name.to_owned(), zig.join(licence))];
        let routines = added("zig-compiler_rt", "LICENSE");
        let unwinder = added("llvm-libunwind", "lib/libunwind/LICENSE.TXT");
        let built = Built { program, library, preload, routines, unwinder };
        for file in [&built.program, &built.preload, &built.library.join(ffi::SONAME)] {
            check_symbols(file)?;
        }
        check_unwinder(&built.preload)?;
        check_unwinder(&built.library.join(ffi::SONAME))?;
        Ok(built)
    }

    /// What libraries are linked with to be unwound by `libgcc_s.so.1`, by which glibc ends a thread that is
    /// cancelled.
    ///
    /// # Errors
    /// The compiler's own.
    pub(crate) fn unwinder(&self, arch: &Arch) -> Result<Unwinder> {
        let folder = self.target().join(arch.rust).join("unwinder");
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let mut link = self.for_old_glibc(arch);
        link.args(["-shared", "-nostdlib", "-Wl,-soname,libgcc_s.so.1", "-o"]);
        link.arg(folder.join("libunwinder.so")).arg(self.workspace.root.join("xtask/src/dist/unwind.c"));
        shell::output(&mut link)?;
        Ok(Unwinder(folder))
    }

    /// The folder of zig.
    fn zig(&self) -> Result<PathBuf> {
        let mut find = Command::new(self.environment.join("bin/python"));
        let folder = "import os, ziglang; print(os.path.dirname(ziglang.__file__))";
        Ok(PathBuf::from(shell::output(find.args(["-c", folder]))?.trim()))
    }

    /// The folder of these builds.
    pub(crate) fn target(&self) -> PathBuf {
        self.workspace.target.join("dist/build")
    }

    /// `cargo-zigbuild`, which gives cargo a compiler and a linker for an old glibc.
    fn cargo(&self, arch: &Arch, words: &str) -> Command {
        let mut command = self.workspace.program("cargo-zigbuild", words);
        command.args(["--profile", "dist", "--locked", "--target", &format!("{}.{GLIBC}", arch.rust)]);
        command.arg("--target-dir").arg(self.target());
        self.for_same_bytes(&mut command);
        command
    }

    /// Lets a command find zig, and build the same bytes in every folder.
    pub(crate) fn for_same_bytes(&self, command: &mut Command) {
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.environment.join("bin").display()));
        command.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DIST_STRIP", "symbols");
        command.env("SOURCE_DATE_EPOCH", self.epoch.to_string());
        command.env("CARGO_ZIGBUILD_CACHE_DIR", self.target().join("zigbuild"));
        command.env(ZIG_CACHE, self.target().join("zig"));
        let renamed = |option: &str| {
            let renamed = |(from, to): (PathBuf, &str)| format!("{option}={}={to}", from.display());
            self.folders().map(renamed)
        };
        command.env("CARGO_ENCODED_RUSTFLAGS", renamed("--remap-path-prefix").join("\x1f"));
        let c = format!("-g0 {}", renamed("-ffile-prefix-map").join(" "));
        command.env("CFLAGS", &c).env("CXXFLAGS", c);
    }

    /// The folders whose names would come into what is built, and what takes their place; the last that
    /// matches counts.
    fn folders(&self) -> [(PathBuf, &'static str); 3] {
        [(cargo_home(), "/cargo"), (self.workspace.root.clone(), "/iopj"), (self.target(), "/build")]
    }

    /// The C compiler and linker for the oldest glibc.
    pub(crate) fn for_old_glibc(&self, arch: &Arch) -> Command {
        self.compiler(&format!("{}.{GLIBC}", arch.gnu))
    }

    /// The C compiler and linker for a target, by the compiler's own name.
    pub(crate) fn compiler(&self, target: &str) -> Command {
        let mut command = Command::new(self.environment.join("bin/python"));
        command.args(["-m", "ziglang", "cc", "-target", target]).env(ZIG_CACHE, self.target().join("zig"));
        command
    }
}

/// The folder of a library that stands for `libgcc_s.so.1` while another is linked. What zig would link in
/// instead does not know the frames of that, by which glibc ends a thread that is cancelled.
pub(crate) struct Unwinder(PathBuf);

impl Unwinder {
    /// What rustc is told.
    pub(crate) fn arguments(&self) -> [&OsStr; 4] {
        ["-l".as_ref(), "unwinder".as_ref(), "-L".as_ref(), self.0.as_os_str()]
    }
}

/// What every library of Rust asks its unwinder.
const UNWINDING: [&str; 3] = ["_Unwind_Backtrace", "_Unwind_RaiseException", "_Unwind_Resume"];

/// Refuses a library that has an unwinder of its own.
pub(crate) fn check_unwinder(library: &Path) -> Result<()> {
    let needed = shell::output(Command::new("readelf").args(["--dynamic", "--wide"]).arg(library))?;
    let symbols = shell::output(Command::new("readelf").args(["--dyn-syms", "--wide"]).arg(library))?;
    let is_asked = |name: &&str| symbols.lines().any(|line| line.contains(&format!(" UND {name}")));
    let own = UNWINDING.iter().find(|name| !is_asked(name));
    let is_sound = needed.contains("[libgcc_s.so.1]") && own.is_none();
    ensure!(is_sound, "{} unwinds threads by itself: it lacks {own:?} of libgcc_s.so.1", library.display());
    Ok(())
}

/// Where cargo keeps the sources of crates.
pub(crate) fn cargo_home() -> PathBuf {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo");
    std::env::var_os("CARGO_HOME").map_or(home, PathBuf::from)
}

/// Refuses a program or library that needs more than the oldest glibc.
pub(crate) fn check_symbols(file: &Path) -> Result<()> {
    let listed = shell::output(Command::new("readelf").args(["--version-info", "--wide"]).arg(file))?;
    let versions = glibc_versions(&listed);
    ensure!(!versions.is_empty(), "{} needs no symbol of glibc, by what readelf says", file.display());
    let limit = numbers(GLIBC);
    match versions.into_iter().find(|version| numbers(version).is_none_or(|one| Some(one) > limit)) {
        Some(version) => bail!("{} needs GLIBC_{version}, newer than {GLIBC}", file.display()),
        None => Ok(()),
    }
}

/// What follows `GLIBC_` wherever a version is needed.
fn glibc_versions(listed: &str) -> Vec<&str> {
    listed.split_whitespace().filter_map(|word| word.strip_prefix("GLIBC_")).collect()
}

fn numbers(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_glibc_are_compared_by_number() {
        let listed = "  0x0010:   Name: GLIBC_2.4  Flags: none  Version: 3\n  Name: GLIBC_PRIVATE  Flags\n";
        assert_eq!(glibc_versions(listed), ["2.4", "PRIVATE"]);
        assert!(numbers("2.4") < numbers(GLIBC) && numbers("2.28.1") > numbers(GLIBC));
        assert_eq!(numbers("PRIVATE"), None);
    }
}
