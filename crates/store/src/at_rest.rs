//! Stores to which no run writes, for those who read many of them; and what tells two stores apart.

use crate::details;
use crate::error::StoreError;
use crate::open::{check_header, lock};
use crate::store::Store;
use std::path::Path;

impl Store {
    /// Opens a store for reading, as [`Store::open`] does, unless a live run writes to it.
    ///
    /// # Errors
    /// As of [`Store::open`]; [`StoreError::Locked`].
    pub fn open_at_rest(path: &Path) -> Result<Store, StoreError> {
        check_header(path)?;
        // Gone before SQLite opens the file: closing this descriptor later would drop its locks.
        drop(lock(path)?);
        Store::open(path)
    }

    /// Wall time of the first trial's start in ns since 1970; `None` before there is one.
    ///
    /// # Errors
    /// SQLite's error.
    pub fn first_started_unix_ns(&self) -> Result<Option<u64>, StoreError> {
        let first = "SELECT started_unix_ns FROM trial ORDER BY id LIMIT 1";
        Ok(self.all(first, [], |row| details::count(row, 0))?.pop())
    }
}
