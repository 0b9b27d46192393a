//! Power and energy by SNMP: outlets of power distribution units, or any variable in watts or joules.
//!
//! Versions 2c and 3 over UDP, and only the part of the protocol that a client needs to ask for a handful of
//! variables.

mod ber;
mod config;
mod message;
mod preset;
mod session;
mod usm;
mod v3;

pub use ber::{BadOid, Oid};
pub use config::{SnmpChannel, SnmpConfig, SnmpPrivacy, SnmpVersion};
pub use preset::SnmpPreset;
pub use usm::SnmpAuth;

use crate::clock::ReadTime;
use crate::config::{ValueKind, is_time_limit_ms};
use crate::meter::{Channel, ChannelKind, Meter, MeterError, OpenError, Reading, Value, Wrap};
use crate::near;
use config::refused;
use iopj_core::Allow;
use message::Variable;
use preset::Quantity;
use session::{Failure, Response, Session};
use std::net::SocketAddr;
use std::time::Duration;

/// Whether octets are an agent's message of either version. For tests of robustness.
#[doc(hidden)]
pub fn is_snmp(datagram: &[u8]) -> bool {
    message::decode_2c(datagram).is_ok() || v3::parse_any(datagram).is_ok()
}

const PORT: u16 = 161;
/// More than any distribution unit carries.
const MAX_WATTS: f64 = 100_000.0;
/// More decimal digits than this are an agent's mistake.
const MOST_DIGITS: u32 = 9;
/// This many variables fit into an answer of 1,472 octets, the most that Ethernet carries in one frame.
const MOST_CHANNELS: usize = 32;

/// Opens a meter that asks an agent by SNMP. The agent is asked once, so mistakes show at once.
///
/// The host's name is looked up only here: an agent that moves to another address is lost. Each
/// [`Meter::read`] is one request for all channels and returns within `timeout_ms`.
///
/// # Errors
/// [`OpenError`] if the configuration contradicts itself, a secret cannot be read, or the agent does not
/// answer or lacks a variable.
pub fn open_snmp(config: &SnmpConfig, allow: Allow) -> Result<Box<dyn Meter>, OpenError> {
    check(config)?;
    let limit = Duration::from_millis(config.timeout_ms);
    let mut session = Session::new(
        address(config, allow)?,
        config.credentials()?,
        limit,
        config.retries.saturating_add(1),
    )?;
    let quantities: Vec<Quantity> =
        config.channels.iter().map(|channel| quantity(config, channel)).collect::<Result<_, _>>()?;
    let digits: Vec<Oid> = quantities.iter().filter_map(|quantity| quantity.digits.clone()).collect();
    let oids: Vec<Oid> = quantities.iter().map(|quantity| quantity.oid.clone()).collect();
    let failed = |failure: Failure| OpenError(describe(config, &failure));
    let mut digits =
        if digits.is_empty() { Vec::new() } else { session.get(&digits).map_err(failed)?.values }.into_iter();
    let Response { values, .. } = session.get(&oids).map_err(failed)?;
    let mut channels = Vec::new();
    for ((quantity, spec), value) in quantities.iter().zip(&config.channels).zip(values) {
        let digits = quantity.digits.as_ref().and_then(|_| digits.next());
        let unit = quantity.unit * scale(digits).ok_or_else(|| refused(config, &no_digits(spec)))?;
        count(value).ok_or_else(|| refused(config, &unusable(&quantity.oid, value)))?;
        channels.push(channel(spec, quantity.kind, unit, value));
    }
    Ok(Box::new(Snmp { config: config.clone(), session, channels, oids }))
}

/// An agent as a meter.
struct Snmp {
    config: SnmpConfig,
    session: Session,
    channels: Vec<Channel>,
    oids: Vec<Oid>,
}

impl Meter for Snmp {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), MeterError> {
        let answer = self.session.get(&self.oids);
        let Response { values, begin_ns } =
            answer.map_err(|failure| MeterError::Retry(describe(&self.config, &failure)))?;
        let time = ReadTime::since(begin_ns);
        let reading = |(index, variable): (usize, Variable)| {
            let count = count(variable).ok_or_else(|| {
                MeterError::Retry(refused(&self.config, &unusable(&self.oids[index], variable)).to_string())
            })?;
            let Channel { kind, resolution, .. } = self.channels[index];
            let value = match kind {
                ChannelKind::Counter { .. } => Value::Count(count),
                ChannelKind::Instant | ChannelKind::Average { .. } => Value::Watts(count as f64 * resolution),
            };
            Ok(time.reading(index, value))
        };
        out.append(&mut values.into_iter().enumerate().map(reading).collect::<Result<_, _>>()?);
        Ok(())
    }
}

/// Refuses a request that no agent could answer.
fn check(config: &SnmpConfig) -> Result<(), OpenError> {
    if config.channels.is_empty() || config.channels.len() > MOST_CHANNELS {
        return Err(refused(config, "name 1 to 32 `channels`"));
    }
    if !is_time_limit_ms(config.timeout_ms) || config.retries > 10 {
        return Err(refused(config, "`timeout_ms` must be from 1 to 600000, `retries` at most 10"));
    }
    for (i, channel) in config.channels.iter().enumerate() {
        if config.channels[..i].iter().any(|other| other.name == channel.name) {
            let name = channel.name.escape_debug();
            return Err(refused(config, &format!("two channels are called `{name}`: rename one")));
        }
    }
    Ok(())
}

