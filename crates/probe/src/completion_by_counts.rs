//! How completions were found, by counting who completed each I/O of a pass before the window. The window's
//! own counts must agree with the pass, because anything may have changed between the two.

use crate::completion_by_interrupts::{
    ALL_SHARE, NEVER_REACHED, STRAY_INTERRUPTS, can_be_all, interrupts_otherwise, is_none, unclear,
};
use crate::quantities::{
    Direction, HYBRID_SLEEPS, Pollers, Sleeps, completions_text, foreign_at_most, in_flight,
    in_flight_per_vector, interrupts, per_round, per_window_round, ratio, text,
};
use crate::remedy::Remedy;
use iopj_core::evidence::{Completions, Evidence, Finding};
use iopj_core::path::CompletionMode;

/// Share of the completions that may be of another kind than the rest.
pub const MIXED_SHARE: f64 = 0.01;
/// Requests that the disks must have completed or merged per I/O of the pass; if there were fewer, nothing is
/// known of the missing ones.
pub const COUNTED_SHARE: f64 = 0.99;
/// Timers per round of the waiting threads, beyond those for other purposes, below which they did not sleep
/// before they polled.
pub const POLL_TIMERS: f64 = 0.02;
/// Timers per round from which on they did sleep. Between the two nothing is certain.
pub const HYBRID_TIMERS: f64 = 0.1;
/// Rounds of the pass (one I/O of each that a job keeps in flight) from which on timers show hybrid: threads
/// set some for other purposes, and two of them are many for a few rounds.
pub const TIMER_ROUNDS: u64 = 50;
/// Timers per second that waiting threads set for other purposes, on each of their processors: many, if
/// rounds are slow.
pub const STRAY_TIMERS: f64 = 30.0;
/// How many times more often per I/O than the window the pass may have seen an interrupt, if several I/Os
/// share one, or a sleep.
pub const AGREEMENT: f64 = 4.0;
/// Sleeps per round that pass and window must both have had, to be compared if interrupts cannot be.
pub const FEW_SLEEPS: f64 = 0.1;
/// How many times more often per round than the window the pass may have slept before it polled.
pub const HYBRID_AGREEMENT: f64 = 3.0;

/// The counts of a pass, with those quantities of its evidence that are compared with the window's.
pub fn of_pass(counts: Completions, pass: &Evidence) -> Completions {
    Completions {
        ios: pass.ios(),
        pass_ns: pass.window_ns,
        sleeps: Pollers::of(pass).sleeps.most,
        interrupts: interrupts(pass).ok(),
        merges: Direction::both(pass).iter().map(|it| it.merges).fold(0, u64::saturating_add),
        ..counts
    }
}

/// What these counts show; `None` if the disks completed too few requests: then only the window can show it.
pub(crate) fn by_counts(evidence: &Evidence, counts: &Completions) -> Option<Finding<CompletionMode>> {
    let total = counts.total();
    if total == 0 || (total.saturating_add(counts.merges) as f64) < COUNTED_SHARE * counts.ios as f64 {
        return None;
    }
    let is_small = |count: u64| count as f64 <= MIXED_SHARE * total as f64;
    let (interrupt, waiting) = (counts.by_interrupt(), counts.waiting);
    Some(match (is_small(interrupt), is_small(waiting), is_small(counts.other)) {
        (true, false, true) => polled(evidence, counts),
        (false, true, true) => interrupted(evidence, counts),
        _ => several_kinds(counts, is_small),
    })
}

/// Both kinds of completion, unless foreign I/O explains one of them.
fn several_kinds(counts: &Completions, is_small: impl Fn(u64) -> bool) -> Finding<CompletionMode> {
    let (interrupt, waiting) = (counts.by_interrupt(), counts.waiting);
    let foreign = counts.total().saturating_sub(counts.ios);
    let is_own = |count: u64| !is_small(count.saturating_sub(foreign)) && count > foreign + STRAY_INTERRUPTS;
    let completed = completions_text(counts);
    if is_own(interrupt) && is_own(waiting) {
        return Finding::Mixed(completed);
    }
    if !is_small(counts.other) {
        let why = "some by threads that neither wait for the trial's I/Os nor work for the kernel";
        return unclear(format!("{completed}: {why}"), Remedy::QuietDisk);
    }
    unclear(format!("{completed}: some may come from other I/O on the same disk"), Remedy::QuietDisk)
}

/// Completed by interrupt, if the window interrupted about as often; if its interrupts cannot be told apart,
/// if it slept about as often.
fn interrupted(evidence: &Evidence, counts: &Completions) -> Finding<CompletionMode> {
    if let (Ok(window), Some(pass)) = (interrupts(evidence), counts.interrupts.filter(|pass| *pass > 0)) {
        return interrupted_alike(evidence, counts, window, pass);
    }
    let window = Pollers::of(evidence).sleeps;
    let pass = Sleeps::of(counts.sleeps, counts.pass_ns, evidence.engine.is_none());
    let window = [window.least, window.most].map(|it| per_window_round(evidence, it));
    let pass = [pass.least, pass.most].map(|it| per_round(evidence, it, counts.ios));
    let figures = format!(
        "the window had {} sleeps per round where the pass before it had {}",
        text(window[0]),
        text(pass[1])
    );
    let exceeds = |[least, _]: [f64; 2], [_, most]: [f64; 2]| least > AGREEMENT * most;
    if exceeds(window, pass) || exceeds(pass, window) {
        return unclear(format!("{figures}: something changed between them"), Remedy::Repeat);
    }
    if window[0] < FEW_SLEEPS || pass[1] < FEW_SLEEPS {
        let why = "too few to show that the window behaved like the pass, and the interrupts cannot be \
                   compared";
        return unclear(format!("{figures}: {why}"), Remedy::OwnVectors);
    }
    Finding::Seen(CompletionMode::Interrupt)
}

