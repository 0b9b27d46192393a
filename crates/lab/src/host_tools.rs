//! Programs of the host that the lab runs: where they are, and which are missing.

use std::env;
use std::path::PathBuf;

/// A program and the Debian package that holds it.
pub(crate) type Tool = (&'static str, &'static str);

/// The file of this name in the folders of `$PATH`, and in those of system programs, which users' search
/// paths often leave out.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/bin", "/bin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Those of these programs that are not installed.
pub(crate) fn missing(tools: &[Tool]) -> Vec<Tool> {
    tools.iter().copied().filter(|(tool, _)| find(tool).is_none()).collect()
}
