//! What evidence shows to have happened, found without knowing what was asked.
//!
//! A property is seen only where the figures leave no other explanation; what the reasons below
//! call foreign, missing or split is explained in `docs/verdicts.md`.

use crate::counted::{by_counts, told};
use crate::doubt::{SLACK_BYTES, doubt, uncounted};
use crate::figures::{
    Direction, HYBRID_SLEEPS, Pollers, foreign_at_most, has_sqpolls, in_flight, in_flight_per_vector,
    interrupts, is_taken, per_round, ratio, running_sqpolls, sqpolls, text,
};
use iopj_core::evidence::{ControlRun, Evidence, Finding, Observed, RingEvidence, ThreadRole};
use iopj_core::path::{Completion, Submission};

/// Share of the I/Os that interrupts can have completed up to which there was no interrupt. One
/// interrupt can complete all that is in flight, so n of them n times `iodepth` times `numjobs` I/Os.
pub const NO_INTERRUPT: f64 = 0.01;
/// Interrupts that are taken for stray ones whatever the share, as long as it is no more than
/// [`STRAY_SHARE`].
pub const STRAY_INTERRUPTS: u64 = 2;
/// Share of the I/Os that [`STRAY_INTERRUPTS`] can have completed at most.
pub const STRAY_SHARE: f64 = 0.1;
/// Share of the I/Os that interrupts of their own must be able to have completed for completion by interrupt.
/// It is all that is asked where how the jobs are spread over the vectors is not known, or the device is
/// taken: its owner finds completions whose interrupts are still under way.
pub const INTERRUPT_SHARE: f64 = 0.5;
/// Share of the I/Os above which something stands for all of them: what interrupts can have completed, what
/// submission pollers took.
pub const ALL_SHARE: f64 = 0.95;
/// Interrupts per read of the control run from which on the device is known to interrupt.
pub const CONTROL_INTERRUPTS: f64 = 0.5;

/// Wake-ups per I/O of a submission poller that polls for entries, at most.
pub const SQPOLL_WAKEUPS: f64 = 0.1;

/// Share of the CPU time that the kernel may have of a poller who asks it for nothing.
pub const KERNEL_SHARE: f64 = 0.25;
/// Share of the I/Os of another process that must be known to have been submitted in one way, at the least:
/// no look at it covers all.
pub const KNOWN_SHARE: f64 = 0.5;
/// CPU time in the kernel that is taken for the start and the end of a generator that ran as a process of its
/// own and was not watched.
pub const START_KERNEL_NS: u64 = 300_000_000;

/// What the evidence shows, by the thresholds of this module.
pub fn observe(evidence: &Evidence) -> Observed {
    let completion = completion(evidence);
    Observed { submission: submission(evidence, &completion), completion, doubt: doubt(evidence) }
}

pub(crate) fn unclear<T>(reason: impl Into<String>) -> Finding<T> {
    Finding::Unclear(reason.into())
}

fn completion(evidence: &Evidence) -> Finding<Completion> {
    if evidence.ios() == 0 || evidence.devices.is_empty() {
        return unclear("no I/O on a known disk, so nothing shows how completions were found");
    }
    if let Some(disk) = uncounted(evidence) {
        return unclear(format!(
            "the interrupts cannot be held against I/Os: `queue/iostats` of {disk} is 0, set it to 1"
        ));
    }
    if let Some(Finding::Seen(counts)) = &evidence.completions {
        if let Some(finding) = by_counts(evidence, counts) {
            return finding;
        }
        if counts.total() > 0 {
            return unclear(format!(
                "{}: a cache, a hole or merges kept the others from the disk",
                told(counts)
            ));
        }
    }
    by_vectors(evidence)
}

/// What the interrupts of the disks' vectors show: all that there is where completions are not counted one by
/// one.
fn by_vectors(evidence: &Evidence) -> Finding<Completion> {
    let interrupts = match interrupts(evidence) {
        Ok(interrupts) => interrupts,
        Err(name) => return unclear(untold(evidence, name)),
    };
    if !is_none(evidence, interrupts) {
        return by_interrupts(evidence, interrupts);
    }
    if Direction::both(evidence).iter().any(Direction::is_missing) {
        return unclear("I/Os that never reached the disk say nothing about its completions");
    }
    if let Err(reason) = interrupts_otherwise(evidence.control) {
        return unclear(format!(
            "{} interrupts per I/O, but {reason}",
            text(ratio(interrupts, evidence.ios()))
        ));
    }
    by_sleeps(evidence)
}

