//! One thing that was asked for, compared with what was seen.

use crate::remedy::Remedy;
use iopj_core::evidence::{Evidence, Finding};
use iopj_core::path::IoPath;
use std::fmt::Display;

pub(crate) enum Comparison {
    AsAsked(String),
    Other(String),
    Open(String),
}

pub(crate) fn compare<T: PartialEq + Display>(asked: T, finding: &Finding<T>) -> Comparison {
    match finding {
        Finding::Seen(seen) if *seen == asked => Comparison::AsAsked(seen.to_string()),
        Finding::Seen(seen) => Comparison::Other(format!("asked for {asked}, seen {seen}")),
        Finding::Mixed(what) => Comparison::Other(format!("asked for {asked}, seen several: {what}")),
        Finding::Unclear(reason) => Comparison::Open(reason.clone()),
    }
}

/// A disk whose `io_poll_delay` is not the path's. It governs the polling of every interface up to Linux 6.3,
/// and always reads -1 since then, which is what all paths but `posix-sio`'s hybrid want.
pub(crate) fn other_delay(path: &IoPath, evidence: &Evidence) -> Option<String> {
    let wanted = path.io_poll_delay()?.to_string();
    evidence.devices.iter().find_map(|disk| {
        let found = disk.settings.get("io_poll_delay").filter(|found| **found != wanted)?;
        let why = format!("`queue/io_poll_delay` of {} was {found} where {path} needs {wanted}", disk.name);
        Some(Remedy::PollDelay.after(why))
    })
}
