//! A model as a small TOML file: provenance, parameters with their units, spreads and correlations, what the
//! formula misses, and the cases that calibrated it.

use crate::case::{Case, Quantity};
use crate::fit::Fitted;
use crate::linear::Square;
use crate::model::Model;
use crate::parameter::Parameter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Logarithms and spreads beyond these are no measurement's.
const WIDEST: RangeInclusive<f64> = -70.0..=70.0;
/// The version of the file's form.
const VERSION: u32 = 1;

/// Why a text is no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It is not TOML, or has not the form of a model.
    #[error("this is no cost model: {0}")]
    Form(String),
    /// A newer iopj wrote it.
    #[error("the model has version {0}, and this iopj knows version {VERSION}: use the iopj that wrote it")]
    Version(u32),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    version: u32,
    data: usize,
    #[serde(default)]
    provenance: BTreeMap<String, String>,
    /// Standard deviation of the logarithm over cells.
    misfit: BTreeMap<Quantity, f64>,
    parameter: Vec<TextParameter>,
    case: Vec<Case>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TextParameter {
    name: String,
    value: f64,
    unit: String,
    /// Standard deviation of the logarithm.
    spread: f64,
    /// Correlations of the logarithm with those of the parameters before.
    correlations: Vec<f64>,
}

/// A correlation to six digits, which is more than data give.
fn rounded(correlation: f64) -> f64 {
    (correlation * 1e6).round() / 1e6
}

impl Model {
    /// The model's text.
    ///
    /// # Errors
    /// TOML has no word for a value in it.
    pub fn to_toml(&self) -> Result<String, FileError> {
        let spreads: Vec<f64> = self.parameters().map(|(_, _, spread)| spread).collect();
        let parameter = self.parameters().enumerate().map(|(at, (name, value, spread))| TextParameter {
            name: name.to_string(),
            value,
            unit: name.unit().to_owned(),
            spread,
            correlations: (0..at)
                .map(|other| rounded(self.covariance().get(at, other) / (spread * spreads[other])))
                .collect(),
        });
        let text = Text {
            version: VERSION,
            data: self.data,
            provenance: self.provenance.clone(),
            misfit: self.fitted.misfit.iter().map(|(one, variance)| (*one, variance.sqrt())).collect(),
            parameter: parameter.collect(),
            case: self.cases.clone(),
        };
        toml::to_string(&text).map_err(|error| FileError::Form(error.to_string()))
    }

    /// The model of a text.
    ///
    /// # Errors
    /// It is no model, or one of a newer form.
    pub fn from_toml(text: &str) -> Result<Model, FileError> {
        let form = |why: String| FileError::Form(why);
        let text: Text = toml::from_str(text).map_err(|error| form(error.message().to_owned()))?;
        if text.version != VERSION {
            return Err(FileError::Version(text.version));
        }
        let mut rows = text.parameter.iter().map(TextParameter::read).collect::<Result<Vec<_>, _>>()?;
        let n = rows.len();
        if let Some((one, ..)) =
            rows.iter().enumerate().find_map(|(at, row)| (row.3.len() != at).then_some(row))
        {
            return Err(form(format!("`{one}` has not one correlation for each parameter before it")));
        }
        let mut covariance = vec![vec![0.0; n]; n];
        for at in 0..n {
            covariance[at][at] = rows[at].2.powi(2);
            for other in 0..at {
                let cell = rows[at].3[other] * rows[at].2 * rows[other].2;
                (covariance[at][other], covariance[other][at]) = (cell, cell);
            }
        }
        if rows.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err(form("its parameters are not in order, or one stands there twice".to_owned()));
        }
        let all_of = |ok: bool, what: &str| if ok { Ok(()) } else { Err(form(what.to_owned())) };
        let misfit: BTreeMap<Quantity, f64> = text.misfit.into_iter().map(|(one, s)| (one, s * s)).collect();
        all_of(misfit.values().all(|variance| WIDEST.contains(variance)), "a misfit is beyond all measure")?;
        all_of(!text.case.is_empty() && text.data > 0, "it has no case that calibrated it")?;
        let is_sound = |case: &Case| case.numjobs > 0 && case.iodepth > 0 && case.bs > 0 && case.cores > 0;
        all_of(text.case.iter().all(is_sound), "a case has a count of 0")?;
        let logs = rows.iter_mut().map(|row| row.1.ln()).collect();
        let covariance = Square::of_rows(&covariance).ok_or_else(|| form("no covariance".to_owned()))?;
        let parameters = rows.into_iter().map(|row| row.0).collect();
        let fitted = Fitted { logs, covariance, misfit };
        Ok(Model {
            provenance: text.provenance,
            parameters,
            fitted,
            cases: text.case,
            data: text.data,
            drive: None,
            kernel: None,
        })
    }
}

impl TextParameter {
    /// Name, value, spread and correlations.
    fn read(&self) -> Result<(Parameter, f64, f64, Vec<f64>), FileError> {
        let name: Parameter =
            self.name.parse().map_err(|error: crate::UnknownParameter| FileError::Form(error.to_string()))?;
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        if !is_positive(self.value) || !is_positive(self.spread) {
            return Err(FileError::Form(format!("`{name}` has a value or a spread that is not positive")));
        }
        if !WIDEST.contains(&self.value.ln()) || !WIDEST.contains(&self.spread) {
            return Err(FileError::Form(format!("`{name}` has a value or a spread beyond all measure")));
        }
        if self.correlations.iter().any(|one| !one.is_finite() || one.abs() > 1.0 + 1e-9) {
            return Err(FileError::Form(format!("`{name}` has a correlation that is not between -1 and 1")));
        }
        Ok((name, self.value, self.spread, self.correlations.clone()))
    }
}
