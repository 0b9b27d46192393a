//! What an I/O is believed to take and to cost on each way: a policy's figures, re-anchored by what is seen.

use crate::anchor::Anchors;
use crate::key::{Band, Kind};
use crate::policy::{Aim, Cell, Policy};
use crate::watts::Watts;
use crate::way::Way;
use std::collections::BTreeMap;

/// Timed I/Os of bursts within the bound after which a policy's word that a way breaks it counts no more.
const CLEAN: u32 = 8;

/// Times that a way lets down that count.
const MOST_LET_DOWNS: u8 = 10;

/// What is believed of one way. What is not known is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) mean_ns: Option<f64>,
    pub(crate) p99_ns: Option<f64>,
    pub(crate) cpu_ns: Option<f64>,
    pub(crate) joules: Option<f64>,
    /// From one I/O to the next.
    pub(crate) time_ns: Option<f64>,
    /// When it was measured last at the load that there is; absent for a policy's figures.
    pub(crate) measured_ns: Option<u64>,
    /// Above 0 if the way was seen to break the bound; one more for each time that it was left for it.
    pub(crate) breaches: u8,
    /// Since then, or since a policy said that it does: I/Os of bursts that were timed, none of them over it.
    pub(crate) clean: u32,
    /// How often running the way was taken because bursts showed it to be better, and soon left again because
    /// epochs did not; and how many I/Os must have passed in all before it is tried again.
    pub(crate) let_downs: u8,
    pub(crate) rests_until: u64,
}

impl Estimate {
    /// The same, but a way that spins takes all the time that there is, unless it was measured to take less.
    fn busy(self, way: Way) -> Estimate {
        let spun_ns = self.time_ns.filter(|_| way.spins() && self.measured_ns.is_none());
        let spun_ns = spun_ns.map_or(0.0, |time_ns| time_ns * way.busy_processors());
        Estimate { cpu_ns: self.cpu_ns.map(|cpu_ns| cpu_ns.max(spun_ns)), ..self }
    }

    /// True if the way was seen to break the bound, and not to keep it since.
    pub(crate) fn is_broken(&self, bound_ns: Option<u64>) -> bool {
        self.breaches > 0 && !self.is_within(bound_ns)
    }

    /// The way was not what bursts had shown. They may show it again, so it rests after `ios`: for twice as
    /// long as bursts usually lie apart, and twice as long again each time.
    pub(crate) fn let_down(&mut self, ios: u64, apart: f64) {
        self.let_downs = (self.let_downs + 1).min(MOST_LET_DOWNS);
        self.rests_until = ios.saturating_add((apart * f64::from(1u32 << self.let_downs)) as u64);
    }

    /// Takes the number of timed I/Os of a burst if all were within the bound. Once there are enough, over
    /// all bursts, a way that broke the bound, or does by the policy, may be taken again: each time that it
    /// was left for it doubles how many that is. If it breaks the bound once more, it is left at once.
    pub(crate) fn forgive(&mut self, bound_ns: u64, within: Option<u32>) {
        self.clean = within.map_or(0, |count| self.clean.saturating_add(count));
        if self.clean >= CLEAN << self.breaches && !self.is_within(Some(bound_ns)) {
            (self.p99_ns, self.clean) = (None, 0);
        }
    }

    /// True unless the 99th percentile is known to be over the bound.
    pub(crate) fn is_within(&self, bound_ns: Option<u64>) -> bool {
        let over = |bound: u64| self.p99_ns.is_some_and(|p99| p99 > bound as f64);
        !bound_ns.is_some_and(over)
    }
}

/// Moves what is believed towards what is seen, in which the latter counts `weight`.
pub(crate) fn move_towards(believed: &mut Option<f64>, seen: f64, weight: f64) {
    *believed = Some(believed.map_or(seen, |believed| believed + weight * (seen - believed)));
}

#[derive(Clone, Debug, Default)]
struct Beliefs {
    ways: [Estimate; Way::COUNT],
    /// The policy's order of preference.
    order: Vec<Way>,
}

/// What is believed, by kind and band; only what a policy knows or what was seen takes room.
#[derive(Clone, Debug, Default)]
pub(crate) struct Estimates {
    cells: BTreeMap<(Kind, Band), Beliefs>,
    watts: Option<Watts>,
    /// What a meter says of the joules that are believed.
    pub(crate) anchors: Anchors,
}

