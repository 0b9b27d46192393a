//! The time that a CPU may take to leave an idle state: a request to the kernel that lasts as long as its
//! file is open, so it needs no journal, for it cannot outlive the run.
//!
//! Sources: Documentation/power/pm_qos_interface.rst; kernel/power/qos.c (`cpu_latency_qos_read`,
//! `cpu_latency_qos_write`): the file is read and written as one 32-bit number in the machine's order.
//! Reading gives the least of all requests.

use super::change::Settings;
use super::error::SettingsError;
use super::files;
use super::journal::Change;
use iopj_core::Setting;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const SETTING: Setting = Setting::CpuDmaLatency;

/// The request of this run.
#[derive(Debug)]
pub(super) struct DmaLatency {
    file: File,
    us: i32,
}

impl Settings<'_> {
    /// Asks the kernel to keep CPUs out of idle states that take longer than `value` us to leave.
    ///
    /// # Errors
    /// [`SettingsError::NotHere`], [`SettingsError::NeedsRoot`], [`SettingsError::Locked`],
    /// [`SettingsError::DidNotTake`] if somebody else asks for less, or a failed file operation.
    pub(super) fn hold_dma_latency(&mut self, value: &str) -> Result<(), SettingsError> {
        let us: i32 = value.parse().unwrap_or_default();
        let path = path(self.host.dev());
        if !self.locks.is_effective() {
            return Err(SettingsError::NeedsRoot(format!("changing `{SETTING}`")));
        }
        self.hold_cpus()?;
        let before = current(self.host.dev()).map_err(|error| unavailable(&path, error))?;
        let held = match &mut self.dma_latency {
            Some(held) => held,
            none => {
                let file = OpenOptions::new().read(true).write(true).open(&path);
                let file = file.map_err(|error| unavailable(&path, error))?;
                none.insert(DmaLatency { file, us: i32::MAX })
            }
        };
        if held.us != us {
            held.file.write_all_at(&us.to_ne_bytes(), 0).map_err(SettingsError::io("write to", &path))?;
            held.us = us;
        }
        let read = read(&held.file).map_err(SettingsError::io("read", &path))?;
        if read != before {
            let (file, old) = ("dev/cpu_dma_latency".to_owned(), before.to_string());
            self.changes.push(Change { file, old, new: read.to_string() });
        }
        if read == us {
            return Ok(());
        }
        Err(SettingsError::DidNotTake {
            file: path,
            wanted: value.to_owned(),
            read: read.to_string(),
            why: "another program asks for less, and the least counts: end it (`fuser -v \
                  /dev/cpu_dma_latency` names it), or leave the setting out of the study",
        })
    }

    /// What [`Settings::hold_dma_latency`] would change now.
    ///
    /// # Errors
    /// [`SettingsError::NotHere`], [`SettingsError::NeedsRoot`], or a failed file operation.
    pub(super) fn foresee_dma_latency(&self, value: &str) -> Result<Vec<Change>, SettingsError> {
        let now = current(self.host.dev()).map_err(|error| unavailable(&path(self.host.dev()), error))?;
        let (file, old, new) = ("dev/cpu_dma_latency".to_owned(), now.to_string(), value.to_owned());
        Ok(if old == new { Vec::new() } else { vec![Change { file, old, new }] })
    }
}

/// The least of all requests now, in us.
///
/// # Errors
/// There is no such file, or only root may open it.
pub(crate) fn current(dev: &Path) -> io::Result<i32> {
    read(&File::open(path(dev))?)
}

fn path(dev: &Path) -> PathBuf {
    dev.join("cpu_dma_latency")
}

fn read(file: &File) -> io::Result<i32> {
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(i32::from_ne_bytes(bytes))
}

fn unavailable(path: &Path, error: io::Error) -> SettingsError {
    let no_device = error.raw_os_error() == Some(libc::ENODEV) || error.raw_os_error() == Some(libc::ENXIO);
    match error.kind() {
        ErrorKind::NotFound => {
            SettingsError::NotHere { setting: SETTING, reason: format!("there is no {}", path.display()) }
        }
        _ if no_device => SettingsError::NotHere {
            setting: SETTING,
            reason: format!("the kernel does not have {}", path.display()),
        },
        ErrorKind::PermissionDenied if !files::is_root() => {
            SettingsError::NeedsRoot(format!("changing `{SETTING}`"))
        }
        _ => SettingsError::io("open", path)(error),
    }
}
