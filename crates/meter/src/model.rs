//! An estimate of the whole machine's power from what the operating system counts. It takes coefficients that
//! were fitted to a real meter on this CPU model, or that cite their source. The result's type says that it
//! is an estimate.

mod fit;

pub use fit::{FitError, Observation, fit};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A quantity that the operating system counts, as a mean rate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Feature {
    // In the order of their names, which is that of a file's covariance.
    /// Bytes that the devices moved per s.
    Bytes,
    /// Cores in the C-state of this name, `/sys/devices/system/cpu/cpu*/cpuidle/state*/time`: s of residency
    /// per s.
    CState(String),
    /// I/Os of the devices per s.
    Ios,
    /// Cores in hardware interrupts, `/proc/stat`: s of CPU time per s.
    Irq,
    /// Cores in soft interrupts.
    Softirq,
    /// Cores in the kernel.
    System,
    /// Cores in user space.
    User,
    /// Context switches per s.
    Wakeups,
}

impl Feature {
    /// Unit of its coefficient.
    pub fn unit(&self) -> &'static str {
        match self {
            Self::User | Self::System | Self::Irq | Self::Softirq | Self::CState(_) => "W per core",
            Self::Wakeups => "J per context switch",
            Self::Ios => "J per I/O",
            Self::Bytes => "J per byte",
        }
    }
}

/// Features with a fixed name.
const NAMED: [(&str, Feature); 7] = [
    ("bytes", Feature::Bytes),
    ("ios", Feature::Ios),
    ("irq", Feature::Irq),
    ("softirq", Feature::Softirq),
    ("system", Feature::System),
    ("user", Feature::User),
    ("wakeups", Feature::Wakeups),
];

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CState(name) => write!(f, "c_state:{name}"),
            named => {
                f.write_str(NAMED.iter().find(|(_, feature)| feature == named).map_or("", |(name, _)| name))
            }
        }
    }
}

impl FromStr for Feature {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let named = NAMED.into_iter().find(|(name, _)| *name == text).map(|(_, feature)| feature);
        let c_state = || text.strip_prefix("c_state:").filter(|name| !name.is_empty()).map(str::to_owned);
        let feature = named.or_else(|| c_state().map(Self::CState));
        feature.ok_or_else(|| ModelError::UnknownFeature(text.to_owned()))
    }
}

impl TryFrom<String> for Feature {
    type Error = ModelError;
    fn try_from(text: String) -> Result<Self, ModelError> {
        text.parse()
    }
}

impl From<Feature> for String {
    fn from(feature: Feature) -> Self {
        feature.to_string()
    }
}

/// What was counted on a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Features {
    /// `model name` of `/proc/cpuinfo`.
    pub cpu_model: String,
    /// Means by feature.
    pub values: BTreeMap<Feature, f64>,
}

/// One coefficient of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coefficient {
    /// W per unit of the feature.
    pub value: f64,
    /// [`Feature::unit`], for the reader.
    pub unit: String,
    /// Standard uncertainty of the value; absent if the source gives none.
    pub standard: Option<f64>,
}

/// A model of one CPU model: a coefficient file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coefficients {
    cpu_model: String,
    /// Where it comes from: a store and its meter, or a publication.
    source: String,
    /// Power with all features at zero, in W.
    constant_watts: f64,
    /// Standard deviation of the residuals, in W.
    residual_standard_watts: f64,
    observations: Option<usize>,
    /// Share of the power's variance that the model explains; absent if the source gives none.
    r_squared: Option<f64>,
    /// Covariance of the constant and the coefficients, in order; absent if the source gives none.
    covariance: Option<Vec<Vec<f64>>>,
    coefficients: BTreeMap<Feature, Coefficient>,
}

/// Power that a model estimates: never a measurement, and never part of a comparison. Its text begins with
/// `est.`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EstimatedPower {
    /// W.
    pub watts: f64,
    /// Standard uncertainty in W, from the residuals of the fit and the uncertainties of the coefficients, if
    /// known.
    pub standard: f64,
}

impl fmt::Display for EstimatedPower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "est. {:.1} W ± {:.1} W", self.watts, self.standard)
    }
}

/// Why a model gives no watts. The text names the cause and the remedy.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum ModelError {
    /// The text is not a coefficient file.
    #[error("the coefficient file cannot be read: {0}; make one with `iopj meter fit`")]
    File(String),
    /// A coefficient of something that is not counted.
    #[error(
        "`{0}` is not counted: use user, system, irq, softirq, c_state:NAME, wakeups, ios or \
         bytes"
    )]
    UnknownFeature(String),
    /// Coefficients of another machine.
    #[error(
        "the coefficients are for `{wanted}`, and this machine has `{found}`: make a coefficient file here, \
         with a real meter and `iopj meter fit`"
    )]
    OtherCpu { wanted: String, found: String },
    /// The machine does not count something that the model needs.
    #[error("the model needs `{0}`, which was not counted here: fit one without it")]
    Missing(Feature),
    /// A number is not finite.
    #[error("`{0}` is not a finite number: correct it")]
    NotFinite(String),
}

