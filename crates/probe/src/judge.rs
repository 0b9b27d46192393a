//! An observation held against the path that was asked for.

use crate::figures::summary;
use crate::observe::observe;
use iopj_core::evidence::{Evidence, Finding, Observed, Verdict, VerdictKind};
use iopj_core::path::{IoPath, Submission};
use std::fmt::Display;

/// The verdict on `path`: *refuted* if another completion or submission was seen, *verified* if
/// what was asked for was seen and the disk did the I/O, all of it and nothing else, else *unproven*.
///
/// What was seen refutes even in doubt, because [`observe`](crate::observe()) sees nothing that the
/// doubt could explain. A submission by system call is taken on the generator's word where
/// nothing shows it: only a submission poller could contradict it. A submission poller is not.
pub fn judge(path: &IoPath, observed: &Observed) -> Verdict {
    let completion = compare(path.completion(), &observed.completion);
    let submission = compare(path.submission(), &observed.submission);
    let mut against: Vec<String> = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for (name, outcome) in [("completion", completion), ("submission", submission)] {
        match outcome {
            Outcome::AsAsked(what) => seen.push(format!("{name} by {what} was seen")),
            Outcome::Other(reason) => against.push(reason),
            Outcome::Open(reason) if name == "submission" && path.submission() == Submission::Syscall => {
                seen.push(format!("{name} by {}: {reason}", Submission::Syscall));
            }
            Outcome::Open(reason) => open.push(reason),
        }
    }
    open.extend(observed.doubt.clone());
    match (against.is_empty(), open.is_empty()) {
        (false, _) => Verdict { kind: VerdictKind::Refuted, reasons: [against, open].concat() },
        (true, false) => Verdict { kind: VerdictKind::Unproven, reasons: open },
        (true, true) => Verdict { kind: VerdictKind::Verified, reasons: seen },
    }
}

enum Outcome {
    AsAsked(String),
    Other(String),
    Open(String),
}

fn compare<T: PartialEq + Display>(asked: T, finding: &Finding<T>) -> Outcome {
    match finding {
        Finding::Seen(seen) if *seen == asked => Outcome::AsAsked(seen.to_string()),
        Finding::Seen(seen) => Outcome::Other(format!("asked for {asked}, seen {seen}")),
        Finding::Unclear(reason) => Outcome::Open(reason.clone()),
    }
}

/// [`observe`](crate::observe()) and [`judge`], the figures of [`summary`] as the verdict's last reason.
pub fn assess(path: &IoPath, evidence: &Evidence) -> (Observed, Verdict) {
    let observed = observe(evidence);
    let mut verdict = judge(path, &observed);
    let figures = summary(evidence);
    if !figures.is_empty() {
        verdict.reasons.push(figures.join(", "));
    }
    (observed, verdict)
}
