//! The closed formula: what a model's parameters say of a case. With everything else as it was, an I/O takes
//! at least the time of an idle drive and its software, and no resource gives more than it has (the bounds of
//! Denning and Buzen, *The Operational Analysis of Queueing Network Models*, ACM Computing Surveys 10:3,
//! 1978). Between those bounds latency is their power mean, whose exponent is a parameter.

use crate::case::{Case, Quantity};
use crate::parameter::{Front, Kind, Parameter, Quantile};
use iopj_core::path::{AioDescriptors, RingSubmission, Submission};
use iopj_core::{CompletionMode, IoPath};

/// What a job does while its I/Os are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It sleeps.
    Sleeps,
    /// It spins.
    Spins,
    /// It sleeps, then spins.
    Both,
}

impl Waiting {
    /// On a path.
    pub fn of(path: IoPath) -> Waiting {
        match (path.completion(), path.ring().map(|ring| ring.submission)) {
            (_, Some(RingSubmission::Sqpoll { kernel_wait: true })) => Waiting::Sleeps,
            (_, Some(RingSubmission::Sqpoll { kernel_wait: false })) => Waiting::Spins,
            (CompletionMode::Interrupt, _) => Waiting::Sleeps,
            (CompletionMode::Poll, _) => Waiting::Spins,
            (CompletionMode::Hybrid, _) => Waiting::Both,
        }
    }
}

/// Threads that spin all the time: jobs, and the kernel's threads that poll for submissions.
pub fn spinners(case: &Case) -> u32 {
    let jobs = if Waiting::of(case.path) == Waiting::Spins { case.numjobs } else { 0 };
    let pollers = if case.path.submission() == Submission::Sqpoll { case.numjobs } else { 0 };
    jobs.saturating_add(pollers)
}

/// The most of glibc's threads that do the I/Os of POSIX AIO (sysdeps/pthread/aio_misc.c).
const HELPERS: u32 = 20;

/// Threads that do a job's I/O: the job and glibc's, of which each serves one descriptor at a time.
fn threads(case: &Case) -> u32 {
    match case.path {
        IoPath::PosixAio(AioDescriptors::PerJob) => 2,
        IoPath::PosixAio(AioDescriptors::PerSlot) => 1 + case.depth().min(HELPERS),
        _ => 1,
    }
}

/// What the formula says of a case; a quantity whose parameters the model lacks is absent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Mean latency in ns.
    pub latency_ns: f64,
    /// Of it, time of the drive when idle, in ns.
    pub service_ns: f64,
    /// Of it, time of the software, in ns.
    pub software_ns: f64,
    /// I/Os per second.
    pub iops: f64,
    /// Sleeps per I/O.
    pub sleeps: f64,
    /// CPU time per I/O in ns.
    pub cpu_ns: Option<f64>,
    /// Of it, time that a job spins, in ns.
    pub spin_ns: f64,
}

/// The value of each parameter of a model; `None` of one that it lacks.
pub trait Values {
    /// The value.
    fn get(&self, parameter: Parameter) -> Option<f64>;
}

impl<F: Fn(Parameter) -> Option<f64>> Values for F {
    fn get(&self, parameter: Parameter) -> Option<f64> {
        self(parameter)
    }
}

/// Time of the idle drive for an I/O of a kind and so many bytes.
pub(crate) fn service_ns(values: &impl Values, kind: Kind, bytes: f64) -> Result<f64, Parameter> {
    let base = need(values, Parameter::Service(kind))?;
    // Without sizes to compare, the time is that of the one size there was.
    Ok(base + values.get(Parameter::PerKib(kind)).unwrap_or(0.0) * bytes / 1024.0)
}

/// The same for an I/O of a case.
fn mean_service_ns(values: &impl Values, case: &Case) -> Result<f64, Parameter> {
    let of = |(kind, share)| service_ns(values, kind, f64::from(case.bs)).map(|ns| share * ns);
    Kind::shares(case.rw, case.rwmixread).into_iter().map(of).sum()
}

