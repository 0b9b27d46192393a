//! A server's management controller over Redfish: power and energy of its chassis, over HTTPS.
//!
//! Source: DMTF DSP0266 (protocol: service root, sessions, authentication) and DSP8010 (schemas).

mod document;

pub use document::{ChassisPower, CountedEnergy, MeanPower, parse_redfish};

use crate::clock::{ReadTime, monotonic_raw_ns};
use crate::config::{self, time_limit};
use crate::decimal::{JOULES_PER_COUNT, count_of, step_of};
use crate::http_client::{Client, Trust, WebError, authorization, parse_url, sensitive};
use crate::json::{JsonError, parse_json};
use crate::meter::{Accuracy, Channel, ChannelKind, Meter, MeterError, OpenError, Reading, Scope, Value};
use crate::secret::Secret;
use document::{is_local, link, members};
use iopj_core::Allow;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use ureq::http::header::{HeaderName, LOCATION};

const SERVICE_ROOT: &str = "/redfish/v1/";
const TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
/// Chassis that are looked at; more than any server has.
const MOST_CHASSIS: usize = 64;

/// A `redfish` meter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedfishConfig {
    /// The controller: `https://HOST[:PORT]`.
    pub url: String,
    /// `Id` of the chassis; needed where several report their power.
    pub chassis: Option<String>,
    /// How the user logs in.
    #[serde(default)]
    pub login: RedfishLogin,
    /// The user; without one nobody logs in.
    pub user: Option<String>,
    /// File that holds the password.
    pub password_file: Option<PathBuf>,
    /// Environment variable that holds the password.
    pub password_env: Option<String>,
    /// What the chassis' power measures.
    #[serde(default)]
    pub scope: Scope,
    /// What the maker declares.
    pub accuracy: Option<Accuracy>,
    /// How old a value may be when it is read, in s. Redfish does not say; 10 if absent.
    #[serde(default = "ten_seconds")]
    pub age_s: f64,
    /// PEM file with the authorities that may sign the controller's certificate; Mozilla's if absent.
    pub ca_file: Option<PathBuf>,
    /// Whether to accept any certificate.
    #[serde(default)]
    pub insecure: bool,
    /// Time limit of a reading, and of each step while the meter is opened, in s.
    #[serde(default = "ten_seconds")]
    pub timeout_s: f64,
}

/// How a user logs in at the controller (DSP0266, "Authentication").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RedfishLogin {
    /// One session, its token with each request, deleted at the end.
    #[default]
    Session,
    /// User and password with each request.
    Basic,
}

fn ten_seconds() -> f64 {
    10.0
}

impl RedfishConfig {
    /// How old a value may be when it is read, in ns: the age of [`Clock::Host`](crate::Clock::Host).
    pub fn age_ns(&self) -> u64 {
        config::age_ns(self.age_s)
    }
}

/// Opens the meter: logs in, finds the chassis, and reads it once.
///
/// The channels that the chassis has of these: `CHASSIS power` (instant), `CHASSIS energy` (counter),
/// `CHASSIS average`. The newer `EnvironmentMetrics` is preferred to `Power`. The first channel is the parent
/// of the others: they measure the same thing.
///
/// # Errors
/// [`OpenError`] if the configuration contradicts itself, if the controller cannot be read or trusted, or if
/// not exactly one chassis reports its power.
pub fn open(config: &RedfishConfig, allow: Allow) -> Result<Box<dyn Meter>, OpenError> {
    let url = parse_url(&config.url)?;
    if url.scheme_str() != Some("https") || url.path() != "/" || url.query().is_some() {
        return Err(OpenError(
            "the url of a redfish meter is the controller's address: write it as https://HOST[:PORT]".into(),
        ));
    }
    config::check_age(config.age_s)?;
    let secret = Secret::read(config.password_file.as_deref(), config.password_env.as_deref())?;
    let credentials = match (&config.user, secret) {
        (Some(user), Some(secret)) => Some((user.clone(), secret)),
        (None, None) => None,
        _ => {
            return Err(OpenError(
                "user and password belong together: give user, and password_file or password_env".into(),
            ));
        }
    };
    let trust = Trust { ca_file: config.ca_file.as_deref(), insecure: config.insecure };
    let client = Client::new(&url, trust, allow)?;
    let mut service = Service {
        client,
        timeout: time_limit(config.timeout_s)?,
        credentials,
        sessions: None,
        session: None,
    };
    let root = service.document(SERVICE_ROOT)?;
    service.login(config.login, &root)?;
    let chassis = find(&mut service, config.chassis.as_deref(), &root)?;
    let channels = channels(config, &chassis);
    Ok(Box::new(RedfishMeter { service, chassis, channels, count: None }))
}

/// The controller, and the credentials for it.
struct Service {
    client: Client,
    timeout: Duration,
    credentials: Option<(String, Secret)>,
    /// Path at which sessions are opened, if the login uses one.
    sessions: Option<String>,
    /// Path of the open session.
    session: Option<String>,
}

