//! Under which conditions a trial ran, by its evidence. Pure, and separate from the verdict: which path was
//! taken does not matter here.

use crate::quantities::ratio;
use iopj_core::evidence::{Evidence, OthersEvidence};
use iopj_core::{Conditions, Disturbance};

/// Share of all cores' time that other processes or a hypervisor may take.
pub const DISTURBED_SHARE: f64 = 0.02;
/// The most cores that other processes may use, however many there are: an energy meter sees each of them.
pub const DISTURBED_CORES: f64 = 0.5;
/// CPU time, in clock ticks, by which the counts may be off at the ends of a window.
pub const TICKS_SLACK_NS: u64 = 30_000_000;
/// Standard deviations of a count of ticks that a share must exceed if it is known only by ticks.
pub const TICKS_DEVIATIONS: f64 = 3.0;

/// Length of a tick of `/proc/stat`.
const TICK_NS: f64 = 10_000_000.0;

/// What disturbed the trial with this evidence.
pub fn conditions(evidence: &Evidence) -> Conditions {
    let throttled =
        evidence.throttles.filter(|times| *times > 0).map(|times| Disturbance::Throttled { times });
    let changed = evidence.power_changes.iter().cloned().map(Disturbance::Changed);
    let found = others(evidence).into_iter().chain(stolen(evidence)).chain(throttled);
    Conditions { disturbances: found.chain(changed).collect() }
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
    let theirs_ns = cpu.user_ns.saturating_sub(evidence.process.user_ns);
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
