//! The kinds of meters that a study can name: the keys of each, and how it is opened.
//!
//! A new kind is one `impl OpenMeter` and one line in [`KINDS`].

use iopj_core::Allow;
use iopj_core::energy::Scope;
use iopj_core::parse_duration;
use iopj_meter::http::{self, HttpConfig};
use iopj_meter::redfish::{self, RedfishConfig};
use iopj_meter::{Channel, ChannelKind, IpmiConfig, Meter, OpenError, SnmpConfig, open_ipmi, open_snmp};
use iopj_study::StudyError;
use iopj_study::keys::fields_of;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// A kind's own keys in a `[meters.NAME]` table, by which it can be opened.
pub trait OpenMeter: Send {
    /// How old a value may be when it is read.
    fn age(&self) -> Duration {
        Duration::ZERO
    }

    /// What is wrong with the values, before anything is opened.
    fn check(&self) -> Result<(), StudyError> {
        Ok(())
    }

    /// The program that it runs, if it runs one.
    fn program(&self) -> Option<&str> {
        None
    }

    /// Where it is asked over a network: the address without what may be secret.
    fn address(&self) -> Option<String> {
        None
    }

    fn open(&self, allow: Allow) -> Result<Box<dyn Meter>, OpenError>;
}

/// A kind of meter.
pub(crate) struct MeterKind {
    pub(crate) name: &'static str,
    /// Time between readings where the study says none.
    pub(crate) interval: Duration,
    /// Its own keys.
    pub(crate) keys: fn() -> &'static [&'static str],
    /// Reads its own keys.
    pub(crate) read: fn(toml::Table) -> Result<Box<dyn OpenMeter>, StudyError>,
}

impl fmt::Debug for MeterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A kind whose own keys are those of a type that refuses others.
const fn kind<T: OpenMeter + DeserializeOwned + 'static>(name: &'static str, interval_ms: u64) -> MeterKind {
    let interval = Duration::from_millis(interval_ms);
    MeterKind { name, interval, keys: fields_of::<T>, read: read::<T> }
}

fn read<T: OpenMeter + DeserializeOwned + 'static>(
    table: toml::Table,
) -> Result<Box<dyn OpenMeter>, StudyError> {
    let source: T = parsed(table)?;
    source.check()?;
    Ok(Box::new(source))
}

/// A kind's own keys as its type.
///
/// # Errors
/// What is wrong with a value, without the value: it may be a secret in the wrong place.
pub(crate) fn parsed<T: DeserializeOwned>(own: toml::Table) -> Result<T, StudyError> {
    toml::Value::Table(own).try_into().map_err(|error: toml::de::Error| {
        let parts = error.message().split('"').step_by(2).map(str::trim_end);
        StudyError(parts.collect::<String>().replace('\n', ", "))
    })
}

/// Every kind that is read while a study runs.
pub(crate) const KINDS: &[MeterKind] = &[
    kind::<RaplTable>("rapl", 100),
    kind::<HwmonTable>("hwmon", 100),
    kind::<NvmeTable>("nvme", 1_000),
    kind::<CommandTable>("command", 1_000),
    kind::<HttpConfig>("http", 1_000),
    kind::<RedfishConfig>("redfish", 1_000),
    kind::<SnmpConfig>("snmp", 1_000),
    // ipmitool takes some 0.1 s for a reading, and BMCs renew their figure once a second at the most.
    kind::<IpmiConfig>("ipmi", 2_000),
];

/// `kind = "rapl"`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RaplTable {}

impl OpenMeter for RaplTable {
    fn age(&self) -> Duration {
        // The counters move once a millisecond.
        Duration::from_millis(1)
    }

    fn open(&self, _: Allow) -> Result<Box<dyn Meter>, OpenError> {
        local("rapl")
    }
}

/// `kind = "hwmon"`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HwmonTable {
    /// The sensor chip, as `iopj meter list` names it behind `hwmon:`.
    chip: String,
}

impl OpenMeter for HwmonTable {
    fn open(&self, _: Allow) -> Result<Box<dyn Meter>, OpenError> {
        local(&format!("hwmon:{}", self.chip))
    }
}

/// `kind = "nvme"`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NvmeTable {
    /// The controller, such as `nvme0`.
    controller: String,
}

impl OpenMeter for NvmeTable {
    fn open(&self, _: Allow) -> Result<Box<dyn Meter>, OpenError> {
        local(&format!("nvme:{}", self.controller))
    }
}

/// Scheme, host and port of a url: the rest may hold a token.
fn host_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    format!("{scheme}://{authority}")
}

fn local(name: &str) -> Result<Box<dyn Meter>, OpenError> {
    Ok(iopj_meter::open_local(Path::new("/"), name)?)
}

impl OpenMeter for HttpConfig {
    fn age(&self) -> Duration {
        Duration::from_nanos(self.age_ns())
    }

    fn address(&self) -> Option<String> {
        Some(host_of(&self.url))
    }

    fn open(&self, allow: Allow) -> Result<Box<dyn Meter>, OpenError> {
        http::open(self, allow)
    }
}

impl OpenMeter for RedfishConfig {
    fn age(&self) -> Duration {
        Duration::from_nanos(self.age_ns())
    }

    fn address(&self) -> Option<String> {
        Some(host_of(&self.url))
    }

    fn open(&self, allow: Allow) -> Result<Box<dyn Meter>, OpenError> {
        redfish::open(self, allow)
    }
}

impl OpenMeter for SnmpConfig {
    fn address(&self) -> Option<String> {
        Some(self.host.clone())
    }

    fn open(&self, allow: Allow) -> Result<Box<dyn Meter>, OpenError> {
        open_snmp(self, allow)
    }
}

impl OpenMeter for IpmiConfig {
    fn address(&self) -> Option<String> {
        self.host.clone()
    }

    fn open(&self, allow: Allow) -> Result<Box<dyn Meter>, OpenError> {
        open_ipmi(self, allow)
    }
}

/// `kind = "command"`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandTable {
    /// The program and its arguments.
    command: Vec<String>,
    /// What it measures.
    scope: Scope,
    /// Each value is the mean over this time; without it, power at an instant.
    window: Option<String>,
}

impl CommandTable {
    fn channel(&self) -> Result<Channel, StudyError> {
        let window = self.window.as_deref().map(parse_duration).transpose();
        let kind = match window.map_err(|error| StudyError(format!("window: {error}")))? {
            None => ChannelKind::Instant,
            Some(window) => ChannelKind::Average { window_ns: window.as_nanos() as u64 },
        };
        Ok(Channel::new("power", self.scope, kind))
    }
}

impl OpenMeter for CommandTable {
    fn check(&self) -> Result<(), StudyError> {
        self.channel().map(|_| ())
    }

    fn program(&self) -> Option<&str> {
        self.command.first().map(String::as_str)
    }

    fn open(&self, allow: Allow) -> Result<Box<dyn Meter>, OpenError> {
        let channel = self.channel().map_err(|error| OpenError(error.0))?;
        Ok(Box::new(iopj_meter::CommandMeter::start(&self.command, channel, allow)?))
    }
}
