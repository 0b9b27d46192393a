//! The life of a watch: counters opened, the program let go, looks and slices until it ends, the sum.

use super::budget::{Budget, COUNTING, RESTING, SAMPLING, SLICE};
use super::latency::Latencies;
use super::power::Power;
use super::subject::{Found, disks_of};
use super::{Notes, WatchError, WatchOptions, WatchStop, WatchView};
use hdrhistogram::Histogram;
use iopj_core::watch::{EventCounts, EventEstimates, WatchEvidence, WatchSubject};
use iopj_metering::unix_ns;
use iopj_probe::Reaped;
use iopj_probe::watch::{SampledSlice, WatchLook, Watcher, paths_of};
use iopj_record::watch::{WatchEnd, WatchInterval, WatchRecord};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Between two looks at what counting costs.
const PULSE: Duration = Duration::from_millis(100);
/// At the beginning files and disks are looked for so often, so that a short program is seen too.
const EARLY: Duration = Duration::from_millis(20);
const EARLY_UNTIL: Duration = Duration::from_millis(500);
/// Intervals that are kept.
const LONGEST_ROWS: usize = 100_000;

/// How long a watch lasts, and how often it gives figures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) length: Option<Duration>,
    pub(super) interval: Duration,
    /// How long processes that a program leaves behind are watched on; without a limit until they end.
    pub(super) grace: Option<Duration>,
}

/// What a watch gave.
pub(super) struct Lived {
    pub(super) record: WatchRecord,
    /// How a program that was started ended, and its totals.
    pub(super) ended: Option<Reaped>,
    /// Processes that it left behind.
    pub(super) left: Vec<i32>,
    /// Latencies of all disks.
    pub(super) latencies: Histogram<u64>,
}

/// A watch that goes on.
struct Life<'a> {
    view: &'a mut dyn WatchView,
    span: Span,
    subject: WatchSubject,
    watcher: Watcher,
    power: Power,
    counting: Budget,
    sampling: Budget,
    began: Instant,
    first: WatchLook,
    /// When the last interval began.
    interval_at: Instant,
    interval_look: WatchLook,
    pulse_at: Instant,
    /// When disks were last looked for, and how long that took.
    sought_at: Instant,
    seeking_took: Duration,
    sampled: Sampled,
    intervals: Vec<WatchInterval>,
    /// The sum of the intervals, each scaled up by itself, or with those before it of which too little was
    /// counted; up to this look.
    estimates: EventEstimates,
    estimated_look: WatchLook,
    has_told_lost: bool,
}

/// What was sampled, and for how long.
#[derive(Default)]
struct Sampled {
    interval: Latencies,
    whole: Latencies,
    interval_on: Duration,
    whole_on: Duration,
    lost: u64,
    since: Option<Instant>,
}

pub(super) fn live(
    options: &WatchOptions,
    view: &mut dyn WatchView,
    stop: WatchStop<'_>,
) -> Result<WatchRecord, WatchError> {
    let power = Power::open(&mut Notes(view), stop.now)?;
    let found = Found::of(&options.target)?;
    let span = Span { length: options.length, interval: options.interval, grace: None };
    lived(found, power, span, view, stop).map(|lived| lived.record)
}

/// Watches what was found.
pub(super) fn lived(
    mut found: Found,
    power: Power,
    span: Span,
    view: &mut dyn WatchView,
    stop: WatchStop<'_>,
) -> Result<Lived, WatchError> {
    let mut watcher = Watcher::new(&found.watched)?;
    found.disks.iter().for_each(|disk| watcher.add_disk(disk));
    let first = watcher.look(true)?;
    let now = Instant::now();
    let mut life = Life {
        view,
        span,
        subject: found.subject.clone(),
        watcher,
        power,
        counting: Budget::new(COUNTING),
        sampling: Budget::new(SAMPLING),
        began: now,
        interval_look: first.clone(),
        estimated_look: first.clone(),
        first,
        interval_at: now,
        pulse_at: now,
        sought_at: now,
        seeking_took: Duration::ZERO,
        sampled: Sampled::default(),
        intervals: Vec::new(),
        estimates: EventEstimates::default(),
        has_told_lost: false,
    };
    let started_unix_ns = unix_ns();
    life.watcher.resume();
    life.start_sampling();
    life.view.starts();
    if let Some(program) = &mut found.program {
        // It has done nothing yet, and earned nothing.
        life.watcher.spent();
        program.run()?;
    }
    life.view.begin(&life.subject);
    let denied = life.watcher.denied().0.clone();
    denied.iter().for_each(|text| life.view.note(text));
    let end = life.until_end(&found, stop)?;
    life.into_lived(&found, end, started_unix_ns)
}

