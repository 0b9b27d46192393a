//! What a scenario must be, before it is simulated.

use super::scenario::{Arrivals, HybridSleep, Scenario, SimPath, TraceIo, Waiting};
use iopj_core::units::MAX_LATENCY_NS;

/// The longest time of one cost, of one I/O in the drive, and from an I/O of an open load to the next: a
/// minute, which is also the longest latency that histograms hold. Without it, threads that poll for an I/O
/// could take turns for years.
const MOST_NS: f64 = MAX_LATENCY_NS as f64;

/// The most of what takes memory: jobs, cores, and I/Os in flight.
const MOST: u64 = 1 << 20;

/// The most values of a distribution.
const MOST_VALUES: usize = 1 << 24;

/// Why a scenario cannot be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimError {
    /// A value is out of range.
    #[error("`{name}` of the simulation is {value}; it must be {must}")]
    Value {
        /// Which value.
        name: String,
        /// What it is.
        value: String,
        /// What it must be.
        must: &'static str,
    },
    /// Something that must have entries has none.
    #[error("`{0}` of the simulation is empty; give it at least one entry")]
    Empty(String),
    /// The shares of the mix are not all.
    #[error("the shares in `mix` of the simulation add up to {0}; they must add up to 1")]
    Shares(f64),
    /// A kind of I/O that the drive or the mix does not have.
    #[error("`{name}` of the simulation is {index}, but `{of}` has {len} entries, counted from 0")]
    Index {
        /// What names it.
        name: String,
        /// The index.
        index: u32,
        /// Of what.
        of: &'static str,
        /// How many it has.
        len: usize,
    },
    /// A trace that goes back in time.
    #[error("I/O {0} of the simulated trace is due before the one that it follows; sort the trace by time")]
    Order(usize),
    /// A trace that ends before the simulation.
    #[error("the simulated trace has {has} I/Os, but {asked} are asked for with the warm-up; ask for fewer")]
    Short {
        /// I/Os of the trace.
        has: usize,
        /// I/Os asked for.
        asked: u64,
    },
    /// All costs are 0.
    #[error("no time passes in the simulation; give the drive, the path or the arrivals a time above 0")]
    NoTime,
    /// Too long for exact times.
    #[error("the simulation would last longer than 100 days of its own time; ask for fewer I/Os")]
    TooLong,
}

/// Refuses a scenario that makes no sense.
pub(super) fn check(scenario: &Scenario) -> Result<(), SimError> {
    let in_flight = u64::from(scenario.jobs) * u64::from(scenario.iodepth);
    count("jobs", scenario.jobs.into())?;
    count("iodepth", scenario.iodepth.into())?;
    count("batch_submit", scenario.batch_submit.into())?;
    count("cores", scenario.cores.into())?;
    count("jobs times iodepth", in_flight)?;
    count("drive.parallelism", scenario.drive.parallelism.into())?;
    value("ios", scenario.ios as f64, scenario.ios > 0, "at least 1")?;
    services(scenario)?;
    mix(scenario)?;
    path(&scenario.path)?;
    power(scenario)?;
    arrivals(scenario)
}

fn value(name: &str, value: f64, is_good: bool, must: &'static str) -> Result<(), SimError> {
    if is_good {
        return Ok(());
    }
    Err(SimError::Value { name: name.to_owned(), value: value.to_string(), must })
}

fn count(name: &str, number: u64) -> Result<(), SimError> {
    value(name, number as f64, (1..=MOST).contains(&number), "from 1 to 1048576")
}

fn time(name: &str, ns: f64) -> Result<(), SimError> {
    value(name, ns, (0.0..=MOST_NS).contains(&ns), "a time in ns from 0 to a minute")
}

fn positive_time(name: &str, ns: f64) -> Result<(), SimError> {
    value(name, ns, ns > 0.0 && ns <= MOST_NS, "a time in ns above 0, at most a minute")
}

fn not_negative(name: &str, number: f64) -> Result<(), SimError> {
    value(name, number, number >= 0.0 && number.is_finite(), "0 or more")
}

fn services(scenario: &Scenario) -> Result<(), SimError> {
    if scenario.drive.service.is_empty() {
        return Err(SimError::Empty("drive.service".to_owned()));
    }
    for (at, service) in scenario.drive.service.iter().enumerate() {
        let name = format!("drive.service[{at}].equally_likely_ns");
        if service.equally_likely_ns.is_empty() {
            return Err(SimError::Empty(name));
        }
        let len = service.equally_likely_ns.len();
        value(&format!("the length of {name}"), len as f64, len <= MOST_VALUES, "at most 16777216")?;
        service.equally_likely_ns.iter().try_for_each(|ns| time(&name, *ns))?;
        time(&format!("drive.service[{at}].least_gap_ns"), service.least_gap_ns)?;
    }
    Ok(())
}

