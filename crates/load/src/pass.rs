//! Who completes each I/O, counted in a short pass just before a trial's window, which stays free of
//! counters.

use iopj_core::evidence::{Completions, EngineEvidence, Finding, ProcessEvidence};
use iopj_core::{Evidence, Workload};
use iopj_probe::{
    CompletionCounters, CompletionsError, Edge, Probe, Snapshot, TIMER_ROUNDS, Waiting, Who, of_pass,
};
use std::error::Error;
use std::time::{Duration, Instant};

/// I/Os of a pass over all jobs. There are at least [`ROUNDS`] of each job's queue, and over all jobs as many
/// as it takes to see hybrid.
const IOS: u64 = 4096;
/// The least number of times that a job's queue is filled, if [`TIME`] allows.
const ROUNDS: u64 = 4;
/// How long a pass with enough rounds lasts.
const TIME: Duration = Duration::from_millis(250);
/// The longest that a pass may last if its rounds are slow, on a slow disk or a busy machine.
const LONGEST: Duration = Duration::from_secs(10);

/// The end of each job's pass, whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassLimit {
    /// A time.
    pub time: Duration,
    /// A number of I/Os.
    pub ios: u64,
}

/// The limit of a pass of this workload.
pub fn limit(workload: &Workload) -> PassLimit {
    let numjobs = u64::from(workload.numjobs.max(1));
    let least = rounds(numjobs).max(ROUNDS) * u64::from(workload.iodepth);
    PassLimit { time: TIME, ios: (IOS / numjobs).max(least) }
}

/// The limit of the longer pass that a job needs after `done` I/Os, so that there are enough rounds to see
/// hybrid; `None` if there are enough already.
pub fn longer(workload: &Workload, done: u64) -> Option<PassLimit> {
    let ios = rounds(u64::from(workload.numjobs.max(1))) * u64::from(workload.iodepth);
    (done < ios).then_some(PassLimit { time: LONGEST, ios })
}

/// The rounds that each job contributes to those that show hybrid.
fn rounds(numjobs: u64) -> u64 {
    TIMER_ROUNDS.div_ceil(numjobs)
}

/// Checks that completions can be counted here.
///
/// # Errors
/// Why they cannot.
pub fn check(probe: &Probe) -> Result<(), CompletionsError> {
    Ok(probe.count_completions(Waiting::Threads(&[]))?.end().map(drop)?)
}

/// A pass in progress.
pub struct Pass {
    counters: Result<CompletionCounters, CompletionsError>,
    begin: Snapshot,
    began: Instant,
}

/// A pass that has ended.
pub struct EndedPass {
    counts: Result<Completions, CompletionsError>,
    begin: Snapshot,
    lasted: Duration,
}

impl Pass {
    /// Starts to count, from this snapshot on: no I/O of the trial is in flight. A trial does not fail if the
    /// counters cannot be opened.
    pub fn begin(probe: &Probe, begin: Snapshot) -> Pass {
        let counters = probe.count_completions(Waiting::Threads(&begin.waiting()));
        Pass { counters, begin, began: Instant::now() }
    }

    /// Closes the counters; again no I/O is in flight.
    pub fn end(self) -> EndedPass {
        let lasted = self.began.elapsed();
        let counts = self.counters.and_then(|counters| Ok(counters.end()?));
        EndedPass { counts, begin: self.begin, lasted }
    }
}

/// What was done in a pass.
pub enum PassWork<'a> {
    /// Our own jobs.
    Native {
        /// Their I/Os.
        ios: u64,
        /// What their engines did.
        engine: &'a EngineEvidence,
    },
    /// fio.
    Fio {
        /// Its I/Os.
        ios: u64,
        /// What its process took.
        process: ProcessEvidence,
    },
}

/// One run of fio: its I/Os, and what its process took.
type FioPass = Result<(u64, ProcessEvidence), Box<dyn Error>>;

