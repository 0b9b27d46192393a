//! One cell: a machine, a program and an aim; what the chooser spends in it, and what others would.

use super::chance::Chance;
use super::cost::Cost;
use super::policy::misstated;
use super::run::{Run, Spent};
use super::truth::{DriveClass, Truth, Ways};
use super::workload::{Phase, Program, RUN_IOS, Workload};
use crate::chooser::{Choice, Chooser, Epochs, Rule};
use crate::policy::{Aim, Policy};
use crate::way::Way;
use serde::Serialize;

/// I/Os after which regret is looked at.
pub const CHECKPOINTS: [u64; 3] = [10_000, 100_000, RUN_IOS];
/// Combinations of ways for the kinds of a phase that are tried at most.
const COMBINED: usize = 2;

/// What came of one cell. Regrets are shares of what the best static way spends: 0.01 is 1 % more.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Which cell of the seed.
    pub number: u64,
    /// What the target has.
    pub has: Ways,
    /// Its drive.
    pub drive: DriveClass,
    /// What the program does.
    pub program: Program,
    /// What is chosen for.
    pub aim: Aim,
    /// The static way that spends least.
    pub best: Way,
    /// The chooser's regret after so many I/Os, of [`CHECKPOINTS`].
    pub regret: [f64; 3],
    /// What each static way spends, over what the clairvoyant does.
    pub fixed: Vec<(Way, f64)>,
    /// What the chooser spends, over what the clairvoyant does, who takes the best way in each phase.
    pub chooser: f64,
    /// What random switching spends, over what the clairvoyant does.
    pub random: f64,
    /// The regret of the chooser that is pinned to the best way: what choosing costs by itself.
    pub pinned: f64,
    /// The share of I/Os that explored.
    pub explored: f64,
    /// Changes of route.
    pub switches: u64,
    /// True if ways that spin are no baseline: in some phase more threads run than there are cores.
    pub is_crowded: bool,
}

impl Outcome {
    /// What the best static way spends more than the clairvoyant, as a share.
    pub fn to_gain(&self) -> f64 {
        self.fixed.iter().map(|(_, spent)| *spent).fold(f64::INFINITY, f64::min) - 1.0
    }

    /// True if the chooser spends less than every static way.
    pub fn beats_all(&self) -> bool {
        self.chooser < 1.0 + self.to_gain()
    }
}

/// A cell that is ready to run.
pub(super) struct Scene {
    pub(super) number: u64,
    pub(super) truth: Truth,
    pub(super) workload: Workload,
    pub(super) policy: Policy,
    pub(super) chance: Chance,
}

impl Scene {
    /// The cell of a number: aims, targets and programs take turns, the rest is drawn.
    pub(super) fn draw(seed: u64, number: u64) -> Scene {
        let mut chance = Chance::new(seed, number);
        let aim = [Aim::Latency, Aim::Cpu, Aim::IosPerJoule][number as usize % 3];
        let has = Ways::ALL[number as usize / 3 % Ways::ALL.len()];
        let program = Program::ALL[number as usize / 12 % Program::ALL.len()];
        let truth = Truth::draw(has, &mut chance);
        let workload = Workload::draw(program, &truth, &mut chance);
        let policy = misstated(&truth, &workload.kinds(), aim, &mut chance);
        Scene { number, truth, workload, policy, chance }
    }

    fn chooser(&self, rule: Rule, seed: u64) -> Chooser {
        Chooser::new(Choice {
            policy: self.policy.clone(),
            ways: self.truth.ways().to_vec(),
            is_bypass: self.truth.has == Ways::Taken,
            rule,
            iodepth: self.workload.iodepth(),
            seed,
            epochs: Epochs::default(),
        })
    }