/// True if so many interrupts cannot have completed the I/Os.
pub(crate) fn is_none(evidence: &Evidence, interrupts: u64) -> bool {
    let share = ratio(interrupts.saturating_mul(in_flight(evidence)), evidence.ios());
    share <= NO_INTERRUPT || (interrupts <= STRAY_INTERRUPTS && share <= STRAY_SHARE)
}

/// Interrupts enough for the I/Os, beyond those that foreign I/O explains; or else too few and too many.
fn by_interrupts(evidence: &Evidence, interrupts: u64) -> Finding<Completion> {
    let own = interrupts.saturating_sub(foreign_at_most(evidence));
    let at_once = in_flight_per_vector(evidence);
    if own > STRAY_INTERRUPTS && can_be_all(evidence, [interrupts, own], [1.0, 1.0]) {
        return Finding::Seen(Completion::Interrupt);
    }
    let per_io = text(ratio(interrupts, evidence.ios()));
    if is_none(evidence, own) {
        return unclear(format!(
            "all of the {per_io} interrupts per I/O can be those of foreign I/O on the same disk"
        ));
    }
    unclear(format!(
        "{per_io} interrupts per I/O, {} without those of foreign I/O, at up to {at_once} I/Os in flight on \
         a vector are too many for none and too few for all I/Os",
        text(ratio(own, evidence.ios())),
    ))
}

/// True if so many interrupts can have completed all I/Os, each so many as are in flight on a vector, or as
/// many as where all were completed so (`known`, per I/O). `own` are those that foreign I/O cannot explain;
/// what can may have completed I/Os beside, or have had no interrupt.
pub(crate) fn can_be_all(evidence: &Evidence, [interrupts, own]: [u64; 2], known: [f64; 2]) -> bool {
    let at_once = in_flight_per_vector(evidence);
    let completed = |interrupts: u64| ratio(interrupts.saturating_mul(at_once), evidence.ios());
    let [all, all_own] = known.map(|per_io| (per_io * at_once as f64).min(1.0));
    let is_bound_known = !is_taken(evidence) && at_once == in_flight(evidence);
    completed(own) >= INTERRUPT_SHARE * all_own
        && (!is_bound_known || completed(interrupts) > ALL_SHARE * all)
}

/// Completions without interrupt: who looked for them never slept, or did. What a sleep was for shows only
/// where nobody but the generator drives the device.
fn by_sleeps(evidence: &Evidence) -> Finding<Completion> {
    let pollers = Pollers::of(evidence);
    let sleeps = per_round(evidence, pollers.sleeps.least, evidence.ios());
    if sleeps >= HYBRID_SLEEPS && pollers.count > 0 {
        return match is_taken(evidence) {
            true => Finding::Seen(Completion::Hybrid),
            false => unclear(format!(
                "no interrupt, and {} sleeps per round: whether these were sleeps before each poll shows \
                 only where completions are counted",
                text(sleeps)
            )),
        };
    }
    pollers.polled(evidence).map_or_else(unclear, |()| Finding::Seen(Completion::Poll))
}

/// Whether the control run showed that the device interrupts when nobody polls.
pub(crate) fn interrupts_otherwise(control: Option<ControlRun>) -> Result<(), &'static str> {
    match control {
        None => Err("no control run shows that the device interrupts otherwise"),
        Some(ControlRun { completions: Some(counts), .. }) if counts.total() > 0 => {
            let enough = ratio(counts.by_interrupt(), counts.total()) >= CONTROL_INTERRUPTS;
            enough.then_some(()).ok_or("no interrupt completed the control run's reads either")
        }
        Some(ControlRun { device_reads: 0, .. }) => Err("the control run's reads never reached the device"),
        Some(ControlRun { interrupts: None, .. }) => {
            Err("the control run could not tell the device's interrupts")
        }
        Some(ControlRun { interrupts: Some(interrupts), device_reads, .. }) => {
            let enough = ratio(interrupts, device_reads) >= CONTROL_INTERRUPTS;
            enough.then_some(()).ok_or("the device did not interrupt in the control run either")
        }
    }
}

