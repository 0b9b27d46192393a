//! The verdict on an engine that chose its way: each way by what was seen of it.
//!
//! Where all ways in use complete alike, what is seen of the whole is seen of each. Where some interrupt and
//! some poll, who completed the I/Os of the pass must be explained by how many went which way there, and the
//! interrupts of the window by those of the window. A drive that was taken is left to `routes_of_taken`.

use crate::comparison::{Comparison, compare, other_delay};
use crate::completion_by_counts::{COUNTED_SHARE, MIXED_SHARE};
use crate::completion_by_interrupts::{INTERRUPT_SHARE, STRAY_INTERRUPTS, interrupts_otherwise};
use crate::quantities::{
    MISSING_SHARE, completions_text, foreign_at_most, in_flight_per_vector, interrupts, is_taken, ratio,
    sqpolls, text,
};
use crate::remedy::Remedy;
use crate::routes_of_taken::TakenRoutes;
use crate::submission::{SQPOLL_WAKEUPS, by_doorbell};
use iopj_core::evidence::{Completions, EngineEvidence, Evidence, Finding, Observed, Verdict, VerdictKind};
use iopj_core::path::{CompletionMode, Submission};
use iopj_core::{AutoPath, Route, Routes, Transport, Way};

/// The verdict on an engine that followed a rule.
pub(crate) fn by_routes(rule: AutoPath, observed: &Observed, evidence: &Evidence) -> Verdict {
    let engine = evidence.engine.as_ref();
    let Some((engine, routes)) = engine.and_then(|engine| Some((engine, engine.routes.as_deref()?))) else {
        let why = Remedy::NativeGenerator.after("nothing tells which ways the I/Os went");
        return Verdict { kind: VerdictKind::Unproven, reasons: vec![why] };
    };
    let ways = Ways { observed, evidence, engine, routes };
    // What decides comes first: whoever shows one reason shows the first.
    let [mut against, mut open, mut seen] = [const { Vec::new() }; 3];
    for route in routes.ways.iter().filter(|route| route.ios > 0) {
        let share = 100.0 * ratio(route.ios, evidence.ios());
        let (reasons, what) = match ways.judge(rule, *route) {
            Finding::Mixed(what) => (&mut against, what),
            Finding::Unclear(what) => (&mut open, what),
            Finding::Seen(what) => (&mut seen, what),
        };
        reasons.push(format!("{}: {} I/Os ({share:.1} %): {what}", route.way, route.ios));
    }
    open.extend(ways.unaccounted().into_iter().chain(observed.doubt.clone()));
    let kind = match (against.is_empty(), open.is_empty()) {
        (false, _) => VerdictKind::Refuted,
        (true, false) => VerdictKind::Unproven,
        (true, true) => VerdictKind::Verified,
    };
    Verdict { kind, reasons: [against, open, seen].concat() }
}

/// What is known of the ways of a trial.
struct Ways<'a> {
    observed: &'a Observed,
    evidence: &'a Evidence,
    engine: &'a EngineEvidence,
    routes: &'a Routes,
}

/// So many I/Os may have gone another way than they were counted on.
fn refused(ios: u64) -> String {
    format!("ways refused {ios} I/Os, which the fallback did, and nothing tells which ways did")
}

fn interrupts_on(way: Way) -> bool {
    way.completion() == CompletionMode::Interrupt
}

fn polls_on(way: Way) -> bool {
    !interrupts_on(way)
}