    /// Runs the chooser and all that it is compared with.
    pub(super) fn outcome(mut self) -> Outcome {
        let aim = self.policy.aim;
        let admitted = self.admitted();
        let statics: Vec<(Way, Spent)> = admitted
            .iter()
            .map(|way| (*way, self.fixed(RUN_IOS, |phase| self.uniform(phase, *way))))
            .collect();
        let best = statics.iter().min_by(|one, other| one.1.mean(aim).total_cmp(&other.1.mean(aim)));
        let best = best.map_or(self.truth.fallback(), |(way, _)| *way);
        let clairvoyant = self.fixed(RUN_IOS, |phase| self.best_of(phase, &admitted)).mean(aim);
        let seeds = [(); 3].map(|()| self.chance.seed());
        let mut run = self.run(Rule::Follow, seeds[0]);
        let regret = CHECKPOINTS.map(|ios| {
            run.until(ios);
            // Static ways are compared over the very same I/Os.
            let ios = run.spent.ios;
            let mean = |way: &Way| self.fixed(ios, |phase| self.uniform(phase, *way)).mean(aim);
            run.spent.mean(aim) / admitted.iter().map(mean).fold(f64::INFINITY, f64::min) - 1.0
        });
        let explored = run.chooser.counts().explored as f64 / run.spent.ios as f64;
        let (chooser, switches) = (run.spent.mean(aim) / clairvoyant, run.chooser.counts().switches);
        let whole = |rule, seed| {
            let mut run = self.run(rule, seed);
            run.until(RUN_IOS);
            run.spent.mean(aim) / clairvoyant
        };
        let fixed: Vec<(Way, f64)> =
            statics.iter().map(|(way, spent)| (*way, spent.mean(aim) / clairvoyant)).collect();
        let least = fixed.iter().map(|(_, spent)| *spent).fold(f64::INFINITY, f64::min);
        Outcome {
            number: self.number,
            has: self.truth.has,
            drive: DriveClass::of(self.truth.drive.read_ns),
            program: self.workload.program,
            aim,
            best,
            regret,
            chooser,
            random: whole(Rule::Random, seeds[1]),
            pinned: whole(Rule::Pinned(best), seeds[2]) / least - 1.0,
            fixed,
            explored,
            switches,
            is_crowded: admitted.len() < self.truth.ways().len(),
        }
    }

    fn run(&self, rule: Rule, seed: u64) -> Run<'_> {
        Run::new(&self.truth, &self.workload, self.chooser(rule, seed), Chance::new(seed, 1))
    }

    /// The static ways that count. Where threads would wait for processors in some phase, those that spin do
    /// not: they take from others what they gain.
    fn admitted(&self) -> Vec<Way> {
        let others = self.workload.phases.iter().map(|phase| phase.others).max().unwrap_or(0);
        let is_crowded = |way: Way| others + 1 + u32::from(way.has_poller()) > self.truth.cores;
        self.truth.ways().iter().copied().filter(|way| !(way.spins() && is_crowded(*way))).collect()
    }

    fn uniform(&self, phase: &Phase, way: Way) -> Cost {
        self.truth.cost(phase, &vec![way; phase.kinds.len()])
    }

    /// The best of all combinations of ways.
    fn best_of(&self, phase: &Phase, ways: &[Way]) -> Cost {
        let aim = self.policy.aim;
        let mut best = self.uniform(phase, ways[0]);
        let is_free = self.truth.has != Ways::Taken && phase.kinds.len() == COMBINED;
        for one in ways {
            for other in ways {
                if one == other || is_free {
                    let routes: Vec<Way> = [*one, *other].into_iter().take(phase.kinds.len()).collect();
                    let cost = self.truth.cost(phase, &routes);
                    if cost.of(aim) < best.of(aim) {
                        best = cost;
                    }
                }
            }
        }
        best
    }

    /// What is spent over the first I/Os of the workload by what `cost` says of each phase.
    fn fixed(&self, ios: u64, cost: impl Fn(&Phase) -> Cost) -> Spent {
        let mut spent = Spent::default();
        for phase in &self.workload.phases {
            let count = phase.ios.min(ios - spent.ios);
            if count > 0 {
                spent.add(count, &cost(phase));
            }
        }
        spent
    }
}
