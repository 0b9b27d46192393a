//! What a study says about an `http` meter, and what the presets make of it.

use crate::meter::{Accuracy, Scope};
use crate::open::OpenError;
use crate::secret::Secret;
use crate::web;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use ureq::http::Uri;

/// An `http` meter: a smart plug, an instrument or an exporter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    /// Where it answers; with a preset for a plug, the plug's address without a path.
    pub url: String,
    /// A kind of device whose paths and values are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<HttpPreset>,
    /// Which outlet of a plug with several, from 0; of the Shelly presets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlet: Option<u8>,
    /// What to read. A preset for a plug says so itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<HttpValue>,
    /// JSON pointer to a `true` without which the values do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid: Option<String>,
    /// What is measured where a value does not say.
    #[serde(default = "system")]
    pub scope: Scope,
    /// What the maker or a calibration declares, for all values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<Accuracy>,
    /// A value may be as old as this, in s, when it is read: 1 for plugs, 0 for others if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_s: Option<f64>,
    /// User of basic authentication. A password without a user is a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// File that holds the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// Environment variable that holds the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_env: Option<String>,
    /// Certificates, in PEM, that an https server's may be signed by; Mozilla's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The server's certificate is not checked.
    #[serde(default)]
    pub insecure: bool,
    /// Time limit of a reading, in s.
    #[serde(default = "two_seconds")]
    pub timeout_s: f64,
}

/// One value of an `http` meter: in JSON at a pointer, or in Prometheus' text under a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpValue {
    /// The channel's name.
    #[serde(default = "power")]
    pub name: String,
    /// JSON pointer (RFC 6901), `/StatusSNS/ENERGY/Power`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// Prometheus metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Labels that the metric must carry; one metric must be left.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What the number means.
    #[serde(default)]
    pub kind: HttpKind,
    /// Length of an average's window, in s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_s: Option<f64>,
    /// Makes watts of the number, or joules of a counter's: 0.001 for mW, 3600 for Wh.
    #[serde(default = "one")]
    pub factor: f64,
    /// The number's least step, in W or J; what its last decimal shows when the meter is opened if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<f64>,
    /// What is measured, if not the meter's scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// Where the meter's own time of the value stands, finer than whole seconds: a JSON pointer, or a
    /// Prometheus metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Makes seconds of the own time: 0.001 for ms.
    #[serde(default = "one")]
    pub time_factor: f64,
}

/// What a number means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HttpKind {
    /// Power at the instant.
    #[default]
    Instant,
    /// Mean power of the window that ends at the instant.
    Average,
    /// Energy that only grows.
    Counter,
}

/// Devices whose answers are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HttpPreset {
    /// `/meter/N`: `power` in W, `total` in W min. Shelly API reference, Gen1, "Shelly Plug/PlugS: /meter/0".
    #[serde(rename = "shelly-gen1")]
    ShellyGen1,
    /// `/rpc/Switch.GetStatus?id=N`: `apower` in W, `aenergy.total` in Wh. Shelly API reference, Gen2+,
    /// "Switch", status.
    #[serde(rename = "shelly-gen2")]
    ShellyGen2,
    /// `/cm?cmnd=Status%208`: `StatusSNS.ENERGY.Power` in W, `Total` in kWh. Tasmota documentation,
    /// "Commands", "JSON status responses".
    Tasmota,
    /// `/metrics` if the url has no path; the values name metrics. Prometheus documentation, "Exposition
    /// formats".
    Prometheus,
}

fn system() -> Scope {
    Scope::System
}

fn two_seconds() -> f64 {
    2.0
}

fn power() -> String {
    "power".to_owned()
}

fn one() -> f64 {
    1.0
}

impl HttpValue {
    fn at(name: &str, pointer: &str, kind: HttpKind, factor: f64) -> Self {
        Self {
            name: name.to_owned(),
            pointer: Some(pointer.to_owned()),
            metric: None,
            labels: BTreeMap::new(),
            kind,
            window_s: None,
            factor,
            resolution: None,
            scope: None,
            time: None,
            time_factor: 1.0,
        }
    }

    fn check(&self) -> Result<(), OpenError> {
        let bad = |what: &str| Err(OpenError(format!("value `{}` of the http meter {what}", self.name)));
        let is_positive = |number: f64| number.is_finite() && number > 0.0;
        let is_pointer = |text: &String| text.is_empty() || text.starts_with('/');
        match (&self.pointer, &self.metric) {
            (Some(pointer), None) if !is_pointer(pointer) => {
                return bad("has a pointer that does not begin with `/`");
            }
            (Some(_), None) if !self.labels.is_empty() => {
                return bad("has labels, which only a metric has: leave them out");
            }
            (Some(_), None) if !self.time.iter().all(is_pointer) => {
                return bad("has a time that does not begin with `/`");
            }
            (Some(_), None) | (None, Some(_)) => {}
            _ => return bad("must have a pointer or a metric, and not both"),
        }
        match (self.kind, self.window_s) {
            (HttpKind::Average, Some(seconds)) if is_positive(seconds) && seconds <= 86_400.0 => {}
            (HttpKind::Average, _) => return bad("is an average: give the length of its window as window_s"),
            (_, Some(_)) => return bad("has a window_s, which only an average has: leave it out"),
            (_, None) => {}
        }
        if !is_positive(self.factor) || !is_positive(self.time_factor) {
            return bad("has a factor that is not above 0");
        }
        match self.resolution {
            Some(resolution) if !resolution.is_finite() || resolution < 0.0 => {
                bad("has a resolution below 0")
            }
            _ => Ok(()),
        }
    }
}

