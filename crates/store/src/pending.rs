//! Joules that are not there yet: of trials whose meters were read by a run that has not ended, or was
//! killed.

use crate::json_column::from_json;
use iopj_core::{EnergyOutcome, Scope, TrialEnergy};
use rusqlite::Connection;
use serde::Deserialize;

/// The meters that were read while a trial loaded the machine. A session that was killed after the mark of
/// its trial has a mark without it: the last one counts.
const METERS: &str = "FROM trial JOIN mark ON mark.position = trial.position AND mark.kind = 'load' AND \
                      mark.session = (SELECT MAX(session) FROM mark WHERE kind = 'load' AND position = \
                      trial.position) JOIN meter ON meter.session = mark.session";

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
}

/// The energy of a trial that has none yet: pending, by each scope of each meter that was read.
pub(crate) fn of(connection: &Connection, trial: i64) -> rusqlite::Result<Vec<TrialEnergy>> {
    let sql = format!("SELECT meter.name, meter.record {METERS} WHERE trial.id = ?1 ORDER BY meter.id");
    let mut meters = connection.prepare_cached(&sql)?;
    let mut rows = meters.query([trial])?;
    let mut all: Vec<TrialEnergy> = Vec::new();
    while let Some(row) = rows.next()? {
        let (name, meter): (String, Meter) = (row.get(0)?, from_json(row, 1)?);
        let estimated = meter.model.is_some();
        for Part { name: channel, scope } in meter.channels.into_iter().chain(meter.model) {
            let known = all.iter_mut().find(|one| one.meter == name && one.scope == scope);
            let channels = Some(channel).filter(|_| !estimated);
            match known {
                Some(one) => one.channels.extend(channels),
                None => all.push(TrialEnergy {
                    meter: name.clone(),
                    scope,
                    channels: channels.into_iter().collect(),
                    estimated,
                    rules: iopj_core::energy::RULES,
                    outcome: EnergyOutcome::Pending,
                }),
            }
        }
    }
    Ok(all)
}

/// Whether a measured trial has none yet.
pub(crate) fn any(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = format!(
        "SELECT EXISTS (SELECT 1 {METERS} WHERE trial.error IS NULL AND NOT EXISTS (SELECT 1 FROM energy \
         WHERE energy.trial = trial.id))"
    );
    connection.query_row(&sql, [], |row| row.get(0))
}
