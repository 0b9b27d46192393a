//! The keys of an `http` meter, and the request that they and its preset describe.

use crate::config::{self, ValueKind};
use crate::http_client::parse_url;
use crate::meter::{Accuracy, OpenError, Scope};
use crate::secret::Secret;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use ureq::http::Uri;

/// An `http` meter: a smart plug, an instrument or an exporter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    /// Its address; with a preset for a plug, without a path.
    pub url: String,
    /// A kind of device with known paths and values.
    pub preset: Option<HttpPreset>,
    /// The outlet of a plug with several, counted from 0; for the Shelly presets.
    pub outlet: Option<u8>,
    /// What to read. A preset for a plug knows it.
    #[serde(default)]
    pub values: Vec<HttpValue>,
    /// JSON pointer to a boolean; the values count only while it is `true`.
    pub valid: Option<String>,
    /// What a value without a scope of its own measures.
    #[serde(default)]
    pub scope: Scope,
    /// What the maker or a calibration declares, for all values.
    pub accuracy: Option<Accuracy>,
    /// How old a value may be when it is read, in s: 1 for plugs and 0 for others if absent.
    pub age_s: Option<f64>,
    /// The user for basic authentication, or for what the preset's device asks for, where it is `admin` if
    /// absent. Elsewhere a password without a user is a bearer token.
    pub user: Option<String>,
    /// File that holds the password.
    pub password_file: Option<PathBuf>,
    /// Environment variable that holds the password.
    pub password_env: Option<String>,
    /// PEM file with the authorities that may sign an https server's certificate; Mozilla's if absent.
    pub ca_file: Option<PathBuf>,
    /// Whether to accept any certificate.
    #[serde(default)]
    pub insecure: bool,
    /// Time limit of a reading, in s.
    #[serde(default = "two_seconds")]
    pub timeout_s: f64,
}

/// One value of an `http` meter: in JSON at a pointer, or in Prometheus' text under a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpValue {
    /// The channel's name.
    pub name: String,
    /// JSON pointer (RFC 6901), `/StatusSNS/ENERGY/Power`.
    pub pointer: Option<String>,
    /// Prometheus metric.
    pub metric: Option<String>,
    /// Labels that select exactly one sample of the metric.
    pub labels: BTreeMap<String, String>,
    /// What the number means.
    pub kind: ValueKind,
    /// Length of an average's window, in s.
    pub window_s: Option<f64>,
    /// Factor from the number to watts, or to joules for a counter: 0.001 for mW, 3600 for Wh.
    pub factor: f64,
    /// The number's smallest step, in W or J; if absent, the step of its last decimal when the meter is
    /// opened.
    pub resolution: Option<f64>,
    /// What it measures; the meter's scope if absent.
    pub scope: Option<Scope>,
    /// JSON pointer or Prometheus metric of the meter's own time of the value, finer than whole seconds.
    pub time: Option<String>,
    /// Factor from the own time to seconds: 0.001 for ms.
    pub time_factor: f64,
}

/// Devices whose answers are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HttpPreset {
    /// `/meter/N`: `power` in W, `total` in W min. Shelly API reference, Gen1, "Shelly Plug/PlugS: /meter/0".
    #[serde(rename = "shelly-gen1")]
    ShellyGen1,
    /// `/rpc/Switch.GetStatus?id=N`: `apower` in W, `aenergy.total` in Wh. Shelly API reference, Gen2+,
    /// "Switch", status; with a password by digest authentication, "Authentication".
    #[serde(rename = "shelly-gen2")]
    ShellyGen2,
    /// `/cm?cmnd=Status%208`: `StatusSNS.ENERGY.Power` in W, `Total` in kWh. Tasmota documentation,
    /// "Commands", "JSON status responses".
    Tasmota,
    /// `/metrics` if the url has no path; the values name metrics. Prometheus documentation, "Exposition
    /// formats".
    Prometheus,
}

fn two_seconds() -> f64 {
    2.0
}

impl Default for HttpValue {
    fn default() -> Self {
        Self {
            name: "power".to_owned(),
            pointer: None,
            metric: None,
            labels: BTreeMap::new(),
            kind: ValueKind::Instant,
            window_s: None,
            factor: 1.0,
            resolution: None,
            scope: None,
            time: None,
            time_factor: 1.0,
        }
    }
}