fn need(values: &impl Values, parameter: Parameter) -> Result<f64, Parameter> {
    values.get(parameter).ok_or(parameter)
}

/// Time of the software for an I/O of a case.
pub(crate) fn software_ns(values: &impl Values, case: &Case) -> Result<f64, Parameter> {
    let path = case.path;
    let front = Front::of(path).ok_or(Parameter::Deviation(path))?;
    let mut sum = need(values, Parameter::Time(front))?;
    if path.completion() == CompletionMode::Interrupt {
        sum += need(values, Parameter::Interrupt)?;
        if Waiting::of(path) == Waiting::Sleeps {
            sum += need(values, Parameter::Wake)?;
        }
    }
    if Waiting::of(path) == Waiting::Both {
        sum += need(values, Parameter::Timer)?;
    }
    if front.is_asynchronous() {
        sum += writes(case) * values.get(Parameter::AsyncWrite).unwrap_or(0.0);
    }
    Ok(sum * values.get(Parameter::Deviation(path)).unwrap_or(1.0))
}

/// The share of writes.
fn writes(case: &Case) -> f64 {
    let all = Kind::shares(case.rw, case.rwmixread);
    all.iter().filter(|(kind, _)| kind.writes()).map(|(_, share)| share).sum()
}

/// What a model's parameters say of a case.
///
/// # Errors
/// A parameter that it lacks.
pub fn outcome(values: &impl Values, case: &Case) -> Result<Outcome, Parameter> {
    let (service, software) = (mean_service_ns(values, case)?, software_ns(values, case)?);
    let gap = values.get(Parameter::Gap).unwrap_or(0.0);
    let (jobs, depth) = (f64::from(case.numjobs), f64::from(case.depth()));
    let in_flight = jobs * depth;
    let front = Front::of(case.path).ok_or(Parameter::Deviation(case.path))?;
    let own_cpu = cpu_without_waiting(values, case, front);
    // What a job is busy with for each I/O, whether its CPU time was measured or not.
    let busy = own_cpu.unwrap_or(need(values, Parameter::Time(front))?);
    let parallelism = values.get(Parameter::Parallelism).unwrap_or(f64::INFINITY).max(1.0);
    let crowded = if case.numjobs > case.cores { in_flight * busy / f64::from(case.cores) } else { 0.0 };
    // glibc does the I/Os of one descriptor one after the other.
    let serial = matches!(case.path, IoPath::PosixAio(AioDescriptors::PerJob));
    let one = if serial { service + software } else { busy };
    let bounds = [
        service + software + gap,
        (in_flight - 1.0) * service / parallelism,
        (depth - 1.0) * (one + gap),
        crowded,
    ];
    let cycle = power_mean(bounds, values.get(Parameter::Sharpness).unwrap_or(3.0).max(1.0));
    let iops = in_flight / cycle * 1e9;
    let gathered = gathered(values, case);
    let own_sleeps = if Waiting::of(case.path) == Waiting::Spins { 0.0 } else { 1.0 / gathered };
    let sleeps = own_sleeps + handoffs(values, front);
    let whole = cycle / depth;
    let (cpu_ns, spin_ns) = cpu(values, case, own_cpu, sleeps, [whole, service]);
    // Those that complete together wait for each other before the job submits again, which is in no latency.
    let latency_ns = cycle - gap - ((gathered - 1.0) * busy).min(cycle / 2.0);
    Ok(Outcome { latency_ns, service_ns: service, software_ns: software, iops, sleeps, cpu_ns, spin_ns })
}

/// I/Os that a job finds complete when it wakes.
fn gathered(values: &impl Values, case: &Case) -> f64 {
    let others = f64::from(case.depth()) - 1.0;
    match Waiting::of(case.path) {
        Waiting::Spins => 1.0,
        _ => 1.0 + others * values.get(Parameter::Gathered).unwrap_or(0.0).min(1.0),
    }
}

/// Sleeps of others than the job for an I/O.
fn handoffs(values: &impl Values, front: Front) -> f64 {
    if front == Front::PosixAio { values.get(Parameter::Handoffs).unwrap_or(0.0) } else { 0.0 }
}

