//! Whether what was packed is sound: `cargo xtask dist --check`, and the short form of it among the tests.

use crate::dist::arch::Arch;
use crate::dist::build::Built;
use crate::dist::image::REFERENCE;
use crate::dist::{PACKERS, Packing, Release, deb, empty, epoch, install, wheel};
use crate::tree;
use crate::workspace::Workspace;
use crate::{instructions, needs, shell};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the checks need, with Debian's packages.
const TOOLS: [(&str, &str); 9] = [
    ("lintian", "lintian"),
    ("valgrind", "valgrind"),
    ("skopeo", "skopeo"),
    ("umoci", "umoci"),
    ("cpio", "cpio"),
    ("qemu-system-aarch64", "qemu-system-arm"),
    ("runc", "runc"),
    ("debootstrap", "debootstrap"),
    ("unshare", "util-linux"),
];

/// Makes sure of all that the checks need, before an hour of building.
///
/// # Errors
/// Something is missing, or this is not root.
pub(crate) fn ensure_possible() -> Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    ensure!(
        is_root,
        "the checks make bare systems and run a container: run `cargo xtask dist --check` as root"
    );
    needs::ensure_here(&TOOLS)
}

/// Checks a release: built elsewhere it has the same bytes; lintian finds nothing; no I/O takes more
/// instructions than the limits; packages install, work and go; the oldest glibc, an Arm guest and the image
/// run the program. Every check runs, even after one that has failed.
pub(crate) fn check(workspace: &Workspace, release: &Release, epoch: u64) -> Result<()> {
    let arch = install::this_arch()?;
    let checks: [(&str, &dyn Fn() -> Result<()>); 9] = [
        ("lintian", &|| lintian(&release.folder)),
        ("instructions", &|| instructions::check_shipped(workspace)),
        ("the RPM packages", &|| install::rpm(workspace, release)),
        ("the image", &|| install::image(workspace, release)),
        ("the Python package", &|| wheel::check(workspace, release, arch, "trixie")),
        ("an Arm guest", &|| install::guest(workspace, release, epoch)),
        ("Debian's releases", &|| install::debian(workspace, release, epoch)),
        ("cargo install", &|| install::cargo(workspace, release)),
        ("the same bytes from another folder", &|| built_elsewhere(workspace, release, epoch)),
    ];
    let tried = checks.iter().filter_map(|(name, check)| shell::timed(name, check).err());
    let failed: Vec<String> = tried.map(|error| format!("{error:#}")).collect();
    if failed.is_empty() { Ok(()) } else { bail!("the release is not sound\n  {}", failed.join("\n  ")) }
}

fn lintian(folder: &Path) -> Result<()> {
    let mut packages: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder)? {
        packages.push(entry?.path());
    }
    packages.retain(|path| path.extension().is_some_and(|extension| extension == "deb"));
    packages.sort();
    deb::lintian(&packages)
}

/// Copies the tracked sources to a folder of another name, builds everything there, and compares the
/// checksums.
fn built_elsewhere(workspace: &Workspace, release: &Release, epoch: u64) -> Result<()> {
    let folder = empty(workspace.target.join("dist/elsewhere/in-a-folder-with-a-longer-name"))?;
    workspace.copy_tracked(&folder)?;
    let mut make = Command::new("cargo");
    make.current_dir(&folder).args(["run", "--package", "xtask", "--", "dist"]);
    make.env("SOURCE_DATE_EPOCH", epoch.to_string()).env_remove("CARGO_TARGET_DIR");
    shell::step("the release, built in another folder", &mut make)?;
    let (here, elsewhere) = (sums(&release.folder)?, sums(&folder.join("target/dist/out"))?);
    let differ = differing(&here, &elsewhere);
    ensure!(differ.is_empty(), "these have other bytes when they are built elsewhere: {}", differ.join(", "));
    println!("all files have the same bytes");
    fs::remove_dir_all(&folder).context("the other folder")
}

fn sums(folder: &Path) -> Result<String> {
    fs::read_to_string(folder.join("SHA256SUMS")).with_context(|| folder.display().to_string())
}

