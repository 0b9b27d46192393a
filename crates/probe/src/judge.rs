//! An observation compared with the path that was asked for.

use crate::comparison::{Comparison, compare, other_delay};
use crate::observe::observe;
use crate::quantities::summary;
use crate::routes::by_routes;
use iopj_core::evidence::{Evidence, Observed, Verdict, VerdictKind};
use iopj_core::path::{IoPath, Submission};

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
///
/// Of an engine that chose its way (`auto`), each way is judged by what was seen of it; the engine's word is
/// taken for how many I/Os went which way, and must agree with what was counted.
pub fn judge(path: &IoPath, observed: &Observed, evidence: &Evidence) -> Verdict {
    if let Some(rule) = path.auto() {
        return by_routes(rule, observed, evidence);
    }
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
