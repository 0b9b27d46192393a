//! When another way is taken: for what it saves, or because the bound is broken.

use super::Chooser;
use crate::key::Kind;
use crate::log::Why;
use crate::way::Way;

/// Another way is taken once what it would have saved in epochs running adds up to so many margins, of which
/// each epoch adds one at most.
const MARGINS: f64 = 2.0;
/// What an epoch adds counts only above this part of the margin: the rest is noise.
const NOISE: f64 = 0.25;
/// Epochs in which a way that was taken shows whether it is what bursts had shown.
const HOPES_FOR: u64 = 8;

impl Chooser {
    /// Takes another way if what it would have saved in epochs running adds up to enough.
    pub(super) fn consider_rival(&mut self, kind: Kind, now_ns: u64) {
        let aim = self.choice.policy.aim;
        let current = self.route(kind);
        let rival = self.cheapest(kind).unwrap_or(current);
        let cost = |way| self.cost(kind, way);
        let Some(to) = cost(rival) else { return };
        let from = cost(current);
        let margin = self.choice.policy.hysteresis.max(f64::EPSILON);
        let saves = from.map_or(1.0, |from| ((1.0 - to / from) / margin).min(1.0));
        if rival == current || saves <= NOISE {
            self.rivals[kind.index()] = None;
            return;
        }
        let before =
            self.rivals[kind.index()].filter(|(way, _)| *way == rival).map_or(0.0, |(_, saved)| saved);
        let saved = before + saves;
        self.rivals[kind.index()] = Some((rival, saved));
        if saved >= MARGINS {
            self.judge_hope(kind, current);
            self.hopes[kind.index()] = Some((rival, self.epochs));
            self.take(kind, rival, Why::Better { aim, from, to }, now_ns);
        }
    }

    /// The way that is left for a better one was perhaps taken a short time ago, because bursts had shown it
    /// to be better. On two processors, say, a poller of submissions serves the 256 I/Os of a burst before
    /// the scheduler makes it take turns with the thread.
    fn judge_hope(&mut self, kind: Kind, left: Way) {
        let hope = self.hopes[kind.index()].filter(|(way, _)| *way == left);
        let apart = f64::from(self.choice.epochs.burst_ios) / self.choice.policy.exploration;
        for kind in self.together_with(kind) {
            let estimate = self.estimates.get_mut(kind, self.bands[kind.index()], left);
            match hope {
                Some((_, at)) if self.epochs - at <= HOPES_FOR => estimate.let_down(self.ios, apart),
                _ => estimate.let_downs = 0,
            }
        }
    }

    /// The way that is most likely to keep the bound, which the current one breaks: the fastest by what is
    /// believed of those that were not seen to break it, for a policy's word is put to the test; of which
    /// nothing is believed come last. If all were, the fastest of all.
    pub(super) fn within_reach(&self, kind: Kind) -> Way {
        let (bound, bounded) = (self.bound_ns(), self.together_with(kind));
        let is_broken = |way: &Way| bounded.iter().any(|kind| self.estimate(*kind, *way).is_broken(bound));
        let latency = |way: &Way| {
            let believed = |kind: &Kind| {
                let estimate = self.estimate(*kind, *way);
                estimate.p99_ns.or(estimate.mean_ns)
            };
            bounded.iter().filter_map(believed).reduce(f64::max).unwrap_or(f64::INFINITY)
        };
        let by = |of: &dyn Fn(&Way) -> f64, ways: Vec<Way>| {
            ways.into_iter().min_by(|one, other| of(one).total_cmp(&of(other)))
        };
        if let Some(way) = by(&latency, self.takable(kind).filter(|way| !is_broken(way)).collect()) {
            return way;
        }
        by(&latency, self.takable(kind).collect()).unwrap_or(self.route(kind))
    }
}
