//! What came of all cells, and the thresholds that it must keep.

use super::cell::{CHECKPOINTS, Outcome};
use super::truth::DriveClass;
use super::workload::Program;
use crate::policy::Aim;
use crate::way::Way;
use serde::Serialize;
use std::collections::BTreeMap;

/// The most that the 95th percentile of regret may be, over all cells, as a share.
pub const REGRET_P95: f64 = 0.03;
/// Of phased cells, those in which the clairvoyant spends less than the best static way by this share: only
/// there is something to gain by changing ways.
pub const TO_GAIN: f64 = 0.05;

/// Regret over some cells, as shares: 0.01 is 1 % more than the best static way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Regret {
    /// Cells.
    pub cells: usize,
    /// The 95th percentile after each of [`CHECKPOINTS`].
    pub p95_after: [f64; 3],
    /// The median at the end.
    pub median: f64,
    /// The worst at the end.
    pub worst: f64,
    /// The 95th percentile of what choosing costs by itself: pinned to the best way; absent if
    /// that was not run.
    pub pinned_p95: Option<f64>,
}

impl Regret {
    fn of<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Regret {
        let outcomes: Vec<&Outcome> = outcomes.collect();
        let values = |of: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(|one| of(one)).collect::<Vec<f64>>();
        let last = CHECKPOINTS.len() - 1;
        Regret {
            cells: outcomes.len(),
            p95_after: [0, 1, 2].map(|at| quantile(values(&|one| one.regret[at]), 0.95)),
            median: quantile(values(&|one| one.regret[last]), 0.5),
            worst: quantile(values(&|one| one.regret[last]), 1.0),
            pinned_p95: outcomes
                .iter()
                .all(|one| !one.pinned.is_nan())
                .then(|| quantile(values(&|one| one.pinned), 0.95)),
        }
    }
}

/// The least value that so large a share of them does not exceed; 0 of none. What is no number counts not.
fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.retain(|value| !value.is_nan());
    values.sort_unstable_by(f64::total_cmp);
    let rank = (share * values.len() as f64).ceil() as usize;
    values.get(rank.clamp(1, values.len().max(1)) - 1).copied().unwrap_or(0.0)
}

/// Phased cells: what is spent in each over what the clairvoyant spends, summed up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Phased {
    /// Cells.
    pub cells: usize,
    /// Those in which the chooser spends less than every static way.
    pub beaten: usize,
    /// By how much less, the median of those, as a share.
    pub by: f64,
    /// Sums: of the chooser,
    pub chooser: f64,
    /// of the best static way of each cell, which nobody knows beforehand,
    pub best_static: f64,
    /// and of random switching.
    pub random: f64,
}

impl Phased {
    fn of<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Phased {
        let outcomes: Vec<&Outcome> = outcomes.collect();
        let sum = |of: &dyn Fn(&Outcome) -> f64| outcomes.iter().map(|one| of(one)).sum();
        let beaten: Vec<&Outcome> = outcomes.iter().copied().filter(|one| one.beats_all()).collect();
        let by = beaten.iter().map(|one| 1.0 - one.chooser / (1.0 + one.to_gain())).collect();
        Phased {
            cells: outcomes.len(),
            beaten: beaten.len(),
            by: quantile(by, 0.5),
            chooser: sum(&|one| one.chooser),
            best_static: sum(&|one| 1.0 + one.to_gain()),
            random: sum(&|one| one.random),
        }
    }
}

/// A static way over the phased cells that have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Static {
    /// The way.
    pub way: Way,
    /// Cells.
    pub cells: usize,
    /// What it spends over what the clairvoyant spends, summed up.
    pub spent: f64,
    /// The same of the chooser, over the same cells.
    pub chooser: f64,
}

/// A threshold, and what was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// What it says.
    pub threshold: String,
    /// What was found.
    pub found: String,
    /// True if it holds.
    pub holds: bool,
}

fn judge_regret(what: &str, regret: &Regret) -> Verdict {
    let p95 = regret.p95_after[CHECKPOINTS.len() - 1];
    let most = percent(REGRET_P95);
    Verdict {
        threshold: format!("{what} against the best static way, p95 of cells, at most {most}"),
        found: percent(p95),
        holds: p95 <= REGRET_P95,
    }
}

