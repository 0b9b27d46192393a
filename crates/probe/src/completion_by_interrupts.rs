//! What the interrupts of the disks' vectors show about completions: all the evidence there is if completions
//! are not counted one by one.

use crate::quantities::{
    Direction, HYBRID_SLEEPS, Pollers, foreign_at_most, in_flight, in_flight_per_vector, interrupts,
    is_taken, per_window_round, ratio, text,
};
use crate::remedy::Remedy;
use iopj_core::evidence::{ControlRun, Evidence, Finding};
use iopj_core::path::CompletionMode;
use std::fmt::Display;

/// Interrupts that can have completed at most this share of the I/Os count as none. One interrupt can
/// complete everything in flight, so n of them can complete n times `iodepth` times `numjobs` I/Os.
pub const NO_INTERRUPT: f64 = 0.01;
/// Interrupts that are taken for stray ones, as long as they can have completed at most [`STRAY_SHARE`].
pub const STRAY_INTERRUPTS: u64 = 2;
/// Share of the I/Os that [`STRAY_INTERRUPTS`] can have completed at most.
pub const STRAY_SHARE: f64 = 0.1;
/// Share of the I/Os that their own interrupts must be able to have completed, for completion by interrupt.
/// It is the only requirement if it is unknown how the jobs are spread over the vectors, or if the device is
/// taken: its owner finds completions whose interrupts are still on the way.
pub const INTERRUPT_SHARE: f64 = 0.5;
/// Share of the I/Os above which it counts as all of them: what interrupts can have completed, what
/// submission pollers took.
pub const ALL_SHARE: f64 = 0.95;
/// Interrupts per read of the control run from which on the device is known to interrupt.
pub const CONTROL_INTERRUPTS: f64 = 0.5;

pub(crate) const NEVER_REACHED: &str = "I/Os that never reached the disk say nothing about its completions";

/// Nothing is seen, for this reason, and what to do about that.
pub(crate) fn unclear<T>(reason: impl Display, remedy: Remedy) -> Finding<T> {
    Finding::Unclear(remedy.after(reason))
}

/// What to do where interrupts do not tell: count the completions if that was refused, else this.
pub(crate) fn unless_counted(evidence: &Evidence, remedy: Remedy) -> Remedy {
    match &evidence.completions {
        Some(Finding::Unclear(_)) => Remedy::CountCompletions,
        _ => remedy,
    }
}

/// How completions were found, by the interrupts in the window.
pub(crate) fn by_interrupts(evidence: &Evidence) -> Finding<CompletionMode> {
    let interrupts = match interrupts(evidence) {
        Ok(interrupts) => interrupts,
        Err(name) => return without_own_interrupts(evidence, name),
    };
    if !is_none(evidence, interrupts) {
        return enough(evidence, interrupts);
    }
    if Direction::both(evidence).iter().any(Direction::is_missing) {
        return unclear(NEVER_REACHED, Remedy::WholeTarget);
    }
    if let Err((reason, remedy)) = interrupts_otherwise(evidence) {
        let per_io = text(ratio(interrupts, evidence.ios()));
        return unclear(format!("{per_io} interrupts per I/O, but {reason}"), remedy);
    }
    by_sleeps(evidence)
}

/// True if this many interrupts cannot have completed the I/Os.
pub(crate) fn is_none(evidence: &Evidence, interrupts: u64) -> bool {
    let share = ratio(interrupts.saturating_mul(in_flight(evidence)), evidence.ios());
    share <= NO_INTERRUPT || (interrupts <= STRAY_INTERRUPTS && share <= STRAY_SHARE)
}

/// Whether there are enough interrupts for all I/Os, beyond those that foreign I/O explains; else there are
/// too many for none and too few for all.
fn enough(evidence: &Evidence, interrupts: u64) -> Finding<CompletionMode> {
    let own = interrupts.saturating_sub(foreign_at_most(evidence));
    let at_once = in_flight_per_vector(evidence);
    if own > STRAY_INTERRUPTS && can_be_all(evidence, [interrupts, own], [1.0, 1.0]) {
        return Finding::Seen(CompletionMode::Interrupt);
    }
    let per_io = text(ratio(interrupts, evidence.ios()));
    if is_none(evidence, own) {
        let why = format!("all of the {per_io} interrupts per I/O may come from other I/O on the same disk");
        return unclear(why, Remedy::QuietDisk);
    }
    let why = format!(
        "{per_io} interrupts per I/O, {} without those of foreign I/O: with up to {at_once} I/Os in flight \
         on a vector, more than if none had completed by interrupt and fewer than if all had",
        text(ratio(own, evidence.ios())),
    );
    unclear(why, unless_counted(evidence, Remedy::ShallowQueue))
}

