//! One SQLite file a study: made, opened, locked for a run, and a transaction a trial.

use crate::record::{Latency, Measurement, Outcome, StudyRecord, Trial};
use crate::{file, schema};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such file.
    #[error("there is no store `{0}`: name one that `iopj run` has written")]
    Missing(PathBuf),
    /// A file of that name is there already.
    #[error("`{0}` exists already: continue it by `iopj run --resume {0}`, or name another file by --store")]
    Exists(PathBuf),
    /// The file is no store.
    #[error("`{path}` is no iopj store: {reason}; name one that `iopj run` has written")]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// What was found instead.
        reason: String,
    },
    /// The file was written by a newer iopj.
    #[error("`{path}` has schema {found}, this iopj knows up to {known}: use a newer iopj")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i32,
        /// The schema of this program.
        known: i32,
    },
    /// Another process runs a study into it.
    #[error("`{0}` is in use by a run that is alive: wait for it, or end it")]
    Locked(PathBuf),
    /// The disk that holds it is full.
    #[error(
        "no space is left for `{0}`: the finished trials are kept; free some space, then continue by `iopj run --resume {0}`"
    )]
    Full(PathBuf),
    /// The disk has no room for a new store.
    #[error("no space is left for a store `{0}`: free some space, or name another place by --store")]
    NoRoom(PathBuf),
    /// The file cannot be made.
    #[error("`{path}` cannot be made: {error}; name a place that you may write by --store")]
    NotMade {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Who runs this may only read it.
    #[error("`{0}` may not be written by you: copy it to a folder of your own, or run as its owner")]
    ReadOnly(PathBuf),
    /// The operating system refused.
    #[error("`{path}` cannot be opened: {error}; ask for permission to it, or name another store")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// SQLite refused.
    #[error("`{path}`: {error}")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Why.
        error: rusqlite::Error,
    },
    /// A record in it cannot be read.
    #[error("`{path}` holds a {what} that cannot be read: {error}")]
    Record {
        /// The file.
        path: PathBuf,
        /// The record.
        what: &'static str,
        /// Why.
        error: serde_json::Error,
    },
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    // Declared, and so closed, before the lock's descriptor: closing any descriptor of the file
    // would drop SQLite's own locks.
    connection: Connection,
    path: PathBuf,
    _lock: Option<File>,
}