fn untold(evidence: &Evidence, name: &str) -> String {
    let shares = evidence.devices.iter().any(|device| device.name == name && !device.vectors.is_empty());
    let why = if shares {
        "other disks on the same controller did I/O meanwhile, or a vector or core came or went"
    } else {
        "it has no interrupt vector of its own"
    };
    format!("the interrupts of {name} cannot be told: {why}")
}

fn submission(evidence: &Evidence, completion: &Finding<Completion>) -> Finding<Submission> {
    if is_taken(evidence) {
        return by_doorbell(evidence, *completion == Finding::Seen(Completion::Poll));
    }
    let Some(engine) = &evidence.engine else {
        return match &evidence.rings {
            Some(rings) => by_rings(evidence, rings, *completion == Finding::Seen(Completion::Hybrid)),
            None => unclear("how I/Os were submitted is the generator's own word: it ran as another process"),
        };
    };
    if evidence.ios() == 0 {
        return unclear("no I/O was submitted");
    }
    let has_run = running_sqpolls(evidence).next().is_some();
    match (has_sqpolls(engine), engine.submit_calls) {
        (true, 0) if !has_run => unclear("the ring has a submission poller, but none was seen to run"),
        (true, 0) if ratio(engine.wakeups, evidence.ios()) > SQPOLL_WAKEUPS => unclear(format!(
            "the submission poller had to be woken {} times per I/O: it was asleep when I/Os came, and did \
             not poll for them",
            text(ratio(engine.wakeups, evidence.ios()))
        )),
        (true, 0) => Finding::Seen(Submission::Sqpoll),
        (true, calls) => {
            unclear(format!("the ring has a submission poller, yet {calls} system calls submitted I/O"))
        }
        (false, 0) => unclear("neither a submitting system call nor a submission poller was seen"),
        (false, _) => Finding::Seen(Submission::Syscall),
    }
}

/// What the rings and threads of another process show of who handed its I/Os to the kernel; `slept` where its
/// pollers slept before they looked for completions.
fn by_rings(evidence: &Evidence, rings: &[RingEvidence], slept: bool) -> Finding<Submission> {
    if evidence.ios() == 0 {
        return unclear("no I/O was submitted");
    }
    // A ring that is locked whenever it is asked does not name its poller, which runs all the same.
    let named = rings.iter().filter(|ring| ring.poller.is_some()).count();
    let polled = named.max(sqpolls(evidence).count().min(rings.len()));
    let told = |share: f64, who: &str| {
        unclear(format!(
            "{who} are known to have submitted only {:.0} % of the I/Os: measure longer",
            100.0 * share
        ))
    };
    let by_threads = [ThreadRole::Job, ThreadRole::AioHelper];
    if polled == 0 {
        if sqpolls(evidence).next().is_some() {
            return unclear(
                "a submission poller ran in the generator's process, but none of its rings was seen",
            );
        }
        // Where no submission poller is, the rest has no other way either.
        let share = Known::entries(evidence, rings).share.max(Known::bytes(evidence, &by_threads).share);
        return if share >= KNOWN_SHARE {
            Finding::Seen(Submission::Syscall)
        } else {
            told(share, "system calls")
        };
    }
    if polled < rings.len() {
        let others = rings.len() - polled;
        return unclear(format!("{polled} of the rings have a submission poller, and {others} have none"));
    }
    if running_sqpolls(evidence).next().is_none() {
        return unclear("the rings have submission pollers, but none was seen to run");
    }
    let sleeps = ratio(Pollers::of(evidence).sleeps.least, evidence.ios());
    if sleeps > SQPOLL_WAKEUPS && !slept {
        return unclear(format!(
            "the submission pollers slept {} times per I/O: they did not poll for I/Os",
            text(sleeps)
        ));
    }
    let beside = handed_over(evidence, &by_threads).saturating_sub(SLACK_BYTES);
    if ratio(beside, evidence.bytes()) > 1.0 - ALL_SHARE {
        let share = 100.0 * ratio(beside, evidence.bytes());
        return unclear(format!(
            "{share:.0} % of the bytes were handed over by system calls, beside the submission pollers"
        ));
    }
    let known = [Known::entries(evidence, rings), Known::bytes(evidence, &[ThreadRole::Sqpoll])];
    if known.iter().any(Known::is_all) {
        return Finding::Seen(Submission::Sqpoll);
    }
    told(known[0].share.max(known[1].share), "submission pollers")
}

