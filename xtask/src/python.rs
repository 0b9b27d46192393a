//! `cargo xtask python`: the Python package as a wheel with the program in it, and as a source distribution;
//! installed into an empty environment and tested, here and in a bare Debian.

use crate::options::Options;
use crate::tree::{self, Tree};
use crate::workspace::{self, Workspace};
use crate::{chroot, shell, venv};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the package is.
pub(crate) const PACKAGE: &str = "python";
/// What builds it, and what its tests need.
pub(crate) const BUILD: &str = "python/requirements.txt";
const TESTS: &str = "python/tests/requirements.txt";
/// What checks its types.
const MYPY: &str = "install mypy==2.4.1";
/// maturin packs what is there; and where in it the program is.
const DATA: &str = "python/iopj._native.data";
pub(crate) const PROGRAM: &str = "scripts/iopj";
/// Runs the tests of an installed package; the folder of the sources would hide it, without `-P`.
const PYTEST: &str = "-P -m pytest --config-file python/pyproject.toml --durations=5 python/tests";

/// Packages a program, or the release build; or tests what the build of the tests has built.
pub(crate) fn run(workspace: &Workspace, mut options: Options) -> Result<()> {
    if options.flag("--built") {
        options.end()?;
        return check_built(workspace);
    }
    let (program, release) = (options.value("--program")?, options.value("--chroot")?);
    options.end()?;
    let program = match program {
        Some(file) => PathBuf::from(file),
        None => workspace.release_binary()?,
    };
    package(workspace, &program, release.as_deref())
}

/// Builds the wheel with this program, and the source distribution; tests both here, or the wheel by the
/// Python of a release of Debian.
pub(crate) fn package(workspace: &Workspace, program: &Path, release: Option<&str>) -> Result<()> {
    let dist = empty(&workspace.target.join("python/dist"))?;
    let tools = venv::ensure(workspace, "python-build", "python3", &workspace.root.join(BUILD))?;
    let wheel = wheel(workspace, &tools, program, &dist)?;
    let source = source(workspace, &tools, &dist)?;
    if let Some(release) = release {
        return chroot::python(workspace, release, &wheel);
    }
    // Downloads and tests leave a processor to the compiler.
    std::thread::scope(|scope| {
        let built = scope.spawn(|| from_source(workspace, &source));
        let checked = check(workspace, &wheel);
        let built = built.join().unwrap_or_else(|_| bail!("the build of the source distribution panicked"));
        checked.and(built)
    })
}

/// Installs a wheel into an empty environment, runs the tests of the package, and checks its types.
pub(crate) fn check(workspace: &Workspace, wheel: &Path) -> Result<()> {
    let python = fresh(&workspace.target.join("python/venv"), wheel, &workspace.root.join(TESTS))?;
    test(workspace, &python)?;
    pip(&python, MYPY, &[])?;
    let mut types = Command::new(&python);
    types.current_dir(workspace.root.join(PACKAGE)).args(["-m", "mypy", "iopj"]);
    shell::step("types of the Python package", &mut types)
}

/// The tests of the package with what the build of the tests has built.
pub(crate) fn check_built(workspace: &Workspace) -> Result<()> {
    shell::timed("the Python package", || {
        let python = match environments(workspace) {
            Err(error) if !shell::in_ci() => {
                shell::skip(format!("the Python package needs its environments: {error:#}"));
                return Ok(());
            }
            made => packed(workspace, &made?)?,
        };
        test(workspace, &python)
    })
}

/// The environments that build and that test.
fn environments(workspace: &Workspace) -> Result<[PathBuf; 2]> {
    let make = |name, list| venv::ensure(workspace, name, "python3", &workspace.root.join(list));
    Ok([make("python-build", BUILD)?, make("python-tests", TESTS)?])
}

