//! One lock a device for the life of a run: flock(2) on a file in the folder of journals.

use super::SettingsError;
use super::files::{self, Locked};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// The lock for what all CPUs share; the colon keeps it apart from every device's name.
pub(super) const CPU_LOCK: &str = "host:cpu";

/// The locks that a run holds on its devices, from [`Host::lock`](super::Host::lock) until they are dropped;
/// the kernel frees them at any death.
#[derive(Debug)]
pub struct DeviceLocks {
    held: BTreeMap<String, Locked>,
    /// Locks that runs of every user can see.
    pub(super) claims: Vec<Locked>,
    effective: bool,
}

impl DeviceLocks {
    /// False where the process may not make the lock files: then nothing can be changed.
    pub fn is_effective(&self) -> bool {
        self.effective
    }

    pub(super) fn holds(&self, device: &str) -> bool {
        self.held.contains_key(device)
    }

    /// Takes all locks or none, without waiting.
    pub(super) fn take<'a>(
        folder: &Path,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<DeviceLocks, SettingsError> {
        match files::make_folder(folder) {
            Err(SettingsError::Io { source, .. })
                if matches!(
                    source.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                return Ok(DeviceLocks { held: BTreeMap::new(), claims: Vec::new(), effective: false });
            }
            made => made?,
        }
        let mut held = BTreeMap::new();
        for name in names {
            if !held.contains_key(name) {
                held.insert(name.to_owned(), take(folder, name)?);
            }
        }
        Ok(DeviceLocks { held, claims: Vec::new(), effective: true })
    }
}

/// Takes the lock `name` and writes this process's id into it. The file stays when the lock is freed: to
/// remove it would let two runs lock two files of one name.
pub(super) fn take(folder: &Path, name: &str) -> Result<Locked, SettingsError> {
    let path = folder.join(format!("{name}.lock"));
    let file = files::open_private(&path, OpenOptions::new().create(true))
        .map_err(SettingsError::io("open", &path))?;
    let Some(mut file) = Locked::take(file).map_err(SettingsError::io("lock", &path))? else {
        let pid = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
        return Err(SettingsError::Locked { device: name.to_owned(), pid });
    };
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(SettingsError::io("write to", &path))?;
    Ok(file)
}