/// What came of all cells.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// I/Os of a run.
    pub ios: u64,
    /// Regret over all cells.
    pub all: Regret,
    /// By aim.
    pub by_aim: BTreeMap<String, Regret>,
    /// By what the program does.
    pub by_program: BTreeMap<Program, Regret>,
    /// By class of drive.
    pub by_drive: BTreeMap<DriveClass, Regret>,
    /// Which way is the best static one, as a share of the cells of an aim and a class of drive.
    pub regions: Vec<(Aim, DriveClass, BTreeMap<Way, f64>)>,
    /// All phased cells,
    pub phased: Phased,
    /// and those in which there is something to gain.
    pub phased_to_gain: Phased,
    /// Each static way over the phased cells.
    pub statics: Vec<Static>,
    /// What the thresholds are compared with.
    pub verdicts: Vec<Verdict>,
    /// Each cell.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    pub(super) fn of(seed: u64, ios: u64, outcomes: Vec<Outcome>) -> Report {
        let regret = |is_it: &dyn Fn(&Outcome) -> bool| Regret::of(outcomes.iter().filter(|one| is_it(one)));
        let phased = || outcomes.iter().filter(|one| one.program.is_phased());
        let aims = [Aim::Latency, Aim::Cpu, Aim::IosPerJoule];
        let mut report = Report {
            seed,
            ios,
            all: Regret::of(outcomes.iter()),
            by_aim: aims.map(|aim| (aim.to_string(), regret(&|one| one.aim == aim))).into(),
            by_program: Program::ALL.map(|one| (one, regret(&|outcome| outcome.program == one))).into(),
            by_drive: DriveClass::ALL.map(|one| (one, regret(&|outcome| outcome.drive == one))).into(),
            regions: regions(&outcomes, &aims),
            phased: Phased::of(phased()),
            phased_to_gain: Phased::of(phased().filter(|one| one.to_gain() > TO_GAIN)),
            statics: statics(phased().collect()),
            verdicts: Vec::new(),
            outcomes,
        };
        report.verdicts = report.judge();
        report
    }

    /// True if every threshold holds.
    pub fn holds(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.holds)
    }

    /// The threshold of regret for the aims that are measured while an engine runs. Joules are not: what a
    /// policy says wrong of a way everywhere cannot be found out.
    pub(super) fn judge_measured(&mut self) {
        let measured = Regret::of(self.outcomes.iter().filter(|one| one.aim != Aim::IosPerJoule));
        if let Some(regret) = self.verdicts.first_mut() {
            *regret = judge_regret("regret of latency and cpu, which are measured while it runs,", &measured);
        }
    }

    fn judge(&self) -> Vec<Verdict> {
        let regret = judge_regret("regret", &self.all);
        let worse = self.statics.iter().filter(|one| one.chooser >= one.spent).count();
        let each = Verdict {
            threshold: "over phased cells, less than each static way spends over the same cells".to_owned(),
            found: format!("less than {} of {}", self.statics.len() - worse, self.statics.len()),
            holds: worse == 0 && !self.statics.is_empty(),
        };
        let Phased { cells, beaten, chooser, best_static, .. } = self.phased_to_gain;
        let gain = Verdict {
            threshold: format!(
                "over phased cells where above {} can be gained, less than the best static way of each cell",
                percent(TO_GAIN)
            ),
            found: format!(
                "{chooser:.2} against {best_static:.2} in {cells} cells, less in {beaten} of them"
            ),
            holds: chooser < best_static,
        };
        vec![regret, each, gain]
    }
}

fn regions(outcomes: &[Outcome], aims: &[Aim]) -> Vec<(Aim, DriveClass, BTreeMap<Way, f64>)> {
    let mut regions = Vec::new();
    for aim in aims {
        for drive in DriveClass::ALL {
            let mut ways: BTreeMap<Way, f64> = BTreeMap::new();
            let here = || outcomes.iter().filter(|one| one.aim == *aim && one.drive == drive);
            here().for_each(|one| *ways.entry(one.best).or_default() += 1.0 / here().count() as f64);
            regions.push((*aim, drive, ways));
        }
    }
    regions
}

fn statics(phased: Vec<&Outcome>) -> Vec<Static> {
    let of_way = |way: Way| {
        let spent =
            |one: &&Outcome| one.fixed.iter().find(|(fixed, _)| *fixed == way).map(|(_, spent)| *spent);
        let cells: Vec<(f64, f64)> =
            phased.iter().filter_map(|one| Some((spent(one)?, one.chooser))).collect();
        let (of_way, of_chooser): (Vec<f64>, Vec<f64>) = cells.into_iter().unzip();
        Static { way, cells: of_way.len(), spent: of_way.iter().sum(), chooser: of_chooser.iter().sum() }
    };
    Way::ALL.into_iter().map(of_way).filter(|one| one.cells > 0).collect()
}

/// A share as a percentage.
pub(super) fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}
