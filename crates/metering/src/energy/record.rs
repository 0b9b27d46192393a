//! What the store keeps of a meter beside its readings.

use super::config::{ClockChoice, MeterSpec};
use super::model::ModelText;
use iopj_core::energy::Scope;
use iopj_meter::{Alignment, Channel, Clock, Reading, Value};
use iopj_record::energy::{RawValue, ReadingRow};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// What the store keeps of a meter beside its readings. No secret is in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeterRecord {
    /// The kind of the meter, as in a study.
    pub kind: String,
    /// How often it is read, in ns.
    pub interval_ns: u64,
    /// Which clock its readings have.
    pub clock: ClockRecord,
    /// How old a value may be when it is read.
    pub age_ns: u64,
    /// Gaps up to this are bridged.
    pub bridge_ns: u64,
    /// Its channels.
    pub channels: Vec<Channel>,
    /// The coefficient file of a model, which has no readings.
    #[serde(default)]
    pub model: Option<ModelText>,
    /// The target host, if the meter is one of its; the readings are by this host's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub there: Option<There>,
}

/// What a meter of the target host has beside others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct There {
    /// The boot id of its kernel: the machine that it is.
    pub boot: String,
    /// How far the times of all readings may be off together: the worst alignment of the two clocks.
    pub within_ns: u64,
}

/// Whose time stamps place the readings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockRecord {
    /// The host's.
    Host,
    /// The meter's own, found by the load pattern about where the readings say.
    Own,
    /// The meter's own, found by the load pattern about where its time zone says.
    Within { offset_ns: i64, range_ns: u64 },
    /// The meter's own, believed.
    Trusted { offset_ns: i64, standard_ns: f64 },
}

impl MeterRecord {
    /// That of a meter with these channels.
    pub fn of(spec: &MeterSpec, channels: &[Channel]) -> MeterRecord {
        MeterRecord {
            kind: spec.kind.to_owned(),
            interval_ns: spec.interval.as_nanos() as u64,
            clock: spec.clock.into(),
            age_ns: spec.age.as_nanos() as u64,
            bridge_ns: spec.bridge.as_nanos() as u64,
            channels: channels.to_vec(),
            model: None,
            there: None,
        }
    }

    /// Its kind, how often it is read, and its channels.
    pub fn in_words(&self) -> String {
        let channels: Vec<String> = self.channels.iter().map(describe).collect();
        let interval = iopj_core::format_duration(self.interval());
        format!("{}, every {interval}: {}", self.kind, channels.join("; "))
    }

    /// How often it is read.
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval_ns)
    }

    /// What places the readings: the meter's own clock as it was found, or the host's.
    pub fn clock<'a>(&self, alignment: Option<&'a Alignment>) -> Clock<'a> {
        let within_ns = self.there.as_ref().map_or(0, |there| there.within_ns);
        alignment.map_or(Clock::Host { age_ns: self.age_ns, within_ns }, Clock::Own)
    }

    /// The scopes of the meter, each with the channels that make it up.
    pub fn scopes(&self) -> BTreeMap<Scope, Vec<usize>> {
        let mut scopes: BTreeMap<Scope, Vec<usize>> = BTreeMap::new();
        for index in counted(&self.channels) {
            scopes.entry(self.channels[index].scope).or_default().push(index);
        }
        scopes
    }
}

/// The channels that give joules: those that no other channel of the same scope contains.
pub(super) fn counted(channels: &[Channel]) -> Vec<usize> {
    (0..channels.len()).filter(|index| !is_contained(channels, &channels[*index])).collect()
}

fn is_contained(channels: &[Channel], channel: &Channel) -> bool {
    let mut above = channel.parent.as_ref();
    // No chain is longer than there are channels, even if a meter makes a ring of them.
    for _ in 0..channels.len() {
        let Some(parent) = above.and_then(|name| channels.iter().find(|other| other.name == *name)) else {
            return false;
        };
        if parent.scope == channel.scope {
            return true;
        }
        above = parent.parent.as_ref();
    }
    false
}

/// The clock of a record.
impl From<ClockChoice> for ClockRecord {
    fn from(choice: ClockChoice) -> ClockRecord {
        match choice {
            ClockChoice::Host => ClockRecord::Host,
            ClockChoice::Own => ClockRecord::Own,
        }
    }
}

/// A channel in a few words.
fn describe(channel: &Channel) -> String {
    format!("{} `{}` {}", channel.scope, channel.name, iopj_meter::accuracy_text(channel.accuracy))
}

/// A reading as the store keeps it; `None` if it is not a number.
pub(super) fn row(reading: &Reading) -> Option<ReadingRow> {
    let value = match reading.value {
        Value::Count(count) => RawValue::Count(count),
        Value::Watts(watts) if watts.is_finite() => RawValue::Watts(watts),
        Value::Watts(_) => return None,
    };
    let Reading { channel, begin_ns, end_ns, wall_ns, own_ns, .. } = *reading;
    Some(ReadingRow { channel: channel as u32, value, begin_ns, end_ns, wall_ns, own_ns })
}