fn mix(scenario: &Scenario) -> Result<(), SimError> {
    if scenario.mix.is_empty() {
        return Err(SimError::Empty("mix".to_owned()));
    }
    for (at, class) in scenario.mix.iter().enumerate() {
        let share = class.share;
        value(&format!("mix[{at}].share"), share, (0.0..=1.0).contains(&share), "from 0 to 1")?;
        let len = scenario.drive.service.len();
        index(&format!("mix[{at}].service"), class.service, "drive.service", len)?;
        time(&format!("mix[{at}].submit_ns"), class.submit_ns)?;
    }
    let sum: f64 = scenario.mix.iter().map(|class| class.share).sum();
    if (sum - 1.0).abs() > 1e-6 { Err(SimError::Shares(sum)) } else { Ok(()) }
}

fn index(name: &str, index: u32, of: &'static str, len: usize) -> Result<(), SimError> {
    if (index as usize) < len {
        return Ok(());
    }
    Err(SimError::Index { name: name.to_owned(), index, of, len })
}

fn path(path: &SimPath) -> Result<(), SimError> {
    let times = [
        ("path.submit_ns", path.submit_ns),
        ("path.complete_ns", path.complete_ns),
        ("path.gap_ns", path.gap_ns),
        ("path.call_ns", path.call_ns),
        ("path.interrupt_ns", path.interrupt_ns),
        ("path.wake_ns", path.wake_ns),
        ("path.wake_delay_ns", path.wake_delay_ns),
        ("path.spin_ns", path.spin_ns),
    ];
    times.into_iter().try_for_each(|(name, ns)| time(name, ns))?;
    if path.kind != Waiting::Interrupt {
        positive_time("path.spin_ns", path.spin_ns)?;
    }
    match path.kind {
        Waiting::Interrupt | Waiting::Poll => {}
        Waiting::Hybrid(HybridSleep::Fixed(ns)) => time("path.kind.Fixed", ns)?,
        Waiting::Hybrid(HybridSleep::Share(share)) => {
            value("path.kind.Share", share, (0.0..=1.0).contains(&share), "from 0 to 1")?;
        }
        Waiting::KernelPoller(poller) => {
            time("path.kind.take_ns", poller.take_ns)?;
            time("path.kind.post_ns", poller.post_ns)?;
        }
    }
    let Some(one) = path.instructions else { return Ok(()) };
    not_negative("path.instructions.per_io", one.per_io)?;
    not_negative("path.instructions.per_call", one.per_call)?;
    not_negative("path.instructions.per_wake", one.per_wake)?;
    not_negative("path.instructions.per_spin", one.per_spin)
}

fn power(scenario: &Scenario) -> Result<(), SimError> {
    let Some(power) = scenario.power else { return Ok(()) };
    let idle = power.idle_w;
    value("power.idle_w", idle, idle > 0.0 && idle.is_finite(), "above 0")?;
    not_negative("power.active_core_w", power.active_core_w)?;
    not_negative("power.deep_idle_w", power.deep_idle_w)?;
    not_negative("power.deep_after_ns", power.deep_after_ns)?;
    not_negative("power.wake_joules", power.wake_joules)?;
    let most = power.deep_idle_w * f64::from(scenario.cores);
    value("power.deep_idle_w", power.deep_idle_w, most < idle, "less than idle_w over the number of cores")
}

fn arrivals(scenario: &Scenario) -> Result<(), SimError> {
    match &scenario.arrivals {
        Arrivals::Closed => Ok(()),
        &Arrivals::Open { per_job_iops: rate, bursts, .. } => {
            let is_rate = (1e9 / MOST_NS..=1e9).contains(&rate);
            value("arrivals.per_job_iops", rate, is_rate, "at least 1 in a minute, at most 1000000000")?;
            let Some((on, off)) = bursts else { return Ok(()) };
            positive_time("arrivals.bursts.0", on)?;
            time("arrivals.bursts.1", off)
        }
        Arrivals::Trace(ios) => trace(scenario, ios),
    }
}

fn trace(scenario: &Scenario, ios: &[TraceIo]) -> Result<(), SimError> {
    if ios.is_empty() {
        return Err(SimError::Empty("arrivals.Trace".to_owned()));
    }
    let asked = scenario.ios.saturating_add(scenario.warm_up_ios);
    if asked > ios.len() as u64 {
        return Err(SimError::Short { has: ios.len(), asked });
    }
    // Names are written for what is bad alone: a trace may have millions of I/Os.
    for (at, io) in ios.iter().enumerate() {
        if !(io.due_ns >= 0.0 && io.due_ns.is_finite()) {
            not_negative(&format!("arrivals.Trace[{at}].due_ns"), io.due_ns)?;
        }
        if io.class as usize >= scenario.mix.len() {
            index(&format!("arrivals.Trace[{at}].class"), io.class, "mix", scenario.mix.len())?;
        }
        if at > 0 && io.due_ns < ios[at - 1].due_ns {
            return Err(SimError::Order(at));
        }
    }
    Ok(())
}
