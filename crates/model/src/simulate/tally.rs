//! What is counted, and what the result is made of.

use super::machine::{Machine, Used};
use super::scenario::{Arrivals, Scenario};
use iopj_record::histogram::{self, Histogram};

/// Parts of the measured I/Os by which an overload is told.
pub(crate) const PARTS: u64 = 8;

/// The share of a trace's time by which its last I/O is late, beyond which the path has fallen behind: as in
/// a trial of an open load.
const BEHIND: f64 = 0.01;

/// The result of a simulation, from the end of the warm-up to the last I/O. Times are in ns.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// I/Os measured: those asked for, and those that the job saw together with the last of them.
    pub ios: u64,
    /// How long that took.
    pub elapsed_ns: f64,
    /// Latencies: from before its batch is submitted, or from when an I/O was due, until the job has worked
    /// on all completions that it saw together. The histogram holds those above a minute as a minute.
    pub latency: Histogram<u64>,
    /// Their mean, without the histogram's rounding.
    pub mean_ns: f64,
    /// I/Os per second.
    pub iops: f64,
    /// I/Os in flight on average, from when their latency runs.
    pub mean_in_flight: f64,
    /// CPU time per I/O.
    pub cpu_ns_per_io: CpuPerIo,
    /// Cores that were busy on average.
    pub busy_cores: f64,
    /// Sleeps of jobs.
    pub sleeps_per_io: f64,
    /// Interrupts. Completions that come while a handler runs are handled by it.
    pub interrupts_per_io: f64,
    /// Calls that submit a batch, wait or both.
    pub calls_per_io: f64,
    /// Turns of loops that poll.
    pub spins_per_io: f64,
    /// Instructions, if the path says what it takes.
    pub instructions_per_io: Option<f64>,
    /// Power of the machine, if the scenario says what it draws.
    pub watts: Option<f64>,
    /// I/Os per joule of the machine.
    pub ios_per_joule: Option<f64>,
    /// True if latencies under an open load grew all through: the mean of each eighth of the measured I/Os is
    /// above that of the eighth before. Of a trace, whose load is not the same all through: if its last I/O
    /// was submitted later than it was due by more than 1 % of the trace's time.
    pub overload: bool,
    /// How late I/Os were submitted, under an open load.
    pub lag: Option<Lag>,
}

/// CPU time per I/O, by who used it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuPerIo {
    /// The threads that do I/O, what they polled included.
    pub job_ns: f64,
    /// Interrupt handlers.
    pub interrupt_ns: f64,
    /// The kernel's pollers.
    pub poller_ns: f64,
}

impl CpuPerIo {
    /// All of it.
    pub fn total_ns(&self) -> f64 {
        self.job_ns + self.interrupt_ns + self.poller_ns
    }
}

/// How long I/Os waited from when they were due until they were submitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lag {
    /// On average.
    pub mean_ns: f64,
    /// At most.
    pub max_ns: f64,
}

/// The counts of a simulation while it runs.
pub(super) struct Tally {
    warm_up: u64,
    ios: u64,
    completed: u64,
    /// The end of the warm-up, and of the measurement.
    begin: Option<Mark>,
    end: Option<Mark>,
    latency: Histogram<u64>,
    latency_sum: f64,
    part_sums: [f64; PARTS as usize],
    part_counts: [u64; PARTS as usize],
    /// I/Os in flight, and their integral over time up to `integrated`.
    in_flight: f64,
    integral: f64,
    integrated: f64,
    calls: u64,
    submitted: u64,
    lag_sum: f64,
    lag_max: f64,
    lag_last: f64,
}

/// What had been counted at a time.
#[derive(Clone, Copy, Default)]
struct Mark {
    at: f64,
    used: Used,
    integral: f64,
    calls: u64,
}

impl Tally {
    pub(super) fn new(scenario: &Scenario) -> Tally {
        Tally {
            warm_up: scenario.warm_up_ios,
            ios: scenario.ios,
            completed: 0,
            begin: (scenario.warm_up_ios == 0).then(Mark::default),
            end: None,
            latency: histogram::new(),
            latency_sum: 0.0,
            part_sums: [0.0; PARTS as usize],
            part_counts: [0; PARTS as usize],
            in_flight: 0.0,
            integral: 0.0,
            integrated: 0.0,
            calls: 0,
            submitted: 0,
            lag_sum: 0.0,
            lag_max: 0.0,
            lag_last: 0.0,
        }
    }

    /// True if enough I/Os are measured.
    pub(super) fn is_done(&self) -> bool {
        self.end.is_some()
    }

    /// A job makes a call.
    pub(super) fn call(&mut self) {
        self.calls += 1;
    }

    /// The latency of so many I/Os has begun at a time that may be past.
    pub(super) fn start(&mut self, now: f64, ios: u32, started: f64) {
        self.integrate(now);
        self.in_flight += f64::from(ios);
        self.integral += f64::from(ios) * (now - started);
    }