/// Compares the interrupts of the window with those of the pass, whose I/Os all completed by interrupt. An
/// I/O alone in flight took one of its own; others may have shared one.
fn interrupted_alike(
    evidence: &Evidence,
    counts: &Completions,
    window: u64,
    pass: u64,
) -> Finding<CompletionMode> {
    let own = window.saturating_sub(foreign_at_most(evidence));
    let [all, own_per_io] = [window, own].map(|it| ratio(it, evidence.ios()));
    let own_in_pass = pass.saturating_sub(counts.total().saturating_sub(counts.ios));
    let [all_in_pass, own_in_pass_per_io] = [pass, own_in_pass].map(|it| ratio(it, counts.ios));
    let figures = format!(
        "the window had {} interrupts per I/O, {} of its own, where the pass before it had {} and {}",
        text(all),
        text(own_per_io),
        text(all_in_pass),
        text(own_in_pass_per_io)
    );
    let is_alone = in_flight(evidence) == 1;
    let are_all = !is_alone || all > ALL_SHARE * all_in_pass.min(1.0);
    if AGREEMENT * own_per_io < own_in_pass_per_io || !are_all {
        return unclear(format!("{figures}: something changed between them"), Remedy::Repeat);
    }
    // If the pass itself had fewer (a handler also takes what completes meanwhile), its own share is
    // required.
    if !is_alone && !can_be_all(evidence, [window, own], [all_in_pass, own_in_pass_per_io]) {
        let at_once = in_flight_per_vector(evidence);
        let why = format!(
            "{figures}: with up to {at_once} I/Os in flight on a vector, fewer than if all had completed by \
             interrupt"
        );
        return unclear(why, Remedy::ShallowQueue);
    }
    Finding::Seen(CompletionMode::Interrupt)
}

/// Completed by the waiting threads: polled all the time, or after a sleep.
fn polled(evidence: &Evidence, counts: &Completions) -> Finding<CompletionMode> {
    if Direction::both(evidence).iter().any(Direction::is_missing) {
        return unclear(NEVER_REACHED, Remedy::WholeTarget);
    }
    if let Err((reason, remedy)) = interrupts_otherwise(evidence) {
        let why = format!("the threads that wait completed the I/Os before the window, but {reason}");
        return unclear(why, remedy);
    }
    if let Ok(interrupts) = interrupts(evidence)
        && !is_none(evidence, interrupts)
    {
        let why = format!(
            "no interrupt completed I/Os before the window, but in it there were {} per I/O: something \
             changed, or others' I/O interrupted",
            text(ratio(interrupts, evidence.ios()))
        );
        return unclear(why, Remedy::QuietDisk);
    }
    let timers = per_round(evidence, counts.timers, counts.ios);
    let rounds = counts.ios / u64::from(evidence.iodepth.max(1));
    if timers >= POLL_TIMERS && rounds < TIMER_ROUNDS {
        let why = format!(
            "{} timers in a pass of {rounds} rounds before the window: telling poll from hybrid takes \
             {TIMER_ROUNDS} rounds, and the disk was too slow for that",
            counts.timers
        );
        return unclear(why, Remedy::FasterDisk);
    }
    let beyond = counts.timers.saturating_sub(stray_timers(evidence, counts));
    let beyond = per_round(evidence, beyond, counts.ios);
    if beyond >= HYBRID_TIMERS {
        return slept(evidence, counts, beyond);
    }
    // Fewer than any hybrid path sets, and other purposes explain them: the window's own sleeps decide.
    if timers >= HYBRID_TIMERS || beyond >= POLL_TIMERS {
        let timers = text(timers);
        let why = format!(
            "{timers} timers per round before the window are too many for poll and too few for hybrid"
        );
        return unclear(why, Remedy::Repeat);
    }
    match Pollers::of(evidence).polled(evidence) {
        Ok(()) => Finding::Seen(CompletionMode::Poll),
        Err((reason, remedy)) => unclear(reason, remedy),
    }
}

/// The most timers of the pass that are not sleeps before I/Os.
pub(crate) fn stray_timers(evidence: &Evidence, counts: &Completions) -> u64 {
    let processors = u64::from(evidence.numjobs.max(1)).min(evidence.cpu.cores.max(1).into());
    (STRAY_TIMERS * processors as f64 * counts.pass_ns as f64 / 1e9).ceil() as u64
}

/// Slept before they polled, if they did in the window too. A short timer may expire before its thread
/// sleeps: sleeps are compared with those of the pass, which are no more than its timers.
pub(crate) fn slept(evidence: &Evidence, counts: &Completions, timers: f64) -> Finding<CompletionMode> {
    let sleeps = per_window_round(evidence, Pollers::of(evidence).sleeps.least);
    let pass = timers.min(per_round(evidence, counts.sleeps, counts.ios));
    if sleeps >= HYBRID_SLEEPS && HYBRID_AGREEMENT * sleeps >= pass {
        return Finding::Seen(CompletionMode::Hybrid);
    }
    let why = format!(
        "the window had {} sleeps per round where the pass before it had {} and set {} timers: something \
         changed between them",
        text(sleeps),
        text(per_round(evidence, counts.sleeps, counts.ios)),
        text(timers)
    );
    unclear(why, Remedy::Repeat)
}