fn address(config: &SnmpConfig, allow: Allow) -> Result<SocketAddr, OpenError> {
    let host = config.host.as_str();
    // `host`, and an IPv6 address with or without brackets, have no port.
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let portless = !host.contains(':') || bare.parse::<std::net::Ipv6Addr>().is_ok();
    let (name, port) = match host.rsplit_once(':').filter(|_| !portless) {
        Some((name, port)) => (name.trim_start_matches('[').trim_end_matches(']'), port.parse().ok()),
        None => (bare, Some(PORT)),
    };
    let found = port.map_or(Err("it ends with no port".to_owned()), |port| near::look_up(name, port));
    let address = found.map_err(|error| {
        refused(config, &format!("its address cannot be found ({error}): write `host` or `host:port`"))
    })?;
    near::check(address.ip(), allow).map_err(|why| refused(config, &format!("it {why}")))?;
    Ok(address)
}

/// Where a channel's quantity is, and what its value means.
fn quantity(config: &SnmpConfig, channel: &SnmpChannel) -> Result<Quantity, OpenError> {
    let refuse =
        |why: &str| Err(refused(config, &format!("channel `{}` {why}", channel.name.escape_debug())));
    let positive = |value: Option<f64>| value.is_none_or(|value| value.is_finite() && value > 0.0);
    if !positive(channel.unit) || !positive(channel.max_watts) {
        return refuse("has a `unit` or `max_watts` that is not above 0: correct it");
    }
    match (channel.preset, channel.index, &channel.oid, channel.kind) {
        (Some(preset), Some(index), None, None) if channel.unit.is_none() && channel.window_ms.is_none() => {
            if channel.chain.is_some() && !preset.has_chain() {
                return refuse("has a `chain`, which this family does not have: leave it out");
            }
            Ok(preset.quantity(channel.chain.unwrap_or(1), index))
        }
        (None, None, Some(oid), Some(kind)) if channel.chain.is_none() => {
            if (kind == ValueKind::Average) != channel.window_ms.is_some_and(|window| window > 0) {
                return refuse("needs a `window_ms` above 0 for the kind `average`, and none for the others");
            }
            Ok(Quantity { oid: oid.clone(), digits: None, kind, unit: channel.unit.unwrap_or(1.0) })
        }
        _ => refuse("needs either `preset` and `index`, or `oid` and `kind`, and no key of the other form"),
    }
}

/// Made after the first answer: the variable's type says where a counter wraps around.
fn channel(spec: &SnmpChannel, kind: ValueKind, unit: f64, value: Variable) -> Channel {
    // Unsigned32 counts wrap around, too: PDU2-MIB says so of its sensors' values.
    let wraps = matches!(value, Variable::Counter32(_) | Variable::Gauge32(_));
    let wrap = Wrap { range: 1 << 32, max_watts: spec.max_watts.unwrap_or(MAX_WATTS) };
    let window_ns = spec.window_ms.unwrap_or(0).saturating_mul(1_000_000);
    let kind = kind.channel(window_ns, unit, wraps.then_some(wrap));
    let channel = Channel::new(&spec.name, spec.scope, kind);
    Channel { resolution: unit, accuracy: spec.accuracy, ..channel }
}

/// The step of a variable with this many decimal digits; `None` for an impossible number of digits.
fn scale(digits: Option<Variable>) -> Option<f64> {
    match digits.map(count) {
        None => Some(1.0),
        Some(digits) => digits
            .and_then(|digits| u32::try_from(digits).ok())
            .filter(|&digits| digits <= MOST_DIGITS)
            .map(|digits| 10f64.powi(-(digits as i32))),
    }
}

/// A variable as a number; `None` if it is negative, which is how agents mark what they do not measure.
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
            format!("{oid} is not a number (ASN.1 tag {tag:#04x}): name a Gauge32, a counter or an INTEGER")
        }
        other => {
            format!("{oid} is {other:?}, which means that it is not measured: use a model that measures it")
        }
    }
}

fn no_digits(channel: &SnmpChannel) -> String {
    format!(
        "it does not give the decimal digits of channel `{}`: check the number, or give `oid`, `kind` and \
         `unit`",
        channel.name.escape_debug()
    )
}

/// A failure as a sentence for the user.
fn describe(config: &SnmpConfig, failure: &Failure) -> String {
    let host = config.host.escape_debug();
    let ms = config.timeout_ms;
    match failure {
        Failure::Silence if config.version == SnmpVersion::V2c => format!(
            "no answer from the SNMP agent at `{host}` within {ms} ms: it is off, out of reach, or does not \
             know the community, which agents never say; try `snmpget`"
        ),
        Failure::Silence => format!(
            "no answer from the SNMP agent at `{host}` within {ms} ms that can be trusted: it is off, out of \
             reach, does not speak version 3, or a password is wrong; try `snmpget`"
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
mod tests;
