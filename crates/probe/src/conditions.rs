//! Under which conditions a trial ran, by its evidence. Pure, and separate from the verdict: which path was
//! taken does not matter here, only whether the one asked for spins.

use crate::quantities::{POLL_SLEEPS, per_window_round, ratio, running_sqpolls, sqpolls};
use iopj_core::evidence::{Evidence, OthersEvidence, ThreadEvidence, ThreadRole};
use iopj_core::path::{CompletionMode, IoPath, Submission};
use iopj_core::{Conditions, Disturbance, Spinner, Way};

/// Share of all cores' time that other processes or a hypervisor may take.
pub const DISTURBED_SHARE: f64 = 0.02;
/// The most cores that other processes may use, however many there are: an energy meter sees each of them.
pub const DISTURBED_CORES: f64 = 0.5;
/// CPU time, in clock ticks, by which the counts may be off at the ends of a window.
pub const TICKS_SLACK_NS: u64 = 30_000_000;
/// Standard deviations of a count of ticks that a share must exceed if it is known only by ticks.
pub const TICKS_DEVIATIONS: f64 = 3.0;
/// Share of the window that a thread which spins may wait for a core. On an idle machine it waits for 0.4 to
/// 1.6 %.
pub const STARVED_SHARE: f64 = 0.05;
/// How long a thread that slept may wait for a core before it runs, each time: an idle core takes 0.4 to 11
/// us.
pub const WAKE_NS: u64 = 20_000;
/// Share of the window from which on a thread was busy.
pub const BUSY_SHARE: f64 = 0.05;

/// Length of a tick of `/proc/stat`.
const TICK_NS: f64 = 10_000_000.0;

/// What disturbed the trial of `path` with this evidence, and whether its spinning threads had their cores.
pub fn conditions(path: &IoPath, evidence: &Evidence) -> Conditions {
    let throttled =
        evidence.throttles.filter(|times| *times > 0).map(|times| Disturbance::Throttled { times });
    let changed = evidence.power_changes.iter().cloned().map(Disturbance::Changed);
    let found = others(evidence).into_iter().chain(stolen(evidence)).chain(throttled);
    let spins = match evidence.engine.as_ref().and_then(|engine| engine.routes.as_ref()) {
        // An engine that mostly takes ways that spin.
        Some(routes) => 2 * routes.ios_by(Way::spins) > routes.ios(),
        None => path.submission() == Submission::Sqpoll || path.completion() != CompletionMode::Interrupt,
    };
    let spinner = if spins { spinner(evidence) } else { None };
    Conditions { disturbances: found.chain(changed).collect(), spinner }
}

/// The thread that waited longest for a core, of those that spin or work for one that does.
fn spinner(evidence: &Evidence) -> Option<Spinner> {
    let jobs = evidence.threads.iter().filter(|thread| thread.role == ThreadRole::Job);
    // Those of an engine that chooses run at times, so only the kernel knows how long they waited.
    let chooses = evidence.engine.as_ref().is_some_and(|engine| engine.routes.is_some());
    let in_turn =
        sqpolls(evidence).filter(|thread| chooses && thread.cpu_ns > 0 && thread.waited_ns.is_some());
    let pollers = running_sqpolls(evidence).chain(in_turn);
    let shares = pollers.chain(jobs).filter_map(|thread| shares(evidence, thread));
    let longest = shares.max_by(|a, b| a.beyond.total_cmp(&b.beyond))?;
    let busy = evidence.threads.iter().filter(|thread| {
        let ran = thread.in_window(thread.cpu_ns, evidence.window_ns);
        thread.tid != longest.thread.tid && ratio(ran, evidence.window_ns) >= BUSY_SHARE
    });
    Some(Spinner {
        role: longest.thread.role,
        ran: longest.ran,
        waited: longest.waited,
        cores: evidence.allowed_cpus.unwrap_or(evidence.cpu.cores),
        busy_threads: u32::try_from(busy.count()).unwrap_or(u32::MAX),
        others: evidence.others.as_ref().map(|others| ratio(others.processes_ns, others.over_ns)),
        starved: longest.beyond > STARVED_SHARE,
    })
}