impl Coefficients {
    /// Reads a coefficient file (TOML).
    ///
    /// # Errors
    /// [`ModelError::File`] if a key is missing, empty, unknown or has the wrong unit; the others if a number
    /// cannot be used.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let model: Self =
            toml::from_str(text).map_err(|error| ModelError::File(error.message().to_owned()))?;
        model.check().map(|()| model)
    }

    fn check(&self) -> Result<(), ModelError> {
        let text = |name: &str, text: &str| {
            if text.trim().is_empty() { Err(ModelError::File(format!("`{name}` is empty"))) } else { Ok(()) }
        };
        text("cpu_model", &self.cpu_model)?;
        text("source", &self.source)?;
        for (feature, coefficient) in &self.coefficients {
            if coefficient.unit != feature.unit() {
                return Err(ModelError::File(format!("the unit of `{feature}` is not `{}`", feature.unit())));
            }
        }
        let constants = [
            ("constant_watts".to_owned(), self.constant_watts),
            ("residual_standard_watts".to_owned(), self.residual_standard_watts),
        ];
        let own =
            self.coefficients.iter().map(|(feature, coefficient)| (feature.to_string(), coefficient.value));
        let of_covariance =
            self.covariance.iter().flatten().flatten().map(|value| ("covariance".to_owned(), *value));
        let standards = || self.coefficients.values().filter_map(|coefficient| coefficient.standard);
        let of_standards = standards().map(|value| ("standard".to_owned(), value));
        let share = self.r_squared.map(|value| ("r_squared".to_owned(), value));
        let mut numbers =
            constants.into_iter().chain(own).chain(of_covariance).chain(of_standards).chain(share);
        if let Some((name, _)) = numbers.find(|(_, value)| !value.is_finite()) {
            return Err(ModelError::NotFinite(name));
        }
        let mut variances = self.covariance.iter().flatten().enumerate().filter_map(|(at, row)| row.get(at));
        let below = [
            ("residual_standard_watts", self.residual_standard_watts < 0.0),
            ("standard", standards().any(|standard| standard < 0.0)),
            ("covariance", variances.any(|variance| *variance < 0.0)),
        ];
        if let Some((name, _)) = below.into_iter().find(|(_, is_below)| *is_below) {
            return Err(ModelError::File(format!("`{name}` is below zero")));
        }
        if self.r_squared.is_some_and(|share| share > 1.0) {
            return Err(ModelError::File("`r_squared` is no share of a variance".to_owned()));
        }
        let size = self.coefficients.len() + 1;
        let is_square =
            |matrix: &Vec<Vec<f64>>| matrix.len() == size && matrix.iter().all(|row| row.len() == size);
        if self.covariance.as_ref().is_some_and(|matrix| !is_square(matrix)) {
            return Err(ModelError::File(format!(
                "`covariance` is not {size} rows of {size}: the constant, then the coefficients in order"
            )));
        }
        Ok(())
    }

    /// The coefficient file that [`Coefficients::parse`] reads.
    ///
    /// # Errors
    /// [`ModelError::File`] if TOML cannot hold a number.
    pub fn to_toml(&self) -> Result<String, ModelError> {
        toml::to_string(self).map_err(|error| ModelError::File(error.to_string()))
    }
}

/// The machine's power by the model. The standard uncertainty is that of a single prediction: from residuals
/// and coefficients.
///
/// # Errors
/// [`ModelError::OtherCpu`], [`ModelError::Missing`] or [`ModelError::NotFinite`].
pub fn estimate(model: &Coefficients, features: &Features) -> Result<EstimatedPower, ModelError> {
    if model.cpu_model.trim() != features.cpu_model.trim() {
        return Err(ModelError::OtherCpu {
            wanted: model.cpu_model.clone(),
            found: features.cpu_model.clone(),
        });
    }
    let mut point = vec![1.0];
    for feature in model.coefficients.keys() {
        point.push(*features.values.get(feature).ok_or_else(|| ModelError::Missing(feature.clone()))?);
    }
    let slopes =
        model.coefficients.values().zip(&point[1..]).map(|(coefficient, value)| coefficient.value * value);
    let watts = model.constant_watts + slopes.sum::<f64>();
    let of_coefficients = match &model.covariance {
        Some(matrix) => {
            let rows = matrix.iter().zip(&point);
            rows.map(|(row, a)| a * row.iter().zip(&point).map(|(value, b)| value * b).sum::<f64>()).sum()
        }
        // Without covariances the coefficients count as independent.
        None => {
            let terms = model.coefficients.values().zip(&point[1..]);
            terms
                .map(|(coefficient, value)| (coefficient.standard.unwrap_or(0.0) * value).powi(2))
                .sum::<f64>()
        }
    };
    let standard = (model.residual_standard_watts.powi(2) + of_coefficients.max(0.0)).sqrt();
    if watts.is_finite() && standard.is_finite() {
        Ok(EstimatedPower { watts, standard })
    } else {
        Err(ModelError::NotFinite("watts".to_owned()))
    }
}

#[cfg(test)]
mod tests;
