//! What a study's meters answer now: some readings of each, for `iopj meter test`.

use super::config::{self, MeterSource, MeterSpec, MeterSpecs, addresses_in_words};
use super::record::counted;
use super::thread::{OpeningMeter, RunningMeter};
use iopj_core::Allow;
use iopj_meter::{Channel, ChannelKind, Clock, Incomplete, Reading, accuracy_text, median_period_s, powers};
use iopj_study::{Study, StudyError};
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Readings of each channel.
pub const READINGS: usize = 5;
/// The longest wait for them, of all meters together.
const LONGEST: Duration = Duration::from_secs(60);
/// How often the wait looks at the meter.
const LOOK: Duration = Duration::from_millis(20);

/// What a meter answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeterCheck {
    /// Its name in the study.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// How often a study reads it.
    pub interval_s: f64,
    /// Its channels; none if it could not be opened.
    pub channels: Vec<ChannelCheck>,
    /// Why a meter is not read now: it is a log or a model.
    pub note: Option<String>,
    /// Why it could not be opened or read.
    pub error: Option<String>,
}

/// What a channel answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChannelCheck {
    /// Its name.
    pub name: String,
    /// What it measures: the scope's word.
    pub scope: String,
    /// `counter`, `instant` or `average`.
    pub kind: &'static str,
    /// The unit of a value and of the resolution: J of a counter, W of a gauge.
    pub unit: &'static str,
    /// The smallest step of a value; 0 if it is too fine to matter.
    pub resolution: f64,
    /// The declared accuracy in words.
    pub accuracy: String,
    /// The readings.
    pub readings: Vec<ReadingCheck>,
    /// How old a value may be by the time that it is read, as the study says or as its kind assumes.
    pub assumed_age_s: f64,
    /// The median time between two readings; absent with fewer than two.
    pub seen_interval_s: Option<f64>,
    /// The standard deviation of power; absent with fewer than two powers.
    pub noise_w: Option<f64>,
    /// The least `runtime` of a trial with joules; absent if no trial has any, or if another channel gives
    /// them.
    pub least_runtime_s: Option<f64>,
    /// Why no trial has joules.
    pub no_joules: Option<String>,
}

/// A reading.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReadingCheck {
    /// The value: of a counter the joules since its first reading here.
    pub value: f64,
    /// How old the value was when it arrived: by the meter's own time, or else how long the reading took.
    pub age_s: f64,
    /// The age is by the meter's own time, so it holds what its clock is wrong by.
    pub by_own_time: bool,
}

/// Reads the meters that a study names, or those of this machine, some times each, all at once. `waits` gets
/// a line that says what the check waits for.
///
/// # Errors
/// A table of the study cannot be read. A meter that cannot be read says so in its own record.
pub fn check(
    study: Option<&Study>,
    allow: Allow,
    stop: &AtomicBool,
    waits: &mut dyn FnMut(&str),
) -> Result<Vec<MeterCheck>, StudyError> {
    study.map_or(Ok(()), |study| study.check_allowed(allow))?;
    let specs =
        match study.map(|study| config::meter_specs(study.meters.as_ref(), "the study")).transpose()? {
            None | Some(MeterSpecs::Local) => of_machine()?,
            Some(MeterSpecs::None) => Vec::new(),
            Some(MeterSpecs::Named(specs)) => specs,
        };
    addresses_in_words(&specs).iter().for_each(|line| waits(line));
    let begun: Vec<Begun> = specs.into_iter().map(|(spec, source)| Begun::new(spec, source, allow)).collect();
    if let Some(slowest) = begun.iter().filter(|one| one.opening.is_some()).map(|one| one.interval).max() {
        let (about, most) =
            ((slowest * READINGS as u32).min(LONGEST).as_secs_f64().ceil(), LONGEST.as_secs());
        waits(&format!("reading each meter {READINGS} times: about {about} s, at most {most} s"));
    }
    let deadline = Instant::now() + LONGEST;
    Ok(begun.into_iter().map(|one| one.end(deadline, stop)).collect())
}

/// The meters of this machine, drives included.
fn of_machine() -> Result<Vec<(MeterSpec, MeterSource)>, StudyError> {
    let here = iopj_meter::local_meters(Path::new("/"));
    let here = here.iter().filter(|found| found.why_not.is_none());
    let spec = |name: &String| match name.split_once(':') {
        None => config::plain(name, name, &[]),
        Some((kind, key)) => {
            config::plain(name, kind, &[(if kind == "nvme" { "controller" } else { "chip" }, key)])
        }
    };
    here.map(|found| spec(&found.name)).collect()
}

