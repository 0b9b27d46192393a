//! One SQLite file per study: made, opened, locked for a run; one transaction per trial.

use crate::checksum::{self, Kind};
use crate::error::StoreError;
use crate::open::{check_header, connect, copy_forward, lock};
use crate::repeat;
use crate::{details, file, schema};
use iopj_core::CostProfile;
use iopj_core::fabric::{HostSide, NetworkBaseline};
use iopj_record::Repeat;
use iopj_record::trial::{Outcome, StudyRecord, Trial};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::fs::File;
use std::path::{Path, PathBuf};

/// An open store.
#[derive(Debug)]
pub struct Store {
    // Declared, and so closed, before the lock's descriptor: closing any descriptor of the file
    // would drop SQLite's own locks.
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    pub(crate) _lock: Option<File>,
}

impl Store {
    /// Opens a store for reading, unchanged. A live run may be writing to it. Of one of a schema before 6, a
    /// copy of this moment is read: open it again to see later trials.
    ///
    /// # Errors
    /// The file is missing, no store, or of a newer schema.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        let (mut store, found) = Store::open_any(path)?;
        if found < schema::VERSION {
            let lent = schema::lend_tables(&store.connection, found);
            if !lent.map_err(|error| store.sqlite(error))? {
                if file::is_hollow(path) {
                    let reason = "most of its pages are holes, so it is damaged".to_owned();
                    return Err(StoreError::NotAStore { path: path.to_owned(), reason });
                }
                let copy = copy_forward(&store.connection, found);
                store.connection = copy.map_err(|error| match error.sqlite_error_code() {
                    Some(rusqlite::ErrorCode::DiskFull) => StoreError::NoTemporary(path.to_owned()),
                    _ => store.sqlite(error),
                })?;
            }
        }
        Ok(store)
    }

    /// Opens a store to continue its run, locks it, and brings an older schema forward.
    ///
    /// # Errors
    /// The file is missing, no store, or of a newer schema; [`StoreError::Locked`].
    pub fn open_for_run(path: &Path) -> Result<Store, StoreError> {
        check_header(path)?;
        let lock = lock(path)?;
        if file::is_nearly_full(path) {
            return Err(StoreError::Full(path.to_owned()));
        }
        if !file::may_write(path) {
            return Err(StoreError::ReadOnly(path.to_owned()));
        }
        let (mut store, version) = Store::open_any(path)?;
        store._lock = Some(lock);
        if version < schema::VERSION {
            schema::migrate(&mut store.connection, version).map_err(|error| store.sqlite(error))?;
        }
        store.prepare().map_err(|error| store.sqlite(error))?;
        Ok(store)
    }

    /// Opens a store of any schema that this program knows, without bringing it forward.
    pub(crate) fn open_as_it_is(path: &Path) -> Result<Store, StoreError> {
        Store::open_any(path).map(|(store, _)| store)
    }

    /// Opens a store of any schema that this program knows; returns the schema's version too.
    fn open_any(path: &Path) -> Result<(Store, i32), StoreError> {
        check_header(path)?;
        // Before SQLite opens the file: closing this descriptor later would drop its locks.
        let is_alone = file::is_nearly_full(path) && lock(path).is_ok();
        let store = Store { connection: connect(path)?, path: path.to_owned(), _lock: None };
        if is_alone {
            // Without a live run the log's index may be private, and then it is in memory.
            let alone = store.connection.pragma_update(None, "locking_mode", "EXCLUSIVE");
            alone.map_err(|error| store.sqlite(error))?;
        }
        let (application, version) = store.identity()?;
        if application != schema::APPLICATION_ID {
            let reason = "it is an SQLite file of another program".to_owned();
            return Err(StoreError::NotAStore { path: path.to_owned(), reason });
        }
        if version < 1 {
            let reason = format!("its schema has the number {version}, so it is damaged");
            return Err(StoreError::NotAStore { path: path.to_owned(), reason });
        }
        if version > schema::VERSION {
            return Err(StoreError::Newer { path: path.to_owned(), found: version, known: schema::VERSION });
        }
        let other = schema::difference(&store.connection, version).map_err(|error| store.sqlite(error))?;
        if let Some(reason) = other {
            return Err(StoreError::NotAStore { path: path.to_owned(), reason });
        }
        Ok((store, version))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The study.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn study(&self) -> Result<StudyRecord, StoreError> {
        self.verify(&[Kind::Study, Kind::Repeat])?;
        let text: Option<String> = self
            .connection
            .query_row("SELECT record FROM study", [], |row| row.get(0))
            .optional()
            .map_err(|error| self.sqlite(error))?;
        let Some(text) = text else {
            if self.watch()?.is_some() {
                return Err(StoreError::OfWatch(self.path.clone()));
            }
            let reason = "it holds no study".to_owned();
            return Err(StoreError::NotAStore { path: self.path.clone(), reason });
        };
        let record = self.parse(&text, "study")?;
        Ok(StudyRecord { repeats: self.repeats()?, networks: self.networks()?, ..record })
    }

    /// Adds a trial with its histograms and series: one transaction, synced to the disk.
    ///
    /// # Errors
    /// [`StoreError::Full`], [`StoreError::Unkeepable`], or SQLite's error; then the trial is absent.
    pub fn add(&mut self, trial: &Trial) -> Result<(), StoreError> {
        let workload = self.readable_json(&trial.workload, "workload")?;
        let settings = self.readable_json(&trial.settings, "settings")?;
        let (error, measured) = match &trial.outcome {
            Outcome::Failed(error) => (Some(error), None),
            Outcome::Measured(measurement) => (None, Some(measurement)),
        };
        if let Some((name, value)) = measured.and_then(|m| m.not_finite()) {
            return Err(self.unkeepable(format!("its {name} is {value}")));
        }
        let record = measured.map(|m| self.readable_json(&details::without(m), "measurement")).transpose()?;
        self.transact(|transaction| {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO trial (path, workload, settings, generator, replicate, position, \
                 started_unix_ns, gap_ns, error,
                 verdict, iops, latency_ns_mean, latency_ns_p50, latency_ns_p99, latency_ns_p99_9, \
                 measurement)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
            )?;
            insert.execute(params![
                trial.path.to_string(),
                workload,
                settings,
                trial.generator.as_str(),
                trial.replicate,
                trial.position as i64,
                trial.started_unix_ns as i64,
                trial.gap_ns.map(|ns| ns as i64),
                error,
                measured.map(|m| m.verdict.kind.as_str()),
                measured.map(|m| m.iops()),
                measured.map(|m| m.latency.mean),
                measured.map(|m| m.latency.p50 as i64),
                measured.map(|m| m.latency.p99 as i64),
                measured.map(|m| m.latency.p99_9 as i64),
                record,
            ])?;
            let id = transaction.last_insert_rowid();
            measured.map_or(Ok(()), |measurement| details::add(transaction, id, measurement))?;
            checksum::keep(transaction, Kind::Trial, id)
        })
    }

    /// Adds what the trial at a position in the study's order cost one of the hosts, counted from outside
    /// while it ran. The trial has no profile of that host yet. Returns false, and changes nothing, if no
    /// measured trial is at that position.
    ///
    /// # Errors
    /// [`StoreError::Full`], or SQLite's error; then nothing of the profile is there.
    pub fn add_costs(
        &mut self,
        position: u64,
        side: HostSide,
        profile: &CostProfile,
    ) -> Result<bool, StoreError> {
        self.transact(|transaction| match details::measured_at(transaction, position)? {
            Some(trial) => details::add_costs(transaction, trial, side, profile).map(|()| true),
            None => Ok(false),
        })
    }

    /// Adds what the network between the two hosts did by itself before a block.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn add_network(&mut self, baseline: &NetworkBaseline) -> Result<(), StoreError> {
        self.transact(|transaction| details::add_network(transaction, baseline))
    }

    /// What the network between the two hosts did by itself, in the order in which it was measured.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn networks(&self) -> Result<Vec<NetworkBaseline>, StoreError> {
        self.verify(&[Kind::Network])?;
        details::networks(&self.connection).map_err(|error| self.sqlite(error))
    }

    /// Sets how many trials the plan holds now.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn set_planned_trials(&mut self, planned: u64) -> Result<(), StoreError> {
        let set = "UPDATE study SET record = json_set(record, '$.planned_trials', ?1)";
        self.transact(|transaction| {
            transaction.execute(set, [planned as i64])?;
            checksum::keep(transaction, Kind::Study, 1)
        })
    }

    /// Plans to measure these blocks of `trials` trials again, in one transaction. The first repeat of a
    /// store gets the number `first`. A block that has a repeat gets no other.
    ///
    /// # Errors
    /// SQLite's error; then none is planned.
    pub fn plan_repeats(&mut self, blocks: &[u32], first: u32, trials: u64) -> Result<(), StoreError> {
        self.transact(|transaction| repeat::plan(transaction, blocks, first, trials))
    }

    fn repeats(&self) -> Result<Vec<Repeat>, StoreError> {
        repeat::all(&self.connection).map_err(|error| self.sqlite(error))
    }

    /// Notes what happened to the study: a control run, a resumption, a setting changed or restored.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn add_event(&mut self, unix_ns: u64, kind: &str, detail: &str) -> Result<(), StoreError> {
        self.execute("INSERT INTO event VALUES (?1, ?2, ?3)", params![unix_ns as i64, kind, detail])
    }

    /// Events in order: wall time in ns since 1970, kind, detail.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn events(&self) -> Result<Vec<(u64, String, String)>, StoreError> {
        self.all("SELECT unix_ns, kind, detail FROM event ORDER BY rowid", [], |row| {
            Ok((details::count(row, 0)?, row.get(1)?, row.get(2)?))
        })
    }

    /// The positions in the study's order of the trials that are there.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn positions(&self) -> Result<Vec<u64>, StoreError> {
        self.all("SELECT position FROM trial", [], |row| details::count(row, 0))
    }

    /// How many trials nothing protects, because an iopj of before schema 7 wrote them.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn trials_without_checksum(&self) -> Result<u64, StoreError> {
        checksum::trials_without(&self.connection).map_err(|error| self.sqlite(error))
    }

    pub(crate) fn prepare(&self) -> rusqlite::Result<()> {
        // On a file system that cannot do WAL the rollback journal stays: SQLite then answers with that.
        self.connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0))?;
        self.connection.pragma_update(None, "synchronous", "FULL")
    }

    fn identity(&self) -> Result<(i32, i32), StoreError> {
        let pragma = |name| self.connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
        let read = || Ok((pragma("application_id")?, pragma("user_version")?));
        read().map_err(|error| self.sqlite(error))
    }

    /// Runs `work` in one transaction, committed if it succeeds.
    pub(crate) fn transact<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let run = |connection: &mut Connection| {
            let transaction = connection.transaction()?;
            let value = work(&transaction)?;
            transaction.commit().map(|()| value)
        };
        run(&mut self.connection).map_err(|error| self.sqlite(error))
    }

    pub(crate) fn execute(&self, sql: &str, parameters: impl rusqlite::Params) -> Result<(), StoreError> {
        self.connection.execute(sql, parameters).map(|_| ()).map_err(|error| self.sqlite(error))
    }

    /// All rows of a query.
    pub(crate) fn all<T>(
        &self,
        sql: &str,
        parameters: impl rusqlite::Params,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let read = || -> rusqlite::Result<Vec<T>> {
            self.connection.prepare(sql)?.query_map(parameters, row)?.collect()
        };
        read().map_err(|error| self.sqlite(error))
    }

    pub(crate) fn parse<T: serde::de::DeserializeOwned>(
        &self,
        text: &str,
        what: &'static str,
    ) -> Result<T, StoreError> {
        serde_json::from_str(text).map_err(|error| StoreError::record(&self.path, what, error))
    }

    /// The record as JSON, if it can be read back: one that cannot would keep every trial from being read.
    fn readable_json<T>(&self, value: &T, what: &'static str) -> Result<String, StoreError>
    where
        T: serde::Serialize + serde::de::DeserializeOwned,
    {
        let text = json(value, &self.path, what)?;
        match serde_json::from_str::<T>(&text) {
            Ok(_) => Ok(text),
            Err(error) => Err(self.unkeepable(format!("its {what} could not be read back: {error}"))),
        }
    }

    pub(crate) fn unkeepable(&self, what: String) -> StoreError {
        StoreError::Unkeepable { path: self.path.clone(), what }
    }

    pub(crate) fn sqlite(&self, error: rusqlite::Error) -> StoreError {
        StoreError::of_sqlite(&self.path, Some(&self.connection), error)
    }
}

