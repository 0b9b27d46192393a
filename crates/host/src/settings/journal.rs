//! The journal of one run: its file, its lines, and reading them after the run's death.

use super::allowed::is_device_name;
use super::controller::Serial;
use super::error::SettingsError;
use super::files::{self, Locked};
use super::item::Item;
use crate::sysfs;
use iopj_engine::PciAddress;
use rustix::time::{ClockId, clock_gettime};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

const VERSION: u32 = 1;

/// One change of a setting, as the journal and the store keep it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The file, relative to the root of sysfs.
    pub file: String,
    /// The value before the change.
    pub old: String,
    /// The value that the run gave it.
    pub new: String,
}

/// The first line of a journal: which run, in which boot, on which drives.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) iopj_journal: u32,
    pub(super) boot_id: String,
    pub(super) pid: u32,
    /// When the journal was begun, in ns since the boot (CLOCK_BOOTTIME): the order in which journals are
    /// undone.
    pub(super) begun_ns: u64,
    pub(super) devices: Vec<Drive>,
}

impl Header {
    /// The header of a new journal of this process.
    pub(super) fn new(boot_id: String, devices: Vec<Drive>) -> Header {
        let now = clock_gettime(ClockId::Boottime);
        let begun_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        Header { iopj_journal: VERSION, boot_id, pid: std::process::id(), begun_ns, devices }
    }
}

/// A device's name and the serial of the drive that bears it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Drive {
    pub(super) name: String,
    pub(super) serial: Option<String>,
}

impl Drive {
    /// What distinguishes this drive from another one of the same name: its serial if sysfs shows one, else
    /// the driver's identifier. Loop devices, zram and the like have none.
    pub(super) fn read(sys: &Path, name: &str) -> Drive {
        Drive { name: name.to_owned(), serial: serial(&sys.join("block").join(name)) }
    }
}

/// What distinguishes the drive of this folder in sysfs from others, as far as sysfs shows it.
pub(crate) fn serial(folder: &Path) -> Option<String> {
    ["device/serial", "serial", "device/wwid", "wwid", "dm/uuid", "md/uuid"]
        .iter()
        .filter_map(|file| sysfs::read(&folder.join(file)).ok())
        .find(|text| !text.is_empty())
}

/// The open journal of a live run. Its lock (flock) says that the run lives.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: Locked,
    length: u64,
}

impl Journal {
    /// Makes a journal. It gets its name only when it is locked and its header is synced, so a journal that
    /// is not locked has the whole header of a dead run.
    pub(super) fn create(folder: &Path, header: &Header) -> Result<Journal, SettingsError> {
        let path = folder.join(format!("journal-{}-{}.jsonl", header.pid, header.begun_ns));
        let unnamed = path.with_extension("new");
        let file = files::open_private(&unnamed, OpenOptions::new().create_new(true))
            .map_err(SettingsError::io("make", &unnamed))?;
        let locked = Locked::take(file).map_err(SettingsError::io("lock", &unnamed))?;
        let Some(file) = locked else {
            return Err(SettingsError::Locked { device: unnamed.display().to_string(), pid: None });
        };
        let mut journal = Journal { path, file, length: 0 };
        journal.append(header)?;
        fs::rename(&unnamed, &journal.path).map_err(SettingsError::io("make", &journal.path))?;
        files::sync_folder(folder)?;
        Ok(journal)
    }

    /// Writes one line and syncs it.
    pub(super) fn append(&mut self, line: &impl serde::Serialize) -> Result<(), SettingsError> {
        self.try_append(line).map_err(SettingsError::io("write to", &self.path))
    }

    fn try_append(&mut self, line: &impl serde::Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        // A line that a full file system tore is cut off before the next one.
        self.file.set_len(self.length)?;
        self.file.seek(SeekFrom::Start(self.length))?;
        self.file.write_all(&text)?;
        self.file.sync_all()?;
        self.length += text.len() as u64;
        Ok(())
    }

    /// Removes the journal once all that it holds is put back.
    pub(super) fn remove(self) -> Result<(), SettingsError> {
        remove(&self.path)
    }
}

/// How old a journal without its name is before its run is taken for dead: giving it its name takes a moment.
const UNNAMED_FOR: Duration = Duration::from_secs(60);

/// Removes what a run left that died before its journal had a name: nothing was changed by then.
pub(super) fn remove_unnamed(path: &Path) {
    let age = fs::symlink_metadata(path).and_then(|file| file.modified()).ok().map(|at| at.elapsed());
    if !age.is_some_and(|age| age.is_ok_and(|age| age > UNNAMED_FOR)) {
        return;
    }
    let held = files::open_private(path, &mut OpenOptions::new()).and_then(Locked::take);
    if let Ok(Some(_dead)) = held {
        let _ = fs::remove_file(path);
    }
}

/// Removes a journal's file and syncs its folder.
pub(super) fn remove(path: &Path) -> Result<(), SettingsError> {
    fs::remove_file(path).map_err(SettingsError::io("remove", path))?;
    path.parent().map_or(Ok(()), files::sync_folder)
}

