//! One cell: a machine, a program and an aim; what the chooser spends in it, and what others would.

use super::bound;
use super::breach::{Breach, Drawn};
use super::chance::Chance;
use super::cost::Cost;
use super::policy::{Known, Misstated, misstated};
use super::recorded::Recorded;
use super::run::{Meter, Run, Spent};
use super::trace::Trace;
use super::truth::{DriveClass, Truth, Ways};
use super::workload::{Menu, Phase, Program, RUN_IOS, Workload};
use crate::chooser::{Choice, Chooser, Epochs, Rule};
use crate::policy::{Aim, Policy};
use crate::way::Way;
use serde::Serialize;
use std::sync::Arc;

/// I/Os after which regret is looked at.
pub const CHECKPOINTS: [u64; 3] = [10_000, 100_000, RUN_IOS];
/// By what share a way must be below a bound to count as one that keeps it: some hundred timed I/Os do not
/// tell a 99th percentile from one that is as near as that.
const TOLD: f64 = 0.04;
/// Kinds of a phase for which all combinations of ways are tried.
const COMBINED: usize = 2;

/// What came of one cell. Regrets are shares of what the best static way spends: 0.01 is 1 % more.
///
/// With a bound of latency, I/Os count of the phases in which some static way keeps it, and the static ways
/// are those that keep it in all of these; if there is none, regrets are no numbers and `fixed` is empty.
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
    /// The chooser's regret after so many I/Os, of [`CHECKPOINTS`]; no number where none of them counts.
    pub regret: [f64; 3],
    /// What each static way spends, over what the clairvoyant does.
    pub fixed: Vec<(Way, f64)>,
    /// What the chooser spends, over what the clairvoyant does, who takes the best way in each phase.
    pub chooser: f64,
    /// What random switching spends, over what the clairvoyant does; no number if the chooser ran alone.
    pub random: f64,
    /// The regret of the chooser that is pinned to the best way: what choosing costs by itself; no number
    /// if the chooser ran alone.
    pub pinned: f64,
    /// The share of I/Os that explored.
    pub explored: f64,
    /// Changes of route.
    pub switches: u64,
    /// True if ways that spin are no baseline: in some phase more threads run than there are cores.
    pub is_crowded: bool,
    /// How the bound was kept, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breach: Option<Breach>,
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

/// What the cells of a family have in common.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Setting<'a> {
    pub(super) misstated: Misstated,
    /// Each has a bound of latency.
    pub(super) is_bounded: bool,
    /// A meter is read.
    pub(super) is_metered: bool,
    /// The chooser alone runs: neither chance nor what choosing costs by itself is compared with.
    pub(super) is_alone: bool,
    /// The drive, instead of one that is drawn.
    pub(super) recorded: Option<&'a Arc<Recorded>>,
    /// The program, instead of one that is drawn.
    pub(super) trace: Option<&'a Trace>,
}

/// A cell that is ready to run.
pub(super) struct Scene {
    pub(super) number: u64,
    pub(super) truth: Truth,
    pub(super) workload: Workload,
    pub(super) policy: Policy,
    drawn: Option<Drawn>,
    is_alone: bool,
    is_metered: bool,
    chance: Chance,
}

impl Scene {
    /// The cell of a number: aims, targets and programs take turns, the rest is drawn.
    pub(super) fn draw(seed: u64, number: u64, setting: Setting<'_>) -> Scene {
        let mut chance = Chance::new(seed, number);
        let menu = setting.recorded.map_or(Menu::Any, |recorded| Menu::Recorded(recorded));
        let aim = [Aim::Latency, Aim::Cpu, Aim::IosPerJoule][number as usize % 3];
        let has = Ways::ALL[number as usize / 3 % Ways::ALL.len()];
        let programs = menu.programs();
        let program = programs[number as usize / 12 % programs.len()];
        let truth = Truth::draw(has, setting.recorded, &mut chance);
        let workload = match setting.trace {
            Some(trace) => trace.workload(&mut chance),
            None => Workload::draw(program, &truth, menu, &mut chance),
        };
        let known = Known::of(workload.kinds(), menu);
        let policy = misstated(&truth, &known, aim, setting.misstated, &mut chance);
        let is_alone = setting.is_bounded || setting.is_alone;
        let is_metered = setting.is_metered;
        let mut scene = Scene { number, truth, workload, policy, drawn: None, is_alone, is_metered, chance };
        if setting.is_bounded {
            let usable = scene.usable();
            let (bound_ns, drawn) = bound::draw(&scene.truth, &scene.workload, &usable, &mut scene.chance);
            (scene.policy.bound_p99_ns, scene.drawn) = (Some(bound_ns), Some(drawn));
        }
        scene
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
        let usable = self.usable();
        let counts: Vec<bool> =
            self.workload.phases.iter().map(|phase| self.is_kept_by_any(phase, &usable)).collect();
        let admitted = self.admitted(&usable, &counts);
        let fixed = |ios, way: Way| self.fixed(ios, &counts, |phase| self.uniform(phase, way));
        let statics: Vec<(Way, Spent)> = admitted.iter().map(|way| (*way, fixed(RUN_IOS, *way))).collect();
        let best = statics.iter().min_by(|one, other| one.1.mean(aim).total_cmp(&other.1.mean(aim)));
        let best = best.map_or(self.truth.fallback(), |(way, _)| *way);
        let clairvoyant = self.fixed(RUN_IOS, &counts, |phase| self.best_of(phase, &usable)).mean(aim);
        let seeds = [(); 3].map(|()| self.chance.seed());
        let mut run = self.run(Rule::Follow, seeds[0]);
        let breach = self.policy.bound_p99_ns.zip(self.drawn);
        run.breach = breach.map(|(bound_ns, drawn)| (Breach::new(bound_ns, drawn), counts.clone()));
        let regret = CHECKPOINTS.map(|ios| {
            run.until(ios);
            // Static ways are compared over the very same I/Os.
            let ios = run.spent.ios;
            let mean = |way: &Way| self.fixed(ios, &counts, |phase| self.uniform(phase, *way)).mean(aim);
            run.spent_in(&counts).mean(aim) / admitted.iter().map(mean).fold(f64::INFINITY, f64::min) - 1.0
        });
        let explored = run.chooser.counts().explored as f64 / run.spent.ios as f64;
        let (chooser, switches) =
            (run.spent_in(&counts).mean(aim) / clairvoyant, run.chooser.counts().switches);
        let whole = |rule, seed| {
            let mut run = self.run(rule, seed);
            run.until(RUN_IOS);
            run.spent.mean(aim) / clairvoyant
        };
        let fixed: Vec<(Way, f64)> =
            statics.iter().map(|(way, spent)| (*way, spent.mean(aim) / clairvoyant)).collect();
        let least = fixed.iter().map(|(_, spent)| *spent).fold(f64::INFINITY, f64::min);
        let [random, pinned] = match self.is_alone {
            false => [whole(Rule::Random, seeds[1]), whole(Rule::Pinned(best), seeds[2]) / least - 1.0],
            true => [f64::NAN; 2],
        };
        Outcome {
            number: self.number,
            has: self.truth.has,
            drive: DriveClass::of(self.truth.drive.read_ns),
            program: self.workload.program,
            aim,
            best,
            regret: if admitted.is_empty() { [f64::NAN; 3] } else { regret },
            chooser,
            random,
            pinned,
            fixed,
            explored,
            switches,
            is_crowded: usable.len() < self.truth.ways().len(),
            breach: run.breach.take().map(|(breach, _)| breach),
        }
    }

