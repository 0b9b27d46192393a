//! What an epoch teaches: latencies, CPU time, load, and whether threads wait for processors.

use super::Chooser;
use crate::clock::Crowding;
use crate::estimate::{Estimate, move_towards};
use crate::key::{Band, Kind};
use crate::policy::Aim;
use crate::seen::{Seen, Tail};
use crate::timing::POLLER_IDLE_MS;

/// How much an epoch's CPU time counts in what is believed.
const WEIGHT: f64 = 0.25;
/// Timed I/Os of an epoch that count as much as what is believed, and those of a burst, before which what is
/// believed is old.
const TIMED: f64 = 96.0;
const TIMED_OF_BURST: f64 = 21.0;
/// I/Os of a burst whose CPU time counts as much as what is believed.
const IOS_OF_BURST: f64 = 85.0;
/// I/Os that count as much as a policy's figures.
const AT_FIRST: f64 = 4.0;
/// By what factor the time between I/Os changes if the load does.
const FAR: f64 = 2.0;
/// Readings running before processors count as crowded, or not any more.
const READINGS: u32 = 2;
/// How long a poller of submissions runs that is given nothing.
const POLLER_IDLE_NS: u64 = 1_000_000 * POLLER_IDLE_MS as u64;

/// What is so once some readings running said it, until some say that it is not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Readings {
    is_so: bool,
    /// Readings running that said otherwise.
    against: u32,
}

impl Readings {
    pub(super) fn is_so(self) -> bool {
        self.is_so
    }

    fn note(&mut self, is_so: bool) {
        self.against = if is_so == self.is_so { 0 } else { self.against + 1 };
        if self.against >= READINGS {
            *self = Readings { is_so, against: 0 };
        }
    }
}

impl Chooser {
    /// A poller of submissions is a thread that runs, too: one that is not there yet needs a processor more.
    /// Ours is one of those that run, until it was given nothing for a while.
    pub(super) fn note_crowding(&mut self, seen: &Seen<'_>) {
        if seen.kinds().any(|(kind, _)| self.route(kind).has_poller()) {
            let between_ns = seen.elapsed_ns / seen.total().max(1);
            self.poller_ns = Some(seen.now_ns.saturating_sub(between_ns));
        }
        let Some(Crowding { runnable, processors }) = seen.crowding else { return };
        let runs = self.poller_ns.is_some_and(|at_ns| seen.now_ns.saturating_sub(at_ns) < POLLER_IDLE_NS);
        let others = runnable - u32::from(runs).min(runnable);
        self.crowded.note(others > processors);
        self.full.note(others >= processors);
    }

    /// Moves what is believed towards what an epoch showed, whose bands are noted.
    pub(super) fn learn(&mut self, seen: &Seen<'_>) {
        if self.burst.is_some() {
            self.explored_ns += seen.elapsed_ns;
        }
        self.learn_cpu(seen);
        self.learn_time(seen);
        self.learn_joules(seen);
        for (kind, ios) in seen.kinds() {
            self.learn_latency(kind, seen);
            self.learn_load(kind, ios, seen);
        }
    }

    fn is_tried(&self, kind: Kind) -> bool {
        self.burst.is_some_and(|burst| burst.kinds.has(kind))
    }

    fn is_measured(&self, kind: Kind) -> bool {
        self.estimates.get(kind, self.bands[kind.index()], self.route(kind)).measured_ns.is_some()
    }

    /// How much the latencies of so many I/Os count.
    fn weight_of_timed(&self, kind: Kind, count: usize) -> f64 {
        let against = match (self.is_measured(kind), self.is_tried(kind)) {
            (false, _) => AT_FIRST,
            (true, true) => TIMED_OF_BURST,
            (true, false) => TIMED,
        };
        count as f64 / (count as f64 + against)
    }

    /// How much the CPU time of so many I/Os counts, and their time.
    fn weight_of_all(&self, kind: Kind, ios: u32) -> f64 {
        let ios = f64::from(ios);
        match (self.is_measured(kind), self.is_tried(kind)) {
            (false, _) => ios / (ios + AT_FIRST),
            (true, true) => ios / (ios + IOS_OF_BURST),
            (true, false) => WEIGHT,
        }
    }

