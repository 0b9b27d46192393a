//! A study's meters, open and read once before anything else of a run is made or changed.

use super::config::{self, ClockChoice, MeterSource, MeterSpec, MeterSpecs, addresses_in_words};
use super::far::{FarHost, FarMeters};
use super::model::ModelText;
use super::schedule::Schedule;
use super::short_windows::ShortWindows;
use super::thread::{OpeningMeter, RunningMeter};
use crate::error::MeteringError;
use crate::progress::Progress;
use iopj_core::Allow;
use iopj_meter::log::{LogConfig, LogKind};
use iopj_meter::{ChannelKind, OpenError};
use iopj_study::plan::Cell;
use iopj_study::{Study, StudyError};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The meters of a study, opened.
pub struct Meters {
    pub(super) running: Vec<RunningMeter>,
    /// Logs that are to be attached later.
    pub(super) logs: Vec<(MeterSpec, LogConfig)>,
    pub(super) models: Vec<(MeterSpec, ModelText)>,
    /// The study asks for the machine's own meters, and there is none.
    pub(super) found_none: bool,
    /// The meters that the study names are watched, the machine's own are not.
    pub(super) short_windows: Option<ShortWindows>,
    /// Those of the target host.
    pub(super) far: Option<FarMeters>,
}

impl Meters {
    /// How a run of `span` rests for these meters and plays its load pattern.
    ///
    /// # Errors
    /// A time of the study cannot be read.
    pub fn schedule(&self, study: &Study, span: Duration) -> Result<Schedule, StudyError> {
        let here = self.running.iter().map(|meter| meter.spec.interval);
        let read = here.chain(self.far.iter().filter_map(FarMeters::slowest)).max();
        Schedule::new(study, span, read, self.pattern_for())
    }

    /// Opens a study's meters on both hosts, begins to read them, and waits for a reading of each.
    ///
    /// # Errors
    /// Meters that the study names cannot be opened or read: all those of a host in one message.
    pub fn open(
        study: &Study,
        far: Option<&dyn FarHost>,
        allow: Allow,
        progress: &mut dyn Progress,
        stop: &AtomicBool,
    ) -> Result<Meters, MeteringError> {
        let specs = config::meter_specs(study.meters.as_ref(), "the study")?;
        let meters = Meters::of(specs, allow, progress, stop)?;
        let asked = study.fabric.as_ref().zip(far);
        let far =
            asked.map(|(fabric, far)| FarMeters::open(fabric, far, allow, progress, stop)).transpose()?;
        Ok(Meters { far: far.flatten(), ..meters })
    }

    /// The same of the meters of this host.
    ///
    /// # Errors
    /// As for [`Meters::open`].
    pub fn of(
        specs: MeterSpecs,
        allow: Allow,
        progress: &mut dyn Progress,
        stop: &AtomicBool,
    ) -> Result<Meters, MeteringError> {
        let (running, logs, models) = (Vec::new(), Vec::new(), Vec::new());
        let mut meters = Meters { running, logs, models, found_none: false, short_windows: None, far: None };
        let (mut opening, mut failed) = (Vec::new(), Vec::new());
        let fault = |name: &str, error: &OpenError| format!("the meter `{name}`: {error}");
        match specs {
            MeterSpecs::None => {}
            MeterSpecs::Local => {
                meters.running = local(allow, progress, stop)?;
                meters.found_none = meters.running.is_empty();
            }
            MeterSpecs::Named(specs) => {
                meters.short_windows = Some(ShortWindows::default());
                addresses_in_words(&specs).iter().for_each(|line| progress.note(line));
                for (spec, source) in specs {
                    let name = spec.name.clone();
                    match source {
                        MeterSource::Live(source) => match OpeningMeter::start(spec, source, allow) {
                            Ok(meter) => opening.push(meter),
                            Err(error) => failed.push(fault(&name, &error)),
                        },
                        MeterSource::Log(config) => meters.logs.push((spec, *config)),
                        MeterSource::Model(table) => match ModelText::read(&table) {
                            Ok(text) => meters.models.push((spec, text)),
                            Err(error) => failed.push(fault(&name, &error)),
                        },
                    }
                }
            }
        }
        for meter in opening {
            let name = meter.name().to_owned();
            match read_once(meter, stop) {
                Ok(meter) => meters.running.push(meter),
                Err(error) => failed.push(fault(&name, &error)),
            }
        }
        if stop.load(Ordering::Relaxed) {
            return Err(MeteringError::Interrupted);
        }
        if failed.is_empty() { Ok(meters) } else { Err(MeteringError::Refused(failed.join("; "))) }
    }