impl Store {
    /// Makes a store for a run and locks it.
    ///
    /// # Errors
    /// [`StoreError::Exists`], or what SQLite says.
    pub fn create(path: &Path, study: &StudyRecord) -> Result<Store, StoreError> {
        let io = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => StoreError::Exists(path.to_owned()),
            std::io::ErrorKind::StorageFull => StoreError::NoRoom(path.to_owned()),
            _ => StoreError::NotMade { path: path.to_owned(), error },
        };
        // Built in memory and named when it is whole, so that a death leaves no part of a store.
        let mut connection = Connection::open_in_memory().map_err(|error| sqlite(path, error))?;
        let record = json(study, path, "study")?;
        schema::migrate(&mut connection, 0).map_err(|error| sqlite(path, error))?;
        connection
            .execute("INSERT INTO study VALUES (1, ?1, ?2, ?3)", params![study.name, study.text, record])
            .map_err(|error| sqlite(path, error))?;
        let bytes = connection.serialize("main").map_err(|error| sqlite(path, error))?;
        let lock = file::create_whole(path, &bytes).map_err(io)?;
        let named = Store { connection: connect(path)?, path: path.to_owned(), _lock: Some(lock) };
        named.prepare().map_err(|error| {
            let _ = std::fs::remove_file(path);
            match sqlite(path, error) {
                StoreError::Full(path) => StoreError::NoRoom(path),
                other => other,
            }
        })?;
        Ok(named)
    }

    /// Opens a store for reading. A run that is alive may be writing to it.
    ///
    /// # Errors
    /// The file is missing, no store, or of a newer schema.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        check_header(path)?;
        let mut store = Store { connection: connect(path)?, path: path.to_owned(), _lock: None };
        let (application, version) = store.identity()?;
        if application != schema::APPLICATION_ID {
            let reason = "it is an SQLite file of another program".to_owned();
            return Err(StoreError::NotAStore { path: path.to_owned(), reason });
        }
        if version > schema::VERSION {
            return Err(StoreError::Newer { path: path.to_owned(), found: version, known: schema::VERSION });
        }
        if version < schema::VERSION {
            schema::migrate(&mut store.connection, version).map_err(|error| store.sqlite(error))?;
        }
        Ok(store)
    }

    /// Opens a store to continue its run, and locks it.
    ///
    /// # Errors
    /// Those of [`Store::open`]; [`StoreError::Locked`].
    pub fn open_for_run(path: &Path) -> Result<Store, StoreError> {
        check_header(path)?;
        let lock = lock(path)?;
        if !file::may_write(path) {
            return Err(StoreError::ReadOnly(path.to_owned()));
        }
        let mut store = Store::open(path)?;
        store._lock = Some(lock);
        store.prepare().map_err(|error| store.sqlite(error))?;
        Ok(store)
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
        let text: Option<String> = self
            .connection
            .query_row("SELECT record FROM study", [], |row| row.get(0))
            .optional()
            .map_err(|error| self.sqlite(error))?;
        let Some(text) = text else {
            return Err(StoreError::NotAStore { path: self.path.clone(), reason: "it holds no study".to_owned() });
        };
        self.parse(&text, "study")
    }

    /// Adds a trial with its histograms and series: one transaction, synced to the disk.
    ///
    /// # Errors
    /// [`StoreError::Full`], or what SQLite says; then the trial is absent.
    pub fn add(&mut self, trial: &Trial) -> Result<(), StoreError> {
        let path = self.path.clone();
        let workload = json(&trial.workload, &path, "workload")?;
        let settings = json(&trial.settings, &path, "settings")?;
        let (error, measured) = match &trial.outcome {
            Outcome::Failed(error) => (Some(error), None),
            Outcome::Measured(measurement) => (None, Some(measurement)),
        };
        let record = measured.map(|m| json(&without_series(m), &path, "measurement")).transpose()?;
        let add = |connection: &mut Connection| -> rusqlite::Result<()> {
            let transaction = connection.transaction()?;
            let mut insert = transaction.prepare_cached(
                "INSERT INTO trial (path, workload, settings, generator, replicate, position, started_unix_ns, gap_ns, error,
                 verdict, iops, latency_ns_mean, latency_ns_p50, latency_ns_p99, latency_ns_p99_9, measurement)
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
            drop(insert);
            let id = transaction.last_insert_rowid();
            if let Some(measurement) = measured {
                add_details(&transaction, id, measurement)?;
            }
            transaction.commit()
        };
        add(&mut self.connection).map_err(|error| self.sqlite(error))
    }

    /// Notes what happened to the study: a control run, a resumption, a setting changed or put back.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn add_event(&mut self, unix_ns: u64, kind: &str, detail: &str) -> Result<(), StoreError> {
        let done =
            self.connection.execute("INSERT INTO event VALUES (?1, ?2, ?3)", params![unix_ns as i64, kind, detail]);
        done.map(|_| ()).map_err(|error| self.sqlite(error))
    }

    /// Events in order: wall time in ns since 1970, kind, detail.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn events(&self) -> Result<Vec<(u64, String, String)>, StoreError> {
        let read = || -> rusqlite::Result<Vec<_>> {
            let mut statement = self.connection.prepare("SELECT unix_ns, kind, detail FROM event ORDER BY rowid")?;
            let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?, row.get(2)?)))?;
            rows.collect()
        };
        read().map_err(|error| self.sqlite(error))
    }

    /// All trials in the order in which they ran.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn trials(&self) -> Result<Vec<Trial>, StoreError> {
        let mut statement = self
            .connection
            .prepare(
                "SELECT path, workload, settings, generator, replicate, position, started_unix_ns, gap_ns, error, measurement, id
                 FROM trial ORDER BY id",
            )
            .map_err(|error| self.sqlite(error))?;
        let mut rows = statement.query([]).map_err(|error| self.sqlite(error))?;
        let mut trials = Vec::new();
        while let Some(row) = rows.next().map_err(|error| self.sqlite(error))? {
            trials.push(self.trial(row)?);
        }
        Ok(trials)
    }

    fn trial(&self, row: &rusqlite::Row<'_>) -> Result<Trial, StoreError> {
        let text = |index: usize| row.get::<_, String>(index).map_err(|error| self.sqlite(error));
        let number = |index: usize| row.get::<_, i64>(index).map_err(|error| self.sqlite(error));
        let quoted = |text: String| serde_json::Value::String(text).to_string();
        let error: Option<String> = row.get(8).map_err(|error| self.sqlite(error))?;
        let outcome = match error {
            Some(error) => Outcome::Failed(error),
            None => {
                let mut measurement: Box<Measurement> = self.parse(&text(9)?, "measurement")?;
                self.read_details(number(10)?, &mut measurement).map_err(|error| self.sqlite(error))?;
                Outcome::Measured(measurement)
            }
        };
        Ok(Trial {
            path: self.parse(&quoted(text(0)?), "path")?,
            workload: self.parse(&text(1)?, "workload")?,
            settings: self.parse(&text(2)?, "settings")?,
            generator: self.parse(&quoted(text(3)?), "generator")?,
            replicate: number(4)? as u32,
            position: number(5)? as u64,
            started_unix_ns: number(6)? as u64,
            gap_ns: row.get::<_, Option<i64>>(7).map_err(|error| self.sqlite(error))?.map(|ns| ns as u64),
            outcome,
        })
    }

    fn read_details(&self, id: i64, measurement: &mut Measurement) -> rusqlite::Result<()> {
        let mut histograms = self.connection.prepare_cached("SELECT op, v2 FROM histogram WHERE trial = ?1")?;
        let mut rows = histograms.query([id])?;
        while let Some(row) = rows.next()? {
            let op: String = row.get(0)?;
            let latency = match op.as_str() {
                "read" => measurement.read_latency.as_mut(),
                "write" => measurement.write_latency.as_mut(),
                _ => Some(&mut measurement.latency),
            };
            if let Some(latency) = latency {
                latency.histogram = row.get(1)?;
            }
        }
        let mut slices =
            self.connection.prepare_cached("SELECT end_ns, ios FROM slice WHERE trial = ?1 ORDER BY end_ns")?;
        let rows = slices.query_map([id], |row| {
            Ok(crate::record::Slice { end_ns: row.get::<_, i64>(0)? as u64, ios: row.get::<_, i64>(1)? as u64 })
        })?;
        measurement.series = rows.collect::<rusqlite::Result<_>>()?;
        Ok(())
    }

    fn prepare(&self) -> rusqlite::Result<()> {
        // A file system that cannot do WAL keeps its rollback journal: SQLite then answers with that.
        self.connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0))?;
        self.connection.pragma_update(None, "synchronous", "FULL")
    }

    fn identity(&self) -> Result<(i32, i32), StoreError> {
        let pragma = |name| self.connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
        let read = || Ok((pragma("application_id")?, pragma("user_version")?));
        read().map_err(|error| self.sqlite(error))
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, text: &str, what: &'static str) -> Result<T, StoreError> {
        serde_json::from_str(text).map_err(|error| StoreError::Record { path: self.path.clone(), what, error })
    }

    fn sqlite(&self, error: rusqlite::Error) -> StoreError {
        sqlite(&self.path, error)
    }
}

