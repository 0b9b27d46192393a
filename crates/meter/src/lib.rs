//! Energy meters, their readings on one clock, and joules with an uncertainty.
//!
//! A [`Meter`] gives [`Reading`]s; [`align()`] puts those that carry the meter's own time on the host's
//! clock; a [`Trace`] makes [`Energy`] of them. The method and its sources stand in `docs/energy.md`.

mod align;
mod clock;
mod coarse;
mod command;
mod curve;
mod discover;
mod fine;
pub mod http;
mod hwmon;
mod idle;
mod integrate;
mod ipmi;
mod json;
mod line;
pub mod log;
mod meter;
pub mod model;
mod nvme;
mod open;
mod pattern;
mod prometheus;
mod rapl;
mod ratio;
pub mod redfish;
mod secret;
mod snmp;
mod sysfs;
mod uncertainty;
mod web;

pub use align::{AlignError, Alignment, Confidence, Search, align};
pub use clock::monotonic_raw_ns;
pub use command::Command;
pub use discover::{Found, accuracy_text, found, open};
pub use hwmon::Hwmon;
pub use idle::{AboveIdle, Idle, IdlePower, ratio_above_idle};
pub use integrate::{Clock, Incomplete, Trace, Window, powers};
pub use ipmi::{DcmiPower, IpmiConfig, IpmiPrivilege, IpmiReading, open_ipmi, parse_dcmi};
pub use json::{ValueError, json_value, parse_json};
pub use meter::{
    Accuracy, Channel, ChannelKind, Distribution, Meter, MeterError, Reading, Scope, UnknownScope, Value,
    Wrap,
};
pub use nvme::Nvme;
pub use open::OpenError;
pub use pattern::{BadPattern, Pattern};
pub use prometheus::{MetricError, PrometheusError, Sample, metric_value, parse_prometheus};
pub use rapl::{Rapl, Refused};
pub use ratio::{Estimate, Ratio, Undefined, fieller, per_joule, ratio};
pub use secret::Secret;
pub use snmp::{
    Oid, SnmpAuth, SnmpChannel, SnmpConfig, SnmpKind, SnmpPreset, SnmpPrivacy, SnmpVersion, is_snmp,
    open_snmp,
};
pub use uncertainty::{Component, Energy, Interval, Source};
