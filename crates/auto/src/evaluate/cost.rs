//! What an I/O takes and costs, by what is true.
//!
//! A path takes the sum of its parts with one I/O in flight. With more, nothing gives more than it has: the
//! drive serves so many at once, and a thread does one thing at a time (Denning and Buzen, ACM Computing
//! Surveys 10:3, 1978). Between those bounds time is their power mean. Under an open load, I/Os queue for
//! the drive as in M/M/c (Sakasegawa 1977).

use super::truth::Truth;
use super::workload::{DEEPEST, Load, Phase};
use crate::engines::slot_of;
use crate::key::Kind;
use crate::policy::Aim;
use crate::timing::POLLER_IDLE_MS;
use crate::way::Way;

/// A drive or a thread that is busier than this cannot do more.
const FULL: f64 = 0.98;
/// In an open load, below so many in flight the synchronous way is taken, by the chooser's rounding.
const ALONE: f64 = 0.5;

/// What an I/O of a kind takes: `fixed_ns`, and the drive's time or what was slept, whichever is longer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Latency {
    pub(super) mean_ns: f64,
    pub(super) fixed_ns: f64,
    pub(super) drive_ns: f64,
    /// As a share of the drive's time.
    pub(super) slept: f64,
}

/// What an I/O costs in a phase.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cost {
    /// By kind, in the order of the phase.
    pub(super) latencies: Vec<Latency>,
    /// Mean of all kinds.
    pub(super) latency_ns: f64,
    /// From one I/O to the next.
    pub(super) time_ns: f64,
    /// With that of the kernel's poller.
    pub(super) cpu_ns: f64,
    pub(super) poller_ns: f64,
    pub(super) joules: f64,
    /// What a request finds in flight, with itself.
    pub(super) in_flight: f64,
    /// The thread is busy all the time.
    pub(super) spins: bool,
}

impl Cost {
    pub(super) fn of(&self, aim: Aim) -> f64 {
        match aim {
            Aim::Latency => self.latency_ns,
            Aim::Cpu => self.cpu_ns,
            Aim::IosPerJoule => self.joules,
        }
    }
}

/// What a kind costs on a way, alone.
struct Part {
    kind: Kind,
    way: Way,
    latency: Latency,
    /// CPU time of the thread, waiting apart.
    thread_ns: f64,
    /// What is served by the drive at once shares this.
    service_ns: f64,
    sleeps: bool,
}

/// What all kinds of a phase have in common.
struct Common {
    time_ns: f64,
    in_flight: f64,
    spins: bool,
    polls_queue: bool,
}

