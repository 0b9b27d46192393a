//! The policy of a simulated machine: figures for each way and cell, all of them wrong.

use super::chance::Chance;
use super::truth::Truth;
use super::workload::{Menu, Phase};
use crate::key::{Band, Direction, Kind};
use crate::policy::{Aim, Cell, Figures, Policy};
use crate::way::Way;
use serde::Serialize;

/// How far a figure may be from the truth, as a share of it.
pub const MISSTATED: f64 = 0.5;

/// Kinds that every policy knows beside those of its program: a study measures several.
const STUDIED: [(Direction, u32); 4] = [
    (Direction::Read, 4096),
    (Direction::Read, 64 << 10),
    (Direction::Write, 4096),
    (Direction::Write, 64 << 10),
];

/// What is misstated, by up to [`MISSTATED`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Misstated {
    /// Each figure, by itself.
    #[default]
    Figures,
    /// Each part of what an I/O takes and costs: the drive, software, wake-ups, polls, timers and power. All
    /// figures follow from the wrong parts.
    Parts,
    /// Each way's mean latency, 99th percentile, CPU time and joules, by the same factor for every kind of
    /// request and any number in flight.
    Ways,
}

/// The mean, the 99th percentile, the CPU time and the joules of a way, in this order.
const FIGURES: usize = 4;

/// What a policy has cells for.
pub(super) struct Known {
    kinds: Vec<Kind>,
    depths: Vec<u32>,
}

impl Known {
    /// The kinds of a program, and those that are studied or were recorded.
    pub(super) fn of(mut kinds: Vec<Kind>, menu: Menu<'_>) -> Known {
        let others = match menu {
            Menu::Any => STUDIED.map(|(direction, size)| Kind::new(direction, size)).to_vec(),
            Menu::Recorded(recorded) => recorded.kinds().to_vec(),
        };
        let others: Vec<Kind> = others.into_iter().filter(|kind| !kinds.contains(kind)).collect();
        kinds.extend(others);
        let mut depths = menu.depths();
        // Numbers in flight of one band have one cell.
        depths.dedup_by_key(|depth| Band::of(*depth));
        Known { kinds, depths }
    }
}

/// Says something wrong: of a way, which figure, and its true value.
type Wrong<'a> = dyn FnMut(Way, usize, f64) -> f64 + 'a;

/// The policy for what is known.
pub(super) fn misstated(
    truth: &Truth,
    known: &Known,
    aim: Aim,
    how: Misstated,
    chance: &mut Chance,
) -> Policy {
    let factor = |chance: &mut Chance| chance.between(1.0 - MISSTATED, 1.0 + MISSTATED);
    match how {
        Misstated::Figures => stated(truth, known, aim, &mut |_, _, value| value * factor(chance)),
        Misstated::Parts => stated(&truth.misstated(MISSTATED, chance), known, aim, &mut |_, _, value| value),
        Misstated::Ways => {
            let factors = Way::ALL.map(|_| [(); FIGURES].map(|()| factor(chance)));
            stated(truth, known, aim, &mut |way, figure, value| value * factors[way.index()][figure])
        }
    }
}

fn stated(truth: &Truth, known: &Known, aim: Aim, wrong: &mut Wrong<'_>) -> Policy {
    let mut cells = Vec::new();
    for kind in &known.kinds {
        for in_flight in &known.depths {
            let takes = |way: &&Way| **way != Way::Sio || Band::of(*in_flight) == Band::ONE;
            let ways = truth.ways().iter().filter(takes);
            let mut ways: Vec<Figures> =
                ways.map(|way| figures(truth, *kind, *in_flight, *way, wrong)).collect();
            let cost = |figures: &Figures| match aim {
                Aim::Latency => figures.mean_ns,
                Aim::Cpu => figures.cpu_ns,
                Aim::IosPerJoule => figures.joules,
            };
            ways.sort_by(|one, other| {
                let [one, other] = [one, other].map(|figures| cost(figures).unwrap_or(f64::INFINITY));
                one.total_cmp(&other)
            });
            let (op, size, in_flight) = (kind.direction(), kind.most_bytes(), Band::of(*in_flight).least());
            cells.push(Cell { op, size, in_flight, ways });
        }
    }
    Policy { aim, cells, ..Policy::default() }
}

fn figures(truth: &Truth, kind: Kind, in_flight: u32, way: Way, wrong: &mut Wrong<'_>) -> Figures {
    let cost = truth.cost(&Phase::of(kind, in_flight), &[way]);
    let mut wrong = |figure, value| Some(wrong(way, figure, value));
    Figures {
        way,
        mean_ns: wrong(0, cost.latency_ns),
        p99_ns: wrong(1, truth.p99_ns(kind, &cost.latencies[0])),
        cpu_ns: wrong(2, cost.cpu_ns),
        joules: wrong(3, cost.joules),
    }
}

#[cfg(test)]
mod tests {
    use super::super::truth::Ways;
    use super::*;

    /// The factors by which the figures of a policy are wrong, in its order: way, cell, mean latency and CPU
    /// time.
    fn factors(how: Misstated) -> Vec<(Way, usize, [f64; 2])> {
        let mut chance = Chance::new(7, 0);
        let truth = Truth::draw(Ways::Hybrid, None, &mut chance);
        let known = Known::of(vec![Kind::new(Direction::Read, 4096)], Menu::Any);
        let policy = misstated(&truth, &known, Aim::Latency, how, &mut chance);
        policy.check().unwrap();
        assert_eq!(policy.cells.len(), 4 * 8);
        let mut all = Vec::new();
        for (number, cell) in policy.cells.iter().enumerate() {
            for said in &cell.ways {
                let cost = truth.cost(&Phase::of(cell.kind(), cell.in_flight), &[said.way]);
                let [mean, cpu] = [said.mean_ns.unwrap(), said.cpu_ns.unwrap()];
                all.push((said.way, number, [mean / cost.latency_ns, cpu / cost.cpu_ns]));
            }
        }
        all
    }

    #[test]
    fn each_figure_is_wrong_by_itself_or_all_of_a_way_are_alike() {
        let of_poll = |how| -> Vec<f64> {
            factors(how).iter().filter(|(way, ..)| *way == Way::Poll).map(|(_, _, [mean, _])| *mean).collect()
        };
        let spread = |all: &[f64]| {
            all.iter().copied().fold(0.0, f64::max) - all.iter().copied().fold(f64::INFINITY, f64::min)
        };
        let (by_itself, alike) = (of_poll(Misstated::Figures), of_poll(Misstated::Ways));
        assert!(spread(&by_itself) > 0.5 && spread(&alike) < 1e-9, "{by_itself:?} {alike:?}");
        let all = [by_itself, alike].concat();
        assert!(all.iter().all(|factor| (0.5..=1.5).contains(factor)), "{all:?}");
    }

    #[test]
    fn wrong_parts_make_figures_that_agree_with_each_other() {
        // A thread that polls one I/O is busy as long as it takes, so both are wrong by the same factor.
        let all = factors(Misstated::Parts);
        let polls = all.iter().filter(|(way, cell, _)| *way == Way::Poll && cell % 8 == 0);
        let polls: Vec<[f64; 2]> = polls.map(|(_, _, factors)| *factors).collect();
        assert_eq!(polls.len(), 4);
        assert!(polls.iter().all(|[mean, cpu]| (mean / cpu - 1.0).abs() < 1e-9), "{polls:?}");
        assert!(polls.iter().any(|[mean, _]| (mean - 1.0).abs() > 0.01), "{polls:?}");
    }
}
