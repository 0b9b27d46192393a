//! A cost model: parameters with their covariance, what the formula misses, and what the model was calibrated
//! by.

use crate::case::{Case, Observation, Quantity};
use crate::drive::{DataSheet, SHEET_BYTES, SPREAD};
use crate::fit::{Fitted, fit};
use crate::formula::{Values, Waiting, service_ns, value};
use crate::kernel::Kernel;
use crate::linear::Square;
use crate::parameter::{Front, Kind, Parameter, Quantile};
use iopj_core::{CompletionMode, IoPath};
use std::collections::{BTreeMap, BTreeSet};

/// A calibrated model.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// What it was calibrated on: machine, kernel, drive, store; names and values.
    pub provenance: BTreeMap<String, String>,
    /// The parameters, sorted.
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) fitted: Fitted,
    /// The cases that it was calibrated by.
    pub cases: Vec<Case>,
    /// How many quantities of them.
    pub data: usize,
    /// A drive in place of the one that it was calibrated on.
    pub(crate) drive: Option<DataSheet>,
    /// A kernel in place of the one that it was calibrated on.
    pub(crate) kernel: Option<Kernel>,
}

/// Why there is no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalibrateError {
    /// There is nothing to calibrate by.
    #[error("{0}")]
    TooFew(String),
    /// The fit does not settle.
    #[error("no parameters fit these data: are there values that are zero, or wildly apart?")]
    Unsettled,
}

/// Cells below which there is no model: with fewer, priors would decide, and not data.
pub const FEWEST_CASES: usize = 3;

impl Model {
    /// Calibrates a model by measured quantities.
    ///
    /// # Errors
    /// There are too few, or the fit does not settle.
    pub fn calibrate(
        observations: &[Observation],
        provenance: BTreeMap<String, String>,
    ) -> Result<Model, CalibrateError> {
        let cases: BTreeSet<Case> = observations.iter().map(|one| one.case).collect();
        let cases: Vec<Case> = cases.into_iter().collect();
        if cases.len() < FEWEST_CASES {
            return Err(CalibrateError::TooFew(too_few(&cases)));
        }
        let parameters = parameters(observations);
        // Power without CPU time, for example, cannot be explained, and decides nothing.
        let medians = |one: Parameter| parameters.binary_search(&one).ok().map(|_| one.prior().median);
        let is_said = |one: &&Observation| value(&medians, &one.case, one.quantity).is_ok();
        let observations: Vec<Observation> = observations.iter().filter(is_said).copied().collect();
        let fitted = fit(&parameters, &observations).ok_or(CalibrateError::Unsettled)?;
        let data = observations.len();
        Ok(Model { provenance, parameters, fitted, cases, data, drive: None, kernel: None })
    }

    /// The parameters with their values, and the standard deviations of their logarithms.
    pub fn parameters(&self) -> impl Iterator<Item = (Parameter, f64, f64)> {
        let spread = |at: usize| self.fitted.covariance.get(at, at).max(0.0).sqrt();
        let all = self.parameters.iter().enumerate();
        all.map(move |(at, parameter)| (*parameter, self.fitted.logs[at].exp(), spread(at)))
    }

    /// How many parameters data decide: the effective number, which counts one that its prior decides as 0.
    pub fn decided(&self) -> f64 {
        self.parameters().map(|(one, _, spread)| 1.0 - (spread / one.prior().spread).powi(2)).sum()
    }

    /// What the formula misses of a quantity, as a share: the standard deviation of its logarithm over cells.
    pub fn misfit(&self, quantity: Quantity) -> Option<f64> {
        self.fitted.misfit.get(&quantity).map(|variance| variance.sqrt())
    }

    /// Paths that it was calibrated by.
    pub fn paths(&self) -> BTreeSet<IoPath> {
        self.cases.iter().map(|case| case.path).collect()
    }

    /// The model with this drive in place of its own. What the sheet does not say stays as it was; sizes of
    /// which it says nothing take as much more or less time as on the calibrated drive.
    #[must_use]
    pub fn on(&self, sheet: &DataSheet) -> Model {
        let mut model = self.clone();
        for (at, parameter) in self.parameters.iter().enumerate() {
            let log = match *parameter {
                Parameter::Parallelism => sheet.parallelism.map(f64::ln),
                Parameter::Service(kind) | Parameter::PerKib(kind) => sheet.time_ns(kind).and_then(|ns| {
                    let known = service_ns(self, kind, SHEET_BYTES).ok()?;
                    Some(self.fitted.logs[at] + (ns / known).ln())
                }),
                _ => None,
            };
            let Some(log) = log else { continue };
            model.fitted.logs[at] = log;
            if !matches!(parameter, Parameter::PerKib(_)) {
                model.fitted.covariance.replace(at, SPREAD * SPREAD);
            }
        }
        model.drive = Some(*sheet);
        model
    }

    /// The model with this kernel in place of its own: on each path, what the kernel alone takes of an I/O
    /// changes as its instructions do, and what the program has a part in as all instructions. The parameters
    /// stay those of the calibrated kernel.
    #[must_use]
    pub fn on_kernel(&self, kernel: Kernel) -> Model {
        Model { kernel: Some(kernel), ..self.clone() }
    }

    /// The kernel in place of the one that it was calibrated on, if there is one.
    pub fn kernel(&self) -> Option<&Kernel> {
        self.kernel.as_ref()
    }

    pub(crate) fn covariance(&self) -> &Square {
        &self.fitted.covariance
    }
}

