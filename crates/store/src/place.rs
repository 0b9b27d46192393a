//! The place of a new store.

use crate::error::StoreError;
use std::path::{Path, PathBuf};

/// The path of a new store: the one that was named, or the study's name in the current folder.
///
/// # Errors
/// The file is there, its folder is not, or no name is free.
pub fn new_path(study: &str, named: Option<&Path>) -> Result<PathBuf, StoreError> {
    let folder_of = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.unwrap_or(Path::new(".")).to_owned()
    };
    match named {
        Some(path) if path.exists() => Err(StoreError::Exists(path.to_owned())),
        Some(path) if !folder_of(path).is_dir() => {
            Err(StoreError::NoFolder { store: path.to_owned(), folder: folder_of(path) })
        }
        Some(path) => Ok(path.to_owned()),
        None => {
            let free = |number: u32| {
                let name =
                    if number == 1 { format!("{study}.iopj") } else { format!("{study}-{number}.iopj") };
                Some(PathBuf::from(name)).filter(|path| !path.exists())
            };
            (1..10_000).find_map(free).ok_or(StoreError::NoFreeName)
        }
    }
}
