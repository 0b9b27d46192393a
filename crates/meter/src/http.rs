//! Smart plugs, instruments and exporters that answer JSON or Prometheus' text over HTTP.

mod config;

pub use config::{HttpConfig, HttpKind, HttpPreset, HttpValue};

use crate::clock::monotonic_raw_ns;
use crate::json::{json_value, parse_json};
use crate::meter::{Channel, ChannelKind, Meter, MeterError, Reading, Value};
use crate::open::OpenError;
use crate::prometheus::{MetricError, metric_value, parse_prometheus};
use crate::secret::Secret;
use crate::web::{Client, Trust, at_open, authorization, step_of, time_limit, wall_ns};
use config::Plan;
use serde_json::Value as Json;
use std::time::{Duration, Instant};

/// Counters are counted in mJ: decimals of Wh and kWh come out whole.
pub(crate) const JOULES_PER_COUNT: f64 = 1e-3;

/// Opens the meter and reads it once, so that a wrong address, password or pointer shows before the study.
///
/// Channels are the configuration's values in order. Of several values of one scope the later ones name the
/// first as their parent: they measure the same in another way. A counter that has not moved gives no
/// reading.
///
/// # Errors
/// [`OpenError`] for a configuration that contradicts itself, and for whatever keeps the first reading from
/// being made.
pub fn open(config: &HttpConfig) -> Result<Box<dyn Meter>, OpenError> {
    let plan = config.plan()?;
    let trust = Trust { ca_file: config.ca_file.as_deref(), insecure: config.insecure };
    let mut client = Client::new(&plan.url, trust)?;
    let mut path = plan.path.clone();
    if let Some(secret) = config.secret()? {
        if plan.password_in_query {
            path.push_str(&query_of(config.user.as_deref(), &secret));
        } else {
            client.authorization = Some(authorization(config.user.as_deref(), &secret)?);
        }
    }
    let address = client.address(&path);
    let mut meter = HttpMeter {
        client,
        path,
        address,
        timeout: time_limit(config.timeout_s)?,
        plan,
        channels: Vec::new(),
        counts: Vec::new(),
    };
    let (_, figures) = meter.fetch().map_err(at_open)?;
    if figures
        .iter()
        .zip(&meter.plan.values)
        .any(|(figure, value)| figure.is_whole_second && value.time_factor >= 1.0)
    {
        return Err(OpenError(format!(
            "`{}` tells its own time in whole seconds, too coarse to place a reading: leave `time` out, and \
             give the age of its values as age_s",
            meter.address
        )));
    }
    meter.channels = channels(config, &meter.plan.values, &figures);
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

fn channels(config: &HttpConfig, values: &[HttpValue], figures: &[Figure]) -> Vec<Channel> {
    let scope_of = |value: &HttpValue| value.scope.unwrap_or(config.scope);
    let channel = |(index, value): (usize, &HttpValue)| {
        let first =
            values.iter().position(|other| scope_of(other) == scope_of(value)).filter(|first| *first < index);
        Channel {
            name: value.name.clone(),
            scope: scope_of(value),
            kind: match value.kind {
                HttpKind::Instant => ChannelKind::Instant,
                HttpKind::Average => {
                    ChannelKind::Average { window_ns: (value.window_s.unwrap_or(0.0) * 1e9) as u64 }
                }
                HttpKind::Counter => ChannelKind::Counter { joules_per_count: JOULES_PER_COUNT, wrap: None },
            },
            resolution: value.resolution.unwrap_or_else(|| step_of(figures[index].number) * value.factor),
            accuracy: config.accuracy,
            parent: first.map(|first| values[first].name.clone()),
        }
    };
    values.iter().enumerate().map(channel).collect()
}

/// A number as it was answered.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figure {
    number: f64,
    own_ns: Option<i64>,
    /// The own time was written without decimals.
    is_whole_second: bool,
}

/// Makes a figure of each value from an answer.
fn figures(plan: &Plan, text: &str, address: &str) -> Result<Vec<Figure>, MeterError> {
    if plan.values.iter().any(|value| value.metric.is_some()) {
        in_metrics(plan, text, address)
    } else {
        in_json(plan, text, address)
    }
}