/// `(a^p + b^p + ...)^(1/p)`, without overflow.
fn power_mean(bounds: [f64; 4], p: f64) -> f64 {
    let greatest = bounds.into_iter().fold(0.0, f64::max);
    greatest * bounds.into_iter().map(|bound| (bound / greatest).powf(p)).sum::<f64>().powf(1.0 / p)
}

fn cpu_without_waiting(values: &impl Values, case: &Case, front: Front) -> Option<f64> {
    let per_call = values.get(Parameter::CpuPerCall).unwrap_or(0.0) / f64::from(case.batch.max(1));
    let of_size = values.get(Parameter::CpuPerKib).unwrap_or(0.0) * f64::from(case.bs) / 1024.0;
    let own = values.get(Parameter::Cpu(front))? + per_call + of_size;
    Some(own * values.get(Parameter::CpuDeviation(case.path)).unwrap_or(1.0))
}

/// CPU time per I/O, and the time of it that the job spins. `whole` is the time between two completions of
/// one job, which a thread that never sleeps spends whole, and beyond which no thread has any.
fn cpu(
    values: &impl Values,
    case: &Case,
    own: Option<f64>,
    sleeps: f64,
    [whole, service]: [f64; 2],
) -> (Option<f64>, f64) {
    let busy = own.unwrap_or(0.0);
    let is_polled =
        matches!(case.path.ring().map(|ring| ring.submission), Some(RingSubmission::Sqpoll { .. }));
    let poller = if is_polled { whole } else { 0.0 };
    let most = whole * f64::from(threads(case)).min(f64::from(case.cores) / f64::from(case.numjobs));
    let of_sleeps = values.get(Parameter::CpuPerWake).map(|wake| wake * sleeps);
    match Waiting::of(case.path) {
        Waiting::Spins => (Some(whole + poller), (whole - busy).max(0.0)),
        Waiting::Sleeps => (own.zip(of_sleeps).map(|(own, wake)| (own + wake).min(most) + poller), 0.0),
        Waiting::Both => {
            let share = values.get(Parameter::SpinShare).unwrap_or(0.5);
            let spin = (share * service * sleeps).min(whole);
            (own.zip(of_sleeps).map(|(own, wake)| (own + wake + spin).min(most)), spin)
        }
    }
}

/// A quantity of a case.
///
/// # Errors
/// A parameter that the model lacks.
pub fn value(values: &impl Values, case: &Case, quantity: Quantity) -> Result<f64, Parameter> {
    let outcome = outcome(values, case)?;
    let front = Front::of(case.path).ok_or(Parameter::Deviation(case.path))?;
    let cpu = || outcome.cpu_ns.ok_or(Parameter::Cpu(front));
    match quantity {
        Quantity::Iops => Ok(outcome.iops),
        Quantity::LatencyMean => Ok(outcome.latency_ns),
        Quantity::CpuPerIo => cpu(),
        // Whoever sleeps once is woken once: one switch. Of a job that spins they are others' doing.
        Quantity::ContextSwitches if outcome.sleeps > 0.0 => Ok(outcome.sleeps),
        Quantity::ContextSwitches => Err(Parameter::Gathered),
        Quantity::Instructions => {
            let fixed = need(values, Parameter::Instructions(front))?;
            let per = |parameter, count: f64| match count > 0.0 {
                true => need(values, parameter).map(|each| each * count),
                false => Ok(0.0),
            };
            let waking = per(Parameter::InstructionsPerWake, outcome.sleeps)?;
            Ok(fixed + waking + per(Parameter::InstructionsPerSpin, outcome.spin_ns / 1e3)?)
        }
        Quantity::Watts => watts(values, case, &outcome, cpu()?),
        Quantity::IosPerJoule => Ok(outcome.iops / watts(values, case, &outcome, cpu()?)?),
        Quantity::AwakeCores => awake_cores(values, case, &outcome, cpu()?),
        Quantity::LatencyP50 | Quantity::LatencyP99 | Quantity::LatencyP99_9 => {
            let ratio = ratio(values, case, front, quantity)?;
            // What is not software queues, and stretches with the drive's own time.
            Ok(outcome.software_ns + (outcome.latency_ns - outcome.software_ns).max(0.0) * ratio)
        }
    }
}

