//! An estimate of the whole machine's power from what the operating system counts, only with coefficients
//! that were fitted to a real meter on this CPU model, or that cite their source. What comes out is an
//! estimate, and its type says so.

mod fit;

pub use fit::{FitError, Observation, fit};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// What the operating system counts, as a mean over a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.write_str("user"),
            Self::System => f.write_str("system"),
            Self::Irq => f.write_str("irq"),
            Self::Softirq => f.write_str("softirq"),
            Self::CState(name) => write!(f, "c_state:{name}"),
            Self::Wakeups => f.write_str("wakeups"),
            Self::Ios => f.write_str("ios"),
            Self::Bytes => f.write_str("bytes"),
        }
    }
}

impl FromStr for Feature {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        Ok(match text {
            "user" => Self::User,
            "system" => Self::System,
            "irq" => Self::Irq,
            "softirq" => Self::Softirq,
            "wakeups" => Self::Wakeups,
            "ios" => Self::Ios,
            "bytes" => Self::Bytes,
            _ => match text.strip_prefix("c_state:").filter(|name| !name.is_empty()) {
                Some(name) => Self::CState(name.to_owned()),
                None => return Err(ModelError::UnknownFeature(text.to_owned())),
            },
        })
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
    /// Standard uncertainty of the value; absent in a file whose source gives none.
    pub standard: Option<f64>,
}

/// A model of one CPU model: a coefficient file.
#[derive(Clone, Debug, PartialEq)]
pub struct Coefficients {
    cpu_model: String,
    source: String,
    constant_watts: f64,
    residual_standard_watts: f64,
    observations: Option<usize>,
    r_squared: Option<f64>,
    coefficients: BTreeMap<Feature, Coefficient>,
    /// Covariance of the constant and the coefficients, in order; absent where the source gives none.
    covariance: Option<Vec<Vec<f64>>>,
}

/// A coefficient file as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cpu_model: String,
    source: String,
    constant_watts: f64,
    residual_standard_watts: f64,
    observations: Option<usize>,
    r_squared: Option<f64>,
    covariance: Option<Vec<Vec<f64>>>,
    coefficients: BTreeMap<String, Coefficient>,
}

/// Power that a model estimates: never a measurement, and never part of a comparison. Its text begins with
/// `est.`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EstimatedPower {
    /// W.
    pub watts: f64,
    /// Standard uncertainty in W: of the residuals the model left, and of its coefficients where they are
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
pub enum ModelError {
    /// The text is no coefficient file.
    #[error("the coefficient file cannot be read: {0}; make one with `iopj meter fit`")]
    File(String),
    /// A coefficient of nothing that is counted.
    #[error(
        "`{0}` is nothing that is counted: use user, system, irq, softirq, c_state:NAME, wakeups, ios or \
         bytes"
    )]
    UnknownFeature(String),
    /// Coefficients of another machine.
    #[error(
        "the coefficients are of `{wanted}` and this machine has `{found}`: make a coefficient file here, \
         with a real meter and `iopj meter fit`"
    )]
    OtherCpu {
        /// The file's CPU model.
        wanted: String,
        /// This machine's.
        found: String,
    },
    /// The machine does not count something that the model needs.
    #[error("the model needs `{0}`, which was not counted here: fit one without it")]
    Missing(Feature),
    /// A figure is not finite.
    #[error("`{0}` is not a finite number: correct the figure")]
    NotFinite(String),
}

impl Coefficients {
    /// Reads a coefficient file (TOML).
    ///
    /// # Errors
    /// [`ModelError::File`] where a field is absent, empty, of the wrong unit, or unknown; the others where a
    /// figure cannot be used.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let file: File =
            toml::from_str(text).map_err(|error| ModelError::File(error.message().to_owned()))?;
        let mut coefficients = BTreeMap::new();
        for (name, coefficient) in file.coefficients {
            let feature: Feature = name.parse()?;
            if coefficient.unit != feature.unit() {
                return Err(ModelError::File(format!("the unit of `{name}` is not `{}`", feature.unit())));
            }
            coefficients.insert(feature, coefficient);
        }
        let model = Self {
            cpu_model: file.cpu_model,
            source: file.source,
            constant_watts: file.constant_watts,
            residual_standard_watts: file.residual_standard_watts,
            observations: file.observations,
            r_squared: file.r_squared,
            coefficients,
            covariance: file.covariance,
        };
        model.check().map(|()| model)
    }

    fn check(&self) -> Result<(), ModelError> {
        let text = |name: &str, text: &str| {
            if text.trim().is_empty() { Err(ModelError::File(format!("`{name}` is empty"))) } else { Ok(()) }
        };
        text("cpu_model", &self.cpu_model)?;
        text("source", &self.source)?;
        let figures = [
            ("constant_watts", self.constant_watts),
            ("residual_standard_watts", self.residual_standard_watts),
        ];
        let own =
            self.coefficients.iter().map(|(feature, coefficient)| (feature.to_string(), coefficient.value));
        let of_covariance =
            self.covariance.iter().flatten().flatten().map(|value| ("covariance".to_owned(), *value));
        for (name, value) in
            figures.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(own).chain(of_covariance)
        {
            if !value.is_finite() {
                return Err(ModelError::NotFinite(name));
            }
        }
        if self.residual_standard_watts < 0.0 {
            return Err(ModelError::File("`residual_standard_watts` is below zero".to_owned()));
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
    /// [`ModelError::File`] where TOML cannot hold a figure.
    pub fn to_toml(&self) -> Result<String, ModelError> {
        let coefficients =
            self.coefficients.iter().map(|(feature, coefficient)| (feature.to_string(), coefficient.clone()));
        let file = File {
            cpu_model: self.cpu_model.clone(),
            source: self.source.clone(),
            constant_watts: self.constant_watts,
            residual_standard_watts: self.residual_standard_watts,
            observations: self.observations,
            r_squared: self.r_squared,
            covariance: self.covariance.clone(),
            coefficients: coefficients.collect(),
        };
        toml::to_string(&file).map_err(|error| ModelError::File(error.to_string()))
    }

    /// The CPU model that it is of.
    pub fn cpu_model(&self) -> &str {
        &self.cpu_model
    }

    /// Where it comes from: a store and its meter, or a publication.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Power with all features at zero, in W.
    pub fn constant_watts(&self) -> f64 {
        self.constant_watts
    }

    /// Standard deviation in W of what the model left unexplained.
    pub fn residual_standard_watts(&self) -> f64 {
        self.residual_standard_watts
    }

    /// Share of the power's variance that the model explained; absent in a file whose source gives none.
    pub fn r_squared(&self) -> Option<f64> {
        self.r_squared
    }

    /// The coefficients by feature.
    pub fn coefficients(&self) -> &BTreeMap<Feature, Coefficient> {
        &self.coefficients
    }
}

/// The machine's power as the model has it. The standard uncertainty is that of a single prediction:
/// residuals and coefficients.
///
/// # Errors
/// [`ModelError::OtherCpu`], [`ModelError::Missing`] or [`ModelError::NotFinite`]: then there are no watts.
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
        // Without covariances each coefficient errs on its own.
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
#[path = "model_tests.rs"]
mod tests;
