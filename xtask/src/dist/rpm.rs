//! The RPM packages `iopj`, `libiopj0` and `libiopj-devel`, made by `rpmbuild`, which also finds out what
//! they need.

use crate::dist::arch::Arch;
use crate::dist::contents::Parts;
use crate::dist::news::REVISION;
use crate::dist::notices::Notices;
use crate::shell;
use crate::tree::Tree;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The packages, and whether each has what is linked into the library.
const LICENSED: [(&str, bool); 3] = [("iopj", false), ("libiopj0", true), ("libiopj-devel", true)];

/// What all packages are made of, but for their contents.
pub(crate) struct Rpm<'a> {
    pub(crate) root: &'a Path,
    pub(crate) version: &'a str,
    /// The notices of what the program, and the library, are linked of.
    pub(crate) notices: [&'a Notices; 2],
    pub(crate) epoch: u64,
    /// How much time to spend on compression, from 0 to 9.
    pub(crate) level: u32,
}

impl Rpm<'_> {
    /// Makes the packages of an architecture in `out`, with `work` for what is in between; their names.
    ///
    /// # Errors
    /// rpmbuild's own.
    pub(crate) fn make(&self, arch: &Arch, parts: &Parts, work: &Path, out: &Path) -> Result<Vec<String>> {
        let all = parts.program.clone().with(&parts.library).with(&parts.development);
        let [program, library] = self.notices;
        let licences = LICENSED.map(|(name, is_library)| {
            let notices = if is_library { library } else { program };
            notices.files(&format!("usr/share/licenses/{name}"))
        });
        let all = licences.iter().fold(all, Tree::with);
        let stage = all.write(&work.join("stage"))?;
        // rpm keeps the time of each file, though none that is later than SOURCE_DATE_EPOCH.
        let packed = work.join("packed");
        let mut build = Command::new("rpmbuild");
        build.env("SOURCE_DATE_EPOCH", self.epoch.to_string()).env("LC_ALL", "C").env("TZ", "UTC");
        // Without the builder's own macros, such as a vendor.
        build.env("HOME", work);
        build.args(["-bb", "--quiet", "--target", &format!("{}-linux", arch.rpm)]);
        let folder = |path: &Path| path.display().to_string();
        let values = [
            ("_topdir", folder(work)),
            ("_rpmdir", folder(&packed)),
            ("_rpmfilename", "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm".to_owned()),
            ("iopj_stage", folder(&stage)),
            ("iopj_version", self.version.to_owned()),
            ("iopj_revision", REVISION.to_owned()),
            ("iopj_level", self.level.to_string()),
        ];
        for (name, value) in values {
            build.args(["--define", &format!("{name} {value}")]);
        }
        shell::output(build.arg(self.root.join("packaging/rpm/iopj.spec")))?;
        LICENSED.iter().map(|(name, _)| self.take(arch, name, &packed, out)).collect()
    }

    fn take(&self, arch: &Arch, name: &str, packed: &Path, out: &Path) -> Result<String> {
        let file = format!("{name}-{}-{REVISION}.{}.rpm", self.version, arch.rpm);
        fs::copy(packed.join(&file), out.join(&file)).with_context(|| file.clone())?;
        Ok(file)
    }
}