/// A quantile of the time that is not the software's, over its mean. Without a ratio of the median, it is the
/// median that the model has instead of the mean.
fn ratio(values: &impl Values, case: &Case, front: Front, quantity: Quantity) -> Result<f64, Parameter> {
    let Some(quantile) = quantity.quantile() else { return Ok(1.0) };
    let mut above = 0.0;
    for (kind, share) in Kind::shares(case.rw, case.rwmixread) {
        let ratio = match quantile {
            Quantile::P50 => values.get(Parameter::Tail(quantile, kind)).unwrap_or(1.0),
            _ => need(values, Parameter::Tail(quantile, kind))?,
        };
        above += share * (ratio - 1.0);
    }
    let deviation = values.get(Parameter::TailDeviation(quantile, front)).unwrap_or(1.0);
    Ok((1.0 + above * deviation).max(0.01))
}

fn watts(values: &impl Values, case: &Case, outcome: &Outcome, cpu_ns: f64) -> Result<f64, Parameter> {
    let busy = (outcome.iops * cpu_ns / 1e9).min(f64::from(case.cores));
    let wakes = outcome.iops * outcome.sleeps;
    let wake = need(values, Parameter::WakeEnergy)? * 1e-6 * wakes;
    let watts = need(values, Parameter::IdlePower)? + need(values, Parameter::CorePower)? * busy + wake;
    match values.get(Parameter::DeepIdleSaving) {
        None => Ok(watts),
        Some(saving) => Ok(watts + saving * awake_cores(values, case, outcome, cpu_ns)?),
    }
}