impl Truth {
    /// What I/Os of a phase cost by the routes of its kinds.
    pub(super) fn cost(&self, phase: &Phase, routes: &[Way]) -> Cost {
        let mut parts: Vec<Part> =
            phase.kinds.iter().zip(routes).map(|((kind, _), way)| self.part(phase, *kind, *way)).collect();
        let is_asked = parts.iter().any(|part| part.way.must_be_asked());
        let is_mixed = parts.iter().any(|part| slot_of(part.way) != slot_of(parts[0].way));
        let is_deep = matches!(phase.load, Load::Closed(in_flight) if in_flight > 1);
        let has_poller = parts.iter().any(|part| part.way.has_poller());
        let all_spin = is_deep && is_mixed && is_asked;
        let crowd = self.crowd(phase, has_poller);
        for part in &mut parts {
            if all_spin && part.sleeps {
                part.latency.fixed_ns -= self.software.wake * phase.software;
                part.sleeps = false;
            }
            // One that spins has its share of a core; one that sleeps waits for its turn to work.
            let waits = if part.way.spins() { self.alone_ns(part) } else { part.thread_ns };
            part.latency.fixed_ns += (crowd - 1.0) * waits;
        }
        let mut latencies = self.together(phase, &parts);
        for (latency, (kind, _)) in latencies.iter_mut().zip(&phase.kinds) {
            latency.mean_ns =
                latency.fixed_ns + latency.drive_ns * self.drive.shape(*kind).mean_above(latency.slept);
        }
        let of_kinds = |of: &dyn Fn(usize) -> f64| -> f64 {
            phase.kinds.iter().enumerate().map(|(place, (_, share))| share * of(place)).sum()
        };
        let latency_ns = of_kinds(&|place| latencies[place].mean_ns);
        let thread_ns = of_kinds(&|place| parts[place].thread_ns);
        let (time_ns, in_flight) = match phase.load {
            Load::Closed(in_flight) => (latency_ns / f64::from(in_flight), f64::from(in_flight)),
            Load::Open(rate) => {
                let time_ns = (1e9 / rate).max(latency_ns / f64::from(DEEPEST)).max(thread_ns);
                (time_ns, (1.0 + latency_ns / time_ns).min(f64::from(DEEPEST)))
            }
        };
        let spins = all_spin || parts.iter().all(|part| part.way.spins());
        let common = Common { time_ns, in_flight, spins, polls_queue: has_poller };
        let cpu = |place: usize| self.cpu(phase, &parts[place], &latencies[place], &common);
        // A poller that nobody needs sleeps after a while.
        let idle_ns = 1e6 * f64::from(POLLER_IDLE_MS);
        let poller_ns = if common.polls_queue { time_ns.min(idle_ns) } else { 0.0 };
        let cpu_ns = of_kinds(&|place| cpu(place).0) + poller_ns;
        let wakes = of_kinds(&|place| cpu(place).1);
        let joules = self.power.joules(time_ns, cpu_ns, wakes);
        Cost { latencies, latency_ns, time_ns, cpu_ns, poller_ns, joules, in_flight, spins }
    }

    /// The 99th percentile of a latency of a kind.
    pub(super) fn p99_ns(&self, kind: Kind, latency: &Latency) -> f64 {
        latency.fixed_ns + latency.drive_ns * self.drive.shape(kind).quantile(0.99).max(latency.slept)
    }

    /// How many threads share a core.
    fn crowd(&self, phase: &Phase, has_poller: bool) -> f64 {
        let runnable = phase.others + 1 + u32::from(has_poller);
        (f64::from(runnable) / f64::from(self.cores)).max(1.0)
    }

    fn alone_ns(&self, part: &Part) -> f64 {
        let shape = self.drive.shape(part.kind);
        part.latency.fixed_ns + part.latency.drive_ns * shape.mean_above(part.latency.slept)
    }

    /// The way that is really taken: the synchronous one has nothing else in flight.
    fn really(&self, phase: &Phase, kind: Kind, way: Way) -> Way {
        let is_alone = match phase.load {
            Load::Closed(in_flight) => in_flight == 1,
            Load::Open(rate) => {
                let soft = self.software.call + self.software.interrupt + self.software.wake;
                (self.drive.service_ns(kind) + soft) * rate * 1e-9 < ALONE
            }
        };
        if way == Way::Sio && !is_alone { self.fallback() } else { way }
    }

    fn part(&self, phase: &Phase, kind: Kind, way: Way) -> Part {
        let way = self.really(phase, kind, way);
        let soft = &self.software;
        let service_ns = self.drive.served_ns(kind, phase.closed()) * phase.drive[way.index()];
        let slower = phase.software * soft.deviation[way.index()];
        let work_ns = slower
            * match way {
                Way::Interrupt | Way::Poll | Way::Hybrid | Way::SleepPoll => soft.ring,
                Way::Sqpoll => soft.queue,
                Way::Sio => soft.call,
                Way::UserInterrupt | Way::UserPoll | Way::UserHybrid => soft.doorbell,
            };
        let sleeps = matches!(way, Way::Interrupt | Way::Sio | Way::UserInterrupt);
        let interrupt_ns = if sleeps || way == Way::Sqpoll { slower * soft.interrupt } else { 0.0 };
        let seen_ns = if sleeps { slower * soft.wake } else { soft.turn };
        let latency = Latency {
            mean_ns: 0.0,
            fixed_ns: work_ns + interrupt_ns + seen_ns,
            drive_ns: service_ns,
            slept: self.slept(phase, kind, way, service_ns),
        };
        Part {
            kind,
            way,
            latency,
            thread_ns: work_ns + if sleeps { interrupt_ns } else { 0.0 },
            service_ns,
            sleeps,
        }
    }

