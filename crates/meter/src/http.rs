//! Smart plugs, instruments and exporters that answer with JSON or Prometheus' text over HTTP.

mod config;
mod secret;

pub use config::{HttpConfig, HttpPreset, HttpValue};
pub(crate) use secret::PASSWORD;

use crate::clock::{ReadTime, monotonic_raw_ns};
use crate::config::{ValueKind, time_limit};
use crate::decimal::{JOULES_PER_COUNT, count_of, step_of};
use crate::digest::DigestUser;
use crate::http_client::{Client, Trust, authorization};
use crate::json::{JsonError, json_value, parse_json};
use crate::meter::{Channel, Meter, MeterError, OpenError, Reading, Value};
use crate::prometheus::{MetricError, metric_value, parse_prometheus};
use crate::secret::Secret;
use config::Request;
use iopj_core::Allow;
use serde_json::Value as Json;
use std::time::{Duration, Instant};

/// No meter shows more than the power of the largest plants.
const MOST_WATTS: f64 = 1e9;

/// Opens the meter and reads it once, so a wrong address, password or pointer shows before the study.
///
/// Channels are the configuration's values in order. If several values have one scope, the first is the
/// parent of the others: they measure the same thing in another way. A counter that has not moved gives no
/// reading.
///
/// # Errors
/// [`OpenError`] if the configuration contradicts itself, or if the first reading fails.
pub fn open(config: &HttpConfig, allow: Allow) -> Result<Box<dyn Meter>, OpenError> {
    let request = config.request()?;
    let trust = Trust { ca_file: config.ca_file.as_deref(), insecure: config.insecure };
    let mut client = Client::new(&request.url, trust, allow)?;
    let mut path = request.path.clone();
    let secret = config.secret()?;
    let in_url = path.contains(PASSWORD);
    if in_url && secret.is_none() {
        return Err(OpenError("the url holds {password}: give password_file or password_env".to_owned()));
    }
    if let Some(secret) = secret {
        let user = config.user.as_deref();
        match config.preset {
            _ if in_url => path = path.replace(PASSWORD, &escaped(secret.expose())),
            Some(HttpPreset::Tasmota) => path.push_str(&query_of(user, &secret)),
            Some(HttpPreset::ShellyGen2) => {
                client.digest = Some(DigestUser::new(user.unwrap_or("admin"), secret))
            }
            _ => client.authorization = Some(authorization(user, &secret)?),
        }
    }
    // Not that with the password.
    let address = client.address(&request.path).replace(PASSWORD, "{password}");
    let timeout = time_limit(config.timeout_s)?;
    let mut meter =
        HttpMeter { client, path, address, timeout, request, channels: Vec::new(), counts: Vec::new() };
    let (_, answers) = meter.fetch()?;
    let is_coarse =
        |(answer, value): (&Answer, &HttpValue)| answer.is_whole_second && value.time_factor >= 1.0;
    if answers.iter().zip(&meter.request.values).any(is_coarse) {
        return Err(OpenError(format!(
            "`{}` gives its own time in whole seconds, which is too coarse to place a reading: leave `time` \
             out, and give the age of its values as age_s",
            meter.address
        )));
    }
    meter.channels = channels(config, &meter.request.values, &answers);
    meter.counts = vec![None; meter.channels.len()];
    Ok(Box::new(meter))
}

/// User and password as Tasmota takes them: in the query (Tasmota documentation, "Commands with web
/// requests").
fn query_of(user: Option<&str>, secret: &Secret) -> String {
    format!("&user={}&password={}", escaped(user.unwrap_or("admin")), escaped(secret.expose()))
}

/// Percent-encoding of all but the unreserved characters (RFC 3986, 2.3).
fn escaped(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let of = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(of).collect()
}

fn channels(config: &HttpConfig, values: &[HttpValue], answers: &[Answer]) -> Vec<Channel> {
    let scope_of = |value: &HttpValue| value.scope.unwrap_or(config.scope);
    let channel = |(index, value): (usize, &HttpValue)| {
        let first =
            values.iter().position(|other| scope_of(other) == scope_of(value)).filter(|first| *first < index);
        let window_ns = (value.window_s.unwrap_or(0.0) * 1e9) as u64;
        Channel {
            name: value.name.clone(),
            scope: scope_of(value),
            kind: value.kind.channel(window_ns, JOULES_PER_COUNT, None),
            resolution: value.resolution.unwrap_or_else(|| step_of(answers[index].number) * value.factor),
            accuracy: config.accuracy,
            parent: first.map(|first| values[first].name.clone()),
        }
    };
    values.iter().enumerate().map(channel).collect()
}

/// The number that the device answered for one value.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Answer {
    number: f64,
    own_ns: Option<i64>,
    /// The device's own time has no decimals.
    is_whole_second: bool,
}

/// The numbers of all values in an answer's text.
fn answers(request: &Request, text: &str, address: &str) -> Result<Vec<Answer>, MeterError> {
    if request.values.iter().any(|value| value.metric.is_some()) {
        in_metrics(request, text, address)
    } else {
        in_json(request, text, address)
    }
}

