//! The kinds of meters that a study can name: the keys of each, and how it is opened.
//!
//! A new kind is one `impl Source` and one line in [`KINDS`].

use super::config::parsed;
use iopj_core::energy::Scope;
use iopj_core::parse_duration;
use iopj_meter::http::{self, HttpConfig};
use iopj_meter::redfish::{self, RedfishConfig};
use iopj_meter::{Channel, ChannelKind, IpmiConfig, Meter, SnmpConfig, open_ipmi, open_snmp};
use iopj_study::keys::fields_of;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// What a meter may do when it is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// It may run the program that the study names.
    pub(crate) allow_exec: bool,
}

/// A kind's own keys in a `[meters.NAME]` table, as a type that refuses others.
trait Source: DeserializeOwned + Send + 'static {
    /// Time between readings where the study says none.
    const INTERVAL: Duration;

    /// How old a value may be when it is read.
    fn age(&self) -> Duration {
        Duration::ZERO
    }

    /// What is wrong with the values, before anything is opened.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// The program that it runs, if it runs one.
    fn program(&self) -> Option<&str> {
        None
    }

    fn open(&self, opening: Opening) -> Result<Box<dyn Meter>, String>;
}

/// A table that has been read and can be opened.
pub(crate) trait Open: Send {
    fn age(&self) -> Duration;
    fn program(&self) -> Option<&str>;
    fn open(&self, opening: Opening) -> Result<Box<dyn Meter>, String>;
}

impl<T: Source> Open for T {
    fn age(&self) -> Duration {
        Source::age(self)
    }

    fn program(&self) -> Option<&str> {
        Source::program(self)
    }

    fn open(&self, opening: Opening) -> Result<Box<dyn Meter>, String> {
        Source::open(self, opening)
    }
}

/// A kind of meter.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) interval: Duration,
    /// Its own keys.
    pub(crate) keys: fn() -> &'static [&'static str],
    /// Reads its own keys.
    pub(crate) read: fn(toml::Table) -> Result<Box<dyn Open>, String>,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const fn kind<T: Source>(name: &'static str) -> Kind {
    Kind { name, interval: T::INTERVAL, keys: fields_of::<T>, read: read::<T> }
}

fn read<T: Source>(table: toml::Table) -> Result<Box<dyn Open>, String> {
    let source: T = parsed(table)?;
    source.check()?;
    Ok(Box::new(source))
}

/// Every kind that is read while a study runs.
pub(crate) const KINDS: &[Kind] = &[
    kind::<RaplTable>("rapl"),
    kind::<HwmonTable>("hwmon"),
    kind::<NvmeTable>("nvme"),
    kind::<CommandTable>("command"),
    kind::<HttpConfig>("http"),
    kind::<RedfishConfig>("redfish"),
    kind::<SnmpConfig>("snmp"),
    kind::<IpmiConfig>("ipmi"),
];

/// `kind = "rapl"`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RaplTable {}

impl Source for RaplTable {
    const INTERVAL: Duration = Duration::from_millis(100);

    fn age(&self) -> Duration {
        // The counters move once a millisecond.
        Duration::from_millis(1)
    }

    fn open(&self, _: Opening) -> Result<Box<dyn Meter>, String> {
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

impl Source for HwmonTable {
    const INTERVAL: Duration = Duration::from_millis(100);

    fn open(&self, _: Opening) -> Result<Box<dyn Meter>, String> {
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

impl Source for NvmeTable {
    const INTERVAL: Duration = Duration::from_secs(1);

    fn open(&self, _: Opening) -> Result<Box<dyn Meter>, String> {
        local(&format!("nvme:{}", self.controller))
    }
}

fn local(name: &str) -> Result<Box<dyn Meter>, String> {
    iopj_meter::open_local(Path::new("/"), name).map_err(|error| error.to_string())
}

impl Source for HttpConfig {
    const INTERVAL: Duration = Duration::from_secs(1);

    fn age(&self) -> Duration {
        Duration::from_nanos(self.age_ns())
    }

    fn open(&self, _: Opening) -> Result<Box<dyn Meter>, String> {
        http::open(self).map_err(|error| error.to_string())
    }
}

impl Source for RedfishConfig {
    const INTERVAL: Duration = Duration::from_secs(1);

    fn age(&self) -> Duration {
        Duration::from_nanos(self.age_ns())
    }

    fn open(&self, _: Opening) -> Result<Box<dyn Meter>, String> {
        redfish::open(self).map_err(|error| error.to_string())
    }
}

impl Source for SnmpConfig {
    const INTERVAL: Duration = Duration::from_secs(1);

    fn open(&self, _: Opening) -> Result<Box<dyn Meter>, String> {
        open_snmp(self).map_err(|error| error.to_string())
    }
}

impl Source for IpmiConfig {
    // ipmitool takes some 0.1 s for a reading, and BMCs renew their figure once a second at the most.
    const INTERVAL: Duration = Duration::from_secs(2);

    fn open(&self, _: Opening) -> Result<Box<dyn Meter>, String> {
        open_ipmi(self).map_err(|error| error.to_string())
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
    fn channel(&self) -> Result<Channel, String> {
        let window = self.window.as_deref().map(parse_duration).transpose();
        let kind = match window.map_err(|error| format!("window: {error}"))? {
            None => ChannelKind::Instant,
            Some(window) => ChannelKind::Average { window_ns: window.as_nanos() as u64 },
        };
        Ok(Channel {
            name: "power".into(),
            scope: self.scope,
            kind,
            resolution: 0.0,
            accuracy: None,
            parent: None,
        })
    }
}

impl Source for CommandTable {
    const INTERVAL: Duration = Duration::from_secs(1);

    fn check(&self) -> Result<(), String> {
        self.channel().map(|_| ())
    }

    fn program(&self) -> Option<&str> {
        self.command.first().map(String::as_str)
    }

    fn open(&self, opening: Opening) -> Result<Box<dyn Meter>, String> {
        let started = iopj_meter::CommandMeter::start(&self.command, self.channel()?, opening.allow_exec);
        started.map(|meter| Box::new(meter) as Box<dyn Meter>).map_err(|error| error.to_string())
    }
}