impl Estimates {
    /// A policy's figures.
    pub(crate) fn of(policy: &Policy) -> Estimates {
        let beliefs = |cell: &Cell| {
            let mut beliefs = Beliefs::default();
            for figures in &cell.ways {
                beliefs.order.push(figures.way);
                beliefs.ways[figures.way.index()] = Estimate {
                    mean_ns: figures.mean_ns,
                    p99_ns: figures.p99_ns,
                    cpu_ns: figures.cpu_ns,
                    joules: figures.joules,
                    time_ns: figures.mean_ns.map(|mean_ns| mean_ns / f64::from(cell.in_flight)),
                    ..Estimate::default()
                };
            }
            ((cell.kind(), Band::of(cell.in_flight)), beliefs)
        };
        Estimates {
            cells: policy.cells.iter().map(beliefs).collect(),
            watts: Watts::of(policy),
            anchors: Anchors::default(),
        }
    }

    /// What an I/O costs by the aim, if that is known. Joules follow from time and CPU time, which are
    /// measured, where the policy says what these draw; and a meter corrects them.
    pub(crate) fn cost(&self, kind: Kind, band: Band, way: Way, aim: Aim) -> Option<f64> {
        let estimate = self.get(kind, band, way).busy(way);
        match aim {
            Aim::Latency => estimate.mean_ns,
            Aim::Cpu => estimate.cpu_ns,
            Aim::IosPerJoule => {
                let figure = || estimate.joules.map(|joules| joules * self.anchors.factor(way));
                self.reckoned_joules(kind, band, way).or_else(figure)
            }
        }
    }

    /// What an I/O draws by its time and CPU time, at the load that there is, where these are known and what
    /// they draw is.
    pub(crate) fn reckoned_joules(&self, kind: Kind, band: Band, way: Way) -> Option<f64> {
        let Estimate { time_ns, cpu_ns, .. } = self.get(kind, band, way).busy(way);
        let joules = self.watts?.joules(time_ns?, cpu_ns?, way, band.least());
        Some(joules * self.anchors.factor(way))
    }

    /// What a processor that is busy for so long costs by the aim.
    pub(crate) fn cost_of_cpu(&self, cpu_ns: f64, aim: Aim) -> f64 {
        match aim {
            Aim::Latency => 0.0,
            Aim::Cpu => cpu_ns,
            Aim::IosPerJoule => {
                let factor = self.anchors.factor_in_common();
                self.watts.map_or(0.0, |watts| factor * watts.of_cpu(cpu_ns))
            }
        }
    }

    /// I/Os come slower than was believed of the current way, or faster: on each other way too. What was
    /// measured of those that spin meanwhile holds no more.
    pub(crate) fn shift_time(&mut self, kind: Kind, band: Band, current: Way, [from_ns, to_ns]: [f64; 2]) {
        let was_measured = self.get(kind, band, current).measured_ns.is_some();
        for way in Way::ALL.into_iter().filter(|way| *way != current) {
            let estimate = self.get_mut(kind, band, way);
            // A figure of the policy's that was wrong says nothing of what was measured meanwhile.
            if !was_measured && estimate.measured_ns.is_some() {
                continue;
            }
            // What ways differ by stays, but no time becomes shorter by more than the current one's.
            let shifted = |time_ns: f64| (time_ns + to_ns - from_ns).max(time_ns * to_ns / from_ns);
            estimate.time_ns = estimate.time_ns.map(shifted);
            if way.spins() {
                let spun_ns = estimate.time_ns.map(|time_ns| time_ns * way.busy_processors());
                estimate.cpu_ns = spun_ns.or(estimate.cpu_ns);
                estimate.measured_ns = None;
            }
        }
    }

    pub(crate) fn get(&self, kind: Kind, band: Band, way: Way) -> Estimate {
        self.cells.get(&(kind, band)).map_or(Estimate::default(), |beliefs| beliefs.ways[way.index()])
    }

    pub(crate) fn get_mut(&mut self, kind: Kind, band: Band, way: Way) -> &mut Estimate {
        &mut self.cells.entry((kind, band)).or_default().ways[way.index()]
    }

