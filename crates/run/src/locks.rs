//! The drives of a run: what dead runs left changed is put back, and live runs are refused or waited for.

use crate::error::RunError;
use iopj_core::format_duration;
use iopj_host::machine;
use iopj_host::settings::{DeviceLocks, Host, RestoreReport, SettingsError, in_use};
use iopj_metering::Progress;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a drive is asked for while a run waits.
const INTERVAL: Duration = Duration::from_millis(200);
/// How often while the run that it waits for has taken the drive from its driver.
const INTERVAL_TAKEN: Duration = Duration::from_secs(1);

/// Takes a run's drives.
pub(crate) struct Locker {
    host: Host,
    /// What was said about settings that cannot be put back: each is said once.
    told: Vec<String>,
    /// See [`crate::Options::drives`].
    allowed: Option<BTreeMap<String, Option<String>>>,
    /// The target where it is a file.
    file: Option<PathBuf>,
}

impl Locker {
    pub(crate) fn new(host: &Host) -> Locker {
        Locker { host: host.clone(), told: Vec::new(), allowed: None, file: None }
    }

    /// Keeps runs on loop devices off this file, too, from the next lock on.
    pub(crate) fn with_file(&mut self, file: &Path) {
        self.file = Some(file.to_owned());
    }

    /// One that takes no other drives than these, by their names and serial numbers.
    pub(crate) fn allowing(self, allowed: Option<&BTreeMap<String, Option<String>>>) -> Locker {
        Locker { allowed: allowed.cloned(), ..self }
    }

    /// Puts back the settings that dead runs left changed. Without root that is not possible, and nothing is
    /// changed.
    pub(crate) fn put_back_left_behind(&mut self, progress: &mut dyn Progress) -> Result<(), RunError> {
        match self.host.restore_left_behind() {
            Err(SettingsError::NeedsRoot(_)) => {
                let text = "note: only root can see whether a dead run left settings changed; `iopj \
                            restore` as root puts them back";
                self.tell_once(text.to_owned(), progress);
            }
            report => self.tell(&report?, progress),
        }
        Ok(())
    }

    /// Takes the locks of these drives, without waiting. What a run that died meanwhile left changed is put
    /// back first.
    pub(crate) fn take(
        &mut self,
        devices: &[String],
        progress: &mut dyn Progress,
    ) -> Result<Arc<DeviceLocks>, RunError> {
        self.put_back_left_behind(progress)?;
        let locks = self.host.lock_with(devices, self.file.as_deref()).map_err(|error| match error {
            SettingsError::Locked { device, pid } => RunError::InUse(in_use(&device, pid)),
            other => other.into(),
        })?;
        self.check(devices)?;
        Ok(locks)
    }

    /// Refuses drives that are not those that are allowed: another may have taken a drive's place, or its
    /// name, since it was looked at.
    pub(crate) fn check(&self, devices: &[String]) -> Result<(), RunError> {
        let Some(allowed) = self.allowed.as_ref().filter(|allowed| !allowed.is_empty()) else {
            return Ok(());
        };
        let remedy = "another drive has taken its place: see which one is meant, and submit again";
        if let Some(other) = devices.iter().find(|device| !allowed.contains_key(*device)) {
            let names = allowed.keys().cloned().collect::<Vec<_>>().join(" and ");
            return RunError::refuse(format!("the target was on {names}, and is on {other} now: {remedy}"));
        }
        let said = |serial: &Option<String>| {
            serial
                .as_deref()
                .map_or("no serial number".to_owned(), |serial| format!("the serial number `{serial}`"))
        };
        for (name, before) in allowed {
            let now = machine::drive_serial(name);
            if now != *before {
                let (before, now) = (said(before), said(&now));
                return RunError::refuse(format!("{name} had {before}, and has {now} now: {remedy}"));
            }
        }
        Ok(())
    }