/// What looks at another process have seen to be handed to the kernel.
struct Known {
    /// Of all I/Os.
    share: f64,
    /// The part of the window that the looks cover.
    covered: f64,
}

impl Known {
    /// By the entries that were taken off its rings.
    fn entries(evidence: &Evidence, rings: &[RingEvidence]) -> Known {
        let entries = rings.iter().filter_map(|ring| ring.entries).fold(0, u64::saturating_add);
        let over_ns: Vec<Option<u64>> = rings.iter().map(|ring| ring.over_ns).collect();
        Known { share: ratio(entries, evidence.ios()), covered: covered(evidence, &over_ns) }
    }

    /// By the bytes that threads of these roles handed to the block layer. A worker of the kernel works for
    /// either way.
    fn bytes(evidence: &Evidence, roles: &[ThreadRole]) -> Known {
        let threads = evidence.threads.iter().filter(|thread| roles.contains(&thread.role));
        let over_ns: Vec<Option<u64>> = threads.map(|thread| thread.over_ns).collect();
        Known {
            share: ratio(handed_over(evidence, roles), evidence.bytes()),
            covered: covered(evidence, &over_ns),
        }
    }

    /// True if it is all that the looks can have seen: I/Os come up to twice as often in one part of the
    /// window as in all of it.
    fn is_all(&self) -> bool {
        self.share > (ALL_SHARE - 2.0 * (1.0 - self.covered)).max(KNOWN_SHARE)
    }
}

/// The part of the window that the looks cover, of all rings or threads together: each up to its last look,
/// one that has none in no part. All of it in stores that do not say it of any.
fn covered(evidence: &Evidence, over_ns: &[Option<u64>]) -> f64 {
    if over_ns.iter().all(Option::is_none) {
        return 1.0;
    }
    let part =
        |over_ns: &Option<u64>| over_ns.map_or(0.0, |over_ns| ratio(over_ns, evidence.window_ns).min(1.0));
    over_ns.iter().map(part).sum::<f64>() / over_ns.len() as f64
}

/// Bytes that threads of these roles handed to the block layer.
fn handed_over(evidence: &Evidence, roles: &[ThreadRole]) -> u64 {
    let threads = evidence.threads.iter().filter(|thread| roles.contains(&thread.role));
    threads.filter_map(|thread| thread.block_bytes).fold(0, u64::saturating_add)
}

/// No driver of the kernel had the device, so that nobody but its owner can have submitted; what is left to
/// see is that who polled all the time asked the kernel for nothing.
fn by_doorbell(evidence: &Evidence, polled: bool) -> Finding<Submission> {
    if evidence.ios() == 0 {
        return unclear("no I/O was submitted");
    }
    let engine = evidence.engine.as_ref();
    if let Some(calls) = engine.map(|engine| engine.submit_calls).filter(|calls| *calls > 0) {
        return unclear(format!(
            "the device was taken from the kernel, yet {calls} system calls submitted I/O"
        ));
    }
    if !polled {
        return Finding::Seen(Submission::Doorbell);
    }
    if let Some(calls) = engine.and_then(|engine| engine.system_calls).filter(|calls| *calls > 0) {
        return unclear(format!(
            "{calls} system calls were made in the window, where who polls the device needs none"
        ));
    }
    let (user, kernel) = (evidence.process.user_ns, evidence.process.system_ns);
    let is_of_window = engine.is_some() || evidence.rings.is_some();
    let kernel = if is_of_window { kernel } else { kernel.saturating_sub(START_KERNEL_NS) };
    let share = ratio(kernel, user.saturating_add(kernel));
    if share > KERNEL_SHARE {
        return unclear(format!(
            "{:.0} % of the CPU time was the kernel's, which who polls the device has no need of",
            100.0 * share
        ));
    }
    Finding::Seen(Submission::Doorbell)
}
