//! The C library of an image: this machine's own or, for another architecture, Debian's newest. Packages of
//! Debian for it are fetched by apt with settings and a state of its own.

use crate::dist::arch::Arch;
use crate::dist::empty;
use crate::workspace::Workspace;
use crate::{bare, shell};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's package of the C library.
const PACKAGE: &str = "libc6";
/// Whose signatures count, from Debian's package `debian-archive-keyring`.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A C library of Debian's.
pub(crate) struct Libc {
    /// The folder of its libraries.
    pub(crate) folder: PathBuf,
    /// Its package's file of copyrights.
    pub(crate) copyright: PathBuf,
    /// Package and version.
    pub(crate) name: String,
}

impl Libc {
    /// That for an architecture.
    ///
    /// # Errors
    /// apt's or dpkg's, or this is no Debian.
    pub(crate) fn of(workspace: &Workspace, arch: &Arch) -> Result<Libc> {
        if arch.rpm == std::env::consts::ARCH {
            let mut version = Command::new("dpkg-query");
            let version = version.args(["--show", "-f", "${Version}", PACKAGE]);
            return Libc::below(Path::new("/"), arch, &shell::output(version)?);
        }
        let (root, version) = extracted(workspace, PACKAGE, arch)?;
        Libc::below(&root, arch, &version)
    }

    fn below(root: &Path, arch: &Arch, version: &str) -> Result<Libc> {
        let folder = folder_of("libc.so.6", root, arch)?;
        let copyright = root.join("usr/share/doc").join(PACKAGE).join("copyright");
        Ok(Libc { folder, copyright, name: format!("{PACKAGE} {}", version.trim()) })
    }
}

/// The folder below a root that has this library: `usr/lib` from trixie on, `lib` before.
///
/// # Errors
/// The library is in neither.
pub(crate) fn folder_of(library: &str, root: &Path, arch: &Arch) -> Result<PathBuf> {
    let folders = ["usr/lib", "lib"].map(|folder| root.join(folder).join(arch.gnu));
    let folder = folders.into_iter().find(|folder| folder.join(library).exists());
    folder.with_context(|| format!("there is no {library} below {}", root.display()))
}

/// The files of Debian's package for an architecture, below a folder, and its version.
///
/// # Errors
/// apt's or dpkg's, or this is no Debian.
pub(crate) fn extracted(workspace: &Workspace, package: &str, arch: &Arch) -> Result<(PathBuf, String)> {
    let work = empty(workspace.target.join("dist/libc").join(format!("{package}-{}", arch.debian)))?;
    let file = download(&work, &sources(KEYS)?, package, arch.debian)?;
    let dpkg = |words: &[&str]| shell::output(Command::new("dpkg-deb").args(words));
    let (file, root) = (file.display().to_string(), work.join("root"));
    dpkg(&["--extract", &file, &root.display().to_string()])?;
    Ok((root, dpkg(&["--field", &file, "Version"])?))
}

/// Lines of apt's sources: those of Debian that this machine has, with this file of keys.
fn sources(keys: &str) -> Result<String> {
    let lines = bare::archives()?.into_iter();
    let lines = lines.map(|(place, suite)| format!("deb [signed-by={keys}] {place} {suite} main\n"));
    let lines: String = lines.collect();
    ensure!(
        !lines.is_empty(),
        "apt knows no archive of Debian: name one in /etc/apt, and run apt-get update"
    );
    Ok(lines)
}

