//! Reading the small files of `/proc` and `/sys`, below a root that tests can replace.

use crate::error::ProbeError;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The directory that holds `proc` and `sys`.
#[derive(Clone, Debug)]
pub(crate) struct Root(PathBuf);

impl Root {
    /// The root, canonical, because resolved links below it are compared with it.
    pub(crate) fn new(root: &Path) -> Result<Root, ProbeError> {
        fs::canonicalize(root).map(Root).map_err(|source| ProbeError::Read { path: root.to_owned(), source })
    }

    /// The place of `below`, such as `sys/block`.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.0.join(below)
    }

    /// The text of the file `below` the root.
    pub(crate) fn text(&self, below: &str) -> Result<String, ProbeError> {
        text(&self.path(below))
    }
}

/// The text of a file. Names of threads need not be UTF-8.
pub(crate) fn text(path: &Path) -> Result<String, ProbeError> {
    let bytes = fs::read(path).map_err(|source| ProbeError::Read { path: path.to_owned(), source })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text of a file that may be absent, or whose thread has just ended.
pub(crate) fn text_if_there(path: &Path) -> Result<Option<String>, ProbeError> {
    match text(path) {
        Err(ProbeError::Read { source, .. })
            if source.kind() == ErrorKind::NotFound || source.raw_os_error() == Some(libc::ESRCH) =>
        {
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// True for a name made of `stem` and a number: `cpu12` of `cpu`, not `cpuidle`.
pub(crate) fn is_numbered(name: &str, stem: &str) -> bool {
    name.strip_prefix(stem)
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The names in a directory, sorted; none if it cannot be listed.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
