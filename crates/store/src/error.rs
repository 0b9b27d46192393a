//! Why a store cannot be used, each with its remedy, and what SQLite's errors mean.

use rusqlite::{Connection, ErrorCode};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum StoreError {
    /// There is no such file.
    #[error("there is no store `{0}`: name one that `iopj run` has written")]
    Missing(PathBuf),
    /// A file of that name is there already.
    #[error(
        "`{0}` already exists: continue it with `iopj run --resume {0}`, or name another file with --store"
    )]
    Exists(PathBuf),
    /// The folder of a new store is not there.
    #[error(
        "the store `{store}` cannot be made, because `{folder}` is not a folder: make it, or name another \
         place by --store"
    )]
    NoFolder { store: PathBuf, folder: PathBuf },
    /// Every name that the study's makes is taken.
    #[error("10,000 stores of this name exist: name another by --store")]
    NoFreeName,
    /// The file is not a store.
    #[error("`{path}` is not an iopj store: {reason}; name one that `iopj run` has written")]
    NotAStore { path: PathBuf, reason: String },
    /// What stands where SQLite keeps its log is no file.
    #[error(
        "`{}` cannot be used with `{}` beside it, which is no file: remove that",
        .path.display(), .beside.display()
    )]
    Beside { path: PathBuf, beside: PathBuf },
    /// What another store has left is where the log of a new one would be.
    #[error(
        "`{}` is of another store, of which it may hold trials: move it away, or name another file than `{}` \
         with --store", .beside.display(), .path.display()
    )]
    Left { path: PathBuf, beside: PathBuf },
    /// The store is of a program that was watched: it holds no study.
    #[error(
        "`{0}` holds what `iopj watch` saw of a program, no study: show it with `iopj report {0}`, or name a \
         store that `iopj run` has written"
    )]
    OfWatch(PathBuf),
    /// The file was written by a newer iopj.
    #[error("`{path}` has schema {found}, this iopj knows schemas up to {known}: use a newer iopj")]
    Newer { path: PathBuf, found: i32, known: i32 },
    /// Another process runs a study into it.
    #[error("`{0}` is in use by a live run: wait for it, or end it")]
    Locked(PathBuf),
    /// A reader or a writer holds SQLite's own lock for longer than the store waits.
    #[error(
        "another program is reading or writing `{0}`: end it, then try again (continue a run that it stopped \
         with `iopj run --resume {0}`)"
    )]
    Busy(PathBuf),
    /// The disk that holds it is full, or its owner's quota is used up.
    #[error(
        "no space is left for `{0}`: the finished trials are kept; free some space, then continue with `iopj \
         run --resume {0}`"
    )]
    Full(PathBuf),
    /// The folder of temporary files has no room for a copy of an older store.
    #[error(
        "no space is left in the folder of temporary files for a copy of `{0}`, which an older iopj wrote: \
         free some there, or name another folder by SQLITE_TMPDIR"
    )]
    NoTemporary(PathBuf),
    /// The disk has no room for a new store.
    #[error("no space is left for the store `{0}`: free some space, or name another place with --store")]
    NoRoom(PathBuf),
    /// The file cannot be made.
    #[error("`{path}` cannot be created: {error}; name a place that you may write to with --store")]
    NotMade { path: PathBuf, error: std::io::Error },
    /// This user may only read it.
    #[error("you may not write `{0}`: copy it to a folder of your own, or run as its owner")]
    ReadOnly(PathBuf),
    /// The operating system refused.
    #[error("`{path}` cannot be opened: {error}; get permission to read it, or name another store")]
    Io { path: PathBuf, error: std::io::Error },
    /// SQLite refused.
    #[error(
        "SQLite cannot use `{path}`: {error}; check its disk and file system, then try again, or use a copy \
         of the file"
    )]
    Sqlite { path: PathBuf, error: rusqlite::Error },
    /// A record in it cannot be read.
    #[error(
        "`{path}` holds a {what} that cannot be read: {error}; another program changed it: name an earlier \
         copy"
    )]
    Record { path: PathBuf, what: &'static str, error: serde_json::Error },
    /// What it holds is not what iopj wrote, by its checksums.
    #[error("`{path}` is damaged: {what} is not as it was written; name an earlier copy, or measure again")]
    Damaged { path: PathBuf, what: String },
    /// A trial holds something that could not be read back, such as NaN.
    #[error(
        "a trial cannot be kept in `{path}`: {what}; please report it with the name of the I/O path, and \
         measure the trial again with `iopj run --resume {path}`"
    )]
    Unkeepable {
        path: PathBuf,
        /// The number or record, and what is wrong with it.
        what: String,
    },
}

impl StoreError {
    pub(crate) fn record(path: &Path, what: &'static str, error: serde_json::Error) -> StoreError {
        StoreError::Record { path: path.to_owned(), what, error }
    }

    /// What an error of SQLite means for `path`. `connection` is the one that failed, if there is one: it
    /// knows the operating system's own error (sqlite.org/c3ref/system_errno.html).
    pub(crate) fn of_sqlite(
        path: &Path,
        connection: Option<&Connection>,
        error: rusqlite::Error,
    ) -> StoreError {
        use rusqlite::Error::{
            FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error,
        };
        let path = path.to_owned();
        // A value that is not of its column's kind: no statement of ours wrote it.
        if matches!(
            error,
            Utf8Error(..)
                | FromSqlConversionFailure(..)
                | InvalidColumnType(..)
                | IntegralValueOutOfRange(..)
        ) {
            return StoreError::NotAStore { path, reason: format!("it is damaged ({error})") };
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full(path),
            Some(ErrorCode::ReadOnly) => StoreError::ReadOnly(path),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy(path),
            Some(ErrorCode::OperationInterrupted) => StoreError::NotAStore {
                path,
                reason: "a query of it does not end, so it is damaged".to_owned(),
            },
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                StoreError::NotAStore { path, reason: "it is damaged or cut short".to_owned() }
            }
            // SQLite says DiskFull for ENOSPC of a write only, not for a quota, a sync or a new file.
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen)
                if connection.is_some_and(has_no_room) =>
            {
                StoreError::Full(path)
            }
            _ => StoreError::Sqlite { path, error },
        }
    }
}

/// True if the operating system last refused this connection for lack of space.
fn has_no_room(connection: &Connection) -> bool {
    // SAFETY: the handle is open for as long as the connection, and the call only reads a field of it.
    let errno = unsafe { rusqlite::ffi::sqlite3_system_errno(connection.handle()) };
    // SQLite may refuse a file without a failed system call: then this is 0, which is no `Errno`.
    [Errno::NOSPC, Errno::DQUOT].map(Errno::raw_os_error).contains(&errno)
}
