//! A study's meters, open and read once before anything else of a run is made or changed, and what is said
//! before the run of windows that are too short for them.

use super::config::{self, ClockChoice, MeterSource, MeterSpec, MeterSpecs};
use super::model::ModelText;
use super::thread::{OpeningMeter, RunningMeter};
use crate::error::RunError;
use crate::progress::Progress;
use iopj_core::{Length, format_duration};
use iopj_meter::log::{LogConfig, LogKind};
use iopj_meter::{Cadence, ChannelKind, Incomplete, OpenError};
use iopj_study::plan::Cell;
use iopj_study::{Study, StudyError};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The meters of a study, opened.
pub(crate) struct Meters {
    pub(super) running: Vec<RunningMeter>,
    /// Logs that are to be attached later.
    pub(super) logs: Vec<(MeterSpec, LogConfig)>,
    pub(super) models: Vec<(MeterSpec, ModelText)>,
    /// The study asks for the machine's own meters, and there is none.
    pub(super) found_none: bool,
    /// The meters that the study names are watched, the machine's own are not.
    pub(super) short_windows: Option<ShortWindows>,
}

/// The windows of a study, and the meters for which some are known to be too short.
#[derive(Debug, Default)]
pub(crate) struct ShortWindows {
    windows: BTreeSet<Duration>,
    warned: BTreeSet<String>,
}