    /// Takes the locks of these drives once the runs that hold them have ended, at the latest after `limit`.
    pub(crate) fn wait_for(
        &mut self,
        devices: &[String],
        limit: Duration,
        progress: &mut dyn Progress,
        stop: &AtomicBool,
    ) -> Result<Arc<DeviceLocks>, RunError> {
        let began = Instant::now();
        let mut waits_for: Option<String> = None;
        loop {
            let (who, interval) = match (self.take(devices, progress), &waits_for) {
                (Err(RunError::InUse(who)), _) => (who, INTERVAL),
                // The run that it waits for has taken the drive from its driver, so it has no block device.
                (Err(RunError::Settings(SettingsError::NoDevice { .. })), Some(who)) => {
                    (who.clone(), INTERVAL_TAKEN)
                }
                (taken, _) => return taken,
            };
            let Some(left) = limit.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) else {
                return Err(RunError::StillInUse { who, limit: format_duration(limit) });
            };
            if waits_for.is_none() {
                progress.note(&format!("{who}: waiting until it ends, at most {}", format_duration(limit)));
            }
            waits_for = Some(who);
            std::thread::sleep(interval.min(left));
            if stop.load(Ordering::Relaxed) {
                return Err(RunError::Interrupted);
            }
        }
    }

    fn tell(&mut self, report: &RestoreReport, progress: &mut dyn Progress) {
        for change in &report.restored {
            progress.note(&format!(
                "put back after a run that had died: {}: {} -> {}",
                change.file.display(),
                change.from,
                change.to
            ));
        }
        for note in &report.notes {
            self.tell_once(note.clone(), progress);
        }
        for failed in &report.failed {
            let (file, reason) = (failed.file.display(), &failed.reason);
            self.tell_once(format!("warning: {file} could not be put back: {reason}"), progress);
        }
    }

    fn tell_once(&mut self, text: String, progress: &mut dyn Progress) {
        if !self.told.contains(&text) {
            progress.note(&text);
            self.told.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_metering::Said;

    /// A host with the drive `sda`, on which nobody is root.
    fn host(root: &Path) -> Host {
        std::fs::create_dir_all(root.join("sys/block/sda")).unwrap();
        std::fs::write(root.join("sys/block/sda/stat"), "0").unwrap();
        std::fs::create_dir_all(root.join("proc/sys/kernel/random")).unwrap();
        std::fs::write(root.join("proc/sys/kernel/random/boot_id"), "boot").unwrap();
        Host::with_root(root)
    }

    /// A run was killed after the first look for dead runs, and its settings were measured.
    #[test]
    fn what_a_run_that_died_meanwhile_left_is_put_back_before_its_drive_is_taken() {
        let root = tempfile::tempdir().unwrap();
        let (host, mut said, at) = (host(root.path()), Said::default(), |path: &str| root.path().join(path));
        let mut locker = Locker::new(&host);
        locker.put_back_left_behind(&mut said).unwrap();
        drop(host.lock(&[]).unwrap());
        std::fs::create_dir_all(at("sys/block/sda/queue")).unwrap();
        std::fs::write(at("sys/block/sda/queue/nomerges"), "2").unwrap();
        let journal = "{\"iopj_journal\":1,\"boot_id\":\"boot\",\"pid\":77,\"begun_ns\":1,\"devices\":\
                       [{\"name\":\"sda\",\"serial\":null}]}\n\
                       {\"file\":\"block/sda/queue/nomerges\",\"old\":\"0\",\"new\":\"2\"}\n";
        let path = at("run/iopj/journal-77-1.jsonl");
        std::fs::write(&path, journal).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        // A program that another test starts may hold a copy of a lock for a moment.
        let (limit, stop) = (Duration::from_secs(60), AtomicBool::new(false));
        let taken = locker.wait_for(&["sda".to_owned()], limit, &mut said, &stop).unwrap();
        assert!(taken.is_effective());
        assert_eq!(std::fs::read_to_string(at("sys/block/sda/queue/nomerges")).unwrap(), "0", "{:?}", said.0);
        assert_eq!(
            said.0.iter().filter(|text| text.ends_with("nomerges: 2 -> 0")).count(),
            1,
            "{:?}",
            said.0
        );
    }

    /// The serial number was read before a wait of hours, and never again.
    #[test]
    fn a_drive_that_is_another_one_after_the_wait_is_not_taken() {
        let root = tempfile::tempdir().unwrap();
        let name = "iopj-no-drive".to_owned();
        let host = host(root.path());
        std::fs::create_dir_all(root.path().join("sys/block").join(&name)).unwrap();
        std::fs::write(root.path().join("sys/block").join(&name).join("stat"), "0").unwrap();
        // This machine has no such drive, and so no serial number of it.
        let taken = |allowed: &[(&str, Option<&str>)]| {
            let allowed = allowed
                .iter()
                .map(|(name, serial)| ((*name).to_owned(), serial.map(str::to_owned)))
                .collect();
            let mut locker = Locker::new(&host).allowing(Some(&allowed));
            let (devices, limit) = (std::slice::from_ref(&name), Duration::from_secs(60));
            let waited = locker.wait_for(devices, limit, &mut Said::default(), &AtomicBool::new(false));
            waited.map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(taken(&[(&name, None)]), Ok(()));
        assert_eq!(taken(&[]), Ok(()), "nothing was found out about it");
        let other = taken(&[(&name, Some("S1"))]).unwrap_err();
        assert!(other.contains("had the serial number `S1`, and has no serial number now"), "{other}");
        let other = taken(&[("iopj-another", None)]).unwrap_err();
        assert!(other.contains("was on iopj-another, and is on iopj-no-drive now"), "{other}");
    }

    /// The wait ended with "there is no sda below /sys/block".
    #[test]
    fn a_run_that_is_waited_for_may_take_its_drive_from_the_driver() {
        let root = tempfile::tempdir().unwrap();
        let (host, devices, stop) = (host(root.path()), ["sda".to_owned()], AtomicBool::new(false));
        let drive = root.path().join("sys/block/sda");
        let other = host.lock(&devices).unwrap();
        let (began, mut said) = (Instant::now(), Said::default());
        let taken = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                std::fs::rename(&drive, drive.with_file_name("taken")).unwrap();
                std::thread::sleep(Duration::from_millis(500));
                std::fs::rename(drive.with_file_name("taken"), &drive).unwrap();
                drop(other);
            });
            Locker::new(&host).wait_for(&devices, Duration::from_secs(60), &mut said, &stop)
        });
        assert!(taken.unwrap().is_effective());
        assert!(began.elapsed() >= Duration::from_millis(800));
        assert_eq!(said.0.len(), 1, "{:?}", said.0);
        // Nobody was waited for: the name is wrong.
        let devices = ["sdb".to_owned()];
        let missing = Locker::new(&host).wait_for(&devices, Duration::from_secs(60), &mut said, &stop);
        assert!(matches!(missing, Err(RunError::Settings(SettingsError::NoDevice { .. }))), "{missing:?}");
    }
}
