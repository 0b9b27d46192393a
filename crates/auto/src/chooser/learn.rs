//! What an epoch teaches: latencies, CPU time, load, and whether threads wait for processors.

use super::Chooser;
use crate::estimate::move_towards;
use crate::key::{Band, Kind};
use crate::seen::Seen;
use crate::way::Way;

/// How much an epoch counts in what is believed.
const WEIGHT: f64 = 0.25;
/// How much a burst counts: there are few, and what was believed before is old.
const BURST_WEIGHT: f64 = 0.75;
/// Readings running before processors count as crowded, or not any more.
const READINGS: u32 = 2;

impl Chooser {
    pub(super) fn note_crowding(&mut self, seen: &Seen<'_>) {
        let Some(crowding) = seen.crowding else { return };
        let is_crowded = crowding.is_crowded();
        self.crowded_for = if is_crowded { self.crowded_for + 1 } else { 0 };
        self.roomy_for = if is_crowded { 0 } else { self.roomy_for + 1 };
        if self.crowded_for.max(self.roomy_for) >= READINGS {
            self.is_crowded = is_crowded;
        }
    }

    /// Moves what is believed towards what an epoch showed.
    pub(super) fn learn(&mut self, seen: &Seen<'_>) {
        if self.burst.is_some() {
            self.explored_ns += seen.elapsed_ns;
        }
        for (kind, ios) in seen.kinds() {
            self.learn_latency(kind, seen);
            self.learn_load(kind, ios, seen);
        }
        self.learn_cpu(seen);
    }

    fn weight(&self, kind: Kind) -> f64 {
        if self.burst.is_some_and(|burst| burst.kind == kind) { BURST_WEIGHT } else { WEIGHT }
    }

    fn learn_latency(&mut self, kind: Kind, seen: &Seen<'_>) {
        let (way, weight) = (self.route(kind), self.weight(kind));
        let band = self.band_of(kind, seen);
        let mut latencies = seen.latencies(kind, way);
        let estimate = self.estimates.get_mut(kind, band, way);
        if let Some(mean_ns) = latencies.mean_ns() {
            move_towards(&mut estimate.mean_ns, mean_ns, weight);
            estimate.measured_ns = Some(seen.now_ns);
        }
        if let Some(p99_ns) = latencies.p99_ns() {
            move_towards(&mut estimate.p99_ns, p99_ns as f64, weight);
        }
        let is_burst = self.burst.is_some_and(|burst| burst.kind == kind);
        if is_burst && self.choice.policy.bound_p99_ns.is_some_and(|bound| latencies.are_within(bound)) {
            self.forgive(kind, band, way);
        }
        if let Some(p99_ns) = self.choice.policy.bound_p99_ns.and_then(|bound| latencies.over(bound)) {
            // Averaged, it might be within the bound, and the way be taken again at once.
            self.estimates.get_mut(kind, band, way).p99_ns = Some(p99_ns as f64);
        }
    }

    /// A burst has too few I/Os for a percentile where many are in flight. If none of them was over the
    /// bound, a way that broke it once may be taken again; if it breaks it again, it is left at once.
    fn forgive(&mut self, kind: Kind, band: Band, way: Way) {
        let bound = self.choice.policy.bound_p99_ns;
        let estimate = self.estimates.get_mut(kind, band, way);
        if !estimate.is_within(bound) {
            estimate.p99_ns = None;
        }
    }

    /// A load that is some four times another one, or a fourth, is another load: what is known of the ways
    /// that are not taken is old.
    fn learn_load(&mut self, kind: Kind, ios: u32, seen: &Seen<'_>) {
        if self.burst.is_some() {
            return;
        }
        let rate = u64::from(ios) * 1_000_000_000 / seen.elapsed_ns.max(1);
        let load = rate.max(1).ilog2();
        let before = self.loads[kind.index()].get_or_insert(load);
        if before.abs_diff(load) >= 2 {
            *before = load;
            self.estimates.forget_when(kind, self.routes[kind.index()]);
        }
    }

    /// Divides the CPU time among the I/Os. With several kinds at once what is believed of each moves by the
    /// same factor, and kinds of which nothing is believed share the rest. A way with a poller bears the
    /// poller's time as well: at most the whole of the epoch.
    fn learn_cpu(&mut self, seen: &Seen<'_>) {
        let polled: u64 = seen
            .kinds()
            .filter(|(kind, _)| self.route(*kind).has_poller())
            .map(|(_, ios)| u64::from(ios))
            .sum();
        let poller_ns = if polled > 0 { seen.elapsed_ns as f64 / polled as f64 } else { 0.0 };
        let total_ns = seen.cpu_ns as f64 + poller_ns * polled as f64;
        let (mut believed_ns, mut unknown) = (0.0, 0u64);
        for (kind, ios) in seen.kinds() {
            match self.estimates.get(kind, self.band_of(kind, seen), self.route(kind)).cpu_ns {
                Some(cpu_ns) if cpu_ns > 0.0 => believed_ns += cpu_ns * f64::from(ios),
                _ => unknown += u64::from(ios),
            }
        }
        let factor = if unknown == 0 && believed_ns > 0.0 { total_ns / believed_ns } else { 1.0 };
        let rest_ns = (total_ns - believed_ns).max(0.0) / unknown.max(1) as f64;
        for (kind, _) in seen.kinds() {
            let (band, weight) = (self.band_of(kind, seen), self.weight(kind));
            let cpu_ns = &mut self.estimates.get_mut(kind, band, self.routes[kind.index()]).cpu_ns;
            match *cpu_ns {
                Some(believed) if believed > 0.0 => move_towards(cpu_ns, believed * factor, weight),
                _ => *cpu_ns = Some(rest_ns),
            }
        }
    }

    /// The band that a kind was in.
    fn band_of(&self, kind: Kind, seen: &Seen<'_>) -> Band {
        seen.in_flight(kind).map_or(self.bands[kind.index()], Band::of)
    }
}