impl Ways<'_> {
    /// What was seen of a way; what contradicts it is [`Finding::Mixed`].
    fn judge(&self, rule: AutoPath, route: Route) -> Finding<String> {
        if let Some(pinned) = rule.pinned().filter(|pinned| *pinned != route.way) {
            return Finding::Mixed(format!("asked for {pinned} alone"));
        }
        if self.is_few(route.ios) {
            return Finding::Seen("too few to tell how they went".to_owned());
        }
        let mut seen = Vec::new();
        let (mut against, mut open) = (Vec::new(), Vec::new());
        for comparison in [self.completion(route), self.submission(route)] {
            match comparison {
                Comparison::AsAsked(what) => seen.push(what),
                Comparison::Other(reason) => against.push(reason),
                Comparison::Open(reason) => open.push(reason),
            }
        }
        open.extend(other_delay(&route.way.path(), self.evidence));
        match (against.is_empty(), open.is_empty()) {
            (false, _) => Finding::Mixed([against, open].concat().join("; ")),
            (true, false) => Finding::Unclear(open.join("; ")),
            (true, true) => Finding::Seen(seen.join(", ")),
        }
    }

    /// True if so many I/Os of the window are within what counts leave open.
    fn is_few(&self, ios: u64) -> bool {
        ios as f64 <= MIXED_SHARE * self.evidence.ios() as f64
    }

    /// How the completions of a way were found.
    fn completion(&self, route: Route) -> Comparison {
        let mode = route.way.completion();
        let is_other = |way: Way| way.completion() != mode;
        if self.routes.ios_by(is_other) == 0 && self.routes.pass_ios_by(is_other) == 0 {
            return match compare(mode, &self.observed.completion) {
                Comparison::AsAsked(what) => Comparison::AsAsked(format!("completion by {what} was seen")),
                other => other,
            };
        }
        if is_taken(self.evidence) && route.way.is_bypass() {
            let Ways { evidence, engine, routes, .. } = *self;
            return TakenRoutes { evidence, engine, routes }.completion(route);
        }
        match self.explained(route.way) {
            Err(comparison) => comparison,
            Ok(()) if interrupts_on(route.way) => {
                Comparison::AsAsked(format!("completion by {mode} was seen"))
            }
            Ok(()) => Comparison::AsAsked(
                "completion by the threads that wait was seen (beside other ways, poll and hybrid are not \
                 told apart)"
                    .to_owned(),
            ),
        }
    }

    /// Whether the counts of the pass, and the interrupts of the window, are explained by what went which
    /// way, as far as a way is concerned.
    fn explained(&self, way: Way) -> Result<(), Comparison> {
        let is_tcp = self.evidence.fabric.as_ref().is_some_and(|fabric| fabric.transport == Transport::Tcp);
        if is_tcp {
            let why = "over TCP, who completed the I/Os does not tell ways that poll from others";
            return Err(Comparison::Open(Remedy::QuietController.after(why)));
        }
        let Some(Finding::Seen(counts)) = &self.evidence.completions else {
            let why = "ways that poll and ways that interrupt were both taken, and who completed each I/O \
                       was not counted";
            return Err(Comparison::Open(Remedy::CountCompletions.after(why)));
        };
        self.pass(way, counts)?;
        self.window(way)
    }

    /// Whether the pass's completions by context are those of the ways.
    fn pass(&self, way: Way, counts: &Completions) -> Result<(), Comparison> {
        let (total, text) = (counts.total(), completions_text(counts));
        let open = |why: &str, remedy: Remedy| Err(Comparison::Open(remedy.after(format!("{text}: {why}"))));
        if (total.saturating_add(counts.merges) as f64) < COUNTED_SHARE * counts.ios as f64 {
            return open("a cache, a hole or merges kept the others from the disk", Remedy::WholeTarget);
        }
        let slack = (MIXED_SHARE * total as f64) as u64 + STRAY_INTERRUPTS;
        if counts.other > slack {
            let why = "some by threads that neither wait for the trial's I/Os nor work for the kernel";
            return open(why, Remedy::QuietDisk);
        }
        let foreign = total.saturating_sub(counts.ios);
        let (interrupted, polled) =
            (self.routes.pass_ios_by(interrupts_on), self.routes.pass_ios_by(polls_on));
        // What a way that polls refused went by the fallback, which interrupts.
        let redone = self.routes.pass_redone;
        let most = interrupted + redone + foreign + slack;
        if polls_on(way) && counts.by_interrupt() > most {
            let why = format!("{text}, where ways that interrupt had {interrupted}");
            return Err(Comparison::Other(why));
        }
        if interrupts_on(way) && counts.waiting > polled + foreign + slack {
            return Err(Comparison::Other(format!("{text}, where ways that poll had {polled}")));
        }
        if polls_on(way) && redone > slack {
            return open(&refused(redone), Remedy::Report);
        }
        if polls_on(way) && polled <= slack {
            let why = "ways that poll were hardly taken in it, so nothing shows that they poll";
            return open(why, Remedy::Repeat);
        }
        match interrupts_otherwise(self.evidence) {
            Err((reason, remedy)) if polls_on(way) && interrupted <= slack => open(reason, remedy),
            _ => Ok(()),
        }
    }

    /// Whether the window's interrupts are those of the ways that interrupt.
    fn window(&self, way: Way) -> Result<(), Comparison> {
        let evidence = self.evidence;
        let open = |why: String, remedy: Remedy| Err(Comparison::Open(remedy.after(why)));
        let all = match interrupts(evidence) {
            Ok(all) => all,
            Err(name) => {
                let why = format!(
                    "the interrupts of {name} cannot be told from those of other devices, so nothing shows \
                     that the window went like the pass before it"
                );
                return open(why, Remedy::OwnVectors);
            }
        };
        let own = all.saturating_sub(foreign_at_most(evidence));
        let interrupted = self.routes.ios_by(interrupts_on);
        let slack = (MIXED_SHARE * evidence.ios() as f64) as u64 + STRAY_INTERRUPTS;
        if polls_on(way) && own > interrupted + self.routes.redone + slack {
            let why =
                format!("{own} interrupts in the window, where ways that interrupt had {interrupted} I/Os");
            return open(why, Remedy::Repeat);
        }
        if polls_on(way) && self.routes.redone > slack {
            return open(refused(self.routes.redone), Remedy::Report);
        }
        let at_once = in_flight_per_vector(evidence);
        let completed = all.saturating_mul(at_once) as f64;
        if interrupts_on(way) && completed < INTERRUPT_SHARE * interrupted as f64 {
            let why = format!(
                "{all} interrupts in the window: with up to {at_once} I/Os in flight on a vector, fewer than \
                 if ways that interrupt had done {interrupted} I/Os"
            );
            return open(why, Remedy::ShallowQueue);
        }
        Ok(())
    }

    /// How the I/Os of a way reached the kernel, or the device.
    fn submission(&self, route: Route) -> Comparison {
        let asked = route.way.path().submission();
        if is_taken(self.evidence) || route.way.is_bypass() {
            let found = match is_taken(self.evidence) {
                true => compare(asked, &by_doorbell(self.evidence, self.all_polled())),
                false => compare(asked, &self.observed.submission),
            };
            return match found {
                Comparison::AsAsked(how) => Comparison::AsAsked(format!("submission by {how} was seen")),
                other => other,
            };
        }
        let by_poller = |way: Way| way.path().submission() == Submission::Sqpoll;
        let calls = self.engine.submit_calls;
        let seen = |how: Submission| Comparison::AsAsked(format!("submission by {how} was seen"));
        if !by_poller(route.way) {
            return match calls {
                0 => {
                    let why = "no submitting system call was seen";
                    Comparison::Open(Remedy::Report.after(why))
                }
                _ => seen(Submission::Syscall),
            };
        }
        // Whatever is no such read or write goes by system call, and so does what was refused.
        let others = self.routes.ios().saturating_sub(route.ios) + self.routes.redone;
        let most = others + self.evidence.syncs + self.evidence.discards + self.slack();
        if calls > most {
            let why = format!("{calls} system calls submitted I/O, where other ways had {others} I/Os");
            return Comparison::Open(Remedy::Report.after(why));
        }
        if !sqpolls(self.evidence).any(|thread| thread.cpu_ns > 0) {
            let why = "no submission poller was seen to run";
            return Comparison::Open(Remedy::MeasureLonger.after(why));
        }
        let wakeups = ratio(self.engine.wakeups, route.ios);
        if wakeups > SQPOLL_WAKEUPS {
            let why = format!(
                "the submission poller had to be woken {} times per I/O: it did not poll for them",
                text(wakeups)
            );
            return Comparison::Open(Remedy::BusyPoller.after(why));
        }
        seen(Submission::Sqpoll)
    }

    /// True if nothing went by a way that asks the kernel to wait.
    fn all_polled(&self) -> bool {
        self.routes.ios_by(|way| way.completion() != CompletionMode::Poll) == 0
    }

    fn slack(&self) -> u64 {
        (MIXED_SHARE * self.evidence.ios() as f64) as u64
    }

    /// I/Os of the window that no way accounts for, or that were not issued.
    fn unaccounted(&self) -> Option<String> {
        let (issued, on_ways) = (self.evidence.ios(), self.routes.ios());
        let apart = issued.abs_diff(on_ways) as f64;
        (apart > MISSING_SHARE * issued as f64).then(|| {
            let why = format!("the ways account for {on_ways} I/Os where {issued} were issued");
            let is_failure = self.routes.failures > 0;
            if is_failure { Remedy::Repeat } else { Remedy::Report }.after(why)
        })
    }
}