    /// The meters that the machine itself has.
    ///
    /// # Errors
    /// [`MeteringError::Interrupted`].
    pub fn of_machine(progress: &mut dyn Progress, stop: &AtomicBool) -> Result<Meters, MeteringError> {
        Meters::of(MeterSpecs::Local, Allow::NOTHING, progress, stop)
    }

    /// The meters that are read, and whether the machine's own were asked for and there is none.
    pub fn into_running(self) -> (Vec<RunningMeter>, bool) {
        (self.running, self.found_none)
    }

    /// The interval of the slowest meter that has a clock of its own, by which the load pattern is designed.
    fn pattern_for(&self) -> Option<Duration> {
        let specs =
            self.running.iter().map(|meter| &meter.spec).chain(self.logs.iter().map(|(spec, _)| spec));
        specs.filter(|spec| spec.clock == ClockChoice::Own).map(|spec| spec.interval).max()
    }

    /// Warns of each meter that the study names and for which windows of these cells are too short.
    pub fn check_windows(&mut self, cells: &[Cell], progress: &mut dyn Progress) {
        if let Some(far) = &mut self.far {
            far.check_windows(cells, progress);
        }
        let Some(short) = &mut self.short_windows else { return };
        short.watch(cells);
        let live = self.running.iter().map(|meter| (&meter.spec, meter.cadences()));
        let cadence = |spec: &MeterSpec, config| spec.cadence(values_of(config, spec.interval), None);
        let logs = self.logs.iter().map(|(spec, config)| (spec, vec![cadence(spec, config)]));
        for (spec, cadences) in live.chain(logs) {
            short.warn(&spec.name, &cadences, progress);
        }
    }
}

/// What the values of a log mean, as far as its table says. An average without a window is over the logging
/// interval.
fn values_of(config: &LogConfig, interval: Duration) -> ChannelKind {
    match config.kind {
        Some(LogKind::Average) => {
            let window_s = config.window_s.unwrap_or(interval.as_secs_f64());
            ChannelKind::Average { window_ns: (window_s * 1e9) as u64 }
        }
        _ => ChannelKind::Instant,
    }
}

fn read_once(meter: OpeningMeter, stop: &AtomicBool) -> Result<RunningMeter, OpenError> {
    let meter = meter.open(stop)?;
    meter.first_reading(stop)?;
    Ok(meter)
}

/// The meters of the machine itself, which need no word from the user.
fn local(
    allow: Allow,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<Vec<RunningMeter>, StudyError> {
    let mut running = Vec::new();
    for found in iopj_meter::local_meters(Path::new("/")).iter().filter(|found| found.why_not.is_none()) {
        let asked = match found.name.split_once(':') {
            None if found.name == "rapl" => Some(config::plain("rapl", "rapl", &[])?),
            Some(("hwmon", chip)) => Some(config::plain(&found.name, "hwmon", &[("chip", chip)])?),
            // A drive is read only if the study names it: each reading costs it a command.
            _ => None,
        };
        let Some((spec, MeterSource::Live(source))) = asked else { continue };
        let opened = OpeningMeter::start(spec, source, allow);
        match opened.and_then(|meter| read_once(meter, stop)) {
            Ok(meter) => running.push(meter),
            Err(error) => progress.note(&format!("warning: the meter `{}` is left out: {error}", found.name)),
        }
    }
    Ok(running)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was checked with a window of 0.
    #[test]
    fn an_average_of_a_log_without_a_window_is_over_its_interval() {
        let mut config = LogConfig::new(iopj_meter::log::LogFormat::Csv);
        let second = Duration::from_secs(1);
        assert_eq!(values_of(&config, second), ChannelKind::Instant);
        config.kind = Some(LogKind::Average);
        assert_eq!(values_of(&config, second), ChannelKind::Average { window_ns: 1_000_000_000 });
        config.window_s = Some(0.5);
        assert_eq!(values_of(&config, second), ChannelKind::Average { window_ns: 500_000_000 });
    }
}
