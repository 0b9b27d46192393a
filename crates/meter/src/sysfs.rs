//! Reading the small files of `/proc` and `/sys`.

use std::fs;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;
use std::str::FromStr;

/// The text of a file, without the spaces around it. Names of devices need not be UTF-8.
pub(crate) fn text(path: &Path) -> Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).trim().to_owned())
}

/// A value of up to 63 bytes. A single read is enough, and cheap: sysfs gives a value whole.
pub(crate) fn value(path: &Path) -> Result<String> {
    let mut buffer = [0; 64];
    let length = fs::File::open(path)?.read(&mut buffer)?;
    if length == buffer.len() {
        return Err(Error::new(ErrorKind::InvalidData, "it holds more than a value"));
    }
    Ok(String::from_utf8_lossy(&buffer[..length]).trim().to_owned())
}

/// The number in a file.
pub(crate) fn number<T: FromStr>(path: &Path) -> Result<T> {
    let text = value(path)?;
    text.parse().map_err(|_| {
        Error::new(ErrorKind::InvalidData, format!("it holds `{}`, no number", text.escape_debug()))
    })
}

/// The names in a directory, sorted; none if it cannot be listed.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Whether Linux runs in a virtual machine: x86 says so in the processor's flags.
pub(crate) fn virtual_machine(root: &Path) -> bool {
    let flags = text(&root.join("proc/cpuinfo")).unwrap_or_default();
    flags
        .lines()
        .any(|line| line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor"))
}

#[cfg(test)]
pub(crate) mod fixture {
    //! A tree of files in a temporary directory, as `/sys` has them.

    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};

    pub(crate) struct Tree(tempfile::TempDir);

    impl Tree {
        pub(crate) fn new(files: &[(&str, &str)]) -> Self {
            // Where every user can reach it: one test does not stay root.
            let tree = Self(tempfile::tempdir_in("/var/tmp").unwrap());
            fs::set_permissions(tree.root(), fs::Permissions::from_mode(0o755)).unwrap();
            for (path, text) in files {
                tree.write(path, text);
            }
            tree
        }

        pub(crate) fn root(&self) -> &Path {
            self.0.path()
        }

        pub(crate) fn path(&self, path: &str) -> PathBuf {
            self.root().join(path)
        }

        /// Sysfs ends each value with a line feed.
        pub(crate) fn write(&self, path: &str, text: &str) {
            let path = self.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::Tree;
    use super::*;

    #[test]
    fn a_number_is_read_or_the_text_that_is_none() {
        let tree = Tree::new(&[("good", "18446744073709551615"), ("bad", "unk\u{7}nown")]);
        assert_eq!(number::<u64>(&tree.path("good")).unwrap(), u64::MAX);
        assert_eq!(
            number::<u64>(&tree.path("bad")).unwrap_err().to_string(),
            "it holds `unk\\u{7}nown`, no number"
        );
        tree.write("long", &"1".repeat(63));
        assert_eq!(number::<u64>(&tree.path("long")).unwrap_err().to_string(), "it holds more than a value");
        assert_eq!(number::<u64>(&tree.path("none")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(names(tree.root()), ["bad", "good", "long"]);
    }

    #[test]
    fn a_virtual_machine_has_the_flag() {
        assert!(virtual_machine(
            Tree::new(&[("proc/cpuinfo", "vendor_id : X\nflags\t: fpu hypervisor lm")]).root()
        ));
        assert!(!virtual_machine(
            Tree::new(&[("proc/cpuinfo", "model name: hypervisor\nflags\t: fpu lm")]).root()
        ));
        assert!(!virtual_machine(Tree::new(&[]).root()));
    }
}
