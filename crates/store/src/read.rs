//! Trials as they are read: some at a time, each with what tables of its own keep of it.

use crate::checksum::Kind;
use crate::details;
use crate::error::StoreError;
use crate::pending;
use crate::record::{Measurement, Outcome, Trial};
use crate::repeat;
use crate::shared_value::SharedValue;
use crate::store::Store;
use iopj_core::TrialEnergy;
use rusqlite::{Row, params};
use std::collections::HashMap;

/// How many trials are read at once: what is not decoded yet of more would take memory, and queries of fewer
/// take time.
const AT_ONCE: i64 = 256;

impl Store {
    /// The trials in force, in the order in which they ran: not those of a block that a whole repeat
    /// replaces, nor those of a repeat that is not whole.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn trials(&self) -> Result<Vec<Trial>, StoreError> {
        let repeats = repeat::all(&self.connection).map_err(|error| self.sqlite(error))?;
        let mut trials = Vec::new();
        self.read(
            |row| repeat::is_in_force(&repeats, row.replicate),
            |trial| {
                trials.push(trial);
                Ok(())
            },
        )?;
        Ok(trials)
    }

    /// All trials, also those that [`Store::trials`] leaves out, in the order in which they ran. The study's
    /// record says which are in force ([`StudyRecord::is_in_force`](crate::StudyRecord::is_in_force)).
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn all_trials(&self) -> Result<Vec<Trial>, StoreError> {
        let mut trials = Vec::new();
        self.for_each_trial(|trial| {
            trials.push(trial);
            Ok(())
        })?;
        Ok(trials)
    }

    /// Hands on all trials one by one, so that they are not all in memory at once.
    ///
    /// # Errors
    /// A record cannot be read, or what `take` returns.
    pub fn for_each_trial<E: From<StoreError>>(
        &self,
        take: impl FnMut(Trial) -> Result<(), E>,
    ) -> Result<(), E> {
        self.read(|_| true, take)
    }

    /// Reads the trials that are wanted, some at a time: without WAL, no trial is committed while a cursor is
    /// open.
    fn read<E: From<StoreError>>(
        &self,
        mut is_wanted: impl FnMut(&TrialRow) -> bool,
        mut take: impl FnMut(Trial) -> Result<(), E>,
    ) -> Result<(), E> {
        let there = self.verify(&[Kind::Trial])?;
        self.verify(&[Kind::Costs, Kind::TargetCosts, Kind::Energy])?;
        let mut pending = None;
        let (mut after, mut read) = (i64::MIN, 0);
        let mut power_state = [SharedValue::default(), SharedValue::default()];
        loop {
            let rows = self.rows(after)?;
            if rows.is_empty() {
                // A live run adds trials meanwhile, and takes none away.
                let is_whole = read >= there.sound + there.without;
                return if is_whole { Ok(()) } else { Err(self.damaged_trials().into()) };
            }
            for row in &rows {
                // In a damaged index, looking for what follows may lead back.
                if row.id <= after {
                    return Err(self.damaged_trials().into());
                }
                after = row.id;
            }
            read += rows.len() as u64;
            let rows: Vec<TrialRow> = rows.into_iter().filter(&mut is_wanted).collect();
            let mut details = self.details(&rows)?;
            for row in rows {
                let id = row.id;
                let mut trial = self.decoded(row)?;
                if let Some(measurement) = trial.outcome.measurement_mut() {
                    details.move_to(id, measurement);
                    share(&mut power_state, &mut measurement.power_state);
                    if measurement.energy.is_empty() {
                        measurement.energy = self.pending(&mut pending, id)?;
                    }
                }
                take(trial)?;
            }
        }
    }

    fn damaged_trials(&self) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), what: "the order of its trials".to_owned() }
    }

    /// The next rows, not decoded yet.
    pub(crate) fn rows(&self, after: i64) -> Result<Vec<TrialRow>, StoreError> {
        let select = "SELECT id, path, workload, settings, generator, replicate, position, started_unix_ns, \
                      gap_ns, error, measurement FROM trial WHERE id > ?1 ORDER BY id LIMIT ?2";
        self.all(select, params![after, AT_ONCE], TrialRow::of)
    }

    fn details(&self, rows: &[TrialRow]) -> Result<details::Details, StoreError> {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            return Ok(details::Details::default());
        };
        details::read(&self.connection, first.id, last.id).map_err(|error| self.sqlite(error))
    }

    /// The energy of a trial that is still to be computed. All of it is found at once, where there is any.
    fn pending(
        &self,
        known: &mut Option<HashMap<i64, Vec<TrialEnergy>>>,
        trial: i64,
    ) -> Result<Vec<TrialEnergy>, StoreError> {
        let all = match known {
            Some(all) => all,
            None => known.insert(pending::all(&self.connection).map_err(|error| self.sqlite(error))?),
        };
        Ok(all.remove(&trial).unwrap_or_default())
    }

    /// A trial without what tables of its own keep.
    pub(crate) fn decoded(&self, row: TrialRow) -> Result<Trial, StoreError> {
        let quoted = |text: String| serde_json::Value::String(text).to_string();
        let outcome = match row.outcome {
            Err(error) => Outcome::Failed(error),
            Ok(record) => {
                let measurement: Box<Measurement> = self.parse(&record, "measurement")?;
                Outcome::Measured(measurement)
            }
        };
        Ok(Trial {
            path: self.parse(&quoted(row.path), "path")?,
            workload: self.parse(&row.workload, "workload")?,
            settings: self.parse(&row.settings, "settings")?,
            generator: self.parse(&quoted(row.generator), "generator")?,
            replicate: row.replicate,
            position: row.position,
            started_unix_ns: row.started_unix_ns,
            gap_ns: row.gap_ns,
            outcome,
        })
    }
}

/// What a trial has in common with the one before it is in memory once.
fn share(before: &mut [SharedValue; 2], now: &mut [SharedValue; 2]) {
    for (before, now) in before.iter_mut().zip(now) {
        now.share(before);
        before.clone_from(now);
    }
}

/// A trial as its table holds it.
pub(crate) struct TrialRow {
    id: i64,
    path: String,
    workload: String,
    settings: String,
    generator: String,
    pub(crate) replicate: u32,
    position: u64,
    started_unix_ns: u64,
    gap_ns: Option<u64>,
    /// The measurement as JSON, or why there is none.
    outcome: Result<String, String>,
}

impl TrialRow {
    fn of(row: &Row<'_>) -> rusqlite::Result<TrialRow> {
        Ok(TrialRow {
            id: row.get(0)?,
            path: row.get(1)?,
            workload: row.get(2)?,
            settings: row.get(3)?,
            generator: row.get(4)?,
            replicate: row.get(5)?,
            position: details::count(row, 6)?,
            started_unix_ns: details::count(row, 7)?,
            gap_ns: row.get::<_, Option<i64>>(8)?.map(|ns| ns as u64),
            outcome: match row.get(9)? {
                Some(error) => Err(error),
                None => Ok(row.get(10)?),
            },
        })
    }
}
