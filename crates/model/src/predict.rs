//! Predictions: a value, its interval, and what it rests on.

use crate::case::{Case, Quantity};
use crate::fit::slopes;
use crate::formula::{Values, spinners, value};
use crate::kernel::Shift;
use crate::model::Model;
use crate::parameter::{Front, Parameter};
use iopj_core::IoPath;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// What a prediction rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The case lies within what the model was calibrated by.
    Interpolated,
    /// It lies outside, by these.
    Extrapolated(Vec<String>),
}

impl Basis {
    /// The same after a further reason.
    pub(crate) fn after(self, why: &str) -> Basis {
        Basis::Extrapolated(vec![why.to_owned()]).and(self)
    }

    /// The same with the reasons of another that it has not yet.
    pub(crate) fn and(self, other: Basis) -> Basis {
        let reasons = |basis| match basis {
            Basis::Interpolated => Vec::new(),
            Basis::Extrapolated(reasons) => reasons,
        };
        let mut all: Vec<String> = reasons(self);
        for reason in reasons(other) {
            if !all.contains(&reason) {
                all.push(reason);
            }
        }
        if all.is_empty() { Basis::Interpolated } else { Basis::Extrapolated(all) }
    }
}

/// A predicted quantity with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Of what.
    pub case: Case,
    /// Which quantity.
    pub quantity: Quantity,
    /// The value, in the quantity's unit.
    pub value: f64,
    /// The interval in which a measurement is with a probability of 90 %. Both ends are as far from the value
    /// by their logarithm, unless the upper one would be more than there can be.
    pub interval: [f64; 2],
    /// Standard deviation of the value's logarithm.
    pub spread: f64,
    /// What it rests on.
    pub basis: Basis,
}

/// Why there is no prediction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotPredict {
    /// The model lacks a parameter.
    #[error("the model has no `{lacking}`: {remedy}")]
    Lacks {
        /// The parameter.
        lacking: Parameter,
        /// What would give it.
        remedy: &'static str,
    },
    /// Threads that spin outnumber the cores, and no closed formula says how they take turns.
    #[error("{spinners} threads would spin on {cores} cores, and no formula says how they take turns")]
    Crowded {
        /// Threads that spin.
        spinners: u32,
        /// Cores.
        cores: u32,
    },
    /// It is not known what another kernel changes.
    #[error("what {kernel} changes is not known of it: {why}")]
    Kernel {
        /// The kernel.
        kernel: String,
        /// Why.
        why: String,
    },
}

impl CannotPredict {
    pub(crate) fn lacks(lacking: Parameter) -> CannotPredict {
        let remedy = match lacking {
            Parameter::Service(_) | Parameter::PerKib(_) | Parameter::Tail(..) => {
                "calibrate it by a store with this direction and order (`rw`)"
            }
            Parameter::IdlePower | Parameter::CorePower | Parameter::WakeEnergy => {
                "calibrate it by a store with joules of the whole machine"
            }
            Parameter::DeepIdleSaving | Parameter::DeepIdleAfter | Parameter::DeepIdleShare => {
                "calibrate it by a store with joules of the whole machine and times in idle states"
            }
            Parameter::Instructions(_) | Parameter::InstructionsPerWake | Parameter::InstructionsPerSpin => {
                "calibrate it by a store whose trials have a profile"
            }
            Parameter::Cpu(_) | Parameter::CpuPerWake | Parameter::CpuPerCall | Parameter::CpuPerKib => {
                "calibrate it by a store in which this interface sleeps for its completions"
            }
            _ => "calibrate it by a store with this interface, submission and completion",
        };
        CannotPredict::Lacks { lacking, remedy }
    }
}

/// The values of a model for one path: those of the software are what the kernel makes of them.
pub(crate) struct OnPath<'a> {
    model: &'a Model,
    pub(crate) shift: Shift,
}

impl OnPath<'_> {
    /// Logarithms of the parameters.
    fn logs(&self) -> Vec<f64> {
        let all = self.model.parameters.iter().zip(&self.model.fitted.logs);
        all.map(|(one, log)| log + self.shift_of(*one)).collect()
    }

    /// What the kernel adds to the logarithm of a parameter.
    fn shift_of(&self, parameter: Parameter) -> f64 {
        self.shift.of(parameter).log
    }
}

impl Values for OnPath<'_> {
    fn get(&self, parameter: Parameter) -> Option<f64> {
        Some(self.model.get(parameter)? * self.shift_of(parameter).exp())
    }
}

