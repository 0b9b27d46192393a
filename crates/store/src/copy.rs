//! A store as one file: what is in it and in its log, at one moment, while a run may be writing to it.

use crate::error::StoreError;
use crate::store::Store;
use crate::verify::Checked;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ffi};
use std::path::Path;

/// Where an SQLite file says that it has a log (sqlite.org/fileformat2.html, "File format version numbers").
const VERSIONS: std::ops::Range<usize> = 18..20;
/// It has none.
const WITHOUT_LOG: u8 = 1;

impl Store {
    /// The bytes of a file that holds all that the store at `path` holds now. They are made by SQLite's
    /// backup, so what stands in the log alone is among them.
    ///
    /// # Errors
    /// It is no store, or another program has locked it for longer than a store waits.
    pub fn whole(path: &Path) -> Result<Vec<u8>, StoreError> {
        let store = Store::open_as_it_is(path)?;
        let sqlite = |error| store.sqlite(error);
        let mut copy = Connection::open_in_memory().map_err(sqlite)?;
        // All pages in one step, so the copy is of one moment.
        let done =
            Backup::new(&store.connection, &mut copy).and_then(|backup| backup.step(-1)).map_err(sqlite)?;
        if done != StepResult::Done {
            return Err(sqlite(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_BUSY), None)));
        }
        let mut bytes = copy.serialize("main").map_err(sqlite)?.to_vec();
        if let Some(versions) = bytes.get_mut(VERSIONS) {
            versions.fill(WITHOUT_LOG);
        }
        Ok(bytes)
    }

    /// Refuses a store of no study, or whose pages are damaged.
    ///
    /// # Errors
    /// It is such a store.
    pub fn check(&self) -> Result<(), StoreError> {
        self.check_pages()?;
        self.study().map(drop)
    }

    fn check_pages(&self) -> Result<(), StoreError> {
        let found = self.connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
        let found = found.map_err(|error| self.sqlite(error))?;
        if found != "ok" {
            let reason =
                format!("it is damaged ({})", found.split_whitespace().collect::<Vec<_>>().join(" "));
            return Err(StoreError::NotAStore { path: self.path.clone(), reason });
        }
        Ok(())
    }

    /// Checks the whole file: its pages, and all checksums.
    ///
    /// # Errors
    /// What is damaged.
    pub fn check_all(&self) -> Result<Checked, StoreError> {
        self.check_pages()?;
        self.check_sums()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_log_alone_is_in_the_copy() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let filled = |connection: &Connection| {
            connection.execute("INSERT INTO study VALUES (1, 'n', 't', '{}')", []).map(drop)
        };
        let mut store = crate::create::filled(&at("live"), filled).unwrap();
        store.add_event(7, "resumed", "in the log").unwrap();
        std::fs::copy(at("live"), at("bare")).unwrap();
        std::fs::write(at("copy"), Store::whole(&at("live")).unwrap()).unwrap();
        let events = |name: &str| Store::open(&at(name)).unwrap().events().unwrap().len();
        assert_eq!([events("live"), events("bare"), events("copy")], [1, 0, 1]);
        // Reading it makes no log.
        let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(!names.into_iter().any(|name| name == "copy-wal" || name == "copy-shm"));
    }
}
