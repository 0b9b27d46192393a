//! The policy of a simulated machine: figures for each way and cell, each of them wrong.

use super::chance::Chance;
use super::truth::Truth;
use super::workload::{DEEPEST, Phase};
use crate::key::{Band, Direction, Kind};
use crate::policy::{Aim, Cell, Figures, Policy};
use crate::way::Way;

/// How far a figure may be from the truth, as a share of it.
pub const MISSTATED: f64 = 0.5;

/// Kinds that every policy knows beside those of its program: a study measures several.
const STUDIED: [(Direction, u32); 4] = [
    (Direction::Read, 4096),
    (Direction::Read, 64 << 10),
    (Direction::Write, 4096),
    (Direction::Write, 64 << 10),
];

/// The policy for the kinds of a program and those that are studied, at every depth.
pub(super) fn misstated(truth: &Truth, kinds: &[Kind], aim: Aim, chance: &mut Chance) -> Policy {
    let mut cells = Vec::new();
    let studied = STUDIED.map(|(direction, size)| Kind::new(direction, size));
    let others = studied.iter().filter(|kind| !kinds.contains(kind));
    for kind in kinds.iter().chain(others) {
        for power in 0..=DEEPEST.ilog2() {
            let in_flight = 1 << power;
            let takes = |way: &&Way| **way != Way::Sio || Band::of(in_flight) == Band::ONE;
            let mut ways: Vec<Figures> = truth
                .ways()
                .iter()
                .filter(takes)
                .map(|way| figures(truth, *kind, in_flight, *way, chance))
                .collect();
            let cost = |figures: &Figures| match aim {
                Aim::Latency => figures.mean_ns,
                Aim::Cpu => figures.cpu_ns,
                Aim::IosPerJoule => figures.joules,
            };
            ways.sort_by(|one, other| {
                let [one, other] = [one, other].map(|figures| cost(figures).unwrap_or(f64::INFINITY));
                one.total_cmp(&other)
            });
            cells.push(Cell { op: kind.direction(), size: kind.most_bytes(), in_flight, ways });
        }
    }
    Policy { aim, cells, ..Policy::default() }
}

fn figures(truth: &Truth, kind: Kind, in_flight: u32, way: Way, chance: &mut Chance) -> Figures {
    let cost = truth.cost(&Phase::of(kind, in_flight), &[way]);
    let mut wrong = |value: f64| Some(value * chance.between(1.0 - MISSTATED, 1.0 + MISSTATED));
    Figures {
        way,
        mean_ns: wrong(cost.latency_ns),
        p99_ns: wrong(truth.p99_ns(&cost.latencies[0])),
        cpu_ns: wrong(cost.cpu_ns),
        joules: wrong(cost.joules),
    }
}
