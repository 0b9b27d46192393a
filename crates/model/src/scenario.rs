//! A model's parameters as a scenario of the simulation: for open loads, and for threads that spin on too few
//! cores, of which no closed formula speaks.

use crate::case::Case;
use crate::formula::{Values, Waiting, service_ns, software_ns};
use crate::parameter::{Front, Kind, Parameter, Quantile};
use crate::simulate::{
    Arrivals, Class, HybridSleep, KernelPoller, Scenario, Service, SimDrive, SimPath, SimPower,
    Waiting as SimWaiting,
};
use iopj_core::CompletionMode;
use iopj_core::path::Submission;
use std::collections::BTreeMap;

/// One turn of a loop that polls, in ns. It is far below what a model knows of a drive's time.
const SPIN_NS: f64 = 50.0;
/// Equally likely times of a drive: enough for a p99.9.
const TIMES: u32 = 2000;

/// What arrives: kinds of I/O, and how.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) arrivals: Arrivals,
    pub(crate) parts: Vec<Part>,
    /// I/Os that are measured, and before them.
    pub(crate) ios: u64,
    pub(crate) warm_up_ios: u64,
}

/// I/Os of one kind and size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) kind: Kind,
    pub(crate) bytes: f64,
    pub(crate) share: f64,
}

impl Flow {
    /// So many I/Os of a case, and a tenth as many before them.
    pub(crate) fn of(case: &Case, arrivals: Arrivals, ios: u64) -> Flow {
        let part = |(kind, share)| Part { kind, bytes: f64::from(case.bs), share };
        let parts = Kind::shares(case.rw, case.rwmixread).into_iter().map(part).collect();
        Flow { arrivals, parts, ios, warm_up_ios: ios / 10 }
    }
}

/// The scenario of a case whose I/Os arrive so.
///
/// # Errors
/// A parameter that the model lacks.
pub(crate) fn scenario(
    values: &impl Values,
    case: &Case,
    flow: &Flow,
    seed: u64,
) -> Result<Scenario, Parameter> {
    let parallelism = values.get(Parameter::Parallelism).unwrap_or(f64::from(u32::MAX)).max(1.0);
    let costs = Costs::of(values, case)?;
    let (mut mix, mut service, mut mean_ns) = (Vec::new(), Vec::new(), [0.0; 2]);
    let mut known: BTreeMap<Kind, Vec<f64>> = BTreeMap::new();
    for part in &flow.parts {
        let ratios = known.entry(part.kind).or_insert_with(|| ratios(values, part.kind));
        let whole_ns = service_ns(values, part.kind, part.bytes)?;
        let submit_ns = (costs.left_ns + costs.per_kib_ns * part.bytes / 1024.0).min(whole_ns);
        mix.push(Class { share: part.share, service: service.len() as u32, submit_ns });
        // The servers are whole, and the rate that a broken number of them gives is a limit of its own.
        service.push(times(ratios, whole_ns, submit_ns).with_least_gap(whole_ns / parallelism));
        mean_ns[0] += part.share * whole_ns;
        mean_ns[1] += part.share * (whole_ns - submit_ns);
    }
    Ok(Scenario {
        jobs: case.numjobs,
        iodepth: case.depth(),
        batch_submit: case.batch.clamp(1, case.depth()),
        arrivals: flow.arrivals.clone(),
        mix,
        cores: case.cores,
        drive: SimDrive { parallelism: parallelism.ceil().min(65_536.0) as u32, service },
        path: costs.path(case, mean_ns),
        power: power(values, case.cores),
        ios: flow.ios,
        warm_up_ios: flow.warm_up_ios,
        seed,
    })
}

/// The drive's times for I/Os of one kind and size: the model's, of which the CPU has so much.
fn times(ratios: &[f64], whole_ns: f64, cpu_ns: f64) -> Service {
    let scale = whole_ns / mean_of(ratios);
    let mut all: Vec<f64> = ratios.iter().map(|ratio| (ratio * scale - cpu_ns).max(0.0)).collect();
    // What cannot be taken off short times is taken off the others.
    let over = (whole_ns - cpu_ns) / mean_of(&all).max(f64::MIN_POSITIVE);
    all.iter_mut().for_each(|ns| *ns *= over);
    Service::equally_likely(all)
}

