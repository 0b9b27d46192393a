//! From a store's readings to the power of each channel over time.

use super::align;
use super::compute::{loaded, measurements, meter_record, readings};
use iopj_core::energy::{PowerReading, Scope};
use iopj_record::Trial;
use iopj_record::energy::{Mark, MeterRow};
use iopj_store::{Store, StoreError};
use std::collections::BTreeSet;

/// What the meters of a session read.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionPower {
    /// The session's number, from 1.
    pub session: i64,
    /// The trials that it measured, by their place in the study's order.
    pub positions: BTreeSet<u64>,
    /// The channels of its meters that have readings.
    pub channels: Vec<ChannelPower>,
}

/// What a channel of a meter read in a session.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelPower {
    /// The meter's name in the study, and the channel's where the meter has several: `plug`,
    /// `rapl package-0`.
    pub name: String,
    /// What it measures.
    pub scope: Scope,
    /// Its readings in the order of their time: W of a gauge; of a counter the mean power since the reading
    /// before.
    pub readings: Vec<PowerReading>,
}

/// The power over time of each session's channels. A model has no readings. A meter whose clock was not found
/// is left out, and so is a channel whose time goes back; the trials say what they lack for that reason.
///
/// # Errors
/// The store cannot be read.
pub fn traces(store: &Store, trials: &[Trial]) -> Result<Vec<SessionPower>, StoreError> {
    let (trials, meters) = (measurements(trials), store.meters()?);
    let mut sessions = Vec::new();
    for session in store.sessions()? {
        let marks = store.marks(session.id)?;
        let mut channels = Vec::new();
        for row in meters.iter().filter(|row| row.session == session.id) {
            channels.extend(of_meter(store, row, &marks)?);
        }
        let positions = loaded(&marks, &trials).map(|(position, _)| position).collect();
        sessions.push(SessionPower { session: session.id, positions, channels });
    }
    Ok(sessions)
}

fn of_meter(store: &Store, row: &MeterRow, marks: &[Mark]) -> Result<Vec<ChannelPower>, StoreError> {
    let (record, readings) = (meter_record(store, row)?, readings(store, row)?);
    let Ok(alignment) = align::of_record(&record, &readings, marks) else { return Ok(Vec::new()) };
    let clock = record.clock(alignment.as_ref());
    let power = |(index, channel): (usize, &iopj_meter::Channel)| {
        let powers = iopj_meter::powers(channel, index, &readings, clock).ok()?;
        let name = match record.channels.len() {
            1 => row.name.clone(),
            _ => format!("{} {}", row.name, channel.name),
        };
        let readings = powers.into_iter().map(|(at_ns, watts)| PowerReading { at_ns, watts }).collect();
        Some(ChannelPower { name, scope: channel.scope, readings })
    };
    let all = record.channels.iter().enumerate().filter_map(power);
    Ok(all.filter(|channel| !channel.readings.is_empty()).collect())
}