    fn learn_latency(&mut self, kind: Kind, seen: &Seen<'_>) {
        let way = self.route(kind);
        let band = self.bands[kind.index()];
        let mut latencies = seen.latencies(kind, way);
        let weight = self.weight_of_timed(kind, latencies.count());
        let is_by_latency = self.choice.policy.aim == Aim::Latency;
        let estimate = self.estimates.get_mut(kind, band, way);
        if let Some(mean_ns) = latencies.mean_ns() {
            move_towards(&mut estimate.mean_ns, mean_ns, weight);
        }
        if latencies.count() > 0 || !is_by_latency {
            estimate.measured_ns = Some(seen.now_ns);
        }
        if let Some(p99_ns) = latencies.p99_ns() {
            move_towards(&mut estimate.p99_ns, p99_ns as f64, weight);
        }
        let is_tried = self.is_tried(kind);
        let Some(bound_ns) = self.choice.policy.bound_p99_ns else { return };
        let is_burst = self.burst.is_some();
        let mut tail = if is_burst { Tail::default() } else { self.tails[kind.index()] };
        tail.add(&mut latencies, bound_ns);
        if !is_burst {
            self.tails[kind.index()] = tail;
        }
        let estimate = self.estimates.get_mut(kind, band, way);
        if let Some(p99_ns) = tail.broken() {
            // Averaged, it might be within the bound, and the way be taken again at once.
            estimate.p99_ns = Some(p99_ns as f64);
            estimate.breaches = estimate.breaches.max(1);
        }
        if is_tried {
            estimate.forgive(bound_ns, latencies.within(bound_ns));
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

    /// A way with a poller bears the poller's time as well: at most the whole of the epoch.
    fn learn_cpu(&mut self, seen: &Seen<'_>) {
        let has_poller = seen.kinds().any(|(kind, _)| self.route(kind).has_poller());
        let poller_ns = if has_poller { seen.elapsed_ns as f64 } else { 0.0 };
        for (kind, band, cpu_ns) in self.divide(seen, seen.cpu_ns as f64 + poller_ns, |one| one.cpu_ns) {
            self.estimates.get_mut(kind, band, self.routes[kind.index()]).cpu_ns = Some(cpu_ns);
        }
    }

    /// How long it is from one I/O to the next. Where that is far from what was believed, the load is another
    /// one, on each way.
    fn learn_time(&mut self, seen: &Seen<'_>) {
        for (kind, band, time_ns) in self.divide(seen, seen.elapsed_ns as f64, |one| one.time_ns) {
            let way = self.route(kind);
            let measured_ns = seen.elapsed_ns as f64 / seen.total() as f64;
            let estimate = self.estimates.get_mut(kind, band, way);
            let before_ns = estimate.time_ns.replace(time_ns).unwrap_or(time_ns);
            let is_far = before_ns > 0.0 && (measured_ns > FAR * before_ns || before_ns > FAR * measured_ns);
            if is_far && self.burst.is_none() {
                estimate.time_ns = Some(measured_ns);
                self.estimates.shift_time(kind, band, way, [before_ns, measured_ns]);
            }
        }
    }

    /// Compares what I/Os are believed to have drawn with the meter, whenever it was read. A policy's own
    /// figure is left out: it does not follow the load, so the difference would only show the load.
    fn learn_joules(&mut self, seen: &Seen<'_>) {
        if !self.asks_meter() {
            return;
        }
        for (kind, ios) in seen.kinds() {
            let (way, band) = (self.route(kind), self.bands[kind.index()]);
            let joules = self.estimates.reckoned_joules(kind, band, way);
            self.estimates.anchors.add(way, joules.map(|joules| joules * f64::from(ios)));
        }
        self.estimates.anchors.end_epoch(seen.elapsed_ns, seen.now_ns, seen.joules);
    }

    /// Divides what all I/Os took among their kinds, and says what is believed of each now. What is believed
    /// of each moves by the same factor, and kinds of which nothing is believed share the rest; but if one
    /// kind tries a way, what changes is due to that.
    fn divide(
        &self,
        seen: &Seen<'_>,
        total: f64,
        of: fn(&Estimate) -> Option<f64>,
    ) -> Vec<(Kind, Band, f64)> {
        let believed = |kind: Kind| {
            let estimate = self.estimates.get(kind, self.bands[kind.index()], self.route(kind));
            of(&estimate).filter(|believed| *believed > 0.0)
        };
        let (mut sum, mut unknown, mut of_others, mut tried) = (0.0, 0u64, 0.0, 0u64);
        for (kind, ios) in seen.kinds() {
            match believed(kind) {
                Some(believed) => sum += believed * f64::from(ios),
                None => unknown += u64::from(ios),
            }
            match self.is_tried(kind) {
                true => tried += u64::from(ios),
                false => of_others += believed(kind).unwrap_or(0.0) * f64::from(ios),
            }
        }
        // If all of them do, it moves all of them.
        let (tried, of_others) = if tried == seen.total() { (0, 0.0) } else { (tried, of_others) };
        let factor = if unknown == 0 && sum > 0.0 { total / sum } else { 1.0 };
        let rest = (total - sum).max(0.0) / unknown.max(1) as f64;
        let of_tried = (total - of_others).max(0.0) / tried.max(1) as f64;
        let learnt = |(kind, ios): (Kind, u32)| {
            let weight = self.weight_of_all(kind, ios);
            let mut value = believed(kind);
            match value {
                _ if tried > 0 && self.is_tried(kind) => move_towards(&mut value, of_tried, weight),
                Some(_) if tried > 0 => {}
                Some(believed) => move_towards(&mut value, believed * factor, weight),
                None => value = Some(rest),
            }
            value.map(|value| (kind, self.bands[kind.index()], value))
        };
        seen.kinds().filter_map(learnt).collect()
    }
}
