//! Who completes each I/O, counted in a short pass just before a trial's window; nothing is counted inside of
//! it.

use iopj_core::evidence::{Completions, EngineEvidence, Finding, ProcessEvidence};
use iopj_core::{Evidence, Workload};
use iopj_probe::{CompletionCounters, Edge, Probe, Snapshot, TIMER_ROUNDS, Waiting, Who, of_pass};
use std::time::{Duration, Instant};

/// I/Os of a pass over all jobs, but [`ROUNDS`] of each job's queue at least, and of all together as many as
/// show hybrid.
const IOS: u64 = 4096;
/// How often a job's queue is filled at least, if [`TIME`] allows.
const ROUNDS: u64 = 4;
/// How long a pass lasts in which there are rounds enough.
const TIME: Duration = Duration::from_millis(250);
/// How long one lasts at the most whose rounds come slowly: each takes a while on a slow disk, or where
/// others have the CPUs.
const LONGEST: Duration = Duration::from_secs(10);

/// How far each job goes in a pass, whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// A time.
    pub time: Duration,
    /// A number of I/Os.
    pub ios: u64,
}

/// A pass of this workload.
pub fn extent(workload: &Workload) -> Extent {
    let numjobs = u64::from(workload.numjobs.max(1));
    let least = rounds(numjobs).max(ROUNDS) * u64::from(workload.iodepth);
    Extent { time: TIME, ios: (IOS / numjobs).max(least) }
}

/// What a job that has done so many I/Os in its pass goes on to, all of it counted: until there are rounds
/// enough to tell hybrid.
pub fn longer(workload: &Workload, done: u64) -> Option<Extent> {
    let ios = rounds(u64::from(workload.numjobs.max(1))) * u64::from(workload.iodepth);
    (done < ios).then_some(Extent { time: LONGEST, ios })
}

/// Each of the jobs' rounds that show hybrid, together.
fn rounds(numjobs: u64) -> u64 {
    TIMER_ROUNDS.div_ceil(numjobs)
}

/// Whether completions can be counted here, and why not.
pub fn check(probe: &Probe) -> Result<(), String> {
    let counters = probe.count_completions(Waiting::Threads(&[])).map_err(|error| error.to_string())?;
    counters.end().map(drop).map_err(|error| error.to_string())
}

/// A pass that runs.
pub struct Pass {
    counters: Result<CompletionCounters, String>,
    begin: Snapshot,
    began: Instant,
}

/// A pass that has ended.
pub struct Passed {
    counts: Result<Completions, String>,
    begin: Snapshot,
    lasted: Duration,
}

impl Pass {
    /// Begins to count, from this snapshot on: no I/O of the trial is in flight. Counters that cannot be had
    /// fail no trial.
    pub fn begin(probe: &Probe, begin: Snapshot) -> Pass {
        let counters =
            probe.count_completions(Waiting::Threads(&begin.waiting())).map_err(|error| error.to_string());
        Pass { counters, begin, began: Instant::now() }
    }

    /// Closes the counters; again no I/O is in flight.
    pub fn end(self) -> Passed {
        let lasted = self.began.elapsed();
        let counts = self.counters.and_then(|counters| counters.end().map_err(|error| error.to_string()));
        Passed { counts, begin: self.begin, lasted }
    }
}

/// What a pass did.
pub enum Did<'a> {
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

/// A pass of fio, which `run` runs and looks at from its start on; a longer one where the first had too few
/// rounds.
pub fn pass_of_fio(
    probe: &Probe,
    workload: &Workload,
    mut run: impl FnMut(Extent, &mut dyn FnMut(u32) -> Duration) -> Result<(u64, ProcessEvidence), String>,
) -> Finding<Completions> {
    let mut passed = |extent| counted_of_fio(probe, |look| run(extent, look));
    let first = passed(extent(workload));
    let counted =
        first.and_then(|first| match longer(workload, first.0 / u64::from(workload.numjobs.max(1))) {
            Some(extent) => passed(extent),
            None => Ok(first),
        });
    counted.map_or_else(Finding::Unclear, |(_, completions)| completions)
}

/// One run of fio in a pass: its I/Os, and who completed them.
fn counted_of_fio(
    probe: &Probe,
    run: impl FnOnce(&mut dyn FnMut(u32) -> Duration) -> Result<(u64, ProcessEvidence), String>,
) -> Result<(u64, Finding<Completions>), String> {
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
    Ok((ios, pass.end().evidence(&snapshot(Edge::End)?, Did::Fio { ios, process })))
}

impl Passed {
    /// What was counted, of a pass that ended before the snapshot `end`.
    pub fn evidence(self, end: &Snapshot, did: Did<'_>) -> Finding<Completions> {
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

    fn workload(numjobs: u32, iodepth: u32) -> Workload {
        Workload { numjobs, iodepth, ..Workload::default() }
    }

    #[test]
    fn a_pass_has_rounds_enough_for_timers_to_speak() {
        for (numjobs, iodepth, ios) in
            [(1, 1, 4096), (0, 32, 4096), (1, 1024, 50 * 1024), (64, 1, 64), (64, 32, 128), (8, 512, 7 * 512)]
        {
            let extent = extent(&workload(numjobs, iodepth));
            assert_eq!(extent, Extent { time: TIME, ios }, "{numjobs} jobs of {iodepth}");
            assert!(u64::from(numjobs.max(1)) * ios >= TIMER_ROUNDS * u64::from(iodepth));
        }
    }

    /// Seen in a guest beside builds: 12 to 36 rounds in a quarter of a second, where 50 tell poll from
    /// hybrid.
    #[test]
    fn a_pass_of_slow_rounds_goes_on_until_there_are_enough() {
        let goes_on =
            |numjobs, iodepth, done| longer(&workload(numjobs, iodepth), done).map(|extent| extent.ios);
        assert_eq!(longer(&workload(1, 1), 21), Some(Extent { time: LONGEST, ios: TIMER_ROUNDS }));
        assert_eq!(goes_on(1, 1, TIMER_ROUNDS), None);
        assert_eq!([goes_on(1, 32, 1599), goes_on(1, 32, 1600)], [Some(1600), None]);
        assert_eq!([goes_on(64, 1, 0), goes_on(64, 1, 1)], [Some(1), None]);
    }
}