/// Packs the module and the program of the tests' build as maturin would, without another build, and
/// installs them; the interpreter that has them.
fn packed(workspace: &Workspace, [tools, tests]: &[PathBuf; 2]) -> Result<PathBuf> {
    let debug = workspace.target.join("debug");
    let (tree, dist) = (workspace.target.join("python/tree"), workspace.target.join("python/debug"));
    let (tree, dist) = (empty(&tree)?, empty(&dist)?);
    let mut metadata =
        maturin(workspace, tools, "pep517 write-dist-info --profile dev --interpreter python3");
    shell::output(metadata.arg("--metadata-directory").arg(&tree))?;
    let mut copy = Command::new("cp");
    shell::output(copy.arg("-r").arg(workspace.root.join("python/iopj")).arg(&tree))?;
    fs::copy(debug.join("deps/libiopj_native.so"), tree.join("iopj/_native.abi3.so"))
        .context("the module for Python: build the tests")?;
    let names = fs::read_dir(&tree)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let data = names.into_iter().find_map(|name| Some(format!("{}.data", name.strip_suffix(".dist-info")?)));
    let scripts = tree.join(data.context("maturin wrote no metadata")?).join("scripts");
    fs::create_dir_all(&scripts)?;
    let mut strip = Command::new("strip");
    shell::output(strip.arg("-o").arg(scripts.join("iopj")).arg(debug.join("iopj")))?;
    let mut pack = Command::new(tools.join("bin/python"));
    shell::output(pack.args(["-m", "wheel", "pack", "--dest-dir"]).arg(&dist).arg(&tree))?;
    let python = tests.join("bin/python");
    pip(&python, "install --no-index --no-deps --force-reinstall", &[&only(&dist, ".whl")?])?;
    pip(&python, "check", &[])?;
    Ok(python)
}

/// The wheel that is released, with its honest tag: maturin looks which glibc the module needs.
fn wheel(workspace: &Workspace, tools: &Path, program: &Path, dist: &Path) -> Result<PathBuf> {
    let mut files = Tree::default();
    files.program(PROGRAM, tree::read(program).context("name the program to pack")?);
    let data = Data::with(workspace, &files)?;
    let mut build = maturin(workspace, tools, "build --release --strip --interpreter python3");
    shell::step("Python wheel", build.arg("--out").arg(dist))?;
    drop(data);
    let wheel = only(dist, ".whl")?;
    let read = |option: &str| {
        shell::output(Command::new("readelf").args(["--wide", option]).arg(program))
            .with_context(|| format!("{} is no program for Linux: name one", program.display()))
    };
    if !is_for(&wheel, &read("--file-header")?) {
        bail!(
            "{} is for another processor than {}: pack a program for that one",
            program.display(),
            wheel.display()
        );
    }
    let versions = read("--version-info")?;
    match (glibc_of(&versions), tag(&wheel)) {
        (Some(needed), Some(said)) if needed > said => bail!(
            "{} needs glibc 2.{needed}, and the wheel's tag says 2.{said}: pack a program for that one",
            program.display()
        ),
        _ => Ok(wheel),
    }
}

/// True if the header of a program has the processor that the name of a wheel promises to run on.
fn is_for(wheel: &Path, header: &str) -> bool {
    let machine = header.lines().find_map(|line| line.trim().strip_prefix("Machine:")).unwrap_or_default();
    let name = wheel.to_string_lossy();
    let processors = [("_x86_64.whl", "X86-64"), ("_aarch64.whl", "AArch64")];
    processors.iter().any(|(end, processor)| name.ends_with(end) && machine.ends_with(processor))
}

/// The newest glibc 2 whose symbols a program names: maturin looks at the module alone.
fn glibc_of(versions: &str) -> Option<u32> {
    let minors = versions.split("GLIBC_2.").skip(1);
    minors.filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()).max()
}

/// The glibc 2 that the name of a wheel promises to run on.
fn tag(wheel: &Path) -> Option<u32> {
    let name = wheel.file_name()?.to_str()?;
    name.split_once("manylinux_2_")?.1.split('_').next()?.parse().ok()
}

/// What a wheel holds besides the module, where maturin looks for it while the wheel is built.
pub(crate) struct Data(PathBuf);

impl Data {
    /// These files, below the folders that wheels have for them.
    ///
    /// # Errors
    /// The system's own.
    pub(crate) fn with(workspace: &Workspace, files: &Tree) -> Result<Data> {
        let data = Data(workspace.root.join(DATA));
        files.write(&data.0)?;
        Ok(data)
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            println!("{}: {error}", self.0.display());
        }
    }
}

fn source(workspace: &Workspace, tools: &Path, dist: &Path) -> Result<PathBuf> {
    shell::step("Python source distribution", maturin(workspace, tools, "sdist").arg("--out").arg(dist))?;
    only(dist, ".tar.gz")
}

