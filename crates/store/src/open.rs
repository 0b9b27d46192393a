//! How a store's file is opened: its header, its lock, the connection to it, and an older one's copy in
//! memory.

use crate::error::StoreError;
use crate::{file, schema};
use iopj_core::files::open_regular;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, ffi};
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// How long SQLite waits for another connection's lock: longer than it takes to commit a trial or to read a
/// long study.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest copy of an older store that is kept in memory, in bytes.
const LARGEST_IN_MEMORY: u64 = 128 << 20;
/// The longest text or blob of a store, in bytes.
const LONGEST_VALUE: i32 = 256 << 20;
/// After so many steps of its machine, SQLite asks whether a statement may go on.
const STEPS_A_CALL: i32 = 1_000_000;
/// All statements of a connection together may ask so often, and more by the length of the file: a whole pass
/// over a store takes some steps a byte.
const LEAST_STEPS: u64 = 2_000;
const STEPS_A_BYTE: u64 = 2_000;

/// A copy in memory of the store at `file`, which has schema `from`, brought forward. The file stays as it
/// is.
pub(crate) fn copy_forward(file: &Connection, from: i32) -> rusqlite::Result<Connection> {
    let bytes = std::fs::metadata(file.path().unwrap_or_default()).map_or(0, |file| file.len());
    // An empty name is a file without one, in the folder of temporary files (sqlite.org/inmemorydb.html).
    let mut copy =
        if bytes > LARGEST_IN_MEMORY { Connection::open("")? } else { Connection::open_in_memory()? };
    // All pages in one step, so the copy is of one moment. It waits for another connection's lock as every
    // reader does.
    let done = Backup::new(file, &mut copy)?.step(-1)?;
    if done != StepResult::Done {
        return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_BUSY), None));
    }
    schema::migrate(&mut copy, from)?;
    guard(Path::new(file.path().unwrap_or_default()), &mut copy)?;
    Ok(copy)
}

pub(crate) fn connect(path: &Path) -> Result<Connection, StoreError> {
    // A reader of a store in WAL mode writes its shared index. If it may not, and no log shows a live or dead
    // run, nothing changes the file, and SQLite can do without the index (sqlite.org/uri.html).
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let opened = match file::may_write(path) || Path::new(&log).exists() {
        true => Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        ),
        false => Connection::open_with_flags(
            immutable_uri(path),
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        ),
    };
    let mut connection = opened.map_err(|error| StoreError::of_sqlite(path, None, error))?;
    guard(path, &mut connection).map_err(|error| StoreError::of_sqlite(path, Some(&connection), error))?;
    Ok(connection)
}

/// What SQLite's authors advise for files of others (sqlite.org/security.html), and limits: such a file may
/// be made so that a query of it never ends.
fn guard(path: &Path, connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_VALUE)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
    let (most, mut calls) = (LEAST_STEPS + bytes * STEPS_A_BYTE / STEPS_A_CALL as u64, 0);
    let is_too_long = move || {
        calls += 1;
        calls > most
    };
    connection.progress_handler(STEPS_A_CALL, Some(is_too_long))
}

/// A name that SQLite reads as a URI, with everything but plain characters escaped.
fn immutable_uri(path: &Path) -> String {
    let byte = |byte: &u8| match byte {
        b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(*byte).to_string(),
        other => format!("%{other:02x}"),
    };
    format!("file:{}?immutable=1", path.as_os_str().as_bytes().iter().map(byte).collect::<String>())
}

/// Opens a store's file without waiting, and refuses it where it is none, or where something else stands
/// where SQLite looks for its log: it would be waited for, or followed.
pub(crate) fn check_header(path: &Path) -> Result<(), StoreError> {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let mut file = open_file(path)?;
    let mut header = [0u8; 16];
    if file.read_exact(&mut header).is_err() || &header != MAGIC {
        let reason = "it is not an SQLite file".to_owned();
        return Err(StoreError::NotAStore { path: path.to_owned(), reason });
    }
    for beside in file::beside(path) {
        if beside.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            return Err(StoreError::Beside { path: path.to_owned(), beside });
        }
    }
    Ok(())
}

fn open_file(path: &Path) -> Result<File, StoreError> {
    open_regular(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => StoreError::Missing(path.to_owned()),
        ErrorKind::InvalidInput => StoreError::NotAStore { path: path.to_owned(), reason: error.to_string() },
        _ => StoreError::Io { path: path.to_owned(), error },
    })
}

/// Locks a store for this process, without waiting. The lock goes with the descriptor, even if the process is
/// killed.
pub(crate) fn lock(path: &Path) -> Result<File, StoreError> {
    let file = open_file(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(StoreError::Io { path: path.to_owned(), error }),
    }
}