/// Shares of the window that a thread ran and waited for a core.
struct Shares<'a> {
    thread: &'a ThreadEvidence,
    ran: f64,
    waited: f64,
    /// That part of the wait which nothing but the lack of a core explains.
    beyond: f64,
}

/// The shares of a thread, if they are known. A thread that never sleeps either runs or waits, so what it ran
/// tells what it waited where the kernel does not count that.
fn shares<'a>(evidence: &Evidence, thread: &'a ThreadEvidence) -> Option<Shares<'a>> {
    let window_ns = evidence.window_ns;
    let in_window = |count| thread.in_window(count, window_ns);
    let (ran_ns, sleeps) = (in_window(thread.cpu_ns), in_window(thread.voluntary_switches));
    let never_slept =
        || per_window_round(evidence, sleeps.saturating_mul(evidence.numjobs.into())) < POLL_SLEEPS;
    let (waited_ns, slack_ns) = match thread.waited_ns {
        Some(waited_ns) => (in_window(waited_ns), sleeps.saturating_mul(WAKE_NS)),
        None if never_slept() => (window_ns.saturating_sub(ran_ns), TICKS_SLACK_NS),
        None => return None,
    };
    let beyond = ratio(waited_ns.saturating_sub(slack_ns), window_ns);
    // The counts are read a moment before and after the window, so both may be a little too large.
    let ran = ratio(ran_ns, window_ns).min(1.0);
    Some(Shares { thread, ran, waited: ratio(waited_ns, window_ns).min(1.0 - ran), beyond })
}

fn others(evidence: &Evidence) -> Option<Disturbance> {
    let (cores, allowed) = match &evidence.others {
        Some(others) => seen(evidence, others),
        None => by_ticks(evidence)?,
    };
    (cores > allowed).then_some(Disturbance::Others { cores, allowed })
}

/// Cores that other processes used, and may use. The kernel's threads do not count: they may have worked for
/// the trial.
fn seen(evidence: &Evidence, others: &OthersEvidence) -> (f64, f64) {
    let slack = ratio(TICKS_SLACK_NS, others.over_ns);
    (ratio(others.processes_ns, others.over_ns), allowed_cores(evidence) + slack)
}

/// The same if the other processes cannot be seen: time in user space that was not the trial's. It is counted
/// by ticks, each charged to the process that it hits, so a share of it is known as precisely as a share of
/// that many coin tosses.
fn by_ticks(evidence: &Evidence) -> Option<(f64, f64)> {
    let (cpu, total_ns) = (&evidence.cpu, evidence.cpu.total_ns());
    let over_ns = total_ns / u64::from(cpu.cores.max(1));
    if over_ns == 0 {
        return None;
    }
    let ours_ns = evidence.process.user_ns.saturating_add(evidence.corunner_ns.unwrap_or(0));
    let theirs_ns = cpu.user_ns.saturating_sub(ours_ns);
    let deviation_ns = 0.5 * (total_ns as f64 / TICK_NS).sqrt() * TICK_NS;
    let slack = (TICKS_DEVIATIONS * deviation_ns + TICKS_SLACK_NS as f64) / over_ns as f64;
    Some((ratio(theirs_ns, over_ns), allowed_cores(evidence) + slack))
}

fn allowed_cores(evidence: &Evidence) -> f64 {
    (DISTURBED_SHARE * f64::from(evidence.cpu.cores.max(1))).min(DISTURBED_CORES)
}

fn stolen(evidence: &Evidence) -> Option<Disturbance> {
    let total_ns = evidence.cpu.total_ns();
    let beyond_ns = evidence.cpu.steal_ns.saturating_sub(TICKS_SLACK_NS);
    let share = ratio(evidence.cpu.steal_ns, total_ns);
    (ratio(beyond_ns, total_ns) > DISTURBED_SHARE).then_some(Disturbance::Stolen { share })
}