    /// The policy's order of preference: of the cell itself, or of the nearest one in the same direction,
    /// by size first.
    pub(crate) fn order(&self, kind: Kind, band: Band) -> &[Way] {
        let distance = |(other, at): &(Kind, Band)| {
            (other.index().abs_diff(kind.index()), at.index().abs_diff(band.index()))
        };
        let is_near = |((other, _), beliefs): &(&(Kind, Band), &Beliefs)| {
            other.direction() == kind.direction() && !beliefs.order.is_empty()
        };
        let nearest = self.cells.iter().filter(is_near).min_by_key(|(key, _)| distance(key));
        nearest.map_or(&[], |(_, beliefs)| &beliefs.order)
    }

    /// The load is another one: what was measured of the other ways must be measured again.
    pub(crate) fn forget_when(&mut self, kind: Kind, current: Way) {
        for ((other, _), beliefs) in &mut self.cells {
            if *other == kind {
                for way in Way::ALL.into_iter().filter(|way| *way != current) {
                    let estimate = &mut beliefs.ways[way.index()];
                    estimate.measured_ns = None;
                    estimate.breaches = estimate.breaches.min(1);
                    (estimate.let_downs, estimate.rests_until) = (0, 0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Direction;
    use crate::policy::Figures;

    fn cell(op: Direction, size: u32, in_flight: u32, way: Way) -> Cell {
        let ways = vec![Figures { mean_ns: Some(size.into()), ..Figures::unknown(way) }];
        Cell { op, size, in_flight, ways }
    }

    #[test]
    fn a_cell_that_the_policy_lacks_has_the_order_of_the_nearest_but_no_figures() {
        let cells = vec![
            cell(Direction::Read, 4096, 1, Way::Poll),
            cell(Direction::Read, 4096, 32, Way::Sqpoll),
            cell(Direction::Read, 65536, 1, Way::Hybrid),
        ];
        let estimates = Estimates::of(&Policy { cells, ..Policy::default() });
        let order = |op, size, in_flight| estimates.order(Kind::new(op, size), Band::of(in_flight)).to_vec();
        assert_eq!(order(Direction::Read, 4096, 2), [Way::Poll]);
        assert_eq!(order(Direction::Read, 4096, 16), [Way::Sqpoll]);
        assert_eq!(order(Direction::Read, 128 << 10, 64), [Way::Hybrid]);
        assert_eq!(order(Direction::Write, 4096, 1), []);
        let (kind, band) = (Kind::new(Direction::Read, 4096), Band::of(2));
        assert_eq!(estimates.get(kind, band, Way::Poll), Estimate::default());
        assert_eq!(estimates.cost(kind, Band::ONE, Way::Poll, Aim::Latency), Some(4096.0));
    }

    #[test]
    fn what_was_measured_does_not_follow_a_policys_figure_that_was_wrong() {
        let (kind, band) = (Kind::new(Direction::Read, 4096), Band::ONE);
        let mut estimates = Estimates::default();
        let measured = Estimate { time_ns: Some(100.0), measured_ns: Some(1), ..Estimate::default() };
        *estimates.get_mut(kind, band, Way::Hybrid) = measured;
        *estimates.get_mut(kind, band, Way::Sqpoll) = Estimate { measured_ns: None, ..measured };
        estimates.get_mut(kind, band, Way::Poll).time_ns = Some(300.0);
        let times = |estimates: &Estimates| {
            [Way::Hybrid, Way::Sqpoll].map(|way| estimates.get(kind, band, way).time_ns)
        };
        estimates.shift_time(kind, band, Way::Poll, [100.0, 300.0]);
        assert_eq!(times(&estimates), [Some(100.0), Some(300.0)]);
        estimates.get_mut(kind, band, Way::Poll).measured_ns = Some(2);
        estimates.shift_time(kind, band, Way::Poll, [100.0, 300.0]);
        assert_eq!(times(&estimates), [Some(300.0), Some(900.0)], "it is another load");
    }

    #[test]
    fn the_first_figure_is_taken_and_the_next_ones_move_it() {
        let mut believed = None;
        move_towards(&mut believed, 8.0, 0.25);
        move_towards(&mut believed, 4.0, 0.25);
        assert_eq!(believed, Some(7.0));
        let estimate = Estimate { p99_ns: Some(10.0), ..Estimate::default() };
        assert_eq!([None, Some(10), Some(9)].map(|bound| estimate.is_within(bound)), [true, true, false]);
        assert!(Estimate::default().is_within(Some(1)));
    }
}