impl Life<'_> {
    /// What was seen of a life that has ended.
    fn into_lived(mut self, found: &Found, end: WatchEnd, started_unix_ns: u64) -> Result<Lived, WatchError> {
        let (evidence, ended) = self.finish(found, end)?;
        let left = if found.program.is_some() { self.left_behind(found) } else { Vec::new() };
        let latencies = self.sampled.whole.all();
        let record = WatchRecord {
            started_unix_ns,
            end: ended.as_ref().map_or(end, |ended| end_of(ended.status)),
            interval_ns: ns(self.span.interval),
            followed: found.followed.to_owned(),
            denied: self.watcher.denied().0.clone(),
            provenance: provenance(&self.power),
            paths: paths_of(&evidence),
            evidence,
            subject: self.subject,
            intervals: self.intervals,
        };
        Ok(Lived { record, ended, left, latencies })
    }

    /// Looks and counts until the program or the time ends.
    fn until_end(&mut self, found: &Found, stop: WatchStop<'_>) -> Result<WatchEnd, WatchError> {
        let end_at = self.span.length.map(|length| self.began + length);
        let mut program_ended: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if stop.now.load(Ordering::Relaxed) || end_at.is_some_and(|end| now >= end) {
                return Ok(WatchEnd::Stopped);
            }
            let next = (self.interval_at + self.span.interval).min(self.pulse_at + self.pulse());
            let next = end_at.map_or(next, |end| next.min(end)).saturating_duration_since(now);
            match &found.program {
                Some(program) if program_ended.is_none() => {
                    if program.wait(next) {
                        self.view.ended();
                        program_ended = Some(Instant::now());
                    }
                    self.view.passes(program.pid());
                }
                _ => std::thread::sleep(next),
            }
            if found.program.is_some() {
                let grace = self.span.grace;
                let is_over = |at: Instant| grace.is_some_and(|grace| at.elapsed() >= grace);
                if let Some(at) = program_ended
                    && (!self.is_left_behind(found, stop)? || is_over(at))
                {
                    return Ok(WatchEnd::Gone);
                }
            } else if self.is_gone()? {
                return Ok(WatchEnd::Gone);
            }
            if self.pulse_at.elapsed() >= self.pulse() {
                self.beat()?;
            }
            if self.interval_at.elapsed() >= self.span.interval {
                self.interval()?;
            }
        }
    }

    /// The time to the next beat.
    fn pulse(&self) -> Duration {
        let is_early = self.began.elapsed() < EARLY_UNTIL;
        let is_dear = self.watcher.is_counting() && self.counting.is_dear();
        if is_early || is_dear || self.watcher.is_sampling() { EARLY } else { PULSE }
    }

    /// Accounts for what counting and sampling cost, and decides whether they go on.
    fn beat(&mut self) -> Result<(), WatchError> {
        let (was_counting, was_sampling) = (self.watcher.is_counting(), self.watcher.is_sampling());
        if was_sampling {
            self.stop_sampling();
        }
        if self.seeks_disks() {
            let began = Instant::now();
            self.watcher.look(true)?;
            self.find_disks();
            (self.sought_at, self.seeking_took) = (Instant::now(), began.elapsed());
        }
        let spent = self.watcher.spent();
        self.pulse_at = Instant::now();
        self.counting.pass(spent.elapsed, spent.program_ns, was_counting, spent.counting_ns);
        self.sampling.pass(spent.elapsed, spent.program_ns, was_sampling, spent.sampling_ns);
        match (was_counting, self.counting.allows(was_counting)) {
            (_, false) => self.watcher.suspend(RESTING),
            (false, true) => self.watcher.resume(),
            _ => {}
        }
        if self.sampling.allows(false) {
            self.start_sampling();
        }
        Ok(())
    }

    /// While no disk is known they are looked for often at first, then more and more rarely; of many
    /// processes, which take long, for a tenth of the time.
    fn seeks_disks(&self) -> bool {
        let (age, since) = (self.began.elapsed(), self.sought_at.elapsed());
        let is_due = age < EARLY_UNTIL || (self.watcher.disks().is_empty() && since >= age / 10);
        is_due && since >= 9 * self.seeking_took
    }

    fn start_sampling(&mut self) {
        self.watcher.start_sampling();
        self.sampled.since = self.watcher.is_sampling().then(Instant::now);
    }

    fn stop_sampling(&mut self) {
        let SampledSlice { requests, lost } = self.watcher.stop_sampling();
        for request in &requests {
            if request.of_program {
                self.watcher.add_disk(&request.device);
            }
            self.sampled.interval.add(request);
            self.sampled.whole.add(request);
        }
        self.sampled.lost = lost;
        let on = self.sampled.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        self.sampled.interval_on += on;
        self.sampled.whole_on += on;
    }

    /// Adds the disks that hold the program's files.
    fn find_disks(&mut self) {
        let devices: Vec<u64> = self.watcher.devices_of_files().iter().copied().collect();
        for disk in devices.into_iter().flat_map(disks_of) {
            self.watcher.add_disk(&disk);
        }
    }

    /// Ends an interval, shows it, and begins the next.
    fn interval(&mut self) -> Result<(), WatchError> {
        let look = self.watcher.look(true)?;
        self.find_disks();
        self.watcher.reap_adopted();
        let mut evidence = self.watcher.between(&self.interval_look, &look);
        let over = self.interval_at.elapsed();
        self.sampled.interval.put_into(&mut evidence.devices);
        // A slice may have begun in the interval before.
        evidence.cost.sampled_share = (self.sampled.interval_on.as_secs_f64() / over.as_secs_f64()).min(1.0);
        evidence.cost.lost_samples = self.sampled.lost;
        let (power, notices) = self.power.interval(over.as_secs_f64());
        evidence.power = power;
        notices.iter().for_each(|text| self.view.note(text));
        self.estimate(&look, false);
        let mut whole = self.watcher.between(&self.first, &look);
        self.sampled.whole.put_into(&mut whole.devices);
        // Where counting rested, what was seen before goes on.
        let is_counted = evidence.events.as_ref().is_none_or(EventCounts::is_counted);
        let paths = paths_of(if is_counted { &evidence } else { &whole });
        let interval = WatchInterval { end_ns: ns(self.began.elapsed()), evidence, paths };
        self.view.interval(&self.subject, &interval, &whole);
        // A watch of days keeps its first intervals, and the sum of all.
        if self.intervals.len() < LONGEST_ROWS {
            self.intervals.push(interval);
        }
        self.sampled.interval.clear();
        self.sampled.interval_on = Duration::ZERO;
        (self.interval_at, self.interval_look) = (Instant::now(), look);
        Ok(())
    }

    /// Adds what was counted since the last time, scaled up, if that is enough or all that there will be.
    fn estimate(&mut self, look: &WatchLook, is_last: bool) {
        let evidence = self.watcher.between(&self.estimated_look, look);
        if !is_last && !evidence.is_enough() {
            return;
        }
        if let Some(estimates) = EventEstimates::of(&evidence) {
            self.estimates.add(&estimates);
        }
        self.estimated_look = look.clone();
    }

    /// After the end of the program itself: true if it left processes behind that are watched on.
    fn is_left_behind(&mut self, found: &Found, stop: WatchStop<'_>) -> Result<bool, WatchError> {
        if stop.interrupted.load(Ordering::Relaxed) {
            return Ok(false);
        }
        self.watcher.look(false)?;
        self.watcher.reap_adopted();
        let left = self.left_behind(found).len();
        if left > 0 && self.span.grace.is_none() && !std::mem::replace(&mut self.has_told_lost, true) {
            let what =
                if left == 1 { "a process that it started runs" } else { "processes that it started run" };
            self.view.note(&format!(
                "the program has ended, and {what} on ({left}): watched until the end, or until Ctrl-C"
            ));
        }
        Ok(left > 0)
    }

    /// The program's processes that go on after it.
    fn left_behind(&self, found: &Found) -> Vec<i32> {
        let program = found.program.as_ref().map(|program| program.pid().cast_signed());
        self.watcher.own_pids().into_iter().filter(|pid| Some(*pid) != program).collect()
    }

    /// True if a watched process has ended, and all that descended from it. A control group may be empty for
    /// a while.
    fn is_gone(&mut self) -> Result<bool, WatchError> {
        match self.subject {
            WatchSubject::Process(pid, _) if !Path::new(&format!("/proc/{pid}")).exists() => {
                self.watcher.look(false)?;
                Ok(self.watcher.pids().is_empty())
            }
            _ => Ok(false),
        }
    }

    /// The last look, and the sum.
    fn finish(
        &mut self,
        found: &Found,
        end: WatchEnd,
    ) -> Result<(WatchEvidence, Option<Reaped>), WatchError> {
        if self.watcher.is_sampling() {
            self.stop_sampling();
        }
        let last = self.watcher.look(false)?;
        let spent = self.watcher.spent();
        self.counting.pass(spent.elapsed, spent.program_ns, true, spent.counting_ns);
        let last_interval = self.interval_at.elapsed();
        self.estimate(&last, true);
        let mut evidence = self.watcher.between(&self.interval_look, &last);
        if last_interval > SLICE {
            self.sampled.interval.put_into(&mut evidence.devices);
            let (power, _) = self.power.interval(last_interval.as_secs_f64());
            evidence.power = power;
            let paths = paths_of(&evidence);
            self.intervals.push(WatchInterval { end_ns: ns(self.began.elapsed()), evidence, paths });
        }
        let mut evidence = self.watcher.between(&self.first, &last);
        self.sampled.whole.put_into(&mut evidence.devices);
        let estimates = std::mem::take(&mut self.estimates).stretched(evidence.over_ns);
        evidence.estimates = evidence.events.as_ref().map(|_| estimates);
        let over = self.began.elapsed().as_secs_f64();
        evidence.power = self.power.whole(over);
        evidence.cost.sampled_share = self.sampled.whole_on.as_secs_f64() / over.max(1e-9);
        evidence.cost.lost_samples = self.sampled.lost;
        let ended = match end {
            WatchEnd::Gone => found.program.as_ref().and_then(|program| program.reap()),
            _ => None,
        };
        if self.watcher.is_end_hidden() {
            self.watcher.note_hidden_end(ended.as_ref());
            let last = self.watcher.look(false)?;
            let whole = self.watcher.between(&self.first, &last).program;
            if let (Some(counts), Some(whole)) = (&mut evidence.program, whole) {
                counts.whole_disk_bytes = whole.whole_disk_bytes;
            }
        }
        Ok((evidence, ended))
    }
}

fn end_of(status: ExitStatus) -> WatchEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => WatchEnd::Exited(code),
        (None, Some(signal)) => WatchEnd::Signalled(signal),
        (None, None) => WatchEnd::Gone,
    }
}

fn provenance(power: &Power) -> BTreeMap<String, String> {
    let uname = rustix::system::uname();
    let text = |value: &std::ffi::CStr| value.to_string_lossy().into_owned();
    let mut facts = BTreeMap::from([
        ("iopj".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("kernel".to_owned(), text(uname.release())),
        ("host".to_owned(), text(uname.nodename())),
    ]);
    if !power.names().is_empty() {
        facts.insert("meters".to_owned(), power.names().join(", "));
    }
    facts
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
