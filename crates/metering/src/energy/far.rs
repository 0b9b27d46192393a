//! The meters of the target host: it reads them on threads of its own, and is asked for the readings between
//! trials, never inside a window.

use super::config::{MeterSpecs, target_meter_specs};
use super::record::{MeterRecord, counted};
use super::settle;
use super::short_windows::ShortWindows;
use super::thread::{Cost, NO_MORE};
use crate::error::MeteringError;
use crate::progress::Progress;
use iopj_core::Allow;
use iopj_core::fabric::TARGET_METERS;
use iopj_fabric::FabricError;
use iopj_meter::{Cadence, Reading};
use iopj_study::plan::Cell;
use iopj_study::{Fabric, Meters};
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Which meters the target host is to open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenMeters {
    /// The value of `fabric.meters`; the machine's own without it.
    pub meters: Option<Meters>,
    /// Programs that the study names may run.
    pub allow: Allow,
}

/// The meters that the target host has opened and read once.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct OpenedMeters {
    /// The meters in their order.
    pub meters: Vec<FarMeter>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// The machine's own were asked for, and there is none.
    pub found_none: bool,
}

/// A meter of the target host.
#[derive(Debug, Serialize, Deserialize)]
pub struct FarMeter {
    /// Its name in the study.
    pub name: String,
    /// What the store keeps of it.
    pub record: MeterRecord,
}

/// What the target host's meters have read since they were asked before, in the order of [`OpenedMeters`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct FarReadings {
    /// What each meter did since, in the order in which they were opened.
    pub meters: Vec<OfFarMeter>,
    /// There are more than one answer holds.
    pub more: bool,
}

/// What one of them has read.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct OfFarMeter {
    /// What it read.
    pub readings: Vec<Reading>,
    /// What to know about it.
    pub notices: Vec<String>,
    /// More can come.
    pub goes_on: bool,
}

/// What a meter has read since it was asked before, for the store and the user.
pub(super) struct Taken {
    /// Its number in the store, in a session.
    pub id: Option<i64>,
    pub name: String,
    pub readings: Vec<Reading>,
    pub notices: Vec<String>,
}

/// The target host, as its meters are asked for.
pub trait FarHost {
    /// Its name in messages.
    fn name(&self) -> String;

    /// Opens its meters; `None` if no agent runs there.
    ///
    /// # Errors
    /// Meters that the study names cannot be opened or read there, or the agent is gone.
    fn open_meters(&self, asked: OpenMeters, stop: &AtomicBool) -> Result<Option<OpenedMeters>, FabricError>;

    /// What they have read, with all times on this host's clock, and how far these may be off together, in
    /// ns: the worst alignment of the two clocks so far.
    ///
    /// # Errors
    /// The agent is gone.
    fn readings(&self) -> Result<(FarReadings, u64), FabricError>;

    /// Ends their threads: what each cost. Readings stay to be taken.
    ///
    /// # Errors
    /// The agent is gone.
    fn stop_meters(&self) -> Result<Vec<Cost>, FabricError>;
}

/// The meters of the target host in a run.
pub(super) struct FarMeters {
    meters: Vec<OneFar>,
    /// Those that the study names are watched, the machine's own are not.
    short_windows: Option<ShortWindows>,
    /// The records in the store say less than is known.
    is_changed: bool,
    is_lost: bool,
}

/// A meter of the target host, with what was read and is not in the store yet.
struct OneFar {
    /// With the prefix that the store gives it.
    name: String,
    record: MeterRecord,
    id: Option<i64>,
    readings: Vec<Reading>,
    notices: Vec<String>,
    goes_on: bool,
}

impl FarMeters {
    /// Opens the meters of a study's target host there; `None` if there is none.
    ///
    /// # Errors
    /// Meters that the study names cannot be opened or read: all of them in one message.
    pub(super) fn open(
        fabric: &Fabric,
        host: &dyn FarHost,
        allow: Allow,
        progress: &mut dyn Progress,
        stop: &AtomicBool,
    ) -> Result<Option<FarMeters>, MeteringError> {
        let is_named = match target_meter_specs(fabric.meters.as_ref(), "the study")? {
            MeterSpecs::None => return Ok(None),
            MeterSpecs::Local => false,
            MeterSpecs::Named(_) => true,
        };
        let asked = OpenMeters { meters: fabric.meters.clone(), allow };
        let Some(opened) = host.open_meters(asked, stop)? else { return Ok(None) };
        for note in &opened.notes {
            progress.note(&format!("{}: {note}", host.name()));
        }
        if opened.found_none {
            progress.note(&format!(
                "{}: no meter was found, so there are no watts of the target host: `iopj meter list` there \
                 says why, and how to get them",
                host.name()
            ));
        }
        let one = |FarMeter { name, record }: FarMeter| OneFar {
            name: format!("{TARGET_METERS}{name}"),
            record,
            id: None,
            readings: Vec::new(),
            notices: Vec::new(),
            goes_on: true,
        };
        let meters: Vec<OneFar> = opened.meters.into_iter().map(one).collect();
        let short_windows = is_named.then(ShortWindows::default);
        let far = FarMeters { meters, short_windows, is_changed: false, is_lost: false };
        Ok(Some(far).filter(|far| !far.meters.is_empty()))
    }

