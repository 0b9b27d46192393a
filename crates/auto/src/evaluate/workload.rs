//! What a simulated program does: phases, each a number of I/Os under one load.

use super::chance::Chance;
use super::recorded::Recorded;
use super::truth::Truth;
use crate::key::{Direction, Kind};
use crate::way::Way;
use serde::Serialize;

/// I/Os of a run: what is said of the chooser holds for so many.
pub const RUN_IOS: u64 = 1_000_000;
/// Phases of a run that has some.
const PHASES: u64 = 8;
/// Phases of a random walk, and of a trace.
pub(super) const STEPS: u64 = 32;
/// The most in flight.
pub(super) const DEEPEST: u32 = 128;

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// One kind of request, so many in flight, nothing changes.
    Stationary,
    /// Reads and writes of other sizes, in turn.
    Bimodal,
    /// I/Os come at a rate, whatever became of those before.
    OpenLoad,
    /// Two depths take turns.
    DepthSteps,
    /// Two sizes take turns.
    SizeSteps,
    /// Two rates take turns.
    RateSteps,
    /// A way of the drive, or the whole drive, is slow for some time.
    Stall,
    /// More threads run than there are cores, for some time.
    Crowded,
    /// Another program makes software slower for half of the time.
    CoRunner,
    /// Depth, size and direction walk at random, as in a trace.
    Walk,
    /// A trace: its kinds of request and its rates, slice by slice.
    Trace,
}

impl Program {
    /// Every one that is drawn.
    pub const ALL: [Program; 10] = [
        Program::Stationary,
        Program::Bimodal,
        Program::OpenLoad,
        Program::DepthSteps,
        Program::SizeSteps,
        Program::RateSteps,
        Program::Stall,
        Program::Crowded,
        Program::CoRunner,
        Program::Walk,
    ];

    /// True if it has phases.
    pub fn is_phased(self) -> bool {
        !matches!(self, Program::Stationary | Program::Bimodal | Program::OpenLoad)
    }
}

/// How I/Os arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Load {
    /// So many are kept in flight.
    Closed(u32),
    /// So many come in a second, at random.
    Open(f64),
}

/// I/Os under one load.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Phase {
    pub(super) ios: u64,
    /// Kinds with their shares, which add up to 1.
    pub(super) kinds: Vec<(Kind, f64)>,
    pub(super) load: Load,
    /// Threads beside this one that run or could.
    pub(super) others: u32,
    /// How much slower software is.
    pub(super) software: f64,
    /// How much slower the drive is on each way.
    pub(super) drive: [f64; Way::COUNT],
}

impl Phase {
    /// One kind of request on a machine without anything else.
    pub(super) fn of(kind: Kind, in_flight: u32) -> Phase {
        Phase {
            ios: RUN_IOS,
            kinds: vec![(kind, 1.0)],
            load: Load::Closed(in_flight),
            others: 0,
            software: 1.0,
            drive: [1.0; Way::COUNT],
        }
    }

    /// How many are kept in flight, in a closed loop.
    pub(super) fn closed(&self) -> Option<u32> {
        match self.load {
            Load::Closed(in_flight) => Some(in_flight),
            Load::Open(_) => None,
        }
    }
}

/// What a program may ask for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Menu<'a> {
    /// Any request.
    Any,
    /// Only what was recorded.
    Recorded(&'a Recorded),
}

impl Menu<'_> {
    /// The programs that there are with it.
    pub(super) fn programs(self) -> Vec<Program> {
        let has = |program: &Program| match (self, program) {
            (Menu::Recorded(recorded), Program::DepthSteps) => recorded.depths().len() > 1,
            (Menu::Recorded(recorded), Program::SizeSteps | Program::Bimodal) => recorded.kinds().len() > 1,
            _ => true,
        };
        Program::ALL.into_iter().filter(has).collect()
    }

    /// How many are in flight, each of which a policy may know.
    pub(super) fn depths(self) -> Vec<u32> {
        match self {
            Menu::Any => (0..=DEEPEST.ilog2()).map(|power| 1 << power).collect(),
            Menu::Recorded(recorded) => recorded.depths().to_vec(),
        }
    }

    fn kind(self, chance: &mut Chance) -> Kind {
        match self {
            Menu::Any => kind(chance),
            Menu::Recorded(recorded) => chance.one_of(recorded.kinds()),
        }
    }

    fn depth(self, chance: &mut Chance) -> u32 {
        match self {
            Menu::Any => 1 << chance.index(8),
            Menu::Recorded(recorded) => chance.one_of(recorded.depths()),
        }
    }

    fn two_kinds(self, chance: &mut Chance) -> Vec<(Kind, f64)> {
        let share = chance.between(0.1, 0.9);
        let [one, other] = match self {
            Menu::Any => {
                let sizes = [4096, 16 << 10, 64 << 10];
                [Direction::Read, Direction::Write]
                    .map(|direction| Kind::new(direction, chance.one_of(&sizes)))
            }
            Menu::Recorded(_) => {
                let one = self.kind(chance);
                [one, another(one, || self.kind(chance))]
            }
        };
        vec![(one, share), (other, 1.0 - share)]
    }

    /// The next greater depth, or the next smaller one; the same if there is none.
    fn beside(self, depth: u32, is_up: bool) -> u32 {
        let depths = self.depths();
        let beside = match is_up {
            true => depths.into_iter().find(|other| *other > depth),
            false => depths.into_iter().rev().find(|other| *other < depth),
        };
        beside.unwrap_or(depth)
    }
}