/// The files that only one of two lists of checksums has, or that differ.
fn differing<'a>(one: &'a str, other: &'a str) -> Vec<&'a str> {
    let lacking =
        |list: &'a str, of: &'a str| list.lines().filter(move |line| !of.lines().any(|l| l == *line));
    let lines = lacking(one, other).chain(lacking(other, one));
    let mut names: Vec<&str> = lines.filter_map(|line| line.split_whitespace().nth(1)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The short form: packs the release build that the tests have made, twice, and looks into the packages.
pub(crate) fn check_packing(workspace: &Workspace) -> Result<()> {
    if let Some((program, _)) =
        PACKERS.iter().chain(&TOOLS[..1]).find(|(program, _)| !needs::is_here(program))
    {
        ensure!(!shell::in_ci(), "the packages need {program}");
        shell::skip(format!("the packages need {program}"));
        return Ok(());
    }
    let Ok(arch) = install::this_arch() else {
        shell::skip("the packages need one of the architectures that are packed".to_owned());
        return Ok(());
    };
    shell::timed("packages", || {
        let folder = empty(workspace.target.join("dist/tests"))?;
        let built = built_by_the_tests(workspace, arch, &folder)?;
        let packing = Packing::new(workspace, epoch(workspace)?, 0)?;
        let pack = |name: &str| {
            let out = empty(folder.join(name))?;
            let files = packing.pack(arch, &built, &built.program, &out)?;
            packing.publish(&out, files.clone())?;
            Ok::<_, anyhow::Error>((out, files))
        };
        let ((out, files), (again, _)) = (pack("one")?, pack("another")?);
        let (one, another) = (sums(&out)?, sums(&again)?);
        let differ = differing(&one, &another).join(", ");
        ensure!(differ.is_empty(), "these have other bytes when they are packed again: {differ}");
        looked_into(&out, &files)?;
        lintian(&out)?;
        fs::remove_dir_all(&folder).context("the packages of the tests")
    })
}

/// What the gate has built anyway; the program is stripped, as a package has it.
fn built_by_the_tests(workspace: &Workspace, arch: &Arch, folder: &Path) -> Result<Built> {
    let strip = |from: PathBuf, name: &str| {
        let to = folder.join(name);
        shell::output(Command::new(arch.strip().0).arg("-o").arg(&to).arg(from))?;
        Ok::<_, anyhow::Error>(to)
    };
    let library = folder.join("library");
    fs::create_dir_all(&library)?;
    for name in [crate::ffi::SONAME, "libiopj.a"] {
        fs::copy(workspace.target.join("ffi").join(name), library.join(name)).context(name)?;
    }
    shell::output(Command::new(arch.strip().0).arg("--strip-debug").arg(library.join("libiopj.a")))?;
    Ok(Built {
        program: strip(workspace.target.join("release/iopj"), "iopj")?,
        preload: strip(workspace.target.join("debug/deps/libiopj_preload.so"), "libiopj_preload.so")?,
        library,
        // The compiler here is the machine's own, whose licence asks for no notice.
        routines: Vec::new(),
        unwinder: Vec::new(),
    })
}

/// Whether each file has what it should: the program in the package and the tarball, sorted names, a bill of
/// materials that can be read, an image whose blobs are what their names say.
fn looked_into(out: &Path, files: &[String]) -> Result<()> {
    for file in files {
        let path = out.join(file);
        let listed =
            |program: &str, words: &[&str]| shell::output(Command::new(program).args(words).arg(&path));
        if file.ends_with(".deb") {
            let contents = listed("dpkg-deb", &["--contents"])?;
            let foreign: Vec<&str> = contents.lines().filter(|line| !line.contains(" root/root ")).collect();
            ensure!(foreign.is_empty(), "{file} has files that are not root's: {}", foreign.join("; "));
            let active = ["/etc/", "/systemd/", "/udev/"].iter().find(|part| contents.contains(**part));
            ensure!(active.is_none(), "{file} enables something: {active:?}");
            let notices = ["/copyright\n", "/COPYRIGHT-library.html.gz\n"];
            ensure!(notices.iter().all(|name| contents.contains(name)), "{file} lacks notices");
        } else if file.ends_with(".tar.gz") {
            let names = listed("tar", &["--list", "--file"])?;
            ensure!(names.lines().is_sorted(), "the names in {file} are not sorted");
            ensure!(names.contains("/bin/iopj\n") && names.contains("/LICENSE-MIT\n"), "{file} lacks files");
        } else if file.ends_with(".cdx.json") {
            let bill: Value = serde_json::from_slice(&tree::read(&path)?)?;
            let crates = bill["components"].as_array().map_or(0, Vec::len);
            ensure!(crates > 100, "{file} has {crates} crates");
        } else if file.ends_with(".oci.tar") {
            blobs(&path, &out.join("unpacked"))?;
        } else if file.ends_with(".rpm") {
            let names = listed("rpm", &["-qlp"])?;
            let has_notices = names.contains("/usr/share/licenses/") && names.contains("/crates.txt\n");
            ensure!(has_notices, "{file} lacks notices: {names}");
        }
    }
    Ok(())
}

/// Whether each blob of an image is what its name says, and the image has a name.
fn blobs(image: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    shell::output(Command::new("tar").arg("--extract").arg("--file").arg(image).arg("-C").arg(folder))?;
    let index: Value = serde_json::from_slice(&tree::read(&folder.join("index.json"))?)?;
    let name = index["manifests"][0]["annotations"][REFERENCE].as_str().unwrap_or_default();
    ensure!(name.starts_with("iopj:"), "{} would be loaded as `{name}`", image.display());
    let blobs = folder.join("blobs/sha256");
    let mut names = Vec::new();
    for entry in fs::read_dir(&blobs)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    let sums = tree::sha256(&blobs, names.iter().map(String::as_str))?;
    let wrong = sums.lines().find(|line| line.split("  ").next() != line.split("  ").nth(1));
    ensure!(names.len() == 3 && wrong.is_none(), "{} blobs, of which is wrong: {wrong:?}", names.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_differ_or_are_missing_are_named() {
        let (one, other) = ("a1  x\nb1  y\n", "a1  x\nb2  y\nc1  z\n");
        assert_eq!(differing(one, other), ["y", "z"]);
        assert_eq!(differing(one, one), [""; 0]);
    }
}
