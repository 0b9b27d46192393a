//! How a store is made: whole, or not at all.

use crate::checksum::{self, Kind};
use crate::error::StoreError;
use crate::open::connect;
use crate::store::{Store, json};
use crate::{file, schema};
use iopj_record::trial::{StudyRecord, Trial};
use rusqlite::{Connection, params};
use std::io::ErrorKind;
use std::path::Path;

impl Store {
    /// Makes a store for a run and locks it.
    ///
    /// # Errors
    /// [`StoreError::Exists`], or SQLite's error.
    pub fn create(path: &Path, study: &StudyRecord) -> Result<Store, StoreError> {
        named(path, &mut begun(path, study)?)
    }

    /// Makes a store of these trials: all of them are in it, or it is not there.
    ///
    /// # Errors
    /// As for [`Store::create`] and [`Store::add`].
    pub fn create_with(path: &Path, study: &StudyRecord, trials: &[Trial]) -> Result<(), StoreError> {
        free(path)?;
        let connection = begun(path, study)?;
        let mut store = Store { connection, path: path.to_owned(), _lock: None };
        trials.iter().try_for_each(|trial| store.add(trial))?;
        named(path, &mut store.connection).map(drop)
    }
}

/// A store in memory that holds a study.
fn begun(path: &Path, study: &StudyRecord) -> Result<Connection, StoreError> {
    let record = json(study, path, "study")?;
    filled_in_memory(path, |connection| {
        let insert = "INSERT INTO study VALUES (1, ?1, ?2, ?3)";
        connection.execute(insert, params![study.name, study.text, record])?;
        checksum::keep(connection, Kind::Study, 1)
    })
}

/// Makes a store that holds from its beginning what `fill` puts into it, and locks it.
pub(crate) fn filled(
    path: &Path,
    fill: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> Result<Store, StoreError> {
    named(path, &mut filled_in_memory(path, fill)?)
}

fn filled_in_memory(
    path: &Path,
    fill: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> Result<Connection, StoreError> {
    let sqlite = |error| StoreError::of_sqlite(path, None, error);
    let mut connection = Connection::open_in_memory().map_err(sqlite)?;
    schema::migrate(&mut connection, 0).map_err(sqlite)?;
    fill(&connection).map_err(sqlite)?;
    Ok(connection)
}

/// Refuses a name that something has, or beside which a log is left.
fn free(path: &Path) -> Result<(), StoreError> {
    if path.symlink_metadata().is_ok() {
        return Err(StoreError::Exists(path.to_owned()));
    }
    match file::beside(path).into_iter().find(|beside| beside.symlink_metadata().is_ok()) {
        Some(beside) => Err(StoreError::Left { path: path.to_owned(), beside }),
        None => Ok(()),
    }
}

/// Gives a store in memory its name, when it is whole: a crash leaves no partial store.
fn named(path: &Path, whole: &mut Connection) -> Result<Store, StoreError> {
    let io = |error: std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => StoreError::Exists(path.to_owned()),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::NoRoom(path.to_owned()),
        _ => StoreError::NotMade { path: path.to_owned(), error },
    };
    free(path)?;
    let bytes = whole.serialize("main").map_err(|error| StoreError::of_sqlite(path, None, error))?;
    let lock = file::create_whole(path, &bytes).map_err(io)?;
    let named = Store { connection: connect(path)?, path: path.to_owned(), _lock: Some(lock) };
    named.prepare().map_err(|error| {
        let _ = std::fs::remove_file(path);
        match named.sqlite(error) {
            StoreError::Full(path) => StoreError::NoRoom(path),
            other => other,
        }
    })?;
    Ok(named)
}
