//! A machine whose power is a known function of time, and a logger with its own clock that reads it.

use iopj_meter::{
    Accuracy, Channel, ChannelKind, Distribution, Pattern, Reading, Scope, Search, Value, Window,
};
use rand_distr::{Distribution as _, StandardNormal, Uniform};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::f64::consts::TAU;

/// Host time of the simulation's 0 s.
const BOOT_S: f64 = 5_000.0;
/// The logger's time of the host's 0 s, as the study believes it: ns since 1970.
pub(crate) const EXPECTED_OFFSET_NS: i64 = 1_800_000_000_000_000_000;
/// Standard deviation of the logger's gain.
pub(crate) const GAIN: f64 = 0.0025;
const NOISE: f64 = 0.005;
const MISSING: f64 = 0.02;
const DRIFT: f64 = 50e-6;
const OFFSET_S: f64 = 120.0;
const TRIAL_S: f64 = 120.0;
const RAMP_S: f64 = 10.0;
/// Power follows the times that the generator notes with up to this delay.
const LATE_S: f64 = 0.005;

/// A wave in the power.
struct Wave {
    watts: f64,
    hz: f64,
    phase: f64,
}

impl Wave {
    fn power(&self, at_s: f64) -> f64 {
        self.watts * (TAU * self.hz * at_s + self.phase).sin()
    }

    fn energy(&self, from_s: f64, to_s: f64) -> f64 {
        let integral = |at_s: f64| -self.watts / (TAU * self.hz) * (TAU * self.hz * at_s + self.phase).cos();
        integral(to_s) - integral(from_s)
    }
}

/// Idle power that drifts and waves, and loads that go on and off at once.
pub(crate) struct Machine {
    idle_w: f64,
    drift_w_per_s: f64,
    waves: Vec<Wave>,
    /// Start, end, power; in order of time.
    loads: Vec<(f64, f64, f64)>,
}

impl Machine {
    pub(crate) fn power(&self, at_s: f64) -> f64 {
        let loads =
            self.loads.iter().filter(|load| load.0 <= at_s && at_s < load.1).map(|load| load.2).sum::<f64>();
        let waves: f64 = self.waves.iter().map(|wave| wave.power(at_s)).sum();
        self.idle_w + self.drift_w_per_s * at_s + waves + loads
    }

    pub(crate) fn energy(&self, from_s: f64, to_s: f64) -> f64 {
        let near = self.loads.partition_point(|load| load.1 <= from_s);
        let touched = self.loads[near..].iter().take_while(|load| load.0 < to_s);
        let loads: f64 = touched.map(|load| load.2 * (load.1.min(to_s) - load.0.max(from_s))).sum();
        let waves: f64 = self.waves.iter().map(|wave| wave.energy(from_s, to_s)).sum();
        let idle = self.idle_w + self.drift_w_per_s * f64::midpoint(from_s, to_s);
        idle * (to_s - from_s) + waves + loads
    }
}

/// The logger's errors.
struct Logger {
    offset_s: f64,
    drift: f64,
    gain: f64,
    /// 1 s for a logger of averages, 0 for one of instants.
    window_s: f64,
}

impl Logger {
    fn own_s(&self, host_s: f64) -> f64 {
        host_s + self.offset_s + self.drift * host_s
    }

    fn host_s(&self, own_s: f64) -> f64 {
        (own_s - self.offset_s) / (1.0 + self.drift)
    }

    fn watts(&self, machine: &Machine, host_s: f64) -> f64 {
        if self.window_s == 0.0 {
            return machine.power(host_s);
        }
        let begin_s = host_s - self.window_s / (1.0 + self.drift);
        machine.energy(begin_s, host_s) / (host_s - begin_s)
    }
}

/// One study: what was played and measured, the logger's log, and the truth.
pub(crate) struct Study {
    pub(crate) channel: Channel,
    pub(crate) log: Vec<Reading>,
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) trial: Window,
    /// When the trials' load went on and off, as the generator notes it.
    pub(crate) changes_ns: Vec<u64>,
    pub(crate) idle: Vec<Window>,
    pub(crate) truth_j: f64,
    /// The load's part of it.
    pub(crate) above_idle_j: f64,
    /// Relative error of every value.
    pub(crate) gain: f64,
    /// How much faster the logger's clock runs.
    pub(crate) drift: f64,
    logger: Logger,
}

/// A study's random numbers, from one seed.
pub(crate) struct Draw(Xoshiro256PlusPlus);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    fn within(&mut self, low: f64, high: f64) -> f64 {
        Uniform::new(low, high).unwrap().sample(&mut self.0)
    }

    fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.0)
    }
}

/// The parts of a study and their lengths.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// Whether the pattern is played at all.
    pub(crate) plays: bool,
    /// Whether the logger averages over its second, or samples an instant.
    pub(crate) averages: bool,
    /// Idle time between the trials and the last pattern.
    pub(crate) wait_s: f64,
}

pub(crate) fn ns(at_s: f64) -> u64 {
    ((BOOT_S + at_s) * 1e9).round() as u64
}

fn window(from_s: f64, to_s: f64) -> Window {
    Window { begin_ns: ns(from_s), end_ns: ns(to_s) }
}

