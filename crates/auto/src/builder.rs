//! How an adaptive engine is opened, and which ways a target has.

use crate::auto::Auto;
use crate::chooser::{Choice, Chooser, Epochs, Rule};
use crate::clock::{Clock, SystemClock};
use crate::engines::{Engines, Source};
use crate::policy::{Aim, Policy};
use crate::provenance::Provenance;
use crate::timing::POLLER_IDLE_MS;
use crate::way::Way;
use iopj_engine::check::{Availability, check};
use iopj_engine::{EngineError, KernelCpus, Pool, Target};

/// How an [`Auto`] is opened.
#[derive(Clone, Debug)]
pub struct AutoBuilder {
    policy: Policy,
    iodepth: u32,
    rule: Rule,
    seed: u64,
    anyway: bool,
    ways: Option<Vec<Way>>,
    cpus: KernelCpus,
    epochs: Epochs,
}

impl Auto {
    /// One that has one request in flight, and follows the default policy, unless it is told otherwise.
    pub fn builder() -> AutoBuilder {
        AutoBuilder {
            policy: Policy::default(),
            iodepth: 1,
            rule: Rule::Follow,
            seed: 0,
            anyway: false,
            ways: None,
            cpus: KernelCpus::default(),
            epochs: Epochs::default(),
        }
    }
}

impl AutoBuilder {
    /// The policy that it follows.
    #[must_use]
    pub fn policy(self, policy: Policy) -> AutoBuilder {
        AutoBuilder { policy, ..self }
    }

    /// What it chooses for, whatever the policy says.
    #[must_use]
    pub fn aim(self, aim: Aim) -> AutoBuilder {
        AutoBuilder { policy: Policy { aim, ..self.policy }, ..self }
    }

    /// The most requests in flight; 1 unless it is set.
    #[must_use]
    pub fn iodepth(self, iodepth: u32) -> AutoBuilder {
        AutoBuilder { iodepth, ..self }
    }

    /// Takes a policy of another machine, kernel or drive too.
    #[must_use]
    pub fn anyway(self) -> AutoBuilder {
        AutoBuilder { anyway: true, ..self }
    }

    /// Chooses among these alone, which were seen to work on the target (by [`available`]) and are not tried
    /// again: for the second thread and those that follow.
    #[must_use]
    pub fn among(self, ways: &[Way]) -> AutoBuilder {
        AutoBuilder { ways: Some(ways.to_vec()), ..self }
    }

    /// Keeps the kernel's own threads, such as a submission poller, to these processors.
    #[must_use]
    pub fn cpus(self, cpus: KernelCpus) -> AutoBuilder {
        AutoBuilder { cpus, ..self }
    }

    /// Always takes one way: for what the choice itself costs.
    #[must_use]
    pub fn pinned(self, way: Way) -> AutoBuilder {
        AutoBuilder { rule: Rule::Pinned(way), ..self }
    }

    /// Takes ways by chance, anew in each epoch: for comparison with the policy.
    #[must_use]
    pub fn random_switching(self, seed: u64) -> AutoBuilder {
        AutoBuilder { rule: Rule::Random, ..self }.seed(seed)
    }

    /// The seed of what is explored when.
    #[must_use]
    pub fn seed(self, seed: u64) -> AutoBuilder {
        AutoBuilder { seed, ..self }
    }

    /// Epochs of another length: for tests and evaluations, which cannot wait.
    #[cfg(any(test, feature = "sim"))]
    #[must_use]
    pub fn epochs(self, epochs: Epochs) -> AutoBuilder {
        AutoBuilder { epochs, ..self }
    }

    /// Opens the engine on a target.
    ///
    /// # Errors
    /// The policy is wrong, or of another machine, kernel or drive; the target has not the way that was asked
    /// for, or not the one that everything falls back to; an engine cannot be opened. The message says what
    /// to do.
    pub fn open(self, target: &Target, pool: &Pool) -> Result<Auto, EngineError> {
        self.open_with_clock(target, pool, SystemClock)
    }

    /// Opens the engine on a target, with a clock of the caller's in place of the system's.
    ///
    /// # Errors
    /// As for [`AutoBuilder::open`].
    pub fn open_with_clock<C: Clock>(
        self,
        target: &Target,
        pool: &Pool,
        clock: C,
    ) -> Result<Auto<C>, EngineError> {
        self.check_provenance(target)?;
        let is_bypass = target.controller().is_some();
        let states = match &self.ways {
            Some(ways) => {
                ways.iter().map(|way| (*way, Availability::Available { notes: Vec::new() })).collect()
            }
            None => available(target),
        };
        self.check_needed(target, &states)?;
        let is_here = |(way, state): &(Way, Availability)| state.is_available().then_some(*way);
        let works = states.iter().filter_map(is_here).collect();
        let again = target.another().map_err(|error| EngineError::unsupported(error.to_string()))?;
        let (iodepth, cpus, rule) = (self.iodepth, self.cpus.clone(), self.rule);
        let chooser = self.chooser(works, is_bypass)?;
        let engines = Engines::new(Source::Target(again), pool, iodepth).on(cpus);
        let engines = engines.with_poller_idle_ms(poller_idle_ms(rule));
        Auto::start(engines, chooser, clock, iodepth)
    }