impl Service {
    fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    fn login(&mut self, login: RedfishLogin, root: &Json) -> Result<(), OpenError> {
        let Some((user, secret)) = &self.credentials else { return Ok(()) };
        match login {
            RedfishLogin::Basic => self.client.authorization = Some(authorization(Some(user), secret)?),
            RedfishLogin::Session => {
                let usual = || format!("{SERVICE_ROOT}SessionService/Sessions");
                self.sessions = Some(link(root, "/Links/Sessions").unwrap_or_else(usual));
                let address = self.client.address(self.sessions.as_deref().unwrap_or_default());
                self.open_session(self.deadline()).map_err(|error| error.at(&address))?;
            }
        }
        Ok(())
    }

    fn open_session(&mut self, deadline: Instant) -> Result<(), WebError> {
        let (Some(path), Some((user, secret))) = (&self.sessions, &self.credentials) else { return Ok(()) };
        let body = json!({ "UserName": user, "Password": secret.expose() }).to_string();
        let response = self.client.post(path, &body, deadline)?;
        let bad = || WebError::Lasting("opens a session without a token: set login = \"basic\"".to_owned());
        let token = response.headers().get(&TOKEN).and_then(|token| token.to_str().ok()).ok_or_else(bad)?;
        self.client.authorization = Some((TOKEN, sensitive(token).map_err(|_| bad())?));
        let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        self.session = location.and_then(local_path);
        Ok(())
    }

    /// Opens a session that has expired (401) again, once.
    fn get(&mut self, path: &str, deadline: Instant) -> Result<String, WebError> {
        match self.client.get(path, deadline) {
            Err(WebError::Status(401)) if self.sessions.is_some() => {
                self.open_session(deadline)?;
                self.client.get(path, deadline)
            }
            answer => answer,
        }
    }

    fn document(&mut self, path: &str) -> Result<Json, MeterError> {
        let text = self.get(path, self.deadline()).map_err(|error| error.at(&self.client.address(path)))?;
        parse_json(&text).map_err(|error| self.malformed(path, &error))
    }

    fn power(&mut self, path: &str, deadline: Instant) -> Result<ChassisPower, MeterError> {
        let text = self.get(path, deadline).map_err(|error| error.at(&self.client.address(path)))?;
        parse_redfish(&text).map_err(|error| self.malformed(path, &error))
    }

    fn malformed(&self, path: &str, error: &JsonError) -> MeterError {
        MeterError::Retry(format!("`{}` {error}", self.client.address(path)))
    }
}

impl Drop for Service {
    /// Controllers have few sessions: one that is left open locks others out until it expires.
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            self.client.delete(session, self.deadline());
        }
    }
}

/// The path of a session's `Location`, which may be a full address.
fn local_path(location: &str) -> Option<String> {
    let path = match location.split_once("://") {
        Some((_, rest)) => &rest[rest.find('/')?..],
        None => location,
    };
    is_local(path).then(|| path.to_owned())
}

/// A chassis that reports its power.
struct Chassis {
    id: String,
    /// The paths of its documents, and what each said at first.
    documents: Vec<(String, ChassisPower)>,
}

