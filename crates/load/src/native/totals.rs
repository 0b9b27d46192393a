//! What the jobs of a trial did over the window, together.

use super::open_tally::OpenTally;
use super::recorder::Recorder;
use super::slices;
use super::tally::Tally;
use iopj_core::evidence::{EngineEvidence, SteadyState};
use iopj_core::routes::MOST_DECISIONS;
use iopj_core::{Route, Routes, Slice, Way};
use iopj_engine::{Counters, Registration, RouteCounts, Setup};

/// What the jobs of a trial did over the window, together.
pub struct WindowTotals {
    /// Start of the first job, `CLOCK_MONOTONIC` in ns.
    pub first_ns: u64,
    /// End of the last job, on the same clock.
    pub last_ns: u64,
    /// Reads and writes that were issued, short ones included.
    pub issued: [u64; 2],
    /// I/Os that moved fewer bytes than asked for; they have no latency here.
    pub short_ios: u64,
    /// The exact sum of all latencies.
    pub latency_sum_ns: u64,
    /// Latencies of reads and of writes.
    pub latency: [Recorder; 2],
    /// The least of them all, exact where the bins round.
    pub min_ns: u64,
    /// The greatest of them all.
    pub max_ns: u64,
    /// I/Os over time.
    pub series: Vec<Slice>,
    /// What the engines of all jobs did.
    pub engine: EngineEvidence,
    /// The result of the rule for the ramp's end.
    pub steadystate: Option<SteadyState>,
    /// I/Os of the pass before the window.
    pub pass_ios: u64,
    /// What became of an open load.
    pub open: Option<OpenTotals>,
}

/// What became of an open load over the window, of all jobs.
pub struct OpenTotals {
    /// I/Os that were due.
    pub due: u64,
    /// Of these, I/Os that were never issued.
    pub unissued: u64,
    /// Sum of the times in ns from when an I/O was due until it was issued.
    pub lag_sum_ns: u64,
    /// The maximum.
    pub lag_max_ns: u64,
    /// For how long, in ns, the oldest I/O that was not issued had been due when the time was over; of the
    /// job that was furthest behind.
    pub behind_ns: u64,
    /// Latencies from submission, and their exact sum.
    pub submission: Recorder,
    /// Their exact sum.
    pub submission_sum_ns: u64,
    /// Bytes that the reads and the writes that were issued were to move.
    pub issued_bytes: [u64; 2],
    /// Writes that a trace has durable (FUA).
    pub durable_writes: u64,
    /// Bytes that whole I/Os moved.
    pub whole_bytes: u64,
    /// Latencies of flushes and fsyncs, from when they were due.
    pub syncs: Recorder,
    /// Their exact sum.
    pub syncs_sum_ns: u64,
    /// Discards.
    pub discards: u64,
    /// Sleeps of the jobs between arrivals.
    pub sleeps: u64,
    /// How long they were in all, in ns.
    pub slept_ns: u64,
}

impl WindowTotals {
    /// I/Os that were whole.
    pub fn ios(&self) -> u64 {
        self.latency.iter().map(Recorder::count).sum()
    }
}

impl From<OpenTally> for OpenTotals {
    fn from(open: OpenTally) -> OpenTotals {
        OpenTotals {
            due: open.issued + open.unissued,
            unissued: open.unissued,
            lag_sum_ns: open.lag_sum_ns,
            lag_max_ns: open.lag_max_ns,
            behind_ns: open.behind_ns,
            submission: open.submission,
            submission_sum_ns: open.submission_sum_ns,
            issued_bytes: open.issued_bytes,
            durable_writes: open.durable_writes,
            whole_bytes: open.whole_bytes,
            syncs: open.syncs,
            syncs_sum_ns: open.syncs_sum_ns,
            discards: open.discards,
            sleeps: open.sleeps,
            slept_ns: open.slept_ns,
        }
    }
}

/// What a job counted, and its engine's set-up and counters: before the pass, before the window and after it.
pub(super) struct JobCounts {
    pub(super) tally: Tally,
    pub(super) setup: Setup,
    pub(super) before_pass: Counters,
    pub(super) before: Counters,
    pub(super) after: Counters,
    /// What the engine decided in the window.
    pub(super) decisions: Vec<String>,
}

/// Adds up what the jobs did.
pub(super) fn merge(jobs: Vec<JobCounts>) -> WindowTotals {
    let mut engine = EngineEvidence { system_calls: Some(0), ..EngineEvidence::default() };
    let mut latency = [Recorder::new(), Recorder::new()];
    let (mut issued, mut short_ios, mut latency_sum_ns) = ([0; 2], 0, 0);
    let (mut min_ns, mut max_ns, mut first_ns, mut last_ns) = (u64::MAX, 0, u64::MAX, 0);
    let (mut slices, mut open): (Vec<_>, Option<Box<OpenTally>>) = (Vec::new(), None);
    let mut decided = Vec::new();
    for JobCounts { tally, setup, before_pass, before, after, decisions } in jobs {
        for (sum, part) in latency.iter_mut().zip(&tally.latency) {
            sum.add(part);
        }
        for (op, sum) in issued.iter_mut().enumerate() {
            *sum += tally.latency[op].count() + tally.odd[op];
        }
        short_ios += tally.short_ios;
        latency_sum_ns += tally.latency_sum_ns;
        (min_ns, max_ns) = (min_ns.min(tally.min_ns), max_ns.max(tally.max_ns()));
        (first_ns, last_ns) = (first_ns.min(tally.first_ns), last_ns.max(tally.last_ns));
        slices.push(tally.slices);
        match (&mut open, tally.open) {
            (Some(sum), Some(part)) => sum.add(&part),
            (sum, part) => *sum = sum.take().or(part),
        }
        engine.system_calls = engine
            .system_calls
            .zip(after.system_calls.zip(before.system_calls))
            .map(|(sum, (after, before))| sum + after - before);
        engine.submit_calls += after.submit_calls - before.submit_calls;
        engine.wakeups += after.wakeups - before.wakeups;
        engine.ring_flags = setup.ring_flags;
        engine.registered = setup.registration != Registration::None;
        if let (Some(first), Some(begin), Some(end)) = (before_pass.routes, before.routes, after.routes) {
            add_routes(engine.routes.get_or_insert_default(), [&first, &begin, &end]);
        }
        decided.push(decisions);
        add_doorbells(&mut engine, &before, &after);
    }
    if let Some(routes) = &mut engine.routes {
        routes.decisions = latest(decided);
    }
    WindowTotals {
        first_ns,
        last_ns,
        issued,
        short_ios,
        latency_sum_ns,
        latency,
        min_ns,
        max_ns,
        series: slices::together(slices, last_ns),
        engine,
        steadystate: None,
        pass_ios: 0,
        open: open.map(|open| OpenTotals::from(*open)),
    }
}

