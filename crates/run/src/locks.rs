//! The drives of a run: what dead runs left changed is put back, and live runs are refused or waited for.

use crate::error::RunError;
use crate::progress::Progress;
use iopj_core::format_duration;
use iopj_host::settings::{DeviceLocks, Host, RestoreReport, SettingsError, in_use};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a drive is asked for while a run waits.
const INTERVAL: Duration = Duration::from_millis(200);

/// Takes the locks of these drives, without waiting.
pub(crate) fn take(host: &Host, devices: &[String]) -> Result<DeviceLocks, RunError> {
    host.lock(devices).map_err(|error| match error {
        SettingsError::Locked { device, pid } => RunError::InUse(in_use(&device, pid)),
        other => other.into(),
    })
}

/// Takes the locks of these drives once the runs that hold them have ended, at the latest after `limit`. What
/// a run that died meanwhile left changed is put back.
pub(crate) fn wait_for(
    host: &Host,
    devices: &[String],
    limit: Duration,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<DeviceLocks, RunError> {
    let began = Instant::now();
    let (mut is_said, mut told) = (false, RestoreReport::default());
    loop {
        let who = match take(host, devices) {
            Err(RunError::InUse(who)) => who,
            taken => return taken,
        };
        if began.elapsed() >= limit {
            return Err(RunError::StillInUse { who, limit: format_duration(limit) });
        }
        if !std::mem::replace(&mut is_said, true) {
            progress.note(&format!("{who}: waiting for its end, at most {}", format_duration(limit)));
        }
        std::thread::sleep(INTERVAL);
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        // Without root it has been said already that nothing can be put back.
        match host.restore_left_behind() {
            Err(SettingsError::NeedsRoot(_)) => {}
            // What cannot be put back is said once, however long the wait.
            report => {
                let report = report?;
                if report != told {
                    tell(&report, progress);
                    told = report;
                }
            }
        }
    }
}

/// Puts back the settings that dead runs left changed. Without root that is not possible, and nothing is
/// changed.
pub(crate) fn put_back_left_behind(host: &Host, progress: &mut dyn Progress) -> Result<(), RunError> {
    let report = match host.restore_left_behind() {
        Err(SettingsError::NeedsRoot(_)) => {
            progress.note(
                "note: only root can see whether a dead run left settings changed; `iopj restore` as root \
                 puts them back",
            );
            return Ok(());
        }
        report => report?,
    };
    tell(&report, progress);
    Ok(())
}

fn tell(report: &RestoreReport, progress: &mut dyn Progress) {
    for change in &report.restored {
        progress.note(&format!(
            "put back after a run that had died: {}: {} -> {}",
            change.file.display(),
            change.from,
            change.to
        ));
    }
    for note in &report.notes {
        progress.note(note);
    }
    for failed in &report.failed {
        progress.note(&format!(
            "warning: {} could not be put back: {}",
            failed.file.display(),
            failed.reason
        ));
    }
}
