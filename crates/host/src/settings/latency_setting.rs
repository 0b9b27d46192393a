//! What a study asks of the CPUs' latency. It needs no journal, for it cannot outlive the run.

use super::change::Settings;
use super::dma_latency::{DmaLatency, current, path};
use super::error::SettingsError;
use super::files;
use super::journal::Change;
use iopj_core::Setting;
use std::io::{self, ErrorKind};
use std::path::Path;

const SETTING: Setting = Setting::CpuDmaLatency;

impl Settings {
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
                none.insert(DmaLatency::open(self.host.dev()).map_err(|error| unavailable(&path, error))?)
            }
        };
        let read = held.ask(us).map_err(SettingsError::io("write to", &path))?;
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