/// Adds what the driver in this process counts, if it was that.
fn add_doorbells(engine: &mut EngineEvidence, before: &Counters, after: &Counters) {
    if after.doorbells > 0 {
        let add =
            |sum: &mut Option<u64>, after: u64, before: u64| *sum = Some(sum.unwrap_or(0) + after - before);
        add(&mut engine.doorbells, after.doorbells, before.doorbells);
        add(&mut engine.completion_doorbells, after.completion_doorbells, before.completion_doorbells);
        add(&mut engine.empty_polls, after.empty_polls, before.empty_polls);
        add(&mut engine.sleeps, after.sleeps, before.sleeps);
    }
}

/// Adds what went which way in a job's pass and window, by the counts before, between and after them.
fn add_routes(sum: &mut Routes, [first, begin, end]: [&RouteCounts; 3]) {
    for way in Way::ALL {
        let [first, begin, end] = [first, begin, end].map(|counts| counts.by_way[way.index()]);
        let (ios, pass_ios) = (end.saturating_sub(begin), begin.saturating_sub(first));
        if (ios, pass_ios) == (0, 0) {
            continue;
        }
        match sum.ways.iter_mut().find(|route| route.way == way) {
            Some(route) => (route.ios, route.pass_ios) = (route.ios + ios, route.pass_ios + pass_ios),
            None => sum.ways.push(Route { way, ios, pass_ios }),
        }
    }
    sum.ways.sort_by_key(|route| route.way);
    sum.switches += end.switches - begin.switches;
    sum.explored += end.explored - begin.explored;
    sum.failures += end.failures - begin.failures;
    sum.redone += end.redone - begin.redone;
    sum.pass_redone += begin.redone - first.redone;
}

/// The latest decisions of all jobs: of each the latest, then of each the one before, until there are enough.
/// Several jobs are told apart by their numbers.
fn latest(decided: Vec<Vec<String>>) -> Vec<String> {
    let mut shares = vec![0; decided.len()];
    let mut left = MOST_DECISIONS;
    while left > 0 {
        let more = shares.iter_mut().zip(&decided).filter(|(share, own)| **share < own.len()).take(left);
        let taken = more.map(|(share, _)| *share += 1).count();
        if taken == 0 {
            break;
        }
        left -= taken;
    }
    let is_alone = decided.len() == 1;
    let of_job = |(job, (share, own)): (usize, (usize, Vec<String>))| {
        let skipped = own.len() - share;
        let named = move |line: String| if is_alone { line } else { format!("job {job}: {line}") };
        own.into_iter().skip(skipped).map(named)
    };
    shares.into_iter().zip(decided).enumerate().flat_map(of_job).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_which_way_is_added_up_over_the_jobs() {
        let counts = |interrupt, sqpoll, switches| {
            let mut counts = RouteCounts { switches, ..RouteCounts::default() };
            counts.by_way[Way::Interrupt.index()] = interrupt;
            counts.by_way[Way::Sqpoll.index()] = sqpoll;
            counts
        };
        let mut sum = Routes::default();
        let one = [counts(5, 0, 1), counts(15, 0, 1), counts(45, 7, 3)];
        add_routes(&mut sum, [&one[0], &one[1], &one[2]]);
        let other = [counts(0, 0, 0), counts(0, 2, 1), counts(100, 2, 2)];
        add_routes(&mut sum, [&other[0], &other[1], &other[2]]);
        let ways = [(Way::Interrupt, 130, 10), (Way::Sqpoll, 7, 2)];
        assert_eq!(sum.ways, ways.map(|(way, ios, pass_ios)| Route { way, ios, pass_ios }));
        assert_eq!(
            (sum.switches, sum.ios(), sum.text().as_str()),
            (3, 137, "io_uring/syscall/interrupt=130 io_uring/sqpoll/interrupt=7")
        );
    }

    #[test]
    fn every_job_has_its_share_of_the_latest_decisions() {
        let of = |counts: &[usize]| {
            let lines = |count: &usize| (0..*count).map(|number| number.to_string()).collect();
            latest(counts.iter().map(lines).collect())
        };
        assert_eq!(of(&[12]), (2..12).map(|number| number.to_string()).collect::<Vec<_>>());
        assert_eq!(of(&[]), [""; 0]);
        let two = of(&[20, 2]);
        assert_eq!((two.len(), two[0].as_str(), two[7].as_str()), (10, "job 0: 12", "job 0: 19"));
        assert_eq!(two[8..], ["job 1: 0", "job 1: 1"]);
        // Of more jobs than lines each has one at most.
        let many = of(&[3; 12]);
        assert_eq!((many.len(), many[9].as_str()), (10, "job 9: 2"));
    }
}
