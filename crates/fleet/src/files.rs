//! Files of a campaign: each is whole or absent, and named so that any host's name can be one.

use crate::error::FleetError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Writes a file under another name, syncs it, and renames it.
///
/// # Errors
/// [`FleetError::Io`]; a file that was there stays as it was.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), FleetError> {
    let new = new_name(path);
    // Where root writes in a user's folder, a link may stand under any name that can be guessed.
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&new)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&new, path))
        .inspect_err(|_| drop(fs::remove_file(&new)))
        .map_err(FleetError::io("write", path))
}

/// The name of a file that is being written: nobody can guess it.
pub(crate) fn new_name(path: &Path) -> PathBuf {
    let mut random = [0; 8];
    // Up to 256 bytes come whole; without them the name is not new, and making the file fails.
    let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".new{:016x}", u64::from_ne_bytes(random)));
    name.into()
}

pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), FleetError> {
    let form = |source| FleetError::Form { path: path.to_owned(), source };
    let mut text = serde_json::to_string_pretty(value).map_err(form)?;
    text.push('\n');
    write(path, text.as_bytes())
}

/// The value in a file; `None` if there is no such file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, FleetError> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FleetError::io("read", path)(error)),
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| FleetError::Form { path: path.to_owned(), source }),
    }
}

pub(crate) fn make_folder(path: &Path) -> Result<(), FleetError> {
    // Whatever the umask leaves to others: what a campaign's folder says is run.
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o755).create(path).map_err(FleetError::io("make the folder", path))
}

/// A text as the name of a file: what is not plain is written as `%` and two digits for each byte.
pub(crate) fn name_of(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'-' | b'_' | b'@' | b':' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
        b'.' if !text.starts_with('.') => ".".to_owned(),
        other => format!("%{other:02x}"),
    };
    text.bytes().map(byte).collect()
}

/// Now, in ms since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64)
}

/// An empty folder that only its user may write, whatever the umask is: a campaign may be in it.
#[cfg(test)]
pub(crate) fn own_folder() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().expect("a folder")
}

/// False, and says so, where this process is not root.
#[cfg(test)]
pub(crate) fn is_root() -> bool {
    let is = rustix::process::geteuid().is_root();
    assert!(is || std::env::var("CI").as_deref() != Ok("true"), "needs root");
    if !is {
        eprintln!("skipped: needs root");
    }
    is
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leads_to_another_folder_and_no_two_texts_share_one() {
        assert_eq!(name_of("root@n1:22"), "root@n1:22");
        assert_eq!(name_of("../../etc"), "%2e%2e%2f%2e%2e%2fetc");
        assert_eq!([name_of("a b"), name_of("a%20b")], ["a%20b", "a%2520b"]);
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("there");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("file"), "").unwrap();
        let error = write(&path, b"x").unwrap_err().to_string();
        assert!(error.starts_with("cannot write `"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
