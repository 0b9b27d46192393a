//! Energy meters, their readings on one clock, and joules with an uncertainty.
//!
//! A [`Meter`] gives [`Reading`]s; [`align()`] puts those that carry the meter's own time on the host's
//! clock; a [`Trace`] makes [`Energy`] of them. `docs/energy.md` describes the method and its sources.

mod align;
mod cadence;
mod clock;
mod coarse;
mod command;
mod config;
mod configured;
mod curve;
mod decimal;
mod digest;
mod fine;
pub mod http;
mod http_client;
mod hwmon;
mod idle;
mod ipmi;
mod json;
mod line;
mod local;
pub mod log;
mod meter;
pub mod model;
mod near;
mod nvme;
mod pattern;
mod process;
mod prometheus;
mod random;
mod rapl;
mod ratio;
pub mod redfish;
mod samples;
mod secret;
mod snmp;
mod sysfs;
mod trace;
mod uncertainty;

pub use align::{AlignError, Alignment, Confidence, Search, align};
pub use cadence::{Cadence, median_period_s};
pub use clock::monotonic_raw_ns;
pub use command::CommandMeter;
pub use config::ValueKind;
pub use configured::configured_meters;
pub use digest::{DigestChallenge, DigestError, digest_challenge};
pub use hwmon::Hwmon;
pub use idle::{AboveIdle, IdlePower, IdleStretch, ratio_above_idle};
pub use ipmi::{DcmiError, DcmiPower, IpmiConfig, IpmiPrivilege, IpmiReading, open_ipmi, parse_dcmi};
pub use json::{JsonError, json_value, parse_json};
pub use local::{LocalMeter, accuracy_text, local_meters, open_local};
pub use meter::{
    Accuracy, Channel, ChannelKind, Distribution, Meter, MeterError, OpenError, Reading, Scope, UnknownScope,
    Value, Wrap,
};
pub use nvme::Nvme;
pub use pattern::{BadPattern, Pattern};
pub use prometheus::{MetricError, MetricSample, PrometheusError, metric_value, parse_prometheus};
pub use rapl::{Rapl, RefusedDomain};
pub use ratio::{Estimate, Ratio, Undefined, fieller, per_joule, ratio};
pub use samples::Incomplete;
pub use secret::Secret;
pub use snmp::{
    BadOid, Oid, SnmpAuth, SnmpChannel, SnmpConfig, SnmpPreset, SnmpPrivacy, SnmpVersion, is_snmp, open_snmp,
};
pub use trace::{Clock, Trace, Window, powers};
pub use uncertainty::{Component, Energy, EnergySum, Interval, UncertaintySource};
