//! An observation compared with the path that was asked for.

use crate::observe::observe;
use crate::quantities::summary;
use crate::remedy::Remedy;
use iopj_core::evidence::{Evidence, Finding, Observed, Verdict, VerdictKind};
use iopj_core::path::{IoPath, Submission};
use std::fmt::Display;

/// The verdict on `path`: *refuted* if another completion, submission or registration was seen; *verified* if
/// what was asked for was seen, under the settings that it needs, and the disk did all of the I/O and nothing
/// else; else *unproven*.
///
/// `evidence` is what was observed; only its settings and set-up are used here, which mean something only
/// together with the path. What was seen refutes even in doubt: flushes, discards and all I/O that can be
/// foreign are subtracted before [`observe`](crate::observe()) sees interrupts, and pollers of other rings
/// are not counted. If the generator ran as another process that nobody watched, its word is taken for a
/// submission by system call: only a submission poller could contradict it. Its word is not taken for a
/// submission poller, nor is that of an engine in this process.
pub fn judge(path: &IoPath, observed: &Observed, evidence: &Evidence) -> Verdict {
    let completion = compare(path.completion(), &observed.completion);
    let submission = compare(path.submission(), &observed.submission);
    let is_word_taken =
        evidence.engine.is_none() && evidence.rings.is_none() && path.submission() == Submission::Syscall;
    let mut against: Vec<String> = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    match completion {
        Comparison::AsAsked(what) => seen.push(format!("completion by {what} was seen")),
        Comparison::Other(reason) => against.push(reason),
        Comparison::Open(reason) => open.push(reason),
    }
    match submission {
        Comparison::AsAsked(what) => seen.push(format!("submission by {what} was seen")),
        Comparison::Other(reason) => against.push(reason),
        Comparison::Open(_) if is_word_taken => {
            seen.push(format!("submission by {} is reported only by the generator", Submission::Syscall))
        }
        Comparison::Open(reason) => open.push(reason),
    }
    against.extend(other_registration(path, evidence));
    open.extend(other_delay(path, evidence));
    open.extend(observed.doubt.clone());
    match (against.is_empty(), open.is_empty()) {
        (false, _) => Verdict { kind: VerdictKind::Refuted, reasons: [against, open].concat() },
        (true, false) => Verdict { kind: VerdictKind::Unproven, reasons: open },
        (true, true) => Verdict { kind: VerdictKind::Verified, reasons: seen },
    }
}

enum Comparison {
    AsAsked(String),
    Other(String),
    Open(String),
}

fn compare<T: PartialEq + Display>(asked: T, finding: &Finding<T>) -> Comparison {
    match finding {
        Finding::Seen(seen) if *seen == asked => Comparison::AsAsked(seen.to_string()),
        Finding::Seen(seen) => Comparison::Other(format!("asked for {asked}, seen {seen}")),
        Finding::Mixed(what) => Comparison::Other(format!("asked for {asked}, seen several: {what}")),
        Finding::Unclear(reason) => Comparison::Open(reason.clone()),
    }
}

/// A difference in the registration of buffers and file, if the engine says and the path can ask for it.
fn other_registration(path: &IoPath, evidence: &Evidence) -> Option<String> {
    let (ring, engine) = (path.ring()?, evidence.engine.as_ref()?);
    match (ring.registered, engine.registered) {
        (true, false) => {
            Some("asked for registered buffers and file, but they were not registered".to_owned())
        }
        (false, true) => Some("asked for plain buffers and file, but they were registered".to_owned()),
        _ => None,
    }
}

/// A disk whose `io_poll_delay` is not the path's. It governs the polling of every interface up to Linux 6.3,
/// and always reads -1 since then, which is what all paths but `posix-sio`'s hybrid want.
fn other_delay(path: &IoPath, evidence: &Evidence) -> Option<String> {
    let wanted = path.io_poll_delay()?.to_string();
    evidence.devices.iter().find_map(|disk| {
        let found = disk.settings.get("io_poll_delay").filter(|found| **found != wanted)?;
        let why = format!("`queue/io_poll_delay` of {} was {found} where {path} needs {wanted}", disk.name);
        Some(Remedy::PollDelay.after(why))
    })
}

/// [`observe`](crate::observe()) and [`judge`], with [`summary`] as the verdict's last reason.
pub fn assess(path: &IoPath, evidence: &Evidence) -> (Observed, Verdict) {
    let observed = observe(evidence);
    let mut verdict = judge(path, &observed, evidence);
    let figures = summary(evidence);
    if !figures.is_empty() {
        verdict.reasons.push(figures.join(", "));
    }
    (observed, verdict)
}
