//! Files of a campaign: each is whole or absent, and named so that any host's name can be one.

use crate::error::FleetError;
use rustix::fs::OFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// More than any file of a campaign has, in bytes: a study's text is in some.
const LONGEST: u64 = 32 << 20;

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
///
/// # Errors
/// It is a link, a pipe or a device, it is too long to be meant, or it holds something else.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, FleetError> {
    match open(path, OpenOptions::new().read(true)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FleetError::io("read", path)(error)),
        Ok(file) => value_of(file, path).map(Some),
    }
}

/// The value in a file of which only these users could have said what is in it; `None` if there is none.
///
/// # Errors
/// As for [`read_json`]; or it belongs to another user, or others may write it.
pub(crate) fn read_json_of<T: DeserializeOwned>(path: &Path, users: &[u32]) -> Result<Option<T>, FleetError> {
    let file = match open(path, OpenOptions::new().read(true)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(FleetError::io("read", path))?,
    };
    let found = file.metadata().map_err(FleetError::io("look at", path))?;
    let reason = match () {
        () if !users.contains(&found.uid()) => format!("belongs to user {}", found.uid()),
        () if found.mode() & 0o022 != 0 => "can be written by other users".to_owned(),
        () => return value_of(file, path).map(Some),
    };
    Err(FleetError::Refused(format!(
        "`{}` {reason}, who could have said in it what is run here: let whoever runs it submit it, in a \
         folder of their own that others cannot write",
        path.display()
    )))
}

/// The value in an open file.
pub(crate) fn value_of<T: DeserializeOwned>(file: File, path: &Path) -> Result<T, FleetError> {
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(FleetError::io("read", path))?;
    if bytes.len() as u64 > LONGEST {
        let error = io::Error::new(io::ErrorKind::FileTooLarge, "it is too long to be a campaign's");
        return Err(FleetError::io("read", path)(error));
    }
    serde_json::from_slice(&bytes).map_err(|source| FleetError::Form { path: path.to_owned(), source })
}

/// Opens a regular file without waiting: whoever may write in its folder may have put a link or a pipe there.
///
/// # Errors
/// It is something else, or it cannot be opened.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Before it is opened: opening a device may do something to it.
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => regular(&found?)?,
    }
    let careful = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = options.custom_flags(careful.bits().cast_signed()).open(path)?;
    // In between another may have come in its place.
    regular(&file.metadata()?)?;
    Ok(file)
}

fn regular(found: &Metadata) -> io::Result<()> {
    let kind = found.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_symlink() => "symbolic link",
        () if kind.is_dir() => "folder",
        () => "pipe, socket or device",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is a {what}, not a file: remove it")))
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

    /// Such a pipe was waited for, and all of such a device was read into memory.
    #[test]
    fn what_is_no_file_or_too_long_is_neither_waited_for_nor_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert_eq!(read_json::<u64>(&at("none")).unwrap(), None);
        write_json(&at("number"), &7_u64).unwrap();
        assert_eq!(read_json::<u64>(&at("number")).unwrap(), Some(7));
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), 0o600.into()).unwrap();
        std::os::unix::fs::symlink(at("number"), at("link")).unwrap();
        File::create(at("long")).unwrap().set_len(LONGEST + 1).unwrap();
        for (name, why) in [
            ("pipe", "it is a pipe, socket or device, not a file"),
            ("link", "it is a symbolic link, not a file"),
            (".", "it is a folder, not a file"),
            ("long", "it is too long to be a campaign's"),
        ] {
            let error = read_json::<u64>(&at(name)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            let opened = open(&at(name), File::options().create(true).truncate(false).write(true));
            assert_eq!(opened.is_ok(), name == "long", "{name}");
        }
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
