//! What meters said, and what it makes of a trial: sessions, meters, raw readings, marks of load and rest,
//! joules.
//!
//! Raw readings stay, so that the joules can be computed anew. All times are `CLOCK_MONOTONIC_RAW` in ns of a
//! session's boot.

use crate::error::StoreError;
use crate::store::Store;
use iopj_core::TrialEnergy;
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

/// A run, or a resumption of one: within it raw times are of one boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its number, from 1.
    pub id: i64,
    /// The kernel's boot id.
    pub boot: String,
    /// Wall time less raw time at its begin.
    pub unix_minus_raw_ns: i64,
}

/// A meter of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterRow {
    /// Its number.
    pub id: i64,
    /// Its session.
    pub session: i64,
    /// Its name in the study.
    pub name: String,
    /// What it is and what its channels are, as JSON.
    pub record: String,
}

/// A raw reading of one channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadingRow {
    /// Index into the meter's channels.
    pub channel: u32,
    /// The value.
    pub value: RawValue,
    /// When reading began.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Wall time at the end, since 1970.
    pub wall_ns: i64,
    /// The meter's own time.
    pub own_ns: Option<i64>,
}

/// A reading's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RawValue {
    /// Of a counter.
    Count(u64),
    /// Of a gauge, in W.
    Watts(f64),
}

/// What the machine did for a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MarkKind {
    /// I/O of a trial, its ramp included: the times at which load went on, off, on, ...
    Load,
    /// Nothing: begin and end.
    Idle,
    /// The load pattern: begin, edges, end.
    Pattern,
}

impl MarkKind {
    fn as_str(self) -> &'static str {
        match self {
            MarkKind::Load => "load",
            MarkKind::Idle => "idle",
            MarkKind::Pattern => "pattern",
        }
    }
}

/// A mark on a session's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What.
    pub kind: MarkKind,
    /// A load's trial, by its place in the study's order.
    pub position: Option<u64>,
    /// When, in order.
    pub times_ns: Vec<u64>,
}

/// The energy of one trial, found by its place in the study's order.
pub type EnergyOfTrial = (u64, Vec<TrialEnergy>);