/// A prediction's logarithm, its slopes by those of the parameters, and the variance of it that the change of
/// the kernel leaves open.
struct Said {
    log: f64,
    slopes: Vec<f64>,
    of_kernel: f64,
}

/// Both tails of a 90 % interval.
const TAIL: f64 = 0.05;

impl Model {
    /// Predicts a quantity of a case.
    ///
    /// # Errors
    /// The model lacks a parameter, threads that spin outnumber the cores, or it is not known what another
    /// kernel changes.
    pub fn predict(&self, case: &Case, quantity: Quantity) -> Result<Prediction, CannotPredict> {
        let said = self.said(case, quantity)?;
        let of_parameters = self.covariance().quadratic(&said.slopes).max(0.0);
        let spread = (of_parameters + said.of_kernel + self.missed(quantity)).sqrt();
        Ok(self.prediction(case, quantity, self.value(case, quantity)?, spread, self.basis(case)))
    }

    pub(crate) fn prediction(
        &self,
        case: &Case,
        quantity: Quantity,
        value: f64,
        spread: f64,
        basis: Basis,
    ) -> Prediction {
        let reach = spread * self.t_quantile(1.0 - TAIL);
        let most = if quantity == Quantity::AwakeCores { f64::from(case.cores) } else { f64::INFINITY };
        let interval = [value * (-reach).exp(), (value * reach.exp()).min(most)];
        Prediction { case: *case, quantity, value, interval, spread, basis }
    }

    /// How sure it is that the first case is better than the second in a quantity: the probability by the
    /// parameters' covariance and by what the formula misses of each.
    ///
    /// # Errors
    /// As [`Model::predict`].
    pub fn better(&self, [a, b]: [&Case; 2], quantity: Quantity) -> Result<f64, CannotPredict> {
        let (a, b) = (self.said(a, quantity)?, self.said(b, quantity)?);
        let apart: Vec<f64> = a.slopes.iter().zip(&b.slopes).map(|(a, b)| a - b).collect();
        let of_kernel = a.of_kernel + b.of_kernel;
        let variance = self.covariance().quadratic(&apart) + of_kernel + 2.0 * self.missed(quantity);
        let lead = if quantity.more_is_better() { a.log - b.log } else { b.log - a.log };
        Ok(Normal::standard().cdf(lead / variance.sqrt().max(f64::MIN_POSITIVE)))
    }

    /// What the formula says, where it holds.
    fn value(&self, case: &Case, quantity: Quantity) -> Result<f64, CannotPredict> {
        let (spinners, cores) = (spinners(case), case.cores);
        if spinners > cores {
            return Err(CannotPredict::Crowded { spinners, cores });
        }
        value(&self.on_path(case.path)?, case, quantity).map_err(CannotPredict::lacks)
    }

