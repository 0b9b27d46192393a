//! What evidence shows about submissions: by the engine's own counts, by the rings and threads of another
//! process, or by doorbell.

use crate::completion_by_interrupts::{ALL_SHARE, unclear};
use crate::doubt::SLACK_BYTES;
use crate::quantities::{Pollers, has_sqpolls, is_taken, ratio, running_sqpolls, sqpolls, text};
use crate::remedy::Remedy;
use iopj_core::evidence::{Evidence, Finding, RingEvidence, ThreadRole};
use iopj_core::path::{CompletionMode, Submission};

/// The most wake-ups per I/O of a submission poller that polls for entries.
pub const SQPOLL_WAKEUPS: f64 = 0.1;

/// Share of a poller's CPU time that may be in the kernel if it asks the kernel for nothing.
pub const KERNEL_SHARE: f64 = 0.25;
/// The least share of another process's I/Os that must be known to have been submitted in one way: looks
/// never cover all.
pub const KNOWN_SHARE: f64 = 0.5;
/// CPU time in the kernel that is attributed to the start and end of a generator that ran as a process of its
/// own and was not watched.
pub const START_KERNEL_NS: u64 = 300_000_000;

/// How I/Os were submitted, beside how completions were found.
pub(crate) fn submission(evidence: &Evidence, completion: &Finding<CompletionMode>) -> Finding<Submission> {
    if is_taken(evidence) {
        return by_doorbell(evidence, *completion == Finding::Seen(CompletionMode::Poll));
    }
    let Some(engine) = &evidence.engine else {
        return match &evidence.rings {
            Some(rings) => by_rings(evidence, rings, *completion == Finding::Seen(CompletionMode::Hybrid)),
            None => unclear(
                "how I/Os were submitted is reported only by the generator: it ran as another process",
                Remedy::NativeGenerator,
            ),
        };
    };
    if evidence.ios() == 0 {
        return unclear("no I/O was submitted", Remedy::MeasureLonger);
    }
    if engine.routes.is_some() {
        return by_several(evidence, engine.submit_calls);
    }
    let has_run = running_sqpolls(evidence).next().is_some();
    match (has_sqpolls(engine), engine.submit_calls) {
        (true, 0) if !has_run => {
            unclear("the ring has a submission poller, but none was seen to run", Remedy::MeasureLonger)
        }
        (true, 0) if ratio(engine.wakeups, evidence.ios()) > SQPOLL_WAKEUPS => unclear(
            format!(
                "the submission poller had to be woken {} times per I/O: it was asleep when I/Os came, and \
                 did not poll for them",
                text(ratio(engine.wakeups, evidence.ios()))
            ),
            Remedy::BusyPoller,
        ),
        (true, 0) => Finding::Seen(Submission::Sqpoll),
        (true, calls) => unclear(
            format!("the ring has a submission poller, yet {calls} system calls submitted I/O"),
            Remedy::Report,
        ),
        (false, 0) => {
            unclear("neither a submitting system call nor a submission poller was seen", Remedy::Report)
        }
        (false, _) => Finding::Seen(Submission::Syscall),
    }
}

/// How the I/Os of an engine that chooses its way reached the kernel: by system calls, by a submission
/// poller, or by both in turn.
fn by_several(evidence: &Evidence, submit_calls: u64) -> Finding<Submission> {
    let pollers = sqpolls(evidence).filter(|thread| thread.cpu_ns > 0).count();
    match (pollers, submit_calls) {
        (0, 0) => {
            unclear("neither a submitting system call nor a submission poller was seen", Remedy::Report)
        }
        (0, _) => Finding::Seen(Submission::Syscall),
        (_, 0) => Finding::Seen(Submission::Sqpoll),
        (pollers, calls) => {
            Finding::Mixed(format!("{calls} system calls submitted, and {pollers} submission pollers ran"))
        }
    }
}

