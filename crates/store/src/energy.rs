//! Energy: sessions, meters, raw readings, marks of load and idle time, joules of trials.
//!
//! Raw readings are kept, so joules can be computed again. All times are `CLOCK_MONOTONIC_RAW` in ns of a
//! session's boot.

use crate::checksum::{self, Kind};
use crate::details;
use crate::error::StoreError;
use crate::pending;
use crate::store::Store;
use iopj_record::energy::{EnergyOfTrial, Mark, MeterRow, RawValue, ReadingRow, Session};
use rusqlite::{OptionalExtension, params};

impl Store {
    /// Begins a session and returns its number.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn add_session(&mut self, boot: &str, unix_minus_raw_ns: i64) -> Result<i64, StoreError> {
        let sql = "INSERT INTO session (boot, unix_minus_raw_ns) VALUES (?1, ?2)";
        self.transact(|transaction| {
            transaction.execute(sql, params![boot, unix_minus_raw_ns])?;
            let session = transaction.last_insert_rowid();
            checksum::keep(transaction, Kind::Session, session).map(|()| session)
        })
    }

    /// The sessions, in order.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn sessions(&self) -> Result<Vec<Session>, StoreError> {
        self.verify(&[Kind::Session])?;
        self.all("SELECT id, boot, unix_minus_raw_ns FROM session ORDER BY id", [], |row| {
            Ok(Session { id: row.get(0)?, boot: row.get(1)?, unix_minus_raw_ns: row.get(2)? })
        })
    }

    /// Adds a meter to a session, replacing one of that name with its readings. Returns its number.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn add_meter(&mut self, session: i64, name: &str, record: &str) -> Result<i64, StoreError> {
        self.transact(|transaction| {
            let find = "SELECT id FROM meter WHERE session = ?1 AND name = ?2";
            let old: Option<i64> =
                transaction.query_row(find, params![session, name], |row| row.get(0)).optional()?;
            if let Some(old) = old {
                checksum::forget_readings(transaction, old)?;
                transaction.execute("DELETE FROM reading WHERE meter = ?1", [old])?;
                transaction.execute("DELETE FROM meter WHERE id = ?1", [old])?;
                checksum::keep(transaction, Kind::Meter, old)?;
            }
            let insert = "INSERT INTO meter (session, name, record) VALUES (?1, ?2, ?3)";
            transaction.execute(insert, params![session, name, record])?;
            let meter = transaction.last_insert_rowid();
            checksum::keep(transaction, Kind::Meter, meter).map(|()| meter)
        })
    }

    /// Changes what a meter is said to be, and keeps its readings.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn set_meter_record(&mut self, meter: i64, record: &str) -> Result<(), StoreError> {
        self.transact(|transaction| {
            transaction.execute("UPDATE meter SET record = ?2 WHERE id = ?1", params![meter, record])?;
            checksum::keep(transaction, Kind::Meter, meter)
        })
    }

    /// All meters of all sessions.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn meters(&self) -> Result<Vec<MeterRow>, StoreError> {
        self.verify(&[Kind::Meter])?;
        self.all("SELECT id, session, name, record FROM meter NOT INDEXED ORDER BY session, id", [], |row| {
            Ok(MeterRow { id: row.get(0)?, session: row.get(1)?, name: row.get(2)?, record: row.get(3)? })
        })
    }

    /// Adds readings of a meter, in one transaction.
    ///
    /// # Errors
    /// [`StoreError::Full`], [`StoreError::Unkeepable`] for watts that are no number, or SQLite's error; then
    /// none is stored.
    pub fn add_readings(&mut self, meter: i64, readings: &[ReadingRow]) -> Result<(), StoreError> {
        let is_finite = |reading: &ReadingRow| match reading.value {
            RawValue::Watts(watts) => watts.is_finite(),
            RawValue::Count(_) => true,
        };
        if !readings.iter().all(is_finite) {
            return Err(self.unkeepable("a meter's reading is not a number".to_owned()));
        }
        self.transact(|transaction| {
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
            let last = transaction.last_insert_rowid();
            checksum::keep_readings(transaction, last - readings.len() as i64 + 1, last)
        })
    }

    /// The readings of a meter, in the order in which they were made.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn readings(&self, meter: i64) -> Result<Vec<ReadingRow>, StoreError> {
        self.verify_readings()?;
        let sql = "SELECT channel, count, watts, begin_ns, end_ns, wall_ns, own_ns FROM reading NOT \
                   INDEXED WHERE meter = ?1 ORDER BY rowid";
        self.all(sql, [meter], |row| {
            let value = match row.get::<_, Option<i64>>(1)? {
                Some(count) => RawValue::Count(count as u64),
                None => RawValue::Watts(row.get(2)?),
            };
            Ok(ReadingRow {
                channel: row.get(0)?,
                value,
                begin_ns: details::count(row, 3)?,
                end_ns: details::count(row, 4)?,
                wall_ns: row.get(5)?,
                own_ns: row.get(6)?,
            })
        })
    }

    /// Adds a mark.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn add_mark(&mut self, session: i64, mark: &Mark) -> Result<(), StoreError> {
        let times = serde_json::Value::from(mark.times_ns.clone()).to_string();
        let position = mark.position.map(|position| position as i64);
        let insert = "INSERT INTO mark VALUES (?1, ?2, ?3, ?4)";
        self.transact(|transaction| {
            transaction.execute(insert, params![session, mark.kind.as_str(), position, times])?;
            checksum::keep(transaction, Kind::Mark, transaction.last_insert_rowid())
        })
    }

    /// The marks of a session, in the order in which they were made.
    ///
    /// # Errors
    /// SQLite's error, or a mark that cannot be read.
    pub fn marks(&self, session: i64) -> Result<Vec<Mark>, StoreError> {
        self.verify(&[Kind::Mark])?;
        let sql = "SELECT kind, position, times_ns FROM mark WHERE session = ?1 ORDER BY rowid";
        let rows: Vec<(String, Option<i64>, String)> =
            self.all(sql, [session], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let mark = |(kind, position, times): (String, Option<i64>, String)| {
            let kind = serde_json::Value::from(kind).to_string();
            let position = position.map(|position| position as u64);
            Ok(Mark { kind: self.parse(&kind, "mark")?, position, times_ns: self.parse(&times, "mark")? })
        };
        rows.into_iter().map(mark).collect()
    }

    /// Replaces the energy of these trials, in one transaction. Positions without a measured trial are left
    /// out.
    ///
    /// # Errors
    /// [`StoreError::Full`], or SQLite's error; then the old energy is still there.
    pub fn set_energy(&mut self, of_trials: &[EnergyOfTrial]) -> Result<(), StoreError> {
        self.transact(|transaction| {
            for (position, energy) in of_trials {
                if let Some(trial) = details::measured_at(transaction, *position)? {
                    transaction.execute("DELETE FROM energy WHERE trial = ?1", [trial])?;
                    details::add_energy(transaction, trial, energy)?;
                }
            }
            Ok(())
        })
    }

    /// Whether joules of a measured trial are still to be computed from what its meters have read.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn has_pending_energy(&self) -> Result<bool, StoreError> {
        pending::any(&self.connection)
            .map_err(|error| StoreError::of_sqlite(self.path(), Some(&self.connection), error))
    }
}
