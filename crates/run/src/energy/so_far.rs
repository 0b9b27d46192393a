//! What the meters of this machine have shown while the run goes on: the power that each channel read last,
//! and the energy of the latest trials. The run's end computes that again, from all that was read.

use super::compute::OfMeter;
use super::record::MeterRecord;
use super::thread::RunningMeter;
use iopj_core::energy::{EnergyOutcome, TrialEnergy};
use iopj_core::watch::WatchPower;
use iopj_meter::{Clock, Reading, Window, powers};
use iopj_store::energy::MeterRow;
use std::collections::{BTreeMap, VecDeque};

/// Trials whose energy is waited for: that of the last needs a reading beyond its window, and a meter that is
/// slower than that is not waited for.
const WAITING: usize = 3;
/// Time before a window that may hold the reading in which it begins.
const BEFORE_NS: u64 = 60_000_000_000;

/// A trial of which no energy is known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Its cell's number.
    pub(crate) cell: usize,
    /// Its I/Os.
    pub(crate) ios: u64,
    /// Its window.
    pub(crate) window: Window,
}

/// The latest readings, and the trials that wait for more.
#[derive(Debug, Default)]
pub(super) struct SoFar {
    readings: BTreeMap<String, Vec<Reading>>,
    waiting: VecDeque<Waiting>,
}

impl SoFar {
    /// Keeps what a meter has read.
    pub(super) fn read(&mut self, meter: &str, readings: &[Reading]) {
        self.readings.entry(meter.to_owned()).or_default().extend_from_slice(readings);
    }

    /// A trial has ended.
    pub(super) fn wait_for(&mut self, trial: Waiting) {
        self.waiting.push_back(trial);
        if self.waiting.len() > WAITING {
            self.waiting.pop_front();
        }
        self.forget();
    }

    /// The trials whose energy by some meter is known now, each once.
    pub(super) fn energy<'a>(
        &mut self,
        meters: impl Iterator<Item = &'a RunningMeter> + Clone,
    ) -> Vec<(Waiting, Vec<TrialEnergy>)> {
        let (readings, waiting) = (&self.readings, std::mem::take(&mut self.waiting));
        let of_trial = |trial: &Waiting| -> Vec<TrialEnergy> {
            meters.clone().flat_map(|meter| of_window(meter, readings, trial.window)).collect()
        };
        let all: Vec<_> = waiting.into_iter().map(|trial| (trial, of_trial(&trial))).collect();
        let is_known = |(_, energy): &(Waiting, Vec<TrialEnergy>)| {
            energy.iter().any(|one| matches!(one.outcome, EnergyOutcome::Complete(_)))
        };
        let (known, still): (Vec<_>, Vec<_>) = all.into_iter().partition(is_known);
        self.waiting = still.into_iter().map(|(trial, _)| trial).collect();
        known
    }

    /// What each channel read last; of a counter, the power since its reading before.
    pub(super) fn power<'a>(&self, meters: impl Iterator<Item = &'a RunningMeter>) -> Vec<WatchPower> {
        let of_meter = |meter: &RunningMeter| {
            let readings = self.readings.get(&meter.spec.name).map_or(&[][..], Vec::as_slice);
            let last = |(index, channel): (usize, &iopj_meter::Channel)| {
                let clock = Clock::Host { age_ns: 0, within_ns: 0 };
                let (_, watts) = *powers(channel, index, readings, clock).ok()?.last()?;
                Some(WatchPower {
                    meter: meter.spec.name.clone(),
                    channel: channel.name.clone(),
                    scope: channel.scope,
                    watts,
                    over_s: meter.spec.interval.as_secs_f64(),
                })
            };
            meter.channels.iter().enumerate().filter_map(last).collect::<Vec<_>>()
        };
        meters.flat_map(of_meter).collect()
    }

    /// Drops the readings that no trial waits for.
    fn forget(&mut self) {
        let Some(first) = self.waiting.front() else { return };
        let from_ns = first.window.begin_ns.saturating_sub(BEFORE_NS);
        for readings in self.readings.values_mut() {
            readings.retain(|reading| reading.end_ns >= from_ns);
        }
    }
}

/// The energy of a window by a meter's scopes. A meter with a clock of its own, which is found when the run
/// ends, has none.
fn of_window(
    meter: &RunningMeter,
    readings: &BTreeMap<String, Vec<Reading>>,
    window: Window,
) -> Vec<TrialEnergy> {
    let name = meter.spec.name.clone();
    let readings = readings.get(&name).cloned().unwrap_or_default();
    let record = MeterRecord::of(&meter.spec, &meter.channels);
    let row = MeterRow { id: 0, session: 0, name, record: String::new() };
    let (of_trials, _) =
        OfMeter { row: &row, record, readings, end: None }.trials(&[], &[(0, window)], &mut Vec::new());
    of_trials.into_iter().map(|(_, energy)| energy).collect()
}
