//! Putting back: what a run changed, and what the journals of dead runs hold.

use super::attribute::Attribute;
use super::binding::{self, Binding, GivenBack, missing_disks};
use super::error::{NotRestored, SettingsError};
use super::fabric_removal;
use super::files::{self, Locked};
use super::host::Host;
use super::item::Item;
use super::journal::{self, Drive, JournalError, Record, Undo};
use super::lock;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that has its old value again.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Restored {
    /// The sysfs file.
    pub file: PathBuf,
    /// The value that it had until now.
    pub from: String,
    /// The value from before the run, which it has again.
    pub to: String,
}

/// A journal that cannot be undone now.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LeftAlone {
    /// The journal.
    pub journal: PathBuf,
    /// The live run that it waits for.
    pub reason: String,
}

/// What [`Host::restore_left_behind`] found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct RestoreReport {
    /// The files put back, in the order in which it was done.
    pub restored: Vec<Restored>,
    /// What was left as it is for good, and why (another boot, another drive, a file that is gone).
    pub notes: Vec<String>,
    /// Journals of live runs, and those that must wait for one.
    pub left_alone: Vec<LeftAlone>,
    /// What could not be put back; its journal is kept.
    pub failed: Vec<NotRestored>,
}

/// The result of putting back.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) restored: Vec<Restored>,
    pub(super) notes: Vec<String>,
    pub(super) failed: Vec<NotRestored>,
    /// What a drive lost for good.
    pub(super) lost: Vec<String>,
}

impl Outcome {
    /// Notes a line once: a drive has many files.
    fn note(&mut self, line: String) {
        if !self.notes.contains(&line) {
            self.notes.push(line);
        }
    }
}