/// Fetches a package for an architecture in the newest version that these sources have, signed as they ask;
/// the file. The machine's own architectures and lists stay as they are.
fn download(work: &Path, sources: &str, package: &str, arch: &str) -> Result<PathBuf> {
    let (state, cache) = (work.join("state"), work.join("cache"));
    fs::create_dir_all(state.join("lists/partial"))?;
    fs::create_dir_all(cache.join("archives/partial"))?;
    let (status, list) = (work.join("status"), work.join("sources.list"));
    fs::write(&status, "")?;
    fs::write(&list, sources)?;
    let settings = [
        format!("Dir::State={}", state.display()),
        format!("Dir::State::status={}", status.display()),
        format!("Dir::Cache={}", cache.display()),
        format!("Dir::Etc::sourcelist={}", list.display()),
        "Dir::Etc::sourceparts=/dev/null".to_owned(),
        format!("APT::Architecture={arch}"),
        format!("APT::Architectures={arch}"),
        "Acquire::Languages=none".to_owned(),
        // The user that apt would change to may not write below this folder.
        format!("APT::Sandbox::User={}", if rustix::process::geteuid().is_root() { "root" } else { "" }),
    ];
    let apt = |words: [&str; 2]| {
        let mut command = Command::new("apt-get");
        command.current_dir(work).env_remove("APT_CONFIG").env("LC_ALL", "C").arg("--quiet");
        command.args(settings.iter().map(|setting| format!("--option={setting}")));
        shell::output(command.args(words))
    };
    apt(["update", "--error-on=any"])?;
    apt(["download", &format!("{package}:{arch}")])?;
    crate::python::only(work, ".deb")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::arch::ALL;
    use crate::needs;
    use crate::tree::{self, Tree};

    /// A suite with `libc6` in one version, signed with the key in `keys`.
    fn suite(root: &Path, keys: &Path, name: &str, version: &str) {
        let arch = &ALL[1];
        let mut files = Tree::default();
        files.file(format!("lib/{}/libc.so.6", arch.gnu), version);
        files.file("usr/share/doc/libc6/copyright", "C");
        let control = format!(
            "Package: libc6\nVersion: {version}\nArchitecture: arm64\nMaintainer: m\nDescription: c\n"
        );
        files.file("DEBIAN/control", control.clone());
        let package = files.write(&root.join("package")).unwrap();
        let deb = format!("libc6_{version}_arm64.deb");
        shell::output(Command::new("dpkg-deb").arg("--build").arg(package).arg(root.join(&deb))).unwrap();
        let listed = |folder: &Path, file: &str| {
            let sum = tree::sha256(folder, [file]).unwrap();
            (sum.split(' ').next().unwrap().to_owned(), fs::metadata(folder.join(file)).unwrap().len())
        };
        let (sum, size) = listed(root, &deb);
        let dist = root.join("dists").join(name);
        fs::create_dir_all(dist.join("main/binary-arm64")).unwrap();
        let packages = format!("{control}Filename: {deb}\nSize: {size}\nSHA256: {sum}\n");
        fs::write(dist.join("main/binary-arm64/Packages"), packages).unwrap();
        let (sum, size) = listed(&dist, "main/binary-arm64/Packages");
        let release = format!(
            "Suite: {name}\nCodename: {name}\nComponents: main\nArchitectures: arm64\n\
             Date: Fri, 27 Nov 2015 00:00:00 UTC\nSHA256:\n {sum} {size} main/binary-arm64/Packages\n"
        );
        fs::write(dist.join("Release"), release).unwrap();
        gpg(keys, &["--clearsign", "--output"], &[&dist.join("InRelease"), &dist.join("Release")]);
    }

    fn gpg(home: &Path, words: &[&str], files: &[&Path]) {
        let mut command = Command::new("gpg");
        command.args(["--batch", "--quiet", "--passphrase", "", "--homedir"]).arg(home);
        shell::output(command.args(words).args(files)).unwrap();
    }

    /// A folder of gpg's with a key, and the file of its public part.
    fn keys(folder: &Path) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        gpg(folder, &["--quick-generate-key", "archive", "ed25519"], &[]);
        let file = folder.join("public.gpg");
        gpg(folder, &["--export", "--output"], &[&file]);
        file
    }

    /// Ends the agent that gpg starts for its folder, with the test.
    struct Agent<'a>(&'a Path);

    impl Drop for Agent<'_> {
        fn drop(&mut self) {
            let mut kill = Command::new("gpgconf");
            let is_killed = shell::succeeds(kill.arg("--homedir").arg(self.0).args(["--kill", "gpg-agent"]));
            // A second panic would hide the first, and end the other tests.
            assert!(is_killed || std::thread::panicking());
        }
    }

    #[test]
    fn arms_c_library_has_debians_security_fixes_and_its_signature() {
        let programs = ["gpg", "gpg-agent", "apt-get", "dpkg-deb"];
        if let Some(lacking) = programs.iter().find(|name| !needs::is_here(name)) {
            assert!(!shell::in_ci(), "{lacking} is missing");
            println!("skipped: needs {lacking}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (root, own) = (folder.path().join("archive"), folder.path().join("own"));
        fs::create_dir_all(&root).unwrap();
        let strange = folder.path().join("strange");
        let _agents = [Agent(&own), Agent(&strange)];
        let (key, strange) = (keys(&own), keys(&strange));
        suite(&root, &own, "stable", "1.0-1");
        suite(&root, &own, "stable-security", "1.0-1+fixed");
        let download = |name: &str, key: &Path| {
            let line =
                |suite| format!("deb [signed-by={}] file:{} {suite} main\n", key.display(), root.display());
            let work = empty(folder.path().join(name)).unwrap();
            let lines = line("stable") + &line("stable-security");
            super::download(&work, &lines, PACKAGE, "arm64")
        };
        let package = download("work", &key).unwrap();
        assert!(package.ends_with("libc6_1.0-1+fixed_arm64.deb"), "{}", package.display());
        let error = format!("{:#}", download("other", &strange).unwrap_err());
        assert!(error.contains("not signed") || error.contains("NO_PUBKEY"), "{error}");
    }

    #[test]
    fn sources_are_those_of_debian_alone() {
        if !needs::is_here("apt-get") {
            println!("skipped: needs apt-get");
            return;
        }
        let lines = sources("/keys").unwrap();
        assert!(lines.lines().all(|line| line.starts_with("deb [signed-by=/keys] ")), "{lines}");
    }
}