/// The drive's times for a kind of I/O over their mean: the model's quantiles, joined by straight lines over
/// the logarithm, and a least one such that their mean is next to 1.
fn ratios(values: &impl Values, kind: Kind) -> Vec<f64> {
    let ratio = |quantile| values.get(Parameter::Tail(quantile, kind));
    let median = ratio(Quantile::P50).unwrap_or(1.0);
    let p99 = ratio(Quantile::P99).unwrap_or(median).max(median);
    let p99_9 = ratio(Quantile::P99_9).unwrap_or(p99).max(p99);
    let ratios = |least: f64| -> Vec<f64> {
        let points = [(0.0, least), (0.5, median), (0.99, p99), (0.999, p99_9), (1.0, p99_9)];
        let at = |place: u32| {
            let share = (f64::from(place) + 0.5) / f64::from(TIMES);
            let upper = points.iter().position(|(point, _)| *point >= share).unwrap_or(4).max(1);
            let ((from, low), (to, high)) = (points[upper - 1], points[upper]);
            low * (high / low).powf((share - from) / (to - from))
        };
        (0..TIMES).map(at).collect()
    };
    let (mut low, mut high) = (median / 100.0, median);
    for _ in 0..30 {
        let middle = (low * high).sqrt();
        if mean_of(&ratios(middle)) < 1.0 { low = middle } else { high = middle }
    }
    ratios(low)
}

fn mean_of(ratios: &[f64]) -> f64 {
    ratios.iter().sum::<f64>() / ratios.len() as f64
}

/// What an I/O takes of a job on a path, in ns. Where nothing waits, all but `gap_ns` and `left_ns` add up to
/// the path's time in software.
struct Costs {
    waiting: Waiting,
    interrupt_ns: f64,
    wake_ns: f64,
    call_ns: f64,
    own_ns: f64,
    /// Time in software that is no CPU time.
    rest_ns: f64,
    gap_ns: f64,
    /// CPU time for which the time in software has no room. The drive's time has it: a job goes to sleep, for
    /// example, while the drive works.
    left_ns: f64,
    /// CPU time for each KiB. It is in the drive's time of a KiB, for the model has no other by size.
    per_kib_ns: f64,
    /// The share of the drive's time that hybrid completion spins.
    spin_share: f64,
}

impl Costs {
    fn of(values: &impl Values, case: &Case) -> Result<Costs, Parameter> {
        let front = Front::of(case.path).ok_or(Parameter::Deviation(case.path))?;
        let get = |parameter| values.get(parameter).unwrap_or(0.0);
        let time = values.get(Parameter::Time(front)).ok_or(Parameter::Time(front))?;
        let waiting = Waiting::of(case.path);
        let software_ns = software_ns(values, case)?;
        let interrupt_ns = match case.path.completion() {
            CompletionMode::Interrupt => get(Parameter::Interrupt).min(software_ns / 2.0),
            _ => 0.0,
        };
        let known = values.get(Parameter::Cpu(front));
        let deviation = values.get(Parameter::CpuDeviation(case.path)).unwrap_or(1.0);
        let gap_ns = get(Parameter::Gap);
        let wake = if waiting == Waiting::Spins { 0.0 } else { get(Parameter::CpuPerWake) };
        // A job that polls for what the kernel's thread posts makes no call.
        let calls = case.path.submission() != Submission::Sqpoll || waiting != Waiting::Spins;
        let call = if calls { get(Parameter::CpuPerCall) * deviation } else { 0.0 };
        let own = (known.map_or(time, |cpu| cpu * deviation) - gap_ns).max(0.0);
        let mut rest_ns = software_ns - interrupt_ns;
        let mut fit = |ns: f64| {
            let fits = ns.min(rest_ns);
            rest_ns -= fits;
            fits
        };
        // A hybrid wake-up is over before the drive is done.
        let wake_ns = if waiting == Waiting::Both { wake } else { fit(wake) };
        let [call_ns, own_ns] = [call, own].map(&mut fit);
        Ok(Costs {
            waiting,
            interrupt_ns,
            wake_ns,
            call_ns,
            own_ns,
            rest_ns,
            gap_ns,
            left_ns: wake - wake_ns + call - call_ns + own - own_ns,
            per_kib_ns: known.map_or(0.0, |_| get(Parameter::CpuPerKib) * deviation),
            spin_share: values.get(Parameter::SpinShare).unwrap_or(0.5).min(1.0),
        })
    }