impl Values for Model {
    fn get(&self, parameter: Parameter) -> Option<f64> {
        let at = self.parameters.binary_search(&parameter).ok()?;
        Some(self.fitted.logs[at].exp())
    }
}

/// Which cells there are, and what others are lacking.
fn too_few(cases: &[Case]) -> String {
    let cell = |case: &Case| {
        let Case { path, rw, bs, iodepth, .. } = case;
        format!("{path} {rw} of {bs} bytes at iodepth {iodepth}")
    };
    let cells = cases.iter().map(cell).collect::<Vec<String>>().join(", ");
    let found = match cases.len() {
        0 => "there is none".to_owned(),
        1 => format!("there is 1 ({cells})"),
        count => format!("there are {count} ({cells})"),
    };
    let lacking = FEWEST_CASES - cases.len();
    format!(
        "a cost model needs {FEWEST_CASES} cells of paths and workloads, and {found}: measure {lacking} \
         more, of other depths (`iodepth`), paths or sizes"
    )
}

/// The parameters that these data say something about, sorted.
fn parameters(observations: &[Observation]) -> Vec<Parameter> {
    // Where no mean was measured, the drive's time is its median.
    let has_means = observations.iter().any(|one| one.quantity == Quantity::LatencyMean);
    let mut all = BTreeSet::new();
    let mut sizes: BTreeMap<Kind, BTreeSet<u32>> = BTreeMap::new();
    let mut paths_of: BTreeMap<Front, BTreeSet<IoPath>> = BTreeMap::new();
    for one in observations {
        let Some(front) = Front::of(one.case.path) else { continue };
        let kinds = Kind::shares(one.case.rw, one.case.rwmixread);
        for (kind, _) in &kinds {
            all.insert(Parameter::Service(*kind));
            sizes.entry(*kind).or_default().insert(one.case.bs);
        }
        if let Some(quantile) = one.quantity.quantile().filter(|one| has_means || *one != Quantile::P50) {
            all.extend(kinds.iter().map(|(kind, _)| Parameter::Tail(quantile, *kind)));
            all.insert(Parameter::TailDeviation(quantile, front));
        }
        paths_of.entry(front).or_default().insert(one.case.path);
        all.extend(of_time(&one.case, front));
        all.extend(of_quantity(&one.case, one.quantity, front));
    }
    let several: Vec<Kind> =
        sizes.iter().filter(|(_, sizes)| sizes.len() > 1).map(|(kind, _)| *kind).collect();
    if !several.is_empty() && all.contains(&Parameter::CpuPerWake) {
        all.insert(Parameter::CpuPerKib);
    }
    all.extend(several.into_iter().map(Parameter::PerKib));
    let has = |quantity| observations.iter().any(|one| one.quantity == quantity);
    if has(Quantity::Iops) && has(Quantity::LatencyMean) {
        all.insert(Parameter::Gap);
    }
    if has(Quantity::Watts) && has(Quantity::AwakeCores) {
        all.insert(Parameter::DeepIdleSaving);
    }
    all.into_iter().collect()
}

/// Parameters of a case's latency.
fn of_time(case: &Case, front: Front) -> Vec<Parameter> {
    let mut all = vec![Parameter::Time(front), Parameter::Deviation(case.path)];
    if case.path.completion() == CompletionMode::Interrupt {
        all.push(Parameter::Interrupt);
        if Waiting::of(case.path) == Waiting::Sleeps {
            all.push(Parameter::Wake);
        }
    }
    if Waiting::of(case.path) == Waiting::Both {
        all.push(Parameter::Timer);
    }
    if front.is_asynchronous() && case.rw.writes() {
        all.push(Parameter::AsyncWrite);
    }
    if case.numjobs.saturating_mul(case.depth()) > 1 {
        all.extend([Parameter::Parallelism, Parameter::Sharpness]);
    }
    if case.depth() > 1 && Waiting::of(case.path) != Waiting::Spins {
        all.push(Parameter::Gathered);
    }
    all
}

/// Parameters of a case's CPU time, instructions and power.
fn of_quantity(case: &Case, quantity: Quantity, front: Front) -> Vec<Parameter> {
    let waiting = Waiting::of(case.path);
    match quantity {
        // A thread that spins all the time says nothing of what its work takes.
        Quantity::CpuPerIo if waiting != Waiting::Spins => {
            let mut all =
                vec![Parameter::Cpu(front), Parameter::CpuPerWake, Parameter::CpuDeviation(case.path)];
            if front != Front::PosixSio && case.batch > 1 {
                all.push(Parameter::CpuPerCall);
            }
            if waiting == Waiting::Both {
                all.push(Parameter::SpinShare);
            }
            all
        }
        Quantity::ContextSwitches if front == Front::PosixAio => vec![Parameter::Handoffs],
        Quantity::Instructions => {
            let of_spinning = (waiting != Waiting::Sleeps).then_some(Parameter::InstructionsPerSpin);
            let of_sleeping = (waiting != Waiting::Spins).then_some(Parameter::InstructionsPerWake);
            [Parameter::Instructions(front)].into_iter().chain(of_spinning).chain(of_sleeping).collect()
        }
        Quantity::Watts | Quantity::IosPerJoule => {
            vec![Parameter::IdlePower, Parameter::CorePower, Parameter::WakeEnergy]
        }
        Quantity::AwakeCores => vec![Parameter::DeepIdleAfter, Parameter::DeepIdleShare],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