    /// The fallback must work, and the way that was asked for.
    fn check_needed(&self, target: &Target, states: &[(Way, Availability)]) -> Result<(), EngineError> {
        let fallback = Way::fallback(target.controller().is_some());
        let pinned = match self.rule {
            Rule::Pinned(way) => way,
            Rule::Follow | Rule::Random => fallback,
        };
        for way in [fallback, pinned] {
            match states.iter().find(|(other, _)| *other == way) {
                Some((_, Availability::Available { .. })) => {}
                Some((_, Availability::Unavailable { reason, remedy })) => {
                    let message = format!("{way} does not work here: {reason}; {remedy}");
                    return Err(EngineError::unsupported(message));
                }
                None => {
                    let has: Vec<String> = states.iter().map(|(way, _)| way.to_string()).collect();
                    let (path, has) = (target.path().display(), has.join(", "));
                    let message = format!("{path} has no {way}: choose one of {has}");
                    return Err(EngineError::unsupported(message));
                }
            }
        }
        Ok(())
    }

    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn depth(&self) -> u32 {
        self.iodepth
    }

    /// What decides among `ways`.
    pub(crate) fn chooser(self, ways: Vec<Way>, is_bypass: bool) -> Result<Chooser, EngineError> {
        self.policy.check().map_err(|error| EngineError::unsupported(error.to_string()))?;
        if self.rule == Rule::Pinned(Way::Sio) && self.iodepth > 1 {
            let message = format!(
                "{} has one request in flight, and iodepth {} was asked for: use iodepth 1",
                Way::Sio,
                self.iodepth
            );
            return Err(EngineError::unsupported(message));
        }
        Ok(Chooser::new(Choice {
            policy: self.policy,
            ways,
            is_bypass,
            rule: self.rule,
            iodepth: self.iodepth,
            seed: self.seed,
            epochs: self.epochs,
        }))
    }

    fn check_provenance(&self, target: &Target) -> Result<(), EngineError> {
        let Some(provenance) = self.policy.provenance.as_ref().filter(|_| !self.anyway) else {
            return Ok(());
        };
        match provenance.differences(&Provenance::here(target))[..] {
            [] => Ok(()),
            ref differences => Err(EngineError::unsupported(format!(
                "the policy was made elsewhere: {}; derive one here, or take it anyway",
                differences.join(", and ")
            ))),
        }
    }
}

/// How long submission pollers go on after the last request; 0 is the engine's own value. What is bound to a
/// way has that too: beside the way itself it shows what choosing costs only if all else is alike.
fn poller_idle_ms(rule: Rule) -> u32 {
    match rule {
        Rule::Pinned(_) => 0,
        Rule::Follow | Rule::Random => POLLER_IDLE_MS,
    }
}

/// Which of the ways that a target may have work on it, and why others do not: each is tried by one read. On
/// a drive that was taken there are three, all by the one engine whose opening shows whether it works. Where
/// the kernel sleeps before it polls, this process need not, and has no such way.
pub fn available(target: &Target) -> Vec<(Way, Availability)> {
    let is_bypass = target.controller().is_some();
    let ways = Way::ALL.into_iter().filter(|way| way.is_bypass() == is_bypass && *way != Way::SleepPoll);
    let state = |way: Way| match is_bypass {
        true => Availability::Available { notes: Vec::new() },
        false => check(way.path(), target),
    };
    let mut states: Vec<(Way, Availability)> = ways.map(|way| (way, state(way))).collect();
    if !is_bypass {
        let of = |way| states.iter().find(|(other, _)| *other == way).map(|(_, state)| state.clone());
        let state = match (of(Way::Hybrid), of(Way::Poll)) {
            (Some(Availability::Available { .. }), _) => Some(Availability::Unavailable {
                reason: "the kernel sleeps before it polls".to_owned(),
                remedy: format!("take {}", Way::Hybrid),
            }),
            (_, polled) => polled,
        };
        states.extend(state.map(|state| (Way::SleepPoll, state)));
    }
    states
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_bound_to_a_way_polls_for_submissions_as_long_as_that_way() {
        let idle_ms = [Rule::Pinned(Way::Sqpoll), Rule::Follow, Rule::Random].map(poller_idle_ms);
        assert_eq!(idle_ms, [0, POLLER_IDLE_MS, POLLER_IDLE_MS]);
    }
}