impl HttpValue {
    fn check(&self) -> Result<(), OpenError> {
        let bad = |what: &str| Err(OpenError(format!("value `{}` of the http meter {what}", self.name)));
        let is_positive = |number: f64| number.is_finite() && number > 0.0;
        let is_pointer = |text: &String| text.is_empty() || text.starts_with('/');
        match (&self.pointer, &self.metric) {
            (Some(pointer), None) if !is_pointer(pointer) => {
                return bad("has a pointer that does not begin with `/`");
            }
            (Some(_), None) if !self.labels.is_empty() => {
                return bad("has labels, which only metrics have: leave them out");
            }
            (Some(_), None) if !self.time.iter().all(is_pointer) => {
                return bad("has a time that does not begin with `/`");
            }
            (Some(_), None) | (None, Some(_)) => {}
            _ => return bad("must have either a pointer or a metric"),
        }
        match (self.kind, self.window_s) {
            (ValueKind::Average, Some(seconds)) if is_positive(seconds) && seconds <= 86_400.0 => {}
            (ValueKind::Average, _) => {
                return bad("is an average: give the length of its window as window_s");
            }
            (_, Some(_)) => return bad("has a window_s, which only averages have: leave it out"),
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

/// What is requested, and what is read from the answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) url: Uri,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) values: Vec<HttpValue>,
    pub(crate) valid: Option<String>,
}

impl HttpConfig {
    /// How old a value may be when it is read, in ns: the age of [`Clock::Host`](crate::Clock::Host).
    pub fn age_ns(&self) -> u64 {
        config::age_ns(self.age_s.unwrap_or(if self.is_plug() { 1.0 } else { 0.0 }))
    }

    fn is_plug(&self) -> bool {
        !matches!(self.preset, None | Some(HttpPreset::Prometheus))
    }

    pub(crate) fn secret(&self) -> Result<Option<Secret>, OpenError> {
        let secret = Secret::read(self.password_file.as_deref(), self.password_env.as_deref())?;
        match (&secret, &self.user) {
            (None, Some(user)) => {
                Err(OpenError(format!("user `{user}` has no password: name password_file or password_env")))
            }
            _ => Ok(secret),
        }
    }

    pub(crate) fn request(&self) -> Result<Request, OpenError> {
        self.age_s.map_or(Ok(()), config::check_age)?;
        let place = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        let host = self.url.len() - place.len() + place.find(['/', '?', '#']).unwrap_or(place.len());
        if self.url[..host].contains("{password}") {
            return Err(OpenError(
                "the http meter's url has {password} in its host: write it into the path or the query".into(),
            ));
        }
        let url = parse_url(&self.url.replace("{password}", super::PASSWORD))?;
        let given = url.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let outlet = self.outlet.unwrap_or(0);
        let plug = |path: String, power: &str, energy: &str, factor: f64| {
            let power = HttpValue { pointer: Some(power.to_owned()), ..HttpValue::default() };
            let (name, pointer, kind) = ("energy".to_owned(), Some(energy.to_owned()), ValueKind::Counter);
            (path, vec![power, HttpValue { name, pointer, kind, factor, ..HttpValue::default() }])
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
        self.check(&given, &values)?;
        let valid = match self.preset {
            Some(HttpPreset::ShellyGen1) => Some("/is_valid".to_owned()),
            _ => self.valid.clone(),
        };
        Ok(Request { url, path, values, valid })
    }

    fn check(&self, given: &str, values: &[HttpValue]) -> Result<(), OpenError> {
        let bad = |text: &str| Err(OpenError(format!("the http meter {text}")));
        if self.is_plug() && (given != "/" || !self.values.is_empty() || self.valid.is_some()) {
            return bad(
                "has a preset that knows the path and the values: give only the plug's address, or no preset",
            );
        }
        let has_outlets = matches!(self.preset, Some(HttpPreset::ShellyGen1 | HttpPreset::ShellyGen2));
        if self.outlet.is_some() && !has_outlets {
            return bad(
                "has an outlet, which only the Shelly presets take: name it in the path or the pointer",
            );
        }
        if values.is_empty() {
            return bad("reads nothing: give values with a pointer or a metric, or a preset for a plug");
        }
        values.iter().try_for_each(HttpValue::check)?;
        let metrics = values.iter().filter(|value| value.metric.is_some()).count();
        if metrics != 0 && metrics != values.len() {
            return bad("reads both pointers and metrics: an answer is either JSON or Prometheus' text");
        }
        if metrics == 0 && self.preset == Some(HttpPreset::Prometheus) {
            return bad("reads Prometheus' text: name metrics, not pointers");
        }
        if metrics != 0 && self.valid.is_some() {
            return bad("has `valid`, a JSON pointer, but reads Prometheus' text: leave it out");
        }
        let names: BTreeSet<&str> = values.iter().map(|value| value.name.as_str()).collect();
        if names.len() != values.len() { bad("has two values with one name: rename one") } else { Ok(()) }
    }
}
