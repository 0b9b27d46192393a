//! An epoch with a bound of latency, which each timed I/O may end; and how the bound is kept.

use super::{CHOICE_NS, Run};
use crate::chooser::Plan;
use crate::evaluate::cost::Cost;
use crate::flight::Start;
use crate::timing::TIMED_OFTEN_NEAR;

/// The engine's clock when a run begins: no I/O was pushed before 0.
const START_NS: u64 = 1 << 50;

impl Run<'_> {
    /// The engine's clock.
    pub(super) fn clock_ns(&self) -> u64 {
        START_NS + self.now_ns as u64
    }

    /// Passes the I/Os of an epoch, from one that is timed to the next. Returns the thread's CPU time.
    pub(super) fn measured_within(&mut self, plan: &Plan) -> f64 {
        let (began_ns, mut cpu_ns) = (self.now_ns, 0.0);
        let mut wanted = u64::from(plan.ios).max(1);
        let mut until_timed = u64::from(self.every);
        let (mut phase, mut cost) = (self.place.phase, self.cost());
        while self.place.left > 0 {
            // Routes stay as they are within an epoch.
            if phase != self.place.phase {
                (phase, cost) = (self.place.phase, self.cost());
            }
            let ios = wanted.min(until_timed).min(self.place.left);
            cpu_ns += self.flow(ios, &cost);
            (wanted, until_timed) = (wanted - ios, until_timed - ios);
            let ends = until_timed == 0 && self.end_timed(&cost);
            if until_timed == 0 {
                until_timed = self.step(&cost);
            }
            self.count(ios);
            self.lose(CHOICE_NS * ios as f64);
            if wanted == 0 || ends {
                if self.timings.end_epoch(plan, (self.now_ns - began_ns) as u64) {
                    break;
                }
                wanted = if ends { wanted } else { u64::from(plan.ios / 8) }.max(1);
            }
        }
        cpu_ns
    }

    /// A timed I/O completes. True if the epoch should end.
    fn end_timed(&mut self, cost: &Cost) -> bool {
        let timed = self.timed(cost);
        let now_ns = self.clock_ns();
        let begun_ns = now_ns.saturating_sub(timed.latency_ns);
        let (kind, way, in_flight) = (timed.kind, timed.way, timed.in_flight);
        self.timings.start(0, Start { kind, way, in_flight, now_ns: begun_ns });
        let ends = self.timings.end(now_ns);
        if self.timings.is_near() {
            self.every = self.every.min(TIMED_OFTEN_NEAR);
        }
        ends
    }

    /// Notes how I/Os of some routes keep the bound, if there is one: those that settle are of two.
    pub(super) fn note_breach(&mut self, ios: u64, ns: f64, costs: &[Option<&Cost>]) {
        let Some((breach, is_kept)) = &mut self.breach else { return };
        let (truth, phase) = (self.truth, &self.workload.phases[self.place.phase]);
        let p99_ns = costs.iter().flatten().map(|cost| truth.worst_p99_ns(phase, cost)).fold(0.0, f64::max);
        breach.pass(ios, ns, p99_ns / breach.bound_ns as f64, is_kept[self.place.phase]);
    }
}
