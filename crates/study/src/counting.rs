//! Who completes each I/O, counted in a short pass just before a trial's window; nothing is counted inside of it.

use iopj_core::Evidence;
use iopj_core::evidence::{Completions, EngineEvidence, Finding, ProcessEvidence};
use iopj_probe::{CompletionCounters, Edge, Probe, Snapshot, TIMER_ROUNDS, Waiting, Who, of_pass};
use std::time::{Duration, Instant};

/// I/Os of a pass over all jobs, but [`ROUNDS`] of each job's queue at least, and of all together as many as show hybrid.
const IOS: u64 = 4096;
/// How often a job's queue is filled at least, if [`TIME`] allows.
const ROUNDS: u64 = 4;
/// The longest pass.
pub(crate) const TIME: Duration = Duration::from_millis(250);

/// I/Os of one of `numjobs` jobs that keep `iodepth` in flight.
pub(crate) fn ios_of_job(numjobs: u32, iodepth: u32) -> u64 {
    let numjobs = u64::from(numjobs.max(1));
    let rounds = TIMER_ROUNDS.div_ceil(numjobs).max(ROUNDS);
    (IOS / numjobs).max(rounds * u64::from(iodepth))
}

/// Whether completions can be counted here, and why not.
pub(crate) fn check(probe: &Probe) -> Result<(), String> {
    let counters = probe.count_completions(Waiting::Threads(&[])).map_err(|error| error.to_string())?;
    counters.end().map(drop).map_err(|error| error.to_string())
}

/// A pass that runs.
pub(crate) struct Pass {
    counters: Result<CompletionCounters, String>,
    begin: Snapshot,
    began: Instant,
}

/// A pass that has ended.
pub(crate) struct Passed {
    counts: Result<Completions, String>,
    begin: Snapshot,
    lasted: Duration,
}

impl Pass {
    /// Begins to count, from this snapshot on: no I/O of the trial is in flight. Counters that cannot be had fail no trial.
    pub(crate) fn begin(probe: &Probe, begin: Snapshot) -> Pass {
        let counters = probe.count_completions(Waiting::Threads(&begin.waiting())).map_err(|error| error.to_string());
        Pass { counters, begin, began: Instant::now() }
    }

    /// Closes the counters; again no I/O is in flight.
    pub(crate) fn end(self) -> Passed {
        let lasted = self.began.elapsed();
        let counts = self.counters.and_then(|counters| counters.end().map_err(|error| error.to_string()));
        Passed { counts, begin: self.begin, lasted }
    }
}

/// What a pass did.
pub(crate) enum Did<'a> {
    Native { ios: u64, engine: &'a EngineEvidence },
    Fio { ios: u64, process: ProcessEvidence },
}

/// A pass of fio, which `run` runs and looks at from its start on.
pub(crate) fn pass_of_fio(
    probe: &Probe,
    run: impl FnOnce(&mut dyn FnMut(u32) -> Duration) -> Result<(u64, ProcessEvidence), String>,
) -> Finding<Completions> {
    let passed = || {
        let snapshot = |edge| probe.snapshot(Who::Child, edge).map_err(|error| error.to_string());
        let begin = snapshot(Edge::Begin)?;
        let counters = probe.count_completions(Waiting::Children).map_err(|error| error.to_string())?;
        let mut is_known = false;
        let began = Instant::now();
        let (ios, process) = run(&mut |child| {
            if !std::mem::replace(&mut is_known, true) {
                counters.leave_out_timers_of(child);
            }
            Duration::MAX
        })?;
        let pass = Pass { counters: Ok(counters), begin, began };
        Ok(pass.end().evidence(&snapshot(Edge::End)?, Did::Fio { ios, process }))
    };
    passed().unwrap_or_else(Finding::Unclear)
}

impl Passed {
    /// What was counted, of a pass that ended before the snapshot `end`.
    pub(crate) fn evidence(self, end: &Snapshot, did: Did<'_>) -> Finding<Completions> {
        let counts = match self.counts {
            Ok(counts) => counts,
            Err(reason) => return Finding::Unclear(reason),
        };
        let pass = Evidence { window_ns: self.lasted.as_nanos() as u64, ..self.begin.until(end) };
        let pass = match did {
            Did::Native { ios, engine } => Evidence { reads: ios, engine: Some(engine.clone()), ..pass },
            Did::Fio { ios, process } => Evidence { reads: ios, process, ..pass },
        };
        Finding::Seen(of_pass(counts, &pass))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_has_rounds_enough_for_timers_to_speak() {
        for (numjobs, iodepth, ios) in
            [(1, 1, 4096), (0, 32, 4096), (1, 1024, 50 * 1024), (64, 1, 64), (64, 32, 128), (8, 512, 7 * 512)]
        {
            assert_eq!(ios_of_job(numjobs, iodepth), ios, "{numjobs} jobs of {iodepth}");
            assert!(u64::from(numjobs.max(1)) * ios >= TIMER_ROUNDS * u64::from(iodepth));
        }
    }
}