/// A meter whose check has begun.
struct Begun {
    check: MeterCheck,
    interval: Duration,
    opening: Option<OpeningMeter>,
}

impl Begun {
    fn new(spec: MeterSpec, source: MeterSource, allow: Allow) -> Begun {
        let interval = spec.interval;
        let mut check = MeterCheck {
            name: spec.name.clone(),
            kind: spec.kind,
            interval_s: interval.as_secs_f64(),
            channels: Vec::new(),
            note: None,
            error: None,
        };
        let mut opening = None;
        match source {
            MeterSource::Live(source) => match OpeningMeter::start(spec, source, allow) {
                Ok(meter) => opening = Some(meter),
                Err(error) => check.error = Some(error.to_string()),
            },
            MeterSource::Log(_) => {
                check.note =
                    Some("its log is attached after the run: `iopj meter attach STORE LOG`".to_owned());
            }
            MeterSource::Model(_) => check.note = Some("an estimate: nothing is read".to_owned()),
        }
        Begun { check, interval, opening }
    }

    fn end(self, deadline: Instant, stop: &AtomicBool) -> MeterCheck {
        let mut check = self.check;
        let Some(opening) = self.opening else { return check };
        let opened = opening.open(stop).and_then(|meter| meter.first_reading(stop).map(|()| meter));
        match opened {
            Ok(meter) => (check.channels, check.error) = read(&meter, deadline, stop),
            Err(error) => check.error = Some(error.to_string()),
        }
        check
    }
}

/// Waits for the readings of a meter's channels that give joules; why there are fewer, if it ended. Of
/// another channel there may be fewer: a counter that stands still gives none.
fn read(meter: &RunningMeter, deadline: Instant, stop: &AtomicBool) -> (Vec<ChannelCheck>, Option<String>) {
    let counted = counted(&meter.channels);
    let count = |readings: &[Reading], channel| readings.iter().filter(|one| one.channel == channel).count();
    let (readings, goes_on) = loop {
        let (readings, goes_on) = meter.look();
        let is_enough = counted.iter().all(|channel| count(&readings, *channel) >= READINGS);
        if is_enough || !goes_on || stop.load(Ordering::Relaxed) || Instant::now() > deadline {
            break (readings, goes_on || is_enough);
        }
        std::thread::sleep(LOOK);
    };
    let error = (!goes_on).then(|| meter.failure()).flatten();
    let of = |(index, channel): (usize, &Channel)| {
        let own: Vec<Reading> =
            readings.iter().filter(|one| one.channel == index).take(READINGS).copied().collect();
        of_channel(&meter.spec, channel, index, counted.contains(&index), &own)
    };
    (meter.channels.iter().enumerate().map(of).collect(), error)
}

fn of_channel(
    spec: &MeterSpec,
    channel: &Channel,
    index: usize,
    is_counted: bool,
    readings: &[Reading],
) -> ChannelCheck {
    let (kind, unit) = match channel.kind {
        ChannelKind::Counter { .. } => ("counter", "J"),
        ChannelKind::Instant => ("instant", "W"),
        ChannelKind::Average { .. } => ("average", "W"),
    };
    let seen_s = median_period_s(readings.iter().map(|one| one.end_ns as f64 * 1e-9));
    let least = is_counted.then(|| spec.cadence(channel.kind, seen_s).least_runtime()).transpose();
    let watts = powers(channel, index, readings, Clock::Host { age_ns: 0, within_ns: 0 }).unwrap_or_default();
    let watts: Vec<f64> = watts.into_iter().map(|(_, watts)| watts).collect();
    ChannelCheck {
        name: channel.name.clone(),
        scope: channel.scope.to_string(),
        kind,
        unit,
        resolution: channel.resolution,
        accuracy: accuracy_text(channel.accuracy),
        readings: readings.iter().map(|one| of_reading(channel.kind, &readings[0], one)).collect(),
        assumed_age_s: spec.age.as_secs_f64(),
        seen_interval_s: seen_s,
        noise_w: deviation(&watts),
        least_runtime_s: least.as_ref().ok().copied().flatten().map(|least| least.as_secs_f64()),
        no_joules: least.err().as_ref().map(Incomplete::to_string),
    }
}