fn sqlite(path: &Path, error: rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(path),
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly(path),
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StoreError::NotAStore { path, reason: "it is damaged or cut short".to_owned() }
        }
        _ => StoreError::Sqlite { path, error },
    }
}

/// The series is kept as rows of its own.
fn without_series(measurement: &Measurement) -> Measurement {
    Measurement { series: Vec::new(), ..measurement.clone() }
}

fn add_details(transaction: &Connection, id: i64, measurement: &Measurement) -> rusqlite::Result<()> {
    let mut histogram = transaction.prepare_cached("INSERT INTO histogram VALUES (?1, ?2, ?3)")?;
    let latencies: [(&str, Option<&Latency>); 3] = [
        ("all", Some(&measurement.latency)),
        ("read", measurement.read_latency.as_ref()),
        ("write", measurement.write_latency.as_ref()),
    ];
    for (op, latency) in latencies {
        if let Some(latency) = latency {
            histogram.execute(params![id, op, latency.histogram])?;
        }
    }
    let mut slice = transaction.prepare_cached("INSERT INTO slice VALUES (?1, ?2, ?3)")?;
    for part in &measurement.series {
        slice.execute(params![id, part.end_ns as i64, part.ios as i64])?;
    }
    Ok(())
}

fn json<T: serde::Serialize>(value: &T, path: &Path, what: &'static str) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Record { path: path.to_owned(), what, error })
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    // A reader of a store in WAL mode writes its shared index. Where it may not, and no log tells of a
    // run that is alive or died, nothing changes the file, and SQLite can do without the index (sqlite.org/uri.html).
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let opened = match file::may_write(path) || Path::new(&log).exists() {
        true => Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX),
        false => Connection::open_with_flags(
            immutable_uri(path),
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        ),
    };
    opened.map_err(|error| StoreError::Sqlite { path: path.to_owned(), error })
}

/// A name that SQLite reads as a URI: everything but plain characters is escaped.
fn immutable_uri(path: &Path) -> String {
    let byte = |byte: &u8| match byte {
        b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(*byte).to_string(),
        other => format!("%{other:02x}"),
    };
    format!("file:{}?immutable=1", path.as_os_str().as_bytes().iter().map(byte).collect::<String>())
}

fn check_header(path: &Path) -> Result<(), StoreError> {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let mut file = File::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => StoreError::Missing(path.to_owned()),
        _ => StoreError::Io { path: path.to_owned(), error },
    })?;
    let mut header = [0u8; 16];
    match file.read_exact(&mut header) {
        Ok(()) if &header == MAGIC => Ok(()),
        _ => Err(StoreError::NotAStore { path: path.to_owned(), reason: "it is not an SQLite file".to_owned() }),
    }
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let io = |error| StoreError::Io { path: path.to_owned(), error };
    let file = File::open(path).map_err(io)?;
    file::lock(&file).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => StoreError::Locked(path.to_owned()),
        _ => io(error),
    })?;
    Ok(file)
}
