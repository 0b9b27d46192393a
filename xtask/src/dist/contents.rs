//! What the packages hold, and where: the program, the library, and what is needed to build with it.

use crate::dist::arch::Arch;
use crate::dist::build::Built;
use crate::dist::notices::Notices;
use crate::tree::{Tree, gzip, read};
use crate::workspace::Workspace;
use crate::{ffi, shell};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Shells with completions, and where each looks for them below `share`.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/iopj"),
    ("zsh", "zsh/site-functions/_iopj"),
    ("fish", "fish/vendor_completions.d/iopj.fish"),
];
/// Folders of the repository whose files come as they are, and where below `share`.
const FOLDERS: [(&str, &str); 5] = [
    ("studies", "iopj/studies"),
    ("queries", "iopj/queries"),
    ("packaging/slurm", "iopj/slurm"),
    ("packaging/kubernetes", "iopj/kubernetes"),
    ("packaging/grafana", "iopj/grafana"),
];
/// What is compressed in packages.
const MANUAL: &str = "man/man1";

/// Where a kind of package puts things.
pub(crate) struct Layout {
    /// What all paths begin with: `usr/` or nothing.
    pub(crate) prefix: &'static str,
    /// The folder of libraries, below it.
    pub(crate) libraries: String,
    /// Whether the user may unpack it wherever they like; if not, manual pages are compressed.
    pub(crate) is_movable: bool,
}

impl Layout {
    /// A tarball, to be unpacked anywhere.
    pub(crate) fn tarball() -> Layout {
        Layout { prefix: "", libraries: "lib".to_owned(), is_movable: true }
    }

    /// Debian's, with a folder for each architecture.
    pub(crate) fn debian(arch: &Arch) -> Layout {
        Layout { prefix: "usr/", libraries: format!("lib/{}", arch.gnu), is_movable: false }
    }

    /// That of distributions with RPM.
    pub(crate) fn rpm() -> Layout {
        Layout { prefix: "usr/", libraries: "lib64".to_owned(), is_movable: false }
    }
}

/// The parts, by what a user needs them for.
pub(crate) struct Parts {
    /// The program, with all that belongs to it.
    pub(crate) program: Tree,
    /// The shared library.
    pub(crate) library: Tree,
    /// Header, static library, and what finds them.
    pub(crate) development: Tree,
}

/// What does not depend on the kind of package.
pub(crate) struct Sources<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) version: &'a str,
    /// A program that runs here: it writes manual pages and completions.
    pub(crate) runs_here: &'a Path,
    /// What is new, version by version.
    pub(crate) changelog: &'a str,
    /// The notices of what the program is linked of.
    pub(crate) notices: &'a Notices,
}

impl Sources<'_> {
    /// The parts for one kind of package.
    ///
    /// # Errors
    /// A file cannot be read, or the program cannot be run.
    pub(crate) fn parts(&self, built: &Built, layout: &Layout) -> Result<Parts> {
        let Layout { prefix, libraries, .. } = layout;
        let mut library = Tree::default();
        let shared = read(&built.library.join(ffi::SONAME))?;
        library.file(format!("{prefix}{libraries}/{}", ffi::SONAME), shared);
        let mut development = Tree::default();
        let header = read(&self.workspace.root.join(ffi::CRATE).join("include/iopj.h"))?;
        development.file(format!("{prefix}include/iopj.h"), header);
        let archive = read(&built.library.join("libiopj.a"))?;
        development.file(format!("{prefix}{libraries}/libiopj.a"), archive);
        development.link(format!("{prefix}{libraries}/libiopj.so"), ffi::SONAME);
        let root = if layout.is_movable { "${pcfiledir}/../.." } else { "/usr" };
        let (headers, folder) = ("${prefix}/include", format!("${{prefix}}/{libraries}"));
        let found = ffi::pkg_config(self.version, root, headers, &folder);
        development.file(format!("{prefix}{libraries}/pkgconfig/iopj.pc"), found);
        let example = read(&self.workspace.root.join(ffi::CRATE).join("examples/read.c"))?;
        let place = if layout.is_movable { "iopj" } else { "libiopj-dev" };
        development.file(format!("{prefix}share/doc/{place}/examples/read.c"), example);
        Ok(Parts { program: self.program(built, layout)?, library, development })
    }

    fn program(&self, built: &Built, layout: &Layout) -> Result<Tree> {
        let Layout { prefix, libraries, .. } = layout;
        let mut tree = Tree::default();
        tree.program(format!("{prefix}bin/iopj"), read(&built.program)?);
        tree.file(format!("{prefix}{libraries}/iopj/libiopj_preload.so"), read(&built.preload)?);
        let share = format!("{prefix}share");
        for (shell_name, path) in SHELLS {
            let script = shell::output(Command::new(self.runs_here).args(["completions", shell_name]))?;
            tree.file(format!("{share}/{path}"), script);
        }
        self.manual(&mut tree, &format!("{share}/{MANUAL}"), layout)?;
        for (folder, path) in FOLDERS {
            tree.copy(&format!("{share}/{path}"), self.workspace, folder)?;
        }
        let root = |name: &str| read(&self.workspace.root.join(name));
        tree.file(format!("{share}/doc/iopj/README.md"), root("README.md")?);
        tree.file(format!("{share}/doc/iopj/examples/60-iopj.rules"), root("packaging/udev/60-iopj.rules")?);
        if layout.is_movable {
            tree = tree.with(&self.notices.files(&format!("{share}/doc/iopj")));
            tree.file(format!("{share}/doc/iopj/CHANGELOG.md"), self.changelog);
        }
        Ok(tree)
    }

    fn manual(&self, tree: &mut Tree, path: &str, layout: &Layout) -> Result<()> {
        let folder = self.workspace.target.join("dist/manual");
        if folder.exists() {
            fs::remove_dir_all(&folder).context("manual pages")?;
        }
        shell::output(Command::new(self.runs_here).arg("man").arg(&folder))?;
        for page in fs::read_dir(&folder)? {
            let page = page?;
            let name = page.file_name().to_string_lossy().into_owned();
            let text = read(&page.path())?;
            if layout.is_movable {
                tree.file(format!("{path}/{name}"), text);
            } else {
                tree.file(format!("{path}/{name}.gz"), gzip(&text, 9)?);
            }
        }
        Ok(())
    }
}