    /// An I/O is submitted so long after it was due.
    pub(super) fn late(&mut self, ns: f64) {
        if self.begin.is_some() {
            self.submitted += 1;
            self.lag_sum += ns;
            self.lag_max = self.lag_max.max(ns);
            self.lag_last = ns;
        }
    }

    /// A job has completed an I/O.
    pub(super) fn complete(&mut self, now: f64, started: f64) {
        self.integrate(now);
        self.in_flight -= 1.0;
        if self.begin.is_some() {
            let ns = now - started;
            self.latency.saturating_record(ns.round() as u64);
            self.latency_sum += ns;
            let part = (self.completed as u128 * u128::from(PARTS) / u128::from(self.ios)) as usize;
            // What was seen together with the last I/O asked for belongs to the last part.
            let part = part.min(PARTS as usize - 1);
            self.part_sums[part] += ns;
            self.part_counts[part] += 1;
        }
        self.completed += 1;
    }

    /// A job has completed all that it saw: perhaps the last I/O of the warm-up, or of all.
    pub(super) fn batch_ended(&mut self, machine: &mut Machine) {
        let mark = match self.begin {
            None if self.completed >= self.warm_up => &mut self.begin,
            Some(_) if self.completed >= self.ios => &mut self.end,
            _ => return,
        };
        let (at, used) = (machine.now(), machine.used());
        *mark = Some(Mark { at, used, integral: self.integral, calls: self.calls });
        if self.end.is_none() {
            self.completed = 0;
        }
    }

    fn integrate(&mut self, now: f64) {
        self.integral += self.in_flight * (now - self.integrated);
        self.integrated = now;
    }

    /// True if the mean latency of each part is above that of the one before. Eight parts that differ by
    /// chance alone are in that order once in 40,320 times.
    fn grew(&self) -> bool {
        let means = self.part_sums.iter().zip(&self.part_counts).map(|(sum, count)| sum / *count as f64);
        let means: Vec<f64> = means.collect();
        self.ios >= PARTS && means.windows(2).all(|two| two[1] > two[0])
    }

    /// True if the path does not keep up with the load.
    fn is_overload(&self, arrivals: &Arrivals) -> bool {
        match arrivals {
            Arrivals::Closed => false,
            Arrivals::Open { .. } => self.grew(),
            Arrivals::Trace(ios) => {
                let last = (self.warm_up + self.ios) as usize - 1;
                let ends = ios.first().zip(ios.get(last));
                let span = ends.map_or(0.0, |(first, last)| last.due_ns - first.due_ns);
                span > 0.0 && self.lag_last > BEHIND * span
            }
        }
    }

    /// The result; `None` if no time has passed.
    pub(super) fn finish(self, scenario: &Scenario) -> Option<Simulated> {
        let (begin, end) = (self.begin?, self.end?);
        let (ios, elapsed_ns) = (self.completed as f64, end.at - begin.at);
        if elapsed_ns <= 0.0 {
            return None;
        }
        let per_io = |of: fn(&Used) -> f64| (of(&end.used) - of(&begin.used)) / ios;
        let cpu_ns_per_io = CpuPerIo {
            job_ns: per_io(|used| used.job),
            interrupt_ns: per_io(|used| used.interrupt),
            poller_ns: per_io(|used| used.poller),
        };
        let iops = ios / elapsed_ns * 1e9;
        let busy_cores = cpu_ns_per_io.total_ns() * iops / 1e9;
        let deep_cores = (end.used.deep - begin.used.deep) / elapsed_ns;
        let [sleeps_per_io, spins_per_io] = [per_io(|used| used.sleeps as f64), per_io(|used| used.spins)];
        let watts = scenario.power.map(|power| {
            let of_cores = power.active_core_w * busy_cores - power.deep_idle_w * deep_cores;
            power.idle_w + of_cores + power.wake_joules * sleeps_per_io * iops
        });
        let calls_per_io = (end.calls - begin.calls) as f64 / ios;
        let instructions_per_io = scenario.path.instructions.map(|one| {
            let waiting = one.per_wake * sleeps_per_io + one.per_spin * spins_per_io;
            one.per_io + one.per_call * calls_per_io + waiting
        });
        let is_open = !matches!(scenario.arrivals, Arrivals::Closed);
        let lag = Lag { mean_ns: self.lag_sum / self.submitted as f64, max_ns: self.lag_max };
        Some(Simulated {
            ios: self.completed,
            elapsed_ns,
            mean_ns: self.latency_sum / ios,
            iops,
            mean_in_flight: (end.integral - begin.integral) / elapsed_ns,
            cpu_ns_per_io,
            busy_cores,
            sleeps_per_io,
            interrupts_per_io: per_io(|used| used.interrupts as f64),
            calls_per_io,
            spins_per_io,
            instructions_per_io,
            watts,
            ios_per_joule: watts.map(|watts| iops / watts),
            overload: self.is_overload(&scenario.arrivals),
            lag: (is_open && self.submitted > 0).then_some(lag),
            latency: self.latency,
        })
    }
}
