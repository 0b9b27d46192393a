//! A run that goes on, as who watches it sees it: how far it is, its trials by verdict, the latest figures of
//! each cell, and what its meters show. It changes between trials only.

use iopj_core::energy::{EnergyOutcome, TrialEnergy};
use iopj_core::watch::WatchPower;
use iopj_core::{Generator, IoPath, VerdictKind, Workload};
use iopj_record::{Latency, Measurement, Outcome, Trial};
use std::collections::BTreeMap;

/// What tells a cell from the others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellNames {
    /// The path.
    pub path: String,
    /// The workload's title.
    pub workload: String,
    /// What issues the I/O.
    pub generator: &'static str,
    /// Settings with their values, separated by spaces; empty if there are none.
    pub settings: String,
}

impl CellNames {
    /// Of a cell's parts.
    pub fn new(
        path: IoPath,
        workload: &Workload,
        generator: Generator,
        settings: &BTreeMap<String, String>,
    ) -> CellNames {
        let settings: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        CellNames {
            path: path.to_string(),
            workload: workload.title(),
            generator: generator.as_str(),
            settings: settings.join(" "),
        }
    }

    fn of(trial: &Trial) -> CellNames {
        CellNames::new(trial.path, &trial.workload, trial.generator, &trial.settings)
    }
}

/// A trial that has begun.
#[derive(Clone, Debug, PartialEq)]
pub struct BegunTrial {
    /// Its number, from 1.
    pub number: u64,
    /// Its cell.
    pub cell: CellNames,
    /// When it began, in s since 1970.
    pub at_s: f64,
}

/// Joules per I/O by one meter over one scope.
#[derive(Clone, Debug, PartialEq)]
pub struct JoulesPerIo {
    /// The meter's name in the study.
    pub meter: String,
    /// The scope's name.
    pub scope: &'static str,
    /// A model estimated it.
    pub estimated: bool,
    /// The joules.
    pub joules: f64,
}

/// The figures of the latest trial of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatestTrial {
    /// When it ended, in s since 1970.
    pub at_s: f64,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Latencies, if they are known.
    pub latency: Option<Latency>,
    /// Cores that the threads which did I/O kept busy.
    pub cores: f64,
    /// Context switches per I/O, if known.
    pub switches_per_io: Option<f64>,
    /// Something disturbed it.
    pub is_disturbed: bool,
    /// Joules per I/O by each meter and scope, of the latest trial of the cell of which they are known.
    pub energy: Vec<JoulesPerIo>,
}

/// What is known of a run that goes on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSoFar {
    /// The study's name.
    pub study: String,
    /// When this process began it or went on with it, in s since 1970.
    pub began_s: f64,
    /// It has ended.
    pub has_ended: bool,
    /// Trials that are planned, and those that are done, of earlier processes too; absent before the first.
    pub trials: Option<[u64; 2]>,
    /// The trial that runs, or ran last.
    pub trial: Option<BegunTrial>,
    /// When it will have ended, as far as that is known, in s since 1970.
    pub ends_s: Option<f64>,
    /// Trials of this process by path and verdict; `failed` for those without one.
    pub verdicts: BTreeMap<(String, &'static str), u64>,
    /// Those that were disturbed, by path.
    pub disturbed: BTreeMap<String, u64>,
    /// The latest trial of each cell. A refuted one took another path and has no figures here.
    pub latest: BTreeMap<CellNames, LatestTrial>,
    /// What each channel of the meters read last.
    pub power: Vec<WatchPower>,
}

impl RunSoFar {
    /// A trial begins, of so many; with the time left if it is known.
    pub fn begin(&mut self, trial: BegunTrial, of: u64, left_s: Option<f64>) {
        self.trials = Some([of, trial.number - 1]);
        self.ends_s = left_s.map(|left_s| trial.at_s + left_s);
        self.trial = Some(trial);
    }

    /// The trial that had begun has ended.
    pub fn end(&mut self, outcome: &Outcome, at_s: f64) {
        let Some(BegunTrial { cell, number, .. }) = self.trial.clone() else { return };
        self.trials = self.trials.map(|[of, _]| [of, number]);
        let verdict = outcome.measurement().map_or("failed", |measured| measured.verdict.kind.as_str());
        *self.verdicts.entry((cell.path.clone(), verdict)).or_default() += 1;
        let Some(measured) = outcome.measurement() else { return };
        *self.disturbed.entry(cell.path.clone()).or_default() +=
            u64::from(measured.conditions.are_disturbed());
        if measured.verdict.kind != VerdictKind::Refuted {
            let latest = self.latest.entry(cell).or_default();
            *latest = LatestTrial { energy: std::mem::take(&mut latest.energy), ..of_trial(measured, at_s) };
        }
    }

