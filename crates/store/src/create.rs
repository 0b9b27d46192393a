//! How a store is made: whole, or not at all.

use crate::checksum::{self, Kind};
use crate::error::StoreError;
use crate::open::connect;
use crate::record::StudyRecord;
use crate::store::{Store, json};
use crate::{file, schema};
use rusqlite::{Connection, params};
use std::io::ErrorKind;
use std::path::Path;

impl Store {
    /// Makes a store for a run and locks it.
    ///
    /// # Errors
    /// [`StoreError::Exists`], or SQLite's error.
    pub fn create(path: &Path, study: &StudyRecord) -> Result<Store, StoreError> {
        let record = json(study, path, "study")?;
        let insert = "INSERT INTO study VALUES (1, ?1, ?2, ?3)";
        filled(path, |connection| {
            connection.execute(insert, params![study.name, study.text, record])?;
            checksum::keep(connection, Kind::Study, 1)
        })
    }
}

/// Makes a store that holds from its beginning what `fill` puts into it, and locks it.
pub(crate) fn filled(
    path: &Path,
    fill: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> Result<Store, StoreError> {
    let io = |error: std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => StoreError::Exists(path.to_owned()),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::NoRoom(path.to_owned()),
        _ => StoreError::NotMade { path: path.to_owned(), error },
    };
    if let Some(beside) = file::beside(path).into_iter().find(|beside| beside.symlink_metadata().is_ok())
        && path.symlink_metadata().is_err()
    {
        return Err(StoreError::Left { path: path.to_owned(), beside });
    }
    let sqlite = |error| StoreError::of_sqlite(path, None, error);
    // Built in memory and named when it is whole: a crash leaves no partial store.
    let mut connection = Connection::open_in_memory().map_err(sqlite)?;
    schema::migrate(&mut connection, 0).map_err(sqlite)?;
    fill(&connection).map_err(sqlite)?;
    let bytes = connection.serialize("main").map_err(sqlite)?;
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