    fn run(&self, rule: Rule, seed: u64) -> Run<'_> {
        let mut run = Run::new(&self.truth, &self.workload, self.chooser(rule, seed), Chance::new(seed, 1));
        run.meter = self.is_metered.then(|| Meter::new(Chance::new(seed, 2)));
        run
    }

    /// The ways that count. Where threads would wait for processors in some phase, those that spin do not:
    /// they take from others what they gain.
    fn usable(&self) -> Vec<Way> {
        let others = self.workload.phases.iter().map(|phase| phase.others).max().unwrap_or(0);
        let is_crowded = |way: Way| others + 1 + u32::from(way.has_poller()) > self.truth.cores;
        self.truth.ways().iter().copied().filter(|way| !(way.spins() && is_crowded(*way))).collect()
    }

    /// Of these, the static ways that keep the bound in each phase that counts.
    fn admitted(&self, usable: &[Way], counts: &[bool]) -> Vec<Way> {
        let keeps = |way: &Way| {
            let mut phases = self.workload.phases.iter().zip(counts).filter(|(_, counts)| **counts);
            phases.all(|(phase, _)| self.keeps(phase, &self.uniform(phase, *way)))
        };
        let admits = counts.iter().any(|counts| *counts);
        usable.iter().copied().filter(|way| admits && keeps(way)).collect()
    }

    fn is_kept_by_any(&self, phase: &Phase, ways: &[Way]) -> bool {
        ways.iter().any(|way| self.keeps(phase, &self.uniform(phase, *way)))
    }

    /// True if the bound is kept by so much that this can be told, or there is none.
    fn keeps(&self, phase: &Phase, cost: &Cost) -> bool {
        let most_ns = self.policy.bound_p99_ns.map(|bound_ns| bound_ns as f64 * (1.0 - TOLD));
        most_ns.is_none_or(|most_ns| self.truth.worst_p99_ns(phase, cost) <= most_ns)
    }

    fn uniform(&self, phase: &Phase, way: Way) -> Cost {
        self.truth.cost(phase, &vec![way; phase.kinds.len()])
    }

    /// The best of all combinations of ways that keep the bound, of which there is one at least.
    fn best_of(&self, phase: &Phase, ways: &[Way]) -> Cost {
        let aim = self.policy.aim;
        let uniform = ways.iter().map(|way| vec![*way; phase.kinds.len()]);
        let is_free = self.truth.has != Ways::Taken && phase.kinds.len() == COMBINED;
        let mixed = ways.iter().flat_map(|one| ways.iter().map(|other| vec![*one, *other]));
        let all = uniform.chain(mixed.filter(|_| is_free)).map(|routes| self.truth.cost(phase, &routes));
        let kept = all.filter(|cost| self.keeps(phase, cost));
        let best = kept.min_by(|one, other| one.of(aim).total_cmp(&other.of(aim)));
        best.unwrap_or_else(|| self.uniform(phase, self.truth.fallback()))
    }

    /// What is spent over the first I/Os of the workload by what `cost` says of each phase that counts.
    fn fixed(&self, ios: u64, counts: &[bool], cost: impl Fn(&Phase) -> Cost) -> Spent {
        let (mut spent, mut left) = (Spent::default(), ios);
        for (phase, counts) in self.workload.phases.iter().zip(counts) {
            let count = phase.ios.min(left);
            left -= count;
            if count > 0 && *counts {
                spent.add(count, &cost(phase));
            }
        }
        spent
    }
}
