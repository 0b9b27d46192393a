//! Predictions by simulation: of open loads and traces, whose latency runs from when an I/O was due, and of
//! threads that spin on too few cores.

use crate::case::{Case, Quantity};
use crate::formula::{Values, spinners, value};
use crate::kernel::Shift;
use crate::model::Model;
use crate::parameter::Parameter;
use crate::predict::{Basis, CannotPredict, Prediction};
use crate::recorded::Recorded;
use crate::scenario::{Flow, scenario};
use crate::simulate::{Arrivals, PARTS, SimError, Simulated, simulate};
use iopj_core::IoPath;
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use statrs::distribution::{ContinuousCDF, Normal};
use std::collections::BTreeMap;

/// I/Os due at a rate, whatever became of those before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// I/Os per second of all jobs together.
    pub iops: f64,
    /// Exponential times between them; otherwise even ones.
    pub poisson: bool,
    /// Bursts: how long I/Os arrive at that rate and how long none does, in turn, in ns.
    pub bursts: Option<(f64, f64)>,
}

/// What a simulation says of a path under a load.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenPrediction {
    /// What was predicted, each with its interval.
    pub predictions: Vec<Prediction>,
    /// True if the path falls behind: its latency grows for as long as the load lasts.
    pub overload: bool,
    /// The share of the draws of the parameters in which it does.
    pub overloaded: f64,
    /// Logarithms of each quantity in each draw. Two paths have the same draws of what they share.
    draws: BTreeMap<Quantity, Vec<f64>>,
    /// The variance of each logarithm that what simulation and formula say differently, or turns on a core,
    /// leave open.
    apart: BTreeMap<Quantity, f64>,
}

/// Why there is no prediction of an open load.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OpenError {
    /// The model lacks a parameter.
    #[error(transparent)]
    Model(#[from] CannotPredict),
    /// The simulation refuses it.
    #[error(transparent)]
    Simulation(#[from] SimError),
    /// Its jobs have threads that block for them, which are not simulated.
    #[error("the threads that do the I/O of POSIX AIO are not simulated")]
    Helpers,
    /// Too many jobs would have to be simulated.
    #[error("{0} jobs are more than the {MOST_JOBS} that are simulated: name fewer (`numjobs`)")]
    Jobs(u32),
    /// A trace has I/Os of a direction of which the model has no cell.
    #[error(
        "the trace has {0}, and no cell of the model has any: calibrate it by a store with random or \
         sequential {0} (`rw`)"
    )]
    Direction(&'static str),
    /// Too many I/Os would have to be simulated.
    #[error(
        "{PARTS} bursts of {0} I/Os are more than the {MOST} that are simulated: make both times shorter, or \
         ask for the rate without bursts", MOST = Recorded::MOST
    )]
    LongBursts(u64),
}

/// I/Os of one simulation.
const IOS: u64 = 20_000;
/// More jobs than any machine has processors for.
const MOST_JOBS: u32 = 16_384;
/// Draws of the parameters.
const DRAWS: u64 = 16;
/// Every simulation and every draw begins here: the same model gives the same answer.
const SEED: u64 = 0x1095;

impl Model {
    /// Predicts what an open load does to a case, whose `iodepth` is the most in flight for each job. The
    /// parameters are drawn from their covariance; what the simulation says of the closed loop differently
    /// from the formula, which was fitted, widens the intervals.
    ///
    /// # Errors
    /// The model lacks a parameter, the load makes no sense, or the path is not simulated.
    pub fn open(&self, case: &Case, load: Load) -> Result<OpenPrediction, OpenError> {
        let per_job_iops = load.iops / f64::from(case.numjobs);
        let arrivals = Arrivals::Open { per_job_iops, poisson: load.poisson, bursts: load.bursts };
        let flow = Flow { arrivals, ..Flow::of(case, Arrivals::Closed, IOS) }.in_whole_bursts(load)?;
        let basis = self.basis(case).after("an open load is simulated");
        self.simulated(case, &flow, &[*case], &basis)
    }

    /// Predicts what a trace does to a case, whose `iodepth` is the most in flight for each job, and whose
    /// direction, order, mix and size are [those of the trace](Recorded::words).
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn replay(&self, case: &Case, recorded: &Recorded) -> Result<OpenPrediction, OpenError> {
        let (flow, stands_in) = recorded.flow(self);
        if let Some(part) = flow.parts.iter().find(|part| self.get(Parameter::Service(part.kind)).is_none()) {
            return Err(OpenError::Direction(if part.kind.writes() { "writes" } else { "reads" }));
        }
        let (mut alike, mut basis) = (Vec::new(), Basis::Interpolated);
        for [least, mean, most] in recorded.cases(self, case) {
            alike.push(mean);
            basis = basis.and(self.basis(&most)).and(self.basis(&least));
        }
        let stands_in = (stands_in * 100.0).round();
        if stands_in > 0.0 {
            let why = format!("sequential and random I/Os are taken for each other ({stands_in} % of all)");
            basis = basis.after(&why);
        }
        self.simulated(case, &flow, &alike, &basis.after("a trace is simulated"))
    }

