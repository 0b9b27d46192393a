//! A server's management controller over Redfish: power and energy of its chassis, over HTTPS.
//!
//! Source: DMTF DSP0266 (protocol: service root, sessions, authentication) and DSP8010 (schemas).

mod document;

pub use document::{ChassisPower, CountedEnergy, MeanPower, parse_redfish};

use crate::clock::monotonic_raw_ns;
use crate::http::{JOULES_PER_COUNT, count_of};
use crate::json::{ValueError, parse_json};
use crate::meter::{Accuracy, Channel, ChannelKind, Meter, MeterError, Reading, Scope, Value};
use crate::open::OpenError;
use crate::secret::Secret;
use crate::web::{
    self, Client, Trust, WebError, at_open, authorization, parse_url, sensitive, step_of, time_limit, wall_ns,
};
use document::{is_local, link, members};
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
    /// `Id` of the chassis; needed where several tell their power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chassis: Option<String>,
    /// How the user is told.
    #[serde(default)]
    pub login: RedfishLogin,
    /// User; without one nobody logs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// File that holds the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// Environment variable that holds the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_env: Option<String>,
    /// What the chassis' power is of.
    #[serde(default = "system")]
    pub scope: Scope,
    /// What the maker declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<Accuracy>,
    /// A value may be as old as this, in s, when it is read. Redfish does not say; 10 if absent.
    #[serde(default = "ten_seconds")]
    pub age_s: f64,
    /// Certificates, in PEM, that the controller's may be signed by; Mozilla's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The controller's certificate is not checked.
    #[serde(default)]
    pub insecure: bool,
    /// Time limit of a reading, and of each step while the meter is opened, in s.
    #[serde(default = "ten_seconds")]
    pub timeout_s: f64,
}

/// How a user is told to the controller (DSP0266, "Authentication").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RedfishLogin {
    /// One session, its token with each request, deleted at the end.
    #[default]
    Session,
    /// User and password with each request.
    Basic,
}

fn system() -> Scope {
    Scope::System
}

fn ten_seconds() -> f64 {
    10.0
}

impl RedfishConfig {
    /// How old a value may be when it is read, in ns: the age of [`Clock::Host`](crate::Clock::Host).
    pub fn age_ns(&self) -> u64 {
        web::age_ns(self.age_s)
    }
}

/// Opens the meter: logs in, finds the chassis, and reads it once.
///
/// Channels are, as far as the chassis tells them: `CHASSIS power` (instant), `CHASSIS energy` (counter),
/// `CHASSIS average`. The newer `EnvironmentMetrics` is preferred to `Power`. The first of the channels is
/// the parent of the others: they measure the same.
///
/// # Errors
/// [`OpenError`] for a configuration that contradicts itself, a controller that cannot be read or trusted,
/// and where no chassis, or more than one, tells its power.
pub fn open(config: &RedfishConfig) -> Result<Box<dyn Meter>, OpenError> {
    let url = parse_url(&config.url)?;
    if url.scheme_str() != Some("https") || url.path() != "/" || url.query().is_some() {
        return Err(OpenError(
            "a redfish meter's url is the controller's address: write it as https://HOST[:PORT]".into(),
        ));
    }
    web::check_age(config.age_s)?;
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
    let client = Client::new(&url, Trust { ca_file: config.ca_file.as_deref(), insecure: config.insecure })?;
    let mut service = Service {
        client,
        timeout: time_limit(config.timeout_s)?,
        credentials,
        sessions: None,
        session: None,
    };
    let root = service.document(SERVICE_ROOT).map_err(at_open)?;
    service.login(config.login, &root)?;
    let chassis = find(&mut service, config.chassis.as_deref(), &root)?;
    let channels = channels(config, &chassis);
    Ok(Box::new(RedfishMeter { service, chassis, channels, count: None }))
}

