//! A store held against its checksums: what was read of it is what was written.

use crate::checksum::{Found, Kind, verified, verified_readings};
use crate::error::StoreError;
use crate::store::Store;
use rusqlite::Connection;

/// How many rows a check found with a checksum, and how many without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Groups of rows, such as a trial, that are as they were written.
    pub sound: u64,
    /// Trials from before there were checksums.
    pub without: u64,
}

impl Store {
    /// Holds what a figure comes from against its checksums, all of it.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], or SQLite's error.
    pub fn check_sums(&self) -> Result<Checked, StoreError> {
        let of_rows = self.verify(&Kind::ALL)?;
        let of_readings = self.verify_readings()?;
        Ok(Checked { sound: of_rows.sound + of_readings, without: of_rows.without })
    }

    /// The same for some kinds.
    pub(crate) fn verify(&self, kinds: &[Kind]) -> Result<Checked, StoreError> {
        let mut checked = Checked::default();
        for kind in kinds {
            let of_kind = self.verify_one(*kind)?;
            checked.sound += of_kind.sound;
            checked.without += if *kind == Kind::Trial { of_kind.without } else { 0 };
        }
        Ok(checked)
    }

    /// The same for one kind; groups of rows of any kind may be without a checksum.
    pub(crate) fn verify_one(&self, kind: Kind) -> Result<Checked, StoreError> {
        // One read transaction: what a live run adds in between is seen whole or not at all.
        match self.in_one_moment(|connection| verified(connection, kind))? {
            Found { sound, without, damaged: None } => Ok(Checked { sound, without }),
            Found { damaged: Some(key), .. } => {
                Err(StoreError::Damaged { path: self.path.clone(), what: kind.in_words(key) })
            }
        }
    }

    /// Holds readings against their checksums; how many chunks there are.
    pub(crate) fn verify_readings(&self) -> Result<u64, StoreError> {
        match self.in_one_moment(verified_readings)? {
            Ok(chunks) => Ok(chunks),
            Err(row) => {
                let what = format!("the readings of its meters from row {row} on");
                Err(StoreError::Damaged { path: self.path.clone(), what })
            }
        }
    }

    fn in_one_moment<T>(
        &self,
        look: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let looked = || {
            // Within a transaction of its own already, there is one moment anyway.
            let moment = match self.connection.is_autocommit() {
                true => Some(self.connection.unchecked_transaction()?),
                false => None,
            };
            let found = look(&self.connection)?;
            moment.map_or(Ok(()), rusqlite::Transaction::finish)?;
            Ok(found)
        };
        looked().map_err(|error| self.sqlite(error))
    }
}
