//! The machine's own meters beside a watch.

use super::error::WatchError;
use iopj_core::watch::WatchPower;
use iopj_meter::{Clock, Reading, powers};
use iopj_metering::Progress;
use iopj_metering::energy::{Meters, RunningMeter};
use std::sync::atomic::AtomicBool;

/// The meters, with the readings since the last interval.
pub(super) struct Power {
    meters: Vec<Metered>,
}

struct Metered {
    meter: RunningMeter,
    /// Of the interval, with the last one before it.
    readings: Vec<Reading>,
    /// Sum and number of the values of each channel since the watch began.
    sums: Vec<(f64, u64)>,
}

impl Power {
    /// Opens the meters of this machine; none is no error.
    pub(super) fn open(progress: &mut dyn Progress, stop: &AtomicBool) -> Result<Power, WatchError> {
        let meters = Meters::of_machine(progress, stop);
        let meters = meters.map_err(|error| WatchError::Meters(error.to_string()))?;
        let metered = |meter: RunningMeter| {
            let sums = vec![(0.0, 0); meter.channels.len()];
            Metered { meter, readings: Vec::new(), sums }
        };
        Ok(Power { meters: meters.into_running().0.into_iter().map(metered).collect() })
    }

    /// No meters.
    pub(super) fn none() -> Power {
        Power { meters: Vec::new() }
    }

    /// The names of the meters.
    pub(super) fn names(&self) -> Vec<String> {
        self.meters.iter().map(|metered| metered.meter.spec.name.clone()).collect()
    }

    /// Mean power since the last call, of each channel that gave a value, and what the user should know.
    pub(super) fn interval(&mut self, over_s: f64) -> (Vec<WatchPower>, Vec<String>) {
        let (mut found, mut notices) = (Vec::new(), Vec::new());
        for metered in &mut self.meters {
            let (new, said) = metered.meter.take();
            let name = &metered.meter.spec.name;
            notices.extend(said.into_iter().map(|text| format!("the meter `{name}` {text}")));
            metered.readings.extend(new);
            for (index, channel) in metered.meter.channels.iter().enumerate() {
                let clock = Clock::Host { age_ns: 0, within_ns: 0 };
                let values = powers(channel, index, &metered.readings, clock).unwrap_or_default();
                if values.is_empty() {
                    continue;
                }
                let sum: f64 = values.iter().map(|(_, watts)| watts).sum();
                metered.sums[index].0 += sum;
                metered.sums[index].1 += values.len() as u64;
                found.push(WatchPower {
                    meter: name.clone(),
                    channel: channel.name.clone(),
                    scope: channel.scope,
                    watts: sum / values.len() as f64,
                    over_s,
                });
            }
            metered.keep_last();
        }
        (found, notices)
    }

    /// Mean power since the watch began.
    pub(super) fn whole(&self, over_s: f64) -> Vec<WatchPower> {
        let of_meter = |metered: &Metered| {
            let name = metered.meter.spec.name.clone();
            let channels = metered.meter.channels.iter().zip(&metered.sums);
            let known = channels.filter(|(_, (_, count))| *count > 0);
            let power = known.map(|(channel, (sum, count))| WatchPower {
                meter: name.clone(),
                channel: channel.name.clone(),
                scope: channel.scope,
                watts: sum / *count as f64,
                over_s,
            });
            power.collect::<Vec<_>>()
        };
        self.meters.iter().flat_map(of_meter).collect()
    }
}

impl Metered {
    /// A counter's next value is the difference to its last reading; a gauge's last value was taken.
    fn keep_last(&mut self) {
        let counts = |reading: &&Reading| matches!(reading.value, iopj_meter::Value::Count(_));
        let last: Vec<Reading> = (0..self.meter.channels.len())
            .filter_map(|index| self.readings.iter().rfind(|it| it.channel == index))
            .filter(counts)
            .copied()
            .collect();
        self.readings = last;
    }
}