fn find(service: &mut Service, wanted: Option<&str>, root: &Json) -> Result<Chassis, OpenError> {
    let all = link(root, "/Chassis").unwrap_or_else(|| format!("{SERVICE_ROOT}Chassis"));
    let all = service.document(&all)?;
    let (mut others, mut found) = (Vec::new(), Vec::new());
    for path in members(&all).into_iter().take(MOST_CHASSIS) {
        let document = service.document(&path)?;
        let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let id = document.get("Id").and_then(Json::as_str).unwrap_or(last).to_owned();
        if wanted.is_none_or(|wanted| wanted == id) {
            let documents = power_documents(service, &document)?;
            found.extend((!documents.is_empty()).then_some(Chassis { id, documents }));
        } else {
            others.push((id, document));
        }
    }
    let address = service.client.address("");
    match (found.len(), wanted) {
        (1, _) => Ok(found.remove(0)),
        (0, wanted) => {
            // One that cannot be read is not worth naming.
            others.retain(|(_, chassis)| power_documents(service, chassis).is_ok_and(|all| !all.is_empty()));
            let ids: Vec<&str> = others.iter().map(|(id, _)| id.as_str()).collect();
            Err(OpenError(match wanted {
                Some(wanted) if !ids.is_empty() => format!(
                    "`{address}` has no chassis `{wanted}` that reports its power: name one of these as \
                     `chassis`: {}",
                    ids.join(", ")
                ),
                _ => format!("`{address}` has no chassis that reports its power: use another meter"),
            }))
        }
        _ => Err(OpenError(format!(
            "several chassis of `{address}` report their power: name one as chassis: {}",
            found.iter().map(|chassis| chassis.id.as_str()).collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// The documents with power or energy. `Power` is older, and read only if `EnvironmentMetrics` has no power.
fn power_documents(service: &mut Service, chassis: &Json) -> Result<Vec<(String, ChassisPower)>, OpenError> {
    let mut documents = Vec::new();
    let mut has_watts = false;
    for pointer in ["/EnvironmentMetrics", "/Power"] {
        let Some(path) = link(chassis, pointer).filter(|_| !has_watts) else { continue };
        let text = match service.get(&path, service.deadline()) {
            // Some controllers link to documents that do not exist.
            Err(WebError::Status(404)) => continue,
            answer => answer.map_err(|error| error.at(&service.client.address(&path)))?,
        };
        let power = parse_redfish(&text).map_err(|error| service.malformed(&path, &error))?;
        has_watts |= power.watts.is_some();
        if power != ChassisPower::default() {
            documents.push((path, power));
        }
    }
    Ok(documents)
}

/// What a channel takes from a document.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Quantity {
    Power,
    Energy,
    Average,
}

/// Each quantity that the chassis has, with the index of its document.
fn quantities(chassis: &Chassis) -> Vec<(Quantity, usize)> {
    let has = |quantity: Quantity, power: &ChassisPower| match quantity {
        Quantity::Power => power.watts.is_some(),
        Quantity::Energy => power.energy.is_some(),
        Quantity::Average => power.mean.is_some(),
    };
    let document = |quantity| chassis.documents.iter().position(|(_, power)| has(quantity, power));
    let all = [Quantity::Power, Quantity::Energy, Quantity::Average];
    all.into_iter().filter_map(|quantity| Some((quantity, document(quantity)?))).collect()
}

fn channels(config: &RedfishConfig, chassis: &Chassis) -> Vec<Channel> {
    let mut channels: Vec<Channel> = Vec::new();
    for (quantity, document) in quantities(chassis) {
        let power = chassis.documents[document].1;
        let (word, kind, resolution) = match quantity {
            Quantity::Power => ("power", ChannelKind::Instant, power.watts.map_or(0.0, step_of)),
            Quantity::Energy => {
                let kind = ChannelKind::Counter { joules_per_count: JOULES_PER_COUNT, wrap: None };
                ("energy", kind, power.energy.map_or(0.0, |energy| energy.resolution_j))
            }
            Quantity::Average => {
                let window_ns = power.mean.map_or(0, |mean| mean.window_ns);
                let step = power.mean.map_or(0.0, |mean| step_of(mean.watts));
                ("average", ChannelKind::Average { window_ns }, step)
            }
        };
        let parent = channels.first().map(|first| first.name.clone());
        let (name, scope, accuracy) = (format!("{} {word}", chassis.id), config.scope, config.accuracy);
        channels.push(Channel { name, scope, kind, resolution, accuracy, parent });
    }
    channels
}

struct RedfishMeter {
    service: Service,
    chassis: Chassis,
    channels: Vec<Channel>,
    /// What the energy counter last showed.
    count: Option<u64>,
}

impl RedfishMeter {
    /// The value of a channel; `None` for a counter that has not moved, and for a mean over another interval
    /// than the channel's. A value that is missing is an error: the controller has none now.
    fn value(
        &mut self,
        quantity: Quantity,
        channel: usize,
        power: &ChassisPower,
    ) -> Result<Option<Value>, MeterError> {
        let name = &self.channels[channel].name;
        let address = self.service.client.address("");
        let missing =
            || MeterError::Retry(format!("`{address}` has no value of `{name}` now: it is busy or starting"));
        match quantity {
            Quantity::Power => Ok(Some(Value::Watts(power.watts.ok_or_else(missing)?))),
            Quantity::Average => {
                let mean = power.mean.ok_or_else(missing)?;
                let kind = ChannelKind::Average { window_ns: mean.window_ns };
                Ok((self.channels[channel].kind == kind).then_some(Value::Watts(mean.watts)))
            }
            Quantity::Energy => {
                let count = power.energy.and_then(|energy| count_of(energy.joules)).ok_or_else(missing)?;
                Ok((self.count.replace(count) != Some(count)).then_some(Value::Count(count)))
            }
        }
    }
}

impl Meter for RedfishMeter {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), MeterError> {
        let deadline = self.service.deadline();
        let quantities = quantities(&self.chassis);
        for document in 0..self.chassis.documents.len() {
            let path = self.chassis.documents[document].0.clone();
            let begin_ns = monotonic_raw_ns();
            let power = self.service.power(&path, deadline)?;
            let time = ReadTime::since(begin_ns);
            for (channel, (quantity, _)) in
                quantities.iter().enumerate().filter(|(_, (_, of))| *of == document)
            {
                if let Some(value) = self.value(*quantity, channel, &power)? {
                    out.push(time.reading(channel, value));
                }
            }
        }
        Ok(())
    }
}