/// The controller, and how it knows its user.
struct Service {
    client: Client,
    timeout: Duration,
    credentials: Option<(String, Secret)>,
    /// Path at which sessions are made, if sessions are.
    sessions: Option<String>,
    /// Path of the session that is open.
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
                self.open_session(self.deadline()).map_err(|error| at_open(error.of(&address)))?;
            }
        }
        Ok(())
    }

    fn open_session(&mut self, deadline: Instant) -> Result<(), WebError> {
        let (Some(path), Some((user, secret))) = (&self.sessions, &self.credentials) else { return Ok(()) };
        let body = json!({ "UserName": user, "Password": secret.expose() }).to_string();
        let response = self.client.post(path, &body, deadline)?;
        let bad = || WebError::Lasting("gives a session no token: set login = \"basic\"".to_owned());
        let token = response.headers().get(&TOKEN).and_then(|token| token.to_str().ok()).ok_or_else(bad)?;
        self.client.authorization = Some((TOKEN, sensitive(token).map_err(|_| bad())?));
        let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        self.session = location.and_then(local_path);
        Ok(())
    }

    /// A session that has run out (401) is opened again, once.
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
        let text = self.get(path, self.deadline()).map_err(|error| error.of(&self.client.address(path)))?;
        parse_json(&text).map_err(|error| self.malformed(path, &error))
    }

    fn power(&mut self, path: &str, deadline: Instant) -> Result<ChassisPower, MeterError> {
        let text = self.get(path, deadline).map_err(|error| error.of(&self.client.address(path)))?;
        parse_redfish(&text).map_err(|error| self.malformed(path, &error))
    }

    fn malformed(&self, path: &str, error: &ValueError) -> MeterError {
        MeterError::Retry(format!("`{}` {error}", self.client.address(path)))
    }
}

impl Drop for Service {
    /// Controllers have few sessions: one that is left open locks others out until it runs out.
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            self.client.delete(session, self.deadline());
        }
    }
}

/// The path of a session's `Location`, which may be a whole address.
fn local_path(location: &str) -> Option<String> {
    let path = match location.split_once("://") {
        Some((_, rest)) => &rest[rest.find('/')?..],
        None => location,
    };
    is_local(path).then(|| path.to_owned())
}

/// A chassis that tells its power.
struct Chassis {
    id: String,
    /// Its documents, and what each told at first.
    sources: Vec<(String, ChassisPower)>,
}