/// True if this many interrupts can have completed all I/Os, each of them all that is in flight on a vector,
/// or as many as are known to complete all (`known`, per I/O). `own` are those that foreign I/O cannot
/// explain; foreign I/O may have completed with own I/Os, or without an interrupt.
pub(crate) fn can_be_all(evidence: &Evidence, [interrupts, own]: [u64; 2], known: [f64; 2]) -> bool {
    let at_once = in_flight_per_vector(evidence);
    let completed = |interrupts: u64| ratio(interrupts.saturating_mul(at_once), evidence.ios());
    let [all, all_own] = known.map(|per_io| (per_io * at_once as f64).min(1.0));
    let is_bound_known = !is_taken(evidence) && at_once == in_flight(evidence);
    completed(own) >= INTERRUPT_SHARE * all_own
        && (!is_bound_known || completed(interrupts) > ALL_SHARE * all)
}

/// Completions without interrupt: the threads that looked for them slept or did not. What a sleep was for is
/// known only if nothing but the generator drives the device.
fn by_sleeps(evidence: &Evidence) -> Finding<CompletionMode> {
    let pollers = Pollers::of(evidence);
    let sleeps = per_window_round(evidence, pollers.sleeps.least);
    if sleeps >= HYBRID_SLEEPS && pollers.count > 0 {
        return match is_taken(evidence) {
            true => Finding::Seen(CompletionMode::Hybrid),
            false => unclear(
                format!(
                    "no interrupt, and {} sleeps per round: only a count of completions shows whether these \
                     were sleeps before each poll",
                    text(sleeps)
                ),
                Remedy::CountCompletions,
            ),
        };
    }
    let polled = pollers.polled(evidence);
    polled.map_or_else(|(why, remedy)| unclear(why, remedy), |()| Finding::Seen(CompletionMode::Poll))
}

/// Whether the control run showed that the device interrupts if nobody polls.
pub(crate) fn interrupts_otherwise(evidence: &Evidence) -> Result<(), (&'static str, Remedy)> {
    match evidence.control {
        None => Err(("no control run shows that the device interrupts otherwise", Remedy::ControlRun)),
        Some(ControlRun { completions: Some(counts), .. }) if counts.total() > 0 => {
            let enough = ratio(counts.by_interrupt(), counts.total()) >= CONTROL_INTERRUPTS;
            let why = "no interrupt completed the control run's reads either";
            enough.then_some(()).ok_or((why, Remedy::InterruptingDisk))
        }
        Some(ControlRun { device_reads: 0, .. }) => {
            Err(("the control run's reads never reached the device", Remedy::WholeTarget))
        }
        Some(ControlRun { interrupts: None, .. }) => Err((
            "the control run could not tell the device's interrupts from those of others",
            unless_counted(evidence, Remedy::OwnVectors),
        )),
        Some(ControlRun { interrupts: Some(interrupts), device_reads, .. }) => {
            let enough = ratio(interrupts, device_reads) >= CONTROL_INTERRUPTS;
            let why = "the device did not interrupt in the control run either";
            enough.then_some(()).ok_or((why, Remedy::InterruptingDisk))
        }
    }
}

/// Why the interrupts of a device that was taken are unknown: its vectors are its own.
pub(crate) fn uncounted_of_taken(name: &str) -> String {
    format!(
        "the interrupts of {name} were not counted throughout the window: a vector or a core came or went, \
         or a vector was masked of which the kernel tells no count (`/sys/kernel/irq/N/per_cpu_count`)"
    )
}

fn without_own_interrupts<T>(evidence: &Evidence, name: &str) -> Finding<T> {
    if is_taken(evidence) {
        return unclear(uncounted_of_taken(name), Remedy::Repeat);
    }
    let shares = evidence.devices.iter().any(|device| device.name == name && !device.vectors.is_empty());
    let (why, remedy) = if shares {
        let why = "other disks on the same controller did I/O meanwhile, or a vector or core came or went";
        (why, Remedy::QuietController)
    } else {
        ("it has no interrupt vector of its own", unless_counted(evidence, Remedy::OwnVectors))
    };
    let what = format!("the interrupts of {name} cannot be told from those of other devices: {why}");
    unclear(what, remedy)
}