    /// The path, on a drive that takes so long on average, with and without the CPU's part.
    fn path(&self, case: &Case, mean_ns: [f64; 2]) -> SimPath {
        let sleeps = self.waiting == Waiting::Sleeps;
        let is_polled = case.path.submission() == Submission::Sqpoll;
        // What a job that spins takes in software is work, for it never sleeps.
        let (mut work, mut delay) =
            if sleeps { (self.own_ns, self.rest_ns) } else { (self.own_ns + self.rest_ns, 0.0) };
        let part = work / 4.0;
        let take_ns = match (is_polled, sleeps) {
            (false, _) => 0.0,
            (true, true) => part.min(delay),
            (true, false) => part,
        };
        *(if sleeps { &mut delay } else { &mut work }) -= take_ns;
        let kind = match self.waiting {
            _ if is_polled => SimWaiting::KernelPoller(KernelPoller {
                take_ns,
                post_ns: 0.0,
                polls_drive: case.path.completion() != CompletionMode::Interrupt,
                job_polls: !sleeps,
            }),
            Waiting::Sleeps => SimWaiting::Interrupt,
            Waiting::Spins => SimWaiting::Poll,
            Waiting::Both => SimWaiting::Hybrid(HybridSleep::Share(self.sleep_share(mean_ns))),
        };
        SimPath {
            kind,
            submit_ns: work / 2.0,
            complete_ns: work / 2.0,
            gap_ns: self.gap_ns,
            call_ns: self.call_ns,
            interrupt_ns: self.interrupt_ns,
            wake_ns: self.wake_ns,
            wake_delay_ns: delay,
            spin_ns: SPIN_NS,
            instructions: None,
        }
    }

