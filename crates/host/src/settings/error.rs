//! What can go wrong with settings, in the words that the user reads.

use iopj_core::{Setting, SettingError};
use iopj_engine::PciAddress;
use iopj_engine::target::TargetError;
use std::io;
use std::path::{Path, PathBuf};

/// A failure in changing settings or in putting them back.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum SettingsError {
    /// A value of the wrong form.
    #[error(transparent)]
    Bad(#[from] SettingError),
    /// This host lacks what the setting would change.
    #[error("`{setting}` cannot be changed here, because {reason}: leave it out of the study")]
    NotHere { setting: Setting, reason: String },
    /// A name that is no whole block device of this host.
    #[error("there is no `{device}` below {folder}: name a whole block device, as `lsblk -d` lists it")]
    NoDevice { device: String, folder: PathBuf },
    /// Another live run holds what this one wants to change or measure.
    #[error("{}: wait until it ends, or stop it", in_use(device, *pid))]
    Locked {
        /// The device, `host:cpu` for the settings of all CPUs, or `pci:ADDRESS` for a drive's binding.
        device: String,
        /// The process that holds the lock, if the lock file says.
        pid: Option<u32>,
    },
    /// A change to a device whose lock this run does not hold.
    #[error("`{0}` is not locked by this run: lock every device before changing its settings")]
    NotLocked(String),
    /// The process lacks the right to do this.
    #[error("{0} needs root: run iopj as root, or do without it")]
    NeedsRoot(String),
    /// The kernel took the write, and the file reads otherwise.
    #[error("{file} reads `{read}` after `{wanted}` was written: {why}")]
    DidNotTake {
        file: PathBuf,
        wanted: String,
        read: String,
        /// The cause and the remedy.
        why: &'static str,
    },
    /// The kernel refused the write.
    #[error("the kernel refuses `{value}` for {file} ({source}): {advice}")]
    Refused {
        file: PathBuf,
        value: String,
        source: io::Error,
        /// The remedy.
        advice: String,
    },
    /// A value that the hardware does not reach.
    #[error(
        "`{setting}` cannot be {value}, because {owner} takes {lowest} to {highest}: ask for one of these"
    )]
    OutOfRange { setting: Setting, value: String, owner: String, lowest: u64, highest: u64 },
    /// A drive refused to change a feature.
    #[error("{drive} refuses `{value}` for `{setting}` ({source}): {advice}")]
    RefusedByDrive {
        drive: PciAddress,
        setting: Setting,
        value: String,
        source: io::Error,
        /// The remedy.
        advice: &'static str,
    },
    /// The drive took the command, and its feature reads otherwise.
    #[error("`{setting}` of {drive} reads `{read}` after `{wanted}` was set: {why}")]
    NotTakenByDrive {
        drive: PciAddress,
        setting: Setting,
        wanted: String,
        read: String,
        /// The cause and the remedy.
        why: &'static str,
    },
    /// A drive stayed with its driver, or went back to it.
    #[error("{address} could not be taken from its driver: {reason}")]
    NotTaken {
        address: PciAddress,
        /// The cause, the drive's state now, and the remedy.
        reason: String,
    },
    /// A drive is not back with its driver, or its block devices are not.
    #[error("{address} could not be given back to its driver: {reason}")]
    NotGivenBack {
        address: PciAddress,
        /// The cause and the remedy.
        reason: String,
    },
    /// The kernel's NVMe target does not export a drive.
    #[error("the drive cannot be exported: {reason}")]
    NotExported {
        /// The cause and the remedy.
        reason: String,
    },
    /// The kernel's NVMe host does not connect.
    #[error("cannot connect to {place}: {reason}")]
    NotConnected {
        /// The address, the port and the transport.
        place: String,
        /// The cause and the remedy.
        reason: String,
        /// Nothing answers there, which may change by itself.
        is_away: bool,
    },
    /// A namespace over fabrics that could be written.
    #[error(
        "{device} cannot be protected against writes ({reason}), so nothing is read from it: use a target \
         whose kernel has Namespace Write Protection (Linux 5.0), or name the drive by --destroy-data"
    )]
    NotProtected {
        device: PathBuf,
        /// The cause.
        reason: String,
    },
    /// A file to measure on cannot be made.
    #[error(transparent)]
    NotMade(#[from] TargetError),
    /// A file operation failed.
    #[error("cannot {action} {file}: {source}")]
    Io { action: &'static str, file: PathBuf, source: io::Error },
    /// The folder of journals cannot be trusted.
    #[error("{folder} {reason}: remove it; iopj makes a new one")]
    UnsafeFolder { folder: PathBuf, reason: &'static str },
    /// Some settings could not be put back; the journal is kept. The files and the reasons.
    #[error("not put back: {}; the journal is kept, `iopj restore` tries again", list(.0))]
    NotRestored(Vec<NotRestored>),
}

/// A file, or a whole journal, that could not be put back.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct NotRestored {
    /// The sysfs file or the journal.
    pub file: PathBuf,
    /// The cause, and for a journal the remedy.
    pub reason: String,
}

impl SettingsError {
    /// Turns a failed file operation into an error that names it.
    pub(super) fn io(action: &'static str, file: &Path) -> impl FnOnce(io::Error) -> SettingsError {
        let file = file.to_owned();
        move |source| SettingsError::Io { action, file, source }
    }
}

/// Who uses a device.
pub fn in_use(device: &str, pid: Option<u32>) -> String {
    let device = device.strip_prefix("file:").map_or(device, |_| "the file of a loop device");
    let program = pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok());
    // Names of tests and of guests' copies begin with it, too.
    let other = program.as_deref().map(str::trim_end).filter(|program| !program.starts_with("iopj"));
    match pid {
        Some(pid) if other.is_some() => {
            let program = other.unwrap_or_default().escape_debug();
            format!("`{device}` is locked by the program `{program}` with process id {pid}")
        }
        Some(pid) => format!("`{device}` is in use by the run of iopj with process id {pid}"),
        None => format!("`{device}` is in use by another run of iopj"),
    }
}

fn list(failed: &[NotRestored]) -> String {
    failed.iter().map(|one| format!("{} ({})", one.file.display(), one.reason)).collect::<Vec<_>>().join(", ")
}
