//! `cargo xtask dist`: tarballs, Debian and RPM packages, container images and Python wheels for each
//! architecture, with bills of materials, checksums and the notes of the release.

mod arch;
mod bill;
mod build;
mod check;
mod contents;
mod deb;
mod image;
mod install;
mod libc;
mod news;
mod notices;
mod rpm;
mod wheel;

use crate::options::Options;
use crate::workspace::Workspace;
use crate::{needs, shell, tree};
use anyhow::{Context, Result, bail, ensure};
use arch::Arch;
use build::{Built, Tools};
use contents::{Layout, Sources};
use notices::Notices;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) use check::check_packing;

/// Largest size of the program, in bytes; the data set of a fleet (Arrow and Parquet) is 5 MB of it.
const SIZE_LIMIT: u64 = 26_000_000;
/// Runs of `iopj --help` whose median is printed.
const HELP_RUNS: usize = 20;
/// What packs, with Debian's packages.
const PACKERS: [(&str, &str); 4] =
    [("dpkg-deb", "dpkg"), ("rpmbuild", "rpm"), ("tar", "tar"), ("readelf", "binutils")];
/// Compression of what is published, from 0 to 9.
const LEVEL: u32 = 9;

pub(crate) fn run(workspace: &Workspace, mut options: Options) -> Result<()> {
    let checks = options.flag("--check");
    options.end()?;
    let epoch = epoch(workspace)?;
    if checks {
        check::ensure_possible()?;
    }
    let release = make(workspace, epoch)?;
    if checks { check::check(workspace, &release, epoch) } else { Ok(()) }
}

/// What was made: the folder, the files in it, and of what they are made.
pub(crate) struct Release {
    folder: PathBuf,
    version: String,
}

/// Builds and packs everything.
fn make(workspace: &Workspace, epoch: u64) -> Result<Release> {
    for folder in [&workspace.root, &workspace.target, &build::cargo_home()] {
        check_folder(folder)?;
    }
    needs::python_environments()?;
    needs::ensure_here(&PACKERS)?;
    needs::ensure_here(&arch::ALL.each_ref().map(Arch::strip))?;
    let packing = Packing::new(workspace, epoch, LEVEL)?;
    let folder = empty(workspace.target.join("dist/out"))?;
    let tools = Tools::new(workspace, epoch)?;
    let build = |arch: &Arch| {
        let built = tools.build(arch)?;
        check_size(arch, fs::metadata(&built.program)?.len())?;
        Ok(built)
    };
    let built = arch::ALL.iter().map(build).collect::<Result<Vec<_>>>()?;
    let here = arch::ALL.iter().position(|arch| arch.rpm == std::env::consts::ARCH);
    let here =
        &built[here.context("the programs for this architecture are not among those that are built")?];
    println!(
        "iopj --help: {:.1} ms, median of {HELP_RUNS} runs",
        help_time(&here.program)?.as_secs_f64() * 1e3
    );
    let mut files = Vec::new();
    for (arch, built) in arch::ALL.iter().zip(&built) {
        let pack = || packing.pack(arch, built, &here.program, &folder);
        files.extend(shell::timed(&format!("packages for {}", arch.gnu), pack)?);
        files.push(tools.wheel(arch, built, &packing.version, &folder)?);
    }
    files.push(tools.sdist(&folder)?);
    packing.publish(&folder, files)?;
    println!("{}", folder.display());
    Ok(Release { folder, version: packing.version })
}

/// Refuses a folder in whose name a compiler, a linker, rpm or the shell's PATH would see two words.
fn check_folder(folder: &Path) -> Result<()> {
    let name = folder.to_string_lossy();
    let found = name.chars().find(|c| c.is_whitespace() || ",:%=\"'\\".contains(*c));
    match found {
        Some(found) => bail!(
            "the packages cannot be built in `{name}`, for tools would stumble over `{found}`: move the \
             repository, or set CARGO_TARGET_DIR"
        ),
        None => Ok(()),
    }
}

/// Refuses a program that has grown too large.
fn check_size(arch: &Arch, size: u64) -> Result<()> {
    let name = arch.gnu;
    println!("iopj for {name}: {:.1} MB, limit {:.0} MB", size as f64 / 1e6, SIZE_LIMIT as f64 / 1e6);
    ensure!(size <= SIZE_LIMIT, "iopj for {name} has {size} bytes, at most {SIZE_LIMIT} are allowed");
    Ok(())
}

/// What all packages of a release have in common.
pub(crate) struct Packing<'a> {
    workspace: &'a Workspace,
    version: String,
    /// What is new, version by version, in Markdown.
    changelog: String,
    epoch: u64,
    level: u32,
}