    /// When a sleep ends with one request in flight, as a share of the drive's time: the kernel sleeps for
    /// half of the mean; this process's own sleep ends before a tenth of the I/Os do, for a step down is ten
    /// times a step up.
    fn slept(&self, phase: &Phase, kind: Kind, way: Way, service_ns: f64) -> f64 {
        let is_alone = matches!(phase.load, Load::Closed(1) | Load::Open(_));
        let timer = phase.software * self.software.timer / service_ns;
        let soon = self.drive.shape(kind).quantile(0.1);
        match way {
            Way::Hybrid | Way::UserHybrid if is_alone => 0.5 + timer,
            Way::SleepPoll if is_alone && soon > timer => soon,
            _ => 0.0,
        }
    }

    /// What is added where others are in flight.
    fn together(&self, phase: &Phase, parts: &[Part]) -> Vec<Latency> {
        let of_kinds = |of: fn(&Part) -> f64| -> f64 {
            phase.kinds.iter().zip(parts).map(|((_, share), part)| share * of(part)).sum()
        };
        let (service_ns, thread_ns) = (of_kinds(|part| part.service_ns), of_kinds(|part| part.thread_ns));
        let servers = self.drive.parallelism;
        let queued = |part: &Part| match phase.load {
            Load::Closed(in_flight) => {
                let (power, others) = (self.drive.sharpness, f64::from(in_flight - 1));
                let alone_ns = self.alone_ns(part);
                let bounds = [alone_ns, others * service_ns / self.drive.servers(), others * thread_ns];
                let sum: f64 = bounds.iter().map(|bound| (bound / alone_ns).powf(power)).sum();
                alone_ns * (sum.powf(1.0 / power) - 1.0)
            }
            Load::Open(rate) => {
                let busy = |ns: f64| (rate * 1e-9 * ns).min(FULL);
                let (drive, thread) = (busy(service_ns / servers), busy(thread_ns));
                let exponent = (2.0 * (servers + 1.0)).sqrt() - 1.0;
                service_ns * drive.powf(exponent) / (servers * (1.0 - drive))
                    + thread_ns * thread / (2.0 * (1.0 - thread))
            }
        };
        let add = |part: &Part| Latency { fixed_ns: part.latency.fixed_ns + queued(part), ..part.latency };
        parts.iter().map(add).collect()
    }

    /// CPU time of an I/O, that of a poller of submissions apart; and wake-ups.
    fn cpu(&self, phase: &Phase, part: &Part, latency: &Latency, common: &Common) -> (f64, f64) {
        let soft = &self.software;
        let others = (common.in_flight - 1.0).max(0.0);
        let wakes = 1.0 / (1.0 + soft.gathered * others);
        let busy_ns = match phase.load {
            Load::Closed(1) => latency.mean_ns,
            Load::Closed(_) => common.time_ns,
            // The thread polls while anything is in flight.
            Load::Open(_) => common.time_ns * (1.0 - (-latency.mean_ns / common.time_ns).exp()),
        }
        .max(part.thread_ns);
        if common.spins || part.way.spins() {
            return (busy_ns, 0.0);
        }
        if part.sleeps {
            let wake_ns = phase.software * soft.deviation[part.way.index()] * soft.wake_cpu;
            return (part.thread_ns + wakes * wake_ns, wakes);
        }
        let timer_ns = phase.software * soft.timer_cpu;
        let (polled_ns, slept) = match phase.load {
            Load::Closed(1) | Load::Open(_) => {
                let above = self.drive.shape(part.kind).mean_above(latency.slept) - latency.slept;
                (latency.drive_ns * above, latency.slept > 0.0)
            }
            Load::Closed(_) => (0.5 * common.time_ns, 0.5 * common.time_ns > phase.software * soft.timer),
        };
        match slept {
            true => ((part.thread_ns + timer_ns + polled_ns).min(busy_ns.max(timer_ns)), 1.0),
            false => (busy_ns, 0.0),
        }
    }
}
