//! What the trials of a store say to a model.

use crate::case::{Case, Observation, Quantity};
use crate::formula::{Waiting, spinners};
use iopj_core::{CostKind, Generator, Scope};
use iopj_record::{EnergySource, Measurement, Trial};
use std::collections::BTreeMap;

/// Trials that calibrate nothing, by the reason.
pub type LeftOut = BTreeMap<&'static str, usize>;

/// Settings and generator, of which a model has one.
type Circumstances<'a> = (&'a BTreeMap<String, String>, Generator);

/// The quantities of those of a store's trials that compete, over their replicates, and the competing ones
/// that were left out.
pub fn observations(trials: &[Trial], competes: impl Fn(&Trial) -> bool) -> (Vec<Observation>, LeftOut) {
    let mut left_out = LeftOut::new();
    let mut leave = |why: &'static str| *left_out.entry(why).or_default() += 1;
    let source = EnergySource::measured(&[trials]).filter(|source| source.scope == Scope::System);
    let trials: Vec<&Trial> = trials.iter().filter(|trial| competes(trial)).collect();
    let common = most_common(&trials);
    let mut values: BTreeMap<(Case, Quantity), Vec<f64>> = BTreeMap::new();
    for trial in trials {
        let Some(measurement) = trial.outcome.measurement() else { continue };
        if Some((&trial.settings, trial.generator)) != common {
            leave("other settings, or another generator");
            continue;
        }
        match Case::of(trial.path, &trial.workload, measurement.evidence.cpu.cores.max(1)) {
            Err(why) => leave(why.0),
            Ok(case) if spinners(&case) > case.cores => leave("threads that spin and outnumber the cores"),
            Ok(case) => {
                let sleeps = Waiting::of(trial.path) != Waiting::Spins;
                for quantity in
                    Quantity::ALL.into_iter().filter(|one| sleeps || *one != Quantity::ContextSwitches)
                {
                    let value = value(measurement, quantity, source.as_ref());
                    let known = value.filter(|value| value.is_finite() && *value > 0.0);
                    values.entry((case, quantity)).or_default().extend(known.map(f64::ln));
                }
            }
        }
    }
    let known = values.into_iter().filter(|(_, logs)| !logs.is_empty());
    (known.map(|((case, quantity), logs)| observation(case, quantity, &logs)).collect(), left_out)
}

/// The settings and the generator of the most trials; of equals, the first.
fn most_common<'a>(trials: &[&'a Trial]) -> Option<Circumstances<'a>> {
    let mut counts: Vec<(Circumstances<'a>, usize)> = Vec::new();
    for trial in trials {
        let own = (&trial.settings, trial.generator);
        match counts.iter_mut().find(|(one, _)| *one == own) {
            Some((_, count)) => *count += 1,
            None => counts.push((own, 1)),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max()?;
    counts.into_iter().find(|(_, count)| *count == most).map(|(one, _)| one)
}

fn observation(case: Case, quantity: Quantity, logs: &[f64]) -> Observation {
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    let variance = if logs.len() > 1 { squares / (n - 1.0) / n } else { 0.0 };
    let replicates = u32::try_from(logs.len()).unwrap_or(u32::MAX);
    Observation { case, quantity, value: mean.exp(), variance, replicates }
}

fn value(measurement: &Measurement, quantity: Quantity, source: Option<&EnergySource>) -> Option<f64> {
    let latency = &measurement.latency;
    let joules = || source?.joules(measurement);
    Some(match quantity {
        Quantity::Iops => measurement.iops(),
        Quantity::LatencyMean => latency.mean,
        Quantity::LatencyP50 => latency.p50 as f64,
        Quantity::LatencyP99 => latency.p99 as f64,
        Quantity::LatencyP99_9 => latency.p99_9 as f64,
        Quantity::CpuPerIo => measurement.cpu_percent / 100.0 * 1e9 / measurement.iops(),
        Quantity::ContextSwitches => measurement.context_switches_per_io,
        Quantity::Instructions => instructions(measurement)?,
        Quantity::Watts => joules()?.watts(),
        // Rate and power say it.
        Quantity::IosPerJoule => return None,
        // What deep idle saves is seen in joules alone, and of the cores that the jobs may use.
        Quantity::AwakeCores => joules().and_then(|_| awake_cores(measurement))?,
    })
}

/// Cores that were not deeply idle, on average; `None` where the kernel does not say, or has no deep states.
fn awake_cores(measurement: &Measurement) -> Option<f64> {
    let evidence = &measurement.evidence;
    if evidence.allowed_cpus.is_some() || evidence.window_ns == 0 {
        return None;
    }
    let deep: Vec<u64> =
        evidence.c_states.iter().filter(|(name, _)| is_deep(name)).map(|(_, ns)| *ns).collect();
    let deep_cores = deep.iter().sum::<u64>() as f64 / evidence.window_ns as f64;
    let busy = measurement.cpu_percent / 100.0;
    // A stay counts where it ends, so a window may hold more than its own.
    (!deep.is_empty()).then(|| (f64::from(evidence.cpu.cores.max(1)) - deep_cores).max(busy))
}

/// True of an idle state in which a core does more than halt: all but polling, x86's C1 and its variants, and
/// Arm's WFI (drivers/idle/intel_idle.c, drivers/cpuidle/).
fn is_deep(state: &str) -> bool {
    let is_c1 = state.strip_prefix("C1").is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
    !is_c1 && !state.starts_with("haltpoll") && !["POLL", "WFI"].contains(&state)
}

fn instructions(measurement: &Measurement) -> Option<f64> {
    let costs = measurement.costs.as_ref().filter(|costs| costs.has(CostKind::Instructions))?;
    let ios = measurement.evidence.ios();
    let sum: u128 = costs.functions.iter().map(|one| u128::from(one.cost.instructions)).sum();
    (ios > 0).then(|| sum as f64 / ios as f64)
}
