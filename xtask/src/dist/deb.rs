//! The Debian packages `iopj`, `libiopj0` and `libiopj-dev`: made by `dpkg-deb` alone, because nothing is
//! left for debhelper to build, and it would need each architecture's own tools.

use crate::dist::arch::{Arch, GLIBC};
use crate::dist::contents::Parts;
use crate::dist::news::REVISION;
use crate::dist::notices::Notices;
use crate::tree::{Tree, gzip, read};
use crate::{ffi, shell};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whom a package names as the one to write to. The address is of a domain that nobody can have: whoever
/// publishes the packages puts in their own.
pub(crate) const MAINTAINER: &str = "The iopj authors <iopj@example.org>";

/// What all packages are made of, but for their contents.
pub(crate) struct Debian<'a> {
    pub(crate) root: &'a Path,
    pub(crate) version: &'a str,
    /// Debian's changelog, and iopj's own.
    pub(crate) changelogs: [&'a str; 2],
    /// The notices of what the program, and the library, are linked of.
    pub(crate) notices: [&'a Notices; 2],
    pub(crate) epoch: u64,
    /// How much time to spend on compression, from 0 to 9.
    pub(crate) level: u32,
}

impl Debian<'_> {
    /// Makes the packages of an architecture in `out`, with `work` for what is in between; their names.
    ///
    /// # Errors
    /// dpkg-deb's own, or the packaging files are not as they should be.
    pub(crate) fn make(&self, arch: &Arch, parts: &Parts, work: &Path, out: &Path) -> Result<Vec<String>> {
        let control = fs::read_to_string(self.root.join("packaging/deb/control")).context("control")?;
        let named =
            [("iopj", &parts.program), ("libiopj0", &parts.library), ("libiopj-dev", &parts.development)];
        let make = |(name, tree): (&str, &Tree)| {
            let fields = control.split("\n\n").find(|fields| field(fields, "Package") == Some(name));
            let fields = fields.with_context(|| format!("packaging/deb/control has no package {name}"))?;
            self.package(arch, name, fields, tree, &work.join(name), out)
        };
        named.into_iter().map(make).collect()
    }

    fn package(
        &self,
        arch: &Arch,
        name: &str,
        fields: &str,
        tree: &Tree,
        work: &Path,
        out: &Path,
    ) -> Result<String> {
        let tree = self.documented(name, tree.clone())?;
        let folder = tree.write(work)?;
        // What follows is for dpkg alone, so it is not in the list of what is installed.
        let mut all = tree.clone();
        let size = tree.size().div_ceil(1024).to_string();
        let full = format!("{}-{REVISION}", self.version);
        let values = [
            ("@VERSION@", full.as_str()),
            ("@ARCHITECTURE@", arch.debian),
            ("@MAINTAINER@", MAINTAINER),
            ("@SIZE@", &size),
            ("@GLIBC@", GLIBC),
        ];
        let fill = |text: String, (name, value): &(&str, &str)| text.replace(name, value);
        let fields = values.iter().fold(fields.trim().to_owned(), fill);
        all.file("DEBIAN/control", fields + "\n");
        let mut sums = Command::new("md5sum");
        sums.current_dir(&folder).arg("--").args(tree.files());
        all.file("DEBIAN/md5sums", shell::output(&mut sums)?);
        if name == "libiopj0" {
            all.file("DEBIAN/shlibs", format!("libiopj 0 libiopj0 (>= {})\n", self.version));
            all.file("DEBIAN/symbols", self.symbols()?);
            all.file("DEBIAN/triggers", "activate-noawait ldconfig\n");
        }
        let file = format!("{name}_{full}_{}.deb", arch.debian);
        all.write(&folder)?;
        let mut pack = Command::new("dpkg-deb");
        pack.env("SOURCE_DATE_EPOCH", self.epoch.to_string());
        // Several threads would compress by parts, to other bytes.
        pack.args(["--root-owner-group", "-Zxz", &format!("-z{}", self.level), "--threads-max=1", "--build"]);
        shell::output(pack.arg(&folder).arg(out.join(&file)))?;
        Ok(file)
    }

    /// With what Debian's policy asks of each package.
    fn documented(&self, name: &str, mut tree: Tree) -> Result<Tree> {
        let doc = format!("usr/share/doc/{name}");
        tree.file(format!("{doc}/changelog.Debian.gz"), gzip(self.changelogs[0].as_bytes(), 9)?);
        tree.file(format!("{doc}/changelog.gz"), gzip(self.changelogs[1].as_bytes(), 9)?);
        let head = fs::read_to_string(self.root.join("packaging/deb/copyright.head"))?;
        let [program, library] = self.notices;
        let notices = if name == "iopj" { program } else { library };
        let mut tree = tree.with(&notices.debian(&head, &doc)?);
        let overrides = self.root.join(format!("packaging/deb/{name}.lintian-overrides"));
        if overrides.exists() {
            tree.file(format!("usr/share/lintian/overrides/{name}"), read(&overrides)?);
        }
        Ok(tree)
    }

    /// The functions with the version from which on each is there, as dpkg-shlibdeps reads them.
    fn symbols(&self) -> Result<String> {
        let header = self.root.join(ffi::CRATE).join("include/iopj.h");
        let header = fs::read_to_string(&header).with_context(|| header.display().to_string())?;
        let mut names: Vec<String> =
            ffi::functions(&header).iter().map(|name| name.replace("@@", "@")).collect();
        names.push(format!("{0}@{0}", ffi::VERSION));
        names.sort();
        let lines = names.iter().map(|name| format!(" {name} {}\n", self.version));
        Ok(format!("{} libiopj0 #MINVER#\n{}", ffi::SONAME, lines.collect::<String>()))
    }
}

/// The value of a field of a control file.
fn field<'a>(fields: &'a str, name: &str) -> Option<&'a str> {
    fields.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

/// What lintian finds in these packages, with warnings; nothing may be found.
///
/// # Errors
/// Something was found.
pub(crate) fn lintian(packages: &[PathBuf]) -> Result<()> {
    let mut command = Command::new("lintian");
    command.args(["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"]);
    shell::step("lintian", command.args(packages))
}
