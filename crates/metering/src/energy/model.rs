//! Estimates of a model in a study, and the model that a study with a real meter gives.

use super::config::ModelTable;
use iopj_core::TrialEnergy;
use iopj_core::energy::{EnergyOutcome, Joules, RULES, Scope};
use iopj_core::files::read_regular_text;
use iopj_meter::OpenError;
use iopj_meter::model::{Coefficients, Feature, Features, Observation, estimate};
use iopj_record::Measurement;
use iopj_store::{Store, StoreError};
use serde::{Deserialize, Serialize};

/// The longest coefficient file, in bytes.
const LONGEST: u64 = 1 << 20;
/// Coverage factor of 95 % for infinite degrees of freedom.
const NORMAL_FACTOR: f64 = 1.959_963_984_540_054;

/// A coefficient file as the store keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelText {
    /// What it estimates.
    pub(crate) scope: Scope,
    /// The file's text.
    pub(crate) coefficients: String,
}

impl ModelText {
    /// Reads the file that a study names.
    ///
    /// # Errors
    /// It cannot be read, or holds no coefficients.
    pub(crate) fn read(table: &ModelTable) -> Result<ModelText, OpenError> {
        let path = table.file.display();
        let coefficients = read_regular_text(&table.file, LONGEST).map_err(|error| {
            OpenError(format!("`{path}` cannot be read ({error}): make it by `iopj meter fit`"))
        })?;
        Coefficients::parse(&coefficients).map_err(|error| OpenError(format!("`{path}`: {error}")))?;
        Ok(ModelText { scope: table.scope, coefficients })
    }
}

/// What a model makes of trials.
pub(crate) fn estimates(
    name: &str,
    text: &ModelText,
    trials: &[(u64, &Measurement)],
    cpu_model: &str,
) -> Vec<(u64, TrialEnergy)> {
    let of_trial = |(position, trial): &(u64, &Measurement)| {
        let estimated = Coefficients::parse(&text.coefficients)
            .and_then(|coefficients| estimate(&coefficients, &features(trial, cpu_model)));
        let seconds = trial.window_ns as f64 * 1e-9;
        let outcome = match estimated {
            Ok(power) => {
                let (joules, random_j) = (power.watts * seconds, power.standard * seconds);
                let half = NORMAL_FACTOR * random_j;
                let random_interval = [joules - half, joules + half];
                let (random_dof, interval, above_idle) = (None, None, None);
                EnergyOutcome::Complete(Joules {
                    seconds,
                    joules,
                    random_j,
                    random_dof,
                    random_interval,
                    interval,
                    above_idle,
                })
            }
            Err(error) => EnergyOutcome::Incomplete(error.to_string()),
        };
        let (meter, scope, channels) = (name.to_owned(), text.scope, Vec::new());
        (*position, TrialEnergy { meter, scope, channels, estimated: true, rules: RULES, outcome })
    };
    trials.iter().map(of_trial).collect()
}

/// What was counted over a trial's window, as means over time. Wake-ups are those of the I/O's own threads:
/// the machine's are not kept.
fn features(trial: &Measurement, cpu_model: &str) -> Features {
    let seconds = (trial.window_ns as f64 * 1e-9).max(1e-9);
    let cpu = trial.cpu();
    let process = &trial.evidence.process;
    let switches = process.voluntary_switches + process.involuntary_switches;
    let rate = |ns: u64| ns as f64 * 1e-9 / seconds;
    let values = [
        (Feature::User, rate(cpu.user_ns)),
        (Feature::System, rate(cpu.system_ns)),
        (Feature::Irq, rate(cpu.irq_ns)),
        (Feature::Softirq, rate(cpu.softirq_ns)),
        (Feature::Wakeups, switches as f64 / seconds),
        (Feature::Ios, trial.ios as f64 / seconds),
        (Feature::Bytes, trial.bytes as f64 / seconds),
    ];
    let c_states =
        trial.evidence.c_states.iter().map(|(name, ns)| (Feature::CState(name.clone()), rate(*ns)));
    Features { cpu_model: cpu_model.to_owned(), values: values.into_iter().chain(c_states).collect() }
}

/// Why a store gives no model.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No trial has joules of a real meter.
    #[error("`{0}` has no trial with joules of a real meter: run its study with one (`iopj meter list`)")]
    NoMeter(std::path::PathBuf),
    /// The trials do not determine it.
    #[error("no model can be fitted: {0}")]
    Fit(#[from] iopj_meter::model::FitError),
    /// It cannot be written.
    #[error("the model cannot be written: {0}")]
    Model(#[from] iopj_meter::model::ModelError),
}

/// Fits a model to the trials of a store by its real meter of the widest scope, and gives its coefficient
/// file, the scope, and the features that were left out because they did not vary by themselves.
///
/// # Errors
/// [`FitError`].
pub fn fit(store: &Store) -> Result<(String, Scope, Vec<String>), FitError> {
    let study = store.study()?;
    let cpu_model = study.provenance.get("cpu_model").map_or("", String::as_str);
    let trials = store.trials()?;
    let measured: Vec<&Measurement> = trials.iter().filter_map(|trial| trial.outcome.measurement()).collect();
    let real = |trial: &&Measurement| -> Vec<TrialEnergy> {
        trial.energy.iter().filter(|energy| !energy.estimated && energy.joules().is_some()).cloned().collect()
    };
    let widest = measured.iter().flat_map(real).min_by_key(|energy| energy.scope);
    let Some(TrialEnergy { meter, scope, .. }) = widest else {
        return Err(FitError::NoMeter(store.path().to_owned()));
    };
    let observation = |trial: &&Measurement| {
        let energy = trial.energy.iter().find(|energy| energy.meter == meter && energy.scope == scope)?;
        Some(Observation { watts: energy.joules()?.watts(), features: features(trial, cpu_model) })
    };
    let mut observations: Vec<Observation> = measured.iter().filter_map(observation).collect();
    let source = format!("study `{}`, meter `{meter}`, scope {scope}", study.name);
    let mut left_out = Vec::new();
    loop {
        match iopj_meter::model::fit(&observations, cpu_model, &source) {
            Ok(model) => return Ok((model.to_toml()?, scope, left_out)),
            Err(iopj_meter::model::FitError::Collinear(feature)) => {
                observations.iter_mut().for_each(|one| {
                    one.features.values.remove(&feature);
                });
                left_out.push(feature.to_string());
            }
            Err(error) => return Err(error.into()),
        }
    }
}