impl Study {
    /// Pattern, idle, trial, idle, another trial, idle, pattern. Load ends with the measured window, as a
    /// generator's does.
    pub(crate) fn new(draw: &mut Draw, plan: Plan) -> Self {
        let (idle_w, load_w) = (draw.within(30.0, 120.0), draw.within(20.0, 100.0));
        let waves = [(0.002, 0.005, 0.03), (0.002, 0.005, 0.03), (0.0015, 3.0, 40.0), (0.0015, 3.0, 40.0)];
        let waves = waves.map(|(share, low, high)| Wave {
            watts: share * idle_w,
            hz: draw.within(low, high),
            phase: draw.within(0.0, TAU),
        });
        let drift_w_per_s = idle_w * draw.within(-0.01, 0.01) / 600.0;
        let mut machine = Machine { idle_w, drift_w_per_s, waves: waves.into(), loads: Vec::new() };
        let mut at_s = draw.within(30.0, 40.0);
        let first_rest = window(at_s - 25.0, at_s);
        let first = play(draw, &mut machine, &mut at_s, load_w, plan.plays);
        let (trial, rest) = run_trial(draw, &mut machine, &mut at_s, load_w);
        let other_w = load_w * draw.within(0.7, 1.3);
        let (other, last_rest) = run_trial(draw, &mut machine, &mut at_s, other_w);
        at_s += plan.wait_s;
        let last = play(draw, &mut machine, &mut at_s, load_w, plan.plays);
        let logger = Logger {
            offset_s: draw.within(-OFFSET_S, OFFSET_S),
            drift: draw.within(-DRIFT, DRIFT),
            gain: GAIN * draw.normal(),
            window_s: if plan.averages { 1.0 } else { 0.0 },
        };
        let log = log(draw, &machine, &logger, at_s + 20.0);
        Self {
            truth_j: machine.energy(trial.0, trial.1),
            above_idle_j: load_w * TRIAL_S,
            channel: channel(plan.averages),
            log,
            patterns: vec![first, last],
            trial: window(trial.0, trial.1),
            changes_ns: [trial, other]
                .into_iter()
                .flat_map(|(begin_s, end_s)| [ns(begin_s - RAMP_S), ns(end_s)])
                .collect(),
            idle: vec![first_rest, rest, last_rest],
            gain: logger.gain,
            drift: logger.drift,
            logger,
        }
    }

    /// The logger's time minus the host's at a host time.
    pub(crate) fn offset_ns(&self, host_ns: u64) -> i64 {
        let host_s = host_ns as f64 * 1e-9 - BOOT_S;
        EXPECTED_OFFSET_NS + ((self.logger.own_s(host_s) - host_s) * 1e9).round() as i64
    }
}

/// Puts a pattern into the machine's power.
fn play(draw: &mut Draw, machine: &mut Machine, at_s: &mut f64, watts: f64, plays: bool) -> Pattern {
    let design = Pattern::design(1_000_000_000);
    let times: Vec<f64> = design.edges_ns().iter().map(|edge| *at_s + *edge as f64 * 1e-9).collect();
    let (begin_s, end_s) = (*at_s, *at_s + design.end_ns() as f64 * 1e-9);
    if plays {
        let late: Vec<f64> = times.iter().map(|edge| edge + draw.within(0.0, LATE_S)).collect();
        machine.loads.extend(late.chunks(2).map(|pair| (pair[0], pair[1], watts)));
    }
    *at_s = end_s + draw.within(5.0, 15.0);
    let edges: Vec<u64> = times.into_iter().map(ns).collect();
    Pattern::played(ns(begin_s), &edges, ns(end_s)).unwrap()
}

/// A ramp and a measured window, then idle time, half of which is measured.
fn run_trial(draw: &mut Draw, machine: &mut Machine, at_s: &mut f64, watts: f64) -> ((f64, f64), Window) {
    let begin_s = *at_s + RAMP_S;
    let end_s = begin_s + TRIAL_S;
    machine.loads.push((*at_s + draw.within(0.0, LATE_S), end_s + draw.within(0.0, LATE_S), watts));
    *at_s = end_s + 30.0 + draw.within(0.0, 5.0);
    ((begin_s, end_s), window(end_s + 5.0, end_s + 30.0))
}

fn channel(averages: bool) -> Channel {
    let kind =
        if averages { ChannelKind::Average { window_ns: 1_000_000_000 } } else { ChannelKind::Instant };
    let accuracy = Some(Accuracy { gain: Distribution::Normal(GAIN), offset: Distribution::NONE });
    Channel { accuracy, ..Channel::new("logger", Scope::System, kind) }
}

/// A value at every whole second of the logger's clock during the study.
fn log(draw: &mut Draw, machine: &Machine, logger: &Logger, end_s: f64) -> Vec<Reading> {
    let (first, last) = (logger.own_s(0.0).ceil() as i64, logger.own_s(end_s) as i64);
    let mut log = Vec::with_capacity((last - first) as usize);
    for second in first..=last {
        let (is_missing, noise) = (draw.within(0.0, 1.0) < MISSING, draw.normal());
        if !is_missing {
            let watts = logger.watts(machine, logger.host_s(second as f64));
            let value = Value::Watts(watts * (1.0 + logger.gain) * (1.0 + NOISE * noise));
            let own_ns = EXPECTED_OFFSET_NS + BOOT_S as i64 * 1_000_000_000 + second * 1_000_000_000;
            log.push(Reading { channel: 0, value, begin_ns: 0, end_ns: 0, wall_ns: 0, own_ns: Some(own_ns) });
        }
    }
    log
}

/// The study's assumptions about the logger's clock.
pub(crate) const SEARCH: Search = Search {
    expected_offset_ns: EXPECTED_OFFSET_NS,
    range_ns: 150_000_000_000,
    max_drift: 100e-6,
    lag_ns: 5_000_000,
};