fn of_reading(kind: ChannelKind, first: &Reading, reading: &Reading) -> ReadingCheck {
    use iopj_meter::Value;
    let value = match (kind, first.value, reading.value) {
        (ChannelKind::Counter { joules_per_count, .. }, Value::Count(from), Value::Count(to)) => {
            to.wrapping_sub(from) as i64 as f64 * joules_per_count
        }
        (_, _, Value::Watts(watts)) => watts,
        (_, _, Value::Count(count)) => count as f64,
    };
    let age_s = match reading.own_ns {
        Some(own_ns) => (reading.wall_ns - own_ns) as f64 * 1e-9,
        None => reading.end_ns.saturating_sub(reading.begin_ns) as f64 * 1e-9,
    };
    ReadingCheck { value, age_s, by_own_time: reading.own_ns.is_some() }
}

/// The standard deviation; absent with fewer than two values.
fn deviation(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_meter::{Scope, Value};

    fn reading(at_s: f64, value: Value, own_ns: Option<i64>) -> Reading {
        let end_ns = (at_s * 1e9) as u64;
        let wall_ns = 1_700_000_000_000_000_000 + end_ns as i64;
        Reading { channel: 0, value, begin_ns: end_ns - 2_000_000, end_ns, wall_ns, own_ns }
    }

    #[test]
    fn a_channel_shows_age_interval_noise_and_the_least_runtime() {
        let text = "name = \"t\"\npaths = \"available\"\n[[workload]]\n[meters.m]\nkind = \"rapl\"\n\
                    interval = \"1s\"\n";
        let study = Study::parse(text, "t").unwrap();
        let MeterSpecs::Named(mut specs) = config::meter_specs(study.meters.as_ref(), "t").unwrap() else {
            panic!()
        };
        let spec = MeterSpec { age: Duration::from_secs(10), ..specs.remove(0).0 };
        let channel = Channel::new("power", Scope::System, ChannelKind::Instant);
        let own = |at_s: f64| Some(1_700_000_000_000_000_000 + (at_s * 1e9) as i64 - 250_000_000);
        let values = [(1.0, 40.0), (2.0, 42.0), (3.0, 41.0)];
        let readings = values.map(|(at_s, watts)| reading(at_s, Value::Watts(watts), own(at_s)));
        let check = of_channel(&spec, &channel, 0, true, &readings);
        assert_eq!((check.unit, check.seen_interval_s, check.noise_w), ("W", Some(1.0), Some(1.0)));
        assert_eq!((check.assumed_age_s, check.least_runtime_s, check.no_joules), (10.0, Some(17.0), None));
        let other = of_channel(&spec, &channel, 0, false, &readings);
        assert_eq!((other.least_runtime_s, other.no_joules), (None, None));
        assert!(check.readings.iter().all(|one| one.by_own_time && (one.age_s - 0.25).abs() < 1e-6));
        let kind = ChannelKind::Counter { joules_per_count: 0.001, wrap: None };
        let counts = [(1.0, 5_000), (2.0, 45_000), (3.0, 85_000)];
        let readings = counts.map(|(at_s, count)| reading(at_s, Value::Count(count), None));
        let check = of_channel(&spec, &Channel::new("energy", Scope::System, kind), 0, true, &readings);
        assert_eq!(check.readings.iter().map(|one| one.value).collect::<Vec<_>>(), [0.0, 40.0, 80.0]);
        assert!((check.readings[0].age_s - 0.002).abs() < 1e-9 && !check.readings[0].by_own_time);
        assert!(check.noise_w.unwrap() < 1e-6);
    }

    /// It waited for the counter, and said that no trial has joules from it.
    #[test]
    fn a_counter_that_stands_still_beside_the_power_is_not_waited_for() {
        let began = Instant::now();
        let meter = super::super::thread::tests::start(&[]).unwrap();
        let (channels, error) = read(&meter, began + LONGEST, &AtomicBool::new(false));
        assert!(began.elapsed() < LONGEST / 2 && error.is_none());
        assert_eq!(channels.iter().map(|one| one.readings.len()).collect::<Vec<_>>(), [READINGS, 0]);
        assert!(channels[0].least_runtime_s.is_some());
        assert_eq!((channels[1].least_runtime_s, &channels[1].no_joules), (None, &None));
        // What is past is not waited for either.
        let late = super::super::thread::tests::start(&["hang"]).unwrap();
        assert_eq!(read(&late, Instant::now(), &AtomicBool::new(false)).0[0].readings, []);
    }
}