    /// The share of the drive's time that hybrid completion sleeps, so that all that it takes is CPU time as
    /// the formula has it.
    fn sleep_share(&self, [whole_ns, drive_ns]: [f64; 2]) -> f64 {
        let spins = (self.spin_share * whole_ns - self.rest_ns).max(0.0);
        ((drive_ns - self.wake_ns - spins) / drive_ns.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
    }
}

fn power(values: &impl Values, cores: u32) -> Option<SimPower> {
    let (idle, active_core_w) = (values.get(Parameter::IdlePower)?, values.get(Parameter::CorePower)?);
    let get = |parameter| values.get(parameter).unwrap_or(0.0);
    let saving = get(Parameter::DeepIdleSaving);
    Some(SimPower {
        idle_w: idle + saving * f64::from(cores),
        active_core_w,
        deep_idle_w: saving * get(Parameter::DeepIdleShare).min(1.0),
        deep_after_ns: get(Parameter::DeepIdleAfter),
        wake_joules: get(Parameter::WakeEnergy) * 1e-6,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Quantity;
    use crate::formula::value;
    use crate::simulate::{Simulated, simulate};
    use iopj_core::workload::Rw;
    use proptest::prelude::*;

    /// More CPU time than the software's time has room for, and 6.4 us of it for 64 KiB.
    fn values(parameter: Parameter) -> Option<f64> {
        Some(match parameter {
            Parameter::Service(_) => 10_000.0,
            Parameter::PerKib(_) => 250.0,
            Parameter::Gap => 500.0,
            Parameter::Time(_) | Parameter::Cpu(_) => 2_000.0,
            Parameter::Interrupt => 1_000.0,
            Parameter::Wake => 1_500.0,
            Parameter::CpuPerWake => 3_000.0,
            Parameter::CpuPerKib => 100.0,
            Parameter::Timer => 400.0,
            Parameter::SpinShare => 0.4,
            Parameter::CpuDeviation(_) => 1.1,
            _ => return None,
        })
    }

    fn case(path: &str, bs: u32) -> Case {
        let path = path.parse().unwrap();
        Case { path, rw: Rw::Randread, rwmixread: 50, bs, iodepth: 1, numjobs: 1, batch: 1, cores: 4 }
    }

    fn closed(values: &impl Values, case: &Case, ios: u64) -> Simulated {
        simulate(&scenario(values, case, &Flow::of(case, Arrivals::Closed, ios), 1).unwrap()).unwrap()
    }

    fn both(values: &impl Values, case: &Case, ios: u64) -> [(Quantity, f64, f64); 3] {
        let one = closed(values, case, ios);
        let cpu = one.cpu_ns_per_io.job_ns + one.cpu_ns_per_io.poller_ns;
        let of = |quantity, simulated| (quantity, simulated, value(values, case, quantity).unwrap());
        [of(Quantity::Iops, one.iops), of(Quantity::LatencyMean, one.mean_ns), of(Quantity::CpuPerIo, cpu)]
    }

    #[test]
    fn simulation_and_formula_agree_of_one_small_or_large_io_at_a_time() {
        for path in [
            "posix-sio/syscall/interrupt",
            "posix-sio/syscall/poll",
            "posix-sio/syscall/hybrid",
            "libaio/syscall/interrupt",
            "io_uring/syscall/interrupt",
            "io_uring/syscall/hybrid",
            "io_uring/sqpoll/interrupt",
            "io_uring/sqpoll/poll",
            "io_uring/sqpoll/interrupt+kernel-wait",
            "nvme-user/doorbell/poll",
        ] {
            for bs in [4096, 65_536] {
                for (quantity, simulated, exact) in both(&values, &case(path, bs), 500) {
                    // The handler's time is none of the kernel's thread, on whose core it runs.
                    let is_held_up =
                        quantity == Quantity::CpuPerIo && path.starts_with("io_uring/sqpoll/interrupt");
                    let exact = if is_held_up { exact - 1_000.0 } else { exact };
                    // A completion is seen at the end of a turn of 50 ns, on some paths of three.
                    let off = (simulated / exact - 1.0).abs();
                    assert!(off < 0.015, "{path} bs {bs} {quantity}: {simulated}, by the formula {exact}");
                }
            }
        }
    }

    #[test]
    fn each_io_takes_the_cpu_time_of_its_own_size() {
        let case = case("io_uring/syscall/interrupt", 4096);
        let of = |bytes, share| Part { kind: Kind::RandomRead, bytes, share };
        let parts = vec![of(512.0, 0.5), of(65_536.0, 0.5)];
        let flow = Flow { parts, ..Flow::of(&case, Arrivals::Closed, 4_000) };
        let scenario = scenario(&values, &case, &flow, 1).unwrap();
        let apart = scenario.mix[1].submit_ns - scenario.mix[0].submit_ns;
        assert!((apart - 110.0 * 63.5).abs() < 1e-6, "{apart}");
        // Their sum is the drive's time of that kind and size.
        for (class, bytes) in scenario.mix.iter().zip([512.0, 65_536.0]) {
            let drive = scenario.drive.service[class.service as usize].mean_ns();
            let whole = 10_000.0 + 250.0 * bytes / 1024.0;
            assert!((class.submit_ns + drive - whole).abs() < 1e-6, "{class:?} {drive}");
        }
    }

    #[test]
    fn short_times_of_a_drive_are_not_below_nothing() {
        let service = times(&[0.2, 0.6, 1.0, 2.2], 10_000.0, 4_000.0);
        assert!((service.mean_ns() - 6_000.0).abs() < 1e-9, "{service:?}");
        assert_eq!(service.equally_likely_ns[0], 0.0);
        assert_eq!(times(&[1.0], 10_000.0, 10_000.0).equally_likely_ns, [0.0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        /// Whatever a model says, both take as long, and as much CPU time up to the interrupt handler's.
        #[test]
        fn simulation_and_formula_agree_of_any_model(
            path in prop::sample::select(vec![
                "posix-sio/syscall/interrupt", "posix-sio/syscall/poll", "io_uring/syscall/interrupt",
                "io_uring/sqpoll/interrupt", "libaio/syscall/interrupt",
            ]),
            [service, time, cpu, interrupt, wake] in prop::array::uniform5(500.0f64..20_000.0),
            [per_wake, gap, call, per_kib, of_cpu] in prop::array::uniform5(0.0f64..800.0),
            bs in prop::sample::select(vec![512, 4096, 65_536, 1 << 20]),
        ) {
            let values = |parameter| Some(match parameter {
                Parameter::Service(_) => service,
                Parameter::PerKib(_) => per_kib,
                Parameter::Gap => gap,
                Parameter::Time(_) => time,
                Parameter::Cpu(_) => cpu,
                Parameter::Interrupt => interrupt,
                Parameter::Wake => wake,
                Parameter::CpuPerWake => 10.0 * per_wake,
                Parameter::CpuPerCall => call,
                // What the CPU takes for a KiB is in the drive's time of it.
                Parameter::CpuPerKib => per_kib * of_cpu / 800.0,
                _ => return None,
            });
            let [iops, latency, used] = both(&values, &case(path, bs), 50);
            let turns = 3.0 * SPIN_NS;
            prop_assert!((latency.1 - latency.2).abs() < turns + 1e-6 * latency.2, "{latency:?}");
            let cycles = [1e9 / iops.1, 1e9 / iops.2];
            prop_assert!((cycles[0] - cycles[1]).abs() < turns + 1e-6 * cycles[1], "{iops:?}");
            let of_handler = if path.ends_with("interrupt") { interrupt + gap } else { gap };
            prop_assert!((used.1 - used.2).abs() < of_handler + 2.0 * turns + 1e-6 * used.2, "{used:?}");
        }
    }
}
