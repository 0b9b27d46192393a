//! What a job that was killed left changed on its host.

use crate::output::note;
use iopj_host::settings::Host;

/// Puts the settings back that a job left changed which was killed. Without root it changed none.
pub(super) fn put_back() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    match Host::new().restore_left_behind() {
        Ok(report) => report.failed.iter().for_each(|failed| {
            note(&format!("not put back: {}: {}", failed.file.display(), failed.reason));
        }),
        Err(error) => note(&format!("settings may be changed still: {error}")),
    }
}
