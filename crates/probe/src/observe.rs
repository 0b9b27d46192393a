//! What evidence shows to have happened, found without knowing what was asked.
//!
//! A property is seen only where the figures leave no other explanation; what the reasons below
//! call foreign, missing or split is explained in `docs/verdicts.md`.

use crate::figures::{Done, Pollers, interrupts, ratio, running_sqpolls, text};
use iopj_core::evidence::{ControlRun, DeviceEvidence, Evidence, Finding, Observed};
use iopj_core::path::{Completion, Submission};

/// Interrupts per I/O above which the device completed by interrupt. A batch of completions
/// shares one interrupt, so that deep queues have less than one; 1 in 100 I/Os is less than any
/// batch, and more than stray interrupts.
pub const NO_INTERRUPT: f64 = 0.01;
/// Interrupts per read of the control run from which on the device is known to interrupt.
pub const CONTROL_INTERRUPTS: f64 = 0.5;
/// Share of the window that a poller must spend on a CPU to have polled all the time.
pub const POLL_BUSY: f64 = 0.85;
/// Sleeps per round (an I/O of each that a job keeps in flight) below which the poller did not sleep.
pub const POLL_SLEEPS: f64 = 0.02;
/// Sleeps per round from which on the poller slept before it polled. Between the two nothing is seen.
pub const HYBRID_SLEEPS: f64 = 0.1;
/// Submitting system calls per I/O above which a submission poller was not what took the I/Os.
pub const SQPOLL_SUBMIT_CALLS: f64 = 0.5;
/// Share of the issued I/Os or bytes that the disks may have left undone.
pub const MISSING_SHARE: f64 = 0.001;
/// Share of the issued I/Os or bytes that the disks may have done beyond them.
pub const FOREIGN_SHARE: f64 = 0.01;
/// I/Os that the disks may have done beyond [`FOREIGN_SHARE`]: in a short window one commit of a
/// journal is more than a share of it.
pub const SLACK_IOS: u64 = 16;
/// Bytes that the disks may have done beyond [`FOREIGN_SHARE`].
pub const SLACK_BYTES: u64 = 1 << 20;

/// What the evidence shows, by the thresholds of this module.
pub fn observe(evidence: &Evidence) -> Observed {
    Observed { completion: completion(evidence), submission: submission(evidence), doubt: doubt(evidence) }
}

fn unclear<T>(reason: impl Into<String>) -> Finding<T> {
    Finding::Unclear(reason.into())
}

fn completion(evidence: &Evidence) -> Finding<Completion> {
    if evidence.ios == 0 || evidence.devices.is_empty() {
        return unclear("no I/O on a known disk, so nothing shows how completions were found");
    }
    if let Some(disk) = uncounted(evidence) {
        return unclear(format!(
            "the interrupts cannot be held against I/Os: `queue/iostats` of {disk} is 0, set it to 1"
        ));
    }
    let interrupts = match interrupts(evidence) {
        Ok(interrupts) => interrupts,
        Err(name) => return unclear(untold(evidence, name)),
    };
    let per_io = ratio(interrupts, evidence.ios);
    if per_io > NO_INTERRUPT {
        let own = interrupts.saturating_sub(foreign_at_most(evidence));
        if ratio(own, evidence.ios) > NO_INTERRUPT {
            return Finding::Seen(Completion::Interrupt);
        }
        let per_io = text(per_io);
        return unclear(format!("all of the {per_io} interrupts per I/O can be those of foreign I/O on the same disk"));
    }
    if is_missing(evidence) {
        return unclear("I/Os that never reached the disk say nothing about its completions");
    }
    if let Err(reason) = interrupts_otherwise(evidence.control) {
        return unclear(format!("{} interrupts per I/O, but {reason}", text(per_io)));
    }
    by_sleeps(evidence)
}

/// Completions without interrupt: who looked for them slept, or did not.
fn by_sleeps(evidence: &Evidence) -> Finding<Completion> {
    let pollers = Pollers::of(evidence);
    if pollers.count == 0 {
        return unclear("no interrupt, but no thread is known to have looked for completions");
    }
    let per_round = ratio(pollers.sleeps, evidence.ios) * f64::from(evidence.iodepth.max(1));
    if per_round >= HYBRID_SLEEPS {
        return Finding::Seen(Completion::Hybrid);
    }
    if per_round >= POLL_SLEEPS {
        let per_round = text(per_round);
        return unclear(format!(
            "no interrupt, and {per_round} sleeps per round are too many for poll and too few for hybrid"
        ));
    }
    let busy = pollers.busy(evidence.window_ns);
    if busy >= POLL_BUSY {
        return Finding::Seen(Completion::Poll);
    }
    unclear(format!(
        "no interrupt and no sleep, but the poller had a CPU for only {:.0} % of the window: leave each poller a core of its own",
        100.0 * busy
    ))
}