/// Builds the source distribution as pip does, but without optimization, and imports what it gives.
pub(crate) fn from_source(workspace: &Workspace, source: &Path) -> Result<()> {
    let python = fresh(&workspace.target.join("python/venv-source"), source, &workspace.root.join(BUILD))?;
    let mut import = Command::new(python);
    import.args(["-P", "-c", "import iopj; print(iopj.Histogram())"]);
    shell::step("import of the source distribution's build", &mut import)
}

/// An empty environment with a package, then with further ones; its interpreter.
fn fresh(folder: &Path, package: &Path, further: &Path) -> Result<PathBuf> {
    let mut make = Command::new("python3");
    shell::step("empty environment", make.args(["-m", "venv", "--clear"]).arg(folder))?;
    let python = folder.join("bin/python");
    pip(&python, "install", &[package])?;
    let mut alone = Command::new(&python);
    shell::output(alone.args(["-P", "-c", "import iopj, iopj.figures; iopj.Histogram()"]))?;
    pip(&python, "install --requirement", &[further])?;
    Ok(python)
}

fn test(workspace: &Workspace, python: &Path) -> Result<()> {
    let mut pytest = Command::new(python);
    // The disk below the target folder has direct I/O, which that of temporary files may lack.
    let scratch = workspace.target.join("python/tests");
    pytest.current_dir(&workspace.root).args(PYTEST.split(' ')).arg("--basetemp").arg(scratch);
    shell::step("tests of the Python package", &mut pytest)
}

/// maturin, of the environment `tools`, with these words.
pub(crate) fn maturin(workspace: &Workspace, tools: &Path, words: &str) -> Command {
    let mut command = workspace::as_from_a_terminal(tools.join("bin/maturin"));
    command.current_dir(workspace.root.join(PACKAGE)).args(words.split(' '));
    command
}

fn pip(python: &Path, words: &str, paths: &[&Path]) -> Result<()> {
    let mut command = Command::new(python);
    // A build from source without optimization, and in the least time: whether it builds is the question.
    command.env("MATURIN_PEP517_ARGS", "--profile dev");
    command.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
    command.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]).args(words.split(' ')).args(paths);
    shell::output(&mut command).map(|_| ())
}

/// The folder, with nothing in it.
fn empty(folder: &Path) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    Ok(folder.to_owned())
}

/// The file in a folder whose name ends so.
pub(crate) fn only(folder: &Path, end: &str) -> Result<PathBuf> {
    let files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<PathBuf> = files.filter(|file| file.to_string_lossy().ends_with(end)).collect();
    match (found.pop(), found.pop()) {
        (Some(file), None) => Ok(file),
        _ => bail!("{} has not exactly one file that ends in {end}", folder.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_promises_no_older_glibc_than_its_program_needs() {
        assert_eq!(glibc_of("Name: GLIBC_2.34  Flags: none\n0x20: Name: GLIBC_2.2.5\nGLIBC_2.9"), Some(34));
        assert_eq!(glibc_of("a static program has none"), None);
        assert_eq!(tag(Path::new("d/iopj-0.2.0-cp311-abi3-manylinux_2_28_x86_64.whl")), Some(28));
        assert_eq!(tag(Path::new("d/iopj-0.2.0-cp311-abi3-linux_x86_64.whl")), None);
    }

    #[test]
    fn a_wheel_has_no_program_of_another_processor() {
        let own = std::env::current_exe().unwrap();
        let mut read = Command::new("readelf");
        let header = shell::output(read.args(["--wide", "--file-header"]).arg(own)).unwrap();
        let [own, other] = match std::env::consts::ARCH {
            "x86_64" => ["x86_64", "aarch64"],
            _ => ["aarch64", "x86_64"],
        };
        let wheel = |processor: &str| PathBuf::from(format!("d/iopj-0.2.0-cp311-abi3-linux_{processor}.whl"));
        assert!(is_for(&wheel(own), &header), "{header}");
        assert!(!is_for(&wheel(other), &header) && !is_for(&wheel(own), ""), "{header}");
    }

    #[test]
    fn the_program_is_where_maturin_looks_only_while_it_is_packed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        let workspace = Workspace::at(root);
        let mut files = Tree::default();
        files.program(PROGRAM, "program");
        let data = Data::with(&workspace, &files).unwrap();
        assert!(only(&workspace.root.join(DATA).join("scripts"), "iopj").unwrap().is_file());
        drop(data);
        assert!(!workspace.root.join(DATA).exists());
    }
}