pub(crate) fn json<T: serde::Serialize>(
    value: &T,
    path: &Path,
    what: &'static str,
) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::record(path, what, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Decoder;
    use iopj_record::export;
    use std::time::Duration;

    fn fresh() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(&folder.path().join("test.iopj"), &StudyRecord::default()).unwrap();
        (folder, store)
    }

    fn failed() -> Trial {
        let path = "io_uring/syscall/interrupt".parse().unwrap();
        Trial::new(path, Default::default(), Outcome::Failed("it broke".into()))
    }

    #[test]
    fn a_store_that_another_program_holds_is_busy_and_says_what_to_do() {
        let (_folder, mut store) = fresh();
        let timeout_ms = |store: &Store| {
            store.connection.pragma_query_value(None, "busy_timeout", |row| row.get::<_, i64>(0)).unwrap()
        };
        assert_eq!(timeout_ms(&store), 10_000);
        store.connection.busy_timeout(Duration::ZERO).unwrap();
        let other = Connection::open(store.path()).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let error = store.add(&failed()).unwrap_err();
        assert!(matches!(error, StoreError::Busy(_)), "{error:?}");
        assert!(error.to_string().contains("iopj run --resume"), "{error}");
        other.execute_batch("ROLLBACK").unwrap();
        store.add(&failed()).unwrap();
    }

    #[test]
    fn without_wal_a_trial_is_committed_while_a_reader_decodes() {
        let (_folder, mut store) = fresh();
        store.connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).unwrap();
        store.connection.busy_timeout(Duration::ZERO).unwrap();
        store.add(&failed()).unwrap();
        let reader = Store::open(store.path()).unwrap();
        let (rows, mut decoder) = (reader.rows(0).unwrap(), Decoder::new(store.path()));
        store.add(&Trial { replicate: 1, ..failed() }).unwrap();
        assert_eq!(rows.into_iter().map(|row| decoder.trial(row).unwrap()).collect::<Vec<_>>(), [failed()]);
    }

    #[test]
    fn a_block_is_in_force_until_its_repeat_is_whole() {
        let (_folder, mut store) = fresh();
        let other = "libaio/syscall/interrupt".parse().unwrap();
        // A block has two trials.
        let half = |replicate: u32| Trial { replicate, ..failed() };
        let add = |store: &mut Store, block: u32| {
            store.add(&half(block)).unwrap();
            store.add(&Trial { path: other, ..half(block) }).unwrap();
        };
        let in_force =
            |store: &Store| store.trials().unwrap().iter().map(|trial| trial.replicate).collect::<Vec<_>>();
        add(&mut store, 0);
        add(&mut store, 1);
        // The repeats are blocks 5 and 6: one that is asked for twice is planned once.
        store.plan_repeats(&[1], 5, 2).unwrap();
        store.plan_repeats(&[0, 1], 5, 2).unwrap();
        store.add(&half(5)).unwrap();
        assert_eq!(in_force(&store), [0, 0, 1, 1], "half a repeat replaces nothing");
        assert_eq!(store.study().unwrap().out_of_force(), [0, 1]);
        store.add(&Trial { path: other, ..half(5) }).unwrap();
        assert_eq!(in_force(&store), [0, 0, 5, 5]);
        let study = store.study().unwrap();
        let by = [study.replaced_by(1), study.replaced_by(0)];
        assert_eq!((study.out_of_force(), by), ([2, 0], [Some(5), None]));
        // A repeat is repeated like any other block.
        store.plan_repeats(&[5], 5, 2).unwrap();
        add(&mut store, 7);
        assert_eq!(in_force(&store), [0, 0, 7, 7]);
        let (study, trials) = (store.study().unwrap(), store.all_trials().unwrap());
        assert_eq!((study.out_of_force(), trials.len()), ([4, 0], 8));
        let value = export::json(&study, &trials, &[], export::Detail::Figures);
        let mark = |at: usize| ["in_force", "replaced_by"].map(|key| value["trials"][at][key].clone());
        let marks = serde_json::json!([mark(2), mark(4), mark(6)]);
        assert_eq!(marks, serde_json::json!([[false, 5], [false, 7], [true, null]]));
        let mut csv = Vec::new();
        export::csv(&study, &trials[2..3], &mut csv).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        assert!(csv.contains(",in_force,replaced_by,") && csv.contains(",false,5,"), "{csv}");
    }
}