impl Meters {
    /// Opens a study's meters, begins to read them, and waits for a reading of each.
    ///
    /// # Errors
    /// Meters that the study names cannot be opened or read: all of them in one message.
    pub(crate) fn open(
        study: &Study,
        allow_exec: bool,
        progress: &mut dyn Progress,
        stop: &AtomicBool,
    ) -> Result<Meters, RunError> {
        let (running, logs, models) = (Vec::new(), Vec::new(), Vec::new());
        let mut meters = Meters { running, logs, models, found_none: false, short_windows: None };
        let (mut opening, mut failed) = (Vec::new(), Vec::new());
        let fault = |name: &str, error: &OpenError| format!("the meter `{name}`: {error}");
        match config::meter_specs(study.meters.as_ref(), "the study")? {
            MeterSpecs::None => {}
            MeterSpecs::Local => {
                meters.running = local(allow_exec, progress, stop)?;
                meters.found_none = meters.running.is_empty();
            }
            MeterSpecs::Named(specs) => {
                meters.short_windows = Some(ShortWindows::default());
                for (spec, source) in specs {
                    let name = spec.name.clone();
                    match source {
                        MeterSource::Live(source) => match OpeningMeter::start(spec, source, allow_exec) {
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
            return Err(RunError::Interrupted);
        }
        if failed.is_empty() { Ok(meters) } else { RunError::refuse(failed.join("; ")) }
    }

    /// The interval of the slowest meter that has a clock of its own, by which the load pattern is designed.
    pub(super) fn pattern_for(&self) -> Option<Duration> {
        let specs =
            self.running.iter().map(|meter| &meter.spec).chain(self.logs.iter().map(|(spec, _)| spec));
        specs.filter(|spec| spec.clock == ClockChoice::Own).map(|spec| spec.interval).max()
    }

    /// Warns of each meter that the study names and for which windows of these cells are too short.
    pub(crate) fn check_windows(&mut self, cells: &[Cell], progress: &mut dyn Progress) {
        let Some(short) = &mut self.short_windows else { return };
        // A window that ends after a number of I/Os has no known length.
        let window = |cell: &Cell| match cell.workload.length {
            Length::Runtime(time) => Some(time),
            Length::Ios(_) => None,
        };
        short.windows = cells.iter().filter_map(window).collect();
        let live = self.running.iter().map(|meter| (&meter.spec, meter.cadences()));
        let cadence = |spec: &MeterSpec, config| spec.cadence(values_of(config, spec.interval), None);
        let logs = self.logs.iter().map(|(spec, config)| (spec, vec![cadence(spec, config)]));
        for (spec, cadences) in live.chain(logs) {
            short.warn(&spec.name, &cadences, progress);
        }
    }
}

impl ShortWindows {
    /// Warns, once, if windows are too short for a meter whose channels give values so often.
    pub(super) fn warn(&mut self, name: &str, cadences: &[Cadence], progress: &mut dyn Progress) {
        if let Some(warning) = self.of(name, cadences)
            && self.warned.insert(name.to_owned())
        {
            progress.note(&format!("warning: {warning}"));
        }
    }

    fn of(&self, name: &str, cadences: &[Cadence]) -> Option<String> {
        let least_s = |cadence: &Cadence| cadence.least_window_s().unwrap_or(f64::INFINITY);
        let slowest = cadences.iter().max_by(|a, b| least_s(a).total_cmp(&least_s(b)))?;
        let fault = |window: &Duration| Some((*window, slowest.check(window.as_secs_f64()).err()?));
        let short: Vec<(Duration, Incomplete)> = self.windows.iter().filter_map(fault).collect();
        let (_, why) = short.first()?;
        let of = if short.len() == self.windows.len() {
            String::new()
        } else {
            let times: Vec<String> = short.iter().map(|(time, _)| format_duration(*time)).collect();
            format!(" with a `runtime` of {}", times.join(", "))
        };
        let hopeless_s = slowest.hopeless_below_s().unwrap_or(f64::INFINITY);
        Some(if short.iter().all(|(window, _)| window.as_secs_f64() < hopeless_s) {
            format!("no trial{of} will have joules from the meter `{name}`: {why}")
        } else {
            format!("some trials{of} may have no joules from the meter `{name}`: {why}")
        })
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
    allow_exec: bool,
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
        let opened = OpeningMeter::start(spec, source, allow_exec);
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
    use crate::progress::Said;

    #[test]
    fn a_warning_names_the_windows_that_are_too_short_and_the_least_runtime() {
        let second = Duration::from_secs(1);
        let cadence = Cadence { kind: ChannelKind::Instant, period_s: 1.0, age_s: 0.0, bridge_s: 3.0 };
        let says = |windows: &[Duration], period_s: f64| {
            let windows = windows.iter().copied().collect();
            let mut short = ShortWindows { windows, warned: BTreeSet::new() };
            let mut said = Said::default();
            (0..2).for_each(|_| short.warn("psu", &[Cadence { period_s, ..cadence }], &mut said));
            said.0
        };
        let why = "the measured window is too short for the meter, which gives a value every 1.0 s; the \
                   window must hold 4 values: use a `runtime` of at least 5s, or a faster meter";
        let all = format!("warning: no trial will have joules from the meter `psu`: {why}");
        assert_eq!(says(&[second], 1.0), [all]);
        let some = "warning: no trial with a `runtime` of 1s, 2s will have joules from the meter `psu`: ";
        assert_eq!(says(&[second, 2 * second, 5 * second], 1.0), [some.to_owned() + why]);
        assert!(says(&[5 * second], 1.0).is_empty() && says(&[], 1.0).is_empty());
        // A window in which four values lie only if it begins at the right moment.
        let maybe = "warning: some trials may have no joules from the meter `psu`: ".to_owned() + why;
        assert_eq!(says(&[second * 7 / 2], 1.0), [maybe]);
        let maybe = "warning: some trials with a `runtime` of 2s, 3s may have no joules from the meter `psu`";
        assert!(says(&[2 * second, 3 * second, 9 * second], 1.0)[0].starts_with(maybe));
        let rare = says(&[60 * second], 5.0);
        assert!(rare[0].contains("a value only every 5.0 s, and gaps of at most 3.0 s"), "{rare:?}");
    }

    /// The last of the channels with the longest period was looked at: with the counter of a plug, which
    /// gives no joules, nothing was said.
    #[test]
    fn of_several_channels_the_one_that_needs_the_longest_window_is_warned_of() {
        let count = ChannelKind::Counter { joules_per_count: 60.0, wrap: None };
        let cadence = |kind, period_s| Cadence { kind, period_s, age_s: 0.0, bridge_s: 3.0 };
        let short = ShortWindows { windows: [Duration::from_secs(1)].into(), ..ShortWindows::default() };
        let (power, energy) = (cadence(ChannelKind::Instant, 1.0), cadence(count, 1.0));
        assert_eq!(short.of("plug", &[power, energy]), short.of("plug", &[power]));
        let rare = cadence(ChannelKind::Instant, 4.0);
        assert!(short.of("plug", &[rare, power]).unwrap().contains("a value only every 4.0 s"));
        assert_eq!(short.of("plug", &[energy]), None);
    }

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