/// How another process's I/Os reached the kernel, by its rings and threads; `slept` if its pollers slept
/// before they looked for completions.
fn by_rings(evidence: &Evidence, rings: &[RingEvidence], slept: bool) -> Finding<Submission> {
    if evidence.ios() == 0 {
        return unclear("no I/O was submitted", Remedy::MeasureLonger);
    }
    // A ring that is locked whenever it is read does not name its poller, which still runs.
    let named = rings.iter().filter(|ring| ring.poller.is_some()).count();
    let polled = named.max(sqpolls(evidence).count().min(rings.len()));
    let too_few = |share: f64, who: &str| {
        let why = format!("{who} are known to have submitted only {:.0} % of the I/Os", 100.0 * share);
        unclear(why, Remedy::MeasureLonger)
    };
    let by_threads = [ThreadRole::Job, ThreadRole::AioHelper];
    if polled == 0 {
        if sqpolls(evidence).next().is_some() {
            let why = "a submission poller ran in the generator's process, but none of its rings was seen";
            return unclear(why, Remedy::MeasureLonger);
        }
        // Without a submission poller the rest had no other way either.
        let share = Known::entries(evidence, rings).share.max(Known::bytes(evidence, &by_threads).share);
        return if share >= KNOWN_SHARE {
            Finding::Seen(Submission::Syscall)
        } else {
            too_few(share, "system calls")
        };
    }
    if polled < rings.len() {
        let others = rings.len() - polled;
        let why = format!("{polled} of the rings have a submission poller, and {others} have none");
        return unclear(why, Remedy::MeasureLonger);
    }
    if running_sqpolls(evidence).next().is_none() {
        return unclear("the rings have submission pollers, but none was seen to run", Remedy::MeasureLonger);
    }
    let sleeps = ratio(Pollers::of(evidence).sleeps.least, evidence.ios());
    if sleeps > SQPOLL_WAKEUPS && !slept {
        let why = format!(
            "the submission pollers slept {} times per I/O: they did not poll for I/Os",
            text(sleeps)
        );
        return unclear(why, Remedy::BusyPoller);
    }
    let beside = handed_over(evidence, &by_threads).saturating_sub(SLACK_BYTES);
    if ratio(beside, evidence.bytes()) > 1.0 - ALL_SHARE {
        let share = 100.0 * ratio(beside, evidence.bytes());
        let why = format!(
            "{share:.0} % of the bytes were handed over by system calls, beside the submission pollers"
        );
        return unclear(why, Remedy::NativeGenerator);
    }
    let known = [Known::entries(evidence, rings), Known::bytes(evidence, &[ThreadRole::Sqpoll])];
    if known.iter().any(Known::is_all) {
        return Finding::Seen(Submission::Sqpoll);
    }
    too_few(known[0].share.max(known[1].share), "submission pollers")
}

/// What was seen of I/O that another process handed to the kernel.
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

    /// By the bytes that threads of these roles handed to the block layer. A worker of the kernel serves
    /// either way.
    fn bytes(evidence: &Evidence, roles: &[ThreadRole]) -> Known {
        let threads = evidence.threads.iter().filter(|thread| roles.contains(&thread.role));
        let over_ns: Vec<Option<u64>> = threads.map(|thread| thread.over_ns).collect();
        Known {
            share: ratio(handed_over(evidence, roles), evidence.bytes()),
            covered: covered(evidence, &over_ns),
        }
    }

    /// True if it is as much as the looks can have seen: I/Os come up to twice as often in one part of the
    /// window as in the whole.
    fn is_all(&self) -> bool {
        self.share > (ALL_SHARE - 2.0 * (1.0 - self.covered)).max(KNOWN_SHARE)
    }
}

/// The part of the window that the looks cover, over all rings or threads: each up to its last look, nothing
/// for one without a look. All of it for a store that does not record it.
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

/// No driver of the kernel had the device, so only its owner can have submitted; it remains to check that a
/// thread that polled all the time asked the kernel for nothing.
pub(crate) fn by_doorbell(evidence: &Evidence, polled: bool) -> Finding<Submission> {
    if evidence.ios() == 0 {
        return unclear("no I/O was submitted", Remedy::MeasureLonger);
    }
    let engine = evidence.engine.as_ref();
    if let Some(calls) = engine.map(|engine| engine.submit_calls).filter(|calls| *calls > 0) {
        let why = format!("the device was taken from the kernel, yet {calls} system calls submitted I/O");
        return unclear(why, Remedy::Report);
    }
    if !polled {
        return Finding::Seen(Submission::Doorbell);
    }
    if let Some(calls) = engine.and_then(|engine| engine.system_calls).filter(|calls| *calls > 0) {
        let why =
            format!("{calls} system calls were made in the window, where polling the device needs none");
        return unclear(why, Remedy::Report);
    }
    let (user, kernel) = (evidence.process.user_ns, evidence.process.system_ns);
    let is_of_window = engine.is_some() || evidence.rings.is_some();
    let kernel = if is_of_window { kernel } else { kernel.saturating_sub(START_KERNEL_NS) };
    let share = ratio(kernel, user.saturating_add(kernel));
    if share > KERNEL_SHARE {
        let share = 100.0 * share;
        let why =
            format!("{share:.0} % of the CPU time was the kernel's, which polling the device does not need");
        return unclear(why, Remedy::OwnCores);
    }
    Finding::Seen(Submission::Doorbell)
}