/// A journal that was read back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) header: Header,
    pub(super) undo: Undo,
}

/// What must be put back: each item once, with the value that it had first, in the order of its first change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Undo(Vec<(Item, String)>);

impl Undo {
    /// Notes that `item` had the value `old`, unless an earlier change noted it already.
    pub(super) fn note(&mut self, item: Item, old: String) {
        if self.old(&item).is_none() {
            self.0.push((item, old));
        }
    }

    /// The value before the run's first change.
    pub(super) fn old(&self, item: &Item) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == item).map(|(_, old)| old.as_str())
    }

    /// Newest first: what a later change reset along the way (scheduler: nr_requests) was noted before it,
    /// and is put back after it.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = (&Item, &str)> {
        self.0.iter().rev().map(|(item, old)| (item, old.as_str()))
    }

    /// If the drive at an address is now another one than the one noted: how both are known.
    pub(super) fn other_drive(&self, sys: &Path, address: PciAddress) -> Option<String> {
        let serial = Serial(address);
        let (old, now) = (self.old(&Item::Serial(serial))?, serial.read(sys)?);
        (now != old).then(|| format!("another drive now (serial {now}, it was {old} when it was taken)"))
    }

    /// Drops the files of a device.
    pub(super) fn forget(&mut self, device: &str) {
        self.0.retain(|(item, _)| item.device() != Some(device));
    }
}

/// Why a journal cannot be trusted. The text follows its name.
#[derive(Debug, thiserror::Error)]
pub(super) enum JournalError {
    #[error("it cannot be opened ({0})")]
    Open(io::Error),
    #[error("it {0}")]
    Distrusted(&'static str),
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    #[error("its first line is not that of a journal: {0}")]
    Header(serde_json::Error),
    #[error("it has version {0}, and this iopj reads version {VERSION}")]
    Version(u32),
    #[error("its first line names `{}`, which is not a block device", .0.escape_default())]
    Device(String),
    /// The number of a line, and what is wrong with it.
    #[error("its line {0} {1}")]
    Line(usize, LineError),
}

/// Why a line of a journal is not one that iopj writes.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("is longer than any that iopj writes")]
    Long,
    #[error("is not a change: {0}")]
    Form(serde_json::Error),
    #[error("names `{}`, which is not on the list of what may be written", .0.escape_default())]
    File(String),
    #[error("has an old value that cannot be put back: it is not a single word")]
    OldValue,
    #[error("changes a device that its first line does not name")]
    Device,
}

/// Reads a journal, a line at a time. A torn last line is left out: the run died while it wrote it, so its
/// change was not made.
pub(super) fn parse(mut text: impl BufRead) -> Result<Record, JournalError> {
    let first = next_line(&mut text, 1)?.unwrap_or_default();
    let header: Header = serde_json::from_str(&first).map_err(JournalError::Header)?;
    if header.iopj_journal != VERSION {
        return Err(JournalError::Version(header.iopj_journal));
    }
    if let Some(drive) = header.devices.iter().find(|drive| !is_device_name(&drive.name)) {
        return Err(JournalError::Device(drive.name.clone()));
    }
    let mut undo = Undo::default();
    let mut number = 2;
    while let Some(line) = next_line(&mut text, number)? {
        let (item, old) = undo_of(&line, &header).map_err(|error| JournalError::Line(number, error))?;
        undo.note(item, old);
        number += 1;
    }
    Ok(Record { header, undo })
}

/// The longest line of a journal: the first names the drives, and any other one setting.
const LONGEST: u64 = 1 << 20;

fn next_line(text: &mut impl BufRead, number: usize) -> Result<Option<String>, JournalError> {
    let mut line = String::new();
    text.take(LONGEST).read_line(&mut line).map_err(JournalError::Read)?;
    if line.len() as u64 == LONGEST && !line.ends_with('\n') {
        return Err(JournalError::Line(number, LineError::Long));
    }
    Ok(line.strip_suffix('\n').map(str::to_owned))
}

/// What the journal of this text would have put back, newest first: each item, and its value.
///
/// # Errors
/// Why it cannot be trusted.
pub fn undone_by(text: &str) -> Result<Vec<(String, String)>, String> {
    let record = parse(text.as_bytes()).map_err(|error| error.to_string())?;
    Ok(record.undo.newest_first().map(|(item, old)| (item.to_string(), old.to_owned())).collect())
}

/// What a line changed, and the value before.
fn undo_of(line: &str, header: &Header) -> Result<(Item, String), LineError> {
    let Change { file, old, .. } = serde_json::from_str(line).map_err(LineError::Form)?;
    let Ok(item) = file.parse::<Item>() else { return Err(LineError::File(file)) };
    if !item.accepts(&old) {
        return Err(LineError::OldValue);
    }
    if item.device().is_some_and(|device| header.devices.iter().all(|drive| drive.name != device)) {
        return Err(LineError::Device);
    }
    Ok((item, old))
}

/// Reads and parses an open journal.
pub(super) fn read(file: &File) -> Result<Record, JournalError> {
    parse(BufReader::new(file))
}