    /// Warns of each meter that the study names and for which windows of these cells are too short.
    pub(super) fn check_windows(&mut self, cells: &[Cell], progress: &mut dyn Progress) {
        let Some(short) = &mut self.short_windows else { return };
        short.watch(cells);
        self.meters.iter().for_each(|one| short.warn(&one.name, &one.cadences(), progress));
    }

    /// The interval of the slowest.
    pub(super) fn slowest(&self) -> Option<Duration> {
        self.meters.iter().map(|one| one.record.interval()).max()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        self.meters.iter().map(|one| one.name.clone())
    }

    /// The meters with their channels.
    pub(super) fn provenance(&self) -> impl Iterator<Item = (String, String)> {
        self.meters.iter().map(|one| (format!("meter.{}", one.name), one.record.in_words()))
    }

    /// The name of each, its record for the store, and where its number there belongs.
    pub(super) fn records(&mut self) -> impl Iterator<Item = (&str, String, &mut Option<i64>)> {
        self.is_changed = false;
        self.meters.iter_mut().map(|one| {
            let text = serde_json::to_string(&one.record).unwrap_or_default();
            (one.name.as_str(), text, &mut one.id)
        })
    }

    /// The same of those whose records have changed since.
    pub(super) fn changed_records(&mut self) -> impl Iterator<Item = (&str, String, &mut Option<i64>)> {
        let is_changed = self.is_changed;
        self.records().filter(move |_| is_changed)
    }

    /// Whether the power of all that can still be read is flat.
    pub(super) fn have_settled(&mut self, host: &dyn FarHost) -> bool {
        self.fetch(host);
        self.meters.iter().all(|one| {
            let stretch = settle::stretch(one.record.interval());
            !one.goes_on || settle::is_flat(&one.record.channels, &one.readings, stretch)
        })
    }

    /// What each has read since the last call.
    pub(super) fn take(&mut self, host: &dyn FarHost) -> Vec<Taken> {
        self.fetch(host);
        let take = |one: &mut OneFar| Taken {
            id: one.id,
            name: one.name.clone(),
            readings: std::mem::take(&mut one.readings),
            notices: std::mem::take(&mut one.notices),
        };
        self.meters.iter_mut().map(take).collect()
    }

    /// Ends the meters: what each cost, in words.
    pub(super) fn stop(&mut self, host: &dyn FarHost) -> Vec<String> {
        if self.is_lost {
            return Vec::new();
        }
        match host.stop_meters() {
            Ok(costs) => self.meters.iter().zip(costs).map(|(one, cost)| cost.in_words(&one.name)).collect(),
            Err(error) => {
                self.lose(&error);
                Vec::new()
            }
        }
    }

    /// Gets what was read there meanwhile.
    fn fetch(&mut self, host: &dyn FarHost) {
        if self.is_lost {
            return;
        }
        let (read, within_ns) = match host.readings() {
            Ok(read) => read,
            Err(error) => return self.lose(&error),
        };
        for (one, read) in self.meters.iter_mut().zip(read.meters) {
            one.readings.extend(read.readings);
            one.notices.extend(read.notices);
            one.goes_on = read.goes_on;
            if let Some(there) = one.record.there.as_mut().filter(|there| there.within_ns < within_ns) {
                there.within_ns = within_ns;
                self.is_changed = true;
            }
        }
    }

    /// The agent is gone, and with it every meter.
    fn lose(&mut self, error: &FabricError) {
        self.is_lost = true;
        for one in self.meters.iter_mut().filter(|one| one.goes_on) {
            one.goes_on = false;
            one.notices.push(format!("{NO_MORE}{error}"));
        }
    }
}

impl OneFar {
    /// How often each channel that gives joules has a value, as the study says.
    fn cadences(&self) -> Vec<Cadence> {
        let seconds = |ns: u64| ns as f64 * 1e-9;
        let cadence = |index: usize| Cadence {
            kind: self.record.channels[index].kind,
            period_s: seconds(self.record.interval_ns),
            age_s: seconds(self.record.age_ns),
            bridge_s: seconds(self.record.bridge_ns),
        };
        counted(&self.record.channels).into_iter().map(cadence).collect()
    }
}

#[cfg(test)]
mod tests;