fn find(service: &mut Service, wanted: Option<&str>, root: &Json) -> Result<Chassis, OpenError> {
    let all = link(root, "/Chassis").unwrap_or_else(|| format!("{SERVICE_ROOT}Chassis"));
    let all = service.document(&all).map_err(at_open)?;
    let (mut ids, mut found) = (Vec::new(), Vec::new());
    for path in members(&all).into_iter().take(MOST_CHASSIS) {
        let document = service.document(&path).map_err(at_open)?;
        let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let id = document.get("Id").and_then(Json::as_str).unwrap_or(last).to_owned();
        ids.push(id.clone());
        if wanted.is_none_or(|wanted| wanted == id) {
            let sources = sources(service, &document)?;
            found.extend((!sources.is_empty()).then_some(Chassis { id, sources }));
        }
    }
    let address = service.client.address("");
    match (found.len(), wanted) {
        (1, _) => Ok(found.remove(0)),
        (0, Some(wanted)) => Err(OpenError(format!(
            "`{address}` has no chassis `{wanted}` that tells its power: it has {}",
            ids.join(", ")
        ))),
        (0, None) => {
            Err(OpenError(format!("`{address}` has no chassis that tells its power: use another meter")))
        }
        _ => Err(OpenError(format!(
            "several chassis of `{address}` tell their power: name one as chassis: {}",
            found.iter().map(|chassis| chassis.id.as_str()).collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// `Power` is older, and asked only for what `EnvironmentMetrics` does not tell.
fn sources(service: &mut Service, chassis: &Json) -> Result<Vec<(String, ChassisPower)>, OpenError> {
    let mut sources = Vec::new();
    let mut has_watts = false;
    for pointer in ["/EnvironmentMetrics", "/Power"] {
        let Some(path) = link(chassis, pointer).filter(|_| !has_watts) else { continue };
        let text = match service.get(&path, service.deadline()) {
            // Linked, and not there: some controllers do so.
            Err(WebError::Status(404)) => continue,
            answer => answer.map_err(|error| at_open(error.of(&service.client.address(&path))))?,
        };
        let told = parse_redfish(&text).map_err(|error| at_open(service.malformed(&path, &error)))?;
        has_watts |= told.watts.is_some();
        if told != ChassisPower::default() {
            sources.push((path, told));
        }
    }
    Ok(sources)
}

/// What a channel takes of a document.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Quantity {
    Power,
    Energy,
    Average,
}

/// Each quantity that the chassis tells, with the document that tells it.
fn quantities(chassis: &Chassis) -> Vec<(Quantity, usize)> {
    let has = |quantity: Quantity, told: &ChassisPower| match quantity {
        Quantity::Power => told.watts.is_some(),
        Quantity::Energy => told.energy.is_some(),
        Quantity::Average => told.mean.is_some(),
    };
    let place = |quantity| chassis.sources.iter().position(|(_, told)| has(quantity, told));
    let all = [Quantity::Power, Quantity::Energy, Quantity::Average];
    all.into_iter().filter_map(|quantity| Some((quantity, place(quantity)?))).collect()
}

fn channels(config: &RedfishConfig, chassis: &Chassis) -> Vec<Channel> {
    let mut channels: Vec<Channel> = Vec::new();
    for (quantity, source) in quantities(chassis) {
        let told = chassis.sources[source].1;
        let (word, kind, resolution) = match quantity {
            Quantity::Power => ("power", ChannelKind::Instant, told.watts.map_or(0.0, step_of)),
            Quantity::Energy => {
                let kind = ChannelKind::Counter { joules_per_count: JOULES_PER_COUNT, wrap: None };
                ("energy", kind, told.energy.map_or(0.0, |energy| energy.resolution_j))
            }
            Quantity::Average => {
                let window_ns = told.mean.map_or(0, |mean| mean.window_ns);
                (
                    "average",
                    ChannelKind::Average { window_ns },
                    told.mean.map_or(0.0, |mean| step_of(mean.watts)),
                )
            }
        };
        let parent = channels.first().map(|first| first.name.clone());
        let name = format!("{} {word}", chassis.id);
        channels.push(Channel {
            name,
            scope: config.scope,
            kind,
            resolution,
            accuracy: config.accuracy,
            parent,
        });
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
    /// The value that a channel takes of what was told; `None` for a counter that has not moved, and a mean
    /// over another interval than the channel's. A value that is missing for once is an error: the controller
    /// has none now.
    fn value(
        &mut self,
        quantity: Quantity,
        channel: usize,
        told: &ChassisPower,
    ) -> Result<Option<Value>, MeterError> {
        let name = &self.channels[channel].name;
        let address = self.service.client.address("");
        let missing =
            || MeterError::Retry(format!("`{address}` has no value of `{name}` now: it is busy or starting"));
        match quantity {
            Quantity::Power => Ok(Some(Value::Watts(told.watts.ok_or_else(missing)?))),
            Quantity::Average => {
                let mean = told.mean.ok_or_else(missing)?;
                let kind = ChannelKind::Average { window_ns: mean.window_ns };
                Ok((self.channels[channel].kind == kind).then_some(Value::Watts(mean.watts)))
            }
            Quantity::Energy => {
                let count = told.energy.and_then(|energy| count_of(energy.joules)).ok_or_else(missing)?;
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
        for source in 0..self.chassis.sources.len() {
            let path = self.chassis.sources[source].0.clone();
            let begin_ns = monotonic_raw_ns();
            let told = self.service.power(&path, deadline)?;
            let (end_ns, wall_ns) = (monotonic_raw_ns(), wall_ns());
            for (channel, (quantity, _)) in quantities.iter().enumerate().filter(|(_, (_, of))| *of == source)
            {
                if let Some(value) = self.value(*quantity, channel, &told)? {
                    out.push(Reading { channel, value, begin_ns, end_ns, wall_ns, own_ns: None });
                }
            }
        }
        Ok(())
    }
}
