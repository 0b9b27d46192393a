//! What an I/O is believed to take and to cost on each way: a policy's figures, re-anchored by what is seen.

use crate::key::{Band, Kind};
use crate::policy::{Aim, Cell, Policy};
use crate::way::Way;
use std::collections::BTreeMap;

/// What is believed of one way. What is not known is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) mean_ns: Option<f64>,
    pub(crate) p99_ns: Option<f64>,
    pub(crate) cpu_ns: Option<f64>,
    pub(crate) joules: Option<f64>,
    /// When it was measured last at the load that there is; absent for a policy's figures.
    pub(crate) measured_ns: Option<u64>,
}

impl Estimate {
    /// What an I/O costs by the aim, if that is known.
    pub(crate) fn cost(&self, aim: Aim) -> Option<f64> {
        match aim {
            Aim::Latency => self.mean_ns,
            Aim::Cpu => self.cpu_ns,
            Aim::IosPerJoule => self.joules,
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
pub(crate) struct Estimates(BTreeMap<(Kind, Band), Beliefs>);

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
                    measured_ns: None,
                };
            }
            ((cell.kind(), Band::of(cell.in_flight)), beliefs)
        };
        Estimates(policy.cells.iter().map(beliefs).collect())
    }

    pub(crate) fn get(&self, kind: Kind, band: Band, way: Way) -> Estimate {
        self.0.get(&(kind, band)).map_or(Estimate::default(), |beliefs| beliefs.ways[way.index()])
    }

    pub(crate) fn get_mut(&mut self, kind: Kind, band: Band, way: Way) -> &mut Estimate {
        &mut self.0.entry((kind, band)).or_default().ways[way.index()]
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
        let nearest = self.0.iter().filter(is_near).min_by_key(|(key, _)| distance(key));
        nearest.map_or(&[], |(_, beliefs)| &beliefs.order)
    }

    /// The load is another one: what was measured of the other ways must be measured again.
    pub(crate) fn forget_when(&mut self, kind: Kind, current: Way) {
        for ((other, _), beliefs) in &mut self.0 {
            if *other == kind {
                for way in Way::ALL.into_iter().filter(|way| *way != current) {
                    beliefs.ways[way.index()].measured_ns = None;
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
        assert_eq!(estimates.get(kind, Band::ONE, Way::Poll).cost(Aim::Latency), Some(4096.0));
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