impl Packing<'_> {
    fn new(workspace: &Workspace, epoch: u64, level: u32) -> Result<Packing<'_>> {
        let version = workspace.metadata["packages"][0]["version"].as_str().context("no version")?.to_owned();
        let changelog = fs::read_to_string(workspace.root.join("CHANGELOG.md")).context("CHANGELOG.md")?;
        let date =
            shell::output(Command::new("date").args(["--utc", "--date", &format!("@{epoch}"), "+%F"]))?;
        let changelog = news::published(&changelog, &version, date.trim());
        Ok(Packing { workspace, version, changelog, epoch, level })
    }

    /// Makes all packages of an architecture in `out`; their names.
    fn pack(&self, arch: &Arch, built: &Built, runs_here: &Path, out: &Path) -> Result<Vec<String>> {
        let work = empty(out.with_extension("work"))?;
        let (workspace, version, epoch) = (self.workspace, self.version.as_str(), self.epoch);
        let graph = bill::Graph::read(workspace, arch)?;
        let crates = graph.linked("--package iopj --features parquet")?;
        let noticed = |words: &str, added| Notices::of(workspace, &graph.linked(words)?, added);
        let (program, library) = (
            noticed("--package iopj --package iopj-preload --features iopj/parquet", &built.of_program())?,
            noticed("--package iopj-ffi", &built.routines)?,
        );
        let notices = [&program, &library];
        let sources =
            Sources { workspace, version, runs_here, changelog: &self.changelog, notices: &program };
        let name = format!("iopj-{version}-{}", arch.gnu);
        let mut files = vec![format!("{name}.cdx.json")];
        fs::write(out.join(&files[0]), bill::cyclonedx("iopj", &crates, version, arch)?)?;

        let parts = sources.parts(built, &Layout::tarball())?;
        let all = parts.program.with(&parts.library).with(&parts.development);
        all.write(&work.join(&name))?;
        let tar = work.join("release.tar");
        tree::tar(&work, &name, epoch, &tar)?;
        files.push(format!("{name}.tar.gz"));
        fs::write(out.join(&files[1]), tree::gzip(&tree::read(&tar)?, self.level)?)?;

        let date = ["--utc", "--rfc-email", "--date", &format!("@{epoch}")];
        let date = shell::output(Command::new("date").args(date))?;
        let news = news::section(&self.changelog, version)?;
        let changelog = news::debian(news, version, deb::MAINTAINER, date.trim());
        let (root, level) = (workspace.root.as_path(), self.level);
        let changelogs = [changelog.as_str(), &self.changelog];
        let debian = deb::Debian { root, version, changelogs, notices, epoch, level };
        let parts = sources.parts(built, &Layout::debian(arch))?;
        files.extend(debian.make(arch, &parts, &work.join("deb"), out)?);

        let rpm = rpm::Rpm { root, version, notices, epoch, level };
        let parts = sources.parts(built, &Layout::rpm())?;
        files.extend(rpm.make(arch, &parts, &empty(work.join("rpm"))?, out)?);

        let work = empty(work.join("image"))?;
        files.push(image::Image { sources: &sources, arch, epoch, level }.make(
            &built.program,
            &work,
            out,
        )?);
        Ok(files)
    }

    /// Writes the notes of the release, and the checksums of all files.
    fn publish(&self, folder: &Path, mut files: Vec<String>) -> Result<()> {
        files.sort();
        let (notes, news) =
            (format!("iopj-{}-notes.md", self.version), news::section(&self.changelog, &self.version)?);
        fs::write(folder.join(&notes), news::notes(news, &self.version, &files))?;
        files.push(notes);
        let sums = tree::sha256(folder, files.iter().map(String::as_str))?;
        fs::write(folder.join("SHA256SUMS"), sums).context("SHA256SUMS")
    }
}

/// An empty folder.
fn empty(folder: PathBuf) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

/// The time that everything in the packages has: `SOURCE_DATE_EPOCH`, else that of the last commit.
fn epoch(workspace: &Workspace) -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => shell::output(&mut workspace.program("git", "log -1 --format=%ct"))
            .context("the packages need a time: set SOURCE_DATE_EPOCH, or build in a clone")?,
    };
    text.trim().parse().with_context(|| format!("SOURCE_DATE_EPOCH is no number of seconds: `{text}`"))
}

fn help_time(binary: &Path) -> Result<Duration> {
    let mut times = Vec::with_capacity(HELP_RUNS);
    for _ in 0..HELP_RUNS {
        let start = Instant::now();
        let text = shell::output(Command::new(binary).arg("--help"))?;
        times.push(start.elapsed());
        if text.is_empty() {
            bail!("`iopj --help` prints nothing");
        }
    }
    times.sort_unstable();
    Ok(times[HELP_RUNS / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_would_break_the_build_is_refused_at_once() {
        assert!(check_folder(Path::new("/home/me/iopj-0.2_x+y")).is_ok());
        for name in ["/home/my files", "/a,b", "/100%", "/a:b", "/a=b"] {
            let error = check_folder(Path::new(name)).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("CARGO_TARGET_DIR"), "{error}");
        }
    }

    #[test]
    fn the_program_of_every_architecture_has_a_limit() {
        for arch in &arch::ALL {
            assert!(check_size(arch, SIZE_LIMIT).is_ok());
            let error = check_size(arch, SIZE_LIMIT + 1).unwrap_err().to_string();
            assert!(error.contains(arch.gnu), "{error}");
        }
    }
}