    /// The values for a path.
    ///
    /// # Errors
    /// It is not known what the kernel changes.
    pub(crate) fn on_path(&self, path: IoPath) -> Result<OnPath<'_>, CannotPredict> {
        let Some(kernel) = &self.kernel else { return Ok(OnPath { model: self, shift: Shift::default() }) };
        let unknown = |why| CannotPredict::Kernel { kernel: kernel.name.clone(), why };
        Ok(OnPath { model: self, shift: kernel.shift(path).map_err(unknown)? })
    }

    /// What the formula says, where it holds, with its slopes.
    fn said(&self, case: &Case, quantity: Quantity) -> Result<Said, CannotPredict> {
        let log = self.value(case, quantity)?.ln();
        let values = self.on_path(case.path)?;
        let slopes = slopes(&self.parameters, &values.logs(), (case, quantity));
        let slopes = slopes.map_or_else(|| vec![0.0; self.parameters.len()], |(_, slopes)| slopes);
        let all = self.parameters.iter().zip(&slopes);
        let off: f64 = all.map(|(one, slope)| slope * values.shift.of(*one).spread).sum();
        Ok(Said { log, slopes, of_kernel: off.powi(2) })
    }

    /// The variance that the formula misses of a quantity; of one that was not calibrated by, the greatest of
    /// all.
    pub(crate) fn missed(&self, quantity: Quantity) -> f64 {
        let all = || self.fitted.misfit.values().copied().fold(0.0, f64::max);
        self.fitted.misfit.get(&quantity).copied().unwrap_or_else(all)
    }

    /// A quantile of Student's distribution with as many degrees of freedom as data exceed the parameters.
    fn t_quantile(&self, probability: f64) -> f64 {
        // Beyond so many it is the normal distribution, to all digits that are shown.
        let free = (self.data as f64 - self.decided()).clamp(1.0, 1e4);
        StudentsT::new(0.0, 1.0, free).map_or(f64::INFINITY, |student| student.inverse_cdf(probability))
    }

    /// Whether a case lies within what calibrated the model, and by what it does not.
    pub(crate) fn basis(&self, case: &Case) -> Basis {
        let mut beyond = Vec::new();
        if self.drive.is_some() {
            beyond.push("the drive is that of a data sheet".to_owned());
        }
        if let Some(kernel) = &self.kernel {
            beyond.push(format!("the kernel is {}", kernel.name));
        }
        if !self.cases.iter().any(|one| one.path == case.path) {
            beyond.push("the path was not measured, only its parts".to_owned());
        }
        let own = kinds(case);
        if own.count_ones() > 1 && !self.cases.iter().any(|one| kinds(one) == own) {
            beyond.push("reads and writes at once were not measured".to_owned());
        }
        let alike = || self.cases.iter().filter(|one| kinds(one) & own != 0);
        let of_path = || self.cases.iter().filter(|one| Front::of(one.path) == Front::of(case.path));
        beyond.extend(outside("bs", case.bs, alike().map(|one| one.bs)));
        beyond.extend(outside("I/Os in flight", in_flight(case), self.cases.iter().map(in_flight)));
        beyond.extend(outside("I/Os in flight per job", case.depth(), of_path().map(Case::depth)));
        beyond.extend(outside("numjobs", case.numjobs, self.cases.iter().map(|one| one.numjobs)));
        beyond.extend(outside("cores", case.cores, self.cases.iter().map(|one| one.cores)));
        beyond.extend(outside("batch", case.batch, self.cases.iter().map(|one| one.batch)));
        if beyond.is_empty() { Basis::Interpolated } else { Basis::Extrapolated(beyond) }
    }
}

/// The kinds of I/O of a case, a bit each, as `Kind::shares` tells them. A model may have many cases, and
/// each of them is held against all.
fn kinds(case: &Case) -> u8 {
    let reads = case.rw.reads() && (!case.rw.writes() || case.rwmixread > 0);
    let writes = !case.rw.reads() || case.rw.writes() && case.rwmixread < 100;
    (u8::from(reads) | u8::from(writes) << 1) << if case.rw.is_random() { 0 } else { 2 }
}

fn in_flight(case: &Case) -> u32 {
    case.numjobs.saturating_mul(case.depth())
}

/// Says by how much a value is outside of those that were measured.
fn outside(what: &str, value: u32, measured: impl Iterator<Item = u32>) -> Option<String> {
    let ends =
        |ends: Option<(u32, u32)>, one: u32| Some(ends.map_or((one, one), |(a, b)| (a.min(one), b.max(one))));
    let (least, most) = measured.fold(None, ends)?;
    let times = |a: u32, b: u32| format!("{:.1}", f64::from(a) / f64::from(b)).replace(".0", "");
    match value {
        above if above > most => {
            Some(format!("{what} {value} is {} times the most, {most}", times(value, most)))
        }
        below if below < least => Some(format!("{what} {value} is below the least, {least}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Kind;
    use iopj_core::Rw;

    #[test]
    fn the_kinds_of_a_case_are_those_of_its_shares() {
        let of = |rw, rwmixread| {
            let path = "libaio/syscall/interrupt".parse().unwrap();
            kinds(&Case { rw, rwmixread, ..Case::of(path, &Default::default(), 1).unwrap() })
        };
        let alone = |kind: Kind| of(kind.rw(), 50);
        let all: [Rw; 6] =
            ["read", "write", "rw", "randread", "randwrite", "randrw"].map(|rw| rw.parse().unwrap());
        for (rw, rwmixread) in all.into_iter().flat_map(|rw| [0, 1, 50, 99, 100].map(|mix| (rw, mix))) {
            let shares = Kind::shares(rw, rwmixread);
            let sum = shares.iter().fold(0, |sum, (kind, _)| sum | alone(*kind));
            assert_eq!((of(rw, rwmixread), sum.count_ones()), (sum, shares.len() as u32), "{rw} {rwmixread}");
        }
    }
}
