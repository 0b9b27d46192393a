//! One meter on its own thread: read at its interval, tried again after a failure, and never waited for.

use super::config::MeterSpec;
use super::kinds::OpenMeter;
use super::record::counted;
use crate::metrics;
use iopj_core::Allow;
use iopj_load::corunner;
use iopj_meter::{Cadence, Channel, Meter, MeterError, OpenError, Reading, median_period_s};
use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The name of every meter's thread. The kernel gives it to threads that a meter starts, too. The probe
/// leaves threads of this name out.
pub(crate) const THREAD_NAME: &str = "iopj-meter";
/// How long a meter may take to open.
const OPENING: Duration = Duration::from_secs(30);
/// Failures in a row before the user is told.
const PATIENCE: u32 = 3;
/// The longest time between two attempts.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(10);
/// A notice that a meter has ended begins with this.
pub(super) const NO_MORE: &str = "gives no more readings: ";
/// How long a reading may take before the user is told.
const HANGS: Duration = Duration::from_secs(10);
/// How long to wait for the end of a thread.
const PARTING: Duration = Duration::from_secs(2);

/// How often a thread that waits for a meter looks whether the user has ended the program.
const LOOK: Duration = Duration::from_millis(50);
/// The readings of each channel that show how often it gives a value.
const FIRST: usize = 12;

/// A meter that is being opened on a thread of its own.
pub(crate) struct OpeningMeter {
    pub spec: MeterSpec,
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
    opened: mpsc::Receiver<Result<Vec<Channel>, OpenError>>,
    began: Instant,
}

/// A meter that runs.
pub struct RunningMeter {
    /// What the study says of it.
    pub spec: MeterSpec,
    /// Its channels.
    pub channels: Vec<Channel>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    began: Instant,
    has_reported_hang: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    readings: Vec<Reading>,
    /// What the user should know.
    notices: Vec<String>,
    /// Since when a reading has been under way.
    reading_since: Option<Instant>,
    stop: bool,
    has_ended: bool,
    /// Failures in a row, and what the last one was.
    failures: u32,
    failure: Option<String>,
    /// The first readings of each channel.
    first: Vec<Reading>,
    /// CPU time of the thread so far.
    cpu: Duration,
    count: u64,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the thread to end, and waits until it has, or seems to hang.
    fn end(&self) -> MutexGuard<'_, State> {
        let deadline = Instant::now() + PARTING;
        let mut state = self.state();
        state.stop = true;
        self.changed.notify_all();
        while !state.has_ended && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }
}

/// What a meter's thread cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// How many readings it made.
    pub readings: u64,
    pub(crate) cpu: Duration,
    pub(crate) elapsed: Duration,
}

impl Cost {
    /// The cost of a meter of this name.
    pub(super) fn in_words(&self, name: &str) -> String {
        let share = 100.0 * self.cpu.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-9);
        format!("{name}: {} readings for {share:.3} % of a core", self.readings)
    }
}

impl OpeningMeter {
    /// Begins to open a meter, and then to read it.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(
        spec: MeterSpec,
        source: Box<dyn OpenMeter>,
        allow: Allow,
    ) -> Result<OpeningMeter, OpenError> {
        let shared = Arc::new(Shared::default());
        let (sender, opened) = mpsc::channel();
        let (interval, theirs) = (spec.interval, Arc::clone(&shared));
        let body = move || {
            match source.open(allow) {
                Ok(meter) => {
                    if sender.send(Ok(meter.channels().to_vec())).is_ok() {
                        live(meter, interval, &theirs);
                    }
                }
                Err(error) => drop(sender.send(Err(error))),
            }
            theirs.state().has_ended = true;
            theirs.changed.notify_all();
        };
        let thread = std::thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(body);
        let thread = thread.map_err(|error| {
            OpenError(format!("a thread for it could not be started: {error}; end other programs"))
        })?;
        Ok(OpeningMeter { spec, shared, thread, opened, began: Instant::now() })
    }

    pub(crate) fn name(&self) -> &str {
        &self.spec.name
    }

    /// Waits until the meter is open.
    ///
    /// # Errors
    /// Why it cannot be opened; the text names the thing, the cause and the remedy.
    pub(crate) fn open(self, stop: &AtomicBool) -> Result<RunningMeter, OpenError> {
        let OpeningMeter { spec, shared, thread, opened, began } = self;
        let channels = loop {
            match opened.recv_timeout(LOOK) {
                Ok(channels) => break channels?,
                Err(RecvTimeoutError::Timeout) if began.elapsed() < OPENING => {}
                Err(_) => {
                    let limit_s = OPENING.as_secs();
                    return Err(OpenError(format!(
                        "it did not open within {limit_s} s: check that it answers"
                    )));
                }
            }
            if stop.load(Ordering::Relaxed) {
                // What it has begun, such as a session of a BMC's, it ends.
                drop(opened);
                drop(shared.end());
                return Err(OpenError("the wait for it to open was interrupted".to_owned()));
            }
        };
        Ok(RunningMeter { spec, channels, shared, thread: Some(thread), began, has_reported_hang: false })
    }
}

