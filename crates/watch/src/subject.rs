//! What is to be watched: found, checked, and named.

use super::error::WatchError;
use super::program::Program;
use iopj_core::watch::WatchSubject;
use iopj_engine::target::leaf_devices;
use iopj_probe::watch::Watched;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is to be watched, as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchTarget {
    /// A program with its arguments, to be started.
    Command(Vec<OsString>),
    /// A process that runs.
    Process(i32),
    /// A control group, by its folder, or by its place below the root of all of them.
    Cgroup(PathBuf),
    /// A block device.
    Device(PathBuf),
}

/// Where control groups are mounted.
const CGROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// What was found of it.
pub(super) struct Found {
    pub(super) subject: WatchSubject,
    pub(super) watched: Watched,
    /// How descendants are followed.
    pub(super) followed: &'static str,
    pub(super) program: Option<Program>,
    /// Disks that are watched from the beginning.
    pub(super) disks: Vec<String>,
}

impl Found {
    pub(super) fn of(target: &WatchTarget) -> Result<Found, WatchError> {
        match target {
            WatchTarget::Command(words) => Found::command(words),
            WatchTarget::Process(pid) => Found::process(*pid),
            WatchTarget::Cgroup(path) => Found::cgroup(path),
            WatchTarget::Device(path) => Found::device(path),
        }
    }

    fn command(words: &[OsString]) -> Result<Found, WatchError> {
        let mut command = Command::new(words.first().cloned().unwrap_or_default());
        command.args(words.iter().skip(1));
        Found::started(command, &[])
    }

    /// A program that is started, and servers that work for it.
    pub(super) fn started(command: Command, servers: &[i32]) -> Result<Found, WatchError> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words = words.map(|word| word.to_string_lossy().into_owned()).collect();
        let program = Program::fork(command)?;
        Ok(Found {
            subject: WatchSubject::Command(words),
            watched: Watched::Child(program.pid(), servers.to_vec()),
            followed: "by parentage; those whose parents end become children of iopj \
                       (PR_SET_CHILD_SUBREAPER)",
            program: Some(program),
            disks: Vec::new(),
        })
    }

    fn process(pid: i32) -> Result<Found, WatchError> {
        if pid == std::process::id().cast_signed() {
            return Err(WatchError::Itself(pid));
        }
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let name = fs::read(folder.join("comm")).map_err(|_| WatchError::NoProcess(pid))?;
        let name = String::from_utf8_lossy(&name).trim_end().to_owned();
        // What no one but its owner may read shows whether it is ours.
        match fs::read_to_string(folder.join("io")) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(WatchError::NotYours { pid, name });
            }
            _ => {}
        }
        Ok(Found {
            subject: WatchSubject::Process(pid, name),
            watched: Watched::Process(pid),
            followed: "by parentage; those whose parents end before they are seen are missed",
            program: None,
            disks: Vec::new(),
        })
    }

    fn cgroup(named: &Path) -> Result<Found, WatchError> {
        let below = named.strip_prefix("/").unwrap_or(named);
        let places = std::iter::once(named.to_owned()).chain(CGROUPS.map(|root| Path::new(root).join(below)));
        let is_cgroup = |folder: &PathBuf| folder.join("cgroup.procs").is_file();
        let folder =
            places.into_iter().find(is_cgroup).ok_or_else(|| WatchError::NoCgroup(named.to_owned()))?;
        Ok(Found {
            subject: WatchSubject::Cgroup(folder.display().to_string()),
            watched: Watched::Cgroup(folder),
            followed: "by the control group and those in it",
            program: None,
            disks: Vec::new(),
        })
    }

    fn device(path: &Path) -> Result<Found, WatchError> {
        let no = |why: String| WatchError::NoDevice { path: path.to_owned(), why };
        let metadata = fs::metadata(path).map_err(|error| no(error.to_string()))?;
        if !metadata.file_type().is_block_device() {
            return Err(no("it is another kind of file".to_owned()));
        }
        let disks = disks_of(metadata.rdev());
        if disks.is_empty() {
            return Err(WatchError::NoDisk(path.to_owned()));
        }
        Ok(Found {
            subject: WatchSubject::Device(path.display().to_string()),
            watched: Watched::Nothing,
            followed: "whoever uses the device",
            program: None,
            disks,
        })
    }
}

/// The whole disks below a device (`st_dev`, `st_rdev`); none for a file system in memory.
pub(super) fn disks_of(device: u64) -> Vec<String> {
    leaf_devices(Path::new("/sys"), device).unwrap_or_default()
}
