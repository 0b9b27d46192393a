//! What `iopj watch` keeps of a program: the record of the whole watch and a row for each interval. Such a
//! store holds no study and no trials, because nothing was asked for.

use crate::checksum::{self, Kind};
use crate::create;
use crate::error::StoreError;
use crate::store::Store;
use iopj_record::watch::{WatchInterval, WatchRecord};
use rusqlite::{OptionalExtension, params};
use std::path::Path;

impl Store {
    /// Makes the store of a watch that has ended. Never replaces a file.
    ///
    /// # Errors
    /// [`StoreError::Exists`], or SQLite's error; then there is no store.
    pub fn create_of_watch(path: &Path, watch: &WatchRecord) -> Result<Store, StoreError> {
        let whole = WatchRecord { intervals: Vec::new(), ..watch.clone() };
        let record = crate::store::json(&whole, path, "watch")?;
        let intervals: Result<Vec<(u64, String)>, StoreError> = watch
            .intervals
            .iter()
            .map(|interval| Ok((interval.end_ns, crate::store::json(interval, path, "interval of a watch")?)))
            .collect();
        let intervals = intervals?;
        create::filled(path, |connection| {
            connection.execute(
                "INSERT INTO watch VALUES (1, ?1, ?2)",
                params![watch.subject.to_string(), record],
            )?;
            let mut insert = connection.prepare("INSERT INTO watch_interval VALUES (?1, ?2)")?;
            for (end_ns, text) in &intervals {
                insert.execute(params![*end_ns as i64, text])?;
            }
            checksum::keep(connection, Kind::Watch, 1)
        })
    }

    /// What the store holds of a watch; `None` for the store of a study.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn watch(&self) -> Result<Option<WatchRecord>, StoreError> {
        self.verify(&[Kind::Watch])?;
        let find = "SELECT record FROM watch";
        let text: Option<String> = self
            .connection
            .query_row(find, [], |row| row.get(0))
            .optional()
            .map_err(|error| self.sqlite(error))?;
        let Some(text) = text else { return Ok(None) };
        let rows: Vec<String> =
            self.all("SELECT record FROM watch_interval ORDER BY end_ns", [], |row| row.get(0))?;
        let intervals: Result<Vec<WatchInterval>, StoreError> =
            rows.iter().map(|text| self.parse(text, "interval of a watch")).collect();
        Ok(Some(WatchRecord { intervals: intervals?, ..self.parse(&text, "watch")? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::watch::{ProgramCounts, WatchEvidence, WatchSubject};
    use iopj_record::trial::StudyRecord;
    use iopj_record::watch::WatchEnd;
    use std::collections::BTreeMap;

    fn record() -> WatchRecord {
        let evidence = WatchEvidence {
            over_ns: 2_000_000_000,
            program: Some(ProgramCounts { switches: u64::MAX, ..ProgramCounts::default() }),
            ..WatchEvidence::default()
        };
        let interval = |end_ns| WatchInterval { end_ns, evidence: evidence.clone(), paths: Vec::new() };
        WatchRecord {
            subject: WatchSubject::Command(vec!["fio".to_owned(), "job".to_owned()]),
            started_unix_ns: 7,
            end: WatchEnd::Exited(3),
            interval_ns: 1_000_000_000,
            followed: String::new(),
            denied: vec!["latencies are not sampled".to_owned()],
            provenance: BTreeMap::new(),
            evidence: evidence.clone(),
            paths: Vec::new(),
            intervals: vec![interval(1_000_000_000), interval(2_000_000_000)],
        }
    }

    #[test]
    fn a_watch_is_read_back_as_it_was_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.iopj");
        drop(Store::create_of_watch(&path, &record()).unwrap());
        assert_eq!(Store::open(&path).unwrap().watch().unwrap(), Some(record()));
        let again = Store::create_of_watch(&path, &record()).unwrap_err();
        assert!(matches!(again, StoreError::Exists(_)), "{again}");
    }

    #[test]
    fn readers_of_studies_are_told_that_it_is_a_watch() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.iopj");
        let store = Store::create_of_watch(&path, &record()).unwrap();
        let error = store.study().unwrap_err().to_string();
        assert!(error.contains("what `iopj watch` saw") && error.contains("iopj report"), "{error}");
        let study = Store::create(&folder.path().join("s.iopj"), &StudyRecord::default()).unwrap();
        assert_eq!(study.watch().unwrap(), None);
    }
}
