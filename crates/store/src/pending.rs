//! Joules that are not there yet: of trials whose meters were read by a run that has not ended, or was killed.

use crate::details::from_json;
use crate::error::StoreError;
use crate::store::Store;
use iopj_core::{EnergyOutcome, Scope, TrialEnergy};
use rusqlite::Connection;
use serde::Deserialize;

/// The meters that were read while a trial loaded the machine.
const METERS: &str = "FROM trial JOIN mark ON mark.position = trial.position AND mark.kind = 'load' \
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
}

/// The energy of a trial that has none yet: pending, by each scope of each meter that was read.
pub(crate) fn of(connection: &Connection, trial: i64) -> rusqlite::Result<Vec<TrialEnergy>> {
    let sql =
        format!("SELECT DISTINCT meter.name, meter.record {METERS} WHERE trial.id = ?1 ORDER BY meter.id");
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

impl Store {
    /// Whether joules of a measured trial are still to be computed from what its meters have read.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn has_pending_energy(&self) -> Result<bool, StoreError> {
        let sql = format!(
            "SELECT EXISTS (SELECT 1 {METERS} WHERE trial.error IS NULL AND NOT EXISTS (SELECT 1 FROM energy \
             WHERE energy.trial = trial.id))"
        );
        Ok(self.all(&sql, [], |row| row.get(0))?.contains(&true))
    }
}