/// Puts back every item of `undo`, newest first; a failure does not stop the others. `disks` are the block
/// devices to wait for when a drive goes back to its driver.
pub(super) fn put_back(host: &Host, undo: &Undo, disks: &[String]) -> Outcome {
    let mut outcome = Outcome::default();
    let mut disks = disks.to_vec();
    for (item, old) in undo.newest_first() {
        let file = item.file(&host.sys);
        // Looked at for each item: an earlier one may have brought it back.
        let controller = item.controller(&host.sys);
        if let Some((address, now)) = controller.and_then(|at| Some((at, undo.other_drive(&host.sys, at)?))) {
            outcome.note(format!("{address} is {now}: its settings are left alone"));
            continue;
        }
        let from = match item {
            Item::Attribute(attribute) => put_back_one(&host.sys, attribute, old),
            Item::Driver(binding) => put_back_driver(host, *binding, old, &mut disks, &mut outcome.notes),
            Item::DriveSetting(setting) => setting.put_back(host, old),
            Item::Serial(_) => Ok(None),
            Item::Fabric(item) => fabric_removal::remove(item, host),
            Item::MadeFile(file) => file.remove(&mut outcome.notes),
        };
        match from {
            Ok(None) => {}
            Ok(Some(from)) => outcome.restored.push(Restored { file, from, to: old.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                outcome.note(
                    match item.device().filter(|device| !host.sys.join("block").join(device).exists()) {
                        Some(device) => format!("`{device}` is gone, and its settings with it"),
                        None => format!("{} is gone, and its setting with it", file.display()),
                    },
                );
            }
            // Trying again would fail in the same way.
            Err(error) if matches!(item, Item::DriveSetting(_)) => outcome.lost.push(error.to_string()),
            Err(error) => outcome.failed.push(NotRestored { file, reason: error.to_string() }),
        }
    }
    outcome
}

/// The driver that the old one replaced, or `None` if nothing had to be done. Of `disks`, those that did not
/// come are waited for no more.
fn put_back_driver(
    host: &Host,
    binding: Binding,
    old: &str,
    disks: &mut Vec<String>,
    notes: &mut Vec<String>,
) -> io::Result<Option<String>> {
    let gone: Vec<String> = binding::absent(host, disks).into_iter().map(str::to_owned).collect();
    match binding.give_back(host, old)? {
        GivenBack::Already => {
            // The run may have died while its drive was coming back.
            let missing = binding::wait_for_disks(host, &gone, binding.coming_limit(host, old));
            disks.retain(|disk| !missing.contains(&disk.as_str()));
            Ok(None)
        }
        GivenBack::Foreign(now) => {
            notes.push(format!("{} is now bound to `{now}`, and not by this run: left alone", binding.0));
            Ok(None)
        }
        GivenBack::From(from) => {
            let missing = binding::wait_for_disks(host, &gone, host.disks_limit);
            if !missing.is_empty() {
                notes.push(format!("{}: {}", binding.0, missing_disks(host, &missing)));
            }
            disks.retain(|disk| !missing.contains(&disk.as_str()));
            Ok(Some(from))
        }
    }
}

/// The value that was replaced, or `None` if it was the old one already.
fn put_back_one(sys: &Path, attribute: &Attribute, old: &str) -> io::Result<Option<String>> {
    let now = attribute.read(sys)?;
    if now == old {
        return Ok(None);
    }
    attribute.write(sys, old)?;
    match attribute.read(sys)? {
        read if read == old => Ok(Some(now)),
        read => Err(io::Error::other(format!("it reads `{read}` after `{old}` was written"))),
    }
}

impl Host {
    /// Puts back what dead runs left changed, newest run first, and removes their journals.
    ///
    /// A journal of another boot is removed: the boot has reset sysfs. A drive whose serial is not the
    /// journal's is left alone. Journals of live runs, and of devices that a live run has locked, stay and
    /// are named; so do journals that another user wrote or that name a file outside the allow-list. No store
    /// is needed.
    ///
    /// # Errors
    /// [`SettingsError::NeedsRoot`] if the folder may not be read (a run without root may go on: it changes
    /// nothing), [`SettingsError::UnsafeFolder`], or a failed file operation.
    pub fn restore_left_behind(&self) -> Result<RestoreReport, SettingsError> {
        let mut report = RestoreReport::default();
        let boot_id = self.boot_id()?;
        // Names whose newer journal stays: an older one of them must not be undone before it.
        let mut waiting = BTreeSet::new();
        for dead in self.dead_journals(&mut report)? {
            let path = dead.path.clone();
            if dead.record.header.boot_id != boot_id {
                report.notes.push(format!(
                    "{} is from another boot, which reset its settings: removed",
                    path.display()
                ));
                journal::remove(&path)?;
                continue;
            }
            let names = names(&dead.record);
            let outcome = match names.intersection(&waiting).next() {
                Some(name) => Undoing::Waits(format!("a newer journal of `{name}` must be undone first")),
                None => self.undo_journal(dead, &names, &mut report)?,
            };
            match outcome {
                Undoing::Undone => journal::remove(&path)?,
                Undoing::Failed => waiting.extend(names),
                Undoing::Waits(reason) => {
                    waiting.extend(names);
                    report.left_alone.push(LeftAlone { journal: path, reason });
                }
            }
        }
        Ok(report)
    }

    /// Undoes one journal under the locks of its devices.
    fn undo_journal(
        &self,
        mut dead: DeadJournal,
        names: &BTreeSet<String>,
        report: &mut RestoreReport,
    ) -> Result<Undoing, SettingsError> {
        let mut locks = Vec::new();
        for name in names {
            match lock::take(&self.run, name) {
                Err(error @ SettingsError::Locked { .. }) => return Ok(Undoing::Waits(error.to_string())),
                taken => locks.push(taken?),
            }
        }
        for drive in &dead.record.header.devices {
            let now = Drive::read(&self.sys, &drive.name);
            if now != *drive && self.sys.join("block").join(&drive.name).exists() {
                report.notes.push(format!(
                    "`{}` is another drive now (serial {}, in the journal {}): left alone",
                    drive.name,
                    now.serial.as_deref().unwrap_or("unknown"),
                    drive.serial.as_deref().unwrap_or("unknown"),
                ));
                dead.record.undo.forget(&drive.name);
            }
        }
        let disks: Vec<String> = dead.record.header.devices.iter().map(|drive| drive.name.clone()).collect();
        let Outcome { restored, notes, failed, lost } = put_back(self, &dead.record.undo, &disks);
        let outcome = if failed.is_empty() { Undoing::Undone } else { Undoing::Failed };
        report.restored.extend(restored);
        report.notes.extend(notes.into_iter().chain(lost));
        report.failed.extend(failed);
        Ok(outcome)
    }

    /// The journals of dead runs, locked, newest first. A journal that cannot be trusted goes to the report.
    fn dead_journals(&self, report: &mut RestoreReport) -> Result<Vec<DeadJournal>, SettingsError> {
        let mut dead = Vec::new();
        for path in self.journal_paths()? {
            match open_dead(&path) {
                Ok(Found::Dead(journal)) => dead.push(journal),
                Ok(Found::Gone) => {}
                Ok(Found::Live) => {
                    let reason = match live_pid(&path) {
                        Some(pid) => format!("its run is alive, with process id {pid}"),
                        None => "its run is alive".to_owned(),
                    };
                    report.left_alone.push(LeftAlone { journal: path, reason });
                }
                Err(error) => {
                    let reason =
                        format!("{error}: nothing in it was undone; look at it, then remove it by hand");
                    report.failed.push(NotRestored { file: path, reason });
                }
            }
        }
        dead.sort_by_key(|journal| std::cmp::Reverse(journal.record.header.begun_ns));
        Ok(dead)
    }

    fn journal_paths(&self) -> Result<Vec<PathBuf>, SettingsError> {
        if self.run.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok(Vec::new());
        }
        match files::check_folder(&self.run) {
            Err(SettingsError::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
                return Err(SettingsError::NeedsRoot("putting settings back".to_owned()));
            }
            checked => checked?,
        }
        let entries = fs::read_dir(&self.run).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let is_journal = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("journal-") && name.ends_with(".jsonl")
        };
        let entries = entries.map_err(SettingsError::io("list", &self.run))?;
        let all = entries.into_iter().map(|entry| entry.path());
        let (mut paths, others): (Vec<PathBuf>, Vec<PathBuf>) = all.partition(is_journal);
        let is_unnamed = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "new");
        others.iter().filter(is_unnamed).for_each(|path| journal::remove_unnamed(path));
        paths.sort();
        Ok(paths)
    }
}

