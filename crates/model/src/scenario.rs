//! A model's parameters as a scenario of the simulation: for open loads, and for threads that spin on too few
//! cores, of which no closed formula speaks.

use crate::case::Case;
use crate::formula::{Values, Waiting, of_size_ns, outcome};
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
    let bytes: f64 = flow.parts.iter().map(|part| part.share * part.bytes).sum();
    let case = &Case { bs: bytes.round() as u32, ..*case };
    let alone = Case { numjobs: 1, iodepth: 1, cores: case.cores.max(2), ..*case };
    let outcome = outcome(values, &alone)?;
    let parallelism = values.get(Parameter::Parallelism).unwrap_or(f64::from(u32::MAX)).max(1.0);
    let mut mix = Vec::new();
    let mut service = Vec::new();
    let mut known: BTreeMap<Kind, Vec<f64>> = BTreeMap::new();
    for part in &flow.parts {
        mix.push(Class { share: part.share, service: service.len() as u32 });
        let ratios = known.entry(part.kind).or_insert_with(|| ratios(values, part.kind));
        service.push(times(values, part, ratios, parallelism)?);
    }
    Ok(Scenario {
        jobs: case.numjobs,
        iodepth: case.depth(),
        batch_submit: case.batch.clamp(1, case.depth()),
        arrivals: flow.arrivals.clone(),
        mix,
        cores: case.cores,
        drive: SimDrive { parallelism: parallelism.ceil().min(65_536.0) as u32, service },
        path: path(values, case, outcome.software_ns)?,
        power: power(values, case.cores),
        ios: flow.ios,
        warm_up_ios: flow.warm_up_ios,
        seed,
    })
}

/// The drive's times for I/Os of one kind and size, whose mean is the model's.
fn times(values: &impl Values, part: &Part, ratios: &[f64], parallelism: f64) -> Result<Service, Parameter> {
    let base = values.get(Parameter::Service(part.kind)).ok_or(Parameter::Service(part.kind))?;
    let per_kib = values.get(Parameter::PerKib(part.kind)).unwrap_or(0.0);
    let mean = base + per_kib * part.bytes / 1024.0;
    let scale = mean / mean_of(ratios);
    let equally_likely_ns = ratios.iter().map(|ratio| ratio * scale).collect();
    // The servers are whole, and the rate that a broken number of them gives is a limit of its own.
    Ok(Service { equally_likely_ns, least_gap_ns: mean / parallelism })
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
    ratios.iter().sum::<f64>() / f64::from(TIMES)
}

/// The path's costs, which add up to its time in software where nothing waits.
fn path(values: &impl Values, case: &Case, software_ns: f64) -> Result<SimPath, Parameter> {
    let front = Front::of(case.path).ok_or(Parameter::Deviation(case.path))?;
    let get = |parameter| values.get(parameter).unwrap_or(0.0);
    let time = values.get(Parameter::Time(front)).ok_or(Parameter::Time(front))?;
    let waiting = Waiting::of(case.path);
    let sleeps = waiting != Waiting::Spins;
    let interrupt_ns = match case.path.completion() {
        CompletionMode::Interrupt => get(Parameter::Interrupt).min(software_ns / 2.0),
        _ => 0.0,
    };
    let own = values.get(Parameter::Cpu(front)).map_or(time, |cpu| cpu + of_size_ns(values, case));
    let wake = if sleeps { get(Parameter::CpuPerWake) } else { 0.0 };
    let call = get(Parameter::CpuPerCall);
    // CPU time that is in no latency is left out: the parts may not exceed the whole.
    let fits = ((software_ns - interrupt_ns) / (own + wake + call)).min(1.0);
    let [own, wake, call] = [own, wake, call].map(|ns| ns * fits);
    let rest = (software_ns - interrupt_ns - own - wake - call).max(0.0);
    let kind = match waiting {
        _ if case.path.submission() == Submission::Sqpoll => SimWaiting::KernelPoller(KernelPoller {
            take_ns: own / 4.0,
            post_ns: 0.0,
            polls_drive: case.path.completion() != CompletionMode::Interrupt,
            job_polls: !sleeps,
        }),
        Waiting::Sleeps => SimWaiting::Interrupt,
        Waiting::Spins => SimWaiting::Poll,
        Waiting::Both => SimWaiting::Hybrid(HybridSleep::Share(1.0 - get(Parameter::SpinShare).min(1.0))),
    };
    // What a job that spins takes in software is work, for it never sleeps.
    let (work, delay) = if sleeps { (own, rest) } else { (own + rest, 0.0) };
    Ok(SimPath {
        kind,
        submit_ns: work / 2.0,
        complete_ns: work / 2.0,
        call_ns: call,
        interrupt_ns,
        wake_ns: wake,
        wake_delay_ns: delay,
        spin_ns: SPIN_NS,
        instructions: None,
    })
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