/// Cores that are not deeply idle, on average. Those of the threads are idle between two sleeps for times
/// that are taken to be exponential: with a mean of t, a core that is idle for longer than a is so for
/// t exp(-a / t) of each. The others are idle all the time.
fn awake_cores(values: &impl Values, case: &Case, outcome: &Outcome, cpu_ns: f64) -> Result<f64, Parameter> {
    let after = need(values, Parameter::DeepIdleAfter)?;
    let share = need(values, Parameter::DeepIdleShare)?.min(1.0);
    let pollers = u32::from(case.path.submission() == Submission::Sqpoll);
    let threads = case.numjobs.saturating_mul(threads(case) + pollers);
    let (cores, used) = (f64::from(case.cores), f64::from(threads.min(case.cores)));
    let idle = (1.0 - outcome.iops * cpu_ns / 1e9 / used).max(0.0);
    let sleeps = outcome.iops * outcome.sleeps / 1e9 / used;
    let deep = if idle > 0.0 && sleeps > 0.0 { idle * (-after * sleeps / idle).exp() } else { 0.0 };
    Ok(cores - share * (cores - used + used * deep))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::workload::Rw;

    fn values(parameter: Parameter) -> Option<f64> {
        Some(match parameter {
            Parameter::Service(_) => 10_000.0,
            Parameter::PerKib(_) => 0.0,
            Parameter::Parallelism => 10.0,
            Parameter::Sharpness => 4.0,
            Parameter::Gap => 500.0,
            Parameter::Gathered => 0.05,
            Parameter::Time(_) | Parameter::Cpu(_) => 2_000.0,
            Parameter::Interrupt => 1_000.0,
            Parameter::Wake => 1_500.0,
            Parameter::CpuPerWake => 3_000.0,
            Parameter::CpuPerKib => 0.0,
            Parameter::Handoffs => 2.5,
            Parameter::Timer | Parameter::CpuPerCall => 400.0,
            Parameter::AsyncWrite => 700.0,
            Parameter::SpinShare => 0.5,
            Parameter::IdlePower => 40.0,
            Parameter::CorePower => 10.0,
            Parameter::WakeEnergy => 2.0,
            Parameter::Tail(..) => 1.5,
            Parameter::Instructions(_) => 5_000.0,
            Parameter::InstructionsPerWake => 4_000.0,
            Parameter::InstructionsPerSpin => 2_000.0,
            Parameter::DeepIdleAfter => 5_000.0,
            Parameter::DeepIdleShare => 0.8,
            // What it saves is not known, and the watts have no part of it.
            Parameter::DeepIdleSaving => return None,
            Parameter::Deviation(_) | Parameter::CpuDeviation(_) | Parameter::TailDeviation(..) => {
                return None;
            }
        })
    }

    fn case(path: &str, numjobs: u32, iodepth: u32) -> Case {
        let path = path.parse().unwrap();
        Case { path, rw: Rw::Randread, rwmixread: 50, bs: 4096, iodepth, numjobs, batch: 1, cores: 4 }
    }

    fn close(got: f64, exact: f64) {
        assert!((got / exact - 1.0).abs() < 1e-9, "{got} is not {exact}");
    }

    #[test]
    fn one_io_at_a_time_takes_the_sum_of_its_parts() {
        // Time: drive 10, software 2, interrupt 1, wake-up 1.5, and 0.5 us that is in no latency.
        let of = |path, quantity| value(&values, &case(path, 1, 1), quantity).unwrap();
        let interrupt = "posix-sio/syscall/interrupt";
        close(of(interrupt, Quantity::LatencyMean), 14_500.0);
        close(of(interrupt, Quantity::Iops), 1e9 / 15_000.0);
        // CPU: 2 of its own, 0.4 of the call, 3 of the sleep.
        close(of(interrupt, Quantity::CpuPerIo), 5_400.0);
        close(of(interrupt, Quantity::Instructions), 9_000.0);
        close(of(interrupt, Quantity::LatencyP99), 4_500.0 + 15_000.0);
        // 66,667 I/Os a second: 0.36 cores at 10 W, as many wake-ups at 2 uJ.
        close(of(interrupt, Quantity::Watts), 40.0 + 3.6 + 2.0 / 15.0);
        close(of(interrupt, Quantity::IosPerJoule), 1e9 / 15_000.0 / (43.6 + 2.0 / 15.0));
        let poll = "posix-sio/syscall/poll";
        close(of(poll, Quantity::LatencyMean), 12_000.0);
        close(of(poll, Quantity::CpuPerIo), 12_500.0);
        // It spins for what is not its own work: 12.5 less 2.4 us.
        close(of(poll, Quantity::Instructions), 5_000.0 + 2_000.0 * 10.1);
        let hybrid = "posix-sio/syscall/hybrid";
        close(of(hybrid, Quantity::LatencyMean), 12_400.0);
        close(of(hybrid, Quantity::CpuPerIo), 2_400.0 + 3_000.0 + 5_000.0);
        // The job and the kernel's thread spin.
        close(of("io_uring/sqpoll/poll", Quantity::CpuPerIo), 25_000.0);
        close(of("io_uring/sqpoll/interrupt", Quantity::LatencyMean), 13_000.0);
        // The job sleeps once, glibc's threads 2.5 times.
        close(of("posix-aio/syscall/interrupt", Quantity::ContextSwitches), 3.5);
        close(of("posix-aio/syscall/interrupt", Quantity::CpuPerIo), 2_400.0 + 3.5 * 3_000.0);
        // 100 ns of CPU time for each of 4 KiB.
        let by_size = |one| if one == Parameter::CpuPerKib { Some(100.0) } else { values(one) };
        close(value(&by_size, &case(interrupt, 1, 1), Quantity::CpuPerIo).unwrap(), 5_800.0);
    }

    #[test]
    fn deep_idle_saves_what_sleeping_cores_and_those_without_a_job_leave() {
        let with_saving = |parameter| match parameter {
            Parameter::DeepIdleSaving => Some(3.0),
            other => values(other),
        };
        let of = |case: &Case, quantity| value(&with_saving, case, quantity).unwrap();
        let sleeps = case("posix-sio/syscall/interrupt", 1, 1);
        // It runs for 5.4 of 15 us: 9.6 us between two sleeps, of which 9.6 exp(-5 / 9.6) us are deep.
        let deep = 0.8 * (3.0 + 9.6 / 15.0 * (-5.0_f64 / 9.6).exp());
        close(of(&sleeps, Quantity::AwakeCores), 4.0 - deep);
        close(of(&sleeps, Quantity::Watts), 43.6 + 2.0 / 15.0 + 3.0 * (4.0 - deep));
        // A core that spins is awake. Two further ones are deeply idle, and draw nothing but 0.2 of theirs.
        let spins = case("posix-sio/syscall/poll", 1, 1);
        close(of(&spins, Quantity::AwakeCores), 4.0 - 0.8 * 3.0);
        let more = Case { cores: 6, ..spins };
        close(of(&more, Quantity::Watts) - of(&spins, Quantity::Watts), 3.0 * 2.0 * 0.2);
    }

    /// A helper thread works beside the job: both together may have more than one core.
    #[test]
    fn helpers_of_posix_aio_have_cores_of_their_own() {
        let busy = |parameter| if parameter == Parameter::Handoffs { Some(6.0) } else { values(parameter) };
        let of = |jobs, cores, quantity| {
            value(&busy, &Case { cores, ..case("posix-aio/syscall/interrupt", jobs, 1) }, quantity).unwrap()
        };
        // 2.4 us and seven sleeps in a cycle of 15 us.
        close(of(1, 4, Quantity::CpuPerIo), 2_400.0 + 7.0 * 3_000.0);
        close(of(1, 1, Quantity::CpuPerIo), 15_000.0);
        // Four jobs with their helpers share four cores, and four jobs alone share two.
        close(of(4, 4, Quantity::CpuPerIo), 4e9 / of(4, 4, Quantity::Iops));
        close(of(4, 2, Quantity::CpuPerIo), 2e9 / of(4, 2, Quantity::Iops));
        // The job's core and the helper's are in use, and each is idle for 3.3 of 15 us, in 3.5 pieces.
        let deep = 0.8 * (2.0 + 2.0 * 3.3 / 15.0 * (-5.0 * 3.5 / 3.3_f64).exp());
        close(of(1, 4, Quantity::AwakeCores), 4.0 - deep);
    }

    #[test]
    fn nothing_gives_more_than_it_has() {
        let iops = |path, jobs, depth| value(&values, &case(path, jobs, depth), Quantity::Iops).unwrap();
        let interrupt = "io_uring/syscall/interrupt";
        // A job's CPU: 2.4 us of work and 0.5 us between I/Os.
        let one_job = iops(interrupt, 1, 512);
        assert!(one_job < 1e9 / 2_900.0 && one_job > 0.9e9 / 2_900.0, "{one_job}");
        // The drive: ten at once, each 10 us.
        let drive = iops(interrupt, 4, 512);
        assert!(drive < 1e6 && drive > 0.9e6, "{drive}");
        // A synchronous path has one I/O in flight, whatever iodepth says.
        close(iops("posix-sio/syscall/poll", 1, 32), iops("posix-sio/syscall/poll", 1, 1));
        // Four cores with work of 2.4 us an I/O.
        let crowded = iops("posix-sio/syscall/interrupt", 64, 1);
        assert!(crowded < 4e9 / 2_400.0, "{crowded}");
    }

    #[test]
    fn what_a_model_lacks_is_named() {
        let without = |parameter| match parameter {
            Parameter::Interrupt => None,
            other => values(other),
        };
        let lacking = value(&without, &case("libaio/syscall/interrupt", 1, 1), Quantity::LatencyMean);
        assert_eq!(lacking, Err(Parameter::Interrupt));
        assert!(value(&without, &case("io_uring/syscall/poll", 1, 1), Quantity::LatencyMean).is_ok());
        let without_cpu = |parameter| match parameter {
            Parameter::Cpu(_) => None,
            other => values(other),
        };
        let lacking = value(&without_cpu, &case("libaio/syscall/interrupt", 1, 1), Quantity::IosPerJoule);
        assert_eq!(lacking, Err(Parameter::Cpu(Front::Libaio)));
    }
}
