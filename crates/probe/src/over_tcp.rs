//! How completions were found over NVMe/TCP. What arrives while nobody polls is completed by a worker of the
//! kernel, on a polled queue too (drivers/nvme/host/tcp.c: `nvme_tcp_data_ready` queues the worker unless the
//! queue is being polled at that moment). So a polled trial has both kinds, and an interrupt-driven one has
//! the worker alone.

use crate::completion_by_counts::{
    HYBRID_TIMERS, MIXED_SHARE, POLL_TIMERS, TIMER_ROUNDS, slept, stray_timers,
};
use crate::completion_by_interrupts::{NEVER_REACHED, interrupts_otherwise, unclear};
use crate::quantities::{Direction, Pollers, per_round, text};
use crate::remedy::Remedy;
use iopj_core::Transport;
use iopj_core::evidence::{Completions, Evidence, Finding};
use iopj_core::path::CompletionMode;

/// Share of the completions that waiting threads must have made to show that they polled. Measured in the lab
/// (Linux 6.18, two guests, depth 1 to 32, 72 trials): 0 where interrupts were asked for, 0.70 to 1 for poll,
/// 0.25 to 1 for hybrid.
pub const TCP_POLLED_SHARE: f64 = 0.1;

/// What the counts of a pass over TCP show; `None` where the usual rules decide.
pub(crate) fn polled_over_tcp(evidence: &Evidence, counts: &Completions) -> Option<Finding<CompletionMode>> {
    let total = counts.total() as f64;
    let is_tcp = evidence.fabric.as_ref().is_some_and(|fabric| fabric.transport == Transport::Tcp);
    let others = counts.hard_interrupt.saturating_add(counts.soft_interrupt).saturating_add(counts.other);
    let polled = counts.waiting as f64 >= TCP_POLLED_SHARE * total;
    (is_tcp && polled && others as f64 <= MIXED_SHARE * total).then(|| polled_by(evidence, counts))
}

/// Polled all the time, or after a sleep. Threads that poll also sleep for the socket's lock, which the
/// worker holds, so sleeps do not tell the two apart, but timers do.
fn polled_by(evidence: &Evidence, counts: &Completions) -> Finding<CompletionMode> {
    if Direction::both(evidence).iter().any(Direction::is_missing) {
        return unclear(NEVER_REACHED, Remedy::WholeTarget);
    }
    if let Err((reason, remedy)) = interrupts_otherwise(evidence) {
        let why = format!("the threads that wait completed I/Os before the window, but {reason}");
        return unclear(why, remedy);
    }
    let beyond = counts.timers.saturating_sub(stray_timers(evidence, counts));
    let timers = per_round(evidence, beyond, counts.ios);
    let rounds = counts.ios / u64::from(evidence.iodepth.max(1));
    match Pollers::of(evidence).on_cpu(evidence) {
        _ if timers >= HYBRID_TIMERS && rounds >= TIMER_ROUNDS => slept(evidence, counts, timers),
        _ if timers >= HYBRID_TIMERS => {
            let why = format!(
                "{} timers in a pass of {rounds} rounds before the window: telling poll from hybrid takes \
                 {TIMER_ROUNDS} rounds",
                counts.timers
            );
            unclear(why, Remedy::FasterDisk)
        }
        _ if timers >= POLL_TIMERS => {
            let timers = text(timers);
            let why = format!(
                "{timers} timers per round before the window are too many for poll and too few for hybrid"
            );
            unclear(why, Remedy::Repeat)
        }
        Ok(()) => Finding::Seen(CompletionMode::Poll),
        Err((reason, remedy)) => unclear(reason, remedy),
    }
}