    /// Predicts a closed loop by simulation: where threads that spin outnumber the cores no formula holds.
    ///
    /// # Errors
    /// The model lacks a parameter, or the path is not simulated.
    pub fn closed(&self, case: &Case) -> Result<OpenPrediction, OpenError> {
        let flow = Flow::of(case, Arrivals::Closed, IOS);
        let basis = self.basis(case).after("threads that take turns on a core are simulated");
        self.simulated(case, &flow, &[*case], &basis)
    }

    /// What simulations say, of the parameters and of draws from their covariance; `alike` are cases that
    /// differ in their load alone, of which the formula speaks too.
    fn simulated(
        &self,
        case: &Case,
        flow: &Flow,
        alike: &[Case],
        basis: &Basis,
    ) -> Result<OpenPrediction, OpenError> {
        let values = self.on_path(case.path)?;
        let best = once(&values, case, flow, SEED)?;
        let apart = self.apart(alike, best.mean_in_flight)?;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
        // What a kernel does to one path says nothing of what it does to another.
        let paths = self.kernel.iter().flat_map(|kernel| kernel.changes.keys());
        let place = paths.take_while(|path| **path != case.path).count() as u64;
        let mut own = Xoshiro256PlusPlus::seed_from_u64(SEED ^ (place + 1) << 32);
        let mut draws = Vec::new();
        for draw in 0..DRAWS {
            let drawn = self.draw(values.shift, [&mut random, &mut own]);
            draws.push(once(&drawn, case, flow, SEED + 1 + draw)?);
        }
        let overloaded = draws.iter().filter(|one| one.overload).count() as f64 / DRAWS as f64;
        let logs = |quantity| draws.iter().filter_map(|one| of(one, quantity).map(f64::ln)).collect();
        let draws: BTreeMap<Quantity, Vec<f64>> =
            QUANTITIES.into_iter().map(|quantity| (quantity, logs(quantity))).collect();
        let keeps_up = flow.arrivals != Arrivals::Closed && !best.overload;
        let predictions = QUANTITIES.into_iter().filter_map(|quantity| {
            let value = of(&best, quantity)?;
            // A path that keeps up does what it is given.
            let missed = match quantity {
                Quantity::Iops if keeps_up => 0.0,
                _ => self.missed(quantity) + apart.get(&quantity).copied().unwrap_or(0.0),
            };
            let spread = (scatter(&draws[&quantity], value.ln()) + missed).sqrt();
            Some(self.prediction(case, quantity, value, spread, basis.clone()))
        });
        let predictions = predictions.collect();
        Ok(OpenPrediction { predictions, overload: best.overload, overloaded, draws, apart })
    }

    /// How sure it is that the first of two paths is better than the second in a quantity of the same load:
    /// the probability by the draws that they share, and by what widens the interval of each beyond its
    /// draws. `None` where one of them lacks it.
    pub fn better_open(&self, [a, b]: [&OpenPrediction; 2], quantity: Quantity) -> Option<f64> {
        let said = |open: &OpenPrediction| {
            let one = open.predictions.iter().find(|one| one.quantity == quantity)?;
            let apart = open.apart.get(&quantity).copied().unwrap_or(0.0);
            Some((one.value.ln(), open.draws.get(&quantity)?.clone(), self.missed(quantity) + apart))
        };
        let ((a, of_a, missed_of_a), (b, of_b, missed_of_b)) = (said(a)?, said(b)?);
        let leads: Vec<f64> = of_a.iter().zip(&of_b).map(|(a, b)| a - b).collect();
        let lead = a - b;
        let spread = (scatter(&leads, lead) + missed_of_a + missed_of_b).sqrt();
        let lead = if quantity.more_is_better() { lead } else { -lead };
        (!leads.is_empty()).then(|| Normal::standard().cdf(lead / spread.max(f64::MIN_POSITIVE)))
    }

