//! What the meters of this machine have shown while the run goes on: the power that each channel read last,
//! and the energy of the latest trials. The run's end computes that again, from all that was read.

use super::compute::OfMeter;
use super::record::MeterRecord;
use super::thread::RunningMeter;
use iopj_core::energy::{EnergyOutcome, TrialEnergy};
use iopj_core::watch::WatchPower;
use iopj_meter::{Clock, Reading, Window, powers};
use iopj_record::energy::MeterRow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Trials whose energy is waited for: that of the last needs a reading beyond its window, and a meter that is
/// slower than that is not waited for.
const WAITING: usize = 3;
/// Time before a window that may hold the reading in which it begins, unless a meter is slower.
const BEFORE: Duration = Duration::from_secs(60);

/// A trial of which the energy by some meter is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its cell's number.
    pub cell: usize,
    /// Its I/Os.
    pub ios: u64,
    /// Its window.
    pub window: Window,
}

/// The latest readings, and the trials that wait for more, with the meters whose joules have been told.
#[derive(Debug, Default)]
pub(super) struct SoFar {
    readings: BTreeMap<String, Vec<Reading>>,
    waiting: VecDeque<(Waiting, BTreeSet<String>)>,
}

impl SoFar {
    /// Keeps what a meter has read.
    pub(super) fn read(&mut self, meter: &str, readings: &[Reading]) {
        self.readings.entry(meter.to_owned()).or_default().extend_from_slice(readings);
    }

    /// A trial has ended.
    pub(super) fn wait_for(&mut self, trial: Waiting) {
        self.waiting.push_back((trial, BTreeSet::new()));
        if self.waiting.len() > WAITING {
            self.waiting.pop_front();
        }
    }

    /// The trials whose energy by some meter is known since the last call: that of each meter once.
    pub(super) fn energy<'a>(
        &mut self,
        meters: impl Iterator<Item = &'a RunningMeter> + Clone,
    ) -> Vec<(Waiting, Vec<TrialEnergy>)> {
        let mut known = Vec::new();
        for (trial, told) in &mut self.waiting {
            let untold = meters.clone().filter(|meter| !told.contains(&meter.spec.name));
            let by_meter = untold.map(|meter| of_window(meter, &self.readings, trial.window));
            let new: Vec<TrialEnergy> = by_meter.flatten().filter(is_known).collect();
            told.extend(new.iter().map(|one| one.meter.clone()));
            if !new.is_empty() {
                known.push((*trial, new));
            }
        }
        self.waiting.retain(|(_, told)| meters.clone().any(|meter| !told.contains(&meter.spec.name)));
        let slowest = meters.map(|meter| meter.spec.interval).max().unwrap_or_default();
        self.forget(BEFORE.max(3 * slowest));
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

    /// Drops the readings that no trial waits for. The windows of those to come begin later than what was
    /// read last.
    fn forget(&mut self, before: Duration) {
        let before_ns = before.as_nanos() as u64;
        let first_ns = self.waiting.front().map(|(trial, _)| trial.window.begin_ns);
        for readings in self.readings.values_mut() {
            let last_ns = readings.last().map_or(0, |reading| reading.end_ns);
            let from_ns =
                first_ns.map_or(last_ns, |first_ns| first_ns.min(last_ns)).saturating_sub(before_ns);
            readings.retain(|reading| reading.end_ns >= from_ns);
        }
    }
}

fn is_known(energy: &TrialEnergy) -> bool {
    matches!(energy.outcome, EnergyOutcome::Complete(_))
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

#[cfg(test)]
mod tests {
    use super::super::tests::ten;
    use super::*;
    use iopj_meter::Value;
    use std::sync::atomic::AtomicBool;

    /// A second.
    const S: u64 = 1_000_000_000;

    /// Readings of 10 W, one each 10 ms.
    fn readings(from_ns: u64, to_ns: u64) -> Vec<Reading> {
        let at = |at_ns| Reading {
            channel: 0,
            value: Value::Watts(10.0),
            begin_ns: at_ns,
            end_ns: at_ns,
            wall_ns: 0,
            own_ns: None,
        };
        (from_ns..to_ns).step_by(10_000_000).map(at).collect()
    }

    #[test]
    fn a_trial_waits_for_the_slow_meter_though_a_fast_one_has_told_its_joules() {
        let stop = AtomicBool::new(false);
        let meters = [ten("fast", &stop), ten("slow", &stop)];
        let mut so_far = SoFar::default();
        let told = |so_far: &mut SoFar| -> Vec<(usize, Vec<String>)> {
            let all = so_far.energy(meters.iter()).into_iter();
            all.map(|(trial, energy)| (trial.cell, energy.into_iter().map(|one| one.meter).collect()))
                .collect()
        };
        so_far.read("fast", &readings(100 * S, 102 * S));
        so_far.read("slow", &readings(100 * S, 101 * S));
        let window = Window { begin_ns: 100 * S + S / 2, end_ns: 101 * S + S / 2 };
        so_far.wait_for(Waiting { cell: 7, ios: 100, window });
        assert_eq!(told(&mut so_far), [(7, vec!["fast".to_owned()])]);
        assert_eq!(told(&mut so_far), []);
        so_far.read("slow", &readings(101 * S, 102 * S));
        assert_eq!(told(&mut so_far), [(7, vec!["slow".to_owned()])]);
        assert!(so_far.waiting.is_empty());
    }

    #[test]
    fn readings_are_dropped_though_no_trial_waits_for_any() {
        let stop = AtomicBool::new(false);
        let meter = ten("t", &stop);
        let mut so_far = SoFar::default();
        for minute in 0..10 {
            so_far.read("t", &readings(60 * minute * S, 60 * (minute + 1) * S));
            assert!(so_far.energy(std::iter::once(&meter)).is_empty());
        }
        assert!(so_far.readings["t"].len() <= 6001, "{}", so_far.readings["t"].len());
        assert_eq!(so_far.power(std::iter::once(&meter))[0].watts, 10.0);
    }
}