fn in_json(request: &Request, text: &str, address: &str) -> Result<Vec<Answer>, MeterError> {
    let fault = |error: JsonError| {
        let text = format!("`{address}` {error}");
        if error.is_passing() { MeterError::Retry(text) } else { MeterError::Fatal(text) }
    };
    let document = parse_json(text).map_err(fault)?;
    match request.valid.as_ref().map(|pointer| (pointer, document.pointer(pointer))) {
        None | Some((_, Some(Json::Bool(true)))) => {}
        Some((_, Some(_))) => {
            return Err(MeterError::Retry(format!(
                "`{address}` says that its values are not valid now: check the device"
            )));
        }
        Some((pointer, None)) => {
            return Err(MeterError::Fatal(format!("`{address}` has nothing at `{pointer}`: check `valid`")));
        }
    }
    let answer = |value: &HttpValue| {
        let number = json_value(&document, value.pointer.as_deref().unwrap_or_default()).map_err(fault)?;
        let Some(pointer) = &value.time else {
            return Ok(Answer { number, own_ns: None, is_whole_second: false });
        };
        let time = json_value(&document, pointer).map_err(fault)?;
        let is_whole_second = document.pointer(pointer).is_some_and(|time| time.is_i64() || time.is_u64());
        Ok(Answer { number, own_ns: Some(own_ns(time, value.time_factor)), is_whole_second })
    };
    request.values.iter().map(answer).collect()
}

fn in_metrics(request: &Request, text: &str, address: &str) -> Result<Vec<Answer>, MeterError> {
    let samples = parse_prometheus(text).map_err(|error| {
        MeterError::Retry(format!("`{address}`: {error}; check that it is the exporter's path"))
    })?;
    let fault = |error: MetricError| {
        let text = format!("`{address}` {error}");
        match error {
            MetricError::NoNumber(_) => MeterError::Retry(text),
            _ => MeterError::Fatal(text),
        }
    };
    let answer = |value: &HttpValue| {
        let name = value.metric.as_deref().unwrap_or_default();
        let number = metric_value(&samples, name, &value.labels).map_err(fault)?;
        let time =
            value.time.as_ref().map(|name| metric_value(&samples, name, &Default::default())).transpose();
        let own_ns = time.map_err(fault)?.map(|time| own_ns(time, value.time_factor));
        Ok(Answer { number, own_ns, is_whole_second: false })
    };
    request.values.iter().map(answer).collect()
}

/// Whole seconds and their fraction are scaled apart: seconds since 1970 leave an `f64` no digits for ns.
fn own_ns(time: f64, factor: f64) -> i64 {
    let seconds = time * factor;
    let whole = seconds.floor();
    (whole as i64).saturating_mul(1_000_000_000).saturating_add(((seconds - whole) * 1e9) as i64)
}

struct HttpMeter {
    client: Client,
    /// May hold a password: never shown.
    path: String,
    address: String,
    timeout: Duration,
    request: Request,
    channels: Vec<Channel>,
    /// What each counter last showed.
    counts: Vec<Option<u64>>,
}

impl HttpMeter {
    /// When the request began, and the numbers in its answer.
    fn fetch(&mut self) -> Result<(u64, Vec<Answer>), MeterError> {
        let begin_ns = monotonic_raw_ns();
        let answer = self.client.get(&self.path, Instant::now() + self.timeout);
        let text = answer.map_err(|error| error.at(&self.address))?;
        Ok((begin_ns, answers(&self.request, &text, &self.address)?))
    }

    /// The reading's value; `None` for a counter that has not moved.
    fn value(&mut self, index: usize, number: f64) -> Result<Option<Value>, MeterError> {
        let scaled = number * self.request.values[index].factor;
        if self.request.values[index].kind != ValueKind::Counter {
            if scaled.abs() <= MOST_WATTS {
                return Ok(Some(Value::Watts(scaled)));
            }
            let name = &self.channels[index].name;
            return Err(MeterError::Retry(format!(
                "`{}` says {scaled:e} W in `{name}`, which no meter shows: check its pointer and its factor",
                self.address
            )));
        }
        let count = count_of(scaled).ok_or_else(|| {
            let name = &self.channels[index].name;
            MeterError::Retry(format!(
                "`{}` counts {scaled} J in `{name}`, which no counter shows: check its factor",
                self.address
            ))
        })?;
        Ok((self.counts[index].replace(count) != Some(count)).then_some(Value::Count(count)))
    }
}

impl Meter for HttpMeter {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), MeterError> {
        let (begin_ns, answers) = self.fetch()?;
        let time = ReadTime::since(begin_ns);
        for (channel, answer) in answers.into_iter().enumerate() {
            if let Some(value) = self.value(channel, answer.number)? {
                out.push(Reading { own_ns: answer.own_ns, ..time.reading(channel, value) });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
