//! What a package holds, path by path; written to a folder, and packed as a tar with the same bytes each
//! time.

use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What stands at a path.
#[derive(Clone, Debug)]
enum Node {
    /// A file: its bytes and its mode.
    File(Vec<u8>, u32),
    /// A symbolic link: what it points to.
    Link(String),
    /// A folder that may be empty: its mode.
    Folder(u32),
}

/// Files, links and folders by their paths below a root.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree(BTreeMap<String, Node>);

impl Tree {
    pub(crate) fn file(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), Node::File(bytes.into(), 0o644));
    }

    pub(crate) fn program(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), Node::File(bytes.into(), 0o755));
    }

    pub(crate) fn link(&mut self, path: impl Into<String>, to: impl Into<String>) {
        self.0.insert(path.into(), Node::Link(to.into()));
    }

    pub(crate) fn folder(&mut self, path: impl Into<String>, mode: u32) {
        self.0.insert(path.into(), Node::Folder(mode));
    }

    /// Every file that the repository has below `folder`, put at `path`. Scripts stay programs.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn copy(&mut self, path: &str, workspace: &Workspace, folder: &str) -> Result<()> {
        for name in workspace.tracked(folder)? {
            let file = workspace.root.join(&name);
            let below = name.strip_prefix(folder).with_context(|| format!("{name} is not below {folder}"))?;
            let to = format!("{path}{below}");
            let bytes = read(&file)?;
            let is_program = fs::metadata(&file)?.permissions().mode() & 0o111 != 0;
            if is_program { self.program(to, bytes) } else { self.file(to, bytes) }
        }
        Ok(())
    }

    /// What both hold.
    pub(crate) fn with(mut self, other: &Tree) -> Tree {
        self.0.extend(other.0.clone());
        self
    }

    /// The paths of the files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, node)| matches!(node, Node::File(..))).map(|(path, _)| path.as_str())
    }

    /// Bytes of all files.
    pub(crate) fn size(&self) -> u64 {
        let size = |node: &Node| if let Node::File(bytes, _) = node { bytes.len() as u64 } else { 0 };
        self.0.values().map(size).sum()
    }

    /// Writes everything into a folder made for it; returns its path.
    ///
    /// # Errors
    /// The system's own.
    pub(crate) fn write(&self, root: &Path) -> Result<PathBuf> {
        if root.exists() {
            fs::remove_dir_all(root).with_context(|| root.display().to_string())?;
        }
        folder(root)?;
        for (path, node) in &self.0 {
            let to = root.join(path);
            parents(root, &to)?;
            match node {
                Node::File(bytes, mode) => {
                    fs::write(&to, bytes).with_context(|| to.display().to_string())?;
                    fs::set_permissions(&to, Permissions::from_mode(*mode))?;
                }
                Node::Link(target) => symlink(target, &to).with_context(|| to.display().to_string())?,
                Node::Folder(mode) => {
                    folder(&to)?;
                    fs::set_permissions(&to, Permissions::from_mode(*mode))?;
                }
            }
        }
        Ok(root.to_owned())
    }
}

/// Makes the folders between a root and a path. What the umask takes away is given back.
fn parents(root: &Path, path: &Path) -> Result<()> {
    let above: Vec<&Path> = path.ancestors().skip(1).take_while(|above| *above != root).collect();
    above.into_iter().rev().filter(|above| !above.exists()).try_for_each(folder)
}

fn folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| path.display().to_string())?;
    fs::set_permissions(path, Permissions::from_mode(0o755)).with_context(|| path.display().to_string())
}

/// Lets everybody read a file, whatever the umask.
///
/// # Errors
/// The system's own.
pub(crate) fn readable(path: &Path) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o644)).with_context(|| path.display().to_string())
}

/// The bytes of a file.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("{} cannot be read", path.display()))
}

/// `name` in `folder` and all below it, as a tar: sorted, root's, of one time.
///
/// # Errors
/// `tar`'s own.
pub(crate) fn tar(folder: &Path, name: &str, epoch: u64, to: &Path) -> Result<()> {
    let mut command = Command::new("tar");
    command.env_remove("TAR_OPTIONS");
    command.env("LC_ALL", "C").args(["--create", "--format=gnu", "--sort=name", "--numeric-owner"]);
    command.args(["--owner=0", "--group=0", &format!("--mtime=@{epoch}")]);
    shell::output(command.arg("--file").arg(to).arg("--directory").arg(folder).arg(name)).map(|_| ())
}

/// Compressed as gzip does it, without a name and a time; `level` is how much time to spend, from 0 to 9.
///
/// # Errors
/// None but those of memory.
pub(crate) fn gzip(bytes: &[u8], level: u32) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::new(level));
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// The SHA-256 of each of these files, as `sha256sum` lists them.
///
/// # Errors
/// `sha256sum`'s own.
pub(crate) fn sha256<'a>(folder: &Path, files: impl IntoIterator<Item = &'a str>) -> Result<String> {
    shell::output(Command::new("sha256sum").current_dir(folder).arg("--").args(files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_packed_to_the_same_bytes_from_two_folders() {
        let folder = tempfile::tempdir().unwrap();
        let mut tree = Tree::default();
        tree.program("usr/bin/b", "b");
        tree.file("usr/a", "a");
        tree.link("usr/bin/c", "b");
        tree.folder("data", 0o1777);
        let pack = |name: &str| {
            let root = tree.write(&folder.path().join(name)).unwrap();
            let tar_file = folder.path().join(format!("{name}.tar"));
            tar(&root, ".", 1_700_000_000, &tar_file).unwrap();
            gzip(&read(&tar_file).unwrap(), 9).unwrap()
        };
        assert_eq!(pack("one"), pack("another"));
        let list = Command::new("tar").args(["-tvf"]).arg(folder.path().join("one.tar")).output().unwrap();
        let list = String::from_utf8(list.stdout).unwrap();
        let names: Vec<&str> = list.lines().filter_map(|line| line.split(" ./").nth(1)).collect();
        assert_eq!(names, ["", "data/", "usr/", "usr/a", "usr/bin/", "usr/bin/b", "usr/bin/c -> b"]);
        assert!(list.contains("drwxrwxrwt 0/0") && list.contains("-rwxr-xr-x 0/0"), "{list}");
    }
}