/// A program with what it meets.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    pub(super) program: Program,
    pub(super) phases: Vec<Phase>,
}

impl Workload {
    pub(super) fn draw(program: Program, truth: &Truth, menu: Menu<'_>, chance: &mut Chance) -> Workload {
        let (kind, depth) = (menu.kind(chance), menu.depth(chance));
        let base = Phase::of(kind, depth);
        let phases = match program {
            Program::Stationary | Program::Trace => vec![base],
            Program::Bimodal => vec![Phase { kinds: menu.two_kinds(chance), ..base }],
            Program::OpenLoad => vec![Phase { load: rate(truth, kind, chance), ..base }],
            Program::DepthSteps => {
                let depth = another(depth, || menu.depth(chance));
                turns(&base, &Phase { load: Load::Closed(depth), ..base.clone() })
            }
            Program::SizeSteps => {
                let kind = another(kind, || menu.kind(chance));
                turns(&base, &Phase { kinds: vec![(kind, 1.0)], ..base.clone() })
            }
            Program::RateSteps => {
                let mut rate = || Phase { load: rate(truth, kind, chance), ..base.clone() };
                turns(&rate(), &rate())
            }
            Program::Stall => turns(&base, &stalled(&base, truth, chance)),
            Program::Crowded => {
                let others = truth.cores + chance.index(truth.cores as usize + 1) as u32;
                turns(&base, &Phase { others, ..base.clone() })
            }
            Program::CoRunner => turns(&base, &Phase { software: chance.over(1.2, 4.0), ..base.clone() }),
            Program::Walk => walk(kind, depth, menu, chance),
        };
        Workload { program, phases }
    }

    /// The kinds that it has, each once.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> =
            self.phases.iter().flat_map(|phase| phase.kinds.iter().map(|(kind, _)| *kind)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// The most that it has in flight.
    pub(super) fn iodepth(&self) -> u32 {
        let most = |phase: &Phase| match phase.load {
            Load::Closed(in_flight) => in_flight,
            Load::Open(_) => DEEPEST,
        };
        self.phases.iter().map(most).max().unwrap_or(1)
    }
}

fn kind(chance: &mut Chance) -> Kind {
    let direction = chance.one_of(&[Direction::Read, Direction::Read, Direction::Write]);
    Kind::new(direction, chance.one_of(&[512, 4096, 4096, 4096, 16 << 10, 64 << 10, 128 << 10]))
}

/// Another one of its sort.
fn another<T: PartialEq>(one: T, mut draw: impl FnMut() -> T) -> T {
    loop {
        let other = draw();
        if other != one {
            return other;
        }
    }
}

/// A share of what the drive and one thread can do.
fn rate(truth: &Truth, kind: Kind, chance: &mut Chance) -> Load {
    let thread_ns = truth.software.ring + truth.software.interrupt + truth.software.wake_cpu;
    let least_ns = (truth.drive.service_ns(kind) / truth.drive.parallelism).max(thread_ns);
    Load::Open(1e9 / least_ns * chance.over(0.01, 0.8))
}

fn turns(one: &Phase, other: &Phase) -> Vec<Phase> {
    let ios = RUN_IOS / PHASES;
    let turn = |number| Phase { ios, ..if number % 2 == 0 { one } else { other }.clone() };
    (0..PHASES).map(turn).collect()
}

fn stalled(base: &Phase, truth: &Truth, chance: &mut Chance) -> Phase {
    let times = chance.over(1.5, 10.0);
    let mut drive = [times; Way::COUNT];
    if chance.index(2) == 0 {
        drive = [1.0; Way::COUNT];
        drive[chance.one_of(truth.ways()).index()] = times;
    }
    Phase { drive, ..base.clone() }
}

fn walk(mut kind: Kind, mut depth: u32, menu: Menu<'_>, chance: &mut Chance) -> Vec<Phase> {
    let mut step = |_| {
        match chance.index(4) {
            0 => depth = menu.beside(depth, true),
            1 => depth = menu.beside(depth, false),
            2 => kind = menu.kind(chance),
            _ => {}
        }
        Phase { ios: RUN_IOS / STEPS, ..Phase::of(kind, depth) }
    };
    (0..STEPS).map(&mut step).collect()
}