impl Store {
    /// Begins a session and tells its number.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn add_session(&mut self, boot: &str, unix_minus_raw_ns: i64) -> Result<i64, StoreError> {
        let sql = "INSERT INTO session (boot, unix_minus_raw_ns) VALUES (?1, ?2)";
        self.connection.execute(sql, params![boot, unix_minus_raw_ns]).map_err(|error| self.sqlite(error))?;
        Ok(self.connection.last_insert_rowid())
    }

    /// The sessions, in order.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn sessions(&self) -> Result<Vec<Session>, StoreError> {
        self.all("SELECT id, boot, unix_minus_raw_ns FROM session ORDER BY id", &[], |row| {
            Ok(Session { id: row.get(0)?, boot: row.get(1)?, unix_minus_raw_ns: row.get(2)? })
        })
    }

    /// Adds a meter to a session, in the place of one of that name and its readings. Tells its number.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn add_meter(&mut self, session: i64, name: &str, record: &str) -> Result<i64, StoreError> {
        let add = |connection: &mut Connection| -> rusqlite::Result<i64> {
            let transaction = connection.transaction()?;
            let find = "SELECT id FROM meter WHERE session = ?1 AND name = ?2";
            let old: Option<i64> =
                transaction.query_row(find, params![session, name], |row| row.get(0)).optional()?;
            if let Some(old) = old {
                transaction.execute("DELETE FROM reading WHERE meter = ?1", [old])?;
                transaction.execute("DELETE FROM meter WHERE id = ?1", [old])?;
            }
            let insert = "INSERT INTO meter (session, name, record) VALUES (?1, ?2, ?3)";
            transaction.execute(insert, params![session, name, record])?;
            let id = transaction.last_insert_rowid();
            transaction.commit().map(|()| id)
        };
        add(&mut self.connection).map_err(|error| self.sqlite(error))
    }

    /// All meters of all sessions.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn meters(&self) -> Result<Vec<MeterRow>, StoreError> {
        self.all("SELECT id, session, name, record FROM meter ORDER BY session, id", &[], |row| {
            Ok(MeterRow { id: row.get(0)?, session: row.get(1)?, name: row.get(2)?, record: row.get(3)? })
        })
    }

    /// Adds readings of a meter, in one transaction.
    ///
    /// # Errors
    /// [`StoreError::Full`], [`StoreError::Unkeepable`] for watts that are no number, or what SQLite says;
    /// then none is there.
    pub fn add_readings(&mut self, meter: i64, readings: &[ReadingRow]) -> Result<(), StoreError> {
        let is_number =
            |reading: &&ReadingRow| matches!(reading.value, RawValue::Watts(watts) if !watts.is_finite());
        if readings.iter().any(|reading| is_number(&reading)) {
            let what = "a meter's reading is no number".to_owned();
            return Err(StoreError::Unkeepable { path: self.path().to_owned(), what });
        }
        let add = |connection: &mut Connection| -> rusqlite::Result<()> {
            let transaction = connection.transaction()?;
            let mut insert =
                transaction.prepare_cached("INSERT INTO reading VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
            for reading in readings {
                let (count, watts) = match reading.value {
                    RawValue::Count(count) => (Some(count as i64), None),
                    RawValue::Watts(watts) => (None, Some(watts)),
                };
                insert.execute(params![
                    meter,
                    reading.channel,
                    count,
                    watts,
                    reading.begin_ns as i64,
                    reading.end_ns as i64,
                    reading.wall_ns,
                    reading.own_ns,
                ])?;
            }
            drop(insert);
            transaction.commit()
        };
        add(&mut self.connection).map_err(|error| self.sqlite(error))
    }

    /// The readings of a meter, in the order in which they were made.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn readings(&self, meter: i64) -> Result<Vec<ReadingRow>, StoreError> {
        let sql = "SELECT channel, count, watts, begin_ns, end_ns, wall_ns, own_ns FROM reading WHERE meter \
                   = ?1 ORDER BY rowid";
        self.all(sql, &[&meter], |row| {
            let value = match row.get::<_, Option<i64>>(1)? {
                Some(count) => RawValue::Count(count as u64),
                None => RawValue::Watts(row.get(2)?),
            };
            let ns = |column| row.get::<_, i64>(column).map(|ns| ns as u64);
            Ok(ReadingRow {
                channel: row.get(0)?,
                value,
                begin_ns: ns(3)?,
                end_ns: ns(4)?,
                wall_ns: row.get(5)?,
                own_ns: row.get(6)?,
            })
        })
    }

    /// Adds a mark.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn add_mark(&mut self, session: i64, mark: &Mark) -> Result<(), StoreError> {
        let times = serde_json::Value::from(mark.times_ns.clone()).to_string();
        let position = mark.position.map(|position| position as i64);
        let insert = "INSERT INTO mark VALUES (?1, ?2, ?3, ?4)";
        let done = self.connection.execute(insert, params![session, mark.kind.as_str(), position, times]);
        done.map(|_| ()).map_err(|error| self.sqlite(error))
    }

    /// The marks of a session, in the order in which they were made.
    ///
    /// # Errors
    /// What SQLite says, or a mark that cannot be read.
    pub fn marks(&self, session: i64) -> Result<Vec<Mark>, StoreError> {
        let sql = "SELECT kind, position, times_ns FROM mark WHERE session = ?1 ORDER BY rowid";
        let rows: Vec<(String, Option<i64>, String)> =
            self.all(sql, &[&session], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let mark = |(kind, position, times): (String, Option<i64>, String)| {
            let kind = serde_json::Value::from(kind).to_string();
            let position = position.map(|position| position as u64);
            Ok(Mark { kind: self.parse(&kind, "mark")?, position, times_ns: self.parse(&times, "mark")? })
        };
        rows.into_iter().map(mark).collect()
    }

    /// Puts the energy of trials in the place of what was there, in one transaction. Positions without a
    /// measured trial are left out.
    ///
    /// # Errors
    /// [`StoreError::Full`], or what SQLite says; then the old is still there.
    pub fn set_energy(&mut self, of_trials: &[EnergyOfTrial]) -> Result<(), StoreError> {
        let set = |connection: &mut Connection| -> rusqlite::Result<()> {
            let transaction = connection.transaction()?;
            let find = "SELECT id FROM trial WHERE position = ?1 AND error IS NULL";
            for (position, energy) in of_trials {
                let trial: Option<i64> =
                    transaction.query_row(find, [*position as i64], |row| row.get(0)).optional()?;
                let Some(trial) = trial else { continue };
                transaction.execute("DELETE FROM energy WHERE trial = ?1", [trial])?;
                add(&transaction, trial, energy)?;
            }
            transaction.commit()
        };
        set(&mut self.connection).map_err(|error| self.sqlite(error))
    }

    fn all<T>(
        &self,
        sql: &str,
        parameters: &[&dyn rusqlite::ToSql],
        row: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let read = || -> rusqlite::Result<Vec<T>> {
            let mut statement = self.connection.prepare(sql)?;
            statement.query_map(parameters, row)?.collect()
        };
        read().map_err(|error| self.sqlite(error))
    }
}

/// Adds the energy of a trial.
pub(crate) fn add(connection: &Connection, trial: i64, energy: &[TrialEnergy]) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached("INSERT INTO energy VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for one in energy {
        let record = serde_json::to_string(one)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        let joules = one.joules();
        insert.execute(params![
            trial,
            one.meter,
            one.scope.as_str(),
            joules.map(|joules| joules.joules),
            joules.map(|joules| joules.watts()),
            record,
        ])?;
    }
    Ok(())
}

/// The energy of a trial, by meter.
pub(crate) fn read(connection: &Connection, trial: i64) -> rusqlite::Result<Vec<TrialEnergy>> {
    let mut rows = connection.prepare_cached("SELECT record FROM energy WHERE trial = ?1 ORDER BY rowid")?;
    let kind = rusqlite::types::Type::Text;
    let rows = rows.query_map([trial], |row| {
        let record: String = row.get(0)?;
        serde_json::from_str(&record)
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, kind, Box::new(error)))
    })?;
    rows.collect()
}
