//! Small files of sysfs and procfs: reading one, writing one, and the names in a folder.

use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The text of a file without the white space around it.
pub(crate) fn read(file: &Path) -> io::Result<String> {
    fs::read_to_string(file).map(|text| text.trim().to_owned())
}

/// The current choice of a list such as `mq-deadline [none]`; text without brackets, trimmed.
pub(crate) fn chosen(text: &str) -> &str {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text, |(choice, _)| choice).trim()
}

/// Writes a file, never through a symbolic link in its place, and never makes one.
pub(crate) fn write(file: &Path, value: &str) -> io::Result<()> {
    let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
    // One write call: sysfs takes each write as a whole value.
    let mut open = OpenOptions::new().write(true).truncate(true).custom_flags(no_follow).open(file)?;
    open.write_all(value.as_bytes())
}

/// The names in a folder; none if there is no folder.
pub(crate) fn names_in(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

/// The entries `prefixN` of a folder by N; none if there is no folder.
pub(crate) fn numbered(folder: &Path, prefix: &str) -> io::Result<BTreeMap<u32, PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        entries => entries?,
    };
    let mut numbers = BTreeMap::new();
    for entry in entries {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| number(name, prefix));
        numbers.extend(number.map(|number| (number, entry.path())));
    }
    Ok(numbers)
}

/// N of the name `prefixN`.
pub(crate) fn number(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.parse().ok()
}
