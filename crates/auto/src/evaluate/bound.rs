//! Bounds of latency: drawn around what the ways of a machine reach, and who keeps one.

use super::breach::Drawn;
use super::chance::Chance;
use super::cost::Cost;
use super::truth::Truth;
use super::workload::{Phase, Workload};
use crate::way::Way;

/// The least and the most by which a bound is above what every way reaches, or below what any does.
const BESIDE: [f64; 2] = [1.1, 3.0];

impl Truth {
    /// The greatest 99th percentile of the kinds of a phase.
    pub(super) fn worst_p99_ns(&self, phase: &Phase, cost: &Cost) -> f64 {
        let kinds = phase.kinds.iter().zip(&cost.latencies);
        kinds.map(|((kind, _), latency)| self.p99_ns(*kind, latency)).fold(0.0, f64::max)
    }
}

/// A bound for a workload, around what these ways reach in it.
pub(super) fn draw(truth: &Truth, workload: &Workload, ways: &[Way], chance: &mut Chance) -> (u64, Drawn) {
    let reached = |phase: &Phase| -> Vec<f64> {
        let p99 = |way: &Way| truth.worst_p99_ns(phase, &truth.cost(phase, &vec![*way; phase.kinds.len()]));
        let mut all: Vec<f64> = ways.iter().map(p99).collect();
        all.sort_unstable_by(f64::total_cmp);
        all.dedup();
        all
    };
    let first = reached(&workload.phases[0]);
    let all: Vec<f64> = workload.phases.iter().flat_map(&reached).collect();
    let most = all.iter().copied().fold(0.0, f64::max);
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let (fastest, slowest) = (first[0], first[first.len() - 1]);
    let drawn = Drawn::ALL[chance.index(Drawn::ALL.len())];
    let beside = chance.over(BESIDE[0], BESIDE[1]);
    let bound_ns = match drawn {
        Drawn::All => most * beside,
        Drawn::Some => chance.over(fastest, slowest),
        Drawn::Fastest => chance.over(fastest, first.get(1).copied().unwrap_or(fastest * BESIDE[1])),
        Drawn::Phases => chance.over(least, most),
        Drawn::Nobody => fastest / beside,
    };
    // Whole ns, that the fastest way still keeps where it should.
    let bound_ns = if drawn == Drawn::Nobody { bound_ns.floor() } else { bound_ns.ceil() };
    (bound_ns.max(1.0) as u64, drawn)
}

#[cfg(test)]
mod tests {
    use super::super::truth::Ways;
    use super::super::workload::{Menu, Program};
    use super::*;

    #[test]
    fn bounds_lie_where_their_names_say() {
        let mut seen = [false; 5];
        for stream in 0..60 {
            let mut chance = Chance::new(5, stream);
            let truth = Truth::draw(Ways::Hybrid, None, &mut chance);
            let workload = Workload::draw(Program::DepthSteps, &truth, Menu::Any, &mut chance);
            let (bound_ns, drawn) = draw(&truth, &workload, truth.ways(), &mut chance);
            let keep = |phase: &Phase| {
                let keeps =
                    |way: &&Way| truth.worst_p99_ns(phase, &truth.cost(phase, &[**way])) <= bound_ns as f64;
                truth.ways().iter().filter(keeps).count()
            };
            let [first, second] = [0, 1].map(|at| keep(&workload.phases[at]));
            let ways = truth.ways().len();
            match drawn {
                Drawn::All => assert_eq!([first, second], [ways, ways]),
                Drawn::Nobody => assert_eq!(first, 0),
                // Two ways may take the very same time.
                Drawn::Fastest => assert!((1..ways).contains(&first), "{first}"),
                Drawn::Some => assert!((1..=ways).contains(&first), "{first}"),
                Drawn::Phases => assert!(first + second > 0),
            }
            seen[drawn as usize] = true;
        }
        assert_eq!(seen, [true; 5]);
    }
}
