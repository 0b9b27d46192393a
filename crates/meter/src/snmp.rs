//! Power and energy by SNMP: outlets of power distribution units, or any variable that counts watts or
//! joules.
//!
//! Versions 2c and 3 over UDP, as a client that asks for a handful of variables, and no more of the protocol
//! than that takes.

mod ber;
mod config;
mod message;
mod preset;
mod session;
mod usm;
mod v3;

pub use ber::Oid;
pub use config::{SnmpChannel, SnmpConfig, SnmpKind, SnmpPrivacy, SnmpVersion};
pub use preset::SnmpPreset;
pub use usm::SnmpAuth;

use crate::clock::monotonic_raw_ns;
use crate::meter::{Channel, ChannelKind, Meter, MeterError, Reading, Value, Wrap};
use crate::open::OpenError;
use config::refused;
use message::Value as Variable;
use preset::Place;
use session::{Answer, Failure, Session};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Takes any octets for an agent's message, of either version: whether they are one. For tests of robustness.
#[doc(hidden)]
pub fn is_snmp(datagram: &[u8]) -> bool {
    message::decode_2c(datagram).is_ok() || v3::take_apart(datagram).is_ok()
}

const PORT: u16 = 161;
/// More than any distribution unit carries.
const MAX_WATTS: f64 = 100_000.0;
/// Steps finer than this are a mistake of the agent's, not a measurement.
const MOST_DIGITS: u32 = 9;
/// So many variables fit into one answer of 1,472 octets, the most that Ethernet carries unbroken.
const MOST_CHANNELS: usize = 32;

/// Opens a meter that asks an agent by SNMP. The agent is asked once, so that what is wrong shows at once.
///
/// The host's name is looked up here and never again: an agent that moves to another address is lost. Each
/// [`Meter::read`] is one request for all channels and returns within `timeout_ms`.
///
/// # Errors
/// The configuration contradicts itself, a secret cannot be read, the agent does not answer, or has no such
/// variable.
pub fn open_snmp(config: &SnmpConfig) -> Result<Box<dyn Meter>, OpenError> {
    check(config)?;
    let limit = Duration::from_millis(config.timeout_ms);
    let mut session =
        Session::new(address(config)?, config.credentials()?, limit, config.retries.saturating_add(1))?;
    let places: Vec<Place> =
        config.channels.iter().map(|channel| place(config, channel)).collect::<Result<_, _>>()?;
    let digits: Vec<Oid> = places.iter().filter_map(|place| place.digits.clone()).collect();
    let oids: Vec<Oid> = places.iter().map(|place| place.oid.clone()).collect();
    let failed = |failure: Failure| OpenError(describe(config, &failure));
    let mut digit_values =
        if digits.is_empty() { Vec::new() } else { session.get(&digits).map_err(failed)?.values }.into_iter();
    let Answer { values, .. } = session.get(&oids).map_err(failed)?;
    let mut channels = Vec::new();
    for ((place, spec), value) in places.iter().zip(&config.channels).zip(values) {
        let told = place.digits.as_ref().and_then(|_| digit_values.next());
        let unit = place.unit * scale(told).ok_or_else(|| refused(config, &no_digits(spec)))?;
        count(value).ok_or_else(|| refused(config, &unusable(&place.oid, value)))?;
        channels.push(channel(spec, place.kind, unit, value));
    }
    let factors = channels.iter().map(|channel| channel.resolution).collect();
    Ok(Box::new(Snmp { config: config.clone(), session, channels, oids, factors }))
}

/// An agent as a meter.
struct Snmp {
    config: SnmpConfig,
    session: Session,
    channels: Vec<Channel>,
    oids: Vec<Oid>,
    /// W or J of a step, by channel.
    factors: Vec<f64>,
}

impl Meter for Snmp {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), MeterError> {
        let answer = self
            .session
            .get(&self.oids)
            .map_err(|failure| MeterError::Retry(describe(&self.config, &failure)))?;
        let end_ns = monotonic_raw_ns();
        let wall_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as i64);
        let mut readings = Vec::with_capacity(self.channels.len());
        for (channel, variable) in answer.values.into_iter().enumerate() {
            let count = count(variable).ok_or_else(|| {
                MeterError::Retry(refused(&self.config, &unusable(&self.oids[channel], variable)).to_string())
            })?;
            let value = match self.channels[channel].kind {
                ChannelKind::Counter { .. } => Value::Count(count),
                ChannelKind::Instant | ChannelKind::Average { .. } => {
                    Value::Watts(count as f64 * self.factors[channel])
                }
            };
            readings.push(Reading {
                channel,
                value,
                begin_ns: answer.begin_ns,
                end_ns,
                wall_ns,
                own_ns: None,
            });
        }
        out.append(&mut readings);
        Ok(())
    }
}

/// Refuses what no agent could answer.
fn check(config: &SnmpConfig) -> Result<(), OpenError> {
    if config.channels.is_empty() || config.channels.len() > MOST_CHANNELS {
        return Err(refused(config, "name 1 to 32 `channels`"));
    }
    if !(1..=600_000).contains(&config.timeout_ms) || config.retries > 10 {
        return Err(refused(config, "`timeout_ms` is from 1 to 600000, `retries` at most 10"));
    }
    for (i, channel) in config.channels.iter().enumerate() {
        if config.channels[..i].iter().any(|other| other.name == channel.name) {
            let name = channel.name.escape_debug();
            return Err(refused(config, &format!("two channels are called `{name}`: name them apart")));
        }
    }
    Ok(())
}

