//! Joules that are not there yet: of trials whose meters were read by a run that has not ended, or was
//! killed.

use crate::json_column::from_json;
use iopj_core::{EnergyOutcome, Scope, TrialEnergy};
use rusqlite::Connection;
use serde::Deserialize;
use std::collections::BTreeMap;

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

/// The energy of a trial that has none yet: pending, by each scope of each meter that was read.
pub(crate) fn of(connection: &Connection, trial: i64) -> rusqlite::Result<Vec<TrialEnergy>> {
    let sql = format!("SELECT meter.name, meter.record {METERS} WHERE trial.id = ?1 ORDER BY meter.id");
    let mut meters = connection.prepare_cached(&sql)?;
    let mut rows = meters.query([trial])?;
    let mut all: Vec<TrialEnergy> = Vec::new();
    while let Some(row) = rows.next()? {
        let (meter, Meter { channels, model }): (String, Meter) = (row.get(0)?, from_json(row, 1)?);
        let mut scopes: BTreeMap<Scope, Vec<String>> = BTreeMap::new();
        for channel in channels.iter().filter(|channel| !is_contained(&channels, channel)) {
            scopes.entry(channel.scope).or_default().push(channel.name.clone());
        }
        let estimated = model.is_some();
        scopes.extend(model.map(|model| (model.scope, Vec::new())));
        all.extend(scopes.into_iter().map(|(scope, channels)| TrialEnergy {
            meter: meter.clone(),
            scope,
            channels,
            estimated,
            rules: 0,
            outcome: EnergyOutcome::Pending,
        }));
    }
    Ok(all)
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