impl RunningMeter {
    /// Waits for the first reading.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn first_reading(&self, stop: &AtomicBool) -> Result<(), OpenError> {
        let limit = OPENING.max(self.spec.interval * 2);
        let mut state = self.shared.state();
        while state.count == 0 {
            let failed = |text: &str| Err(OpenError(text.to_owned()));
            if state.has_ended || state.failures >= PATIENCE {
                return failed(state.failure.as_deref().unwrap_or("it ended without a reading"));
            }
            if stop.load(Ordering::Relaxed) {
                return failed("the wait for its first reading was interrupted");
            }
            if self.began.elapsed() > limit {
                return failed(&format!(
                    "it gave no reading within {} s: check that it answers",
                    limit.as_secs()
                ));
            }
            state = self.shared.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// How often each channel that gives joules has a value: as its first readings show it, or as the study
    /// says if that is longer or there are too few.
    pub(crate) fn cadences(&self) -> Vec<Cadence> {
        let first = self.shared.state().first.clone();
        let cadence = |index: usize| {
            let of_channel = first.iter().filter(|reading| reading.channel == index);
            let seen_s = median_period_s(of_channel.map(|reading| reading.end_ns as f64 * 1e-9));
            self.spec.cadence(self.channels[index].kind, seen_s)
        };
        counted(&self.channels).into_iter().map(cadence).collect()
    }

    /// The readings since the last call, and notices for the user.
    pub fn take(&mut self) -> (Vec<Reading>, Vec<String>) {
        let mut state = self.shared.state();
        let mut notices = std::mem::take(&mut state.notices);
        let limit = HANGS.max(self.spec.interval * 2);
        let hangs = state.reading_since.is_some_and(|since| since.elapsed() > limit);
        if hangs && !self.has_reported_hang {
            notices.push(format!("has not answered for {} s; the study goes on", limit.as_secs()));
        } else if !hangs && self.has_reported_hang {
            notices.push("answers again".to_owned());
        }
        self.has_reported_hang = hangs;
        (std::mem::take(&mut state.readings), notices)
    }

    /// The readings since the last [`take`](RunningMeter::take), and whether more can come.
    pub fn look(&self) -> (Vec<Reading>, bool) {
        let state = self.shared.state();
        (state.readings.clone(), !state.has_ended)
    }

    /// What the last failed reading said.
    pub(crate) fn failure(&self) -> Option<String> {
        self.shared.state().failure.clone()
    }

    /// Ends the thread; one that hangs is left behind. Readings stay to be taken.
    pub fn stop(&mut self) -> Cost {
        let state = self.shared.end();
        let cost = Cost { readings: state.count, cpu: state.cpu, elapsed: self.began.elapsed() };
        let has_ended = state.has_ended;
        drop(state);
        if let Some(thread) = self.thread.take().filter(|_| has_ended) {
            let _ = thread.join();
        }
        cost
    }
}

impl Drop for RunningMeter {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop();
        }
    }
}

/// Reads until it is stopped, or the meter has ended.
fn live(mut meter: Box<dyn Meter>, interval: Duration, shared: &Shared) {
    let mut due = Instant::now();
    let mut readings = Vec::new();
    let most_first = FIRST * meter.channels().len();
    loop {
        shared.state().reading_since = Some(Instant::now());
        let result = catch_unwind(AssertUnwindSafe(|| meter.read(&mut readings)))
            .unwrap_or_else(|_| Err(MeterError::Fatal("it ended by a panic: report it".to_owned())));
        let mut state = shared.state();
        state.reading_since = None;
        state.count += u64::from(!readings.is_empty());
        let left = most_first.saturating_sub(state.first.len());
        state.first.extend(readings.iter().take(left));
        state.readings.append(&mut readings);
        state.cpu = thread_cpu();
        match result {
            Ok(()) => {
                if state.failures >= PATIENCE {
                    state.notices.push("gives readings again".to_owned());
                }
                state.failures = 0;
            }
            Err(MeterError::Retry(text)) => {
                state.failures += 1;
                if state.failures == PATIENCE {
                    state.notices.push(format!("gives no readings, and is tried again: {text}"));
                }
                state.failure = Some(text);
            }
            Err(end @ (MeterError::Fatal(_) | MeterError::Ended)) => {
                state.notices.push(format!("{NO_MORE}{end}"));
                state.failure = Some(end.to_string());
                return;
            }
        }
        shared.changed.notify_all();
        due = (due + back_off(interval, state.failures)).max(Instant::now());
        while !state.stop && Instant::now() < due {
            let left = due.saturating_duration_since(Instant::now());
            state = shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.stop {
            return;
        }
    }
}

/// Time to the next attempt: twice as long after each failure, but never beyond a limit.
fn back_off(interval: Duration, failures: u32) -> Duration {
    interval.saturating_mul(1 << failures.min(16)).min(LONGEST_BACK_OFF.max(interval))
}

/// CPU time of the calling thread, see clock_gettime(2).
fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The ids of this process' threads that do no I/O of a trial: the caller's, the meters', a co-runner's, and
/// the one that serves metrics.
pub fn own_threads() -> Vec<i32> {
    let mut own = vec![rustix::thread::gettid().as_raw_pid()];
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return own };
    let is_own = |name: &str| [THREAD_NAME, corunner::THREAD_NAME, metrics::THREAD_NAME].contains(&name);
    let is_own = |task: &std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| is_own(name.trim_end()))
    };
    let tid = |task: std::fs::DirEntry| task.file_name().to_str()?.parse::<i32>().ok();
    own.extend(tasks.flatten().filter(is_own).filter_map(tid));
    own
}

#[cfg(test)]
pub(super) mod tests;