fn address(config: &SnmpConfig) -> Result<SocketAddr, OpenError> {
    let host = config.host.as_str();
    // `host`, and an IPv6 address with or without brackets, have no port.
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let portless = !host.contains(':') || bare.parse::<std::net::Ipv6Addr>().is_ok();
    let found = if portless { (bare, PORT).to_socket_addrs() } else { host.to_socket_addrs() };
    let error = match found.map(|mut addresses| addresses.next()) {
        Ok(Some(address)) => return Ok(address),
        Ok(None) => "it has no address".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(refused(config, &format!("the host is not found ({error}): write `host` or `host:port`")))
}

/// Where a channel's variable is, and what it means.
fn place(config: &SnmpConfig, channel: &SnmpChannel) -> Result<Place, OpenError> {
    let refuse =
        |why: &str| Err(refused(config, &format!("channel `{}` {why}", channel.name.escape_debug())));
    let positive = |value: Option<f64>| value.is_none_or(|value| value.is_finite() && value > 0.0);
    if !positive(channel.unit) || !positive(channel.max_watts) {
        return refuse("has a `unit` or `max_watts` that is not above 0: correct it");
    }
    match (channel.preset, channel.index, &channel.oid, channel.kind) {
        (Some(preset), Some(index), None, None) if channel.unit.is_none() && channel.window_ms.is_none() => {
            if channel.chain.is_some() && !preset.has_chain() {
                return refuse("has a `chain`, which this family does not know: leave it out");
            }
            Ok(preset.place(channel.chain.unwrap_or(1), index))
        }
        (None, None, Some(oid), Some(kind)) if channel.chain.is_none() => {
            if (kind == SnmpKind::Average) != channel.window_ms.is_some_and(|window| window > 0) {
                return refuse("needs a `window_ms` above 0 if its kind is `average`, and none otherwise");
            }
            Ok(Place { oid: oid.clone(), digits: None, kind, unit: channel.unit.unwrap_or(1.0) })
        }
        _ => refuse("needs either `preset` and `index`, or `oid` and `kind`, and nothing of the other way"),
    }
}

/// Made after the first answer: its type says where a counter starts again.
fn channel(spec: &SnmpChannel, kind: SnmpKind, unit: f64, value: Variable) -> Channel {
    let kind = match kind {
        SnmpKind::Instant => ChannelKind::Instant,
        SnmpKind::Average => {
            ChannelKind::Average { window_ns: spec.window_ms.unwrap_or(0).saturating_mul(1_000_000) }
        }
        SnmpKind::Counter => {
            // Unsigned32 counts wrap, too: PDU2-MIB says so of its sensors' values.
            let wraps = matches!(value, Variable::Counter32(_) | Variable::Gauge32(_));
            let wrap = Wrap { range: 1 << 32, max_watts: spec.max_watts.unwrap_or(MAX_WATTS) };
            ChannelKind::Counter { joules_per_count: unit, wrap: wraps.then_some(wrap) }
        }
    };
    Channel {
        name: spec.name.clone(),
        scope: spec.scope,
        kind,
        resolution: unit,
        accuracy: spec.accuracy,
        parent: None,
    }
}

/// What a step of a variable with decimal digits is, as far as they are told.
fn scale(digits: Option<Variable>) -> Option<f64> {
    match digits.map(count) {
        None => Some(1.0),
        Some(digits) => digits
            .and_then(|digits| u32::try_from(digits).ok())
            .filter(|&digits| digits <= MOST_DIGITS)
            .map(|digits| 10f64.powi(-(digits as i32))),
    }
}

/// A variable as a number that is not negative: agents say -1 for what they do not measure.
fn count(variable: Variable) -> Option<u64> {
    match variable {
        Variable::Integer(value) => u64::try_from(value).ok(),
        Variable::Gauge32(value) | Variable::Counter32(value) | Variable::Counter64(value) => Some(value),
        Variable::Absent | Variable::Other(_) => None,
    }
}

fn unusable(oid: &Oid, variable: Variable) -> String {
    match variable {
        Variable::Absent => {
            format!("it has no variable {oid}: check the number of the outlet and the family")
        }
        Variable::Other(tag) => {
            format!("{oid} is no number (ASN.1 tag {tag:#04x}): name a Gauge32, a counter or an INTEGER")
        }
        other => {
            format!("{oid} is {other:?}, which says that it is not measured: use a model that measures it")
        }
    }
}

fn no_digits(channel: &SnmpChannel) -> String {
    format!(
        "it does not tell the decimal digits of channel `{}`: check the number, or give `oid`, `kind` and \
         `unit`",
        channel.name.escape_debug()
    )
}

/// A failure in a sentence.
fn describe(config: &SnmpConfig, failure: &Failure) -> String {
    let host = config.host.escape_debug();
    let ms = config.timeout_ms;
    match failure {
        Failure::Silence if config.version == SnmpVersion::V2c => format!(
            "no answer from the SNMP agent at `{host}` within {ms} ms: it is off, out of reach, or does not \
             know the community, which agents pass over in silence; try `snmpget`"
        ),
        Failure::Silence => format!(
            "no answer from the SNMP agent at `{host}` within {ms} ms that can be believed: it is off, out \
             of reach, speaks no version 3, or a password is wrong; try `snmpget`"
        ),
        Failure::Network(error) => {
            format!(
                "the SNMP agent at `{host}` cannot be reached ({error}): check that it runs, its port and \
                 the network"
            )
        }
        Failure::Refused(why) => format!("the SNMP agent at `{host}` {why}"),
    }
}

#[cfg(test)]
#[path = "snmp_tests.rs"]
mod tests;
