//! Joules that are not there yet: of trials whose meters were read by a run that has not ended, or was
//! killed.

use crate::json_column::from_json;
use iopj_core::{EnergyOutcome, Scope, TrialEnergy};
use rusqlite::Connection;
use serde::Deserialize;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

/// The meters that were read while a trial loaded the machine. A run that was killed between the mark of a
/// trial and the trial itself has left a mark of what another session measured: a mark ends with its trial's
/// window.
const METERS: &str = "FROM trial JOIN mark ON mark.position = trial.position AND mark.kind = 'load' AND \
                      json_extract(mark.times_ns, '$[#-1]') = \
                      json_extract(trial.measurement, '$.window_raw_ns[1]') \
                      JOIN meter ON meter.session = mark.session";

/// What a meter's record says of its scopes.
#[derive(Deserialize)]
struct Meter {
    channels: Vec<Part>,
    /// An estimate's, which has no channels.
    #[serde(default)]
    model: Option<Part>,
}

/// A channel, or a model.
#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    name: String,
    scope: Scope,
    /// The channel that contains it; of the same scope, it counts each joule.
    #[serde(default)]
    parent: Option<String>,
}

/// The energy of each trial that has none yet: pending, by each scope of each meter that was read.
pub(crate) fn all(connection: &Connection) -> rusqlite::Result<HashMap<i64, Vec<TrialEnergy>>> {
    let sql = format!("SELECT trial.id, meter.id, meter.name, meter.record {METERS} ORDER BY meter.id");
    let mut select = connection.prepare(&sql)?;
    let mut rows = select.query([])?;
    let (mut all, mut meters) = (HashMap::<i64, Vec<TrialEnergy>>::new(), HashMap::new());
    while let Some(row) = rows.next()? {
        let of_meter: &Vec<TrialEnergy> = match meters.entry(row.get::<_, i64>(1)?) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(pending(row.get(2)?, from_json(row, 3)?)),
        };
        all.entry(row.get(0)?).or_default().extend(of_meter.iter().cloned());
    }
    Ok(all)
}

/// What is pending of a trial that this meter was read for.
fn pending(meter: String, Meter { channels, model }: Meter) -> Vec<TrialEnergy> {
    let mut scopes: BTreeMap<Scope, Vec<String>> = BTreeMap::new();
    for channel in channels.iter().filter(|channel| !is_contained(&channels, channel)) {
        scopes.entry(channel.scope).or_default().push(channel.name.clone());
    }
    let estimated = model.is_some();
    scopes.extend(model.map(|model| (model.scope, Vec::new())));
    let of_scope = |(scope, channels)| TrialEnergy {
        meter: meter.clone(),
        scope,
        channels,
        estimated,
        rules: 0,
        outcome: EnergyOutcome::Pending,
    };
    scopes.into_iter().map(of_scope).collect()
}

/// Whether a channel above this one, at any distance, is of its scope.
fn is_contained(channels: &[Part], channel: &Part) -> bool {
    let parent = |of: &Part| channels.iter().find(|other| Some(&other.name) == of.parent.as_ref());
    // No chain is longer than there are channels, even if a meter makes a ring of them.
    let above = std::iter::successors(parent(channel), |one| parent(one)).take(channels.len());
    above.into_iter().any(|one| one.scope == channel.scope)
}

/// Whether a measured trial has none yet.
pub(crate) fn any(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = format!(
        "SELECT EXISTS (SELECT 1 {METERS} WHERE trial.error IS NULL AND NOT EXISTS (SELECT 1 FROM energy \
         WHERE energy.trial = trial.id))"
    );
    connection.query_row(&sql, [], |row| row.get(0))
}
