//! Energy meters, their readings on one clock, and joules with an uncertainty.
//!
//! A [`Meter`] gives [`Reading`]s; [`align()`] puts those that carry the meter's own time on the host's clock; a
//! [`Trace`] makes [`Energy`] of them. The method and its sources stand in `docs/energy.md`.

mod align;
mod clock;
mod coarse;
mod command;
mod curve;
mod discover;
mod fine;
mod hwmon;
mod idle;
mod integrate;
mod line;
mod meter;
mod nvme;
mod pattern;
mod rapl;
mod ratio;
mod sysfs;
mod uncertainty;

pub use align::{AlignError, Alignment, Confidence, Search, align};
pub use clock::monotonic_raw_ns;
pub use command::Command;
pub use discover::{Found, accuracy_text, found, open};
pub use hwmon::Hwmon;
pub use idle::{AboveIdle, Idle, IdlePower, ratio_above_idle};
pub use integrate::{Clock, Incomplete, Trace, Window};
pub use meter::{
    Accuracy, Channel, ChannelKind, Distribution, Meter, MeterError, Reading, Scope, UnknownScope, Value, Wrap,
};
pub use nvme::Nvme;
pub use pattern::{BadPattern, Pattern};
pub use rapl::{Rapl, Refused};
pub use ratio::{Estimate, Ratio, Undefined, fieller, per_joule, ratio};
pub use uncertainty::{Component, Energy, Interval, Source};
