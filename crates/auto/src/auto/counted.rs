//! What was counted by way, up to the latest request.

use super::Auto;
use crate::clock::Clock;
use crate::key::Kind;
use crate::way::Way;
use iopj_engine::RouteCounts;

impl<C: Clock> Auto<C> {
    /// The counts so far, with those of the epoch that runs.
    pub(super) fn route_counts(&self) -> RouteCounts {
        let counts = self.chooser.counts();
        let mut by_way = counts.by_way;
        for kind in Kind::all() {
            let unsettled = if kind == self.memo.kind { self.epoch.unsettled() } else { 0 };
            let pushed = self.epoch.pushed_by(|other| other == kind) + unsettled;
            by_way[self.chooser.route(kind).index()] += u64::from(pushed);
        }
        let diverted = self.diverted.min(by_way[Way::Sio.index()]);
        by_way[Way::Sio.index()] -= diverted;
        by_way[self.fallback.index()] += diverted;
        RouteCounts {
            by_way,
            switches: counts.switches,
            explored: counts.explored,
            failures: counts.failures,
            redone: counts.redone,
        }
    }
}