/// A pass of fio, which `run` runs and watches from its start; a longer one if the first had too few rounds.
pub fn pass_of_fio(
    probe: &Probe,
    workload: &Workload,
    mut run: impl FnMut(PassLimit, &mut dyn FnMut(u32) -> Duration) -> FioPass,
) -> Finding<Completions> {
    let mut passed = |limit| counted_of_fio(probe, |look| run(limit, look));
    let first = passed(limit(workload));
    let counted =
        first.and_then(|first| match longer(workload, first.0 / u64::from(workload.numjobs.max(1))) {
            Some(limit) => passed(limit),
            None => Ok(first),
        });
    counted.map_or_else(|error| Finding::Unclear(error.to_string()), |(_, completions)| completions)
}

/// One run of fio in a pass: its I/Os, and who completed them.
fn counted_of_fio(
    probe: &Probe,
    run: impl FnOnce(&mut dyn FnMut(u32) -> Duration) -> FioPass,
) -> Result<(u64, Finding<Completions>), Box<dyn Error>> {
    let snapshot = |edge| probe.snapshot(Who::Child, edge);
    let begin = snapshot(Edge::Begin)?;
    let counters = probe.count_completions(Waiting::Children)?;
    let mut is_known = false;
    let began = Instant::now();
    let (ios, process) = run(&mut |child| {
        if !std::mem::replace(&mut is_known, true) {
            counters.leave_out_timers_of(child);
        }
        Duration::MAX
    })?;
    let pass = Pass { counters: Ok(counters), begin, began };
    Ok((ios, pass.end().evidence(&snapshot(Edge::End)?, PassWork::Fio { ios, process })))
}

impl EndedPass {
    /// What was counted, of a pass that ended before the snapshot `end`.
    pub fn evidence(self, end: &Snapshot, did: PassWork<'_>) -> Finding<Completions> {
        let counts = match self.counts {
            Ok(counts) => counts,
            Err(error) => return Finding::Unclear(error.to_string()),
        };
        let pass = Evidence { window_ns: self.lasted.as_nanos() as u64, ..self.begin.until(end) };
        let pass = match did {
            PassWork::Native { ios, engine } => Evidence { reads: ios, engine: Some(engine.clone()), ..pass },
            PassWork::Fio { ios, process } => Evidence { reads: ios, process, ..pass },
        };
        Finding::Seen(of_pass(counts, &pass))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(numjobs: u32, iodepth: u32) -> Workload {
        Workload { numjobs, iodepth, ..Workload::default() }
    }

    #[test]
    fn a_pass_has_rounds_enough_for_timers_to_speak() {
        for (numjobs, iodepth, ios) in
            [(1, 1, 4096), (0, 32, 4096), (1, 1024, 50 * 1024), (64, 1, 64), (64, 32, 128), (8, 512, 7 * 512)]
        {
            let limit = limit(&workload(numjobs, iodepth));
            assert_eq!(limit, PassLimit { time: TIME, ios }, "{numjobs} jobs of {iodepth}");
            assert!(u64::from(numjobs.max(1)) * ios >= TIMER_ROUNDS * u64::from(iodepth));
        }
    }

    /// Seen in a guest beside builds: 12 to 36 rounds in a quarter of a second, where 50 tell poll from
    /// hybrid.
    #[test]
    fn a_pass_of_slow_rounds_goes_on_until_there_are_enough() {
        let goes_on =
            |numjobs, iodepth, done| longer(&workload(numjobs, iodepth), done).map(|limit| limit.ios);
        assert_eq!(longer(&workload(1, 1), 21), Some(PassLimit { time: LONGEST, ios: TIMER_ROUNDS }));
        assert_eq!(goes_on(1, 1, TIMER_ROUNDS), None);
        assert_eq!([goes_on(1, 32, 1599), goes_on(1, 32, 1600)], [Some(1600), None]);
        assert_eq!([goes_on(64, 1, 0), goes_on(64, 1, 1)], [Some(1), None]);
    }
}