    /// The energy of a trial of a cell, which did so many I/Os, is known now by these meters. Others may be
    /// slower, and keep what they last said.
    pub fn energy(&mut self, cell: &CellNames, ios: u64, energy: &[TrialEnergy]) {
        let Some(latest) = self.latest.get_mut(cell) else { return };
        let per_io = |one: &TrialEnergy| match &one.outcome {
            EnergyOutcome::Complete(joules) if ios > 0 => Some(JoulesPerIo {
                meter: one.meter.clone(),
                scope: one.scope.as_str(),
                estimated: one.estimated,
                joules: joules.joules / ios as f64,
            }),
            _ => None,
        };
        for known in energy.iter().filter_map(per_io) {
            let is_same = |one: &JoulesPerIo| (&one.meter, one.scope) == (&known.meter, known.scope);
            match latest.energy.iter_mut().find(|one| is_same(one)) {
                Some(old) => *old = known,
                None => latest.energy.push(known),
            }
        }
    }

    /// The run has ended, with these trials in its store, whose energy is final.
    pub fn finish(&mut self, trials: &[Trial]) {
        (self.has_ended, self.ends_s) = (true, None);
        for trial in trials {
            let measured = trial.outcome.measurement();
            if let Some(measured) = measured.filter(|one| one.verdict.kind != VerdictKind::Refuted) {
                self.energy(&CellNames::of(trial), measured.ios, &measured.energy);
            }
        }
    }
}

fn of_trial(measured: &Measurement, at_s: f64) -> LatestTrial {
    LatestTrial {
        at_s,
        iops: measured.iops(),
        bytes_per_s: measured.mb_per_s() * 1e6,
        latency: measured.known_latency().map(|latency| Latency { histogram: Vec::new(), ..latency.clone() }),
        cores: measured.cpu_percent / 100.0,
        switches_per_io: measured.known_switches_per_io(),
        is_disturbed: measured.conditions.are_disturbed(),
        energy: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::runs::{PATH, begun, cell, energy, measured};

    use iopj_core::{Conditions, Disturbance};

    #[test]
    fn trials_are_counted_and_the_latest_figures_kept() {
        let mut run = RunSoFar::default();
        run.begin(begun(3, 1), 8, Some(20.0));
        assert_eq!((run.trials, run.ends_s), (Some([8, 2]), Some(120.0)));
        run.end(&measured(1000, VerdictKind::Verified), 101.0);
        run.energy(&cell(1), 1000, &energy(5.0));
        run.begin(begun(4, 1), 8, None);
        run.end(&measured(500, VerdictKind::Verified), 102.0);
        let latest = &run.latest[&cell(1)];
        assert_eq!((latest.iops, latest.cores, latest.at_s), (500.0, 0.5, 102.0));
        assert_eq!(latest.energy[0].joules, 0.005, "the one before is known");
        run.begin(begun(5, 4), 8, None);
        run.end(&Outcome::Failed("EIO".to_owned()), 103.0);
        assert_eq!(run.trials, Some([8, 5]));
        assert_eq!(run.verdicts[&(PATH.to_owned(), "verified")], 2);
        assert_eq!(run.verdicts[&(PATH.to_owned(), "failed")], 1);
        assert!(!run.latest.contains_key(&cell(4)));
    }

    #[test]
    fn the_joules_of_a_fast_meter_do_not_hide_those_of_a_slow_one() {
        let mut run = RunSoFar::default();
        run.begin(begun(1, 1), 2, None);
        run.end(&measured(1000, VerdictKind::Verified), 101.0);
        let of = |meter: &str, joules: f64| {
            energy(joules).into_iter().map(|one| TrialEnergy { meter: meter.to_owned(), ..one }).collect()
        };
        let (slow, fast): (Vec<TrialEnergy>, Vec<TrialEnergy>) = (of("plug", 40.0), of("rapl", 5.0));
        run.energy(&cell(1), 1000, &slow);
        run.energy(&cell(1), 1000, &fast);
        run.energy(&cell(1), 1000, &of("rapl", 6.0));
        let found: Vec<(&str, f64)> =
            run.latest[&cell(1)].energy.iter().map(|one| (one.meter.as_str(), one.joules)).collect();
        assert_eq!(found, [("plug", 0.04), ("rapl", 0.006)]);
    }

    #[test]
    fn a_refuted_trial_is_counted_and_lends_its_path_no_figures() {
        let mut run = RunSoFar::default();
        run.begin(begun(1, 1), 2, None);
        run.end(&measured(1000, VerdictKind::Refuted), 101.0);
        assert_eq!(run.verdicts[&(PATH.to_owned(), "refuted")], 1);
        assert!(run.latest.is_empty());
    }

    #[test]
    fn disturbed_trials_are_counted_by_path() {
        let mut run = RunSoFar::default();
        let mut outcome = measured(1000, VerdictKind::Verified);
        let disturbances = vec![Disturbance::Throttled { times: 3 }];
        outcome.measurement_mut().unwrap().conditions = Conditions { disturbances, spinner: None };
        for number in [1, 2] {
            run.begin(begun(number, 1), 2, None);
            run.end(&outcome, 101.0);
        }
        assert_eq!(run.disturbed[PATH], 2);
        assert!(run.latest[&cell(1)].is_disturbed);
    }
}