fn in_json(plan: &Plan, text: &str, address: &str) -> Result<Vec<Figure>, MeterError> {
    let fault = |error: crate::json::ValueError| {
        let text = format!("`{address}` {error}");
        if error.is_passing() { MeterError::Retry(text) } else { MeterError::Fatal(text) }
    };
    let document = parse_json(text).map_err(fault)?;
    match plan.valid.as_ref().map(|pointer| (pointer, document.pointer(pointer))) {
        None | Some((_, Some(Json::Bool(true)))) => {}
        Some((_, Some(_))) => {
            return Err(MeterError::Retry(format!(
                "`{address}` says that its values are not valid now: see the device"
            )));
        }
        Some((pointer, None)) => {
            return Err(MeterError::Fatal(format!("`{address}` has nothing at `{pointer}`: see `valid`")));
        }
    }
    let figure = |value: &HttpValue| {
        let number = json_value(&document, value.pointer.as_deref().unwrap_or_default()).map_err(fault)?;
        let Some(pointer) = &value.time else {
            return Ok(Figure { number, own_ns: None, is_whole_second: false });
        };
        let time = json_value(&document, pointer).map_err(fault)?;
        let is_whole_second = document.pointer(pointer).is_some_and(|time| time.is_i64() || time.is_u64());
        Ok(Figure { number, own_ns: Some(own_ns(time, value.time_factor)), is_whole_second })
    };
    plan.values.iter().map(figure).collect()
}

fn in_metrics(plan: &Plan, text: &str, address: &str) -> Result<Vec<Figure>, MeterError> {
    let samples = parse_prometheus(text).map_err(|error| {
        MeterError::Retry(format!("`{address}`: {error}; see that it is the exporter's path"))
    })?;
    let fault = |error: MetricError| {
        let text = format!("`{address}` {error}");
        if matches!(error, MetricError::NoNumber(_)) {
            MeterError::Retry(text)
        } else {
            MeterError::Fatal(text)
        }
    };
    let figure = |value: &HttpValue| {
        let number = metric_value(&samples, value.metric.as_deref().unwrap_or_default(), &value.labels)
            .map_err(fault)?;
        let time =
            value.time.as_ref().map(|name| metric_value(&samples, name, &Default::default())).transpose();
        let own_ns = time.map_err(fault)?.map(|time| own_ns(time, value.time_factor));
        Ok(Figure { number, own_ns, is_whole_second: false })
    };
    plan.values.iter().map(figure).collect()
}

/// Whole seconds and their fraction apart, so that ns do not drown in the seconds since 1970.
fn own_ns(time: f64, factor: f64) -> i64 {
    let seconds = time * factor;
    let whole = seconds.floor();
    (whole as i64).saturating_mul(1_000_000_000).saturating_add(((seconds - whole) * 1e9) as i64)
}

/// A counter's number in mJ; `None` for what no counter shows.
pub(crate) fn count_of(joules: f64) -> Option<u64> {
    let count = (joules / JOULES_PER_COUNT).round();
    // Beyond 2^53 neighbouring counts would fall together.
    (0.0..9_007_199_254_740_992.0).contains(&count).then_some(count as u64)
}

struct HttpMeter {
    client: Client,
    /// May hold a password: not shown.
    path: String,
    address: String,
    timeout: Duration,
    plan: Plan,
    channels: Vec<Channel>,
    /// What each counter last showed.
    counts: Vec<Option<u64>>,
}

impl HttpMeter {
    /// When asking began, and what was answered.
    fn fetch(&self) -> Result<(u64, Vec<Figure>), MeterError> {
        let begin_ns = monotonic_raw_ns();
        let text = self
            .client
            .get(&self.path, Instant::now() + self.timeout)
            .map_err(|error| error.of(&self.address))?;
        Ok((begin_ns, figures(&self.plan, &text, &self.address)?))
    }

    /// The reading's value; `None` for a counter that has not moved.
    fn value(&mut self, index: usize, number: f64) -> Result<Option<Value>, MeterError> {
        let scaled = number * self.plan.values[index].factor;
        if self.plan.values[index].kind != HttpKind::Counter {
            return Ok(Some(Value::Watts(scaled)));
        }
        let count = count_of(scaled).ok_or_else(|| {
            let name = &self.channels[index].name;
            MeterError::Retry(format!(
                "`{}` counts {scaled} J in `{name}`, which no counter shows: see its factor",
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
        let (begin_ns, figures) = self.fetch()?;
        let (end_ns, wall_ns) = (monotonic_raw_ns(), wall_ns());
        for (channel, figure) in figures.into_iter().enumerate() {
            if let Some(value) = self.value(channel, figure.number)? {
                out.push(Reading { channel, value, begin_ns, end_ns, wall_ns, own_ns: figure.own_ns });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