    /// By quantity, the square of the difference between the logarithms of what simulation and formula say of
    /// closed loops with as many in flight, of the case in which it is greatest; of percentiles that of the
    /// mean latency.
    fn apart(&self, alike: &[Case], in_flight: f64) -> Result<BTreeMap<Quantity, f64>, OpenError> {
        let mut worst: BTreeMap<Quantity, f64> = BTreeMap::new();
        for case in alike {
            if spinners(case) > case.cores {
                return Ok(QUANTITIES.map(|quantity| (quantity, of_turns(quantity).powi(2))).into());
            }
            let numjobs = in_flight.ceil().clamp(1.0, f64::from(case.numjobs));
            let iodepth = (in_flight / numjobs).ceil().clamp(1.0, f64::from(case.depth()));
            let case = Case { numjobs: numjobs as u32, iodepth: iodepth as u32, ..*case };
            let values = self.on_path(case.path)?;
            let simulated = once(&values, &case, &Flow::of(&case, Arrivals::Closed, IOS), SEED)?;
            for quantity in QUANTITIES {
                let same = if quantity.quantile().is_some() { Quantity::LatencyMean } else { quantity };
                let both = of(&simulated, same).zip(value(&values, &case, same).ok());
                let square = both.map_or(0.0, |(simulated, formula)| (simulated / formula).ln().powi(2));
                let known = worst.entry(quantity).or_default();
                *known = known.max(square);
            }
        }
        Ok(worst)
    }

    /// Parameters drawn from their covariance, and on their way what the kernel makes of them.
    fn draw(
        &self,
        shift: Shift,
        [random, own]: [&mut Xoshiro256PlusPlus; 2],
    ) -> impl Fn(Parameter) -> Option<f64> + '_ {
        let normal: Vec<f64> = self.parameters.iter().map(|_| StandardNormal.sample(random)).collect();
        let off = self.covariance().drawn(&normal);
        let normal: f64 = StandardNormal.sample(own);
        move |parameter| {
            let at = self.parameters.binary_search(&parameter).ok()?;
            let of_kernel = shift.of(parameter);
            Some((self.fitted.logs[at] + off[at] + of_kernel.log + of_kernel.spread * normal).exp())
        }
    }
}

impl Flow {
    /// The same with whole bursts in each part of the I/Os by which an overload is told, and in the warm-up.
    fn in_whole_bursts(mut self, load: Load) -> Result<Flow, OpenError> {
        let Some((on, _)) = load.bursts else { return Ok(self) };
        let burst = load.iops * on / 1e9;
        let least = burst * PARTS as f64;
        if least > Recorded::MOST as f64 {
            return Err(OpenError::LongBursts(burst.round() as u64));
        }
        let whole = |ios: u64, of: f64| (of * (ios as f64 / of).ceil()).round() as u64;
        (self.ios, self.warm_up_ios) = (whole(self.ios, least), whole(self.warm_up_ios, burst));
        Ok(self)
    }
}

fn once(values: &impl Values, case: &Case, flow: &Flow, seed: u64) -> Result<Simulated, OpenError> {
    if matches!(case.path, IoPath::PosixAio(_)) {
        return Err(OpenError::Helpers);
    }
    if case.numjobs > MOST_JOBS {
        return Err(OpenError::Jobs(case.numjobs));
    }
    let scenario = scenario(values, case, flow, seed).map_err(CannotPredict::lacks)?;
    Ok(simulate(&scenario)?)
}

/// What measurements are off by where threads that spin outnumber the cores, as the standard deviation of a
/// logarithm: when which of them has a core decides, and no formula speaks of it. Twelve cells of
/// `io_uring/sqpoll/interrupt` on one machine, whose two jobs and two threads of the kernel shared two cores,
/// had 0.7 to 12 times the rate.
fn of_turns(quantity: Quantity) -> f64 {
    match quantity {
        Quantity::Watts => 0.0,
        one if one.is_latency() => 0.6,
        _ => 1.0,
    }
}

/// Mean square of these about a centre.
fn scatter(logs: &[f64], centre: f64) -> f64 {
    logs.iter().map(|log| (log - centre).powi(2)).sum::<f64>() / logs.len().max(1) as f64
}

/// What is predicted of an open load.
const QUANTITIES: [Quantity; 7] = [
    Quantity::Iops,
    Quantity::LatencyMean,
    Quantity::LatencyP50,
    Quantity::LatencyP99,
    Quantity::CpuPerIo,
    Quantity::Watts,
    Quantity::IosPerJoule,
];

fn of(simulated: &Simulated, quantity: Quantity) -> Option<f64> {
    let at = |share: f64| Some(simulated.latency.value_at_quantile(share) as f64);
    match quantity {
        Quantity::Iops => Some(simulated.iops),
        Quantity::LatencyMean => Some(simulated.mean_ns),
        Quantity::LatencyP50 => at(0.5),
        Quantity::LatencyP99 => at(0.99),
        Quantity::CpuPerIo => Some(simulated.cpu_ns_per_io.job_ns + simulated.cpu_ns_per_io.poller_ns),
        Quantity::Watts => simulated.watts,
        Quantity::IosPerJoule => simulated.ios_per_joule,
        _ => None,
    }
}

#[cfg(test)]
mod tests;