/// What a configuration comes to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) url: Uri,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) values: Vec<HttpValue>,
    pub(crate) valid: Option<String>,
    /// The password goes into the query, as this device wants it.
    pub(crate) password_in_query: bool,
}

impl HttpConfig {
    /// How old a value may be when it is read, in ns: the age of [`Clock::Host`](crate::Clock::Host).
    pub fn age_ns(&self) -> u64 {
        let is_plug = !matches!(self.preset, None | Some(HttpPreset::Prometheus));
        web::age_ns(self.age_s.unwrap_or(if is_plug { 1.0 } else { 0.0 }))
    }

    pub(crate) fn secret(&self) -> Result<Option<Secret>, OpenError> {
        let secret = Secret::read(self.password_file.as_deref(), self.password_env.as_deref())?;
        match (&secret, &self.user, self.preset) {
            (Some(_), _, Some(HttpPreset::ShellyGen2)) => Err(OpenError(
                "Shelly plugs of the second generation take digest authentication only, which is not \
                 supported: switch their authentication off in a network of their own, or read them through \
                 a Prometheus exporter"
                    .to_owned(),
            )),
            (None, Some(user), _) => {
                Err(OpenError(format!("user `{user}` has no password: name password_file or password_env")))
            }
            _ => Ok(secret),
        }
    }

    pub(crate) fn plan(&self) -> Result<Plan, OpenError> {
        self.age_s.map_or(Ok(()), web::check_age)?;
        let url = web::parse_url(&self.url)?;
        let given = url.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let outlet = self.outlet.unwrap_or(0);
        let counter = HttpKind::Counter;
        let plug = |path: String, power: &str, energy: &str, factor: f64| {
            (
                path,
                vec![
                    HttpValue::at("power", power, HttpKind::Instant, 1.0),
                    HttpValue::at("energy", energy, counter, factor),
                ],
            )
        };
        let (path, values) = match self.preset {
            Some(HttpPreset::ShellyGen1) => plug(format!("/meter/{outlet}"), "/power", "/total", 60.0),
            Some(HttpPreset::ShellyGen2) => {
                plug(format!("/rpc/Switch.GetStatus?id={outlet}"), "/apower", "/aenergy/total", 3600.0)
            }
            Some(HttpPreset::Tasmota) => {
                let path = "/cm?cmnd=Status%208".to_owned();
                plug(path, "/StatusSNS/ENERGY/Power", "/StatusSNS/ENERGY/Total", 3.6e6)
            }
            Some(HttpPreset::Prometheus) if given == "/" => ("/metrics".to_owned(), self.values.clone()),
            Some(HttpPreset::Prometheus) | None => (given.clone(), self.values.clone()),
        };
        let is_plug = !matches!(self.preset, None | Some(HttpPreset::Prometheus));
        self.check(is_plug, &given, &values)?;
        let valid = match self.preset {
            Some(HttpPreset::ShellyGen1) => Some("/is_valid".to_owned()),
            _ => self.valid.clone(),
        };
        Ok(Plan { url, path, values, valid, password_in_query: self.preset == Some(HttpPreset::Tasmota) })
    }

    fn check(&self, is_plug: bool, given: &str, values: &[HttpValue]) -> Result<(), OpenError> {
        let bad = |text: &str| Err(OpenError(format!("the http meter {text}")));
        if is_plug && (given != "/" || !self.values.is_empty() || self.valid.is_some()) {
            return bad(
                "has a preset that knows path and values: give only the plug's address, or no preset",
            );
        }
        let has_outlets = matches!(self.preset, Some(HttpPreset::ShellyGen1 | HttpPreset::ShellyGen2));
        if self.outlet.is_some() && !has_outlets {
            return bad(
                "has an outlet, which only the Shelly presets know: name it in the path or the pointer",
            );
        }
        if values.is_empty() {
            return bad("reads nothing: give values with a pointer or a metric, or a preset for a plug");
        }
        values.iter().try_for_each(HttpValue::check)?;
        let metrics = values.iter().filter(|value| value.metric.is_some()).count();
        if metrics != 0 && metrics != values.len() {
            return bad("reads pointers and metrics: an answer is either JSON or Prometheus' text");
        }
        if metrics == 0 && self.preset == Some(HttpPreset::Prometheus) {
            return bad("reads Prometheus' text: name metrics, not pointers");
        }
        if metrics != 0 && self.valid.is_some() {
            return bad("has a pointer `valid`, which Prometheus' text cannot have: leave it out");
        }
        let names: BTreeSet<&str> = values.iter().map(|value| value.name.as_str()).collect();
        if names.len() != values.len() { bad("has two values of one name: name them apart") } else { Ok(()) }
    }
}