/// The result of undoing a journal.
enum Undoing {
    Undone,
    Failed,
    Waits(String),
}

/// A journal whose run is dead. Its lock keeps another restore away.
struct DeadJournal {
    path: PathBuf,
    record: Record,
    _lock: Locked,
}

/// What a journal's name leads to.
enum Found {
    Dead(DeadJournal),
    Live,
    /// Its run, or another restore, removed it meanwhile.
    Gone,
}

/// Opens and locks a journal. The error says why it cannot be trusted.
fn open_dead(path: &Path) -> Result<Found, JournalError> {
    let file = match files::open_private(path, &mut OpenOptions::new()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Gone),
        opened => opened.map_err(JournalError::Open)?,
    };
    let metadata = file.metadata().map_err(JournalError::Open)?;
    if let Some(reason) =
        (!metadata.is_file()).then_some("is not a regular file").or_else(|| files::distrust(&metadata))
    {
        return Err(JournalError::Distrusted(reason));
    }
    let Some(file) = Locked::take(file).map_err(JournalError::Open)? else { return Ok(Found::Live) };
    if file.metadata().map_err(JournalError::Open)?.nlink() == 0 {
        return Ok(Found::Gone);
    }
    let record = journal::read(&file)?;
    Ok(Found::Dead(DeadJournal { path: path.to_owned(), record, _lock: file }))
}

fn live_pid(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.split('-').nth(1)?.parse().ok()
}

/// The locks under which a journal was written.
fn names(record: &Record) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = record.header.devices.iter().map(|drive| drive.name.clone()).collect();
    names.extend(record.undo.newest_first().map(|(item, _)| item.lock_name()));
    names
}
