//! Source directories from a kernel's debug information, the file given as `--vmlinux`.

use super::ProfileError;
use addr2line::Loader;
use iopj_probe::Symbols;
use std::fmt;
use std::path::{Component, Path, PathBuf};

/// The debug information of the kernel that ran, for what is built into it.
pub struct DebugInfo {
    loader: Loader,
    /// The folder of the kernel's sources where it was built.
    tree: PathBuf,
}

/// A function that every kernel defines, and its file.
const LANDMARK: (&str, &str) = ("start_kernel", "init/main.c");

impl DebugInfo {
    /// Reads the debug information of the kernel that has these symbols. The file of `start_kernel` shows
    /// where the kernel was built, and whether it is the same kernel.
    pub fn open(vmlinux: &Path, symbols: &Symbols) -> Result<DebugInfo, ProfileError> {
        let unfit = |reason: String| ProfileError::DebugInfo { path: vmlinux.into(), reason };
        let loader = Loader::new(vmlinux).map_err(|error| unfit(error.to_string()))?;
        let (function, file) = LANDMARK;
        let address =
            symbols.address_of(function).ok_or_else(|| unfit(format!("the guest has no {function}")))?;
        let landmark = source_file(&loader, address)
            .ok_or_else(|| unfit(format!("it has no lines for {function}, at {address:#x} in the guest")))?;
        let tree = landmark.to_str().and_then(|path| path.strip_suffix(file)).map(PathBuf::from);
        let other = || {
            unfit(format!("at {function}'s address it has {}: it is another kernel's", landmark.display()))
        };
        Ok(DebugInfo { tree: tree.ok_or_else(other)?, loader })
    }

    /// The directory of the source file of the function at an address, relative to the kernel's sources and
    /// with a slash at its end, such as `block/`.
    pub fn directory(&self, address: u64) -> Option<String> {
        let file = source_file(&self.loader, address)?;
        let folder = file.strip_prefix(&self.tree).ok()?.parent()?;
        Some(format!("{}/", folder.to_str().filter(|folder| !folder.is_empty())?))
    }
}

impl fmt::Debug for DebugInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DebugInfo").field("tree", &self.tree).finish_non_exhaustive()
    }
}

/// The source file of the instruction at an address, without `.` and `..`.
fn source_file(loader: &Loader, address: u64) -> Option<PathBuf> {
    let location = loader.find_location(address).ok()??;
    let mut path = PathBuf::new();
    for component in Path::new(location.file?).components() {
        match component {
            Component::ParentDir if path.file_name().is_some() => {
                path.pop();
            }
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    Some(path)
}