/// Whether the control run showed that the device interrupts when nobody polls.
fn interrupts_otherwise(control: Option<ControlRun>) -> Result<(), &'static str> {
    match control {
        None => Err("no control run shows that the device interrupts otherwise"),
        Some(ControlRun { device_reads: 0, .. }) => Err("the control run's reads never reached the device"),
        Some(ControlRun { interrupts: None, .. }) => Err("the control run could not tell the device's interrupts"),
        Some(ControlRun { interrupts: Some(interrupts), device_reads, .. }) => {
            let enough = ratio(interrupts, device_reads) >= CONTROL_INTERRUPTS;
            enough.then_some(()).ok_or("the device did not interrupt in the control run either")
        }
    }
}

fn untold(evidence: &Evidence, name: &str) -> String {
    let shares = evidence.devices.iter().any(|device| device.name == name && !device.vectors.is_empty());
    let why = if shares {
        "other disks on the same controller did I/O meanwhile"
    } else {
        "it has no interrupt vector of its own"
    };
    format!("the interrupts of {name} cannot be told: {why}")
}

fn submission(evidence: &Evidence) -> Finding<Submission> {
    let Some(engine) = &evidence.engine else {
        return unclear("how I/Os were submitted is the generator's own word: it ran as another process");
    };
    if evidence.ios == 0 {
        return unclear("no I/O was submitted");
    }
    let calls = engine.submit_calls;
    if running_sqpolls(evidence).next().is_some() && ratio(calls, evidence.ios) < SQPOLL_SUBMIT_CALLS {
        return Finding::Seen(Submission::Sqpoll);
    }
    if calls > 0 {
        return Finding::Seen(Submission::Syscall);
    }
    unclear("neither a submitting system call nor a submission poller was seen")
}

/// A disk that does not count its I/Os.
fn uncounted(evidence: &Evidence) -> Option<&str> {
    let is_off = |device: &&DeviceEvidence| device.settings.get("iostats").is_some_and(|on| on == "0");
    evidence.devices.iter().find(is_off).map(|device| device.name.as_str())
}

/// True if the disks moved fewer bytes than were asked for.
fn is_missing(evidence: &Evidence) -> bool {
    let missing = evidence.bytes.saturating_sub(Done::of(evidence).bytes());
    missing as f64 > MISSING_SHARE * evidence.bytes as f64
}

/// An upper bound of the I/Os that others did on the disks, each good for one interrupt. Each of
/// them moves a sector at least, so that own I/Os which were split are not taken for foreign ones.
fn foreign_at_most(evidence: &Evidence) -> u64 {
    let done = Done::of(evidence);
    if is_missing(evidence) {
        return done.ios;
    }
    done.ios.saturating_sub(evidence.ios).min(done.excess_sectors(evidence.bytes))
}

fn doubt(evidence: &Evidence) -> Option<String> {
    if evidence.devices.is_empty() {
        return Some("no disk under the target is known, so nothing shows that the I/O reached one".into());
    }
    if evidence.ios == 0 {
        return Some("no I/O was issued in the window".into());
    }
    if let Some(disk) = uncounted(evidence) {
        return Some(format!("{disk} does not count its I/Os: set its `queue/iostats` to 1"));
    }
    let done = Done::of(evidence);
    let what = too_few(evidence, &done).or_else(|| too_many(evidence, &done))?;
    Some(format!(
        "the disk did {} I/Os of {} bytes where {} of {} bytes were issued: {what}",
        done.ios,
        done.bytes(),
        evidence.ios,
        evidence.bytes
    ))
}

fn too_few(evidence: &Evidence, done: &Done) -> Option<String> {
    if is_missing(evidence) {
        return Some("a cache or a hole answered, I/Os failed, or they were passed through uncounted".into());
    }
    let missing = evidence.ios.saturating_sub(done.ios);
    (missing as f64 > MISSING_SHARE * evidence.ios as f64).then(|| format!("I/Os were merged ({} merges)", done.merges))
}

fn too_many(evidence: &Evidence, done: &Done) -> Option<String> {
    let is_beyond = |done: u64, issued: u64, slack: u64| {
        done.saturating_sub(issued) as f64 > FOREIGN_SHARE * issued as f64 + slack as f64
    };
    if is_beyond(done.bytes(), evidence.bytes, SLACK_BYTES) {
        return Some("others used the disk meanwhile".into());
    }
    if !is_beyond(done.ios, evidence.ios, SLACK_IOS) {
        return None;
    }
    let excess = done.ios - evidence.ios;
    let is_split = done.excess_sectors(evidence.bytes) < excess;
    Some(if is_split { "I/Os were split" } else { "others used the disk meanwhile" }.into())
}
